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
from dask.array.core import finalize
from dask.array.optimization import _optimize_slices as optimize_slices
from dask.array.optimization import optimize as optimize_array_graph
from dask.blockwise import (
    Blockwise,
    BlockwiseDep,
    blockwise_token,
    optimize_blockwise,
)
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer
from dask.layers import ArrayBlockwiseDep, ArrayChunkShapeDep

from dask_diffuse.errors import VersionError

__all__ = [
    "Alias",
    "ArrayBlockwiseDep",
    "ArrayChunkShapeDep",
    "Blockwise",
    "BlockwiseDep",
    "DataNode",
    "GraphNode",
    "HighLevelGraph",
    "Key",
    "Layer",
    "MaterializedLayer",
    "SUPPORTED_DASK",
    "Task",
    "TaskRef",
    "blockwise_token",
    "check_dask_version",
    "convert_legacy_graph",
    "finalize",
    "flatten_keys",
    "fuse_linear_task_spec",
    "optimize_array_graph",
    "optimize_blockwise",
    "optimize_slices",
]

Key: TypeAlias = Any
"""A key of a graph: a string, or a tuple of a name and the indices of a block."""

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


def flatten_keys(keys: object) -> Iterator[Key]:
    """Yield the keys in nested lists, as `__dask_keys__` gives them.

    Examples
    --------
    >>> list(flatten_keys([[("x", 0), ("x", 1)], "total"]))
    [('x', 0), ('x', 1), 'total']
    """
    if isinstance(keys, (list, set, frozenset)):
        for element in keys:
            yield from flatten_keys(element)
    else:
        yield keys
