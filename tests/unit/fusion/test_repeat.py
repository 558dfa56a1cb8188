"""What is computed again, and what is kept."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

from dask_diffuse.frontend import import_graph
from dask_diffuse.fusion import clear_plans, plan_fusion
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.ir.decision import Rule
from dask_diffuse.options import Options
from tests.unit.fusion.builders import ProgramBuilder
from tests.unit.fusion.executor import assert_same_results


def plan(builder: ProgramBuilder, *requested: str, options=None) -> FusionPlan:
    options = options or Options(min_bytes=0)
    clear_plans()
    made = plan_fusion(builder.program(*requested), options=options)
    verify_plan(made, options=options)
    assert_same_results(made)
    return made


def results(made: FusionPlan) -> list[list[str]]:
    return [[result.store for result in group.results] for group in made.groups]


def repeated(made: FusionPlan) -> list[tuple[str, str | None]]:
    return [
        (d.subject, d.other)
        for d in made.decisions
        if d.rule is Rule.COST and d.accepted
    ]


class Case:
    """``z`` of x; y is z without its mean, which has to wait for all of z."""

    def __init__(self) -> None:
        self.builder = ProgramBuilder()
        self.x = self.builder.source("x")

    def plan(self, z: str, *requested: str, options=None) -> FusionPlan:
        builder = self.builder
        partial = builder.reduce("s", "sum", z)
        mean = builder.opaque("mean", partial, chunks=(builder.chunks[1],))
        y = builder.op("y", "subtract", z, mean)
        return plan(builder, y, *requested, options=options)


@pytest.fixture
def case() -> Case:
    return Case()


def test_cheap_values_are_computed_again(case):
    made = case.plan(case.builder.op("z", "multiply", case.x, 2.0))
    assert results(made) == [["s"], ["y"]]
    assert [group.tasks for group in made.groups] == [(0, 1), (0, 3)]
    assert [group.temporaries for group in made.groups] == [("z",), ("z",)]
    assert [access.store for access in made.groups[1].inputs] == ["x", "mean"]
    assert made.groups[1].scalars == ((0, 0),)
    assert repeated(made) == [("z", "y")]


def test_with_all_that_they_need(case):
    builder = case.builder
    one = builder.full("one", 1.0)
    w = builder.op("w", "multiply", case.x, 2.0)
    row = builder.source("row", (builder.chunks[1],))
    made = case.plan(builder.op("z", "add", builder.op("v", "add", w, row), one))
    assert results(made) == [["s"], ["y"]]
    assert made.groups[1].tasks == (0, 1, 2, 3, 6)


def test_dear_values_are_kept(case):
    made = case.plan(case.builder.op("z", "arcsin", case.x))
    assert results(made) == [["z", "s"]]
    assert repeated(made) == []


def test_one_vectorized_function_is_cheaper_than_memory(case):
    made = case.plan(case.builder.op("z", "log", case.x))
    assert results(made) == [["s"], ["y"]]


def test_two_of_them_are_not(case):
    made = case.plan(case.builder.op("z", "log", case.builder.op("w", "exp", case.x)))
    assert results(made) == [["z", "s"]]


def test_many_operations_are_kept(case):
    z = case.x
    for number in range(9):
        z = case.builder.op(f"z{number}", "negative", z)
    assert results(case.plan(z)) == [["z8", "s"]]


def test_two_inputs_are_dearer_than_one(case):
    builder = case.builder
    other = builder.source("other")
    assert results(case.plan(builder.op("z", "add", case.x, other))) == [["z", "s"]]


def test_unless_they_are_read_anyway(case):
    builder = case.builder
    other = builder.source("other")
    z = builder.op("z", "add", case.x, other)
    s = builder.reduce("s", "sum", z)
    mean = builder.opaque("mean", s, chunks=(builder.chunks[1],))
    y = builder.op("y", "subtract", z, mean)
    made = plan(builder, builder.op("q", "multiply", y, other))
    assert results(made) == [["s"], ["q"]]


@pytest.mark.parametrize(("dtype", "is_repeated"), [("f4", True), ("c16", False)])
def test_bytes_count(dtype, is_repeated):
    builder = ProgramBuilder()
    x = builder.source("x", dtype=np.dtype(dtype))
    z = builder.map("z", lambda f, v: f.cast(v, np.dtype("f8")), x)
    s = builder.reduce("s", "sum", z)
    mean = builder.opaque("mean", s, chunks=(builder.chunks[1],))
    y = builder.op("y", "subtract", z, mean)
    assert bool(repeated(plan(builder, y))) == is_repeated


def test_requested_stores_are_kept(case):
    made = case.plan(case.builder.op("z", "multiply", case.x, 2.0), "z")
    assert results(made) == [["z", "s"]]


def test_stores_that_must_exist_anyway_are_kept(case):
    builder = case.builder
    z = builder.op("z", "multiply", case.x, 2.0)
    made = case.plan(z, builder.opaque("o", z))
    assert results(made) == [["z", "s"]]
    assert repeated(made) == []


def test_annotations_differ(case):
    builder = case.builder
    z = builder.op("z", "multiply", case.x, 2.0)
    s = builder.reduce("s", "sum", z)
    mean = builder.opaque("mean", s, chunks=(builder.chunks[1],))
    y = builder.op("y", "subtract", z, mean, annotations=[("priority", 3)])
    made = plan(builder, y)
    assert results(made) == [["z", "s"]]


def test_refused_dependences_are_no_place_for_it():
    builder = ProgramBuilder(((2, 2), (2, 2)))
    z = builder.op("z", "multiply", builder.source("x"), 2.0)
    s = builder.reduce("s", "sum", z)
    y = builder.op("y", "log1p", z, axes={z: (1, 0)})
    made = plan(builder, s, y)
    assert results(made) == [["z", "s"], ["y"]]


def test_limits(case):
    z = case.builder.op("z", "multiply", case.x, 2.0)
    made = case.plan(z, options=Options(min_bytes=0, max_group_values=4))
    assert repeated(made) == []


def test_in_several_groups_one_after_the_other():
    builder = ProgramBuilder()
    x = builder.source("x")
    z = builder.op("z", "multiply", x, 2.0)
    row = (builder.chunks[1],)
    for number in range(3):
        s = builder.reduce(f"s{number}", "sum", z)
        mean = builder.opaque(f"mean{number}", s, chunks=row)
        z = builder.op(f"z{number}", "subtract", z, mean)
    made = plan(builder, z)
    # Each group computes all of it again: no store but x is kept.
    assert results(made) == [["s0"], ["s1"], ["s2"], ["z2"]]
    assert made.groups[-1].tasks == (0, 3, 6, 9)


def test_what_is_left_of_a_group_may_be_left_to_numpy():
    builder = ProgramBuilder()
    x = builder.source("x")
    a = builder.op("a", "negative", x)
    b = builder.op("b", "add", x, a)
    o = builder.opaque("o", a)
    c = builder.op("c", "multiply", b, o)
    made = plan(builder, c)
    # b is computed with c. Only a remains, for o: a task alone, and repeated for b.
    assert [group.tasks for group in made.groups] == [(0, 1, 3)]
    assert made.untouched == (0, 2)


def test_what_is_read_in_another_way_too_is_kept():
    # The group of d could compute b, and with it a. But it reads a transposed as well,
    # which has to be written for that.
    builder = ProgramBuilder(((2, 2), (2, 2)))
    a = builder.op("a", "negative", builder.source("x"))
    b = builder.op("b", "square", a)
    c = builder.op("c", "subtract", b, a, axes={a: (1, 0)})
    made = plan(builder, builder.op("d", "negative", c))
    assert results(made) == [["a", "b"], ["d"]]
    assert repeated(made) == []


def test_with_stores_that_exist_elsewhere():
    builder = ProgramBuilder()
    a = builder.op("a", "negative", builder.source("x"))
    b = builder.op("b", "square", a)
    o = builder.opaque("o", a)
    made = plan(builder, builder.op("c", "add", o, b), a)
    assert [group.tasks for group in made.groups] == [(0, 1, 3)]
    assert made.untouched == (0, 2)


def test_columns_are_read_at_no_cost():
    values = np.ones((64, 100))
    x = da.from_array(values, chunks=(8, 100))
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    softmax = (powers / powers.sum(axis=1, keepdims=True)).sum(axis=0)
    options = Options(min_bytes=0)
    program = import_graph(softmax.dask, [softmax.name], options=options)
    made = plan_fusion(program, options=options)
    assert [len(group.results) for group in made.groups] == [1, 1]
    assert all("exp" in group.kernel.label for group in made.groups)
