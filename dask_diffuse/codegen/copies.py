"""Functions of the driver that pack elements into scratch memory, and unpack them."""

from __future__ import annotations

from dask_diffuse.codegen.memory import splat_of
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import lane_numbers, vector

__all__ = ["call_copy", "copy_functions", "count_function"]

_SIZES = (1, 2, 4, 8, 16)


def copy_functions() -> str:
    """Return the functions that copy rectangles of elements."""
    return "".join([*(_copy(size) for size in _SIZES), _copy_any()])


def _element(size: int) -> str:
    return "<2 x i64>" if size == 16 else f"i{8 * size}"


def _copy(size: int) -> str:
    """Copy a rectangle of elements of one size; strides are in bytes.

    Blocks that came over a network lie where the message put them: at any address.
    """
    text = FunctionText(
        f"copy{size}",
        (
            *(("ptr", "%to"), ("ptr", "%from"), ("i64", "%rows"), ("i64", "%columns")),
            *(("i64", "%to_row"), ("i64", "%to_column")),
            *(("i64", "%from_row"), ("i64", "%from_column")),
        ),
    )
    type_ = _element(size)
    with text.loop("%rows") as row:
        source = text.at("i8", "%from", text.math("mul", row.index, "%from_row"))
        target = text.at("i8", "%to", text.math("mul", row.index, "%to_row"))
        together = text.math(
            "or",
            text.math("sub", "%to_column", size),
            text.math("sub", "%from_column", size),
        )
        packed = text.test("eq", together, 0)
        with text.when(packed):
            group = max(1, 32 // size)
            wide = f"<{group * size} x i8>"
            for start, count, many, element in _whole_and_rest(
                *(text, group, wide, type_)
            ):
                with text.loop(count, many) as column:
                    place = text.math("add", column.index, start)
                    offset = text.math("mul", place, size)
                    value = text.load(element, text.at("i8", source, offset), 1)
                    text.store(element, value, text.at("i8", target, offset), 1)
        with text.otherwise(packed):
            for start, count, many, _ in _whole_and_rest(text, 4, type_, type_):
                with text.loop(count, many) as column:
                    place = text.math("add", column.index, start)
                    _copy_some(text, source, target, place, many, type_)
    return text.finish()


def _whole_and_rest(
    text: FunctionText, group: int, wide: str, single: str
) -> tuple[tuple[str, str, int, str], ...]:
    """Return first element, count, step and type of two loops over a row."""
    whole = text.math("and", "%columns", -group)
    rest = text.math("sub", "%columns", whole)
    return ("0", whole, group, wide), (whole, rest, 1, single)


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


_COPY_PARAMS = (
    *(("i64", "%size"), ("ptr", "%to"), ("ptr", "%from")),
    *(("i64", "%rows"), ("i64", "%columns")),
    *(("i64", "%to_row"), ("i64", "%to_column")),
    *(("i64", "%from_row"), ("i64", "%from_column")),
)


def _copy_any() -> str:
    """Copy a rectangle of elements of any size."""
    text = FunctionText("copy", _COPY_PARAMS)
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
