"""How a kernel walks over blocks of given shapes and strides.

The walk is planned in Python, once for each pattern of shapes and strides, and kept.
`dask_diffuse.runtime.table` writes it down for the driver.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dask_diffuse.codegen.strip import StripLayout
from dask_diffuse.codegen.words import AccumulatorMode, OperandKind, OperandMode
from dask_diffuse.kernel.nest import Accumulate, Kernel

__all__ = ["Operand", "Reduced", "Walk", "plan_walk"]

_TILE = 1024
"""Elements of a tile of which something is packed."""
_ACROSS_ROWS = 32
"""Rows of a tile where an operand runs across the rows."""
_ACROSS_TILE = 4096
"""Elements of such a tile, if there are few operands: caches like long runs."""
_FEW_OPERANDS = 8
_SHORT_ROW = 256
"""Below this many columns, several rows make a tile."""
_LONG_ROW = 1 << 22
"""Most columns of a tile of which nothing is packed."""
_ACCUMULATED_ROW = 1 << 10
"""Most columns of a row of accumulators that is worked on in place."""
_RING = 4
"""Vectors of a ring of accumulators: as many as it takes until one is stored."""
_FEW_COLUMNS = 32
"""Up to this many columns to reduce, it is better to reduce the rows instead."""


@dataclass(slots=True)
class Operand:
    """An array, or positions, along the axes of the walk.

    Parameters
    ----------
    kind
        One of `OperandKind`.
    itemsize
        Bytes of an element.
    strides
        In bytes; for positions, in what they count.
    mode
        One of `OperandMode`.
    """

    kind: int
    itemsize: int
    strides: list[int]
    mode: int = OperandMode.IN_PLACE


@dataclass(slots=True)
class Reduced:
    """A reduction along the axes of the walk.

    Parameters
    ----------
    reduces
        Which axes it reduces.
    strides
        Of the accumulators of results, in elements.
    total
        Number of results.
    mode
        One of `AccumulatorMode`.
    """

    reduces: list[bool]
    strides: list[int] = field(default_factory=list)
    total: int = 1
    mode: int = AccumulatorMode.IN_PLACE


@dataclass(slots=True)
class Walk:
    """A walk over blocks.

    Parameters
    ----------
    order
        All loop axes, from the outermost to the innermost in memory.
    lengths
        Of the axes of the walk: loop axes, several taken as one where that makes no
        difference, but for those of length 1.
    operands, reduced
        What is read, written and reduced.
    row, column
        The axes of a tile. There may be no row.
    tile_rows, tile_columns
        Its shape.
    columns_first
        Whether the loop over columns is the outermost: all rows are walked for a few
        columns, and then for the next few.
    ring
        Length of a ring of accumulators.
    """

    order: tuple[int, ...]
    lengths: list[int]
    operands: list[Operand]
    reduced: list[Reduced]
    ring: int
    row: int | None = None
    column: int = 0
    tile_rows: int = 1
    tile_columns: int = 1
    columns_first: bool = False

    def loops(self) -> list[tuple[int, int]]:
        """Return the axis of each loop around tiles, and how often it is run.

        The loop over rows may be that of an axis -1, which is not there.
        """
        loops = [
            (axis, length)
            for axis, length in enumerate(self.lengths)
            if axis not in (self.row, self.column)
        ]
        rows = 1 if self.row is None else self.lengths[self.row]
        row = -1 if self.row is None else self.row
        loops.append((row, -(-rows // self.tile_rows)))
        columns = -(-self.lengths[self.column] // self.tile_columns)
        loops.insert(0 if self.columns_first else len(loops), (self.column, columns))
        return loops

    def step(self, strides: list[int], axis: int) -> int:
        """Return how far a loop takes an operand at each turn."""
        if axis < 0:
            return 0
        if axis == self.row:
            return strides[axis] * self.tile_rows
        if axis == self.column:
            return strides[axis] * self.tile_columns
        return strides[axis]

    def inner(self, reduction: Reduced, loops: list[tuple[int, int]]) -> int:
        """Return the first of the innermost loops that are all reduced."""
        if (
            reduction.mode == AccumulatorMode.TILE
            and reduction.reduces[self.column]
            and self.row is not None
            and not reduction.reduces[self.row]
            and self.tile_columns < self.lengths[self.column]
        ):
            # The last tile of a row has fewer columns, and so its elements lie
            # elsewhere: each tile is folded by itself.
            return len(loops)
        first = len(loops)
        while first and (
            loops[first - 1][1] == 1 or reduction.reduces[loops[first - 1][0]]
        ):
            first -= 1
        return first


def plan_walk(
    kernel: Kernel,
    layout: StripLayout,
    arrays: Sequence[np.ndarray],
    extents: tuple[int, ...],
) -> Walk:
    """Return the walk for some arrays.

    Parameters
    ----------
    kernel, layout
        What is run.
    arrays
        Of which shapes and strides matter.
    extents
        Length of each loop axis.
    """
    walk = _collapsed(kernel, layout, arrays, extents)
    _choose_tile(walk)
    _place_operands(walk)
    _place_accumulators(walk)
    return walk


def _collapsed(
    kernel: Kernel,
    layout: StripLayout,
    arrays: Sequence[np.ndarray],
    extents: tuple[int, ...],
) -> Walk:
    """Return a walk whose axes are as few and as long as they can be."""
    operands = [
        Operand(OperandKind.INPUT, a.itemsize, _input_strides(a, p.axes, extents))
        for a, p in zip(arrays, kernel.arrays, strict=True)
    ]
    order = _memory_order(operands, extents)
    operands += [
        Operand(OperandKind.RAMP, 8, _ramp_strides(axes, extents))
        for axes in layout.ramps
    ]
    operands += [
        Operand(
            OperandKind.OUTPUT,
            dtype.itemsize,
            _packed_strides(dtype.itemsize, order, extents),
        )
        for dtype in layout.outputs
    ]
    reduced = [
        Reduced([axis in statement.axes for axis in range(len(extents))])
        for statement in kernel.statements
        if isinstance(statement, Accumulate)
    ]
    groups: list[list[int]] = []
    for axis in order:
        if extents[axis] == 1:
            continue
        if groups and _are_one(groups[-1][-1], axis, extents, operands, reduced):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    lengths = [math.prod(extents[a] for a in group) for group in groups] or [1]
    for operand in operands:
        alone = [0 if operand.kind == OperandKind.RAMP else operand.itemsize]
        operand.strides = [operand.strides[group[-1]] for group in groups] or alone
    for reduction in reduced:
        reduces = [reduction.reduces[group[-1]] for group in groups] or [True]
        reduction.reduces = reduces
        step = 1
        for length, gone in zip(reversed(lengths), reversed(reduces), strict=True):
            reduction.strides.insert(0, 0 if gone else step)
            step *= 1 if gone else length
        reduction.total = step
    return Walk(order, lengths, operands, reduced, ring=_RING * layout.lanes)


def _are_one(
    outer: int,
    inner: int,
    extents: tuple[int, ...],
    operands: list[Operand],
    reduced: list[Reduced],
) -> bool:
    """Whether everything walks two neighboring axes as if they were one."""
    return all(
        operand.strides[outer] == operand.strides[inner] * extents[inner]
        for operand in operands
    ) and all(
        reduction.reduces[outer] == reduction.reduces[inner] for reduction in reduced
    )


def _choose_tile(walk: Walk) -> None:
    """Choose the two axes of a tile, and its shape."""
    lengths = walk.lengths
    walk.column = len(lengths) - 1
    walk.row = walk.column - 1 if walk.column else None
    columns = lengths[walk.column]
    across = _axis_across(walk)
    if walk.row is not None and _has_few_to_reduce(walk):
        walk.row, walk.column = walk.column, walk.row
        walk.columns_first = True
        walk.tile_columns = min(lengths[walk.column], _TILE)
    elif across is not None:
        walk.row = across
        tile = _ACROSS_TILE if len(walk.operands) <= _FEW_OPERANDS else _TILE
        walk.tile_rows = min(lengths[across], _ACROSS_ROWS)
        walk.tile_columns = min(columns, tile // walk.tile_rows)
    elif walk.row is None or columns >= _SHORT_ROW:
        walk.tile_columns = min(columns, _strip_length(walk))
        # Accumulators stay in the cache while all rows are added to them.
        walk.columns_first = bool(walk.reduced) and not any(
            reduction.reduces[walk.column] for reduction in walk.reduced
        )
    else:
        walk.tile_rows = min(lengths[walk.row], max(1, _TILE // columns))
        walk.tile_columns = columns


def _has_few_to_reduce(walk: Walk) -> bool:
    """Whether the columns are reduced, are few, and the rows are many and are not."""
    row, column = walk.row, walk.column
    return (
        row is not None
        and bool(walk.reduced)
        and walk.lengths[column] <= _FEW_COLUMNS
        and walk.lengths[row] > 2 * walk.lengths[column]
        and all(r.reduces[column] and not r.reduces[row] for r in walk.reduced)
    )


def _axis_across(walk: Walk) -> int | None:
    """Return an axis along which an input's elements are closer than in the row."""
    for operand in walk.operands:
        along = abs(operand.strides[walk.column])
        if operand.kind != OperandKind.INPUT or along <= operand.itemsize:
            continue
        for axis, stride in enumerate(operand.strides):
            if 0 < abs(stride) < along:
                return axis
    return None


