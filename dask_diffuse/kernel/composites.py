"""Functions of NumPy that are not ufuncs, written out in table ops.

Each takes a builder and then the arguments of the NumPy function: a `Value` for each
array, anything else as the user wrote it. Each is, bit for bit, what NumPy computes,
but for the math functions in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.construct import FunctionBuilder, Literal, Operand, Value
from dask_diffuse.ops.dtypes import promote, real_dtype

__all__ = ["apply_composite", "find_composite", "select"]

_BOOL = np.dtype(bool)
_FLOAT = np.dtype(np.float64)

Composite = Callable[..., Value]


def find_composite(function: Callable[..., object]) -> Composite | None:
    """Return what writes out a function of NumPy, or None.

    Examples
    --------
    >>> find_composite(np.clip).__name__
    'clip'
    """
    try:
        return _COMPOSITES.get(function)
    except TypeError:
        # Callables need not be hashable.
        return None


def apply_composite(
    composite: Composite,
    builder: FunctionBuilder,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Value:
    """Write out one call.

    Raises
    ------
    UnsupportedError
        If it has no scalar form, as with an argument that only NumPy's own function
        takes.
    """
    try:
        return composite(builder, *args, **kwargs)
    except TypeError as error:
        raise UnsupportedError(str(error)) from error


def where(builder: FunctionBuilder, condition: Any, x: Any, y: Any) -> Value:
    """Write out `numpy.where` of three arguments."""
    return builder.apply("where", *(_operand(builder, a) for a in (condition, x, y)))


def clip(
    builder: FunctionBuilder,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    *,
    min: Any = None,
    max: Any = None,
) -> Value:
    """Write out `numpy.clip`."""
    low = a_min if min is None else min
    high = a_max if max is None else max
    value = builder.value(_operand(builder, a))
    if value.dtype.kind in "iu":
        # NumPy: Python integers beyond the dtype, which are an error elsewhere, are
        # no bounds.
        limits = np.iinfo(value.dtype)
        if type(low) is int and low <= limits.min:
            low = None
        if type(high) is int and high >= limits.max:
            high = None
    if low is None and high is None:
        return builder.apply("positive", value)
    if low is None:
        return builder.apply("minimum", value, _operand(builder, high))
    if high is None:
        return builder.apply("maximum", value, _operand(builder, low))
    return _clip(builder, value, _operand(builder, low), _operand(builder, high))


def _clip(builder: FunctionBuilder, value: Value, low: Operand, high: Operand) -> Value:
    dtype = promote((value.dtype, low.dtype, high.dtype))
    if dtype.kind == "c":
        raise UnsupportedError("'clip' of complex numbers has no scalar form")
    value = builder.cast(value, dtype)
    floor, ceiling = builder.cast(low, dtype), builder.cast(high, dtype)
    if not (isinstance(low, Literal) and isinstance(high, Literal)):
        larger = builder.apply("maximum", value, floor)
        return builder.apply("minimum", larger, ceiling)
    for bound in (low.value, high.value):
        if bound != bound:
            raise UnsupportedError("'clip' to NaN is NaN whatever the values")
    # NumPy has another loop for bounds that are the same for all elements. It keeps
    # the value where that equals a bound, which is seen in the sign of zeros.
    value = builder.apply("where", builder.apply("less", value, floor), floor, value)
    above = builder.apply("greater", value, ceiling)
    return builder.apply("where", above, ceiling, value)


def round_(builder: FunctionBuilder, a: Any, decimals: Any = 0) -> Value:
    """Write out `numpy.round`."""
    if isinstance(decimals, bool) or not isinstance(decimals, int):
        raise UnsupportedError("'round' to decimals that are not a Python int")
    value = builder.value(_operand(builder, a))
    match value.dtype.kind:
        case "c":
            part = real_dtype(value.dtype)
            parts = [builder.core(name, value, dtype=part) for name in ("real", "imag")]
            rounded = [_round_float(builder, p, decimals) for p in parts]
            return builder.core("complex", *rounded, dtype=value.dtype)
        case "f":
            return _round_float(builder, value, decimals)
        case "b":
            raise UnsupportedError("'round' of bools is float16", "unsupported-dtype")
    if decimals >= 0:
        return value
    rounded_float = _round_float(builder, builder.cast(value, _FLOAT), decimals)
    return builder.cast(rounded_float, value.dtype)


def _round_float(builder: FunctionBuilder, value: Value, decimals: int) -> Value:
    if decimals == 0:
        return builder.apply("rint", value)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    factor = builder.const(_power_of_ten(abs(decimals)), value.dtype)
    scaled = builder.apply("rint", builder.apply(there, value, factor))
    return builder.apply(back, scaled, factor)


def _power_of_ten(exponent: int) -> float:
    """Return NumPy's 10**exponent, which above 1e22 is not the closest float."""
    power = 10.0 ** min(exponent, 9)
    for _ in range(min(exponent, 400) - 9):
        power *= 10
    return power


