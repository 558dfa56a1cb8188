"""Program -> FusionPlan."""

from __future__ import annotations

from dataclasses import dataclass

from dask_diffuse.fusion.build import GroupPlan, build_group
from dask_diffuse.fusion.facts import Finding, find_facts
from dask_diffuse.fusion.grouping import group_tasks
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.ir.program import Program
from dask_diffuse.options import Options

__all__ = ["PlanSkeleton", "analyze", "apply_skeleton"]


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
    untouched = tuple(task.id for task in program.tasks if task.id not in fused)
    return PlanSkeleton(groups, untouched, grouped.findings)


def apply_skeleton(skeleton: PlanSkeleton, program: Program) -> FusionPlan:
    """Return the plan with the names and the values of one program."""
    tasks = program.tasks
    return FusionPlan(
        program=program,
        groups=tuple(group.of(program) for group in skeleton.groups),
        untouched=skeleton.untouched,
        decisions=(
            *program.decisions,
            *(finding.decide(tasks) for finding in skeleton.findings),
        ),
    )


def plan_fusion(program: Program, *, options: Options) -> FusionPlan:
    """Decide which tasks of a program become one, and build their kernels."""
    return apply_skeleton(analyze(program, options), program)


def plan_counts() -> dict[str, int]:
    """Return counts."""
    return {}
