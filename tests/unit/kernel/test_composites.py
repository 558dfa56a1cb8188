"""Functions that are written out in table ops, against NumPy's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.composites import apply_composite, find_composite, select
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.interpret import evaluate
from dask_diffuse.kernel.legalize import legalize_function
from dask_diffuse.ops import SUPPORTED
from tests.semantics.special import assert_close, assert_identical, special_values

pytestmark = pytest.mark.filterwarnings("ignore")

LIBM = {np.angle, np.sinc}


def call(
    function: Callable[..., Any], *args: Any, ulp: int = 0, **kwargs: Any
) -> np.ndarray:
    """Compare a function of NumPy with what is written out for it."""
    composite = find_composite(function)
    assert composite is not None
    builder = FunctionBuilder()
    arrays = [a for a in (*args, *kwargs.values()) if isinstance(a, np.ndarray)]
    values = [builder.input(i, a.dtype) for i, a in enumerate(arrays)]

    def value(argument: Any) -> Any:
        for array, operand in zip(arrays, values, strict=True):
            if argument is array:
                return operand
        return argument

    result = apply_composite(
        composite,
        builder,
        tuple(map(value, args)),
        {name: value(v) for name, v in kwargs.items()},
    )
    built = builder.build([result])
    expected = np.asarray(function(*args, **kwargs))
    what = f"{function.__name__} of {[a.dtype.name for a in arrays]}"
    actual = evaluate(built, arrays, builder.scalars)[0]
    assert_identical(actual, expected, arrays, what)
    legal = evaluate(legalize_function(built), arrays, builder.scalars)[0]
    assert_close(legal, expected, arrays, f"legalized {what}", ulp=ulp)
    return expected


def pairs(dtype: np.dtype, count: int = 2) -> list[np.ndarray]:
    random = np.random.default_rng(3)
    values = special_values(dtype)
    return [random.choice(values, 300) for _ in range(count)]


REAL = [dtype for dtype in SUPPORTED if dtype.kind in "iuf"]
FLOATS = [dtype for dtype in SUPPORTED if dtype.kind == "f"]


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_where(dtype: np.dtype):
    x, y = pairs(dtype)
    condition = np.arange(300) % 3 == 0
    call(np.where, condition, x, y)
    call(np.where, x, y, x)
    call(np.where, condition, x, 0)
    call(np.where, condition, 2.5, y)


class TestClip:
    @pytest.mark.parametrize("dtype", REAL, ids=str)
    def test_between_literals(self, dtype: np.dtype):
        (x,) = pairs(dtype, 1)
        call(np.clip, x, 1, 5)
        call(np.clip, x, None, 5)
        call(np.clip, x, 1, None)
        call(np.clip, x, 5, 1)
        call(np.clip, x, max=7, min=2)
        call(np.clip, x, 0.5, 7.5)

    @pytest.mark.parametrize("dtype", REAL, ids=str)
    def test_between_arrays(self, dtype: np.dtype):
        x, low, high = pairs(dtype, 3)
        call(np.clip, x, low, high)
        call(np.clip, x, low, None)
        call(np.clip, x, None, high)

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_zeros(self, dtype: np.dtype):
        (x,) = pairs(dtype, 1)
        call(np.clip, x, 0.0, 1.0)
        call(np.clip, x, -0.0, 1.0)
        call(np.clip, x, -1.0, -0.0)

    def test_bounds_beyond_the_dtype_are_none(self):
        (x,) = pairs(np.dtype("u1"), 1)
        call(np.clip, x, -5, 1000)
        call(np.clip, x, 3, 1000)

    def test_refusals(self):
        builder = FunctionBuilder()
        x = builder.input(0, np.dtype("c8"))
        composite = find_composite(np.clip)
        assert composite is not None
        with pytest.raises(UnsupportedError, match="complex"):
            apply_composite(composite, builder, (x, 0, 1), {})
        y = builder.input(0, np.dtype("f8"))
        with pytest.raises(UnsupportedError, match="NaN"):
            apply_composite(composite, builder, (y, np.nan, 1.0), {})
        with pytest.raises(UnsupportedError):
            apply_composite(composite, builder, (y, 0, 1), {"out": y})


class TestRound:
    @pytest.mark.parametrize("decimals", [0, 1, 3, -1, -2, 12, 25, -25])
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_floats(self, dtype: np.dtype, decimals: int):
        random = np.random.default_rng(0)
        values = random.normal(scale=1e4, size=500).astype(dtype)
        call(np.round, np.concatenate([values, special_values(dtype)]), decimals)

    @pytest.mark.parametrize("decimals", [0, 2, -1, -2])
    @pytest.mark.parametrize("dtype", ["i4", "i8", "u4"])
    def test_integers(self, dtype: str, decimals: int):
        call(np.around, np.arange(0, 3000, 7).astype(dtype), decimals)

    @pytest.mark.parametrize("decimals", [0, 2, -1])
    @pytest.mark.parametrize("dtype", ["c8", "c16"])
    def test_complex(self, dtype: str, decimals: int):
        values = special_values(np.dtype(dtype))
        call(np.round, values[np.isfinite(values)] * 1.2345, decimals)

    def test_refusals(self):
        builder = FunctionBuilder()
        composite = find_composite(np.round)
        assert composite is not None
        for argument, decimals in ((np.dtype(bool), 0), (np.dtype("f8"), 1.5)):
            x = builder.input(0, argument)
            with pytest.raises(UnsupportedError):
                apply_composite(composite, builder, (x, decimals), {})


class TestIsclose:
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    @pytest.mark.parametrize("equal_nan", [False, True])
    def test_floats(self, dtype: np.dtype, equal_nan: bool):
        x, y = pairs(dtype)
        call(np.isclose, x, y, equal_nan=equal_nan)
        call(np.isclose, x, y, 0.1, 0.5, equal_nan)
        call(np.isclose, x, 2.5)
        call(np.isclose, x, 2)

    @pytest.mark.parametrize("dtype", ["i4", "i8", "u1"])
    def test_integers(self, dtype: str):
        x, y = pairs(np.dtype(dtype))
        call(np.isclose, x, y)

    def test_refusals(self):
        builder = FunctionBuilder()
        x = builder.input(0, np.dtype("f8"))
        composite = find_composite(np.isclose)
        assert composite is not None
        with pytest.raises(UnsupportedError, match="tolerance"):
            apply_composite(composite, builder, (x, x, np.inf), {})


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_nan_to_num(dtype: np.dtype):
    values = special_values(dtype)
    call(np.nan_to_num, values)
    call(np.nan_to_num, values, nan=7.5, posinf=1.5)
    call(np.nan_to_num, values, neginf=-1.0)


@pytest.mark.parametrize("dtype", [d for d in SUPPORTED if d.itemsize > 1], ids=str)
def test_angle(dtype: np.dtype):
    values = special_values(dtype)
    call(np.angle, values, ulp=4)
    call(np.angle, values, deg=True, ulp=5)


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
@pytest.mark.parametrize(
    "function", [np.real, np.imag, np.isreal, np.iscomplex], ids=lambda f: f.__name__
)
def test_parts(function: Callable[..., Any], dtype: np.dtype):
    call(function, special_values(dtype))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_sinc(dtype: np.dtype):
    values = special_values(dtype)
    # The sine of huge numbers is a matter of all bits of pi.
    call(np.sinc, values[np.abs(values.astype(float)) < 1e6], ulp=5)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_fix(dtype: np.dtype):
    call(np.fix, special_values(dtype))


def test_select():
    x = np.arange(-5.0, 5.0)
    builder = FunctionBuilder()
    value = builder.input(0, x.dtype)
    conditions = [
        builder.apply("less", value, builder.literal(-2.0)),
        builder.apply("less", value, builder.literal(2.0)),
    ]
    result = select(builder, *conditions, 1, value, default=9)
    expected = np.select([x < -2, x < 2], [1, x], 9)
    actual = evaluate(builder.build([result]), [x], builder.scalars)[0]
    np.testing.assert_array_equal(actual, expected, strict=True)
    with pytest.raises(UnsupportedError):
        select(builder, value, value)


def test_unknown_functions():
    assert find_composite(np.linalg.norm) is None
    assert find_composite([]) is None  # type: ignore[arg-type]
