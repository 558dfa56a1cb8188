"""Rules for operations on floats: what NumPy computes, in core ops.

Each takes a builder and the operands, and returns the result. The comments name facts
of NumPy where its answer is not the obvious one.
"""

from __future__ import annotations

import math

import numpy as np

from dask_diffuse.kernel.construct import Value
from dask_diffuse.kernel.core import CoreBuilder
from dask_diffuse.kernel.rules_integers import Rule

__all__ = ["FLOAT_RULES"]

_DOUBLE = np.dtype(np.float64)


def _same(_: CoreBuilder, x: Value) -> Value:
    return x


def _infinity(b: CoreBuilder, x: Value) -> Value:
    return b.const(math.inf, x.dtype)


# Division. NumPy starts from the exact remainder of fmod and mends its sign.


def _divmod(b: CoreBuilder, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """Return the remainder of fmod, whether it has the wrong sign, and that with it."""
    zero = b.zero(x)
    exact = b.call("fmod", x, y)
    nonzero = b.not_equal(exact, zero)
    opposite = b.differ(b.less(y, zero), b.less(exact, zero))
    return exact, b.both(nonzero, opposite), nonzero


def _remainder(b: CoreBuilder, x: Value, y: Value) -> Value:
    exact, wrong, nonzero = _divmod(b, x, y)
    # NumPy: a remainder that is zero has the sign of the divisor.
    signed = b.select(nonzero, exact, b.call("copysign", b.zero(y), y))
    return b.select(wrong, b.add(exact, y), signed)


def _floor_divide(b: CoreBuilder, x: Value, y: Value) -> Value:
    exact, wrong, _ = _divmod(b, x, y)
    zero, one = b.zero(x), b.one(x)
    quotient = b.divide(b.subtract(x, exact), y)
    quotient = b.select(wrong, b.subtract(quotient, one), quotient)
    # It is an integer but for rounding.
    floor = b.call("floor", quotient)
    half = b.const(0.5, x.dtype)
    below = b.greater(b.subtract(quotient, floor), half)
    snapped = b.select(below, b.add(floor, one), floor)
    ratio = b.divide(x, y)
    # NumPy: zero has the sign of the ratio, and x // 0 is x / 0.
    snapped = b.select(
        b.not_equal(quotient, zero), snapped, b.call("copysign", zero, ratio)
    )
    return b.select(b.equal(y, zero), ratio, snapped)


def _reciprocal(b: CoreBuilder, x: Value) -> Value:
    return b.divide(b.one(x), x)


def _square(b: CoreBuilder, x: Value) -> Value:
    return b.multiply(x, x)


# Signs.


def _absolute(b: CoreBuilder, x: Value) -> Value:
    return b.call("fabs", x)


def _sign(b: CoreBuilder, x: Value) -> Value:
    # NumPy: that of both zeros is 0, that of NaN is NaN.
    zero = b.zero(x)
    level = b.select(b.equal(x, zero), zero, x)
    level = b.select(b.less(x, zero), b.const(-1.0, x.dtype), level)
    return b.select(b.greater(x, zero), b.one(x), level)


def _heaviside(b: CoreBuilder, x: Value, y: Value) -> Value:
    zero = b.zero(x)
    level = b.select(b.equal(x, zero), y, x)
    level = b.select(b.less(x, zero), zero, level)
    return b.select(b.greater(x, zero), b.one(x), level)


# Comparison and logic.


def _truths(combine: Rule) -> Rule:
    # NumPy: NaN is true, as it is for `bool`.
    def rule(b: CoreBuilder, x: Value, y: Value) -> Value:
        return combine(b, b.is_true(x), b.is_true(y))

    return rule


def _logical_not(b: CoreBuilder, x: Value) -> Value:
    return b.equal(x, b.zero(x))


# NumPy: of equal operands, zeros of either sign, the second one; so have the
# instructions of x86 for ``x > y ? x : y``. Its fmax and fmin depend on where in the
# block the element is, and take the second one within most vectors.


def _maximum(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.select(b.is_nan(x), x, b.select(b.greater(x, y), x, y))


def _minimum(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.select(b.is_nan(x), x, b.select(b.less(x, y), x, y))


def _fmax(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.select(b.is_number(y), b.select(b.greater(x, y), x, y), x)


def _fmin(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.select(b.is_number(y), b.select(b.less(x, y), x, y), x)


def _isfinite(b: CoreBuilder, x: Value) -> Value:
    return b.less(b.call("fabs", x), _infinity(b, x))


def _isinf(b: CoreBuilder, x: Value) -> Value:
    return b.equal(b.call("fabs", x), _infinity(b, x))


# Parts and units.


def _spacing(b: CoreBuilder, x: Value) -> Value:
    # Away from zero; NaN for infinities since that is infinity - infinity.
    infinity = _infinity(b, x)
    away = b.select(b.less(x, b.zero(x)), b.const(-math.inf, x.dtype), infinity)
    return b.subtract(b.call("nextafter", x, away), x)


def _to_radians(b: CoreBuilder, x: Value) -> Value:
    # NumPy divides in the dtype, so that the last bit is not that of the closest float.
    factor = x.dtype.type(math.pi) / x.dtype.type(180)
    return b.multiply(x, b.const(factor, x.dtype))


def _to_degrees(b: CoreBuilder, x: Value) -> Value:
    factor = x.dtype.type(180) / x.dtype.type(math.pi)
    return b.multiply(x, b.const(factor, x.dtype))


# The math library.


def _float_power(b: CoreBuilder, x: Value, y: Value) -> Value:
    return b.call("power", x, y)


def _logaddexp(b: CoreBuilder, x: Value, y: Value) -> Value:
    distance = b.call("fabs", b.subtract(x, y))
    small = b.call("log1p", b.call("exp", b.negative(distance)))
    return _add_to_larger(b, x, y, small, math.log(2))


def _logaddexp2(b: CoreBuilder, x: Value, y: Value) -> Value:
    distance = b.call("fabs", b.subtract(x, y))
    natural = b.call("log1p", b.call("exp2", b.negative(distance)))
    small = b.multiply(natural, b.const(math.log2(math.e), x.dtype))
    return _add_to_larger(b, x, y, small, 1.0)


def _add_to_larger(
    b: CoreBuilder, x: Value, y: Value, small: Value, if_equal: float
) -> Value:
    # Infinities that are equal have a distance of NaN.
    larger = b.select(b.greater(x, y), x, y)
    equal = b.add(x, b.const(if_equal, x.dtype))
    return b.select(b.equal(x, y), equal, b.add(larger, small))


def _ndtr(b: CoreBuilder, x: Value) -> Value:
    # SciPy computes in float64: the error of the argument grows with its square.
    wide = b.convert(x, _DOUBLE)
    scaled = b.multiply(wide, b.const(math.sqrt(0.5), _DOUBLE))
    tail = b.call("erfc", b.negative(scaled))
    return b.convert(b.multiply(b.const(0.5, _DOUBLE), tail), x.dtype)


def _expit(b: CoreBuilder, x: Value) -> Value:
    return b.divide(b.one(x), b.add(b.one(x), b.call("exp", b.negative(x))))


FLOAT_RULES: dict[str, Rule] = {
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "float_power": _float_power,
    "positive": _same,
    "conjugate": _same,
    "absolute": _absolute,
    "sign": _sign,
    "square": _square,
    "reciprocal": _reciprocal,
    "heaviside": _heaviside,
    "logical_and": _truths(CoreBuilder.both),
    "logical_or": _truths(CoreBuilder.either),
    "logical_xor": _truths(CoreBuilder.differ),
    "logical_not": _logical_not,
    "maximum": _maximum,
    "minimum": _minimum,
    "fmax": _fmax,
    "fmin": _fmin,
    "isfinite": _isfinite,
    "isinf": _isinf,
    "isnan": CoreBuilder.is_nan,
    "spacing": _spacing,
    "deg2rad": _to_radians,
    "radians": _to_radians,
    "rad2deg": _to_degrees,
    "degrees": _to_degrees,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "ndtr": _ndtr,
    "expit": _expit,
}
"""For operands that are floats."""
