from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from dask_diffuse.kernel.construct import FunctionBuilder, Value
from dask_diffuse.kernel.core import CoreBuilder
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.kernel.interpret import evaluate
from dask_diffuse.kernel.legalize import legalize_function
from dask_diffuse.kernel.nest import Accumulate, Assign, Statement
from dask_diffuse.kernel.simplify import drop_dead, simplify, simplify_function
from dask_diffuse.kernel.verify import verify_kernel
from dask_diffuse.ops import SUPPORTED
from tests.semantics.special import assert_identical, special_values
from tests.unit.kernel.builders import elementwise, make_kernel

BOOL, I4, I8 = np.dtype(bool), np.dtype("i4"), np.dtype("i8")
F4, F8 = np.dtype("f4"), np.dtype("f8")

Write = Callable[[CoreBuilder, Value], Value]


def simplified(write: Write, dtype: np.dtype) -> tuple[list[str], ScalarFunction]:
    """The ops that are left of a function of one input, which computes the same."""
    builder = CoreBuilder()
    x = builder.input(0, dtype)
    function = builder.build([write(builder, x)])
    simpler = simplify_function(function)
    values = special_values(dtype)
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(evaluate(function, [values])[0], values.shape)
    actual = np.broadcast_to(evaluate(simpler, [values])[0], values.shape)
    assert_identical(actual, expected, [values], "simplified")
    ops = [line.op for line in simpler.instructions]
    return [op for op in ops if op not in ("input", "const")], simpler


GONE: dict[str, tuple[Write, np.dtype]] = {
    "x * 1": (lambda b, x: b.multiply(x, b.one(x)), F8),
    "1 * x": (lambda b, x: b.multiply(b.one(x), x), F4),
    "i * 1": (lambda b, x: b.multiply(x, b.one(x)), I4),
    "x / 1": (lambda b, x: b.divide(x, b.one(x)), F8),
    "x - 0": (lambda b, x: b.subtract(x, b.zero(x)), F8),
    "i + 0": (lambda b, x: b.add(x, b.zero(x)), I8),
    "0 + i": (lambda b, x: b.add(b.zero(x), x), I8),
    "--x": (lambda b, x: b.negative(b.negative(x)), F8),
    "~~i": (lambda b, x: b.invert(b.invert(x)), I4),
    "i & i": (lambda b, x: b.both(x, x), I4),
    "p | p": (lambda b, x: b.either(x, x), BOOL),
    "p & True": (lambda b, x: b.both(x, b.const(True, BOOL)), BOOL),
    "False | p": (lambda b, x: b.either(b.const(False, BOOL), x), BOOL),
    "p | True": (lambda b, x: b.either(x, b.const(True, BOOL)), BOOL),
    "select(p, x, x)": (lambda b, x: b.select(b.is_nan(x), x, x), F8),
    "select(True, x, 1)": (
        lambda b, x: b.select(b.const(True, BOOL), x, b.one(x)),
        F8,
    ),
    "f32 -> f64 -> f32": (lambda b, x: b.convert(b.convert(x, F8), F4), F4),
    "i32 -> i64 -> i32": (lambda b, x: b.convert(b.convert(x, I8), I4), I4),
}

KEPT: dict[str, tuple[Write, np.dtype]] = {
    "x + 0": (lambda b, x: b.add(x, b.zero(x)), F8),
    "x * 0": (lambda b, x: b.multiply(x, b.zero(x)), F8),
    "x - x": (lambda b, x: b.subtract(x, x), F8),
    "x / x": (lambda b, x: b.divide(x, x), F8),
    "x == x": (lambda b, x: b.equal(x, x), F8),
    "0 - x": (lambda b, x: b.subtract(b.zero(x), x), F8),
    "1 / x": (lambda b, x: b.divide(b.one(x), x), F8),
    "-0.0": (lambda b, x: b.add(x, b.const(-0.0, F8)), F8),
    "i & 1": (lambda b, x: b.both(x, b.one(x)), I4),
    "f64 -> f32 -> f64": (lambda b, x: b.convert(b.convert(x, F4), F8), F8),
    "i64 -> f64 -> f32": (lambda b, x: b.convert(b.convert(x, F8), F4), I8),
    "i64 -> i32 -> i64": (lambda b, x: b.convert(b.convert(x, I4), I8), I8),
}


@pytest.mark.parametrize("name", GONE)
def test_what_gives_back_an_operand_is_gone(name: str):
    assert simplified(*GONE[name])[0] == []


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_a_bit_is_kept(name: str):
    write, dtype = KEPT[name]
    builder = CoreBuilder()
    function = builder.build([write(builder, builder.input(0, dtype))])
    _, simpler = simplified(write, dtype)
    assert len(simpler.instructions) == len(function.instructions)


def test_inverted_conditions_swap_the_operands():
    ops, simpler = simplified(
        lambda b, x: b.select(b.invert(b.is_nan(x)), x, b.zero(x)), F8
    )
    assert sorted(ops) == ["not_equal", "select"]
    assert len(simpler.instructions) == 4


def test_rounding_twice():
    ops, _ = simplified(lambda b, x: b.call("rint", b.call("floor", x)), F8)
    assert ops == ["floor"]
    ops, _ = simplified(lambda b, x: b.call("fabs", b.call("fabs", x)), F8)
    assert ops == ["fabs"]


