"""No block is computed, or loaded, that nobody needs."""

from __future__ import annotations

import pytest

from dask_diffuse.fusion import clear_plans, plan_fusion
from dask_diffuse.fusion.demand import find_demand
from dask_diffuse.fusion.memo import canonical_form
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.ir.decision import Rule
from dask_diffuse.options import Options
from tests.unit.fusion.builders import ProgramBuilder
from tests.unit.fusion.executor import assert_same_results

OPTIONS = Options(min_bytes=0)


@pytest.fixture
def builder() -> ProgramBuilder:
    return ProgramBuilder()


def demand(builder: ProgramBuilder, *requested: str) -> dict[str, int]:
    program = builder.program(*requested)
    found = find_demand(program, range(len(program.tasks)))
    return {program.tasks[n].writes[0].store: d for n, d in found.items()}


def plan(builder: ProgramBuilder, *requested: str) -> FusionPlan:
    clear_plans()
    made = plan_fusion(builder.program(*requested), options=OPTIONS)
    verify_plan(made, options=OPTIONS)
    assert_same_results(made)
    return made


def test_everything(builder):
    a = builder.op("a", "sin", builder.source("x"))
    b = builder.op("b", "sin", a)
    assert demand(builder, b) == {"a": -1, "b": -1}


def test_slices(builder):
    a = builder.op("a", "sin", builder.source("x"))
    b = builder.op("b", "sin", a)
    c = builder.op("c", "sin", a)
    first = builder.opaque("first", b, partly=[b])
    other = builder.opaque("other", c, partly=[c])
    found = demand(builder, first, other)
    assert found == {"a": 3, "b": 2, "c": 1, "first": -1, "other": -1}


def test_what_a_whole_task_reads_is_needed_like_the_task(builder):
    a = builder.op("a", "sin", builder.source("x"))
    o = builder.opaque("o", a)
    p = builder.opaque("p", o, partly=[o])
    assert demand(builder, p)["a"] != -1
    assert demand(builder, o, p)["a"] == -1


def test_other_points(builder):
    builder = ProgramBuilder(((2, 2), (2, 2)))
    a = builder.op("a", "sin", builder.source("x"))
    b = builder.op("b", "sin", a, axes={a: (1, 0)})
    p = builder.opaque("p", b, partly=[b])
    found = demand(builder, p)
    # Not those of b, but of those that b reads.
    assert found["a"] != found["b"]


def test_neighbors_stay_apart(builder):
    x = builder.source("x")
    a = builder.op("a", "log1p", x)
    b = builder.op("b", "log1p", builder.op("m", "multiply", x, builder.source("y")))
    made = plan(builder, a, builder.opaque("p", b, partly=[b]))
    assert [group.tasks for group in made.groups] == [(0,), (1, 2)]
    (decision,) = [d for d in made.decisions if d.rule is Rule.COST]
    assert (decision.subject, decision.other) == ("a", "m")
    assert decision.detail == "not all blocks of both are needed"


def test_readers_stay_apart(builder):
    a = builder.op("a", "log1p", builder.source("x"))
    b = builder.op("b", "log1p", a)
    made = plan(builder, a, builder.opaque("p", b, partly=[b]))
    assert [group.tasks for group in made.groups] == [(0,), (1,)]


def test_cheap_writers_are_repeated(builder):
    a = builder.op("a", "add", builder.source("x"), 1.0)
    s = builder.reduce("s", "sum", a)
    b = builder.op("b", "multiply", a, builder.source("y"))
    made = plan(builder, s, builder.opaque("p", b, partly=[b]))
    assert [group.tasks for group in made.groups] == [(0, 1), (0, 2)]


def test_chains_before_a_slice_are_one(builder):
    a = builder.op("a", "sin", builder.source("x"))
    b = builder.op("b", "sin", a)
    first = builder.opaque("first", b, partly=[b])
    last = builder.opaque("last", b, partly=[b])
    made = plan(builder, builder.op("d", "subtract", first, last))
    assert [group.tasks for group in made.groups] == [(0, 1)]


def test_dead_readers_need_nothing(builder):
    a = builder.op("a", "sin", builder.source("x"))
    builder.opaque("dead", a)
    p = builder.opaque("p", a, partly=[a])
    program = builder.program(p)
    assert find_demand(program, {0, 2})[0] not in (-1, 0)


def test_plans_depend_on_it():
    forms = []
    for partly in ((), ("a",)):
        builder = ProgramBuilder()
        a = builder.op("a", "sin", builder.source("x"))
        p = builder.opaque("p", a, partly=partly)
        forms.append(canonical_form(builder.program(p), OPTIONS))
    assert forms[0] != forms[1]
