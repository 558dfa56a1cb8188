"""Grouping: which tasks of a program become one.

The paper fuses the longest prefix of a window in program order. We see the whole
program as a graph and merge along its dependences, then sideways::

    b = f(a)   c = g(b)   d = h(a)      ->      {b, c, d}, which reads a once

However far apart they stand in the program. The groups are never more than the
paper's: if they were, merging starts again from those.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dask_diffuse.fusion import constraints
from dask_diffuse.fusion.cost import is_one_number, is_slow_in_numpy, is_small
from dask_diffuse.fusion.facts import Dependence, Facts, Finding
from dask_diffuse.fusion.footprint import Footprint
from dask_diffuse.fusion.greedy import greedy_groups
from dask_diffuse.fusion.quotient import Quotient
from dask_diffuse.fusion.repeat import TaskGroup, repeat_cheap
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.task import IndexTask

__all__ = ["Grouped", "group_tasks"]

_NEIGHBORS = 4
"""Sideways, a group is compared with so many others that read the same tiles."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """The outcome of grouping.

    Parameters
    ----------
    groups
        Each group after those that it reads from.
    alone
        Ids of the tasks that are left to NumPy, even if other groups repeat them.
    findings
        What was asked about the boundaries of groups, and within them.
    """

    groups: tuple[TaskGroup, ...]
    alone: tuple[int, ...]
    findings: tuple[Finding, ...]


def group_tasks(facts: Facts) -> Grouped:
    """Group the tasks of a program."""
    grouping = _Grouping(facts)
    grouping.merge_all()
    greedy = greedy_groups(facts)
    if len(greedy) < grouping.num_parts:
        grouping = _Grouping(facts, greedy)
        grouping.merge_all()
    groups, repeated = repeat_cheap(facts, grouping.groups())
    findings = [*facts.refusals, *grouping.findings(), *repeated]
    kept: list[TaskGroup] = []
    alone: list[int] = []
    for group in groups:
        rule = _refuse(facts, group)
        if rule is None:
            kept.append(group)
        else:
            alone += group.tasks
            findings.append(Finding(rule, False, group.tasks[-1]))
    return Grouped(tuple(kept), tuple(alone), tuple(findings))


def _refuse(facts: Facts, group: TaskGroup) -> Rule | None:
    """Return why a kernel for a group does not beat NumPy, or None if it does."""
    tasks = facts.program.tasks
    pays = (
        len(group.tasks) > 1
        or not all(is_one_number(tasks[n]) for n in facts.constants_of(group.tasks))
        or is_slow_in_numpy(tasks[group.tasks[0]])
    )
    if not pays:
        return Rule.COST
    if all(
        is_small(facts.program, tasks[task], facts.options.min_bytes)
        for task in group.tasks
    ):
        return Rule.TOO_SMALL
    return None


class _Grouping:
    """Groups under construction.

    Parameters
    ----------
    facts
        Of the program.
    start
        Groups that are known to be legal, to start from.
    """

    def __init__(self, facts: Facts, start: Iterable[tuple[int, ...]] = ()) -> None:
        self._facts = facts
        self._tasks = facts.program.tasks
        self._quotient = Quotient(len(self._tasks))
        self._members: dict[int, list[int]] = {}
        self._footprint: dict[int, Footprint] = {}
        # Of the tasks of a group, one for each set of annotations.
        self._annotated: dict[int, list[IndexTask]] = {}
        self._refused: dict[tuple[int, int], tuple[Rule, tuple[int, int]]] = {}
        self._num_opaque = 0
        # Dependences that might still be merged along.
        self._open: list[Dependence] = []
        first_of = {task: group[0] for group in start for task in group}
        for task in facts.order:
            along = self._add(task)
            if first_of.get(task, task) != task:
                self._merge(*map(self._quotient.find, (first_of[task], task)))
            # Merging as tasks come keeps ranks of later ones from being raised again
            # and again.
            self._open += self._not_merged(along)

    def _add(self, task: int) -> list[Dependence]:
        """Add a task as a group of its own, and return what it may be merged along."""
        facts = self._facts
        dependences = facts.dependences[task]
        may_merge = {d.writer for d in dependences} - {
            d.writer for d in dependences if d.refusal
        }
        for writer in facts.writers[task]:
            self._quotient.add_dependence(writer, task, writer not in may_merge)
        if task not in facts.fusible:
            self._num_opaque += 1
            return []
        self._members[task] = [task]
        self._footprint[task] = Footprint(facts, task)
        self._annotated[task] = [self._tasks[task]]
        # The last writer first: what is written just before is what most likely nobody
        # else needs.
        return sorted((d for d in dependences if not d.refusal), key=_by_last_writer)

    @property
    def num_parts(self) -> int:
        """Number of groups, and of tasks that have no kernel."""
        return self._num_opaque + len(self._members)

    def groups(self) -> list[tuple[int, ...]]:
        """Return the tasks of each group, each group after what it reads."""
        rank = self._quotient.rank
        found = [(rank(group), sorted(self._members[group])) for group in self._members]
        return [tuple(members) for _, members in sorted(found)]

    def merge_all(self) -> None:
        """Merge as long as something can be merged."""
        readers = self._readers_of_tiles()
        before = self.num_parts + 1
        while self.num_parts < before:
            before = self.num_parts
            self._open = self._not_merged(self._open)
            self._merge_sideways(readers)

    def _not_merged(self, dependences: Iterable[Dependence]) -> list[Dependence]:
        """Merge along dependences, and return those where that is not legal."""
        return [
            dependence
            for dependence in dependences
            if not self._try_merge(dependence.writer, dependence.reader)
        ]

    def _readers_of_tiles(self) -> list[list[int]]:
        """Return the tasks that read the same tiles, for all tiles read repeatedly."""
        readers: dict[tuple[str, int], list[int]] = {}
        for task in self._facts.order:
            for read in self._facts.reads[task]:
                if read.tile is not None:
                    tasks = readers.setdefault(read.tile, [])
                    if not tasks or tasks[-1] != task:
                        tasks.append(task)
        return [tasks for tasks in readers.values() if len(tasks) > 1]

    def _merge_sideways(self, readers: list[list[int]]) -> None:
        find, rank = self._quotient.find, self._quotient.rank
        for tasks in readers:
            groups = sorted({find(task) for task in tasks}, key=lambda g: (rank(g), g))
            recent: list[int] = []
            for group in groups:
                others = dict.fromkeys(find(other) for other in reversed(recent))
                if any(self._try_merge(other, group) for other in others):
                    continue
                recent = [*recent[1 - _NEIGHBORS :], group]

    def _try_merge(self, first: int, second: int) -> bool:
        """Make the groups of two tasks one, if they may be."""
        first, second = self._quotient.find(first), self._quotient.find(second)
        if first == second:
            return True
        if self._refused_by(first, second) is not None:
            return False
        self._merge(first, second)
        return True

    def _merge(self, first: int, second: int) -> None:
        kept = self._quotient.merge(first, second)
        gone = second if kept == first else first
        self._members[kept] += self._members.pop(gone)
        self._footprint[kept].absorb(self._footprint.pop(gone))
        annotated = self._annotated[kept]
        for task in self._annotated.pop(gone):
            if all(task.annotations != other.annotations for other in annotated):
                annotated.append(task)

    def _refused_by(self, first: int, second: int) -> Rule | None:
        """Return the rule that keeps two groups apart.

        It is still the same if neither has been merged with others meanwhile.
        """
        if first > second:
            first, second = second, first
        sizes = len(self._members[first]), len(self._members[second])
        known = self._refused.get((first, second))
        if known is not None and known[1] == sizes:
            return known[0]
        rule = self._check(first, second)
        if rule is not None:
            self._refused[first, second] = rule, sizes
        return rule

    def _check(self, first: int, second: int) -> Rule | None:
        """Ask the rules that keep two groups apart, the cheapest first."""
        tasks = self._tasks
        if not constraints.same_domain(tasks[first], tasks[second]):
            return Rule.LAUNCH_DOMAIN
        if self._quotient.has_barrier(first, second):
            return Rule.TRUE_DEPENDENCE
        if self._facts.demand[first] != self._facts.demand[second]:
            return Rule.COST
        if self._conflict(first, second) is not None:
            return Rule.ANNOTATIONS
        mine, others = self._footprint[first], self._footprint[second]
        if not mine.fits(others, self._facts.options):
            return Rule.LIMIT
        if self._quotient.path_between(first, second) is not None:
            return Rule.CONVEXITY
        return None

    def _conflict(self, first: int, second: int) -> tuple[int, int] | None:
        """Return tasks of two groups whose annotations cannot be merged."""
        for one in self._annotated[first]:
            for other in self._annotated[second]:
                if one.annotations == other.annotations:
                    continue
                if not constraints.same_annotations(one, other).accepted:
                    return one.id, other.id
        return None

    def findings(self) -> list[Finding]:
        """Say for every boundary between groups why it is there."""
        find = self._quotient.find
        findings: list[Finding] = []
        known: set[tuple[int, int]] = set()
        for task in self._facts.order:
            for dependence in self._facts.dependences[task]:
                first, second = find(dependence.writer), find(task)
                if first == second or dependence.refusal:
                    findings.append(dependence.finding())
                    known.add((first, second))
                elif (first, second) not in known:
                    known.add((first, second))
                    findings += self._explain(dependence.writer, task)
        for tasks in self._readers_of_tiles():
            for one, other in itertools.pairwise(tasks):
                first, second = find(one), find(other)
                if first != second and not known & {(first, second), (second, first)}:
                    known.add((first, second))
                    findings += self._explain(one, other)
        return findings

    def _explain(self, one: int, other: int) -> Iterator[Finding]:
        """Yield what keeps the groups of two tasks apart."""
        first, second = self._quotient.find(one), self._quotient.find(other)
        match self._refused_by(first, second):
            case Rule.CONVEXITY:
                between = self._quotient.path_between(first, second)
                yield Finding(Rule.CONVEXITY, False, one, other, between=between)
            case Rule.COST:
                yield Finding(Rule.COST, False, one, other)
            case Rule.ANNOTATIONS:
                one, other = self._conflict(first, second) or (one, other)
                yield Finding(Rule.ANNOTATIONS, False, one, other)
            case Rule.LIMIT:
                mine, others = self._footprint[first], self._footprint[second]
                values, arrays = mine.joint(others)
                options = self._facts.options
                yield Finding(
                    Rule.LIMIT,
                    False,
                    one,
                    other,
                    values=(values, options.max_group_values),
                    arrays=(arrays, options.max_group_arrays),
                )
            # Otherwise it is a dependence with a finding of its own.


def _by_last_writer(dependence: Dependence) -> int:
    return -dependence.writer
