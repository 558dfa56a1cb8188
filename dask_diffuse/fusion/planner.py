"""Program -> FusionPlan."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from dask_diffuse.fusion.build import GroupPlan, build_group
from dask_diffuse.fusion.facts import Finding, find_facts
from dask_diffuse.fusion.grouping import group_tasks
from dask_diffuse.fusion.memo import Memo, canonical_form
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.verify import verify_program
from dask_diffuse.options import Options

__all__ = ["clear_plans", "plan_counts", "plan_fusion"]


@dataclass(frozen=True, slots=True)
class PlanSkeleton:
    """A plan in terms of task ids, which isomorphic programs share.

    Parameters
    ----------
    groups
        In an order in which they can run.
    untouched
        Ids of the tasks that stay as they are.
    findings
        What was asked.
    """

    groups: tuple[GroupPlan, ...]
    untouched: tuple[int, ...]
    findings: tuple[Finding, ...]


def analyze(program: Program, options: Options) -> PlanSkeleton:
    """Group the tasks of a program and build the kernels."""
    facts = find_facts(program, options)
    grouped = group_tasks(facts)
    groups = tuple(build_group(facts, group) for group in grouped.groups)
    fused = {task for group in groups for task in group.tasks}
    alone = {task.id for task in program.tasks} - fused | set(grouped.alone)
    # What a task alone reads has to be there, even if others compute it themselves.
    alone.update(facts.constants_of(alone & facts.live))
    return PlanSkeleton(groups, tuple(sorted(alone)), grouped.findings)


def apply_skeleton(skeleton: PlanSkeleton, program: Program) -> FusionPlan:
    """Return the plan with the names and the values of one program."""
    return FusionPlan(
        program=program,
        groups=tuple(group.of(program) for group in skeleton.groups),
        untouched=skeleton.untouched,
        decisions=(
            *program.decisions,
            *(finding.decide(program) for finding in skeleton.findings),
        ),
    )


class _Planner:
    """Plans that were made, and how often."""

    def __init__(self) -> None:
        self.memo: Memo[PlanSkeleton] = Memo()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("programs", "memo_hits", "analyses", "groups"), 0)

    def skeleton(self, program: Program, options: Options) -> PlanSkeleton:
        """Return the plan of a program, which may have been made for another one."""
        form = canonical_form(program, options)
        skeleton = None if form is None else self.memo.get(form)
        is_known = skeleton is not None
        if skeleton is None:
            skeleton = analyze(program, options)
            if form is not None:
                self.memo.put(form, skeleton, len(program.tasks))
        with self._lock:
            self._counts["programs"] += 1
            self._counts["memo_hits" if is_known else "analyses"] += 1
            self._counts["groups"] += len(skeleton.groups)
        return skeleton

    def counts(self) -> dict[str, int]:
        with self._lock:
            return {**self._counts, "in_memory": len(self.memo)}

    def clear(self) -> None:
        self.memo.clear()
        with self._lock:
            self._counts = dict.fromkeys(self._counts, 0)


_planner = _Planner()


def plan_fusion(program: Program, *, options: Options) -> FusionPlan:
    """Decide which tasks of a program become one, and build their kernels.

    What nobody else reads is no store any more::

        b = multiply(a, 2)   c = add(b, 1)     ->     c = {multiply, add}(a, 2, 1)

    Programs that are the same up to names and literals are looked at once.

    Parameters
    ----------
    program
        What to plan.
    options
        The limits of groups, and whether to verify.

    Raises
    ------
    VerifyError
        If the program or the plan breaks a rule, for ``options.verify``.
    """
    if options.verify:
        verify_program(program)
    plan = apply_skeleton(_planner.skeleton(program, options), program)
    if options.verify:
        verify_plan(plan, options=options)
    return plan


def plan_counts() -> dict[str, int]:
    """Return what was planned in this process.

    Of all ``programs``, those of ``memo_hits`` were like one before, ``analyses`` were
    not; they have ``groups`` in all. ``in_memory`` plans are remembered.
    """
    return _planner.counts()


def clear_plans() -> None:
    """Forget all plans, and start counting anew."""
    _planner.clear()
