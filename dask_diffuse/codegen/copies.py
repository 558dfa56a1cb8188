"""Functions of the driver that pack elements into scratch memory, and unpack them."""

from __future__ import annotations

from dask_diffuse.codegen.memory import splat_of
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import lane_numbers, vector

__all__ = ["call_copy", "copy_functions", "count_function"]

_COPY_PARAMS = (
    *(("i64", "%size"), ("ptr", "%to"), ("ptr", "%from")),
    *(("i64", "%rows"), ("i64", "%columns")),
    *(("i64", "%to_row"), ("i64", "%to_column")),
    *(("i64", "%from_row"), ("i64", "%from_column")),
)

_SIZES = {1: 1, 2: 1, 4: 4, 8: 4, 16: 1}
"""How many elements are copied at a time, by their size."""


def copy_functions() -> str:
    """Return the functions that copy rectangles of elements."""
    declared = "declare ptr @memcpy(ptr, ptr, i64) #1\n"
    return "".join([*(_copy_apart(size) for size in _SIZES), _copy(), declared])


def _copy_apart(size: int) -> str:
    """Copy a rectangle of elements that lie apart; strides are in bytes.

    Blocks that came over a network lie where the message put them: at any address.
    """
    text = FunctionText(f"copy{size}", _COPY_PARAMS[1:])
    type_ = "<2 x i64>" if size == 16 else f"i{8 * size}"
    many = _SIZES[size]
    whole = text.math("and", "%columns", -many)
    rest = text.math("sub", "%columns", whole)
    with text.loop("%rows") as row:
        source = text.at("i8", "%from", text.math("mul", row.index, "%from_row"))
        target = text.at("i8", "%to", text.math("mul", row.index, "%to_row"))
        with text.loop(whole, many) as column:
            _copy_some(text, source, target, column.index, many, type_)
        if many > 1:
            with text.loop(rest) as column:
                place = text.math("add", column.index, whole)
                _copy_some(text, source, target, place, 1, type_)
    return text.finish()


def _copy_some(
    text: FunctionText,
    source: str,
    target: str,
    place: str,
    count: int,
    type_: str,
) -> None:
    """Copy some elements of a row one by one, from where they lie apart."""
    pointers = []
    for base, stride in ((source, "%from_column"), (target, "%to_column")):
        pointer = text.at("i8", base, text.math("mul", place, stride))
        steps = [pointer]
        for _ in range(count - 1):
            steps.append(text.at("i8", steps[-1], stride))
        pointers.append(steps)
    values = [text.load(type_, pointer, 1) for pointer in pointers[0]]
    for value, pointer in zip(values, pointers[1], strict=True):
        text.store(type_, value, pointer, 1)


def _copy() -> str:
    """Copy a rectangle of elements of any size."""
    text = FunctionText("copy", _COPY_PARAMS)
    apart = text.math(
        "or",
        text.math("sub", "%to_column", "%size"),
        text.math("sub", "%from_column", "%size"),
    )
    side_by_side = text.test("eq", apart, 0)
    with text.when(side_by_side):
        length = text.math("mul", "%columns", "%size")
        with text.loop("%rows") as row:
            source = text.at("i8", "%from", text.math("mul", row.index, "%from_row"))
            target = text.at("i8", "%to", text.math("mul", row.index, "%to_row"))
            text.let(
                "copied",
                f"call ptr @memcpy(ptr {target}, ptr {source}, i64 {length})",
            )
    with text.otherwise(side_by_side):
        operands = ", ".join(f"{type_} {name}" for type_, name in _COPY_PARAMS[1:])
        for size in _SIZES:
            with text.when(text.test("eq", "%size", size)):
                text.do(f"call void @copy{size}({operands})")
    return text.finish()


def call_copy(
    text: FunctionText, size: str, to: str, source: str, shape: tuple[str | int, ...]
) -> None:
    """Write a call that copies a rectangle.

    Parameters
    ----------
    text
        Where it goes.
    size
        Of an element.
    to, source
        Pointers.
    shape
        Rows, columns, then row and column stride in bytes of the target and of the
        source.
    """
    words = ", ".join(f"i64 {word}" for word in shape)
    text.do(f"call void @copy(i64 {size}, ptr {to}, ptr {source}, {words})")


def count_function(lanes: int) -> str:
    """Write positions: ``start + row * row_step + column * column_step``.

    Whole vectors are written, and so some positions past the end.
    """
    text = FunctionText(
        "count",
        (
            *(("ptr", "%to"), ("i64", "%start"), ("i64", "%rows"), ("i64", "%columns")),
            *(("i64", "%row_step"), ("i64", "%column_step")),
        ),
    )
    wide = vector(lanes, "i64")
    step = splat_of(text, "%column_step", "i64", lanes)
    numbers = text.let("numbers", f"mul {wide} {step}, {lane_numbers(lanes)}")
    with text.loop("%rows") as row:
        start = text.math("add", "%start", text.math("mul", row.index, "%row_step"))
        target = text.at("i64", "%to", text.math("mul", row.index, "%columns"))
        with text.loop("%columns", lanes) as column:
            first = text.math(
                "add", start, text.math("mul", column.index, "%column_step")
            )
            first = splat_of(text, first, "i64", lanes)
            value = text.let("value", f"add {wide} {first}, {numbers}")
            text.store(wide, value, text.at("i64", target, column.index), 8)
    return text.finish()
