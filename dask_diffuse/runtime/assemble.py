"""Blocks from results of a kernel: the very objects that the host's tasks return."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dask_diffuse.runtime.parts import Output

__all__ = ["assemble"]


def assemble(
    output: Output,
    results: Sequence[np.ndarray],
    blocks: Sequence[Any],
    extents: tuple[int, ...],
) -> Any:
    """Return one block.

    Parameters
    ----------
    output
        How it is put together.
    results
        All results of the kernel.
    blocks
        The arguments of the call.
    extents
        Lengths of the loops.
    """
    parts = [results[position] for position in output.results]
    match output.form:
        case "array":
            return parts[0]
        case "mean":
            total = parts[0]
            return {"n": _count(output, total.shape, extents), "total": total}
        case "nanmean":
            return {"n": parts[0].astype(output.dtype, copy=False), "total": parts[1]}
        case "moments" | "nanmoments":
            count, total, squares = parts
            # One more axis for the order of the moment: here only the second.
            return {"total": total, "n": count, "M": squares[..., np.newaxis]}
        case "arg":
            return _arg(output, parts[0], parts[1], blocks, extents)
        case form:
            raise ValueError(f"no block has the form {form!r}")


def _count(
    output: Output, shape: tuple[int, ...], extents: tuple[int, ...]
) -> np.ndarray:
    """As `dask.array.numel` counts: one number, seen as an array of the right shape."""
    count = math.prod(extents[axis] for axis in output.axes)
    return np.broadcast_to(np.array(count, dtype=output.dtype), shape)


def _arg(
    output: Output,
    values: np.ndarray,
    positions: np.ndarray,
    blocks: Sequence[Any],
    extents: tuple[int, ...],
) -> np.ndarray:
    """As `dask.array.reductions.arg_chunk`: positions in the whole array."""
    assert output.offset is not None
    offset = blocks[output.offset]
    if isinstance(offset, tuple):
        starts, total_shape = offset
        within = np.unravel_index(positions.ravel()[0], extents)
        index = tuple(int(s) + int(i) for s, i in zip(starts, within, strict=True))
        positions = np.full(
            positions.shape, np.ravel_multi_index(index, total_shape), np.intp
        )
    else:
        positions = positions + offset
    dtype = np.dtype([("vals", values.dtype), ("arg", positions.dtype)])
    block = np.empty(values.shape, dtype)
    block["vals"] = values
    block["arg"] = positions
    return block
