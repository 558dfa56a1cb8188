"""Every boundary has a reason: nothing is refused without a word."""

from __future__ import annotations

from collections.abc import Iterator

import dask.array as da
import hypothesis
import pytest
from hypothesis import given

from dask_diffuse import explain
from dask_diffuse.apps import PROBLEMS
from dask_diffuse.report import Explanation
from tests.strategies import Program, exact_programs


def unexplained(report: Explanation) -> Iterator[tuple[str, str]]:
    """Yield what one kernel or layer writes and another reads, for no reason."""
    program = report.program
    # Groups may repeat tasks.
    homes: dict[int, set[str]] = {
        task: {f"task {task}"} for task in report.plan.untouched
    }
    for number, group in enumerate(report.plan.groups):
        for task in group.tasks:
            homes.setdefault(task, set()).add(f"group {number}")
    members: dict[str, set[str]] = {}
    for task in program.tasks:
        for home in homes[task.id]:
            members.setdefault(home, set()).update(a.store for a in task.writes)
    refused = {(d.subject, d.other) for d in report.refusals}
    alone = {subject for subject, other in refused if other is None}
    for task in program.tasks:
        for access in task.reads:
            if access.store not in program.writers:
                # Made by the lowering, where ranges start: nobody else has it.
                continue
            writer = program.writers[access.store]
            if homes[writer] & homes[task.id]:
                continue
            read = {a.store for a in task.writes}
            written = {a.store for a in program.tasks[writer].writes}
            before, after = (
                set().union(*(members[home] for home in homes[number]))
                for number in (writer, task.id)
            )
            if not alone & (read | written) and not any(
                (subject in before and other in after)
                or (subject in after and other in before)
                for subject, other in refused
            ):
                yield access.store, task.origin.layer


@pytest.mark.parametrize("name", PROBLEMS)
def test_of_the_apps(name):
    problem = PROBLEMS[name]
    report = explain(*problem.program(*problem.make_inputs(None, None)), min_bytes=0)
    assert report.groups
    assert not list(unexplained(report))


@hypothesis.settings(max_examples=60)
@given(exact_programs(max_steps=12))
def test_of_random_programs(program: Program):
    arrays = [da.from_array(value, chunks=chunks) for value, chunks in program.inputs]
    results = [r for r in program(*arrays) if isinstance(r, da.Array)]
    hypothesis.assume(results)
    assert not list(unexplained(explain(*results, min_bytes=0)))


def test_a_silent_boundary_would_be_found():
    x = da.ones((60, 40), chunks=20)
    report = explain((x * 2 + 1).map_blocks(sum, dtype=float) * 3 - 1, min_bytes=0)
    assert len(report.groups) == 2
    assert not list(unexplained(report))
    report.__dict__["refusals"] = ()
    assert list(unexplained(report))
