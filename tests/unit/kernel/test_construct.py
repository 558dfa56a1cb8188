from __future__ import annotations

import math

import numpy as np
import pytest

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.construct import FunctionBuilder, Literal
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.kernel.interpret import evaluate

F4, F8 = np.dtype("f4"), np.dtype("f8")
I1, I8 = np.dtype("i1"), np.dtype("i8")
BOOL = np.dtype(bool)


def ops_of(function: ScalarFunction) -> list[str]:
    return [line.op for line in function.instructions]


@pytest.fixture
def builder() -> FunctionBuilder:
    return FunctionBuilder()


class TestSharing:
    def test_equal_values_are_built_once(self, builder: FunctionBuilder):
        x = builder.input(0, F8)
        first = builder.apply("add", x, builder.apply("exp", x))
        second = builder.apply("add", x, builder.apply("exp", x))
        assert first == second
        assert len(builder) == 3

    def test_order_of_operands_counts(self, builder: FunctionBuilder):
        x, y = builder.input(0, F8), builder.input(1, F8)
        assert builder.apply("subtract", x, y) != builder.apply("subtract", y, x)

    def test_constants_of_two_dtypes_are_two(self, builder: FunctionBuilder):
        assert builder.const(1, F4) != builder.const(1, F8)
        assert builder.const(1, I8) != builder.const(True, BOOL)

    def test_nan_is_one_constant(self, builder: FunctionBuilder):
        assert builder.const(math.nan, F8) == builder.const(float("nan"), F8)

    def test_negative_zero_is_built_from_zero(self, builder: FunctionBuilder):
        zero, negative = builder.const(0.0, F8), builder.const(-0.0, F8)
        assert zero != negative
        result = evaluate(builder.build([negative]), [])[0]
        assert np.signbit(result)

    def test_complex_constants_have_parts(self, builder: FunctionBuilder):
        value = builder.const(1 - 2j, np.dtype("c8"))
        assert evaluate(builder.build([value]), [])[0] == np.complex64(1 - 2j)
        assert ops_of(builder.build([value])) == ["const", "const", "complex"]


class TestLiterals:
    @pytest.mark.parametrize(
        ("dtype", "literal", "result"),
        [
            ("f4", 2.5, "f4"),
            ("f4", 2, "f4"),
            ("f4", np.float64(2.5), "f8"),
            ("f4", np.array(2.5), "f8"),
            ("i1", 2, "i1"),
            ("i1", 2.5, "f8"),
            ("i1", np.int64(2), "i8"),
            ("i1", True, "i1"),
            ("?", 2, "i8"),
            ("?", True, "?"),
            ("f4", 1j, "c8"),
            ("f8", np.complex64(1j), "c16"),
            ("u8", 1, "u8"),
        ],
    )
    def test_take_the_dtype_that_numpy_finds(
        self, builder: FunctionBuilder, dtype: str, literal: object, result: str
    ):
        x = builder.input(0, np.dtype(dtype))
        value = builder.apply("add", x, builder.literal(literal))
        assert value.dtype == np.dtype(result)
        expected = np.ones(3, dtype) + literal  # type: ignore[operator]
        assert expected.dtype == value.dtype
        actual = evaluate(builder.build([value]), [np.ones(3, dtype)], builder.scalars)
        np.testing.assert_array_equal(actual[0], expected, strict=True)

    @pytest.mark.parametrize(("dtype", "literal"), [("i1", 300), ("u1", -1)])
    def test_that_do_not_fit_are_left_to_numpy(
        self, builder: FunctionBuilder, dtype: str, literal: int
    ):
        x = builder.input(0, np.dtype(dtype))
        with pytest.raises(OverflowError):
            np.ones(3, dtype) + literal
        with pytest.raises(UnsupportedError, match=str(literal)):
            builder.apply("add", x, builder.literal(literal))

    def test_that_overflow_float32_are_infinite(self, builder: FunctionBuilder):
        builder.apply("add", builder.input(0, F4), builder.literal(1e300))
        assert builder.scalars == (np.float32(np.inf),)

    def test_values_are_no_part_of_the_function(self):
        functions = []
        for number in (2.5, 3.5):
            builder = FunctionBuilder()
            x = builder.input(0, F8)
            value = builder.apply("multiply", x, builder.literal(number))
            functions.append(builder.build([value]))
        assert functions[0] == functions[1]

    def test_one_literal_in_two_dtypes_is_two_arguments(self, builder: FunctionBuilder):
        literal = builder.literal(2)
        x = builder.apply("add", builder.input(0, F4), literal)
        y = builder.apply("add", builder.input(1, I8), literal)
        again = builder.apply("multiply", builder.input(0, F4), literal)
        assert [value.dtype for value in builder.scalars] == [F4, I8]
        assert ops_of(builder.build([x, y, again])).count("scalar") == 2

    def test_two_equal_literals_are_two_arguments(self, builder: FunctionBuilder):
        # They are not equal in the next program of the same kernel.
        x = builder.input(0, F8)
        builder.apply("add", x, builder.literal(2.0))
        builder.apply("multiply", x, builder.literal(2.0))
        assert builder.scalars == (2.0, 2.0)

    @pytest.mark.parametrize("value", ["text", None, np.datetime64(0, "s"), [1]])
    def test_other_objects_are_refused(self, builder: FunctionBuilder, value: object):
        with pytest.raises(UnsupportedError):
            builder.literal(value)

    def test_alone_have_the_dtype_of_an_array(self, builder: FunctionBuilder):
        literal = builder.literal(2)
        assert isinstance(literal, Literal)
        assert literal.is_weak
        assert builder.value(literal).dtype == I8


