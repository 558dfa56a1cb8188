"""Guards find out whether blocks are what a kernel was planned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_diffuse.kernel.nest import ArrayParam
from dask_diffuse.runtime.counters import Fallback
from dask_diffuse.runtime.parts import Binding, Guard

__all__ = ["BlockGuards", "BoundBlocks", "errstate_allows_kernels"]

_QUIET = frozenset({"warn", "ignore"})


def errstate_allows_kernels() -> bool:
    """Whether NumPy's error state asks for nothing that kernels cannot do.

    Kernels neither raise nor call anything on floating-point errors, and they give no
    warnings: for "warn" and "ignore" alike the result is the same.
    """
    return _QUIET.issuperset(np.geterr().values())


@dataclass(frozen=True, slots=True)
class BoundBlocks:
    """The arguments of a kernel, found good.

    Parameters
    ----------
    arrays
        One for each array of the kernel.
    extents
        Lengths of the loops.
    """

    arrays: list[np.ndarray]
    extents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """A guard with what is asked of it at each call worked out beforehand."""

    slot: int
    item: int | None
    dtype: np.dtype
    ndim: int
    axes: tuple[int, ...]
    broadcast: frozenset[int]
    is_full: bool


class BlockGuards:
    """Checks the blocks of each call, and finds the extents of the loops.

    Parameters
    ----------
    guards
        One for each array of the kernel.
    params
        The arrays of the kernel.
    ndim
        Number of loop axes.
    shape
        Where the extents come from, if not from the arrays.
    """

    def __init__(
        self,
        guards: tuple[Guard, ...],
        params: tuple[ArrayParam, ...],
        ndim: int,
        shape: Binding | None,
    ) -> None:
        self._shape = shape
        self._rows = tuple(
            _Row(
                slot=guard.source.slot,
                item=guard.source.item,
                dtype=guard.dtype,
                ndim=guard.ndim,
                axes=param.axes,
                broadcast=frozenset(guard.broadcast),
                is_full=not guard.broadcast and param.axes == tuple(range(ndim)),
            )
            for guard, param in zip(guards, params, strict=True)
        )
        self._extents_from = _extents_sources(self._rows, ndim)

    def bind(self, blocks: Sequence[Any]) -> BoundBlocks | Fallback:
        """Return the arguments of the kernel, or why the kernel cannot take them."""
        arrays = []
        for row in self._rows:
            block = blocks[row.slot]
            if row.item is not None:
                block = block[row.item]
            if type(block) is not np.ndarray:
                if row.ndim or not isinstance(block, np.generic):
                    return Fallback.BLOCK_TYPE
                # Results without axes are NumPy scalars, as users expect of sums.
                block = np.asarray(block)
            if block.dtype is not row.dtype and block.dtype != row.dtype:
                return Fallback.BLOCK_DTYPE
            if block.ndim != row.ndim:
                return Fallback.BLOCK_NDIM
            arrays.append(block)
        extents = self._extents(blocks, arrays)
        if extents is None or not self._fit(arrays, extents):
            return Fallback.BLOCK_SHAPE
        if 0 in extents:
            return Fallback.BLOCK_EMPTY
        return BoundBlocks(arrays, extents)

    def _extents(
        self, blocks: Sequence[Any], arrays: list[np.ndarray]
    ) -> tuple[int, ...] | None:
        if self._shape is None:
            return tuple(
                [
                    1 if source is None else arrays[source[0]].shape[source[1]]
                    for source in self._extents_from
                ]
            )
        extents = blocks[self._shape.slot]
        known = all(isinstance(extent, (int, np.integer)) for extent in extents)
        return tuple(map(int, extents)) if known else None

    def _fit(self, arrays: list[np.ndarray], extents: tuple[int, ...]) -> bool:
        for row, array in zip(self._rows, arrays, strict=True):
            if row.is_full:
                if array.shape != extents:
                    return False
                continue
            for dim, (length, axis) in enumerate(
                zip(array.shape, row.axes, strict=True)
            ):
                if length != (1 if dim in row.broadcast else extents[axis]):
                    return False
        return True


def _extents_sources(
    rows: tuple[_Row, ...], ndim: int
) -> tuple[tuple[int, int] | None, ...]:
    """For each loop axis, an array and its dimension that is as long as the loop."""
    sources: list[tuple[int, int] | None] = [None] * ndim
    for number, row in enumerate(rows):
        for dim, axis in enumerate(row.axes):
            if dim not in row.broadcast and sources[axis] is None:
                sources[axis] = (number, dim)
    return tuple(sources)