def isclose(
    builder: FunctionBuilder,
    a: Any,
    b: Any,
    rtol: Any = 1e-05,
    atol: Any = 1e-08,
    equal_nan: bool = False,
) -> Value:
    """Write out `numpy.isclose`."""
    if isinstance(b, int):
        b = float(b)
    x, y = _operand(builder, a), _operand(builder, b)
    if isinstance(y.dtype, np.dtype):
        y = builder.cast(y, promote((y.dtype, float)))
    apply = builder.apply
    distance = apply("absolute", apply("subtract", x, y))
    relative = apply("multiply", _tolerance(builder, rtol), apply("absolute", y))
    limit = apply("add", _tolerance(builder, atol), relative)
    near = apply(
        "bitwise_and", apply("less_equal", distance, limit), apply("isfinite", y)
    )
    close = apply("bitwise_or", near, apply("equal", x, y))
    if not equal_nan:
        return close
    both = apply("bitwise_and", apply("isnan", x), apply("isnan", y))
    return apply("bitwise_or", close, both)


def _tolerance(builder: FunctionBuilder, value: Any) -> Operand:
    operand = _operand(builder, value)
    if isinstance(operand, Literal) and not np.isfinite(operand.value):
        raise UnsupportedError("NumPy warns about a tolerance that is not finite")
    return operand


def nan_to_num(
    builder: FunctionBuilder,
    x: Any,
    copy: bool = True,
    nan: Any = 0.0,
    posinf: Any = None,
    neginf: Any = None,
) -> Value:
    """Write out `numpy.nan_to_num`."""
    if not copy:
        raise UnsupportedError("'nan_to_num' without a copy writes to its argument")
    value = builder.value(_operand(builder, x))
    if value.dtype.kind not in "fc":
        return value
    part = real_dtype(value.dtype)
    limits = np.finfo(part)
    fills = (
        builder.cast(_operand(builder, nan), part),
        _fill(builder, posinf, float(limits.max), part),
        _fill(builder, neginf, float(limits.min), part),
    )
    if value.dtype.kind == "f":
        return _replace_nonfinite(builder, value, *fills)
    parts = [builder.core(name, value, dtype=part) for name in ("real", "imag")]
    replaced = [_replace_nonfinite(builder, p, *fills) for p in parts]
    return builder.core("complex", *replaced, dtype=value.dtype)


def _fill(builder: FunctionBuilder, value: Any, limit: float, dtype: np.dtype) -> Value:
    if value is None:
        return builder.const(limit, dtype)
    return builder.cast(_operand(builder, value), dtype)


