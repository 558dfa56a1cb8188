"""Whatever the program, its plan is legal, computes the same and is not worse."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from dask_diffuse.fusion import clear_plans, plan_counts, plan_fusion
from dask_diffuse.fusion.greedy import greedy_prefix
from dask_diffuse.fusion.memo import canonical_form
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Opaque
from dask_diffuse.ir.verify import verify_program
from dask_diffuse.options import Options
from tests.property.fusion_programs import programs
from tests.unit.fusion.executor import assert_same_results

OPTIONS = Options(min_bytes=0)
TIGHT = Options(min_bytes=0, max_group_values=9, max_group_arrays=4)


def num_parts(plan: FusionPlan, options: Options) -> int:
    """Groups and tasks left alone, as `greedy_prefix` counts them."""
    counted = {
        task for group in greedy_prefix(plan.program, options=options) for task in group
    }
    return len(plan.groups) + len(counted.intersection(plan.untouched))


def renamed(program: Program) -> Program:
    """The same with other names and other literals."""

    def name(store: str) -> str:
        return f"other-{store}"

    return Program(
        {
            name(store.name): dataclasses.replace(store, name=name(store.name))
            for store in program.stores.values()
        },
        tuple(
            dataclasses.replace(
                task,
                accesses=tuple(
                    dataclasses.replace(access, store=name(access.store))
                    for access in task.accesses
                ),
                scalars=tuple(scalar + 1 for scalar in task.scalars),
                body=dataclasses.replace(
                    task.body, partly=tuple(map(name, task.body.partly))
                )
                if isinstance(task.body, Opaque)
                else task.body,
            )
            for task in program.tasks
        ),
        frozenset(map(name, program.requested)),
    )


SMALL_ROWS = Options(min_bytes=100)


@given(programs(), st.sampled_from([OPTIONS, TIGHT, SMALL_ROWS]))
def test_plan_is_legal_and_computes_the_same(program, options):
    verify_program(program)
    clear_plans()
    plan = plan_fusion(program, options=options)
    verify_plan(plan, options=options)
    assert_same_results(plan)


@given(programs(max_tasks=25), st.sampled_from([OPTIONS, TIGHT]))
def test_never_more_groups_than_the_greedy_prefix(program, options):
    clear_plans()
    plan = plan_fusion(program, options=options)
    greedy = greedy_prefix(program, options=options)
    assert num_parts(plan, options) <= len(greedy)


@given(programs())
def test_every_boundary_has_a_reason(program):
    clear_plans()
    plan = plan_fusion(program, options=OPTIONS)
    # Groups may repeat tasks.
    groups_of: dict[int, set[int]] = {}
    for number, group in enumerate(plan.groups):
        for task in group.tasks:
            groups_of.setdefault(task, set()).add(number)

    def groups(store: str | None) -> set[int]:
        return groups_of.get(program.writers.get(store, -1), set())

    for task in program.tasks:
        for access in task.reads:
            before, after = groups(access.store), groups_of.get(task.id, set())
            if not before or not after or before & after:
                continue
            assert [
                decision
                for decision in plan.decisions
                if not decision.accepted
                and groups(decision.subject) & (before | after)
                and groups(decision.other) & (before | after)
            ]


@given(programs())
def test_renamed_programs_are_not_looked_at_again(program):
    clear_plans()
    plan_fusion(program, options=OPTIONS)
    again = plan_fusion(renamed(program), options=OPTIONS)
    assert plan_counts()["analyses"] == 1
    assert plan_counts()["memo_hits"] == 1
    verify_plan(again, options=OPTIONS)
    clear_plans()
    afresh = plan_fusion(renamed(program), options=OPTIONS)
    assert again.groups == afresh.groups
    assert again.untouched == afresh.untouched
    assert again.decisions == afresh.decisions
    assert_same_results(again)


@given(programs(max_tasks=4), programs(max_tasks=4))
def test_equal_forms_have_equal_plans(one, other):
    if canonical_form(one, OPTIONS) != canonical_form(other, OPTIONS):
        return
    plans = []
    for program in (one, other):
        clear_plans()
        plans.append(plan_fusion(program, options=OPTIONS))
    first, second = plans
    assert [g.tasks for g in first.groups] == [g.tasks for g in second.groups]
    assert [g.kernel for g in first.groups] == [g.kernel for g in second.groups]
    assert [g.scalars for g in first.groups] == [g.scalars for g in second.groups]
    assert [[(r.task, r.statements) for r in g.results] for g in first.groups] == [
        [(r.task, r.statements) for r in g.results] for g in second.groups
    ]
