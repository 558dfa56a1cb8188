"""What each group of a plan is made of, and the memory traffic that it saves."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from dask_diffuse.fusion.plan import FusionGroup, FusionPlan
from dask_diffuse.ir.partition import Domain
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Store
from dask_diffuse.ir.task import IndexTask, Reduction
from dask_diffuse.kernel.nest import Kernel

__all__ = ["GroupReport", "describe_store", "report_groups", "short_name", "size_text"]

_TOKEN = re.compile(r"-([0-9a-f]{6})[0-9a-f]{26}\b")


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One fused task per point of a launch domain, in numbers.

    Parameters
    ----------
    label
        The operations, in program order, for example ``"mul, add x2, exp"``.
    layers
        Names of the layers that became this group.
    launch
        The launch domain: how many blocks there are along each axis.
    reads, writes
        Descriptions of the stores that are still read from and written to memory.
    temporaries
        Names of the stores that live only inside the kernel.
    bytes_not_written
        Bytes of the temporaries, which NumPy would have written.
    bytes_not_read
        Bytes that NumPy would have read from temporaries, and from inputs a second
        time.
    exact
        Whether the shape and dtype of every store is known; otherwise the bytes are a
        lower bound.
    tasks_before, tasks_after
        Dask tasks of these layers in the graph, and after fusion.
    num_values
        Scalar values in the kernel: how much it computes per element.
    kernel
        What one task runs.
    """

    label: str
    layers: tuple[str, ...]
    launch: Domain
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    temporaries: tuple[str, ...]
    bytes_not_written: int
    bytes_not_read: int
    exact: bool
    tasks_before: int
    tasks_after: int
    num_values: int
    kernel: Kernel = field(repr=False)

    def to_dict(self) -> dict[str, object]:
        """Return the numbers and names as JSON can hold them."""
        return {
            "label": self.label,
            "layers": list(self.layers),
            "launch": list(self.launch),
            "reads": list(self.reads),
            "writes": list(self.writes),
            "temporaries": list(self.temporaries),
            "bytes_not_written": self.bytes_not_written,
            "bytes_not_read": self.bytes_not_read,
            "exact": self.exact,
            "tasks_before": self.tasks_before,
            "tasks_after": self.tasks_after,
            "num_values": self.num_values,
        }


def report_groups(plan: FusionPlan) -> tuple[GroupReport, ...]:
    """Return one report for each group of a plan, in the order of the plan."""
    return tuple(_report_group(plan.program, group) for group in plan.groups)


def _report_group(program: Program, group: FusionGroup) -> GroupReport:
    tasks = [program.tasks[i] for i in group.tasks]
    reads = [access.store for task in tasks for access in task.reads]
    inputs = [access.store for access in group.inputs]
    results = [result.store for result in group.results]
    saved = [_num_bytes(program.stores[name]) for name in (*reads, *group.temporaries)]
    read = _sum_bytes(program, reads) - _sum_bytes(program, inputs)
    points = math.prod(tasks[0].launch)
    return GroupReport(
        label=_label(tasks),
        layers=tuple(task.origin.layer for task in tasks),
        launch=tasks[0].launch,
        reads=tuple(describe_store(program.stores[name]) for name in inputs),
        writes=tuple(_describe_result(program, name) for name in results),
        temporaries=group.temporaries,
        bytes_not_written=_sum_bytes(program, group.temporaries),
        bytes_not_read=max(read, 0),
        exact=None not in saved,
        tasks_before=points * len(tasks),
        tasks_after=points * _tasks_per_point(program, results),
        num_values=len(group.kernel.function.instructions),
        kernel=group.kernel,
    )


def _tasks_per_point(program: Program, results: list[str]) -> int:
    """Tasks for one point: the kernel, and the selections from several outputs.

    Only requested blocks need a selection of their own; other readers nest it.
    """
    if len(results) == 1:
        return 1
    return 1 + sum(name in program.requested for name in results)


def _label(tasks: list[IndexTask]) -> str:
    counts = Counter(task.origin.label for task in tasks)
    return ", ".join(f"{n} x{k}" if k > 1 else n for n, k in counts.items())


def _num_bytes(store: Store) -> int | None:
    if store.dtype is None or None in store.shape:
        return None
    return math.prod(n or 0 for n in store.shape) * store.dtype.itemsize


def _sum_bytes(program: Program, names: list[str] | tuple[str, ...]) -> int:
    return sum(_num_bytes(program.stores[name]) or 0 for name in names)


def _describe_result(program: Program, name: str) -> str:
    writer = program.tasks[program.writers[name]]
    if isinstance(writer.body, Reduction):
        # Shape and dtype of partial results are not those of an array of the user.
        return f"{short_name(name)} (partial results)"
    return describe_store(program.stores[name])


def describe_store(store: Store) -> str:
    """Return the short name of a store with its dtype and shape."""
    dtype = "unknown" if store.dtype is None else store.dtype.name
    shape = ", ".join("?" if n is None else str(n) for n in store.shape)
    return f"{short_name(store.name)} {dtype}[{shape}]"


def short_name(name: str) -> str:
    """Shorten the tokens in a name to what tells two layers of one graph apart.

    Examples
    --------
    >>> short_name("add-0123456789abcdef0123456789abcdef")
    'add-012345'
    """
    return _TOKEN.sub(r"-\1", name)


def size_text(num_bytes: int) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> size_text(999), size_text(128_000_000)
    ('999 B', '128 MB')
    """
    size = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} PB"
