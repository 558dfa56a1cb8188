"""The strip function: the scalar function of a kernel over a run of elements.

``void strip(ptr operands, ptr scalars, i64 n)`` computes `n` elements, one vector after
another, with all temporaries in registers. `operands` is a table of pairs of words, a
pointer and a mask, one pair for each entry of `StripLayout`: element `i` of an operand
is at the pointer plus ``i & mask`` elements. A mask of -1 walks along the run, one of
0 stays (a broadcast operand, of which there is one vector), and one in between walks
around a ring (the accumulators of a reduction along the run).

Vectors are loaded and stored whole, so operands have room for a whole number of
vectors. `n` is a multiple of their length, or less than that: then the lanes past it
count for no reduction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dask_diffuse.codegen.accumulators import Accumulator, accumulator
from dask_diffuse.codegen.mathlib import MathLibrary
from dask_diffuse.codegen.memory import (
    load_parts,
    load_scalar,
    masked_store_parts,
    splat_of,
    store_parts,
)
from dask_diffuse.codegen.scalar import Parts, VectorEmitter
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import (
    element,
    lane_numbers,
    num_parts,
    splat,
    vector,
    vector_of,
)
from dask_diffuse.kernel.nest import Accumulate, Assign, Kernel

__all__ = ["StripLayout", "StripWriter", "strip_layout"]

_WORD = np.dtype(np.int64)
_MAX_LANES = 64


@dataclass(frozen=True)
class StripLayout:
    """What the entries of the table of operands are, in order.

    Parameters
    ----------
    lanes
        Elements per vector.
    inputs
        Dtypes of the arrays.
    ramps
        Positions that are computed: the axes over which each counts, in C order.
    outputs
        Dtypes of the arrays that are assigned to.
    accumulators
        The reductions; each has as many entries as it has planes.
    """

    lanes: int
    inputs: tuple[np.dtype, ...]
    ramps: tuple[tuple[int, ...], ...]
    outputs: tuple[np.dtype, ...]
    accumulators: tuple[Accumulator, ...]


def strip_layout(kernel: Kernel, vector_bytes: int) -> StripLayout:
    """Return the layout for a kernel.

    Parameters
    ----------
    kernel
        Of core ops.
    vector_bytes
        Size of a vector register.
    """
    lines = kernel.function.instructions
    ramps: dict[tuple[int, ...], None] = {}
    for line in lines:
        if line.op == "index":
            ramps[(line.number,)] = None
    accumulators = []
    for statement in kernel.statements:
        if isinstance(statement, Accumulate):
            dtypes = tuple(lines[i].dtype for i in statement.values)
            accumulators.append(accumulator(statement, dtypes))
            if accumulators[-1].wants_position:
                ramps[statement.axes] = None
    sizes = [line.dtype.itemsize // num_parts(line.dtype) for line in lines]
    sizes += [plane.itemsize for a in accumulators for plane in a.planes]
    lanes = vector_bytes // max(sizes, default=8)
    return StripLayout(
        lanes=max(2, min(lanes, _MAX_LANES)),
        inputs=tuple(param.dtype for param in kernel.arrays),
        ramps=tuple(ramps),
        outputs=tuple(
            lines[statement.value].dtype
            for statement in kernel.statements
            if isinstance(statement, Assign)
        ),
        accumulators=tuple(accumulators),
    )


class StripWriter:
    """Writes the functions of one kernel.

    Parameters
    ----------
    kernel
        Of core ops.
    layout
        Of its operands.
    library
        Writes the calls of math functions.
    """

    def __init__(
        self, kernel: Kernel, layout: StripLayout, library: MathLibrary
    ) -> None:
        self.kernel = kernel
        self.layout = layout
        self._library = library

    def strip(self) -> str:
        """Return the strip function."""
        text = FunctionText(
            "strip", (("ptr", "%operands"), ("ptr", "%scalars"), ("i64", "%n"))
        )
        layout = self.layout
        num_entries = (
            len(layout.inputs)
            + len(layout.ramps)
            + len(layout.outputs)
            + sum(len(a.planes) for a in layout.accumulators)
        )
        bases, masks = [], []
        for entry in range(num_entries):
            bases.append(text.load("ptr", text.at("i64", "%operands", 2 * entry)))
            masks.append(text.word("%operands", 2 * entry + 1))
        # One for all vectors, since there is but one that may not be whole.
        mask = self.lane_mask(text, "0") if layout.accumulators else ""
        with text.loop("%n", layout.lanes) as loop:
            _StripBody(self, text, loop.index, bases, masks).write(mask)
        return text.finish()

    def emitter(self, text: FunctionText) -> VectorEmitter:
        """Return what writes instructions into a function."""
        return VectorEmitter(text, self.layout.lanes, self._library)

    def start(self, number: int) -> str:
        """Return the function that sets accumulators to their start.

        ``void start(ptr planes, i64 n)`` takes a table of pointers.
        """
        text = FunctionText(f"start{number}", (("ptr", "%planes"), ("i64", "%n")))
        planes = self.layout.accumulators[number].planes
        bases = [
            text.load("ptr", text.at("ptr", "%planes", i)) for i in range(len(planes))
        ]
        lanes = self.layout.lanes
        with text.loop("%n", lanes) as loop:
            for base, plane in zip(bases, planes, strict=True):
                text.store(
                    vector(lanes, plane.type_),
                    splat(lanes, plane.type_, plane.start),
                    text.at(plane.type_, base, loop.index),
                    plane.itemsize,
                )
        return text.finish()

    def fold(self, number: int) -> str:
        """Return the function that joins a run of accumulators into one.

        ``void fold(ptr target, ptr source, i64 n)`` takes tables of pointers.
        """
        text = FunctionText(
            f"fold{number}", (("ptr", "%target"), ("ptr", "%source"), ("i64", "%n"))
        )
        reduction = self.layout.accumulators[number]
        lanes, planes = self.layout.lanes, reduction.planes
        targets, sources = self._tables(text, len(planes))
        v = self.emitter(text)
        starts = [splat(lanes, p.type_, p.start) for p in planes]
        wide = [vector(lanes, plane.type_) for plane in planes]
        places = [text.let("place", f"alloca {w}, align 64") for w in wide]
        with text.loop("%n", lanes) as loop:
            carried = [
                loop.carry(w, start) for w, start in zip(wide, starts, strict=True)
            ]
            mask = self.lane_mask(text, loop.index)
            values = self._load_planes(text, reduction, sources, loop.index)
            values = [
                v.select(mask, value, start, plane.type_)
                for value, start, plane in zip(values, starts, planes, strict=True)
            ]
            state = reduction.merge(v, tuple(carried), tuple(values))
            for name, value in zip(carried, state, strict=True):
                loop.advance(name, value)
        state = tuple(loop.after(name) for name in carried)
        state = self._fold_lanes(text, v, reduction, state)
        into: list[str] = []
        folded: list[str] = []
        for plane, target, place, w, value in zip(
            planes, targets, places, wide, state, strict=True
        ):
            # LLVM 22 compiles a tree of shuffles of which one lane is used to wrong
            # code. Through memory, all lanes are used.
            text.do(f"store volatile {w} {value}, ptr {place}, align 64")
            one = text.let("one", f"load volatile {plane.type_}, ptr {place}, align 64")
            old = text.load(plane.type_, target, plane.itemsize)
            for values_, scalar in ((into, old), (folded, one)):
                values_.append(
                    text.let(
                        "lane",
                        f"insertelement {w} poison, {plane.type_} {scalar}, i64 0",
                    )
                )
        state = reduction.merge(v, tuple(into), tuple(folded))
        for plane, target, w, value in zip(planes, targets, wide, state, strict=True):
            first = text.let("first", f"extractelement {w} {value}, i64 0")
            text.store(plane.type_, first, target, plane.itemsize)
        return text.finish()

    def merge(self, number: int) -> str:
        """Return the function that joins accumulators one by one.

        ``void merge(ptr target, ptr source, i64 n)`` takes tables of pointers.
        """
        text = FunctionText(
            f"merge{number}", (("ptr", "%target"), ("ptr", "%source"), ("i64", "%n"))
        )
        reduction = self.layout.accumulators[number]
        targets, sources = self._tables(text, len(reduction.planes))
        v = self.emitter(text)
        with text.loop("%n", self.layout.lanes) as loop:
            mask = self.lane_mask(text, loop.index)
            old = self._load_planes(text, reduction, targets, loop.index)
            new = self._load_planes(text, reduction, sources, loop.index)
            state = reduction.merge(v, tuple(old), tuple(new))
            # Accumulators past the end are of other results.
            for i, plane in enumerate(reduction.planes):
                value = v.select(mask, state[i], old[i], plane.type_)
                pointer = text.at(plane.type_, targets[i], loop.index)
                wide = vector(self.layout.lanes, plane.type_)
                text.store(wide, value, pointer, plane.itemsize)
        return text.finish()

    def finish(self, number: int) -> str:
        """Return the function that makes results of accumulators.

        ``void finish(ptr results, ptr planes, i64 n)`` takes tables of pointers.
        """
        text = FunctionText(
            f"finish{number}", (("ptr", "%target"), ("ptr", "%source"), ("i64", "%n"))
        )
        reduction = self.layout.accumulators[number]
        lanes = self.layout.lanes
        results = [
            text.load("ptr", text.at("ptr", "%target", i))
            for i in range(len(reduction.dtypes))
        ]
        sources = [
            text.load("ptr", text.at("ptr", "%source", i))
            for i in range(len(reduction.planes))
        ]
        v = self.emitter(text)
        with text.loop("%n", lanes) as loop:
            mask = self.lane_mask(text, loop.index)
            state = self._load_planes(text, reduction, sources, loop.index)
            values = reduction.finish(v, tuple(state))
            for value, result, dtype in zip(
                values, results, reduction.dtypes, strict=True
            ):
                masked_store_parts(
                    *(text, value, result, loop.index, dtype, lanes),
                    *(mask, self._library.intrinsics),
                )
        return text.finish()

    def lane_mask(self, text: FunctionText, index: str) -> str:
        """Return which lanes are before the end of the run, ``%n``."""
        lanes = self.layout.lanes
        left = text.math("sub", "%n", index)
        if lanes <= 8:
            type_ = "i64"
            left = splat_of(text, left, type_, lanes)
            numbers = lane_numbers(lanes)
        else:
            # So that the comparison fits one register.
            many = text.test("sgt", left, lanes)
            type_ = "i8" if lanes > 32 else "i16" if lanes > 16 else "i32"
            left = text.choose(many, lanes, left)
            left = text.let("left", f"trunc i64 {left} to {type_}")
            left = splat_of(text, left, type_, lanes)
            numbers = vector_of(type_, range(lanes))
        wide = vector(lanes, type_)
        return text.let("mask", f"icmp sgt {wide} {left}, {numbers}")

    def _tables(self, text: FunctionText, count: int) -> tuple[list[str], list[str]]:
        return tuple(  # type: ignore[return-value]
            [text.load("ptr", text.at("ptr", table, i)) for i in range(count)]
            for table in ("%target", "%source")
        )

    def _load_planes(
        self,
        text: FunctionText,
        reduction: Accumulator,
        bases: list[str],
        index: str,
    ) -> list[str]:
        lanes = self.layout.lanes
        return [
            text.load(
                vector(lanes, plane.type_),
                text.at(plane.type_, base, index),
                plane.itemsize,
            )
            for base, plane in zip(bases, reduction.planes, strict=True)
        ]

    def _fold_lanes(
        self,
        text: FunctionText,
        v: VectorEmitter,
        reduction: Accumulator,
        state: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Join each lane with its partners, until all lanes hold the whole."""
        lanes = self.layout.lanes
        half = lanes // 2
        while half:
            order = [i ^ half for i in range(lanes)]
            mask = ", ".join(f"i32 {lane}" for lane in order)
            partner = []
            for plane, value in zip(reduction.planes, state, strict=True):
                wide = vector(lanes, plane.type_)
                partner.append(
                    text.let(
                        "partner",
                        f"shufflevector {wide} {value}, {wide} poison, "
                        f"<{lanes} x i32> <{mask}>",
                    )
                )
            state = reduction.merge(v, state, tuple(partner))
            half //= 2
        return state


