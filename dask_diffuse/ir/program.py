"""Programs: index tasks in order, and the stores that the application still wants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dask_diffuse.ir.decision import Decision
from dask_diffuse.ir.store import Store
from dask_diffuse.ir.task import IndexTask

__all__ = ["Program"]


@dataclass(frozen=True)
class Program:
    """A distributed program in SSA form: each store is written by at most one task.

    Parameters
    ----------
    stores
        By name, in the order in which they appear.
    tasks
        In an order in which stores are written before they are read.
    requested
        Names of the stores that must exist, block by block, when the program ends.
    decisions
        What the importer refused, and why.
    """

    stores: dict[str, Store]
    tasks: tuple[IndexTask, ...]
    requested: frozenset[str]
    decisions: tuple[Decision, ...] = ()

    def __str__(self) -> str:
        # The printer imports this module.
        from dask_diffuse.ir.printer import format_program

        return format_program(self)

    @cached_property
    def writers(self) -> dict[str, int]:
        """For each store that a task writes, the id of the task."""
        return {access.store: task.id for task in self.tasks for access in task.writes}

    @cached_property
    def readers(self) -> dict[str, tuple[int, ...]]:
        """For each store, the ids of the tasks that read it, in order."""
        readers: dict[str, list[int]] = {name: [] for name in self.stores}
        for task in self.tasks:
            for access in task.reads:
                ids = readers[access.store]
                if not ids or ids[-1] != task.id:
                    ids.append(task.id)
        return {name: tuple(ids) for name, ids in readers.items()}
