from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dask_diffuse.errors import VerifyError
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.legalize import legalize
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel, Statement
from dask_diffuse.kernel.verify import verify_kernel
from tests.unit.kernel.builders import elementwise, make_kernel

BOOL, I4, I8 = np.dtype(bool), np.dtype("i4"), np.dtype("i8")
F4, F8, C8 = np.dtype("f4"), np.dtype("f8"), np.dtype("c8")


def write(b: FunctionBuilder) -> list[Statement]:
    x, y = b.input(0, F8), b.input(1, F4)
    z = b.apply("add", b.apply("multiply", x, b.literal(2.5)), y)
    valid = b.apply("isfinite", z)
    return [
        Assign(z.position, (1, 0)),
        Accumulate("moments", (z.position, valid.position), (0,), F8),
        Accumulate("argmax", (y.position,), (0, 1), F4),
    ]


def good() -> Kernel:
    """%0 input, %1 input, %2 scalar, %3 multiply, %4 cast, %5 add, %6 isfinite."""
    return make_kernel([("f8", (0, 1)), ("f4", (1,))], write)


def with_line(position: int, *line: Any) -> Callable[[Kernel], Kernel]:
    def change(kernel: Kernel) -> Kernel:
        lines = list(kernel.function.instructions)
        lines[position] = Instruction(*line)
        return replace(
            kernel, function=ScalarFunction(tuple(lines), kernel.function.results)
        )

    return change


def with_statements(*statements: Statement) -> Callable[[Kernel], Kernel]:
    def change(kernel: Kernel) -> Kernel:
        return replace(kernel, statements=statements)

    return change


def with_arrays(*arrays: ArrayParam) -> Callable[[Kernel], Kernel]:
    return lambda kernel: replace(kernel, arrays=arrays)


def with_results(*results: int) -> Callable[[Kernel], Kernel]:
    def change(kernel: Kernel) -> Kernel:
        function = ScalarFunction(kernel.function.instructions, results)
        return replace(kernel, function=function)

    return change


def only(statement: Statement) -> Callable[[Kernel], Kernel]:
    """The kernel with one statement, and its results as that says."""

    def change(kernel: Kernel) -> Kernel:
        used = (
            statement.values
            if isinstance(statement, Accumulate)
            else (statement.value,)
        )
        return with_results(*used)(with_statements(statement)(kernel))

    return change


X0, X1 = ArrayParam(F8, (0, 1)), ArrayParam(F4, (1,))

FAULTS = {
    "foreign array": (with_arrays(ArrayParam(np.dtype("f2"), (0, 1)), X1), "float16"),
    "array axis twice": (with_arrays(ArrayParam(F8, (1, 1)), X1), "twice"),
    "array axis unknown": (with_arrays(ArrayParam(F8, (0, 2)), X1), "of 2 loop axes"),
    "negative ndim": (lambda k: replace(k, ndim=-1), "-1 loop axes"),
    "foreign scalar": (lambda k: replace(k, scalars=(np.dtype("O"),)), "object"),
    "operand ahead": (with_line(3, "multiply", (0, 5), F8), "come before"),
    "operand of itself": (with_line(3, "negative", (3,), F8), "come before"),
    "negative operand": (with_line(3, "negative", (-1,), F8), "come before"),
    "foreign dtype": (with_line(3, "multiply", (0, 2), np.dtype(">f8")), ">f8"),
    "unknown op": (with_line(3, "twice", (0,), F8), "no op 'twice'"),
    "too many operands": (with_line(3, "exp", (0, 2), F8), "takes 1 operands"),
    "attribute": (with_line(3, "multiply", (0, 2), F8, 3), "no attribute"),
    "operands not of the loop": (
        with_line(5, "add", (3, 1), F8),
        r"takes \(f64, f64\) and has \(f64, f32\)",
    ),
    "wrong result dtype": (with_line(3, "multiply", (0, 2), F4), "is f64, not f32"),
    "no loop": (with_line(3, "invert", (0,), F8), "no loop for float64"),
    "wrong core operands": (with_line(3, "int_div", (0, 2), F8), "does not take"),
    "complex of complex": (with_line(3, "imag", (0,), F8), "does not take"),
    "select by a number": (with_line(3, "select", (0, 0, 2), F8), "does not take"),
    "cast of two": (with_line(4, "cast", (1, 1), F8), "'cast' of 2"),
    "input unknown": (with_line(0, "input", (), F8, 2), "input 2 is not one of 2"),
    "input without number": (with_line(0, "input", (), F8, "a"), "input 'a'"),
    "input of another dtype": (with_line(0, "input", (), F8, 1), "not float64"),
    "scalar unknown": (with_line(2, "scalar", (), F8, 1), "not one of 1"),
    "scalar of another dtype": (with_line(2, "scalar", (), F4, 0), "not float32"),
    "index unknown": (with_line(2, "index", (), I8, 2), "index 2 is not one of 2"),
    "index not int64": (with_line(2, "index", (), F8, 0), "is int64 and not"),
    "input with operands": (with_line(1, "input", (0,), F4, 1), "takes no operands"),
    "const of another type": (with_line(2, "const", (), F8, 1), "not a Python float"),
    "bool const for int": (with_line(2, "const", (), I8, True), "not a Python int"),
    "const -0.0": (with_line(2, "const", (), F8, -0.0), "-0.0 equals 0.0"),
    "const out of range": (with_line(2, "const", (), I4, 1 << 31), "out of the range"),
    "complex const": (with_line(2, "const", (), C8, 1j), "made of real ones"),
    "no statements": (with_statements(), "no statements"),
    "unknown value": (only(Assign(7, (0, 1))), "of 7 instructions"),
    "negative value": (only(Assign(-1, (0, 1))), "of 7 instructions"),
    "no permutation": (only(Assign(5, (0, 0))), "no permutation"),
    "too few axes": (only(Assign(5, (0,))), "no permutation"),
    "results not used": (with_results(5, 6, 1, 0), "statements use"),
    "results twice": (with_results(5, 6, 1, 1), "statements use"),
    "results missing": (with_results(5, 6), "statements use"),
    "unknown reduction": (only(Accumulate("mode", (5,), (0,), F8)), "no reduction"),
    "no axes": (only(Accumulate("sum", (5,), (), F8)), "increasing"),
    "axes backwards": (only(Accumulate("sum", (5,), (1, 0), F8)), "increasing"),
    "axes twice": (only(Accumulate("sum", (5,), (1, 1), F8)), "increasing"),
    "axis unknown": (only(Accumulate("sum", (5,), (2,), F8)), "increasing"),
    "two values": (only(Accumulate("sum", (5, 6), (0,), F8)), "of 2 values"),
    "no value": (only(Accumulate("sum", (), (0,), F8)), "of 0 values"),
    "valid is no bool": (only(Accumulate("moments", (5, 3), (0,), F8)), "not bool"),
    "max of another dtype": (only(Accumulate("max", (5,), (0,), F4)), "is float64"),
    "any is no bool": (only(Accumulate("any", (5,), (0,), F8)), "is bool"),
    "moments are no floats": (only(Accumulate("moments", (5,), (0,), I8)), "float64"),
    "foreign accumulator": (
        only(Accumulate("sum", (5,), (0,), np.dtype("g"))),
        "kernels handle",
    ),
}