class _StripBody:
    """The inside of the loop of the strip function."""

    def __init__(
        self,
        writer: StripWriter,
        text: FunctionText,
        index: str,
        bases: list[str],
        masks: list[str],
    ) -> None:
        self._writer = writer
        self._kernel = writer.kernel
        self._layout = writer.layout
        self._text = text
        self._v = writer.emitter(text)
        self._index = index
        self._bases = bases
        self._masks = masks
        self._values: dict[int, Parts] = {}
        self._outputs: dict[int, list[int]] = {}

    def write(self, mask: str) -> None:
        """Write all instructions, and what the statements make of their values.

        Operands are loaded where they are first used, and results stored as soon as
        they are known, so that few values live at a time.

        Parameters
        ----------
        mask
            Which lanes count for reductions.
        """
        layout, kernel = self._layout, self._kernel
        first_output = len(layout.inputs) + len(layout.ramps)
        number = first_output
        for statement in kernel.statements:
            if isinstance(statement, Assign):
                self._outputs.setdefault(statement.value, []).append(number)
                number += 1
        lines = kernel.function.instructions
        for position, line in enumerate(lines):
            if line.op in ("input", "scalar", "const", "index"):
                continue
            args = [self._value(i) for i in line.args]
            dtypes = [lines[i].dtype for i in line.args]
            self._values[position] = self._v.apply(line, args, dtypes)
            self._store(position)
        for position in self._outputs:
            if lines[position].op in ("input", "scalar", "const", "index"):
                self._value(position)
                self._store(position)
        accumulates = [s for s in kernel.statements if isinstance(s, Accumulate)]
        for statement, reduction in zip(accumulates, layout.accumulators, strict=True):
            self._accumulate(statement, reduction, number, mask)
            number += len(reduction.planes)

    def _value(self, position: int) -> Parts:
        if position not in self._values:
            self._values[position] = self._operand(position)
        return self._values[position]

    def _operand(self, position: int) -> Parts:
        line = self._kernel.function.instructions[position]
        lanes = self._layout.lanes
        match line.op:
            case "input":
                return self._load(line.number, line.dtype)
            case "index":
                return self._ramp((line.number,))
            case "scalar":
                return load_scalar(
                    self._text, "%scalars", line.number, line.dtype, lanes
                )
            case _:
                value = line.attr
                assert isinstance(value, bool | int | float | complex)
                parts: tuple[complex, ...] = (value,)
                if line.dtype.kind == "c":
                    parts = (complex(value).real, complex(value).imag)
                return tuple(splat(lanes, element(line.dtype), p) for p in parts)

    def _ramp(self, axes: tuple[int, ...]) -> Parts:
        entry = len(self._layout.inputs) + self._layout.ramps.index(axes)
        return self._load(entry, _WORD)

    def _load(self, entry: int, dtype: np.dtype) -> Parts:
        offset = self._offset(entry)
        return load_parts(
            self._text, self._bases[entry], offset, dtype, self._layout.lanes
        )

    def _offset(self, entry: int) -> str:
        return self._text.math("and", self._index, self._masks[entry])

    def _store(self, position: int) -> None:
        dtype = self._kernel.function.instructions[position].dtype
        for entry in self._outputs.get(position, ()):
            store_parts(
                self._text,
                self._values[position],
                self._bases[entry],
                self._offset(entry),
                dtype,
                self._layout.lanes,
            )

    def _accumulate(
        self, statement: Accumulate, reduction: Accumulator, entry: int, mask: str
    ) -> None:
        text, lanes = self._text, self._layout.lanes
        values = [self._value(i) for i in statement.values]
        if reduction.wants_position:
            values.append(self._ramp(statement.axes))
        entries = range(entry, entry + len(reduction.planes))
        # All planes of one reduction walk alike.
        offset = self._offset(entry)
        # Volatile, or LLVM makes a masked store of a choice between old and new.
        old = [
            text.load(
                vector(lanes, plane.type_),
                text.at(plane.type_, self._bases[e], offset),
                plane.itemsize,
                volatile=True,
            )
            for e, plane in zip(entries, reduction.planes, strict=True)
        ]
        new = reduction.update(self._v, tuple(old), values, mask)
        for e, plane, value in zip(entries, reduction.planes, new, strict=True):
            pointer = text.at(plane.type_, self._bases[e], offset)
            text.store(vector(lanes, plane.type_), value, pointer, plane.itemsize)
