"""Rules for operations on bools and integers: what NumPy computes, in core ops.

Each takes a builder and the operands, and returns the result. The comments name facts
of NumPy where its answer is not the obvious one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dask_diffuse.kernel.construct import Value
from dask_diffuse.kernel.core import CoreBuilder

__all__ = ["BOOL_RULES", "INTEGER_RULES", "Rule"]

Rule = Callable[..., Value]

_BOOL = np.dtype(bool)
_UNSIGNED = {8 * n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}

_EXACT_QUOTIENTS: dict[int, np.dtype] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.float32),
    4: np.dtype(np.float64),
}
"""By bytes, the float type whose quotient of two such integers has the right floor.

A quotient that is no integer is at least ``1 / abs(y)`` away from the next one, which
is more than it can be rounded by. Processors divide vectors of floats, but not of
integers.
"""


def _num_bits(x: Value) -> int:
    return 8 * x.dtype.itemsize


# Bools.


def _bool_equal(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.invert(b.differ(x, y))


def _bool_less(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.both(b.invert(x), y)


def _bool_less_equal(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.either(b.invert(x), y)


def _bool_greater(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.both(x, b.invert(y))


def _bool_greater_equal(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.either(x, b.invert(y))


def _same(_: CoreBuilder, x: Value) -> Value:
    return x


def _never(b: CoreBuilder, _: Value) -> Value:
    return b.const(False, _BOOL)


def _always(b: CoreBuilder, _: Value) -> Value:
    return b.const(True, _BOOL)


BOOL_RULES: dict[str, Rule] = {
    "add": CoreBuilder.either,
    "multiply": CoreBuilder.both,
    "absolute": _same,
    "floor": _same,
    "ceil": _same,
    "trunc": _same,
    "equal": _bool_equal,
    "not_equal": CoreBuilder.differ,
    "less": _bool_less,
    "less_equal": _bool_less_equal,
    "greater": _bool_greater,
    "greater_equal": _bool_greater_equal,
    "logical_and": CoreBuilder.both,
    "logical_or": CoreBuilder.either,
    "logical_xor": CoreBuilder.differ,
    "logical_not": CoreBuilder.invert,
    "maximum": CoreBuilder.either,
    "minimum": CoreBuilder.both,
    "fmax": CoreBuilder.either,
    "fmin": CoreBuilder.both,
    "isfinite": _always,
    "isinf": _never,
    "isnan": _never,
    "where": CoreBuilder.select,
}
"""For operands that are bools, or whose first is one."""


# Division. NumPy: a quotient and a remainder by zero are 0; the smallest integer
# divided by -1 is itself.


def _safe_divisor(b: CoreBuilder, y: Value) -> tuple[Value, Value]:
    """Return whether a division by y would trap, and y or 1 where it would."""
    unsafe = b.equal(y, b.zero(y))
    if y.dtype.kind == "i":
        unsafe = b.either(unsafe, b.equal(y, b.const(-1, y.dtype)))
    return unsafe, b.select(unsafe, b.one(y), y)


def _quotient(b: CoreBuilder, x: Value, y: Value, rounding: str) -> Value:
    """Divide by what is neither 0 nor -1, and round to an integer."""
    dtype = x.dtype
    exact = _EXACT_QUOTIENTS.get(dtype.itemsize)
    if exact is not None:
        ratio = b.divide(b.convert(x, exact), b.convert(y, exact))
        return _integer_of(b, b.call(rounding, ratio), dtype)
    quotient = b.call("int_div", x, y)
    if dtype.kind == "u" or rounding == "trunc":
        return quotient
    remainder = b.subtract(x, b.multiply(quotient, y))
    wrong = _wrong_side(b, remainder, y)
    return b.select(wrong, b.subtract(quotient, b.one(y)), quotient)


def _integer_of(b: CoreBuilder, x: Value, dtype: np.dtype) -> Value:
    """Convert a float that is an integer within the range of a narrow dtype."""
    wide = np.dtype(np.int64 if dtype == np.uint32 else np.int32)
    return b.convert(b.convert(x, wide), dtype)


def _wrong_side(b: CoreBuilder, remainder: Value, y: Value) -> Value:
    """Whether a remainder is not zero and has not the sign of the divisor."""
    opposite = b.less(b.differ(remainder, y), b.zero(y))
    return b.both(b.not_equal(remainder, b.zero(y)), opposite)


def _floor_divide(b: CoreBuilder, x: Value, y: Value) -> Value:
    unsafe, safe = _safe_divisor(b, y)
    quotient = _quotient(b, x, safe, "floor")
    # x * 0 is 0, and x * -1 is x // -1, wrap-around included.
    special = b.zero(x) if x.dtype.kind == "u" else b.multiply(x, y)
    return b.select(unsafe, special, quotient)


def _remainder(b: CoreBuilder, x: Value, y: Value) -> Value:
    # Modulo 1 everything is 0, which is what NumPy has for modulo 0 and -1.
    _, safe = _safe_divisor(b, y)
    if x.dtype.itemsize < 8:
        quotient = _quotient(b, x, safe, "floor")
        return b.subtract(x, b.multiply(quotient, safe))
    remainder = b.call("int_rem", x, safe)
    if x.dtype.kind == "u":
        return remainder
    wrong = _wrong_side(b, remainder, safe)
    return b.add(remainder, b.select(wrong, safe, b.zero(safe)))


def _fmod(b: CoreBuilder, x: Value, y: Value) -> Value:
    _, safe = _safe_divisor(b, y)
    if x.dtype.itemsize == 8:
        return b.call("int_rem", x, safe)
    quotient = _quotient(b, x, safe, "trunc")
    return b.subtract(x, b.multiply(quotient, safe))


def _reciprocal(b: CoreBuilder, x: Value) -> Value:
    dtype = x.dtype
    if dtype.kind == "u":
        return b.convert(b.equal(x, b.one(x)), dtype)
    # NumPy converts the float 1 / x: infinity becomes the smallest integer, of which a
    # narrow dtype keeps the zeros at the end.
    unsigned = _UNSIGNED[_num_bits(x)]
    shifted = b.convert(b.add(x, b.one(x)), unsigned)
    unit = b.less_equal(shifted, b.const(2, unsigned))
    result = b.select(unit, x, b.zero(x))
    if dtype.itemsize < 4:
        return result
    smallest = b.const(int(np.iinfo(dtype).min), dtype)
    return b.select(b.equal(x, b.zero(x)), smallest, result)


# Comparison. NumPy compares int64 with uint64 by value; all others have one dtype.


def _as_unsigned(
    b: CoreBuilder, x: Value, y: Value
) -> tuple[Value, Value, Value] | None:
    """Of mixed operands, return both without a sign, and whether one is negative."""
    if x.dtype == y.dtype:
        return None
    signed, unsigned = (x, y.dtype) if x.dtype.kind == "i" else (y, x.dtype)
    below = b.less(signed, b.zero(signed))
    return b.convert(x, unsigned), b.convert(y, unsigned), below


def _comparison(name: str, if_first_below: bool, if_second_below: bool) -> Rule:
    def compare(b: CoreBuilder, x: Value, y: Value) -> Value:
        mixed = _as_unsigned(b, x, y)
        if mixed is None:
            return b.core(name, x, y, dtype=_BOOL)
        left, right, below = mixed
        result = b.core(name, left, right, dtype=_BOOL)
        if if_first_below if x.dtype.kind == "i" else if_second_below:
            return b.either(below, result)
        return b.both(b.invert(below), result)

    return compare


def _of_truth(combine: Rule) -> Rule:
    def rule(b: CoreBuilder, x: Value, y: Value) -> Value:
        return combine(b, b.is_true(x), b.is_true(y))

    return rule


def _logical_not(b: CoreBuilder, x: Value) -> Value:
    return b.equal(x, b.zero(x))


def _maximum(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.select(b.greater(x, y), x, y)


def _minimum(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.select(b.less(x, y), x, y)


# Signs.


def _absolute(b: CoreBuilder, x: Value) -> Value:
    # NumPy: that of the smallest integer is itself.
    if x.dtype.kind == "u":
        return x
    return b.select(b.less(x, b.zero(x)), b.negative(x), x)


def _sign(b: CoreBuilder, x: Value) -> Value:
    if x.dtype.kind == "u":
        return b.convert(b.is_true(x), x.dtype)
    zero = b.zero(x)
    level = b.select(b.less(x, zero), b.const(-1, x.dtype), zero)
    return b.select(b.greater(x, zero), b.one(x), level)


def _square(b: CoreBuilder, x: Value) -> Value:
    return b.multiply(x, x)


# Shifts. NumPy: past the width, which includes negative counts, all bits are gone.


def _is_in_range(b: CoreBuilder, count: Value) -> Value:
    bits = _num_bits(count)
    unsigned = _UNSIGNED[bits]
    return b.less(b.convert(count, unsigned), b.const(bits, unsigned))


def _left_shift(b: CoreBuilder, x: Value, y: Value) -> Value:
    in_range = _is_in_range(b, y)
    count = b.select(in_range, y, b.zero(y))
    return b.select(in_range, b.call("shift_left", x, count), b.zero(x))


def _right_shift(b: CoreBuilder, x: Value, y: Value) -> Value:
    in_range = _is_in_range(b, y)
    if x.dtype.kind == "i":
        # The sign is all that is left, as after a shift by one less than the width.
        count = b.select(in_range, y, b.const(_num_bits(y) - 1, y.dtype))
        return b.call("shift_right", x, count)
    count = b.select(in_range, y, b.zero(y))
    return b.select(in_range, b.call("shift_right", x, count), b.zero(x))


INTEGER_RULES: dict[str, Rule] = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "fmod": _fmod,
    "reciprocal": _reciprocal,
    "positive": _same,
    "conjugate": _same,
    "floor": _same,
    "ceil": _same,
    "trunc": _same,
    "absolute": _absolute,
    "sign": _sign,
    "square": _square,
    "equal": _comparison("equal", False, False),
    "not_equal": _comparison("not_equal", True, True),
    "less": _comparison("less", True, False),
    "less_equal": _comparison("less_equal", True, False),
    "greater": _comparison("greater", False, True),
    "greater_equal": _comparison("greater_equal", False, True),
    "logical_and": _of_truth(CoreBuilder.both),
    "logical_or": _of_truth(CoreBuilder.either),
    "logical_xor": _of_truth(CoreBuilder.differ),
    "logical_not": _logical_not,
    "maximum": _maximum,
    "minimum": _minimum,
    "fmax": _maximum,
    "fmin": _minimum,
    "isfinite": _always,
    "isinf": _never,
    "isnan": _never,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
}
"""For operands that are integers."""
