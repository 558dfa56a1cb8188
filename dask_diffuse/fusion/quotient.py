"""The graph of groups: a quotient of the graph of tasks that stays acyclic.

Two groups may become one if no path leaves them and comes back: groups are *convex*::

    a -> b -> c        a and c may not be merged, or b would have to run
    a ------> c        before and after the new group

Every group has a *rank* that is greater than those of the groups it depends on. A path
from one group to another can pass only through ranks between theirs, and so the search
for one looks at a few groups, not at all of them.
"""

from __future__ import annotations

import heapq
from collections import deque

__all__ = ["Quotient"]


class Quotient:
    """Groups of tasks and the dependences between them.

    Groups are called by the number of one of their tasks: see `find`.

    Parameters
    ----------
    size
        Number of tasks. Each is a group of its own at first.
    """

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))
        # For each group that it depends on, whether both may never be one.
        self._preds: list[dict[int, bool]] = [{} for _ in range(size)]
        self._succs: list[dict[int, bool]] = [{} for _ in range(size)]
        self._rank = [0] * size

    def add_dependence(self, before: int, after: int, is_barrier: bool) -> None:
        """Say that task `after` reads what task `before` writes.

        Tasks come in an order in which they can run. Those before may have been merged
        already, and `after` is still alone.

        Parameters
        ----------
        before, after
            Numbers of tasks.
        is_barrier
            Whether the two may never be in one group.
        """
        if before >= after:
            raise ValueError(f"task {after} reads what task {before} writes")
        group = self.find(before)
        is_barrier = is_barrier or self._preds[after].get(group, False)
        self._preds[after][group] = is_barrier
        self._succs[group][after] = is_barrier
        self._rank[after] = max(self._rank[after], self._rank[group] + 1)

    def find(self, task: int) -> int:
        """Return the group of a task."""
        parent = self._parent
        while parent[task] != task:
            parent[task] = parent[parent[task]]
            task = parent[task]
        return task

    def rank(self, group: int) -> int:
        """Return a number greater than that of every group this one depends on."""
        return self._rank[group]

    def predecessors(self, group: int) -> tuple[int, ...]:
        """Return the groups that a group depends on."""
        return tuple(self._preds[group])

    def has_barrier(self, first: int, second: int) -> bool:
        """Whether a dependence between two groups keeps them apart."""
        return self._preds[first].get(second, False) or self._preds[second].get(
            first, False
        )

    def path_between(self, first: int, second: int) -> int | None:
        """Return a group on a path that leaves the two groups and comes back, or None.

        Searches from both ends and stops when one of them is exhausted, or both meet.
        It goes on where it has seen least: a group that few depend on is cheap to merge
        however far it is, and so is one that very many depend on.
        """
        if self._rank[first] > self._rank[second]:
            first, second = second, first
        low, high = self._rank[first], self._rank[second]
        if high - low < 2:
            return None
        ahead = _Search(first, second, self._succs)
        behind = _Search(second, first, self._preds)
        while ahead.cost and behind.cost:
            search, other = ahead, behind
            if behind.cost < ahead.cost:
                search, other = behind, ahead
            found = search.step(self._rank, low, high, other.seen)
            if found is not None:
                return found
        return None

    def merge(self, first: int, second: int) -> int:
        """Make two groups one, and return it. It must be convex."""
        high = max(self._rank[first], self._rank[second])
        if self._degree(first) < self._degree(second):
            first, second = second, first
        self._parent[second] = first
        _take_over(first, second, self._preds, self._succs)
        _take_over(first, second, self._succs, self._preds)
        self._rank[first] = high
        self._raise_successors(first)
        return first

    def _degree(self, group: int) -> int:
        return len(self._preds[group]) + len(self._succs[group])

    def _raise_successors(self, group: int) -> None:
        """Give groups that depend on a group ranks above its own, each one once."""
        rank = self._rank
        # By their old ranks, groups come after those that they depend on.
        pending = [(-1, group)]
        waiting = {group}
        while pending:
            raised = heapq.heappop(pending)[1]
            least = rank[raised] + 1
            for after in self._succs[raised]:
                if rank[after] >= least:
                    continue
                if after not in waiting:
                    waiting.add(after)
                    heapq.heappush(pending, (rank[after], after))
                rank[after] = least


class _Search:
    """One end of a search for paths: breadth first, from one group to another."""

    def __init__(self, start: int, goal: int, neighbors: list[dict[int, bool]]) -> None:
        self.seen: set[int] = set()
        self._start = start
        self._goal = goal
        self._neighbors = neighbors
        self._pending = deque([start])
        self._num_looked_at = 0

    @property
    def cost(self) -> int:
        """How much one has looked at after another step; 0 if nothing is left to do."""
        if not self._pending:
            return 0
        return self._num_looked_at + len(self._neighbors[self._pending[0]]) + 1

    def step(
        self, rank: list[int], low: int, high: int, others: set[int]
    ) -> int | None:
        """Look at the neighbors of one group; return one that is on a path."""
        self._num_looked_at = self.cost
        group = self._pending.popleft()
        is_start = group == self._start
        for neighbor in self._neighbors[group]:
            if neighbor == self._goal:
                if is_start:
                    continue
                return group
            if neighbor in others:
                return neighbor
            if low < rank[neighbor] < high and neighbor not in self.seen:
                self.seen.add(neighbor)
                self._pending.append(neighbor)
        return None


def _take_over(
    kept: int, gone: int, edges: list[dict[int, bool]], back: list[dict[int, bool]]
) -> None:
    """Move the edges of one kind from a group to another."""
    for neighbor, is_barrier in edges[gone].items():
        del back[neighbor][gone]
        if neighbor == kept:
            continue
        is_barrier = is_barrier or edges[kept].get(neighbor, False)
        edges[kept][neighbor] = is_barrier
        back[neighbor][kept] = is_barrier
    edges[gone] = {}