class TestConstants:
    @pytest.mark.parametrize(
        ("write", "value"),
        [
            (lambda b: b.add(b.const(0.1, F8), b.const(0.2, F8)), 0.1 + 0.2),
            (lambda b: b.multiply(b.const(127, I4), b.const(1 << 30, I4)), -(1 << 30)),
            (lambda b: b.divide(b.const(1.0, F8), b.const(0.0, F8)), math.inf),
            (lambda b: b.call("sqrt", b.const(2.0, F8)), math.sqrt(2)),
            (lambda b: b.less(b.const(1, I4), b.const(2, I4)), True),
            (lambda b: b.convert(b.const(3, I4), F8), 3.0),
        ],
        ids=["add", "wrap", "infinity", "sqrt", "less", "cast"],
    )
    def test_fold(self, write: Callable[[CoreBuilder], Value], value: object):
        builder = CoreBuilder()
        simpler = simplify_function(builder.build([write(builder)]))
        (line,) = simpler.instructions
        assert (line.op, line.attr) == ("const", value)
        assert type(line.attr) is type(value)

    def test_nan(self):
        builder = CoreBuilder()
        zero = builder.const(0.0, F8)
        function = builder.build([builder.divide(zero, zero)])
        (line,) = simplify_function(function).instructions
        assert line.attr is math.nan

    def test_negative_zero_stays_an_operation(self):
        builder = CoreBuilder()
        simpler = simplify_function(builder.build([builder.const(-0.0, F8)]))
        assert [line.op for line in simpler.instructions] == ["const", "negative"]

    def test_math_functions_stay(self):
        # Those of the target may differ in the last place.
        builder = CoreBuilder()
        function = builder.build([builder.call("exp", builder.const(1.0, F8))])
        assert simplify_function(function) == function

    def test_inexact_casts_stay(self):
        builder = CoreBuilder()
        value = builder.convert(builder.const(2.5, F8), I4)
        function = builder.build([value])
        assert simplify_function(function) == function


@pytest.mark.parametrize("source", SUPPORTED, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_chains_of_casts(source: np.dtype):
    shorter = 0
    for dtypes in itertools.product(SUPPORTED, repeat=2):
        builder = FunctionBuilder()
        x = builder.input(0, source)
        value = builder.cast(builder.cast(x, dtypes[0]), dtypes[1])
        function = builder.build([value])
        values = special_values(source)
        with np.errstate(all="ignore"):
            if source.kind in "fc" and {"i", "u"} & {d.kind for d in dtypes}:
                values = values[np.abs(values) < 100]
            if "u" in {d.kind for d in dtypes} and source.kind in "fc":
                values = values[values.real > -1]
        expected = evaluate(function, [values])[0]
        for other in (function, legalize_function(function)):
            simpler = simplify_function(other)
            shorter += len(simpler.instructions) < len(other.instructions)
            actual = evaluate(simpler, [values])[0]
            what = f"{source} to {dtypes}"
            if simpler.dtypes[0].kind in "iu" and "f" in {
                source.kind,
                dtypes[0].kind,
            }:
                # Floats past the range: C leaves them undefined.
                inside = np.isin(expected, special_values(simpler.dtypes[0]))
                inside &= np.abs(values.astype(np.longdouble)) < 100
                assert_identical(
                    actual[inside], expected[inside], [values[inside]], what
                )
            else:
                assert_identical(actual, expected, [values], what)
    assert shorter


def test_integers_past_int64_do_not_go_through_floats():
    # 2**63 as uint64 is exact in float64, but not within int64.
    builder = FunctionBuilder()
    x = builder.input(0, np.dtype("u4"))
    value = builder.cast(builder.cast(x, F8), I4)
    function = builder.build([value])
    assert simplify_function(function) == function


def test_kernels():
    def write(b: FunctionBuilder) -> list[Statement]:
        x = b.input(0, F8)
        same = b.apply("multiply", x, b.const(1.0, F8))
        unused = b.apply("exp", x)
        assert unused.position > same.position
        root = b.apply("sqrt", same)
        return [
            Assign(same.position, (1, 0)),
            Accumulate("sum", (root.position,), (0,), F8),
            Assign(x.position, (0, 1)),
        ]

    simpler = simplify(make_kernel([("f8", (0, 1))], write, label="roots"))
    verify_kernel(simpler)
    assert simpler.label == "roots"
    assert [line.op for line in simpler.function.instructions] == ["input", "sqrt"]
    assert simpler.statements == (
        Assign(0, (1, 0)),
        Accumulate("sum", (1,), (0,), F8),
        Assign(0, (0, 1)),
    )
    assert simpler.function.results == (0, 1)


def test_simple_kernels_stay():
    kernel = elementwise("hypot", "f8", "f8")
    assert simplify(kernel) == kernel


def test_drop_dead_keeps_the_order():
    builder = FunctionBuilder()
    x, y = builder.input(0, F8), builder.input(1, F8)
    builder.apply("exp", x)
    root = builder.apply("sqrt", y)
    total = builder.apply("add", root, x)
    function = drop_dead(builder.build([total, root]))
    assert [line.op for line in function.instructions] == [
        "input",
        "input",
        "sqrt",
        "add",
    ]
    assert function.results == (3, 2)
    assert drop_dead(function) is function
