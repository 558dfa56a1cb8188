"""Grouping: which tasks of a program become one.

The paper fuses the longest prefix of a window in program order. We see the whole
program as a graph and merge along its dependences, then sideways::

    b = f(a)   c = g(b)   d = h(a)      ->      {b, c, d}, which reads a once

However far apart they stand in the program. The groups are never more than the
paper's: if they were, merging starts again from those.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from dask_diffuse.fusion import constraints
from dask_diffuse.fusion.cost import is_slow_in_numpy
from dask_diffuse.fusion.facts import Facts, Finding, Footprint
from dask_diffuse.fusion.greedy import greedy_groups
from dask_diffuse.fusion.quotient import Quotient
from dask_diffuse.ir.decision import Rule

__all__ = ["Grouped", "group_tasks"]

_NEIGHBORS = 4
"""Sideways, a group is compared with so many others that read the same tiles."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """The outcome of grouping.

    Parameters
    ----------
    groups
        Ids of the tasks of each group, increasing and without constants; each group
        after those that it reads from.
    findings
        What was asked about the boundaries of groups, and within them.
    """

    groups: tuple[tuple[int, ...], ...]
    findings: tuple[Finding, ...]


def group_tasks(facts: Facts) -> Grouped:
    """Group the tasks of a program."""
    grouping = _Grouping(facts)
    grouping.merge_all()
    greedy = greedy_groups(facts)
    if len(greedy) < grouping.num_parts:
        grouping = _Grouping(facts)
        grouping.start_from(greedy)
        grouping.merge_all()
    kept = [group for group in grouping.groups() if _pays(facts, group)]
    findings = [*facts.refusals, *grouping.findings()]
    findings += [
        Finding(Rule.COST, False, group[0])
        for group in grouping.groups()
        if not _pays(facts, group)
    ]
    return Grouped(tuple(kept), tuple(findings))


def _pays(facts: Facts, group: tuple[int, ...]) -> bool:
    """Whether a kernel for a group beats NumPy."""
    return (
        len(group) > 1
        or bool(facts.constants_of(set(group)))
        or is_slow_in_numpy(facts.program.tasks[group[0]])
    )


class _Grouping:
    """Groups under construction."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._tasks = facts.program.tasks
        self._quotient = Quotient(len(self._tasks))
        refused = {
            (dependence.writer, dependence.reader)
            for dependence in facts.dependences
            if not dependence.finding.accepted
        }
        for writer, reader in facts.edges:
            is_barrier = (
                writer not in facts.fusible
                or reader not in facts.fusible
                or (writer, reader) in refused
            )
            self._quotient.add_dependence(writer, reader, is_barrier)
        self._members = {task: {task} for task in facts.fusible}
        # Upper bounds: what two groups share is counted twice until it matters.
        self._size = {task: facts.footprint({task}) for task in facts.fusible}
        self._annotated = {task: [self._tasks[task]] for task in facts.fusible}

    @property
    def num_parts(self) -> int:
        """Number of groups, counting tasks that have no kernel, but not constants."""
        facts = self._facts
        others = len(facts.live) - len(facts.constants) - len(facts.fusible)
        return others + sum(1 for _ in self._roots())

    def groups(self) -> list[tuple[int, ...]]:
        """Return the tasks of each group, each group after what it reads."""
        rank = self._quotient.rank
        found = [(rank(g), tuple(sorted(self._members[g]))) for g in self._roots()]
        return [members for _, members in sorted(found)]

    def _roots(self) -> Iterable[int]:
        return (g for g in self._facts.fusible if self._quotient.find(g) == g)

    def start_from(self, groups: Iterable[tuple[int, ...]]) -> None:
        """Merge the tasks of each group, which have to be known to be legal."""
        for group in groups:
            for task in group[1:]:
                self._merge(self._quotient.find(group[0]), self._quotient.find(task))

    def merge_all(self) -> None:
        """Merge as long as something can be merged."""
        readers = self._readers_of_tiles()
        before = self.num_parts + 1
        while self.num_parts < before:
            before = self.num_parts
            self._merge_dependences()
            self._merge_sideways(readers)

    def _merge_dependences(self) -> None:
        # By reader, the last writer first: what is written just before is what most
        # likely nobody else needs.
        for dependence in sorted(
            (d for d in self._facts.dependences if d.finding.accepted),
            key=lambda d: (d.reader, -d.writer),
        ):
            self._try_merge(dependence.writer, dependence.reader)

    def _readers_of_tiles(self) -> list[list[int]]:
        """Return the tasks that read the same tiles, for all tiles read repeatedly."""
        facts = self._facts
        readers: dict[tuple[str, int], list[int]] = {}
        writers = facts.program.writers
        for task in sorted(facts.fusible):
            for access in self._tasks[task].reads:
                if writers.get(access.store, -1) in facts.constants:
                    continue
                tasks = readers.setdefault((access.store, id(access.partition)), [])
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
        mine, others = self._size[kept], self._size.pop(gone)
        self._size[kept] = Footprint(
            mine.values + others.values, mine.arrays + others.arrays
        )
        self._members[kept] |= self._members.pop(gone)
        annotated = self._annotated[kept]
        for task in self._annotated.pop(gone):
            if all(task.annotations != other.annotations for other in annotated):
                annotated.append(task)

    def _refused_by(self, first: int, second: int) -> Rule | None:
        """Return the rule that keeps two groups apart, the cheapest to ask first."""
        tasks = self._tasks
        if not constraints.launch_domain(tasks[first], tasks[second]).accepted:
            return Rule.LAUNCH_DOMAIN
        if self._quotient.has_barrier(first, second):
            return Rule.TRUE_DEPENDENCE
        if self._conflict(first, second) is not None:
            return Rule.ANNOTATIONS
        if not self._fits(first, second):
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

    def _fits(self, first: int, second: int) -> bool:
        """Whether the kernel of two groups would stay within the limits."""
        options = self._facts.options
        mine, others = self._size[first], self._size[second]
        bound = Footprint(mine.values + others.values, mine.arrays + others.arrays)
        if bound.fits(options):
            return True
        for group in (first, second):
            self._size[group] = self._facts.footprint(self._members[group])
        return self._joint_size(first, second).fits(options)

    def _joint_size(self, first: int, second: int) -> Footprint:
        return self._facts.footprint(self._members[first] | self._members[second])

    def findings(self) -> list[Finding]:
        """Say for every boundary between groups why it is there."""
        find = self._quotient.find
        findings: list[Finding] = []
        known: dict[tuple[int, int], Finding | None] = {}
        for dependence in self._facts.dependences:
            first, second = find(dependence.writer), find(dependence.reader)
            if first == second or not dependence.finding.accepted:
                findings.append(dependence.finding)
                known[first, second] = dependence.finding
            elif (first, second) not in known:
                known[first, second] = self._explain(
                    dependence.writer, dependence.reader
                )
                findings += filter(None, [known[first, second]])
        for tasks in self._readers_of_tiles():
            for one, other in itertools.pairwise(tasks):
                first, second = find(one), find(other)
                if first == second or known.keys() & {(first, second), (second, first)}:
                    continue
                known[first, second] = self._explain(one, other)
                findings += filter(None, [known[first, second]])
        return findings

    def _explain(self, one: int, other: int) -> Finding | None:
        """Return what keeps the groups of two tasks apart."""
        first, second = self._quotient.find(one), self._quotient.find(other)
        match self._refused_by(first, second):
            case Rule.CONVEXITY:
                between = self._quotient.path_between(first, second)
                return Finding(Rule.CONVEXITY, False, one, other, between=between)
            case Rule.ANNOTATIONS:
                one, other = self._conflict(first, second) or (one, other)
                return Finding(Rule.ANNOTATIONS, False, one, other)
            case Rule.LIMIT:
                size = self._joint_size(first, second)
                options = self._facts.options
                return Finding(
                    Rule.LIMIT,
                    False,
                    one,
                    other,
                    values=(size.values, options.max_group_values),
                    arrays=(size.arrays, options.max_group_arrays),
                )
            case _:
                # A dependence with a finding of its own keeps them apart.
                return None
