"""What is known about the blocks of a store: how they are cut, and of which dtype.

The annotations that Dask leaves on layers are right for most layers, and wrong for some
(the chunk steps of reductions, tuples, functions of users). So we propagate ourselves
through every layer that we understand, and believe annotations only at others. Whatever
is believed here is checked again at run time, block by block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.partition import Chunks, Lengths, total_length
from dask_diffuse.ops.dtypes import canonical

__all__ = ["Blocks", "annotated_blocks", "normalize_chunks", "ones", "unknown_chunks"]

_PLAIN = "numpy.ndarray"


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of one store.

    Parameters
    ----------
    chunks
        Tile lengths; None if not even the number of dimensions is known.
    dtype
        None if kernels cannot read the blocks.
    rule, detail
        Why they cannot.
    """

    chunks: Chunks | None
    dtype: np.dtype | None
    rule: Rule = Rule.UNKNOWN_DTYPE
    detail: str = "the dtype of its blocks is not known before run time"

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Length of each axis of the store."""
        return () if self.chunks is None else tuple(map(total_length, self.chunks))


def annotated_blocks(annotations: Mapping[str, Any] | None) -> Blocks:
    """Read what Dask noted about the array that a layer makes."""
    if not annotations or "chunks" not in annotations or "dtype" not in annotations:
        return Blocks(None, None)
    chunks = annotations["chunks"]
    kind = annotations.get("chunk_type", _PLAIN)
    if kind != _PLAIN:
        return Blocks(
            chunks, None, Rule.UNSUPPORTED_BLOCKS, f"its blocks are {kind} objects"
        )
    try:
        return Blocks(chunks, canonical(np.dtype(annotations["dtype"])))
    except UnsupportedError as error:
        return Blocks(chunks, None, Rule.UNSUPPORTED_DTYPE, error.message)
    except TypeError:
        return Blocks(chunks, None)


def normalize_chunks(
    chunks: Sequence[Sequence[float | None]] | None,
    numblocks: Sequence[int] | None,
    known: dict[int, tuple[object, Lengths]],
) -> Chunks | None:
    """Return tile lengths with None where Dask has NaN.

    Parameters
    ----------
    chunks
        As an annotation has them.
    numblocks
        How many blocks there really are, if that is known. Along axes for which the
        annotation says something else nothing is known of the lengths.
    known
        Lengths that were met, by the id of their tuple. What has one tuple of unknown
        lengths has one here, too.
    """
    if chunks is None or (numblocks is not None and len(chunks) != len(numblocks)):
        return None if numblocks is None else unknown_chunks(numblocks)
    normal: list[Lengths] = []
    for axis, lengths in enumerate(chunks):
        if numblocks is not None and len(lengths) != numblocks[axis]:
            normal.append((None,) * numblocks[axis])
            continue
        found = known.get(id(lengths))
        if found is None:
            found = known[id(lengths)] = lengths, _normalize(lengths)
        normal.append(found[1])
    return tuple(normal)


def _normalize(lengths: Sequence[Any]) -> Lengths:
    if type(lengths) is tuple and type(total_length(lengths)) is int:
        # NaN would have made the sum a float, NumPy's integers one of theirs.
        return lengths
    # Only NaN differs from itself.
    return tuple([None if n is None or n != n else int(n) for n in lengths])


@lru_cache(maxsize=256)
def ones(number: int) -> Lengths:
    """Return the lengths of tiles of one element: always the same tuple.

    What is known of a tuple of lengths is known by its id, see `PartitionTable`.
    """
    return (1,) * number


def unknown_chunks(numblocks: Sequence[int]) -> Chunks:
    """Return tile lengths of which nothing is known."""
    return tuple((None,) * number for number in numblocks)