def _replace_nonfinite(
    builder: FunctionBuilder, value: Value, nan: Value, posinf: Value, neginf: Value
) -> Value:
    infinity = builder.const(math.inf, value.dtype)
    negative = builder.const(-math.inf, value.dtype)
    apply = builder.apply
    filled = apply("where", apply("isnan", value), nan, value)
    filled = apply("where", apply("equal", value, infinity), posinf, filled)
    return apply("where", apply("equal", value, negative), neginf, filled)


def angle(builder: FunctionBuilder, z: Any, deg: Any = False) -> Value:
    """Write out `numpy.angle`."""
    value = builder.value(_operand(builder, z))
    if value.dtype.kind == "c":
        part = real_dtype(value.dtype)
        y: Operand = builder.core("imag", value, dtype=part)
        x = builder.core("real", value, dtype=part)
    else:
        y, x = builder.literal(0), value
    result = builder.apply("arctan2", y, x)
    if not deg:
        return result
    return builder.apply("multiply", result, builder.const(180 / math.pi, result.dtype))


def real(builder: FunctionBuilder, val: Any) -> Value:
    """Write out `numpy.real`."""
    value = builder.value(_operand(builder, val))
    if value.dtype.kind != "c":
        return value
    return builder.core("real", value, dtype=real_dtype(value.dtype))


def imag(builder: FunctionBuilder, val: Any) -> Value:
    """Write out `numpy.imag`."""
    value = builder.value(_operand(builder, val))
    if value.dtype.kind != "c":
        return builder.const(0, value.dtype)
    return builder.core("imag", value, dtype=real_dtype(value.dtype))


def isreal(builder: FunctionBuilder, x: Any) -> Value:
    """Write out `numpy.isreal`."""
    part = imag(builder, x)
    return builder.apply("equal", part, builder.const(0, part.dtype))


def iscomplex(builder: FunctionBuilder, x: Any) -> Value:
    """Write out `numpy.iscomplex`."""
    part = imag(builder, x)
    return builder.apply("not_equal", part, builder.const(0, part.dtype))


def sinc(builder: FunctionBuilder, x: Any) -> Value:
    """Write out `numpy.sinc`."""
    scaled = builder.apply("multiply", builder.literal(math.pi), _operand(builder, x))
    if scaled.dtype.kind != "f":
        raise UnsupportedError("'sinc' of complex numbers has no scalar form")
    nearly_zero = builder.const(float(np.finfo(scaled.dtype).eps), scaled.dtype)
    y = builder.apply("where", scaled, scaled, nearly_zero)
    return builder.apply("divide", builder.apply("sin", y), y)


def fix(builder: FunctionBuilder, x: Any) -> Value:
    """Write out `numpy.fix`."""
    return builder.apply("trunc", _operand(builder, x))


def select(
    builder: FunctionBuilder, *conditions_choices: Any, default: Any = 0
) -> Value:
    """Write out `numpy.select`, given all conditions and then all choices."""
    half = len(conditions_choices) // 2
    operands = [_operand(builder, operand) for operand in conditions_choices]
    conditions, choices = operands[:half], operands[half:]
    if any(condition.dtype != _BOOL for condition in conditions):
        raise UnsupportedError("'select' needs conditions that are bools", "may-raise")
    other = _operand(builder, default)
    dtype = promote(tuple(choice.dtype for choice in (*choices, other)))
    result = builder.cast(other, dtype)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = builder.apply("where", condition, builder.cast(choice, dtype), result)
    return result


def _operand(builder: FunctionBuilder, value: Any) -> Operand:
    if isinstance(value, Value | Literal):
        return value
    return builder.literal(value)


_COMPOSITES: dict[Callable[..., object], Composite] = {
    np.where: where,
    np.clip: clip,
    np.round: round_,
    np.around: round_,
    np.isclose: isclose,
    np.nan_to_num: nan_to_num,
    np.angle: angle,
    np.real: real,
    np.imag: imag,
    np.isreal: isreal,
    np.iscomplex: iscomplex,
    np.sinc: sinc,
    np.fix: fix,
}
