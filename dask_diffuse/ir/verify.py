"""What a legal program is, in code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dask_diffuse.errors import VerifyError
from dask_diffuse.ir.partition import Tiling
from dask_diffuse.ir.printer import format_partition, format_program
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import (
    Access,
    Elementwise,
    IndexTask,
    Opaque,
    Partial,
    Privilege,
    Reduction,
)
from dask_diffuse.kernel.printer import format_dtype
from dask_diffuse.ops.reductions import REDUCTIONS

__all__ = ["verify_program"]

_NUM_STATISTICS = {
    Partial.ARRAY: (1,),
    Partial.MEAN: (1, 2),
    Partial.MOMENTS: (1,),
    Partial.ARG: (1,),
}


def verify_program(program: Program) -> None:
    """Check a program.

    Programs are in SSA form: every store is written by at most one task, before it is
    read. Tasks access stores of the program through partitions that fit them, and tasks
    with kernels write tiles of their own and have as many operands, of the dtypes, as
    their functions ask for.

    Parameters
    ----------
    program
        What to check.

    Raises
    ------
    VerifyError
        If it breaks a rule; with the rule, the names, the values and the printed
        program around the offending task.
    """
    for name, store in program.stores.items():
        if store.name != name:
            raise VerifyError(f"store {store.name!r} is listed as {name!r}")
    written: dict[str, int] = {}
    writers = {a.store: task.id for task in program.tasks for a in task.writes}
    for position, task in enumerate(program.tasks):
        for fault in (
            *_place_faults(program, task, position, written, writers),
            *_access_faults(program, task),
            *_body_faults(program, task),
        ):
            label = task.origin.layer
            raise VerifyError(
                f"task {position} of layer {label!r} {fault}",
                format_program(program, around=task.id),
            )
        written.update((access.store, task.id) for access in task.writes)
    unknown = sorted(program.requested - program.stores.keys())
    if unknown:
        raise VerifyError(f"requested stores {unknown} are not in the program")


def _place_faults(
    program: Program,
    task: IndexTask,
    position: int,
    written: dict[str, int],
    writers: dict[str, int],
) -> Iterator[str]:
    if task.id != position:
        yield f"has the id {task.id}"
    own = [access.store for access in task.writes]
    if not own:
        yield "writes nothing"
    for name in own:
        if name in written:
            yield f"writes {name!r}, which task {written[name]} has written"
        if own.count(name) > 1:
            yield f"writes {name!r} repeatedly"
    for access in task.accesses:
        if access.store not in program.stores:
            yield f"accesses {access.store!r}, which is no store of the program"
    for access in task.reads:
        if access.store in own:
            yield f"reads {access.store!r}, which it writes"
        elif access.store in writers and access.store not in written:
            later = writers[access.store]
            yield f"reads {access.store!r}, which task {later} writes later"


def _access_faults(program: Program, task: IndexTask) -> Iterator[str]:
    has_written = False
    for access in task.accesses:
        if access.privilege is not Privilege.READ:
            has_written = True
        elif has_written:
            yield f"reads {access.store!r} after its writes"
        if (access.privilege is Privilege.REDUCE) != (access.reduction is not None):
            yield (
                f"has {access.privilege.value!r} access to {access.store!r} with the "
                f"reduction {access.reduction!r}"
            )
        if access.reduction is not None and access.reduction not in REDUCTIONS:
            yield f"reduces with {access.reduction!r}, which is no reduction"
        if isinstance(access.partition, Tiling):
            yield from _tiling_faults(program, task, access, access.partition)
    if isinstance(task.body, Opaque):
        return
    for access in task.writes:
        if not access.partition.is_injective(task.launch):
            text = format_partition(access.partition)
            yield (
                f"writes {access.store!r} through {text}, of which points of the "
                f"launch domain {task.launch} share tiles"
            )


def _tiling_faults(
    program: Program, task: IndexTask, access: Access, tiling: Tiling
) -> Iterator[str]:
    name, text = access.store, format_partition(tiling)
    if len(tiling.chunks) != len(tiling.axes):
        yield f"has a tiling of {name!r} with axes {tiling.axes}: {text}"
        return
    shape = program.stores[name].shape
    # Stores of partial results are objects: their shape is empty, not their tiling.
    if shape and len(shape) != len(tiling.chunks):
        yield f"cuts {name!r} of shape {shape} through {text}"
    elif shape:
        for axis, (length, lengths) in enumerate(
            zip(shape, tiling.chunks, strict=True)
        ):
            if length is None or None in lengths:
                continue
            total = sum(n for n in lengths if n is not None)
            if total != length:
                yield (
                    f"has tiles of {name!r} of {total} along axis {axis}, which is "
                    f"{length} long: {text}"
                )
    for axis, (launch_axis, lengths) in enumerate(
        zip(tiling.axes, tiling.chunks, strict=True)
    ):
        if launch_axis is None:
            tiles = 1
        elif 0 <= launch_axis < len(task.launch):
            tiles = task.launch[launch_axis]
        else:
            yield f"has no launch axis {launch_axis}, as {name!r} asks for: {text}"
            continue
        if len(lengths) != tiles:
            yield (
                f"sees {tiles} tiles of {name!r} along axis {axis}, which has "
                f"{len(lengths)}: {text}"
            )


def _body_faults(program: Program, task: IndexTask) -> Iterator[str]:
    body = task.body
    if isinstance(body, Opaque):
        if task.space is not None:
            yield "is opaque and has loops"
        return
    if len(task.writes) != 1:
        yield f"has a kernel and writes {len(task.writes)} stores"
    space = task.space
    if space is None:
        yield "has a kernel and no loops"
        return
    tiles = tuple(map(len, space.chunks))
    if tiles != task.launch:
        yield f"has loops cut into {tiles} over the launch domain {task.launch}"
        return
    yield from _operand_faults(program, task, body)
    if isinstance(body, Elementwise):
        yield from _elementwise_faults(program, task, body)
    else:
        yield from _reduction_faults(task, body)


def _operand_faults(
    program: Program, task: IndexTask, body: Elementwise | Reduction
) -> Iterator[str]:
    reads = task.reads
    loops = range(len(task.launch))
    if len(body.operands) != len(reads):
        yield f"has {len(body.operands)} operands and reads {len(reads)} stores"
        return
    for access, axes in zip(reads, body.operands, strict=True):
        shape = program.stores[access.store].shape
        if len(axes) != len(shape) or not all(axis in loops for axis in axes):
            yield (
                f"reads {access.store!r} of shape {shape} along the axes {axes} of "
                f"{len(loops)} loops"
            )
        elif len(set(axes)) < len(axes):
            yield f"reads {access.store!r} along the axes {axes}, one of them twice"
    for line in body.function.instructions:
        if line.op == "input":
            if not 0 <= line.number < len(reads):
                yield f"has no operand {line.number} of its {len(reads)}"
                continue
            name = reads[line.number].store
            dtype = program.stores[name].dtype
            if dtype is not None and dtype != line.dtype:
                yield (
                    f"takes {name!r} to be {format_dtype(line.dtype)}, which is "
                    f"{format_dtype(dtype)}"
                )
        elif line.op == "scalar":
            if not 0 <= line.number < len(task.scalars):
                yield f"has no scalar {line.number} of its {len(task.scalars)}"
            elif task.scalars[line.number].dtype != line.dtype:
                value = task.scalars[line.number]
                yield (
                    f"takes scalar {line.number} to be {format_dtype(line.dtype)}, "
                    f"which is {value!r}"
                )
        elif line.op == "index" and line.number not in loops:
            yield f"asks for the position along loop {line.number} of {len(loops)}"


def _elementwise_faults(
    program: Program, task: IndexTask, body: Elementwise
) -> Iterator[str]:
    access = task.writes[0]
    dtypes = body.function.dtypes
    if access.privilege is not Privilege.WRITE:
        yield f"is elementwise and reduces to {access.store!r}"
    if len(dtypes) != 1:
        yield f"is elementwise and has {len(dtypes)} results"
        return
    dtype = program.stores[access.store].dtype
    if dtype is not None and dtype != dtypes[0]:
        yield (
            f"computes {format_dtype(dtypes[0])} for {access.store!r}, which is "
            f"{format_dtype(dtype)}"
        )
    assert task.space is not None
    if isinstance(access.partition, Tiling) and (
        access.partition.chunks != task.space.chunks
    ):
        written, loops = map(format_partition, (access.partition, task.space))
        yield f"writes {access.store!r} through {written} in loops over {loops}"


def _reduction_faults(task: IndexTask, body: Reduction) -> Iterator[str]:
    access = task.writes[0]
    if access.privilege is not Privilege.REDUCE:
        yield f"is a reduction and writes {access.store!r} for good"
    axes = body.axes
    loops = range(len(task.launch))
    if not all(axis in loops for axis in axes) or list(axes) != sorted(set(axes)):
        yield f"reduces the axes {axes} of {len(loops)} loops"
    if len(body.statistics) not in _NUM_STATISTICS[body.partial]:
        yield (
            f"has {len(body.statistics)} statistics for a partial result of the kind "
            f"{body.partial.value!r}"
        )
    dtypes: tuple[np.dtype, ...] = body.function.dtypes
    for row in body.statistics:
        if row.reduction not in REDUCTIONS:
            yield f"accumulates with {row.reduction!r}, which is no reduction"
            continue
        most = REDUCTIONS[row.reduction].num_values
        if not 1 <= len(row.values) <= most:
            yield f"accumulates {len(row.values)} values with {row.reduction!r}"
        if not all(0 <= value < len(dtypes) for value in row.values):
            yield f"accumulates results {row.values} of {len(dtypes)}"
