"""What is cheaper to compute again than to keep.

A store that cannot be in one group with all of its readers would be written to memory,
and wait there::

    z = x * 2      mean = (z's mean)      y = z - mean

The last task waits for the mean of all blocks. But ``x * 2`` is cheap, and to read
x again takes no longer than to read z: so both groups compute z, and z is no store.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dask_diffuse.fusion.cost import repeating_cost
from dask_diffuse.fusion.facts import Facts, Finding
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.task import Elementwise, IndexTask, Opaque

__all__ = ["TaskGroup", "repeat_cheap"]

_MAX_COST = 8
"""So much is computed again at most, for each element, in cheap operations."""

_FAR_MORE = 16
"""A store that has so many times fewer elements is read at no cost."""

_MAX_TOTAL_COST = 16
"""The same for all groups together."""


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Tasks that become one.

    Parameters
    ----------
    tasks
        Ids, increasing, constants left out.
    results
        Of these, the tasks that write what others read.
    """

    tasks: tuple[int, ...]
    results: frozenset[int]


def repeat_cheap(
    facts: Facts, groups: Iterable[tuple[int, ...]]
) -> tuple[list[TaskGroup], list[Finding]]:
    """Compute in each group what would be dearer to read from memory.

    A store goes only if all its readers can do without it, if it is the result of few
    cheap operations, and if no reader has to read more bytes instead.

    Parameters
    ----------
    facts
        Of the program.
    groups
        Ids of the tasks of each group, each group after what it reads.

    Returns
    -------
    tuple
        The groups, some of which may be gone, and what was found to pay.
    """
    repeating = _Repeating(facts, groups)
    findings: list[Finding] = []
    for number in range(len(repeating.members)):
        for task in sorted(repeating.results[number]):
            readers = repeating.readers(number, task)
            if readers:
                findings += (Finding(Rule.COST, True, task, r) for r in readers)
                repeating.repeat(number, task, readers)
    return repeating.groups(), findings


class _Repeating:
    """Groups, in which tasks may be repeated."""

    def __init__(self, facts: Facts, groups: Iterable[tuple[int, ...]]) -> None:
        self._facts = facts
        self._tasks = facts.program.tasks
        self.members = [set(group) for group in groups]
        self.results = [
            {task for task in group if facts.is_result(task, group)}
            for group in self.members
        ]
        self._group_of = {
            task: number for number, group in enumerate(self.members) for task in group
        }

    def groups(self) -> list[TaskGroup]:
        """Return the groups that still write something."""
        return [
            TaskGroup(tuple(sorted(members)), frozenset(results))
            for members, results in zip(self.members, self.results, strict=True)
            if results
        ]

    def readers(self, group: int, task: int) -> list[int]:
        """Return the readers in other groups, if all of them can do without a store."""
        facts = self._facts
        store, _ = facts.stores[task]
        if store in facts.program.requested:
            return []
        needed = self._needed(group, task)
        if needed is None:
            return []
        readers = [
            reader
            for reader in facts.program.readers[store]
            if reader in facts.live and reader not in self.members[group]
        ]
        groups = {self._group_of.get(reader) for reader in readers}
        if len(groups) * self._cost(needed) > _MAX_TOTAL_COST:
            return []
        if not all(self._may_repeat(needed, task, reader) for reader in readers):
            return []
        return readers

    def repeat(self, group: int, task: int, readers: Iterable[int]) -> None:
        """Compute a store where it is read, and no longer write it."""
        needed = self._needed(group, task) or set()
        for reader in readers:
            self.members[self._group_of[reader]] |= needed
        self.results[group].discard(task)
        kept: set[int] = set()
        for result in self.results[group]:
            kept |= self._closure(group, result)
        self.members[group] = kept

    def _closure(self, group: int, task: int) -> set[int]:
        """Return what a task of a group needs of the group, itself included."""
        writers, members = self._facts.writers, self.members[group]
        found = {task}
        pending = [task]
        while pending:
            for writer in writers[pending.pop()]:
                if writer in members and writer not in found:
                    found.add(writer)
                    pending.append(writer)
        return found

    def _needed(self, group: int, task: int) -> set[int] | None:
        """Return the tasks to repeat for a store, or None if that is too much."""
        if not isinstance(self._tasks[task].body, Elementwise):
            return None
        needed = self._closure(group, task)
        return None if self._cost(needed) > _MAX_COST else needed

    def _cost(self, tasks: set[int]) -> float:
        constants = self._facts.constants_of(tasks)
        return sum(repeating_cost(self._tasks[t]) for t in (*tasks, *constants))

    def _may_repeat(self, needed: AbstractSet[int], task: int, reader: int) -> bool:
        """Whether the group of a reader can, and should, compute what it reads."""
        facts = self._facts
        number = self._group_of.get(reader)
        if number is None:
            return False
        members = self.members[number]
        joint = members | needed
        if any(
            dependence.refusal not in (None, Rule.COST) and dependence.writer in joint
            for member in joint
            for dependence in facts.dependences[member]
        ):
            return False
        annotations = self._tasks[reader].annotations
        if any(self._tasks[t].annotations != annotations for t in needed):
            return False
        if self._itemsizes(needed, members) > self._itemsize(task):
            return False
        return self._fits(number, joint)

    def _itemsize(self, task: int) -> int:
        body = self._tasks[task].body
        assert not isinstance(body, Opaque)
        return body.function.dtypes[0].itemsize

    def _itemsizes(self, needed: AbstractSet[int], members: AbstractSet[int]) -> float:
        """Return the bytes for each element that a group reads more for some tasks.

        Rows and columns do not count.
        """
        facts = self._facts
        writers = facts.program.writers
        seen = {
            read.tile
            for task in members
            for read in facts.reads[task]
            if read.tile is not None
        }
        extra: dict[tuple[str, int], int] = {}
        for number in needed:
            for read in facts.reads[number]:
                inside = writers.get(read.store, -1) in needed | members
                if read.tile is None or read.tile in seen or inside:
                    continue
                if not self._is_small(read.store, facts.stores[number][0]):
                    extra[read.tile] = _read_itemsize(self._tasks[number], read.store)
        return math.fsum(extra.values())

    def _is_small(self, store: str, beside: str) -> bool:
        """Whether a store has far fewer elements than another, if that is known."""
        stores = self._facts.program.stores
        sizes = []
        for name in (store, beside):
            lengths = [n for n in stores[name].shape if n is not None]
            if len(lengths) < len(stores[name].shape):
                return False
            sizes.append(math.prod(lengths))
        return sizes[0] * _FAR_MORE <= sizes[1]

    def _fits(self, number: int, members: AbstractSet[int]) -> bool:
        facts, options = self._facts, self._facts.options
        writers = facts.program.writers
        values = sum(facts.values[task] for task in members)
        arrays = {
            (read.store, read.axes)
            for task in members
            for read in facts.reads[task]
            if writers.get(read.store, -1) not in members
        }
        return (
            values <= options.max_group_values
            and len(arrays) + len(self.results[number]) <= options.max_group_arrays
        )


def _read_itemsize(task: IndexTask, store: str) -> int:
    """Return the bytes of an element that a task reads; 0 if it does not use them."""
    assert not isinstance(task.body, Opaque)
    return max(
        (
            line.dtype.itemsize
            for line in task.body.function.instructions
            if line.op == "input" and task.accesses[line.number].store == store
        ),
        default=0,
    )