class TestPower:
    @pytest.mark.parametrize(
        ("exponent", "ops"),
        [
            (0, ["const"]),
            (0.0, ["const"]),
            (1, ["input"]),
            (2, ["square"]),
            (2.0, ["square"]),
            (np.float64(2), ["square"]),
            (3, ["square", "multiply"]),
            (4.0, ["square", "square"]),
            (0.5, ["sqrt"]),
            (-1, ["reciprocal"]),
            (-1.0, ["reciprocal"]),
            (2.5, ["power"]),
            (-2, ["power"]),
        ],
        ids=repr,
    )
    def test_of_floats(self, builder: FunctionBuilder, exponent: float, ops: list[str]):
        x = builder.input(0, F8)
        value = builder.apply("power", x, builder.literal(exponent))
        function = builder.build([value])
        made = [op for op in ops_of(function) if op not in ("input", "scalar")]
        assert made == [op for op in ops if op != "input"]
        values = np.array(
            [0.0, -0.0, 1.5, -2.5, 1e200, 1e-200, np.inf, -np.inf, np.nan]
        )
        with np.errstate(all="ignore"):
            expected = values**exponent
        actual = np.broadcast_to(
            evaluate(function, [values], builder.scalars)[0], expected.shape
        )
        np.testing.assert_allclose(actual, expected, rtol=4e-16)
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))

    @pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 10, 63])
    @pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8"])
    def test_of_integers_wraps_around(
        self, builder: FunctionBuilder, exponent: int, dtype: str
    ):
        x = builder.input(0, np.dtype(dtype))
        value = builder.apply("power", x, builder.literal(exponent))
        values = np.arange(-128, 128).astype(dtype)
        expected = values**exponent
        actual = evaluate(builder.build([value]), [values], builder.scalars)[0]
        actual = np.broadcast_to(actual, expected.shape)
        np.testing.assert_array_equal(actual, expected, strict=True)

    @pytest.mark.parametrize("exponent", [-1, np.int8(-2)])
    def test_negative_of_integers_may_raise(
        self, builder: FunctionBuilder, exponent: int
    ):
        x = builder.input(0, I8)
        with pytest.raises(UnsupportedError) as caught:
            builder.apply("power", x, builder.literal(exponent))
        assert caught.value.rule == "may-raise"

    def test_of_integers_to_arrays_is_left_to_numpy(self, builder: FunctionBuilder):
        for dtype, rule in ((I8, "may-raise"), ("u4", "unsupported-argument")):
            x, y = (builder.input(i, np.dtype(dtype)) for i in range(2))
            with pytest.raises(UnsupportedError) as caught:
                builder.apply("power", x, y)
            assert caught.value.rule == rule

    def test_square_of_bools_is_left_to_numpy(self, builder: FunctionBuilder):
        with pytest.raises(UnsupportedError, match="square of bools"):
            builder.apply("power", builder.input(0, BOOL), builder.literal(2))


class TestCasts:
    def test_to_the_same_dtype_is_nothing(self, builder: FunctionBuilder):
        x = builder.input(0, F8)
        assert builder.cast(x, F8) is x

    def test_are_inserted_where_the_loop_asks(self, builder: FunctionBuilder):
        x, y = builder.input(0, I1), builder.input(1, F4)
        function = builder.build([builder.apply("add", x, y)])
        assert ops_of(function) == ["input", "input", "cast", "add"]

    def test_int64_meets_uint64_by_value(self, builder: FunctionBuilder):
        x, y = builder.input(0, I8), builder.input(1, np.dtype("u8"))
        value = builder.apply("less", x, y)
        assert ops_of(builder.build([value])) == ["input", "input", "less"]


class TestInline:
    def test_replaces_inputs_scalars_and_axes(self):
        inner = FunctionBuilder()
        x, s = inner.input(0, I8), inner.scalar(0, I8)
        inner_function = inner.build(
            [inner.apply("add", inner.apply("multiply", x, s), inner.index(0))]
        )
        outer = FunctionBuilder()
        y, t = outer.input(3, I8), outer.scalar(5, I8)
        (result,) = outer.inline(inner_function, [y], [t], axes=[1])
        lines = outer.build([result]).instructions
        assert [(line.op, line.attr) for line in lines if not line.args] == [
            ("input", 3),
            ("scalar", 5),
            ("index", 1),
        ]

    def test_shares_what_is_there(self):
        inner = FunctionBuilder()
        inner_function = inner.build([inner.apply("exp", inner.input(0, F8))])
        outer = FunctionBuilder()
        known = outer.apply("exp", outer.input(0, F8))
        assert outer.inline(inner_function, [outer.input(0, F8)]) == (known,)


class TestRefusals:
    def test_unsupported_dtypes(self, builder: FunctionBuilder):
        for dtype in ("f2", "M8[s]", "O", ">f8", "S3"):
            with pytest.raises(UnsupportedError) as caught:
                builder.input(0, np.dtype(dtype))
            assert caught.value.rule == "unsupported-dtype"

    def test_no_loop(self, builder: FunctionBuilder):
        x = builder.input(0, BOOL)
        with pytest.raises(UnsupportedError, match="'subtract' has no loop for bool"):
            builder.apply("subtract", x, x)

    def test_half_precision(self, builder: FunctionBuilder):
        with pytest.raises(UnsupportedError, match="float16"):
            builder.apply("exp", builder.input(0, I1))

    def test_core_ops_are_not_applied(self, builder: FunctionBuilder):
        x = builder.input(0, I8)
        with pytest.raises(UnsupportedError):
            builder.apply("int_div", x, x)

    def test_wrong_number_of_operands(self, builder: FunctionBuilder):
        with pytest.raises(UnsupportedError, match="does not take 1 operands"):
            builder.apply("add", builder.input(0, I8))
