"""Counters: what the hook, the planner, the kernels and the fused tasks did."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dask_diffuse.fusion import plan_counts
from dask_diffuse.optimizer import hook_counts
from dask_diffuse.report.groups import size_text
from dask_diffuse.runtime.counters import call_counters

__all__ = ["ProcessStats", "Stats", "stats"]

Counts = Mapping[str, Any]
"""Numbers by name; a number may be split further, by reason."""


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """What was counted in one process since it began.

    Parameters
    ----------
    graphs
        Of the hook: graphs that were ``fused``, their ``groups``, the ``seconds`` that
        the passes took; graphs too ``small`` to be looked at, ``unfused`` ones without
        a group, and ``failed`` ones, which were handed to Dask's own optimizer.
    plans
        Of the planner: how many programs were analyzed, and how many were found to be
        isomorphic to an earlier one.
    kernels
        Of the back end: kernels compiled, found in memory and on disk, failed, and the
        seconds spent on compiling.
    calls
        Of the fused tasks: ``calls`` of kernels, the ``seconds`` they took in all
        threads, first compilation included, the ``bytes_read`` and ``bytes_written``
        of their blocks, ``scalar_calls`` on single numbers, and ``fallbacks`` to the
        original functions, by reason.
    """

    graphs: Counts
    plans: Counts
    kernels: Counts
    calls: Counts

    def to_dict(self) -> dict[str, Counts]:
        """Return the four tables as JSON can hold them."""
        return {field.name: dict(getattr(self, field.name)) for field in fields(self)}

    def __str__(self) -> str:
        return "\n".join(
            f"{title:<8} {_counts_text(counts)}"
            for title, counts in self.to_dict().items()
        )


@dataclass(frozen=True, repr=False)
class Stats(ProcessStats):
    """Counters of one process, or sums over the processes of a cluster.

    Parameters
    ----------
    nodes
        On a cluster, the counters of each process by address; those of the client and
        of the scheduler under these names.
    """

    nodes: Mapping[str, ProcessStats]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        tables: dict[str, Any] = super().to_dict()
        tables["nodes"] = {name: node.to_dict() for name, node in self.nodes.items()}
        return tables

    def __str__(self) -> str:
        text = ProcessStats.__str__(
            ProcessStats(self.graphs, self.plans, self.kernels, self.calls)
        )
        blocks = [text, *(f"{name}\n{node}" for name, node in self.nodes.items())]
        return "\n\n".join(blocks)

    def __repr__(self) -> str:
        return str(self)


def stats(client: Any = None) -> Stats:
    """Tell what was counted so far.

    Parameters
    ----------
    client
        A client of ``distributed``, to ask the scheduler, which runs the hook, and all
        workers, which run the kernels. Without one this process answers alone.

    Returns
    -------
    Stats
        Print it, or read its tables `graphs`, `plans`, `kernels` and `calls`.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_diffuse
    >>> before = dask_diffuse.stats().graphs["fused"]
    >>> with dask_diffuse.enable(min_bytes=0):
    ...     total = (da.ones((100, 100), chunks=50) * 2 + 1).sum().compute()
    >>> dask_diffuse.stats().graphs["fused"] - before
    1
    """
    here = _count_process()
    if client is None:
        return Stats(**_tables([here]), nodes={})
    nodes = {
        "client": here,
        "scheduler": client.run_on_scheduler(_count_process),
        **client.run(_count_process),
    }
    # Threads of one process may be several nodes, and must not be counted twice.
    distinct = dict(nodes.values())
    return Stats(
        **_tables(distinct.items()),
        nodes={name: counted for name, (_, counted) in nodes.items()},
    )


_Process = tuple[tuple[str, int], ProcessStats]
"""The machine and the id of a process, and what it counted."""


def _count_process() -> _Process:
    # Loads no compiler: the module only names one where it compiles.
    from dask_diffuse.runtime.cpu import kernel_counts

    counted = ProcessStats(
        graphs=hook_counts(),
        plans=plan_counts(),
        kernels=kernel_counts(),
        calls=call_counters.snapshot(),
    )
    return (platform.node(), os.getpid()), counted


def _tables(processes: Iterable[_Process]) -> dict[str, Counts]:
    tables = [counted.to_dict() for _, counted in processes]
    return {
        field.name: _sum_counts(table[field.name] for table in tables)
        for field in fields(ProcessStats)
    }


def _sum_counts(tables: Iterable[Counts]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for table in tables:
        for name, count in table.items():
            if isinstance(count, Mapping):
                total[name] = _sum_counts([total.get(name, {}), count])
            elif isinstance(count, (int, float)):
                total[name] = total.get(name, 0) + count
            else:
                # Not a number: the name of a folder or of a processor.
                total.setdefault(name, count)
    return total


def _counts_text(counts: Counts) -> str:
    words = []
    for name, count in counts.items():
        shown = name.replace("_", " ")
        if isinstance(count, Mapping):
            inner = _counts_text(count)
            words.append(f"{shown} ({inner})" if inner else f"0 {shown}")
        elif name.startswith("bytes_"):
            words.append(f"{size_text(count)} {shown.removeprefix('bytes ')}")
        elif isinstance(count, float):
            words.append(f"{count:.3f} {shown}")
        else:
            words.append(f"{count} {shown}")
    return ", ".join(words)
