"""Illegal plans are found, and errors say what is wrong with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from dask_diffuse.errors import VerifyError
from dask_diffuse.fusion import clear_plans, plan_fusion
from dask_diffuse.fusion.plan import FusionGroup, FusionPlan, KernelResult
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.kernel.nest import Accumulate
from dask_diffuse.options import Options
from tests.unit.fusion.builders import F8, ProgramBuilder


@pytest.fixture
def plan() -> FusionPlan:
    """``{a b}``, opaque ``o``, ``{c d}`` and a constant."""
    builder = ProgramBuilder()
    x = builder.source("x")
    one = builder.full("one", 1.0)
    a = builder.op("a", "multiply", x, 2.0)
    b = builder.op("b", "add", a, one)
    o = builder.opaque("o", b)
    c = builder.op("c", "add", o, b)
    d = builder.op("d", "maximum", c, 0.0)
    clear_plans()
    made = plan_fusion(builder.program(d), options=Options(min_bytes=0))
    verify_plan(made)
    assert [group.tasks for group in made.groups] == [(0, 1, 2), (4, 5)]
    assert made.untouched == (3,)
    return made


Change = Callable[[FusionGroup], dict[str, object]]


def changed(plan: FusionPlan, number: int, **fields: object) -> FusionPlan:
    groups = list(plan.groups)
    groups[number] = dataclasses.replace(groups[number], **fields)
    return dataclasses.replace(plan, groups=tuple(groups))


def assert_refused(plan: FusionPlan, message: str, options=None) -> None:
    with pytest.raises(VerifyError, match=message) as error:
        verify_plan(plan, options=options)
    assert "program  requested" in str(error.value)


def test_task_in_no_group(plan):
    broken = dataclasses.replace(plan, untouched=())
    assert_refused(broken, r"tasks \[3\] are in no group")


def test_task_that_does_not_exist(plan):
    broken = dataclasses.replace(plan, untouched=(3, 9))
    assert_refused(broken, "has task 9, which is not in the program")


def test_tasks_out_of_order(plan):
    assert_refused(changed(plan, 1, tasks=(5, 4)), "not in order")


def test_opaque_task_in_a_group(plan):
    broken = dataclasses.replace(changed(plan, 1, tasks=(3, 4, 5)), untouched=())
    assert_refused(broken, "task 3 has no kernel")


def test_temporary_that_others_read(plan):
    group = plan.groups[0]
    broken = changed(
        plan,
        0,
        results=(dataclasses.replace(group.results[0], store="a", task=1),),
        temporaries=("one", "b"),
    )
    assert_refused(broken, r"'b' is temporary and tasks \[3, 4\] read it")


def test_stores_are_results_or_temporary(plan):
    assert_refused(changed(plan, 0, temporaries=("a",)), "of which .* are results")


def test_group_without_results(plan):
    program = dataclasses.replace(plan.program, requested=frozenset({"o"}))
    broken = changed(plan, 1, results=(), temporaries=("c", "d"))
    assert_refused(dataclasses.replace(broken, program=program), "has no results")


def test_temporary_that_is_requested(plan):
    program = dataclasses.replace(plan.program, requested=frozenset({"a", "d"}))
    broken = dataclasses.replace(plan, program=program)
    assert_refused(broken, "'a' is temporary and requested")


def test_constant_that_nobody_makes(plan):
    broken = changed(plan, 0, tasks=(1, 2), temporaries=("a",))
    assert_refused(broken, r"tasks \[0\] are in no group")
    elsewhere = changed(broken, 1, tasks=(0, 4, 5), temporaries=("one", "c"))
    assert_refused(elsewhere, r"'one' is temporary and tasks \[2\] read it")


def test_result_of_two_groups(plan):
    group = plan.groups[0]
    twice = dataclasses.replace(plan, groups=(group, *plan.groups))
    assert_refused(twice, "2 groups have the result of task 2")


def test_reduction_in_two_groups():
    builder = ProgramBuilder()
    s = builder.reduce("s", "sum", builder.op("a", "sin", builder.source("x")))
    clear_plans()
    made = plan_fusion(builder.program(s), options=Options(min_bytes=0))
    twice = dataclasses.replace(made, groups=made.groups * 2)
    assert_refused(twice, "task 1 is in group 0 and in group 1")


def test_order_of_groups(plan):
    broken = dataclasses.replace(plan, groups=plan.groups[::-1])
    assert_refused(broken, "reads 'b', which group 1 makes")


def test_groups_that_wait_for_each_other():
    builder = ProgramBuilder()
    x = builder.source("x")
    a = builder.op("a", "sin", x)
    o = builder.opaque("o", a)
    b = builder.op("b", "add", a, o)
    clear_plans()
    made = plan_fusion(builder.program(b), options=Options(min_bytes=0))
    good = ProgramBuilder()
    y = good.source("x")
    good.op("a", "sin", y)
    good.op("b", "add", "a", good.source("o"))
    (group,) = plan_fusion(good.program("a", "b"), options=Options(min_bytes=0)).groups
    tasks = made.program.tasks
    illegal = dataclasses.replace(
        group,
        tasks=(0, 2),
        inputs=(tasks[0].reads[0], tasks[2].reads[1]),
        results=(KernelResult("a", (0,), 0), KernelResult("b", (1,), 2)),
        scalars=(),
    )
    broken = dataclasses.replace(made, groups=(illegal,), untouched=(1,))
    assert_refused(broken, "wait for each other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: {"inputs": ()}, "has 0 inputs for 1 arrays"),
        (lambda g: {"scalars": ()}, "has 0 literals for 2 scalars"),
        (
            lambda g: {"kernel": dataclasses.replace(g.kernel, ndim=1)},
            "has 1 loops",
        ),
        (
            lambda g: {
                "results": (dataclasses.replace(g.results[0], statements=(4,)),)
            },
            "is made by statements",
        ),
        (
            lambda g: {
                "kernel": dataclasses.replace(
                    g.kernel,
                    statements=(
                        Accumulate("sum", g.kernel.function.results, (0,), F8),
                    ),
                )
            },
            "is elementwise and reduced",
        ),
    ],
)
def test_kernels_fit_their_groups(plan, change: Change, message: str):
    assert_refused(changed(plan, 0, **change(plan.groups[0])), message)


def test_dtypes(plan):
    stores = dict(plan.program.stores)
    stores["x"] = dataclasses.replace(stores["x"], dtype=np.dtype("f4"))
    program = dataclasses.replace(plan.program, stores=stores)
    with pytest.raises(VerifyError, match="hands 'x' of float32"):
        verify_plan(dataclasses.replace(plan, program=program))


def test_limits(plan):
    assert_refused(
        plan, "has 5 values, more than 4", Options(min_bytes=0, max_group_values=4)
    )
    assert_refused(
        plan, "arrays, more than 1", Options(min_bytes=0, max_group_arrays=1)
    )


def test_plan_fusion_verifies_if_asked(plan):
    task = dataclasses.replace(plan.program.tasks[1], id=7)
    tasks = (plan.program.tasks[0], task, *plan.program.tasks[2:])
    program = dataclasses.replace(plan.program, tasks=tasks)
    with pytest.raises(VerifyError, match="has the id 7"):
        plan_fusion(program, options=Options(verify=True))
