from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np

from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.legalize import legalize
from dask_diffuse.kernel.nest import Accumulate, Assign, Statement
from dask_diffuse.kernel.printer import format_function, format_kernel
from tests.unit.kernel.builders import elementwise, make_kernel

F8 = np.dtype("f8")


def text(string: str) -> str:
    return dedent(string).strip()


def test_kernel():
    def write(b: FunctionBuilder) -> list[Statement]:
        x, y = b.input(0, F8), b.input(1, np.dtype("i2"))
        scaled = b.apply("multiply", x, b.literal(2.5))
        total = b.apply("add", scaled, b.apply("power", y, b.literal(2)))
        below = b.apply("less", b.index(1), b.const(3, np.dtype("i8")))
        return [
            Assign(total.position, (1, 0)),
            Accumulate("sum", (total.position,), (0,), F8),
            Accumulate("moments", (total.position, below.position), (0, 1), F8),
        ]

    kernel = make_kernel([("f8", (0, 1)), ("i2", (1,))], write, label="mul-add")
    assert format_kernel(kernel) == text(
        """
        kernel "mul-add" over i0, i1
          array 0 : f64[i0, i1]
          array 1 : i16[i1]
          scalar 0 : f64
          %0 : f64  = input 0
          %1 : i16  = input 1
          %2 : f64  = scalar 0
          %3 : f64  = multiply(%0, %2)
          %4 : i16  = multiply(%1, %1)
          %5 : f64  = cast(%4)
          %6 : f64  = add(%3, %5)
          %7 : i64  = index i1
          %8 : i64  = const 3
          %9 : bool = less(%7, %8)
          out 0       : f64[i1, i0] = %6
          out 1       : f64[1, i1]  = sum(%6) over i0
          out 2, 3, 4 : f64[1, 1]   = moments(%6, %9) over i0, i1
        """
    )


def test_function():
    function = ScalarFunction(
        (
            Instruction("input", (), np.dtype("c8"), 0),
            Instruction("const", (), F8, 0.5),
            Instruction("add", (0, 1), np.dtype("c16")),
        ),
        (2, 0),
    )
    assert format_function(function) == text(
        """
        function
          %0 : c64  = input 0
          %1 : f64  = const 0.5
          %2 : c128 = add(%0, %1)
          return %2, %0
        """
    )


def test_no_axes():
    kernel = make_kernel(
        [("f4", ())],
        lambda b: [Assign(b.apply("sqrt", b.input(0, np.dtype("f4"))).position, ())],
        ndim=0,
        label="sqrt",
    )
    assert format_kernel(kernel) == text(
        """
        kernel "sqrt" over one element
          array 0 : f32[]
          %0 : f32 = input 0
          %1 : f32 = sqrt(%0)
          out 0 : f32[] = %1
        """
    )


def test_broken_kernels_print_too():
    kernel = elementwise("add", "f8", "f8")
    broken = replace(
        kernel,
        function=ScalarFunction(
            (Instruction("nonsense", (7,), np.dtype("O")),), kernel.function.results
        ),
        statements=(Assign(9, (0, 5)), Accumulate("mode", (4,), (3,), F8)),
    )
    printed = format_kernel(broken)
    assert "%0 : object = nonsense(%7)" in printed
    assert "?[i0, i5]" in printed
    assert "mode(%4) over i3" in printed


def test_same_kernels_print_the_same():
    assert format_kernel(elementwise("exp", "f8")) == format_kernel(
        elementwise("exp", "f8")
    )


def test_the_documentation_shows_what_is_printed():
    def write(b: FunctionBuilder) -> list[Statement]:
        x, y = b.input(0, F8), b.input(1, np.dtype("i2"))
        scaled = b.apply("multiply", x, b.literal(2.5))
        larger = b.apply("maximum", scaled, y)
        shifted = b.apply("left_shift", y, b.literal(3))
        return [
            Assign(larger.position, (1, 0)),
            Accumulate("sum", (shifted.position,), (0,), np.dtype("i8")),
        ]

    arrays = [("f8", (0, 1)), ("i2", (1,))]
    kernel = make_kernel(arrays, write, label="mul-maximum-sum")
    page = Path(__file__).parents[3] / "docs" / "develop" / "kernels.md"
    shown = page.read_text(encoding="utf-8")
    assert f"```text\n{format_kernel(kernel)}\n```" in shown
    assert f"```text\n{format_kernel(legalize(kernel))}\n```" in shown
