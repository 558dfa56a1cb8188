"""Which blocks of a store anybody needs: all of them, or those that a slice reads.

Dask runs the tasks that what is wanted depends on, and no others. A fused task makes
all of its results, and so is run wherever one of them is needed::

    p = u + 1     total = p.sum()     first = (p * v)[0]

If p and the product were one task, all blocks of v would be loaded, most of them for
nothing. Only tasks of equal demand may be in one group.
"""

from __future__ import annotations

from collections.abc import Container

from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import IndexTask, Opaque

__all__ = ["find_demand"]

_EVERYTHING = -1
"""All bits: together with any other demand, this one."""


def find_demand(program: Program, live: Container[int]) -> dict[int, int]:
    """Return for each task a number that says which of its points are run.

    Tasks over one launch domain that have equal numbers are run at the same points.
    Each bit stands for a task that needs some points, which ones is not known; -1 is
    all points.

    Parameters
    ----------
    program
        Its tasks are looked at.
    live
        Ids of the tasks that something requested depends on.
    """
    demand: dict[int, int] = {}
    bits: dict[int, int] = {}
    for task in reversed(program.tasks):
        if task.id not in live:
            continue
        found = 0
        for access in task.writes:
            if access.store in program.requested:
                found = _EVERYTHING
            for reader in program.readers[access.store]:
                if found == _EVERYTHING:
                    break
                if reader not in live:
                    continue
                points = _same_points(task, program.tasks[reader], demand[reader])
                if points is None:
                    points = 1 << bits.setdefault(reader, len(bits))
                found |= points
        demand[task.id] = found
    return demand


def _same_points(task: IndexTask, reader: IndexTask, demand: int) -> int | None:
    """Return the demand of what a reader reads of a task; None if it is not known."""
    if isinstance(reader.body, Opaque):
        is_part = any(access.store in reader.body.partly for access in task.writes)
        return demand if demand == _EVERYTHING and not is_part else None
    if demand == _EVERYTHING:
        return demand
    written = {access.store: access.partition for access in task.writes}
    is_own = task.launch == reader.launch and all(
        access.partition is written[access.store]
        for access in reader.reads
        if access.store in written
    )
    return demand if is_own else None
