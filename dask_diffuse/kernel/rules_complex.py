"""Rules for operations on complex numbers: what NumPy computes, on real parts.

Each takes a builder and the operands as parts, and returns the result: parts, or one
value if it is not complex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from dask_diffuse.kernel.construct import Value
from dask_diffuse.kernel.core import CoreBuilder

__all__ = ["COMPLEX_RULES", "ComplexRule", "Parts"]


class Parts(NamedTuple):
    """A complex value as two real ones."""

    real: Value
    imag: Value


ComplexRule = Callable[..., "Parts | Value"]
Compare = Callable[[CoreBuilder, Value, Value], Value]


# Arithmetic.


def _add(b: CoreBuilder, x: Parts, y: Parts) -> Parts:
    return Parts(b.add(x.real, y.real), b.add(x.imag, y.imag))


def _subtract(b: CoreBuilder, x: Parts, y: Parts) -> Parts:
    return Parts(b.subtract(x.real, y.real), b.subtract(x.imag, y.imag))


def _multiply(b: CoreBuilder, x: Parts, y: Parts) -> Parts:
    real = b.subtract(b.multiply(x.real, y.real), b.multiply(x.imag, y.imag))
    imag = b.add(b.multiply(x.real, y.imag), b.multiply(x.imag, y.real))
    return Parts(real, imag)


def _square(b: CoreBuilder, x: Parts) -> Parts:
    return _multiply(b, x, x)


def _divide(b: CoreBuilder, x: Parts, y: Parts) -> Parts:
    """Divide as Smith does: scale by the larger part of the divisor."""
    real_size, imag_size = b.call("fabs", y.real), b.call("fabs", y.imag)
    by_real = b.greater_equal(real_size, imag_size)
    large = b.select(by_real, y.real, y.imag)
    small = b.select(by_real, y.imag, y.real)
    ratio = b.divide(small, large)
    scale = b.divide(b.one(large), b.add(large, b.multiply(small, ratio)))
    # by_real: real + imag * ratio and imag - real * ratio;
    # else: real * ratio + imag and imag * ratio - real.
    first = b.select(by_real, x.real, x.imag)
    second = b.select(by_real, x.imag, x.real)
    real = b.add(first, b.multiply(second, ratio))
    product = b.multiply(first, ratio)
    imag = b.subtract(
        b.select(by_real, second, product), b.select(by_real, product, second)
    )
    # NumPy: a division by zero divides both parts by it.
    zero = b.zero(large)
    by_zero = b.both(b.equal(real_size, zero), b.equal(imag_size, zero))
    return Parts(
        b.select(by_zero, b.divide(x.real, real_size), b.multiply(real, scale)),
        b.select(by_zero, b.divide(x.imag, real_size), b.multiply(imag, scale)),
    )


def _reciprocal(b: CoreBuilder, x: Parts) -> Parts:
    real_size, imag_size = b.call("fabs", x.real), b.call("fabs", x.imag)
    by_real = b.less_equal(imag_size, real_size)
    large = b.select(by_real, x.real, x.imag)
    small = b.select(by_real, x.imag, x.real)
    ratio = b.divide(small, large)
    scale = b.add(large, b.multiply(small, ratio))
    one = b.one(large)
    real = b.divide(b.select(by_real, one, ratio), scale)
    imag = b.divide(b.negative(b.select(by_real, ratio, one)), scale)
    return Parts(real, imag)


def _negative(b: CoreBuilder, x: Parts) -> Parts:
    return Parts(b.negative(x.real), b.negative(x.imag))


def _conjugate(b: CoreBuilder, x: Parts) -> Parts:
    return Parts(x.real, b.negative(x.imag))


def _same(_: CoreBuilder, x: Parts) -> Parts:
    return x


def _rint(b: CoreBuilder, x: Parts) -> Parts:
    return Parts(b.call("rint", x.real), b.call("rint", x.imag))


def _absolute(b: CoreBuilder, x: Parts) -> Value:
    return b.call("hypot", x.real, x.imag)


def _sign(b: CoreBuilder, x: Parts) -> Parts:
    """Divide by the size, which is NumPy's sign since 2.0."""
    size = b.call("hypot", x.real, x.imag)
    zero, infinity = b.zero(size), b.const(math.inf, size.dtype)
    real_infinite = b.equal(b.call("fabs", x.real), infinity)
    imag_infinite = b.equal(b.call("fabs", x.imag), infinity)
    # Where the size is infinite, an infinite part alone is the direction, and two have
    # none. NumPy takes the imaginary part where finite parts have an infinite size.
    both = b.select(imag_infinite, b.const(math.nan, size.dtype), zero)
    along_real = b.select(imag_infinite, both, _direction(b, x.real))
    far_real = b.select(real_infinite, along_real, zero)
    far_imag = b.select(real_infinite, both, _direction(b, x.imag))
    far, none = b.equal(size, infinity), b.equal(size, zero)
    nan = b.is_nan(size)

    def part(own: Value, if_far: Value) -> Value:
        near = b.select(none, zero, b.divide(own, size))
        return b.select(nan, size, b.select(far, if_far, near))

    return Parts(part(x.real, far_real), part(x.imag, far_imag))