def _strip_length(walk: Walk) -> int:
    """Return how many columns of one row make a tile."""
    longest = _LONG_ROW
    for operand in walk.operands:
        stride = operand.strides[walk.column]
        is_ramp = operand.kind == OperandKind.RAMP
        if stride and (is_ramp or stride != operand.itemsize):
            longest = min(longest, _TILE)
    for reduction in walk.reduced:
        if not reduction.reduces[walk.column]:
            longest = min(longest, _ACCUMULATED_ROW)
    return longest


def _place_operands(walk: Walk) -> None:
    single = walk.tile_rows == 1
    columns = walk.tile_columns
    whole = columns == walk.lengths[walk.column]
    for operand in walk.operands:
        column = operand.strides[walk.column]
        row = 0 if walk.row is None else operand.strides[walk.row]
        rows_follow = single or (whole and row == columns * column)
        is_ramp = operand.kind == OperandKind.RAMP
        if column == operand.itemsize and rows_follow and not is_ramp:
            operand.mode = OperandMode.IN_PLACE
        elif column == 0 and (single or row == 0):
            operand.mode = OperandMode.SPREAD
        else:
            operand.mode = OperandMode.PACKED


def _place_accumulators(walk: Walk) -> None:
    single = walk.tile_rows == 1
    size = walk.tile_rows * walk.tile_columns
    for reduction in walk.reduced:
        if not reduction.reduces[walk.column]:
            reduction.mode = AccumulatorMode.TILE
            if single:
                reduction.mode = (
                    AccumulatorMode.COLUMNS
                    if _is_done_at_once(walk, reduction)
                    else AccumulatorMode.IN_PLACE
                )
            continue
        reduces_row = walk.row is not None and reduction.reduces[walk.row]
        is_ring = (single or reduces_row) and size >= walk.ring
        reduction.mode = AccumulatorMode.RING if is_ring else AccumulatorMode.TILE


