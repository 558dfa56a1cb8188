"""Kernels of groups: what is shared, what is kept, in which order."""

from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.fusion import clear_plans, plan_fusion
from dask_diffuse.fusion.plan import FusionGroup
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.ir.task import Access, Partial, Privilege, Reduction, Statistic
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign
from dask_diffuse.kernel.printer import format_kernel
from dask_diffuse.options import Options
from tests.unit.fusion.builders import F8, ProgramBuilder
from tests.unit.fusion.executor import assert_same_results

OPTIONS = Options(min_bytes=0)


@pytest.fixture
def builder() -> ProgramBuilder:
    return ProgramBuilder()


def only_group(builder: ProgramBuilder, *requested: str) -> FusionGroup:
    clear_plans()
    plan = plan_fusion(builder.program(*requested), options=OPTIONS)
    verify_plan(plan, options=OPTIONS)
    assert_same_results(plan)
    (group,) = plan.groups
    return group


def ops(group: FusionGroup) -> list[str]:
    return [line.op for line in group.kernel.function.instructions]


def nan_mean(builder: ProgramBuilder, name: str, source: str) -> str:
    """What the chunk step of a nan-mean computes: the count, then the total."""
    reads, operands = builder.reads([source], {}, builder.chunks)
    f = FunctionBuilder()
    x = f.input(0, F8)
    counts = f.cast(f.apply("logical_not", f.apply("isnan", x)), np.dtype("i8"))
    total = f.apply("where", f.apply("isnan", x), f.const(0.0, F8), x)
    space = builder.table.tiling(builder.chunks, (0, 1))
    partials = ((1, 1), builder.chunks[1])
    builder.store(name, partials, None)
    builder.add(
        (2, 3),
        [
            *reads,
            Access(
                name, builder.table.tiling(partials, (0, 1)), Privilege.REDUCE, "sum"
            ),
        ],
        Reduction(
            f.build([counts, total]),
            operands,
            (0,),
            (
                Statistic("sum", (0,), np.dtype("i8")),
                Statistic("sum", (1,), F8),
            ),
            Partial.MEAN,
            np.dtype("i8"),
        ),
        name,
        space,
    )
    return name


def test_kernel_of_a_chain(builder):
    a = builder.op("a", "multiply", builder.source("x"), 2.0)
    row = builder.source("row", (builder.chunks[1],))
    b = builder.op("b", "add", a, row)
    s = builder.reduce("s", "sum", b)
    group = only_group(builder, b, s)
    assert format_kernel(group.kernel) == (
        'kernel "a-b-s" over i0, i1\n'
        "  array 0 : f64[i0, i1]\n"
        "  array 1 : f64[i1]\n"
        "  scalar 0 : f64\n"
        "  %0 : f64 = input 0\n"
        "  %1 : f64 = scalar 0\n"
        "  %2 : f64 = multiply(%0, %1)\n"
        "  %3 : f64 = input 1\n"
        "  %4 : f64 = add(%2, %3)\n"
        "  out 0 : f64[i0, i1] = %4\n"
        "  out 1 : f64[1, i1]  = sum(%4) over i0"
    )
    assert [(r.store, r.statements, r.task) for r in group.results] == [
        ("b", (0,), 1),
        ("s", (1,), 2),
    ]
    assert group.scalars == ((0, 0),)


def test_equal_values_are_computed_once(builder):
    x = builder.source("x")
    a = builder.op("a", "sin", x)
    b = builder.op("b", "sin", x)
    group = only_group(builder, builder.op("c", "add", a, b))
    assert ops(group) == ["input", "sin", "add"]


def test_equal_results_are_two_arrays(builder):
    # Users may write to one of them.
    x = builder.source("x")
    group = only_group(builder, builder.op("a", "sin", x), builder.op("b", "sin", x))
    assert group.kernel.statements == (Assign(1, (0, 1)), Assign(1, (0, 1)))
    assert group.kernel.function.results == (1,)


def test_equal_reductions_are_done_once(builder):
    x = builder.source("x")
    a = builder.op("a", "sin", x)
    s = builder.reduce("s", "sum", a)
    m = builder.reduce("m", "sum", a, partial=Partial.MEAN)
    other = builder.reduce("t", "sum", a, (1,))
    group = only_group(builder, s, m, other)
    assert group.kernel.statements == (
        Accumulate("sum", (1,), (0,), F8),
        Accumulate("sum", (1,), (1,), F8),
    )
    assert [r.statements for r in group.results] == [(0,), (0,), (1,)]


def test_moments_are_shared(builder):
    x = builder.source("x")
    var = builder.reduce("var", "moments", x, partial=Partial.MOMENTS)
    std = builder.reduce("std", "moments", x, partial=Partial.MOMENTS)
    group = only_group(builder, var, std)
    assert len(group.kernel.statements) == 1


def test_statements_are_in_the_order_of_the_body(builder):
    x = builder.source("x")
    s = builder.reduce("s", "max", x)
    n = nan_mean(builder, "n", x)
    group = only_group(builder, s, n)
    assert [row.dtype for row in group.kernel.statements] == [F8, np.dtype("i8"), F8]
    assert [r.statements for r in group.results] == [(0,), (1, 2)]


def test_values_that_nobody_uses_are_left_out(builder):
    x, y = builder.source("x"), builder.source("y")
    a = builder.op("a", "multiply", y, 3.0)
    # As zeros_like does: it reads a for its shape.
    zeros = builder.map("zeros", lambda f, _: f.const(0.0, F8), a)
    b = builder.op("b", "add", x, zeros)
    group = only_group(builder, builder.op("c", "multiply", b, 4.0))
    assert ops(group) == ["const", "input", "add", "scalar", "multiply"]
    assert [access.store for access in group.inputs] == ["x"]
    assert group.scalars == ((3, 0),)
    assert group.kernel.scalars == (F8,)
    assert group.kernel.arrays == (ArrayParam(F8, (0, 1)),)


def test_scalars_are_numbered_by_use(builder):
    x = builder.source("x")
    a = builder.op("a", "add", x, 1.0)
    b = builder.op("b", "multiply", a, 1.0)
    group = only_group(builder, b)
    # Equal literals are two arguments: kernels do not depend on values.
    assert group.scalars == ((0, 0), (1, 0))
    again = only_group(builder, builder.op("c", "maximum", b, a))
    assert again.scalars == ((0, 0), (1, 0))


def test_positions_follow_the_loops(builder):
    i = builder.map("i", lambda f: f.cast(f.index(1), F8))
    group = only_group(builder, builder.op("a", "add", builder.source("x"), i))
    assert ops(group) == ["index", "cast", "input", "add"]
    assert group.tasks == (0, 1)


def test_label_is_short(builder):
    x = builder.source("x")
    for number in range(30):
        x = builder.op(f"{'long' * 3}-{number}", "negative", x)
        x = builder.op(f"op{'abc'[number % 3]}-{number}", "negative", x)
    group = only_group(builder, x)
    assert group.kernel.label == "longlonglong-opa-opb-opc"


def test_functions_of_one_array_along_two_axes():
    builder = ProgramBuilder(((4,), (4,)))
    x, y = builder.source("x"), builder.source("y")
    a = builder.op("a", "subtract", x, y, axes={y: (1, 0)})
    b = builder.op("b", "multiply", a, y)
    group = only_group(builder, b)
    assert [param.axes for param in group.kernel.arrays] == [(0, 1), (1, 0), (0, 1)]
    assert [access.store for access in group.inputs] == ["x", "y", "y"]
