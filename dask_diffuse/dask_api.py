"""The only door to names of dask that are not part of its public interface.

Each is described where it enters, so that a new release of dask means reading one
file. Nothing here changes dask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import dask
from dask._task_spec import (
    Alias,
    DataNode,
    GraphNode,
    Task,
    TaskRef,
    convert_legacy_graph,
    fuse_linear_task_spec,
)
from dask._task_spec import _execute_subgraph as execute_subgraph
from dask.array import chunk as array_chunk
from dask.array.core import _elemwise_handle_where as elemwise_where
from dask.array.core import _enforce_dtype as enforce_dtype
from dask.array.core import _pass_extra_kwargs as pass_extra_kwargs
from dask.array.core import finalize, load_store_chunk
from dask.array.optimization import GETTERS
from dask.array.optimization import _optimize_slices as optimize_slices
from dask.array.optimization import optimize as optimize_array_graph
from dask.array.reductions import (
    _nanmax_skip as nanmax_skip,
)
from dask.array.reductions import (
    _nanmin_skip as nanmin_skip,
)
from dask.array.reductions import (
    _sqrt as sqrt_block,
)
from dask.array.reductions import (
    arg_chunk,
    chunk_max,
    chunk_min,
    mean_chunk,
    moment_chunk,
    nannumel,
    numel,
)
from dask.array.routines import _asarray_isnull as isnull_block
from dask.array.routines import _select as select_blocks
from dask.array.wrap import _broadcast_trick_inner
from dask.blockwise import (
    Blockwise,
    BlockwiseDep,
    blockwise_token,
    optimize_blockwise,
)
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from dask.layers import ArrayBlockwiseDep, ArrayChunkShapeDep
from tlz import compose, curry  # type: ignore[import-untyped, unused-ignore]

from dask_diffuse.errors import VersionError

__all__ = [
    "Alias",
    "ArrayBlockwiseDep",
    "ArrayChunkShapeDep",
    "Blockwise",
    "BlockwiseDep",
    "Compose",
    "DataNode",
    "GETTERS",
    "GraphNode",
    "HighLevelGraph",
    "Key",
    "Layer",
    "MaterializedLayer",
    "SUPPORTED_DASK",
    "Task",
    "TaskRef",
    "arg_chunk",
    "array_chunk",
    "blockwise_token",
    "check_dask_version",
    "chunk_max",
    "chunk_min",
    "convert_legacy_graph",
    "create_blocks",
    "curry",
    "elemwise_where",
    "enforce_dtype",
    "execute_subgraph",
    "finalize",
    "flatten_keys",
    "fuse_linear_task_spec",
    "isnull_block",
    "load_store_chunk",
    "mean_chunk",
    "moment_chunk",
    "nanmax_skip",
    "nanmin_skip",
    "nannumel",
    "numel",
    "optimize_array_graph",
    "optimize_blockwise",
    "optimize_slices",
    "pass_extra_kwargs",
    "select_blocks",
    "sqrt_block",
]

Key: TypeAlias = Any
"""A key of a graph: a string, or a tuple of a name and the indices of a block."""

Compose: Any = type(compose(repr, repr))
"""The type of what `toolz.compose` returns."""

create_blocks: Any = _broadcast_trick_inner.func
"""What ``ones``, ``zeros``, ``full`` and ``empty`` call for each block: the function of
NumPy, the shape, and a meta array. Blocks are one element, seen as the whole."""

SUPPORTED_DASK = ("2026.7.1", "2026.9")
"""The oldest release that works, and the first that has not been tried."""


def check_dask_version(version: str | None = None) -> None:
    """Refuse a release of dask whose graphs we may misread.

    Parameters
    ----------
    version
        Of dask; the installed one by default.

    Raises
    ------
    VersionError
        With the range that works and what to install.

    Examples
    --------
    >>> check_dask_version("2026.8.0")
    >>> check_dask_version("2020.1.0")
    Traceback (most recent call last):
        ...
    dask_diffuse.errors.VersionError: dask 2020.1.0 is installed, ...
    """
    version = dask.__version__ if version is None else version
    oldest, first_untried = SUPPORTED_DASK
    if not _release(oldest) <= _release(version) < _release(first_untried):
        raise VersionError("dask", version, f">={oldest},<{first_untried}")


def _release(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


_NESTS = frozenset({list, set, frozenset})


def flatten_keys(keys: object) -> Iterator[Key]:
    """Yield the keys in nested lists, as `__dask_keys__` gives them.

    Examples
    --------
    >>> list(flatten_keys([[("x", 0), ("x", 1)], "total"]))
    [('x', 0), ('x', 1), 'total']
    """
    if isinstance(keys, (list, set, frozenset)):
        if _NESTS.isdisjoint(map(type, keys)):
            # At once, since there may be a hundred thousand of them.
            yield from keys
            return
        for element in keys:
            yield from flatten_keys(element)
    else:
        yield keys
