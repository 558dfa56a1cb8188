"""The paper's own way: fuse the longest prefix of what is left, in program order.

`dask_diffuse.fusion.grouping` is measured by it, and starts from it should that ever do
worse.
"""

from __future__ import annotations

from dask_diffuse.fusion import constraints
from dask_diffuse.fusion.facts import Facts, find_facts
from dask_diffuse.fusion.footprint import Footprint
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import IndexTask
from dask_diffuse.options import Options

__all__ = ["greedy_groups", "greedy_prefix"]


def greedy_prefix(
    program: Program, *, options: Options | None = None
) -> tuple[tuple[int, ...], ...]:
    """Return groups of tasks as the paper makes them.

    Prefixes fall into parts that have no tile in common: to run these as one task has
    no use here, and would hold the blocks of both in memory.

    Parameters
    ----------
    program
        Its tasks are grouped. Tasks that nothing requested depends on, and constants,
        which are literals to the paper, are left out.
    options
        Has the limits of a group.
    """
    return greedy_groups(find_facts(program, options or Options()))


def greedy_groups(facts: Facts) -> tuple[tuple[int, ...], ...]:
    """Return the groups of `greedy_prefix`, given the facts."""
    groups: list[tuple[int, ...]] = []
    prefix = _Prefix(facts)
    for task in facts.order:
        if not prefix.add(task):
            groups += prefix.parts()
            prefix = _Prefix(facts)
            prefix.add(task)
    return (*groups, *prefix.parts())


class _Prefix:
    """A sequence of tasks that may be one."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._tasks: list[int] = []
        self._members: set[int] = set()
        self._footprint: Footprint | None = None
        self._annotated: list[IndexTask] = []
        self._part: dict[int, int] = {}
        # A task that sees a tile.
        self._seen: dict[tuple[str, int], int] = {}

    def add(self, task: int) -> bool:
        """Add a task, if it may be added."""
        facts = self._facts
        if task not in facts.fusible:
            if self._tasks:
                return False
        elif self._tasks:
            footprint = Footprint(facts, task)
            if not self._accepts(task, footprint):
                return False
            assert self._footprint is not None
            self._footprint.absorb(footprint)
        else:
            self._footprint = Footprint(facts, task)
        self._tasks.append(task)
        self._members.add(task)
        self._join_parts(task)
        added = facts.program.tasks[task]
        if all(added.annotations != other.annotations for other in self._annotated):
            self._annotated.append(added)
        return True

    def _accepts(self, task: int, footprint: Footprint) -> bool:
        facts = self._facts
        added = facts.program.tasks[task]
        if self._footprint is None:
            # What is there has no kernel.
            return False
        return (
            constraints.same_domain(facts.program.tasks[self._tasks[0]], added)
            and facts.demand[self._tasks[0]] == facts.demand[task]
            and not any(
                dependence.refusal and dependence.writer in self._members
                for dependence in facts.dependences[task]
            )
            and all(
                other.annotations == added.annotations
                or constraints.same_annotations(other, added).accepted
                for other in self._annotated
            )
            and self._footprint.fits(footprint, facts.options)
        )

    def _join_parts(self, task: int) -> None:
        """Join the parts that see the tiles that a task sees."""
        self._part[task] = task
        for dependence in self._facts.dependences[task]:
            if dependence.writer in self._members:
                self._part[self._find(dependence.writer)] = task
        for read in self._facts.reads[task]:
            if read.tile is not None:
                other = self._seen.setdefault(read.tile, task)
                self._part[self._find(other)] = task

    def parts(self) -> list[tuple[int, ...]]:
        """Return the tasks, those together that have tiles in common."""
        parts: dict[int, list[int]] = {}
        for task in self._tasks:
            parts.setdefault(self._find(task), []).append(task)
        return [tuple(part) for part in parts.values()]

    def _find(self, task: int) -> int:
        part = self._part
        while part[task] != task:
            part[task] = part[part[task]]
            task = part[task]
        return task
