"""The driver: one function, the same for all kernels, that walks blocks in tiles.

``void drive(ptr call)`` is given a table of 64-bit words that says all about the walk
but for addresses (`Table` says what lies where), and the addresses (`Call`). It makes a
copy of the table in scratch memory, and puts the addresses in. The innermost two axes
of the walk are cut into tiles of `rows` x `columns` elements, few enough that what is
packed stays in the first-level cache. For each tile the driver

1. finds the operands: one whose elements lie one after the other is used in place, one
   that stays the same all over the tile is spread over a vector, any other one is
   packed into scratch memory (positions are computed there);
2. calls the strip function for the whole vectors of the tile, and once more for the
   elements left over, of which operands in place are copied so that nothing is read
   or written past the end;
3. unpacks results that could not be written in place.

Accumulators of a reduction live in memory, one for each result. While the innermost
axes of the walk are reduced, a tile accumulates to accumulators of its own: one for
each of its elements, or, along a long row, a short ring of them. When the walk comes to
an axis that is kept, they are folded into those of the results, or are themselves made
results if nothing more will come. If the row is not reduced, but axes outside of it
are, the strip function works on the accumulators of the results directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dask_diffuse.codegen.copies import call_copy, copy_functions, count_function
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.words import (
    MAX_PLANES,
    AccumulatorMode,
    Call,
    OperandKind,
    OperandMode,
    Table,
)

__all__ = ["driver_functions"]


def driver_functions(vector_bytes: int) -> str:
    """Return the text of the driver and of what it calls."""
    functions = [
        *(copy_functions(), count_function(vector_bytes // 8)),
        *(_find_operand(), _find_tail(), _put_back(), _find_accumulators()),
        *(_fold_tile(), _tile(), _walk(), _drive()),
    ]
    return "".join(functions)


def _find_operand() -> str:
    """Find one operand for the whole vectors of a tile."""
    text = FunctionText(
        "find_operand",
        (
            *(("ptr", "%record"), ("ptr", "%entry"), ("i64", "%lanes")),
            *(("i64", "%rows"), ("i64", "%columns")),
        ),
    )
    kind = text.word("%record", Table.KIND)
    size = text.word("%record", Table.ITEMSIZE)
    place = text.word("%record", Table.PLACE)
    mode = text.word("%record", Table.MODE)
    scratch = text.word("%record", Table.SCRATCH)
    in_place = text.test("eq", mode, OperandMode.IN_PLACE)
    spread = text.test("eq", mode, OperandMode.SPREAD)
    text.set_word(text.choose(in_place, place, scratch), "%entry", 0)
    text.set_word(text.choose(spread, 0, -1), "%entry", 1)
    is_output = text.test("eq", kind, OperandKind.OUTPUT)
    filled = text.let("filled", f"or i1 {in_place}, {is_output}")
    with text.otherwise(filled):
        # A vector with one value is a row of which the column stride is zero.
        rows = text.choose(spread, 1, "%rows")
        columns = text.choose(spread, "%lanes", "%columns")
        row_stride = text.word("%record", Table.ROW_STRIDE)
        column_stride = text.word("%record", Table.COLUMN_STRIDE)
        to = text.pointer(scratch)
        is_ramp = text.test("eq", kind, OperandKind.RAMP)
        with text.when(is_ramp):
            text.do(
                f"call void @count(ptr {to}, i64 {place}, i64 {rows}, i64 {columns}, "
                f"i64 {row_stride}, i64 {column_stride})"
            )
        with text.otherwise(is_ramp):
            # Elements that lie side by side are read one after the other.
            shorter = text.test(
                "slt", _size(text, row_stride), _size(text, column_stride)
            )
            several = text.test("sgt", rows, 1)
            across = text.let("across", f"and i1 {shorter}, {several}")
            to_row = text.math("mul", columns, size)
            shape = tuple(
                text.choose(across, y, x)
                for x, y in (
                    *((rows, columns), (columns, rows)),
                    *((to_row, size), (size, to_row)),
                    *((row_stride, column_stride), (column_stride, row_stride)),
                )
            )
            call_copy(text, size, to, text.pointer(place), shape)
    return text.finish()


def _size(text: FunctionText, word: str) -> str:
    """Return the absolute value of a word."""
    negative = text.test("slt", word, 0)
    return text.choose(negative, text.math("sub", 0, word), word)


def _find_tail() -> str:
    """Find one operand for the elements left over."""
    text = FunctionText(
        "find_tail",
        (
            *(("ptr", "%record"), ("ptr", "%entry")),
            *(("i64", "%done"), ("i64", "%left")),
        ),
    )
    kind = text.word("%record", Table.KIND)
    size = text.word("%record", Table.ITEMSIZE)
    mode = text.word("%record", Table.MODE)
    tail = text.word("%record", Table.TAIL)
    in_place = text.test("eq", mode, OperandMode.IN_PLACE)
    spread = text.test("eq", mode, OperandMode.SPREAD)
    place = text.word("%entry", 0)
    after = text.math("add", place, text.math("mul", "%done", size))
    rest = text.choose(spread, place, after)
    text.set_word(text.choose(in_place, tail, rest), "%entry", 0)
    is_input = text.test("eq", kind, OperandKind.INPUT)
    copied = text.let("copied", f"and i1 {in_place}, {is_input}")
    with text.when(copied):
        to, source = text.pointer(tail), text.pointer(after)
        call_copy(text, size, to, source, (1, "%left", 0, size, 0, size))
    return text.finish()


def _put_back() -> str:
    """Put the results of a tile where they belong, if they are not there."""
    text = FunctionText(
        "put_back",
        (
            *(("ptr", "%record"), ("i64", "%rows"), ("i64", "%columns")),
            *(("i64", "%done"), ("i64", "%left")),
        ),
    )
    kind = text.word("%record", Table.KIND)
    with text.when(text.test("eq", kind, OperandKind.OUTPUT)):
        size = text.word("%record", Table.ITEMSIZE)
        place = text.word("%record", Table.PLACE)
        mode = text.word("%record", Table.MODE)
        in_place = text.test("eq", mode, OperandMode.IN_PLACE)
        with text.when(in_place):
            after = text.math("add", place, text.math("mul", "%done", size))
            tail = text.pointer(text.word("%record", Table.TAIL))
            shape: tuple[str | int, ...] = (1, "%left", 0, size, 0, size)
            call_copy(text, size, text.pointer(after), tail, shape)
        with text.otherwise(in_place):
            scratch = text.pointer(text.word("%record", Table.SCRATCH))
            row_stride = text.word("%record", Table.ROW_STRIDE)
            column_stride = text.word("%record", Table.COLUMN_STRIDE)
            shape = (
                *("%rows", "%columns", row_stride, column_stride),
                *(text.math("mul", "%columns", size), size),
            )
            call_copy(text, size, text.pointer(place), scratch, shape)
    return text.finish()


def _find_accumulators() -> str:
    """Find the accumulators of one reduction, `done` elements into a tile."""
    text = FunctionText(
        "find_accumulators",
        (("ptr", "%record"), ("ptr", "%entries"), ("i64", "%done")),
    )
    mode = text.word("%record", Table.ACC_MODE)
    offset = text.word("%record", Table.OFFSET)
    ring = text.word("%record", Table.RING)
    in_place = text.test("eq", mode, AccumulatorMode.IN_PLACE)
    is_ring = text.test("eq", mode, AccumulatorMode.RING)
    done = text.choose(is_ring, 0, "%done")
    kept = text.math("add", offset, "%done")
    mask = text.choose(is_ring, text.math("sub", ring, 1), -1)
    with text.loop(text.word("%record", Table.NUM_PLANES)) as loop:
        plane = text.at("i64", "%record", loop.index)
        size = text.word(plane, Table.SIZES)
        direct = text.math(
            "add", text.word(plane, Table.KEPT), text.math("mul", kept, size)
        )
        local = text.math(
            "add", text.word(plane, Table.LOCAL), text.math("mul", done, size)
        )
        entry = text.math("shl", loop.index, 1)
        text.set_word(text.choose(in_place, direct, local), "%entries", entry)
        text.set_word(mask, "%entries", text.math("add", entry, 1))
    return text.finish()


def _fold_tile() -> str:
    """Fold the accumulators of a tile into those of the results."""
    text = FunctionText("fold_tile", (("ptr", "%record"),))
    # The last tile of a run may be smaller than the first.
    seen_rows = text.word("%record", Table.SEEN_ROWS)
    seen_columns = text.word("%record", Table.SEEN_COLUMNS)
    mode = text.word("%record", Table.ACC_MODE)
    offset = text.word("%record", Table.OFFSET)
    kept_row = text.word("%record", Table.KEPT_ROW_STRIDE)
    ring = text.word("%record", Table.RING)
    is_ring = text.test("eq", mode, AccumulatorMode.RING)
    reduces_rows = text.test("ne", text.word("%record", Table.REDUCES_ROWS), 0)
    reduces_columns = text.test("ne", text.word("%record", Table.REDUCES_COLUMNS), 0)
    both = text.let("both", f"and i1 {reduces_rows}, {reduces_columns}")
    # If both are reduced, the tile is one long row.
    rows = text.choose(both, 1, seen_rows)
    size = text.math("mul", seen_rows, seen_columns)
    columns = text.choose(both, size, seen_columns)
    columns = text.choose(is_ring, ring, columns)
    num_planes = text.word("%record", Table.NUM_PLANES)
    to = text.at("i64", "%record", Table.TO)
    source = text.at("i64", "%record", Table.FROM)
    fold = text.pointer(text.word("%record", Table.FOLD))
    merge = text.pointer(text.word("%record", Table.MERGE))
    is_done = text.test("eq", mode, AccumulatorMode.COLUMNS)
    with text.when(is_done):
        for i in range(MAX_PLANES):
            start = text.word("%record", Table.RESULTS + i)
            size = text.word("%record", Table.RESULT_SIZES + i)
            place = text.math("add", start, text.math("mul", offset, size))
            text.set_word(place, "%record", Table.TO + i)
        finish = text.pointer(text.word("%record", Table.FINISH))
        local_planes = text.at("i64", "%record", Table.LOCAL)
        text.do(f"call void {finish}(ptr {to}, ptr {local_planes}, i64 {columns})")
    rows = text.choose(is_done, 0, rows)
    with text.loop(rows) as row:
        kept = text.math("add", offset, text.math("mul", row.index, kept_row))
        local = text.math("mul", row.index, columns)
        with text.loop(num_planes) as loop:
            plane = text.at("i64", "%record", loop.index)
            bytes_ = text.word(plane, Table.SIZES)
            for base, index, slot in (
                (Table.KEPT, kept, Table.TO),
                (Table.LOCAL, local, Table.FROM),
            ):
                place = text.math(
                    "add", text.word(plane, base), text.math("mul", index, bytes_)
                )
                text.set_word(place, plane, slot)
        function = text.let(
            "function", f"select i1 {reduces_columns}, ptr {fold}, ptr {merge}"
        )
        text.do(f"call void {function}(ptr {to}, ptr {source}, i64 {columns})")
    return text.finish()


def _tile() -> str:
    """Compute one tile."""
    text = FunctionText(
        "tile", (("ptr", "%table"), ("i64", "%rows"), ("i64", "%columns"))
    )
    lanes = text.word("%table", Table.LANES)
    entries = text.pointer(text.word("%table", Table.ENTRIES))
    scalars = text.pointer(text.word("%table", Table.SCALARS))
    strip = text.pointer(text.word("%table", Table.STRIP))
    operands = text.pointer(text.word("%table", Table.OPERANDS))
    num_operands = text.word("%table", Table.NUM_OPERANDS)
    size = text.math("mul", "%rows", "%columns")
    done = text.math("and", size, text.math("sub", 0, lanes))
    left = text.math("sub", size, done)
    call = f"call void {strip}(ptr {entries}, ptr {scalars}, i64"
    with text.loop(num_operands) as loop:
        record = _record(text, operands, loop.index, Table.OPERAND)
        entry = _record(text, entries, loop.index, 2)
        text.do(
            f"call void @find_operand(ptr {record}, ptr {entry}, i64 {lanes}, "
            "i64 %rows, i64 %columns)"
        )
    with text.when(text.test("ne", done, 0)):
        _call_find(text, entries, 0)
        text.do(f"{call} {done})")
    with text.when(text.test("ne", left, 0)):
        with text.loop(num_operands) as loop:
            record = _record(text, operands, loop.index, Table.OPERAND)
            entry = _record(text, entries, loop.index, 2)
            text.do(
                f"call void @find_tail(ptr {record}, ptr {entry}, i64 {done}, "
                f"i64 {left})"
            )
        _call_find(text, entries, done)
        text.do(f"{call} {left})")
    with text.loop(num_operands) as loop:
        record = _record(text, operands, loop.index, Table.OPERAND)
        text.do(
            f"call void @put_back(ptr {record}, i64 %rows, i64 %columns, i64 {done}, "
            f"i64 {left})"
        )
    return text.finish()


def _call_find(text: FunctionText, entries: str, done: str | int) -> None:
    with _accumulators(text) as record:
        first = text.word(record, Table.FIRST_ENTRY)
        entry = _record(text, entries, first, 2)
        text.do(f"call void @find_accumulators(ptr {record}, ptr {entry}, i64 {done})")


def _drive() -> str:
    """Make a table for one call, and walk."""
    text = FunctionText("drive", (("ptr", "%call"),))
    addresses = text.at("i64", "%call", Call.ADDRESSES)
    table = text.pointer(text.word(addresses, 0))
    source = text.pointer(text.word("%call", Call.TABLE))
    with text.loop(text.word("%call", Call.NUM_WORDS)) as loop:
        text.set_word(text.word(source, loop.index), table, loop.index)
    relocations = text.pointer(text.word("%call", Call.RELOCATIONS))
    with text.loop(text.word("%call", Call.NUM_RELOCATIONS)) as loop:
        relocation = _record(text, relocations, loop.index, 2)
        place = text.word(relocation, 0)
        address = text.word(addresses, text.word(relocation, 1))
        address = text.math("add", text.word(table, place), address)
        text.set_word(address, table, place)
    text.do(f"call void @walk(ptr {table})")
    return text.finish()


def _walk() -> str:
    """Walk all tiles."""
    text = FunctionText("walk", (("ptr", "%table"),))
    num_loops = text.word("%table", Table.NUM_LOOPS)
    loops = text.pointer(text.word("%table", Table.LOOPS))
    before = text.let("before", "alloca i64")
    level = text.let("level", "alloca i64")
    text.store("i64", "-1", before)
    with _accumulators(text) as record:
        total = text.word(record, Table.TOTAL)
        _call_start(text, record, Table.KEPT, total)
    with text.forever() as end:
        # The innermost axis that can advance; -1 after the last tile.
        text.store("i64", "-1", level)
        with text.loop(num_loops) as loop:
            axis = _record(text, loops, loop.index, 2)
            last = text.math("sub", text.word(axis, 0), 1)
            with text.when(text.test("slt", text.word(axis, 1), last)):
                text.store("i64", loop.index, level)
        carry = text.load("i64", level)
        rows = _tile_length(text, loops, Table.ROWS, Table.TILE_ROWS, Table.ROW_LOOP)
        columns = _tile_length(
            text, loops, Table.COLUMNS, Table.TILE_COLUMNS, Table.COLUMN_LOOP
        )
        size = text.math("mul", rows, columns)
        begun = text.load("i64", before)
        with _accumulators(text) as record:
            begins = text.test("slt", begun, text.word(record, Table.INNER))
            mode = text.word(record, Table.ACC_MODE)
            is_local = text.test("ne", mode, AccumulatorMode.IN_PLACE)
            with text.when(text.let("init", f"and i1 {begins}, {is_local}")):
                text.set_word(rows, record, Table.SEEN_ROWS)
                text.set_word(columns, record, Table.SEEN_COLUMNS)
                is_ring = text.test("eq", mode, AccumulatorMode.RING)
                ring = text.word(record, Table.RING)
                _call_start(text, record, Table.LOCAL, text.choose(is_ring, ring, size))
        text.do(f"call void @tile(ptr %table, i64 {rows}, i64 {columns})")
        with _accumulators(text) as record:
            ends = text.test("slt", carry, text.word(record, Table.INNER))
            mode = text.word(record, Table.ACC_MODE)
            is_local = text.test("ne", mode, AccumulatorMode.IN_PLACE)
            with text.when(text.let("fold", f"and i1 {ends}, {is_local}")):
                text.do(f"call void @fold_tile(ptr {record})")
        text.store("i64", carry, before)
        text.leave_if(text.test("slt", carry, 0), end)
        _advance(text, loops, num_loops, carry)
    with _accumulators(text) as record:
        results = text.at("i64", record, Table.RESULTS)
        kept = text.at("i64", record, Table.KEPT)
        finish = text.pointer(text.word(record, Table.FINISH))
        total = text.word(record, Table.TOTAL)
        text.do(f"call void {finish}(ptr {results}, ptr {kept}, i64 {total})")
    return text.finish()


def _advance(text: FunctionText, loops: str, num_loops: str, carry: str) -> None:
    axis = _record(text, loops, carry, 2)
    text.set_word(text.math("add", text.word(axis, 1), 1), axis, 1)
    first = text.math("add", carry, 1)
    with text.loop(text.math("sub", num_loops, first)) as loop:
        axis = _record(text, loops, text.math("add", loop.index, first), 2)
        text.set_word(0, axis, 1)
    num_operands = text.word("%table", Table.NUM_OPERANDS)
    count = text.math("add", num_operands, text.word("%table", Table.NUM_ACCUMULATORS))
    steps = text.pointer(text.word("%table", Table.STEPS))
    row = text.at("i64", steps, text.math("mul", carry, count))
    operands = text.pointer(text.word("%table", Table.OPERANDS))
    with text.loop(num_operands) as loop:
        record = _record(text, operands, loop.index, Table.OPERAND)
        place = text.math(
            "add", text.word(record, Table.PLACE), text.word(row, loop.index)
        )
        text.set_word(place, record, Table.PLACE)
    accumulators = text.pointer(text.word("%table", Table.ACCUMULATORS))
    with text.loop(text.word("%table", Table.NUM_ACCUMULATORS)) as loop:
        record = _record(text, accumulators, loop.index, Table.ACCUMULATOR)
        step = text.word(row, text.math("add", loop.index, num_operands))
        offset = text.math("add", text.word(record, Table.OFFSET), step)
        text.set_word(offset, record, Table.OFFSET)


def _tile_length(
    text: FunctionText, loops: str, length: int, tile: int, loop: int
) -> str:
    """Return the rows or columns of this tile; the last one may have fewer."""
    step = text.word("%table", tile)
    axis = _record(text, loops, text.word("%table", loop), 2)
    first = text.math("mul", text.word(axis, 1), step)
    left = text.math("sub", text.word("%table", length), first)
    return text.choose(text.test("slt", left, step), left, step)


def _call_start(text: FunctionText, record: str, slot: int, count: str) -> None:
    start = text.pointer(text.word(record, Table.START))
    planes = text.at("i64", record, slot)
    text.do(f"call void {start}(ptr {planes}, i64 {count})")


def _record(text: FunctionText, table: str, number: str, size: int) -> str:
    return text.at("i64", table, text.math("mul", number, size))


@contextmanager
def _accumulators(text: FunctionText) -> Iterator[str]:
    """Write a loop over the records of all accumulators."""
    count = text.word("%table", Table.NUM_ACCUMULATORS)
    table = text.pointer(text.word("%table", Table.ACCUMULATORS))
    with text.loop(count) as loop:
        yield _record(text, table, loop.index, Table.ACCUMULATOR)
