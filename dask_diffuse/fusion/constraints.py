"""The constraints of fusion, one function each, named as the paper names them.

A sequence of index tasks may become one if each point depends at most on its own point.
The functions look at one pair of tasks, or at one task, and return a `Decision` that
says what was asked and which values answered it. Partitions are interned, so each
costs the same however many blocks there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.partition import Chunks, Partition, Tiling
from dask_diffuse.ir.task import Access, IndexTask, Opaque, Privilege

__all__ = [
    "anti_dependence",
    "check_dependence",
    "convexity",
    "cost",
    "disjoint_writes",
    "launch_domain",
    "limit",
    "may_share_annotations",
    "partition_text",
    "reduction",
    "same_annotations",
    "same_domain",
    "task_name",
    "too_small",
    "true_dependence",
]


def task_name(task: IndexTask) -> str:
    """Return the name that decisions call a task by: that of its first store."""
    for access in task.accesses:
        if access.privilege is not Privilege.READ:
            return access.store
    return task.origin.layer


def launch_domain(first: IndexTask, second: IndexTask) -> Decision:
    """C1: both tasks run over one launch domain, cut in the same way.

    The paper asks for equal domains. Kernels loop over the elements of a tile, so tiles
    have to be equal too.
    """
    subject, other = task_name(first), task_name(second)
    if same_domain(first, second):
        return Decision(Rule.LAUNCH_DOMAIN, True, subject, other)
    if first.space is None or second.space is None:
        opaque = first if first.space is None else second
        detail = f"{task_name(opaque)!r} has no loops"
        return Decision(Rule.LAUNCH_DOMAIN, False, subject, other, detail)
    if first.launch != second.launch:
        detail = f"launch domains {first.launch} and {second.launch} differ"
    else:
        detail = _difference(first.space, second.space)
    remedy = ""
    if len(first.launch) == len(second.launch):
        remedy = "Rechunk one of them to the chunks of the other"
    return Decision(Rule.LAUNCH_DOMAIN, False, subject, other, detail, remedy)


def same_domain(first: IndexTask, second: IndexTask) -> bool:
    """Whether `launch_domain` accepts."""
    return (
        first.space is second.space
        and first.space is not None
        and first.launch == second.launch
    )


def true_dependence(writer: IndexTask, reader: IndexTask, position: int) -> Decision:
    """C2: what a group writes it reads only through the same partition.

    Within the tile the same holds for elements: a kernel keeps a value in a register,
    and so reads it at the iteration that wrote it. Two partitions of a store that has
    a single tile are one, whether or not the tile is read transposed.

    Parameters
    ----------
    writer
        Writes the store.
    reader
        Reads it.
    position
        Of the read among those of the reader.
    """
    read = reader.accesses[position]
    written = _write_of(writer, read.store)
    subject, other = read.store, task_name(reader)
    if read.partition is not written.partition:
        detail = (
            f"written through {partition_text(written.partition)}, read through "
            f"{partition_text(read.partition)}"
        )
        return Decision(Rule.TRUE_DEPENDENCE, False, subject, other, detail)
    if not _sees_what_is_written(written, reader, position):
        assert not isinstance(reader.body, Opaque)
        axes = reader.body.operands[position]
        detail = f"tiles are written along axes {_loops(reader)}, read along {axes}"
        return Decision(Rule.TRUE_DEPENDENCE, False, subject, other, detail)
    return Decision(Rule.TRUE_DEPENDENCE, True, subject, other)


def anti_dependence(reader: IndexTask, writer: IndexTask, position: int) -> Decision:
    """C3: what a group has read it writes only through the same partition.

    Programs are in SSA form, so that nothing is read before it is written. The rule is
    here for programs that are not.

    Parameters
    ----------
    reader
        Reads the store, before.
    writer
        Writes it.
    position
        Of the read among those of the reader.
    """
    read = reader.accesses[position]
    written = _write_of(writer, read.store)
    subject, other = task_name(reader), read.store
    if read.partition is written.partition:
        return Decision(Rule.ANTI_DEPENDENCE, True, subject, other)
    detail = (
        f"read through {partition_text(read.partition)}, then written through "
        f"{partition_text(written.partition)}"
    )
    return Decision(Rule.ANTI_DEPENDENCE, False, subject, other, detail)


def reduction(writer: IndexTask, reader: IndexTask, position: int) -> Decision:
    """C4: what a group reduces to, no other task of it reads.

    Partial results of all points have to be combined before anybody can use them.
    """
    read = reader.accesses[position]
    subject, other = read.store, task_name(reader)
    written = _write_of(writer, read.store)
    if written.privilege is not Privilege.REDUCE:
        return Decision(Rule.REDUCTION, True, subject, other)
    detail = f"the results of {written.reduction!r} are partial until all are combined"
    return Decision(Rule.REDUCTION, False, subject, other, detail)


def disjoint_writes(task: IndexTask) -> Decision:
    """Each point writes a tile of its own."""
    subject = task_name(task)
    for access in task.writes:
        if not access.partition.is_injective(task.launch):
            detail = (
                f"points of {task.launch} share tiles of "
                f"{partition_text(access.partition)}"
            )
            return Decision(Rule.DISJOINT_WRITES, False, subject, None, detail)
    return Decision(Rule.DISJOINT_WRITES, True, subject)


def same_annotations(first: IndexTask, second: IndexTask) -> Decision:
    """Both tasks carry annotations that one task can honor."""
    subject, other = task_name(first), task_name(second)
    name = may_share_annotations(dict(first.annotations), dict(second.annotations))
    if name is None:
        return Decision(Rule.ANNOTATIONS, True, subject, other)
    mine, others = (dict(task.annotations).get(name) for task in (first, second))
    detail = f"annotation {name!r} is {mine!r} and {others!r}"
    remedy = "Use the same annotation for both, or none"
    return Decision(Rule.ANNOTATIONS, False, subject, other, detail, remedy)


def limit(
    first: IndexTask,
    second: IndexTask | None,
    values: tuple[int, int],
    arrays: tuple[int, int],
) -> Decision:
    """Keep kernels within `Options.max_group_values` and `max_group_arrays`.

    Parameters
    ----------
    first, second
        Tasks of the groups that would be one; or the only task of a group.
    values, arrays
        How many the kernel would have, and how many it may.
    """
    other = None if second is None else task_name(second)
    detail = remedy = ""
    for (count, most), noun in ((values, "values"), (arrays, "arrays")):
        if count > most:
            detail = f"the kernel would have {count} {noun}, more than {most}"
            remedy = f"Raise the option max_group_{noun}"
            break
    accepted = not detail
    return Decision(Rule.LIMIT, accepted, task_name(first), other, detail, remedy)


def convexity(
    first: IndexTask, second: IndexTask, between: IndexTask | None
) -> Decision:
    """No path leaves the group and comes back.

    Parameters
    ----------
    first, second
        Tasks of the groups that would be one.
    between
        A task outside that has to run between the two, if there is one.
    """
    subject, other = task_name(first), task_name(second)
    if between is None:
        return Decision(Rule.CONVEXITY, True, subject, other)
    detail = f"{task_name(between)!r} has to run between the two"
    return Decision(Rule.CONVEXITY, False, subject, other, detail)


def cost(task: IndexTask, reader: IndexTask | None, *, pays: bool) -> Decision:
    """Leave to NumPy what a kernel would not do faster; run no more than is needed.

    Parameters
    ----------
    task
        The only task of a group; or one that could be in the group of another.
    reader
        The other, if there is one: it repeats the task if that pays, and keeps apart if
        not all blocks of both are needed.
    pays
        The answer.
    """
    subject = task_name(task)
    if reader is not None:
        detail = "not all blocks of both are needed"
        if pays:
            detail = "computed again, which is cheaper than to keep it"
        return Decision(Rule.COST, pays, subject, task_name(reader), detail)
    detail = "" if pays else "one pass over memory either way"
    return Decision(Rule.COST, pays, subject, None, detail)


def too_small(task: IndexTask, size: int | None) -> Decision:
    """Leave alone what is done before a kernel is found.

    Parameters
    ----------
    task
        The last task of a group, of which no other sees larger stores.
    size
        Bytes of the largest store that the task sees.
    """
    detail = f"its arrays have {size} bytes at most"
    return Decision(Rule.TOO_SMALL, False, task_name(task), None, detail)


_STRONGEST = frozenset({"retries", "priority", "resources", "allow_other_workers"})
"""Annotations of which one task takes the strongest."""


def may_share_annotations(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> str | None:
    """Return the name of an annotation that keeps two layers apart, or None.

    Examples
    --------
    >>> may_share_annotations({"priority": 1}, {"retries": 3})
    >>> may_share_annotations({"workers": ["a"]}, {"workers": ["b", "c"]})
    'workers'
    """
    if first == second:
        return None
    for name in sorted(first.keys() | second.keys()):
        has_both = name in first and name in second
        if has_both and first[name] == second[name]:
            continue
        if has_both and (callable(first[name]) or callable(second[name])):
            return name
        if name in _STRONGEST:
            continue
        if name != "workers":
            return name
        if has_both and not _worker_set(first[name]) & _worker_set(second[name]):
            return name
    return None


def check_dependence(
    writer: IndexTask, reader: IndexTask, position: int
) -> Decision | None:
    """Return the first refusal of C1, C4 and C2 for a dependence, or None.

    Parameters
    ----------
    writer
        Writes the store.
    reader
        Reads it.
    position
        Of the read among those of the reader.
    """
    if not same_domain(writer, reader):
        return launch_domain(writer, reader)
    written = _write_of(writer, reader.accesses[position].store)
    if written.privilege is Privilege.REDUCE:
        return reduction(writer, reader, position)
    if not _sees_what_is_written(written, reader, position):
        return true_dependence(writer, reader, position)
    return None


def _sees_what_is_written(written: Access, reader: IndexTask, position: int) -> bool:
    """Whether a task reads each element at the iteration that wrote it."""
    if reader.accesses[position].partition is not written.partition:
        return False
    assert not isinstance(reader.body, Opaque)
    axes = reader.body.operands[position]
    return axes == _loops(reader)


def _loops(task: IndexTask) -> tuple[int, ...]:
    return tuple(range(len(task.launch)))


def partition_text(partition: Partition) -> str:
    """Return a partition in a few words.

    Examples
    --------
    >>> partition_text(Tiling(((4, 4, 2), (8,)), (0, None)))
    'tiling (3x4, 8) along (0, None)'
    """
    if isinstance(partition, Tiling):
        return f"tiling {_chunks_text(partition.chunks)} along {partition.axes}"
    return "replicated"


def _difference(first: Tiling, second: Tiling) -> str:
    """Say where two tilings of the same number of tiles differ."""
    if first.axes != second.axes:
        return f"loops follow launch axes {first.axes} and {second.axes}"
    for axis, (mine, others) in enumerate(
        zip(first.chunks, second.chunks, strict=True)
    ):
        for tile, (length, other) in enumerate(zip(mine, others, strict=False)):
            if length != other:
                return f"tile {tile} along axis {axis} is {length} and {other} long"
        if None in mine:
            return f"chunks along axis {axis} are not known"
    return f"chunks {_chunks_text(first.chunks)} and {_chunks_text(second.chunks)}"


def _chunks_text(chunks: Chunks) -> str:
    """Write the number of tiles and the first length along each axis."""
    return "(" + ", ".join(map(_lengths_text, chunks)) + ")"


def _lengths_text(lengths: tuple[int | None, ...]) -> str:
    if not lengths:
        return "none"
    first = "?" if lengths[0] is None else str(lengths[0])
    return first if len(lengths) == 1 else f"{len(lengths)}x{first}"


def _worker_set(value: Any) -> set[str]:
    return {value} if isinstance(value, str) else set(value)


def _write_of(task: IndexTask, store: str) -> Access:
    for access in reversed(task.accesses):
        if access.store == store and access.privilege is not Privilege.READ:
            return access
    raise ValueError(f"task {task_name(task)!r} does not write {store!r}")
