"""Where each block lies in the whole array, as arg-reductions are told."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np

from dask_diffuse.dask_api import ArrayBlockwiseDep

__all__ = ["ArgOffsets", "BlockStarts"]


class ArgOffsets(ArrayBlockwiseDep):  # type: ignore[misc]
    """The third argument of `dask.array.reductions.arg_chunk`, block by block.

    Computed when a task is made, so that the layer stays as small as it is symbolic.

    Parameters
    ----------
    chunks
        Of the array that is searched.
    axis
        The axis that is searched, or None for all of them. Then the offset comes with
        the shape of the whole array, as positions count through all of it.

    Examples
    --------
    >>> ArgOffsets(((3, 3), (4, 2)), None)[1, 0]
    ((3, 0), (6, 6))
    >>> ArgOffsets(((3, 3), (4, 2)), 1)[1, 1]
    4
    """

    def __init__(self, chunks: tuple[tuple[int, ...], ...], axis: int | None) -> None:
        super().__init__(chunks)
        self.axis = axis

    @cached_property
    def _starts(self) -> list[list[int]]:
        return [list(itertools.accumulate(c, initial=0)) for c in self.chunks]

    def __getitem__(self, index: tuple[int, ...]) -> object:
        if self.axis is not None:
            return self._starts[self.axis][index[self.axis]]
        starts = self._starts
        offset = tuple(axis[i] for axis, i in zip(starts, index, strict=True))
        return offset, tuple(axis[-1] for axis in starts)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return "dask_diffuse.ArgOffsets", self.chunks, self.axis


class BlockStarts(ArrayBlockwiseDep):  # type: ignore[misc]
    """The first number of each block of a range, the index of it, and the length.

    Parameters
    ----------
    chunks
        Of the range.
    start, step
        Of the range, whole numbers.

    Examples
    --------
    >>> BlockStarts(((3, 2),), 10, 2)[1,]
    (array([16]), 3, 2)
    """

    def __init__(
        self, chunks: tuple[tuple[int, ...], ...], start: int, step: int
    ) -> None:
        super().__init__(chunks)
        self.start = start
        self.step = step

    @cached_property
    def _starts(self) -> list[int]:
        return list(itertools.accumulate(self.chunks[0], initial=0))

    def __getitem__(self, index: tuple[int, ...]) -> tuple[np.ndarray, int, int]:
        (number,) = index
        begin = self._starts[number]
        first = np.array([self.start + begin * self.step], np.int64)
        return first, begin, self.chunks[0][number]

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return "dask_diffuse.BlockStarts", self.chunks, self.start, self.step