def _direction(b: CoreBuilder, x: Value) -> Value:
    one = b.one(x)
    return b.select(b.greater(x, b.zero(x)), one, b.negative(one))


# Comparison and logic. NumPy: the real parts decide unless they are equal, then the
# imaginary ones.


def _equal(b: CoreBuilder, x: Parts, y: Parts) -> Value:
    return b.both(b.equal(x.real, y.real), b.equal(x.imag, y.imag))


def _not_equal(b: CoreBuilder, x: Parts, y: Parts) -> Value:
    return b.either(b.not_equal(x.real, y.real), b.not_equal(x.imag, y.imag))


def _order(strict: Compare, compare: Compare) -> ComplexRule:
    def rule(b: CoreBuilder, x: Parts, y: Parts) -> Value:
        numbers = b.both(b.is_number(x.imag), b.is_number(y.imag))
        by_real = b.both(strict(b, x.real, y.real), numbers)
        by_imag = b.both(b.equal(x.real, y.real), compare(b, x.imag, y.imag))
        return b.either(by_real, by_imag)

    return rule


_LESS = _order(CoreBuilder.less, CoreBuilder.less)
_LESS_EQUAL = _order(CoreBuilder.less, CoreBuilder.less_equal)
_GREATER = _order(CoreBuilder.greater, CoreBuilder.greater)
_GREATER_EQUAL = _order(CoreBuilder.greater, CoreBuilder.greater_equal)


def is_true(b: CoreBuilder, x: Parts) -> Value:
    """Return whether a complex number is not zero."""
    return b.either(b.is_true(x.real), b.is_true(x.imag))


def is_nan(b: CoreBuilder, x: Parts) -> Value:
    """Return whether a part of a complex number is NaN."""
    return b.either(b.is_nan(x.real), b.is_nan(x.imag))


def _truths(combine: Compare) -> ComplexRule:
    def rule(b: CoreBuilder, x: Parts, y: Parts) -> Value:
        return combine(b, is_true(b, x), is_true(b, y))

    return rule


def _logical_not(b: CoreBuilder, x: Parts) -> Value:
    return b.invert(is_true(b, x))


def select(b: CoreBuilder, condition: Value, x: Parts, y: Parts) -> Parts:
    """Return ``x if condition else y``."""
    return Parts(
        b.select(condition, x.real, y.real), b.select(condition, x.imag, y.imag)
    )


def _extremum(order: ComplexRule, *, skip_nan: bool) -> ComplexRule:
    def rule(b: CoreBuilder, x: Parts, y: Parts) -> Parts:
        nan = is_nan(b, y) if skip_nan else is_nan(b, x)
        ordered = order(b, x, y)
        assert not isinstance(ordered, Parts)
        return select(b, b.either(ordered, nan), x, y)

    return rule


def _isfinite(b: CoreBuilder, x: Parts) -> Value:
    infinity = b.const(math.inf, x.real.dtype)
    real = b.less(b.call("fabs", x.real), infinity)
    return b.both(real, b.less(b.call("fabs", x.imag), infinity))


def _isinf(b: CoreBuilder, x: Parts) -> Value:
    infinity = b.const(math.inf, x.real.dtype)
    real = b.equal(b.call("fabs", x.real), infinity)
    return b.either(real, b.equal(b.call("fabs", x.imag), infinity))


# Parts.


def _make(_: CoreBuilder, real: Value, imag: Value) -> Parts:
    return Parts(real, imag)


def _real(_: CoreBuilder, x: Parts) -> Value:
    return x.real


def _imag(_: CoreBuilder, x: Parts) -> Value:
    return x.imag


COMPLEX_RULES: dict[str, ComplexRule] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "reciprocal": _reciprocal,
    "square": _square,
    "negative": _negative,
    "positive": _same,
    "conjugate": _conjugate,
    "rint": _rint,
    "absolute": _absolute,
    "sign": _sign,
    "equal": _equal,
    "not_equal": _not_equal,
    "less": _LESS,
    "less_equal": _LESS_EQUAL,
    "greater": _GREATER,
    "greater_equal": _GREATER_EQUAL,
    "logical_and": _truths(CoreBuilder.both),
    "logical_or": _truths(CoreBuilder.either),
    "logical_xor": _truths(CoreBuilder.differ),
    "logical_not": _logical_not,
    "maximum": _extremum(_GREATER_EQUAL, skip_nan=False),
    "minimum": _extremum(_LESS_EQUAL, skip_nan=False),
    "fmax": _extremum(_GREATER_EQUAL, skip_nan=True),
    "fmin": _extremum(_LESS_EQUAL, skip_nan=True),
    "isfinite": _isfinite,
    "isinf": _isinf,
    "isnan": is_nan,
    "where": select,
    "select": select,
    "complex": _make,
    "real": _real,
    "imag": _imag,
}
"""For operations that have complex operands or a complex result."""
