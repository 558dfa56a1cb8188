"""How a kernel walks over blocks of given shapes and strides.

The walk is found in Python, once for each pattern of shapes and strides, and kept: it
is the table of words that the driver reads (see `dask_diffuse.codegen.driver`), but for
addresses, which are filled in at each call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dask_diffuse.codegen.driver import (
    MAX_PLANES,
    AccumulatorMode,
    OperandKind,
    OperandMode,
    Table,
)
from dask_diffuse.codegen.strip import StripLayout
from dask_diffuse.kernel.nest import Accumulate, Assign, Kernel

__all__ = ["Functions", "Result", "Walk", "plan_walk"]

_TILE = 1024
"""Elements of a tile of which something is packed."""
_SQUARE = 32
"""Rows and columns of a tile where an operand runs across the rows."""
_SHORT_ROW = 256
"""Below this many columns, several rows make a tile."""
_LONG_ROW = 1 << 22
_ACCUMULATED_ROW = 1 << 15
"""Most columns of a row of accumulators that is worked on in place."""
_ALIGN = 64

Functions = dict[str, int]
"""Addresses of the functions of a kernel."""


@dataclass(frozen=True, slots=True)
class Result:
    """An array to be made.

    Parameters
    ----------
    shape
        In memory order.
    dtype
        Of its elements.
    order
        How to transpose it, or None.
    word
        Where in the table its address goes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    order: tuple[int, ...] | None
    word: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The table for one pattern of shapes and strides.

    Parameters
    ----------
    table
        The words.
    inputs
        Words that take the addresses of the arrays.
    results
        The arrays to make, in the order of the statements.
    scratch_words, scratch_size
        Words that are offsets in scratch memory, and how many bytes of it are needed.
    kept_words, kept_size
        The same for the accumulators of results.
    """

    table: np.ndarray
    inputs: tuple[int, ...]
    results: tuple[Result, ...]
    scratch_words: np.ndarray
    scratch_size: int
    kept_words: np.ndarray
    kept_size: int


@dataclass(slots=True)
class _Operand:
    kind: int
    itemsize: int
    strides: list[int]
    mode: int = OperandMode.IN_PLACE


@dataclass(slots=True)
class _Reduced:
    """A reduction along the axes of the walk."""

    number: int
    reduces: list[bool]
    strides: list[int] = field(default_factory=list)
    total: int = 1
    mode: int = AccumulatorMode.IN_PLACE


def plan_walk(
    kernel: Kernel,
    layout: StripLayout,
    functions: Functions,
    arrays: Sequence[np.ndarray],
    extents: tuple[int, ...],
) -> Walk:
    """Return the walk for some arrays.

    Parameters
    ----------
    kernel, layout, functions
        What is run.
    arrays
        Of which shapes and strides matter.
    extents
        Length of each loop axis.
    """
    return _Planner(kernel, layout, functions, arrays, extents).plan()


class _Planner:
    def __init__(
        self,
        kernel: Kernel,
        layout: StripLayout,
        functions: Functions,
        arrays: Sequence[np.ndarray],
        extents: tuple[int, ...],
    ) -> None:
        self._kernel = kernel
        self._layout = layout
        self._functions = functions
        self._extents = extents
        self._inputs = [
            _Operand(OperandKind.INPUT, a.itemsize, _input_strides(a, p.axes, extents))
            for a, p in zip(arrays, kernel.arrays, strict=True)
        ]
        self._order = _memory_order(self._inputs, extents)

    def plan(self) -> Walk:
        self._collapse()
        self._choose_tile()
        self._place_operands()
        self._place_accumulators()
        return self._write()

    def _collapse(self) -> None:
        """Make one axis of neighbors that every operand walks as one."""
        extents = self._extents
        ramps = [
            _Operand(OperandKind.RAMP, 8, _ramp_strides(axes, extents))
            for axes in self._layout.ramps
        ]
        outputs = [
            _Operand(
                OperandKind.OUTPUT,
                dtype.itemsize,
                _packed_strides(dtype.itemsize, self._order, extents),
            )
            for dtype in self._layout.outputs
        ]
        operands = [*self._inputs, *ramps, *outputs]
        accumulates = [
            s for s in self._kernel.statements if isinstance(s, Accumulate)
        ]
        reduced = []
        for number, statement in enumerate(accumulates):
            flags = [axis in statement.axes for axis in range(len(extents))]
            reduced.append(_Reduced(number, flags))
        groups: list[list[int]] = []
        for axis in self._order:
            if extents[axis] == 1:
                continue
            if groups and all(
                o.strides[groups[-1][-1]] == o.strides[axis] * extents[axis]
                for o in operands
            ) and all(r.reduces[groups[-1][-1]] == r.reduces[axis] for r in reduced):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        self._lengths = [math.prod(extents[a] for a in group) for group in groups]
        for operand in operands:
            operand.strides = [operand.strides[group[-1]] for group in groups]
        for reduction in reduced:
            reduction.reduces = [reduction.reduces[group[-1]] for group in groups]
        if not groups:
            self._lengths = [1]
            for operand in operands:
                operand.strides = [operand.itemsize]
                if operand.kind == OperandKind.RAMP:
                    operand.strides = [0]
            for reduction in reduced:
                reduction.reduces = [True]
        self._operands, self._reduced = operands, reduced
        for reduction in reduced:
            step = 1
            strides = []
            for length, gone in zip(
                reversed(self._lengths), reversed(reduction.reduces), strict=True
            ):
                strides.append(0 if gone else step)
                step *= 1 if gone else length
            reduction.strides = strides[::-1]
            reduction.total = step

    def _choose_tile(self) -> None:
        """Choose the two axes of a tile, and its shape."""
        lengths = self._lengths
        self._column = len(lengths) - 1
        self._row: int | None = self._column - 1 if self._column else None
        columns = lengths[self._column]
        across = self._across()
        if across is not None:
            self._row = across
            self._tile_rows = min(lengths[across], _SQUARE)
            self._tile_columns = min(columns, _TILE // self._tile_rows)
            return
        if self._row is None or columns >= _SHORT_ROW:
            self._tile_rows, self._tile_columns = 1, min(columns, self._strip_length())
        else:
            self._tile_rows = min(lengths[self._row], max(1, _TILE // columns))
            self._tile_columns = columns

    def _across(self) -> int | None:
        """Return an axis along which an input's elements are closer than in the row."""
        for operand in self._inputs:
            along = abs(operand.strides[self._column])
            if along <= operand.itemsize:
                continue
            for axis, stride in enumerate(operand.strides):
                if 0 < abs(stride) < along:
                    return axis
        return None

    def _strip_length(self) -> int:
        """Return how many columns of one row make a tile."""
        longest = _LONG_ROW
        for operand in self._operands:
            if operand.strides[self._column] not in (0, operand.itemsize) or (
                operand.kind == OperandKind.RAMP and operand.strides[self._column]
            ):
                longest = min(longest, _TILE)
        for reduction in self._reduced:
            if not reduction.reduces[self._column]:
                longest = min(longest, _ACCUMULATED_ROW)
        return longest

    def _place_operands(self) -> None:
        single = self._tile_rows == 1
        columns = self._tile_columns
        whole = columns == self._lengths[self._column]
        for operand in self._operands:
            column = operand.strides[self._column]
            row = 0 if self._row is None else operand.strides[self._row]
            rows_follow = single or (whole and row == columns * column)
            if operand.kind != OperandKind.RAMP and (
                column == operand.itemsize and rows_follow
            ):
                operand.mode = OperandMode.IN_PLACE
            elif column == 0 and (single or row == 0):
                operand.mode = OperandMode.SPREAD
            else:
                operand.mode = OperandMode.PACKED

    def _place_accumulators(self) -> None:
        single = self._tile_rows == 1
        size = self._tile_rows * self._tile_columns
        for reduction in self._reduced:
            reduces_row = self._row is not None and reduction.reduces[self._row]
            if reduction.reduces[self._column]:
                along = single or reduces_row
                is_long = size >= self._ring
                mode = (
                    AccumulatorMode.RING if along and is_long else AccumulatorMode.TILE
                )
            else:
                mode = AccumulatorMode.IN_PLACE
                if not single:
                    mode = AccumulatorMode.TILE
            reduction.mode = mode

    @property
    def _ring(self) -> int:
        return 8 * self._layout.lanes

    def _loops(self) -> list[tuple[int, int]]:
        """Return the axis of each loop around tiles, and how often it is run."""
        loops = [
            (axis, length)
            for axis, length in enumerate(self._lengths)
            if axis not in (self._row, self._column)
        ]
        row = -1 if self._row is None else self._row
        rows = 1 if self._row is None else self._lengths[self._row]
        loops.append((row, -(-rows // self._tile_rows)))
        columns = -(-self._lengths[self._column] // self._tile_columns)
        loops.append((self._column, columns))
        return loops

    def _step(self, strides: list[int], axis: int) -> int:
        if axis < 0:
            return 0
        tile = 1
        if axis == self._row:
            tile = self._tile_rows
        elif axis == self._column:
            tile = self._tile_columns
        return strides[axis] * tile

    def _inner(self, reduction: _Reduced, loops: list[tuple[int, int]]) -> int:
        """Return the first of the innermost loops that are all reduced."""
        if (
            reduction.mode == AccumulatorMode.TILE
            and reduction.reduces[self._column]
            and self._row is not None
            and not reduction.reduces[self._row]
            and loops[-1][1] > 1
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

    def _write(self) -> Walk:
        return _TableWriter(self, self._loops()).write()


class _TableWriter:
    """Writes a walk as a table."""

    def __init__(self, planner: _Planner, loops: list[tuple[int, int]]) -> None:
        self._p = planner
        self._loops = loops
        self._scratch = 0
        self._scratch_words: list[int] = []
        self._kept = 0
        self._kept_words: list[int] = []
        num_entries = len(planner._operands) + len(planner._reduced)
        self._loops_at = Table.HEADER
        self._operands_at = self._loops_at + 2 * len(loops)
        self._steps_at = self._operands_at + Table.OPERAND * len(planner._operands)
        self._accumulators_at = self._steps_at + num_entries * len(loops)
        size = self._accumulators_at + Table.ACCUMULATOR * len(planner._reduced)
        self._words = [0] * size

    def write(self) -> Walk:
        p, words = self._p, self._words
        self._header()
        for number, (_, count) in enumerate(self._loops):
            words[self._loops_at + 2 * number] = count
        inputs: list[int] = []
        outputs: list[int] = []
        for number, operand in enumerate(p._operands):
            at = self._operands_at + Table.OPERAND * number
            self._operand(operand, at)
            if operand.kind == OperandKind.INPUT:
                inputs.append(at + Table.PLACE)
            elif operand.kind == OperandKind.OUTPUT:
                outputs.append(at + Table.PLACE)
        self._steps()
        entry = len(p._operands)
        for number, reduction in enumerate(p._reduced):
            at = self._accumulators_at + Table.ACCUMULATOR * number
            self._accumulator(reduction, at, entry)
            entry += len(p._layout.accumulators[number].planes)
        self._take(words, Table.ENTRIES, 16 * entry)
        return Walk(
            table=np.array(words, np.int64),
            inputs=tuple(inputs),
            results=self._results(outputs),
            scratch_words=np.array(self._scratch_words, np.intp),
            scratch_size=self._scratch,
            kept_words=np.array(self._kept_words, np.intp),
            kept_size=self._kept,
        )

    def _header(self) -> None:
        p, words = self._p, self._words
        words[Table.STRIP] = p._functions["strip"]
        words[Table.NUM_LOOPS] = len(self._loops)
        words[Table.NUM_OPERANDS] = len(p._operands)
        words[Table.NUM_ACCUMULATORS] = len(p._reduced)
        words[Table.ROWS] = 1 if p._row is None else p._lengths[p._row]
        words[Table.COLUMNS] = p._lengths[p._column]
        words[Table.TILE_ROWS] = p._tile_rows
        words[Table.TILE_COLUMNS] = p._tile_columns
        words[Table.ROW_LOOP] = len(self._loops) - 2
        words[Table.COLUMN_LOOP] = len(self._loops) - 1
        words[Table.LANES] = p._layout.lanes
        # Relative to the table itself; made addresses at the call.
        words[Table.LOOPS] = 8 * self._loops_at
        words[Table.OPERANDS] = 8 * self._operands_at
        words[Table.STEPS] = 8 * self._steps_at
        words[Table.ACCUMULATORS] = 8 * self._accumulators_at

    def _take(self, words: list[int], at: int, size: int) -> None:
        """Reserve scratch memory, and put where it lies into a word."""
        words[at] = self._scratch
        self._scratch_words.append(at)
        self._scratch += -(-size // _ALIGN) * _ALIGN

    def _operand(self, operand: _Operand, at: int) -> None:
        p, words = self._p, self._words
        lanes = p._layout.lanes
        words[at + Table.KIND] = operand.kind
        words[at + Table.ITEMSIZE] = operand.itemsize
        words[at + Table.ROW_STRIDE] = 0 if p._row is None else operand.strides[p._row]
        words[at + Table.COLUMN_STRIDE] = operand.strides[p._column]
        words[at + Table.MODE] = operand.mode
        if operand.mode == OperandMode.IN_PLACE:
            self._take(words, at + Table.TAIL, lanes * operand.itemsize)
        else:
            size = p._tile_rows * p._tile_columns
            size = 0 if operand.mode == OperandMode.SPREAD else size
            self._take(words, at + Table.SCRATCH, (size + lanes) * operand.itemsize)

    def _steps(self) -> None:
        p, loops = self._p, self._loops
        everything = [o.strides for o in p._operands]
        everything += [r.strides for r in p._reduced]
        width = len(everything)
        for number, strides in enumerate(everything):
            steps = [p._step(strides, axis) for axis, _ in loops]
            rewound = 0
            for level in reversed(range(len(loops))):
                at = self._steps_at + level * width + number
                self._words[at] = steps[level] - rewound
                rewound += steps[level] * (loops[level][1] - 1)

    def _accumulator(self, reduction: _Reduced, at: int, entry: int) -> None:
        p, words = self._p, self._words
        lanes = p._layout.lanes
        number = reduction.number
        planes = p._layout.accumulators[number].planes
        assert len(planes) <= MAX_PLANES
        words[at + Table.NUM_PLANES] = len(planes)
        words[at + Table.FIRST_ENTRY] = entry
        row = p._row
        words[at + Table.KEPT_ROW_STRIDE] = 0 if row is None else reduction.strides[row]
        words[at + Table.ACC_MODE] = reduction.mode
        words[at + Table.INNER] = p._inner(reduction, self._loops)
        # A row of length 1 is reduced or not, as suits the column.
        reduces_column = reduction.reduces[p._column]
        words[at + Table.REDUCES_ROWS] = (
            reduces_column if p._tile_rows == 1 or row is None else reduction.reduces[row]
        )
        words[at + Table.REDUCES_COLUMNS] = reduces_column
        words[at + Table.TOTAL] = reduction.total
        words[at + Table.RING] = p._ring
        for offset, name in enumerate(("start", "fold", "merge", "finish")):
            words[at + Table.START + offset] = p._functions[f"{name}{number}"]
        size = p._tile_rows * p._tile_columns + lanes
        if reduction.mode == AccumulatorMode.RING:
            size = p._ring + lanes
        for i, plane in enumerate(planes):
            words[at + Table.SIZES + i] = plane.itemsize
            words[at + Table.KEPT + i] = self._kept
            self._kept_words.append(at + Table.KEPT + i)
            kept = (reduction.total + lanes) * plane.itemsize
            self._kept += -(-kept // _ALIGN) * _ALIGN
            if reduction.mode != AccumulatorMode.IN_PLACE:
                self._take(words, at + Table.LOCAL + i, size * plane.itemsize)

    def _results(self, outputs: list[int]) -> tuple[Result, ...]:
        p = self._p
        order, extents = p._order, p._extents
        results = []
        places = iter(outputs)
        number = 0
        for statement in p._kernel.statements:
            if isinstance(statement, Assign):
                shape = tuple(extents[axis] for axis in order)
                turn = tuple(order.index(axis) for axis in statement.axes)
                dtype = p._kernel.function.instructions[statement.value].dtype
                results.append(Result(shape, dtype, _or_none(turn), next(places)))
                continue
            shape = tuple(
                1 if axis in statement.axes else extents[axis] for axis in order
            )
            turn = tuple(order.index(axis) for axis in range(len(order)))
            at = self._accumulators_at + Table.ACCUMULATOR * number + Table.RESULTS
            for i, dtype in enumerate(p._layout.accumulators[number].dtypes):
                results.append(Result(shape, dtype, _or_none(turn), at + i))
            number += 1
        return tuple(results)


def _or_none(turn: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if turn == tuple(range(len(turn))) else turn


def _input_strides(
    array: np.ndarray, axes: tuple[int, ...], extents: tuple[int, ...]
) -> list[int]:
    strides = [0] * len(extents)
    for length, stride, axis in zip(array.shape, array.strides, axes, strict=True):
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


def _memory_order(inputs: list[_Operand], extents: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes from the outermost to the innermost in memory.

    That of the program, unless more inputs lie in another order.
    """
    natural = tuple(range(len(extents)))
    orders = {natural: 0}
    for operand in inputs:
        by_stride = sorted(natural, key=lambda a: -abs(operand.strides[a]))
        if all(operand.strides[a] or extents[a] == 1 for a in natural):
            orders.setdefault(tuple(by_stride), 0)
    if len(orders) == 1:
        return natural

    def agreeing(order: tuple[int, ...]) -> int:
        return sum(_lies_in_order(o.strides, order, extents) for o in inputs)

    return max(orders, key=agreeing)


def _lies_in_order(
    strides: list[int], order: tuple[int, ...], extents: tuple[int, ...]
) -> bool:
    sizes = [abs(strides[a]) for a in order if strides[a] and extents[a] > 1]
    return all(x >= y for x, y in zip(sizes, sizes[1:], strict=False))
