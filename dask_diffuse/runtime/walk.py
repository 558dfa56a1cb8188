"""How a kernel walks over blocks of given shapes and strides.

The walk is found in Python, once for each pattern of shapes and strides, and kept: it
is the table of words that the driver reads (see `dask_diffuse.codegen.driver`), but for
addresses, which are filled in at each call.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dask_diffuse.codegen.driver import (
    MAX_PLANES,
    AccumulatorMode,
    Call,
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

_SCRATCH, _KEPT, _SCALARS, _INPUTS = range(4)
"""Numbers of the addresses."""

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
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    order: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Walk:
    """The table for one pattern of shapes and strides.

    Parameters
    ----------
    table, relocations
        The words, and which of them are addresses. These are numbered: scratch memory,
        the accumulators of results, the scalar arguments, the inputs, the results.
    head, pack
        What the driver is told before the addresses, and what writes all that to
        memory.
    results
        The arrays to make, in the order of the statements.
    scratch_size, kept_size
        Bytes of scratch memory, and of accumulators of results.
    """

    table: np.ndarray
    relocations: np.ndarray
    head: tuple[int, ...]
    pack: struct.Struct
    results: tuple[Result, ...]
    scratch_size: int
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
        self.kernel = kernel
        self.layout = layout
        self.functions = functions
        self.extents = extents
        self.inputs = [
            _Operand(OperandKind.INPUT, a.itemsize, _input_strides(a, p.axes, extents))
            for a, p in zip(arrays, kernel.arrays, strict=True)
        ]
        self.order = _memory_order(self.inputs, extents)

    def plan(self) -> Walk:
        self._collapse()
        self._choose_tile()
        self._place_operands()
        self._place_accumulators()
        return self._write()

    def _collapse(self) -> None:
        """Make one axis of neighbors that every operand walks as one."""
        extents = self.extents
        ramps = [
            _Operand(OperandKind.RAMP, 8, _ramp_strides(axes, extents))
            for axes in self.layout.ramps
        ]
        outputs = [
            _Operand(
                OperandKind.OUTPUT,
                dtype.itemsize,
                _packed_strides(dtype.itemsize, self.order, extents),
            )
            for dtype in self.layout.outputs
        ]
        operands = [*self.inputs, *ramps, *outputs]
        accumulates = [s for s in self.kernel.statements if isinstance(s, Accumulate)]
        reduced = []
        for number, statement in enumerate(accumulates):
            flags = [axis in statement.axes for axis in range(len(extents))]
            reduced.append(_Reduced(number, flags))
        groups: list[list[int]] = []
        for axis in self.order:
            if extents[axis] == 1:
                continue
            if (
                groups
                and all(
                    o.strides[groups[-1][-1]] == o.strides[axis] * extents[axis]
                    for o in operands
                )
                and all(r.reduces[groups[-1][-1]] == r.reduces[axis] for r in reduced)
            ):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        self.lengths = [math.prod(extents[a] for a in group) for group in groups]
        for operand in operands:
            operand.strides = [operand.strides[group[-1]] for group in groups]
        for reduction in reduced:
            reduction.reduces = [reduction.reduces[group[-1]] for group in groups]
        if not groups:
            self.lengths = [1]
            for operand in operands:
                operand.strides = [operand.itemsize]
                if operand.kind == OperandKind.RAMP:
                    operand.strides = [0]
            for reduction in reduced:
                reduction.reduces = [True]
        self.operands, self.reduced = operands, reduced
        for reduction in reduced:
            step = 1
            strides = []
            for length, gone in zip(
                reversed(self.lengths), reversed(reduction.reduces), strict=True
            ):
                strides.append(0 if gone else step)
                step *= 1 if gone else length
            reduction.strides = strides[::-1]
            reduction.total = step

    def _choose_tile(self) -> None:
        """Choose the two axes of a tile, and its shape."""
        lengths = self.lengths
        self.column = len(lengths) - 1
        self.row: int | None = self.column - 1 if self.column else None
        columns = lengths[self.column]
        across = self._across()
        if across is not None:
            self.row = across
            self.tile_rows = min(lengths[across], _SQUARE)
            self.tile_columns = min(columns, _TILE // self.tile_rows)
            return
        if self.row is None or columns >= _SHORT_ROW:
            self.tile_rows, self.tile_columns = 1, min(columns, self._strip_length())
        else:
            self.tile_rows = min(lengths[self.row], max(1, _TILE // columns))
            self.tile_columns = columns

    def _across(self) -> int | None:
        """Return an axis along which an input's elements are closer than in the row."""
        for operand in self.inputs:
            along = abs(operand.strides[self.column])
            if along <= operand.itemsize:
                continue
            for axis, stride in enumerate(operand.strides):
                if 0 < abs(stride) < along:
                    return axis
        return None

    def _strip_length(self) -> int:
        """Return how many columns of one row make a tile."""
        longest = _LONG_ROW
        for operand in self.operands:
            if operand.strides[self.column] not in (0, operand.itemsize) or (
                operand.kind == OperandKind.RAMP and operand.strides[self.column]
            ):
                longest = min(longest, _TILE)
        for reduction in self.reduced:
            if not reduction.reduces[self.column]:
                longest = min(longest, _ACCUMULATED_ROW)
        return longest

    def _place_operands(self) -> None:
        single = self.tile_rows == 1
        columns = self.tile_columns
        whole = columns == self.lengths[self.column]
        for operand in self.operands:
            column = operand.strides[self.column]
            row = 0 if self.row is None else operand.strides[self.row]
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
        single = self.tile_rows == 1
        size = self.tile_rows * self.tile_columns
        for reduction in self.reduced:
            reduces_row = self.row is not None and reduction.reduces[self.row]
            if reduction.reduces[self.column]:
                along = single or reduces_row
                is_long = size >= self.ring
                mode = (
                    AccumulatorMode.RING if along and is_long else AccumulatorMode.TILE
                )
            else:
                mode = AccumulatorMode.IN_PLACE
                if not single:
                    mode = AccumulatorMode.TILE
            reduction.mode = mode

    @property
    def ring(self) -> int:
        return 8 * self.layout.lanes

    def _loops(self) -> list[tuple[int, int]]:
        """Return the axis of each loop around tiles, and how often it is run."""
        loops = [
            (axis, length)
            for axis, length in enumerate(self.lengths)
            if axis not in (self.row, self.column)
        ]
        row = -1 if self.row is None else self.row
        rows = 1 if self.row is None else self.lengths[self.row]
        loops.append((row, -(-rows // self.tile_rows)))
        columns = -(-self.lengths[self.column] // self.tile_columns)
        loops.append((self.column, columns))
        return loops

    def step(self, strides: list[int], axis: int) -> int:
        if axis < 0:
            return 0
        tile = 1
        if axis == self.row:
            tile = self.tile_rows
        elif axis == self.column:
            tile = self.tile_columns
        return strides[axis] * tile

    def inner(self, reduction: _Reduced, loops: list[tuple[int, int]]) -> int:
        """Return the first of the innermost loops that are all reduced."""
        if (
            reduction.mode == AccumulatorMode.TILE
            and reduction.reduces[self.column]
            and self.row is not None
            and not reduction.reduces[self.row]
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
        num_entries = len(planner.operands) + len(planner.reduced)
        self._loops_at = Table.HEADER
        self._operands_at = self._loops_at + 2 * len(loops)
        self._steps_at = self._operands_at + Table.OPERAND * len(planner.operands)
        self._accumulators_at = self._steps_at + num_entries * len(loops)
        size = self._accumulators_at + Table.ACCUMULATOR * len(planner.reduced)
        self._words = [0] * size
        self._relocations: list[tuple[int, int]] = []
        # The table itself comes first in scratch memory.
        self._scratch = -(-8 * size // _ALIGN) * _ALIGN
        self._kept = 0

    def write(self) -> Walk:
        p, words = self._p, self._words
        self._header()
        for number, (_, count) in enumerate(self._loops):
            words[self._loops_at + 2 * number] = count
        outputs: list[int] = []
        address = _INPUTS
        for number, operand in enumerate(p.operands):
            at = self._operands_at + Table.OPERAND * number
            self._operand(operand, at)
            if operand.kind == OperandKind.INPUT:
                self._relocations.append((at + Table.PLACE, address))
                address += 1
            elif operand.kind == OperandKind.OUTPUT:
                outputs.append(at + Table.PLACE)
        self._steps()
        entry = len(p.operands)
        for number, reduction in enumerate(p.reduced):
            at = self._accumulators_at + Table.ACCUMULATOR * number
            self._accumulator(reduction, at, entry)
            entry += len(p.layout.accumulators[number].planes)
        self._take(Table.ENTRIES, 16 * entry)
        results = self._results(outputs, address)
        table = np.array(words, np.int64)
        relocations = np.array(self._relocations, np.int64)
        return Walk(
            table=table,
            relocations=relocations,
            head=(
                *(table.ctypes.data, len(table)),
                *(relocations.ctypes.data, len(relocations)),
            ),
            pack=struct.Struct(f"{Call.ADDRESSES + address + len(results)}q"),
            results=results,
            scratch_size=self._scratch,
            kept_size=self._kept + _ALIGN if self._kept else 0,
        )

    def _header(self) -> None:
        p, words = self._p, self._words
        words[Table.STRIP] = p.functions["strip"]
        words[Table.NUM_LOOPS] = len(self._loops)
        words[Table.NUM_OPERANDS] = len(p.operands)
        words[Table.NUM_ACCUMULATORS] = len(p.reduced)
        words[Table.ROWS] = 1 if p.row is None else p.lengths[p.row]
        words[Table.COLUMNS] = p.lengths[p.column]
        words[Table.TILE_ROWS] = p.tile_rows
        words[Table.TILE_COLUMNS] = p.tile_columns
        words[Table.ROW_LOOP] = len(self._loops) - 2
        words[Table.COLUMN_LOOP] = len(self._loops) - 1
        words[Table.LANES] = p.layout.lanes
        for word, at in (
            (Table.LOOPS, self._loops_at),
            (Table.OPERANDS, self._operands_at),
            (Table.STEPS, self._steps_at),
            (Table.ACCUMULATORS, self._accumulators_at),
        ):
            words[word] = 8 * at
            self._relocations.append((word, _SCRATCH))
        self._relocations.append((Table.SCALARS, _SCALARS))

    def _take(self, at: int, size: int) -> None:
        """Reserve scratch memory, whose address goes into a word."""
        self._words[at] = self._scratch
        self._relocations.append((at, _SCRATCH))
        self._scratch += -(-size // _ALIGN) * _ALIGN

    def _operand(self, operand: _Operand, at: int) -> None:
        p, words = self._p, self._words
        lanes = p.layout.lanes
        words[at + Table.KIND] = operand.kind
        words[at + Table.ITEMSIZE] = operand.itemsize
        words[at + Table.ROW_STRIDE] = 0 if p.row is None else operand.strides[p.row]
        words[at + Table.COLUMN_STRIDE] = operand.strides[p.column]
        words[at + Table.MODE] = operand.mode
        if operand.mode == OperandMode.IN_PLACE:
            self._take(at + Table.TAIL, lanes * operand.itemsize)
        else:
            size = p.tile_rows * p.tile_columns
            size = 0 if operand.mode == OperandMode.SPREAD else size
            self._take(at + Table.SCRATCH, (size + lanes) * operand.itemsize)

    def _steps(self) -> None:
        p, loops = self._p, self._loops
        everything = [o.strides for o in p.operands]
        everything += [r.strides for r in p.reduced]
        width = len(everything)
        for number, strides in enumerate(everything):
            steps = [p.step(strides, axis) for axis, _ in loops]
            rewound = 0
            for level in reversed(range(len(loops))):
                at = self._steps_at + level * width + number
                self._words[at] = steps[level] - rewound
                rewound += steps[level] * (loops[level][1] - 1)

    def _accumulator(self, reduction: _Reduced, at: int, entry: int) -> None:
        p, words = self._p, self._words
        lanes = p.layout.lanes
        number = reduction.number
        planes = p.layout.accumulators[number].planes
        assert len(planes) <= MAX_PLANES
        words[at + Table.NUM_PLANES] = len(planes)
        words[at + Table.FIRST_ENTRY] = entry
        row = p.row
        words[at + Table.KEPT_ROW_STRIDE] = 0 if row is None else reduction.strides[row]
        words[at + Table.ACC_MODE] = reduction.mode
        words[at + Table.INNER] = p.inner(reduction, self._loops)
        # A row of length 1 is reduced or not, as suits the column.
        reduces_column = reduction.reduces[p.column]
        words[at + Table.REDUCES_ROWS] = (
            reduces_column
            if p.tile_rows == 1 or row is None
            else reduction.reduces[row]
        )
        words[at + Table.REDUCES_COLUMNS] = reduces_column
        words[at + Table.TOTAL] = reduction.total
        words[at + Table.RING] = p.ring
        for offset, name in enumerate(("start", "fold", "merge", "finish")):
            words[at + Table.START + offset] = p.functions[f"{name}{number}"]
        size = p.tile_rows * p.tile_columns + lanes
        if reduction.mode == AccumulatorMode.RING:
            size = p.ring + lanes
        for i, plane in enumerate(planes):
            words[at + Table.SIZES + i] = plane.itemsize
            words[at + Table.KEPT + i] = self._kept
            self._relocations.append((at + Table.KEPT + i, _KEPT))
            kept = (reduction.total + lanes) * plane.itemsize
            self._kept += -(-kept // _ALIGN) * _ALIGN
            if reduction.mode != AccumulatorMode.IN_PLACE:
                self._take(at + Table.LOCAL + i, size * plane.itemsize)

    def _results(self, outputs: list[int], address: int) -> tuple[Result, ...]:
        p = self._p
        order, extents = p.order, p.extents
        results: list[Result] = []
        places = iter(outputs)
        number = 0
        for statement in p.kernel.statements:
            if isinstance(statement, Assign):
                shape = tuple(extents[axis] for axis in order)
                turn = tuple(order.index(axis) for axis in statement.axes)
                dtype = p.kernel.function.instructions[statement.value].dtype
                word = next(places)
                self._relocations.append((word, address + len(results)))
                results.append(Result(shape, dtype, _or_none(turn)))
                continue
            shape = tuple(
                1 if axis in statement.axes else extents[axis] for axis in order
            )
            turn = tuple(order.index(axis) for axis in range(len(order)))
            at = self._accumulators_at + Table.ACCUMULATOR * number + Table.RESULTS
            for i, dtype in enumerate(p.layout.accumulators[number].dtypes):
                self._relocations.append((at + i, address + len(results)))
                results.append(Result(shape, dtype, _or_none(turn)))
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
