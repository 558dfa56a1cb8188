from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.interpret import evaluate, interpret
from dask_diffuse.kernel.legalize import legalize, legalize_function
from dask_diffuse.kernel.nest import Accumulate, Assign, Statement
from dask_diffuse.kernel.printer import format_kernel
from dask_diffuse.kernel.simplify import simplify
from dask_diffuse.kernel.verify import verify_kernel
from tests.semantics.special import assert_identical, special_values
from tests.unit.kernel.builders import elementwise, make_kernel

BOOL, I4, I8 = np.dtype(bool), np.dtype("i4"), np.dtype("i8")
F4, F8, C8 = np.dtype("f4"), np.dtype("f8"), np.dtype("c8")


def text(string: str) -> str:
    return dedent(string).strip()


def accumulate(reduction: str, source: str, target: str) -> list[tuple[str, np.dtype]]:
    """What becomes of the values of one reduction: its new name, and their dtypes."""

    def write(b: FunctionBuilder) -> list[Statement]:
        x = b.input(0, np.dtype(source))
        return [Accumulate(reduction, (x.position,), (0,), np.dtype(target))]

    kernel = make_kernel([(source, (0, 1))], write)
    legal = legalize(kernel)
    verify_kernel(kernel)
    verify_kernel(legal, core=True)
    values = np.resize(special_values(np.dtype(source)), (2, 3))
    before = interpret(kernel, [values], [], (2, 3))
    after = interpret(legal, [values], [], (2, 3))
    for first, second in zip(before, after, strict=True):
        np.testing.assert_array_equal(first, second, strict=True)
    (statement,) = legal.statements
    assert isinstance(statement, Accumulate)
    lines = legal.function.instructions
    return [(statement.reduction, lines[i].dtype) for i in statement.values]


class TestStatements:
    @pytest.mark.parametrize(
        ("reduction", "source", "target", "becomes", "dtype"),
        [
            ("sum", "i4", "i8", "sum", I8),
            ("sum", "?", "i8", "sum", I8),
            ("sum", "f4", "f8", "sum", F8),
            ("prod", "i1", "f8", "prod", F8),
            ("any", "f8", "?", "any", BOOL),
            ("all", "c8", "?", "all", BOOL),
            ("max", "?", "?", "any", BOOL),
            ("min", "?", "?", "all", BOOL),
            ("sum", "?", "?", "any", BOOL),
            ("prod", "i4", "?", "all", BOOL),
            ("max", "i4", "i4", "max", I4),
            ("argmin", "f4", "f4", "argmin", F4),
            ("moments", "i4", "f8", "moments", F8),
            ("sum", "c8", "c8", "sum", C8),
            ("sum", "f4", "c8", "sum", C8),
        ],
    )
    @pytest.mark.filterwarnings("ignore")
    def test_values_are_what_accumulates(
        self, reduction: str, source: str, target: str, becomes: str, dtype: np.dtype
    ):
        assert accumulate(reduction, source, target) == [(becomes, dtype)]

    def test_what_they_use_moves_along(self):
        def write(b: FunctionBuilder) -> list[Statement]:
            x, y = b.input(0, F8), b.input(1, F8)
            b.apply("exp", x)
            larger = b.apply("maximum", x, y)
            total = b.apply("add", larger, x)
            valid = b.apply("isfinite", x)
            return [
                Assign(total.position, (1, 0)),
                Accumulate("moments", (larger.position, valid.position), (0,), F8),
                Assign(larger.position, (0, 1)),
                Assign(total.position, (0, 1)),
            ]

        kernel = make_kernel([("f8", (0, 1)), ("f8", (1,))], write, label="largest")
        legal = legalize(kernel)
        verify_kernel(legal, core=True)
        assert format_kernel(legal) == text(
            """
            kernel "largest" over i0, i1
              array 0 : f64[i0, i1]
              array 1 : f64[i1]
              %0 : f64  = input 0
              %1 : f64  = input 1
              %2 : bool = not_equal(%0, %0)
              %3 : bool = greater(%0, %1)
              %4 : f64  = select(%3, %0, %1)
              %5 : f64  = select(%2, %0, %4)
              %6 : f64  = add(%5, %0)
              %7 : f64  = fabs(%0)
              %8 : f64  = const inf
              %9 : bool = less(%7, %8)
              out 0       : f64[i1, i0] = %6
              out 1, 2, 3 : f64[1, i1]  = moments(%5, %9) over i0
              out 4       : f64[i0, i1] = %5
              out 5       : f64[i0, i1] = %6
            """
        )

    def test_legal_kernels_stay(self):
        kernel = elementwise("sqrt", "f8")
        assert legalize(kernel) == kernel
        legal = legalize(elementwise("floor_divide", "i4", "i4"))
        assert legalize(legal) == legal


