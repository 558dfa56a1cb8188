"""Walks written down as the tables that the driver reads.

See `dask_diffuse.codegen.driver` for what the words mean.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from dask_diffuse.codegen.strip import StripLayout
from dask_diffuse.codegen.words import (
    MAX_PLANES,
    AccumulatorMode,
    Call,
    OperandKind,
    OperandMode,
    Table,
)
from dask_diffuse.kernel.nest import Assign, Kernel
from dask_diffuse.runtime.memory import LINE
from dask_diffuse.runtime.walk import Operand, Reduced, Walk

__all__ = ["Functions", "Result", "WalkTable", "write_table"]

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
class WalkTable:
    """The table for one pattern of shapes and strides.

    Parameters
    ----------
    table, relocations
        The words, and which of them are addresses. These are numbered: scratch memory,
        the accumulators of results, the scalar arguments, the inputs, the results.
    head, pack
        What the driver is told before the addresses, and what makes bytes of all that.
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


def write_table(
    kernel: Kernel,
    layout: StripLayout,
    functions: Functions,
    walk: Walk,
    extents: tuple[int, ...],
) -> WalkTable:
    """Return the table for a walk."""
    return _Writer(kernel, layout, functions, walk).write(extents)


class _Writer:
    def __init__(
        self, kernel: Kernel, layout: StripLayout, functions: Functions, walk: Walk
    ) -> None:
        self._kernel = kernel
        self._layout = layout
        self._functions = functions
        self._walk = walk
        self._loops = walk.loops()
        num_steps = (len(walk.operands) + len(walk.reduced)) * len(self._loops)
        self._loops_at = Table.HEADER
        self._operands_at = self._loops_at + 2 * len(self._loops)
        self._steps_at = self._operands_at + Table.OPERAND * len(walk.operands)
        self._accumulators_at = self._steps_at + num_steps
        size = self._accumulators_at + Table.ACCUMULATOR * len(walk.reduced)
        self._words = [0] * size
        self._relocations: list[tuple[int, int]] = []
        # The table itself comes first in scratch memory.
        self._scratch = -(-8 * size // LINE) * LINE
        self._kept = 0

    def write(self, extents: tuple[int, ...]) -> WalkTable:
        walk, words = self._walk, self._words
        self._header()
        for number, (_, count) in enumerate(self._loops):
            words[self._loops_at + 2 * number] = count
        outputs: list[int] = []
        address = _INPUTS
        for number, operand in enumerate(walk.operands):
            at = self._operands_at + Table.OPERAND * number
            self._operand(operand, at)
            if operand.kind == OperandKind.INPUT:
                self._relocations.append((at + Table.PLACE, address))
                address += 1
            elif operand.kind == OperandKind.OUTPUT:
                outputs.append(at + Table.PLACE)
        self._steps()
        entry = len(walk.operands)
        for number in range(len(walk.reduced)):
            self._accumulator(number, entry)
            entry += len(self._layout.accumulators[number].planes)
        self._take(Table.ENTRIES, 16 * entry)
        results = self._results(outputs, address, extents)
        table = np.array(words, np.int64)
        relocations = np.array(self._relocations, np.int64)
        return WalkTable(
            table=table,
            relocations=relocations,
            head=(
                *(table.ctypes.data, len(table)),
                *(relocations.ctypes.data, len(relocations)),
            ),
            pack=struct.Struct(f"{Call.ADDRESSES + address + len(results)}q"),
            results=results,
            scratch_size=self._scratch,
            kept_size=self._kept + LINE if self._kept else 0,
        )

    def _header(self) -> None:
        walk, words = self._walk, self._words
        words[Table.STRIP] = self._functions["strip"]
        words[Table.NUM_LOOPS] = len(self._loops)
        words[Table.NUM_OPERANDS] = len(walk.operands)
        words[Table.NUM_ACCUMULATORS] = len(walk.reduced)
        words[Table.ROWS] = 1 if walk.row is None else walk.lengths[walk.row]
        words[Table.COLUMNS] = walk.lengths[walk.column]
        words[Table.TILE_ROWS] = walk.tile_rows
        words[Table.TILE_COLUMNS] = walk.tile_columns
        axes = [axis for axis, _ in self._loops]
        words[Table.ROW_LOOP] = axes.index(-1 if walk.row is None else walk.row)
        words[Table.COLUMN_LOOP] = axes.index(walk.column)
        words[Table.LANES] = self._layout.lanes
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
        self._scratch += -(-size // LINE) * LINE

    def _operand(self, operand: Operand, at: int) -> None:
        walk, words = self._walk, self._words
        lanes = self._layout.lanes
        words[at + Table.KIND] = operand.kind
        words[at + Table.ITEMSIZE] = operand.itemsize
        row = walk.row
        words[at + Table.ROW_STRIDE] = 0 if row is None else operand.strides[row]
        words[at + Table.COLUMN_STRIDE] = operand.strides[walk.column]
        words[at + Table.MODE] = operand.mode
        if operand.mode == OperandMode.IN_PLACE:
            self._take(at + Table.TAIL, lanes * operand.itemsize)
        else:
            size = walk.tile_rows * walk.tile_columns
            size = 0 if operand.mode == OperandMode.SPREAD else size
            self._take(at + Table.SCRATCH, (size + lanes) * operand.itemsize)

    def _steps(self) -> None:
        walk, loops = self._walk, self._loops
        everything = [operand.strides for operand in walk.operands]
        everything += [reduction.strides for reduction in walk.reduced]
        width = len(everything)
        for number, strides in enumerate(everything):
            steps = [walk.step(strides, axis) for axis, _ in loops]
            rewound = 0
            for level in reversed(range(len(loops))):
                at = self._steps_at + level * width + number
                self._words[at] = steps[level] - rewound
                rewound += steps[level] * (loops[level][1] - 1)

    def _accumulator(self, number: int, entry: int) -> None:
        walk, words = self._walk, self._words
        reduction = walk.reduced[number]
        at = self._accumulators_at + Table.ACCUMULATOR * number
        lanes = self._layout.lanes
        planes = self._layout.accumulators[number].planes
        if len(planes) > MAX_PLANES:
            raise ValueError(f"{len(planes)} planes are more than {MAX_PLANES}")
        words[at + Table.NUM_PLANES] = len(planes)
        words[at + Table.FIRST_ENTRY] = entry
        row = walk.row
        words[at + Table.KEPT_ROW_STRIDE] = 0 if row is None else reduction.strides[row]
        words[at + Table.ACC_MODE] = reduction.mode
        words[at + Table.INNER] = walk.inner(reduction, self._loops)
        # A single row is reduced or not, as suits the columns.
        reduces_rows = reduces_columns = reduction.reduces[walk.column]
        if row is not None and walk.tile_rows > 1:
            reduces_rows = reduction.reduces[row]
        words[at + Table.REDUCES_ROWS] = reduces_rows
        words[at + Table.REDUCES_COLUMNS] = reduces_columns
        done = reduction.mode == AccumulatorMode.COLUMNS
        words[at + Table.TOTAL] = 0 if done else reduction.total
        for i, dtype in enumerate(self._layout.accumulators[number].dtypes):
            words[at + Table.RESULT_SIZES + i] = dtype.itemsize
        words[at + Table.RING] = walk.ring
        for offset, name in enumerate(("start", "fold", "merge", "finish")):
            words[at + Table.START + offset] = self._functions[f"{name}{number}"]
        self._planes(reduction, at, [plane.itemsize for plane in planes], lanes)

    def _planes(
        self, reduction: Reduced, at: int, itemsizes: list[int], lanes: int
    ) -> None:
        walk = self._walk
        size = walk.tile_rows * walk.tile_columns
        if reduction.mode == AccumulatorMode.RING:
            size = walk.ring
        for i, itemsize in enumerate(itemsizes):
            self._words[at + Table.SIZES + i] = itemsize
            if reduction.mode != AccumulatorMode.COLUMNS:
                self._words[at + Table.KEPT + i] = self._kept
                self._relocations.append((at + Table.KEPT + i, _KEPT))
                kept = (reduction.total + lanes) * itemsize
                self._kept += -(-kept // LINE) * LINE
            if reduction.mode != AccumulatorMode.IN_PLACE:
                self._take(at + Table.LOCAL + i, (size + lanes) * itemsize)

    def _results(
        self, outputs: list[int], address: int, extents: tuple[int, ...]
    ) -> tuple[Result, ...]:
        order = self._walk.order
        results: list[Result] = []
        places = iter(outputs)
        number = 0
        for statement in self._kernel.statements:
            axes = tuple(range(len(order)))
            reduced: tuple[int, ...] = ()
            if isinstance(statement, Assign):
                axes = statement.axes
                dtype = self._kernel.function.instructions[statement.value].dtype
                words = {next(places): dtype}
            else:
                reduced = statement.axes
                at = self._accumulators_at + Table.ACCUMULATOR * number + Table.RESULTS
                dtypes = self._layout.accumulators[number].dtypes
                words = {at + i: dtype for i, dtype in enumerate(dtypes)}
                number += 1
            shape = tuple(1 if axis in reduced else extents[axis] for axis in order)
            turn = tuple(order.index(axis) for axis in axes)
            is_turned = turn != tuple(range(len(turn)))
            for word, dtype in words.items():
                self._relocations.append((word, address + len(results)))
                results.append(Result(shape, dtype, turn if is_turned else None))
        return tuple(results)
