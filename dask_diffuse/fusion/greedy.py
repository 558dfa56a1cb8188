"""The paper's own way: fuse the longest prefix of what is left, in program order.

`dask_diffuse.fusion.grouping` is measured by it, and starts from it should that ever do
worse.
"""

from __future__ import annotations

from dask_diffuse.fusion import constraints
from dask_diffuse.fusion.facts import Facts, find_facts
from dask_diffuse.ir.program import Program
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
    for task in facts.program.tasks:
        if task.id not in facts.live or task.id in facts.constants:
            continue
        if not prefix.accepts(task.id):
            groups += prefix.parts()
            prefix = _Prefix(facts)
        prefix.add(task.id)
    return (*groups, *prefix.parts())


class _Prefix:
    """A sequence of tasks that may be one."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._tasks: set[int] = set()
        self._part: dict[int, int] = {}
        # The part that sees a tile, by store and partition.
        self._seen: dict[tuple[str, int], int] = {}

    def accepts(self, task: int) -> bool:
        """Whether a task may be added."""
        if not self._tasks:
            return True
        facts = self._facts
        if task not in facts.fusible or not self._tasks <= facts.fusible:
            return False
        tasks = facts.program.tasks
        first = tasks[min(self._tasks)]
        if not constraints.launch_domain(first, tasks[task]).accepted:
            return False
        if any(
            dependence.writer in self._tasks and not dependence.finding.accepted
            for dependence in facts.dependences_of(task)
        ):
            return False
        if not all(
            constraints.same_annotations(tasks[other], tasks[task]).accepted
            for other in self._tasks
            if tasks[other].annotations != tasks[task].annotations
        ):
            return False
        return facts.footprint(self._tasks | {task}).fits(facts.options)

    def add(self, task: int) -> None:
        """Add a task, and join the parts that see the tiles that it sees."""
        self._tasks.add(task)
        self._part[task] = task
        writers, constants = self._facts.program.writers, self._facts.constants
        for access in self._facts.program.tasks[task].accesses:
            if writers.get(access.store, -1) in constants:
                continue
            tile = access.store, id(access.partition)
            other = self._seen.setdefault(tile, task)
            self._part[self._find(other)] = self._find(task)

    def parts(self) -> list[tuple[int, ...]]:
        """Return the tasks, those together that have tiles in common."""
        parts: dict[int, list[int]] = {}
        for task in sorted(self._tasks):
            parts.setdefault(self._find(task), []).append(task)
        return [tuple(part) for part in parts.values()]

    def _find(self, task: int) -> int:
        part = self._part
        while part[task] != task:
            part[task] = part[part[task]]
            task = part[task]
        return task