def test_good():
    verify_kernel(good())


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str):
    change, message = FAULTS[name]
    broken = change(good())
    with pytest.raises(VerifyError, match=message) as caught:
        verify_kernel(broken)
    assert caught.value.where
    assert "'test'" in caught.value.what


def test_shows_the_line():
    broken = with_line(3, "multiply", (0, 2), F4)(good())
    with pytest.raises(VerifyError) as caught:
        verify_kernel(broken)
    marked = [line for line in caught.value.where.splitlines() if line[0] == ">"]
    assert marked == ["> %3 : f32  = multiply(%0, %2)"]


class TestCore:
    @pytest.mark.parametrize(
        ("name", "dtypes"),
        [
            ("maximum", ("f8", "f8")),
            ("floor_divide", ("i4", "i4")),
            ("add", ("?", "?")),
            ("add", ("c8", "c8")),
            ("less", ("i8", "u8")),
            ("where", ("?", "f8", "f8")),
            ("isnan", ("f4",)),
        ],
    )
    def test_table_ops_are_not(self, name: str, dtypes: tuple[str, ...]):
        kernel = elementwise(name, *dtypes)
        verify_kernel(kernel)
        with pytest.raises(VerifyError, match=r"core op|complex"):
            verify_kernel(kernel, core=True)
        verify_kernel(legalize(kernel), core=True)

    @pytest.mark.parametrize(
        ("source", "target", "is_core"),
        [
            ("f8", "i4", True),
            ("f8", "i8", True),
            ("f8", "i2", False),
            ("f8", "u4", False),
            ("f8", "u8", False),
            ("f8", "?", False),
            ("i4", "?", False),
            ("?", "f4", False),
            ("?", "i4", True),
            ("i8", "u1", True),
            ("u8", "f4", True),
            ("f4", "c8", False),
        ],
    )
    def test_casts(self, source: str, target: str, is_core: bool):
        def cast(b: FunctionBuilder) -> list[Statement]:
            value = b.cast(b.input(0, np.dtype(source)), np.dtype(target))
            return [Assign(value.position, (0, 1))]

        kernel = make_kernel([(source, (0, 1))], cast)
        verify_kernel(kernel)
        if is_core:
            verify_kernel(kernel, core=True)
        else:
            with pytest.raises(VerifyError, match="core"):
                verify_kernel(kernel, core=True)

    def test_complex_numbers_are_for_results(self):
        def sums(b: FunctionBuilder) -> list[Statement]:
            x = b.input(0, F4)
            z = b.core("complex", x, x, dtype=C8)
            part = b.core("real", z, dtype=F4)
            return [Assign(part.position, (0, 1))]

        kernel = make_kernel([("f4", (0, 1))], sums)
        verify_kernel(kernel)
        with pytest.raises(VerifyError, match="only results are"):
            verify_kernel(kernel, core=True)

    def test_accumulated_values_have_the_dtype(self):
        def sums(b: FunctionBuilder) -> list[Statement]:
            return [Accumulate("sum", (b.input(0, I4).position,), (0,), I8)]

        kernel = make_kernel([("i4", (0, 1))], sums)
        verify_kernel(kernel)
        with pytest.raises(VerifyError, match="not legal yet"):
            verify_kernel(kernel, core=True)
        verify_kernel(legalize(kernel), core=True)