def _is_done_at_once(walk: Walk, reduction: Reduced) -> bool:
    """Whether no loop around those that are reduced is reduced too."""
    loops = walk.loops()
    outer = loops[: walk.inner(reduction, loops)]
    return not any(count > 1 and reduction.reduces[axis] for axis, count in outer)


def _input_strides(
    array: np.ndarray, axes: tuple[int, ...], extents: tuple[int, ...]
) -> list[int]:
    strides = [0] * len(extents)
    for length, stride, axis in zip(array.shape, array.strides, axes, strict=True):
        # A dimension of length 1 is broadcast.
        if length != 1:
            strides[axis] += stride
    return strides


def _ramp_strides(axes: tuple[int, ...], extents: tuple[int, ...]) -> list[int]:
    strides = [0] * len(extents)
    step = 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= extents[axis]
    return strides


def _packed_strides(
    itemsize: int, order: tuple[int, ...], extents: tuple[int, ...]
) -> list[int]:
    strides = [0] * len(extents)
    for axis in reversed(order):
        strides[axis] = itemsize
        itemsize *= extents[axis]
    return strides


def _memory_order(inputs: list[Operand], extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return the loop axes from the outermost to the innermost in memory.

    That of the program, unless more of the inputs lie in another order.
    """
    natural = tuple(range(len(extents)))
    orders = {natural: 0}
    for operand in inputs:
        if all(operand.strides[a] or extents[a] == 1 for a in natural):
            sizes = [-abs(stride) for stride in operand.strides]
            by_stride = sorted(natural, key=sizes.__getitem__)
            orders.setdefault(tuple(by_stride), 0)
    if len(orders) == 1:
        return natural

    def num_agreeing(order: tuple[int, ...]) -> int:
        return sum(_lies_in_order(o.strides, order, extents) for o in inputs)

    return max(orders, key=num_agreeing)


def _lies_in_order(
    strides: list[int], order: tuple[int, ...], extents: tuple[int, ...]
) -> bool:
    sizes = [abs(strides[a]) for a in order if strides[a] and extents[a] > 1]
    return all(x >= y for x, y in itertools.pairwise(sizes))
