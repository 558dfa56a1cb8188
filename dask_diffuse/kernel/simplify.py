"""Make kernels smaller without changing a bit of what they compute.

NaN stays NaN, zeros keep their sign, and nothing is reassociated. Equal instructions
have been one since the function was built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dask_diffuse.kernel.construct import FunctionBuilder, Value
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import Accumulate, Kernel, Statement
from dask_diffuse.ops.table import OPS

__all__ = ["drop_dead", "rebuild", "simplify", "simplify_function"]

_MANTISSA_BITS = {4: 24, 8: 53}


def simplify(kernel: Kernel) -> Kernel:
    """Return a kernel with fewer instructions that computes the same, bit for bit.

    Constants are folded, casts of casts become one, operations that
    give back an operand are gone, and so is what no statement needs.
    """
    pass_ = _Simplifier()
    values = pass_.run(kernel.function)
    statements = [
        (statement, [values[i] for i in _values_of(statement)])
        for statement in kernel.statements
    ]
    return rebuild(kernel, pass_.builder, statements)


def simplify_function(function: ScalarFunction) -> ScalarFunction:
    """Return a function with fewer instructions that computes the same, bit for bit.

    Examples
    --------
    >>> builder = FunctionBuilder()
    >>> x = builder.input(0, np.dtype("float64"))
    >>> y = builder.apply("multiply", x, builder.const(1, x.dtype))
    >>> z = builder.apply("add", y, builder.const(0, x.dtype))
    >>> function = builder.build([z])
    >>> [line.op for line in simplify_function(function).instructions]
    ['input', 'const', 'add']

    The multiplication by 1 is gone; the addition stays, since it makes 0 of -0.
    """
    pass_ = _Simplifier()
    values = pass_.run(function)
    return drop_dead(pass_.builder.build([values[i] for i in function.results]))


def rebuild(
    kernel: Kernel,
    builder: FunctionBuilder,
    statements: Sequence[tuple[Statement, Sequence[Value]]],
) -> Kernel:
    """Return a kernel with another function.

    Parameters
    ----------
    kernel
        Gives all but the function and the statements.
    builder
        Of the function.
    statements
        Each with its operands, values of the builder that replace those it has.
    """
    results = [value for _, values in statements for value in values]
    function = drop_dead(builder.build(results))
    places = iter(function.results)
    moved: list[Statement] = []
    for statement, values in statements:
        positions = tuple([next(places) for _ in values])
        if isinstance(statement, Accumulate):
            moved.append(replace(statement, values=positions))
        else:
            moved.append(replace(statement, value=positions[0]))
    distinct = tuple(dict.fromkeys(function.results))
    function = ScalarFunction(function.instructions, distinct)
    return replace(kernel, function=function, statements=tuple(moved))


def drop_dead(function: ScalarFunction) -> ScalarFunction:
    """Return a function without the instructions that no result needs.

    The others keep their order.

    Examples
    --------
    >>> builder = FunctionBuilder()
    >>> x = builder.input(0, np.dtype("float32"))
    >>> unused = builder.apply("exp", x)
    >>> len(drop_dead(builder.build([builder.apply("sqrt", x)])).instructions)
    2
    """
    lines = function.instructions
    needed = [False] * len(lines)
    for i in function.results:
        needed[i] = True
    for i in range(len(lines) - 1, -1, -1):
        if needed[i]:
            for j in lines[i].args:
                needed[j] = True
    if all(needed):
        return function
    places: list[int] = []
    kept: list[Instruction] = []
    for line, is_needed in zip(lines, needed, strict=True):
        places.append(len(kept))
        if is_needed:
            args = tuple([places[i] for i in line.args])
            moved = Instruction(line.op, args, line.dtype, line.attr)
            kept.append(line if args == line.args else moved)
    return ScalarFunction(tuple(kept), tuple([places[i] for i in function.results]))


def _values_of(statement: Statement) -> tuple[int, ...]:
    if isinstance(statement, Accumulate):
        return statement.values
    return (statement.value,)


class _Simplifier:
    """Copies a function into a builder, simpler where a rule applies."""

    def __init__(self) -> None:
        self.builder = FunctionBuilder()
        self._lines: list[Instruction] = []

    def run(self, function: ScalarFunction) -> list[Value]:
        values: list[Value] = []
        for line in function.instructions:
            args = tuple([values[i].position for i in line.args])
            values.append(self._emit(line.op, args, line))
        return values

    def _emit(self, op: str, args: tuple[int, ...], line: Instruction) -> Value:
        if args and line.dtype.kind != "c":
            if op == "cast":
                return self._cast(args[0], line.dtype)
            found = self._fold(op, args, line.dtype)
            if found is None and op in _IDENTITIES:
                position = _IDENTITIES[op](self._lines, *args)
                found = None if position is None else self._at(position)
            if found is not None:
                return found
            if op == "select" and self._lines[args[0]].op == "invert":
                args = (self._lines[args[0]].args[0], args[2], args[1])
        return self._append(Instruction(op, args, line.dtype, line.attr))

    def _append(self, line: Instruction) -> Value:
        value = self.builder.emit(line.op, line.args, line.dtype, line.attr)
        if value.position == len(self._lines):
            self._lines.append(line)
        return value

    def _at(self, position: int) -> Value:
        return Value(position, self._lines[position].dtype)

    def _const(self, value: object, dtype: np.dtype) -> Value | None:
        """Return a constant, unless it is the negative zero, of which there is none."""
        assert isinstance(value, bool | int | float)
        if isinstance(value, float):
            if value == 0 and math.copysign(1, value) < 0:
                return None
            # NaN equals nothing but itself as an object.
            value = math.nan if value != value else value
        return self._append(Instruction("const", (), dtype, value))

    def _fold(self, op: str, args: tuple[int, ...], dtype: np.dtype) -> Value | None:
        """Compute what has only constants as operands, where NumPy is exact."""
        lines = [self._lines[i] for i in args]
        if any(line.op != "const" for line in lines):
            return None
        row = OPS[op]
        if row.ulp:
            return None
        operands = [np.array(line.attr, line.dtype) for line in lines]
        with np.errstate(all="ignore"):
            return self._const(np.asarray(row.evaluate(*operands)).item(), dtype)

    def _cast(self, source: int, dtype: np.dtype) -> Value:
        line = self._lines[source]
        while line.op == "cast":
            first = self._lines[line.args[0]]
            if not _is_one_cast(first.dtype, line.dtype, dtype):
                break
            source, line = line.args[0], first
        if line.dtype == dtype:
            return self._at(source)
        if line.op == "const" and _is_exact(line.dtype, dtype):
            converted = np.array(line.attr, line.dtype).astype(dtype)
            folded = self._const(converted.item(), dtype)
            if folded is not None:
                return folded
        return self._append(Instruction("cast", (source,), dtype))


def _is_exact(source: np.dtype, target: np.dtype) -> bool:
    """Whether a cast keeps the values of all elements, so that none become equal.

    Examples
    --------
    >>> _is_exact(np.dtype("int32"), np.dtype("float64"))
    True
    >>> _is_exact(np.dtype("int64"), np.dtype("float64"))
    False
    """
    if target.kind == "b" or "c" in (source.kind, target.kind):
        return source == target
    if source.kind == "b":
        return True
    if source.kind in "iu" and target.kind == "f":
        bits = 8 * source.itemsize - (source.kind == "i")
        return bits <= _MANTISSA_BITS[target.itemsize]
    return bool(np.can_cast(source, target, "safe"))


def _is_one_cast(source: np.dtype, middle: np.dtype, target: np.dtype) -> bool:
    """Whether casting through a dtype is the same as casting at once."""
    if "b" in (middle.kind, target.kind) or "c" in (source.kind, target.kind):
        return False
    if source.kind == "b" and target.kind == "f":
        # That is no core cast.
        return False
    integers = {source.kind, middle.kind, target.kind} <= {"i", "u"}
    if integers and target.itemsize <= middle.itemsize:
        # Integers wrap around: only the last bits of each matter.
        return True
    if not _is_exact(source, middle):
        return False
    if middle.kind == "f" and target.kind in "iu":
        # Floats out of the range are not what integers wrap around to.
        return source.kind == "f" or _is_exact(source, target)
    return True


# Operations that give back an operand, for every value it may have.

Lines = list[Instruction]


def _is_const(line: Instruction, value: bool | int) -> bool:
    return line.op == "const" and line.attr == value


def _multiply(lines: Lines, x: int, y: int) -> int | None:
    if _is_const(lines[y], 1):
        return x
    return y if _is_const(lines[x], 1) else None


def _divide(lines: Lines, x: int, y: int) -> int | None:
    return x if _is_const(lines[y], 1) else None


def _add(lines: Lines, x: int, y: int) -> int | None:
    # -0.0 + 0.0 is 0.0.
    if lines[x].dtype.kind == "f":
        return None
    if _is_const(lines[y], 0):
        return x
    return y if _is_const(lines[x], 0) else None


def _subtract(lines: Lines, x: int, y: int) -> int | None:
    # -0.0 - 0.0 is -0.0.
    return x if _is_const(lines[y], 0) else None


def _inverse_of(op: str) -> Callable[[Lines, int], int | None]:
    def rule(lines: Lines, x: int) -> int | None:
        return lines[x].args[0] if lines[x].op == op else None

    return rule


def _round(lines: Lines, x: int) -> int | None:
    # What has been rounded is an integer.
    return x if lines[x].op in ("floor", "ceil", "trunc", "rint") else None


def _fabs(lines: Lines, x: int) -> int | None:
    return x if lines[x].op == "fabs" else None


def _truth(line: Instruction) -> bool | None:
    """Return a constant that is a bool, or None."""
    return line.attr if isinstance(line.attr, bool) else None


def _and(lines: Lines, x: int, y: int) -> int | None:
    if x == y:
        return x
    for one, other in ((x, y), (y, x)):
        truth = _truth(lines[one])
        if truth is not None:
            return other if truth else one
    return None


def _or(lines: Lines, x: int, y: int) -> int | None:
    if x == y:
        return x
    for one, other in ((x, y), (y, x)):
        truth = _truth(lines[one])
        if truth is not None:
            return one if truth else other
    return None


def _select(lines: Lines, condition: int, x: int, y: int) -> int | None:
    if x == y:
        return x
    truth = _truth(lines[condition])
    if truth is None:
        return None
    return x if truth else y


_IDENTITIES: dict[str, Callable[..., int | None]] = {
    "multiply": _multiply,
    "divide": _divide,
    "add": _add,
    "subtract": _subtract,
    "negative": _inverse_of("negative"),
    "invert": _inverse_of("invert"),
    "floor": _round,
    "ceil": _round,
    "trunc": _round,
    "rint": _round,
    "fabs": _fabs,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "select": _select,
    "where": _select,
}