class TestComplex:
    def test_parts_are_taken_where_they_are_read(self):
        assert format_kernel(legalize(elementwise("add", "c8", "c8"))) == text(
            """
            kernel "add" over i0, i1
              array 0 : c64[i0, i1]
              array 1 : c64[i0, i1]
              %0 : c64 = input 0
              %1 : f32 = real(%0)
              %2 : f32 = imag(%0)
              %3 : c64 = input 1
              %4 : f32 = real(%3)
              %5 : f32 = imag(%3)
              %6 : f32 = add(%1, %4)
              %7 : f32 = add(%2, %5)
              %8 : c64 = complex(%6, %7)
              out 0 : c64[i0, i1] = %8
            """
        )

    def test_what_is_not_needed_is_not_computed(self):
        kernel = elementwise("multiply", "c8", "c8")

        def real(b: FunctionBuilder) -> list[Statement]:
            product = b.apply("multiply", b.input(0, C8), b.input(1, C8))
            return [Assign(b.core("real", product, dtype=F4).position, (0, 1))]

        part = make_kernel([("c8", (0, 1))] * 2, real)
        whole = len(legalize(kernel).function.instructions)
        assert len(legalize(part).function.instructions) == whole - 4

    def test_scalars_are_split(self):
        builder = FunctionBuilder()
        x = builder.input(0, F4)
        value = builder.apply("multiply", x, builder.literal(1 + 2j))
        legal = legalize_function(builder.build([value]))
        values = np.array([0.5, -2.0], F4)
        (actual,) = evaluate(legal, [values], builder.scalars)
        np.testing.assert_array_equal(actual, values * (1 + 2j), strict=True)

    def test_operations_without_rule_are_named(self):
        function = ScalarFunction(
            (Instruction("input", (), C8, 0), Instruction("exp", (0,), C8)), (1,)
        )
        with pytest.raises(UnsupportedError, match="'exp' of complex numbers"):
            legalize_function(function)

    def test_operands_without_rule_are_named(self):
        function = ScalarFunction(
            (Instruction("input", (), I4, 0), Instruction("exp", (0,), I4)), (1,)
        )
        with pytest.raises(UnsupportedError, match="'exp' of int32"):
            legalize_function(function)


class TestShape:
    """The forms targets make good code of: no branch, few operations."""

    @pytest.mark.parametrize(
        ("name", "dtypes", "most"),
        [
            ("maximum", ("f8", "f8"), 4),
            ("minimum", ("f4", "f4"), 4),
            ("fmax", ("f8", "f8"), 4),
            ("maximum", ("i4", "i4"), 2),
            ("isfinite", ("f8",), 3),
            ("sign", ("f8",), 9),
            ("absolute", ("i8",), 4),
            ("left_shift", ("i8", "i8"), 7),
            ("right_shift", ("i8", "i8"), 6),
            ("where", ("?", "f8", "f8"), 1),
            ("remainder", ("f8", "f8"), 11),
            ("floor_divide", ("i4", "i4"), 14),
            ("remainder", ("u8", "u8"), 5),
        ],
    )
    def test_few_operations(self, name: str, dtypes: tuple[str, ...], most: int):
        lines = legalize(elementwise(name, *dtypes)).function.instructions
        assert sum(line.op != "input" for line in lines) <= most

    @pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u4"])
    def test_narrow_integers_divide_as_floats(self, dtype: str):
        for name in ("floor_divide", "remainder", "fmod"):
            lines = legalize(elementwise(name, dtype, dtype)).function.instructions
            assert "divide" in {line.op for line in lines}
            assert not {"int_div", "int_rem"} & {line.op for line in lines}


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integer_division_of_many_values(name: str, dtype: str):
    random = np.random.default_rng(1)
    info = np.iinfo(dtype)
    if info.bits == 8:
        every = np.arange(info.min, info.max + 1, dtype=dtype)
        x, y = (axis.ravel() for axis in np.meshgrid(every, every))
    else:
        x = random.integers(info.min, info.max, 40_000, dtype, endpoint=True)
        y = random.integers(info.min, info.max, 40_000, dtype, endpoint=True)
        # Quotients of all sizes, and multiples of the divisor and their neighbours.
        y >>= random.integers(0, info.bits, y.size).astype(dtype)
        near = random.integers(-1, 2, x.size).astype(dtype)
        x[::2] = (x // np.where(y == 0, 1, y) * y + near)[::2]
    builder = FunctionBuilder()
    inputs = [builder.input(i, np.dtype(dtype)) for i in range(2)]
    function = legalize_function(builder.build([builder.apply(name, *inputs)]))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    assert_identical(evaluate(function, [x, y])[0], expected, [x, y], name)


def test_long_chains_do_not_recurse():
    def chain(b: FunctionBuilder) -> list[Statement]:
        value = b.input(0, F8)
        for _ in range(5000):
            value = b.apply("maximum", b.apply("negative", value), value)
        return [Assign(value.position, (0, 1))]

    kernel = make_kernel([("f8", (0, 1))], chain)
    verify_kernel(simplify(legalize(kernel)), core=True)
