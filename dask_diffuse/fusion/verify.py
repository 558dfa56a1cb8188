"""What a legal plan is, in code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dask_diffuse.errors import VerifyError
from dask_diffuse.fusion import constraints
from dask_diffuse.fusion.plan import FusionGroup, FusionPlan
from dask_diffuse.ir.printer import format_program
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Elementwise, Opaque
from dask_diffuse.kernel.nest import Assign
from dask_diffuse.kernel.verify import verify_kernel
from dask_diffuse.options import Options

__all__ = ["verify_plan"]


def verify_plan(plan: FusionPlan, *, options: Options | None = None) -> None:
    """Check a plan.

    Each task is in a group or untouched. Groups may repeat elementwise tasks, of which
    then all but one group make a temporary. Groups obey the constraints, can run in
    their order, and make what others read. Kernels are legal and take what the group
    says.

    Parameters
    ----------
    plan
        What to check.
    options
        Have the limits that groups obey; None to leave these out.

    Raises
    ------
    VerifyError
        If it breaks a rule.
    """
    for fault in (*_cover_faults(plan), *_missing_faults(plan)):
        raise VerifyError(f"plan: {fault}", format_program(plan.program))
    made_by = {
        result.store: number
        for number, group in enumerate(plan.groups)
        for result in group.results
    }
    for number, group in enumerate(plan.groups):
        for fault in (
            *_pair_faults(plan, group),
            *_store_faults(plan, group),
            *_order_faults(group, number, made_by),
            *_kernel_faults(plan, group),
            *_limit_faults(group, options),
        ):
            raise VerifyError(
                f"group {number} of tasks {group.tasks}: {fault}",
                format_program(plan.program, around=group.tasks[0]),
            )
        verify_kernel(group.kernel)
    cycle = _find_cycle(plan)
    if cycle:
        raise VerifyError(
            f"plan: groups and tasks {cycle} wait for each other",
            format_program(plan.program),
        )


def _cover_faults(plan: FusionPlan) -> Iterator[str]:
    seen: dict[int, str] = {}
    results = {
        (n, r.task) for n, group in enumerate(plan.groups) for r in group.results
    }
    parts = [(f"group {n}", group.tasks) for n, group in enumerate(plan.groups)]
    for part, tasks in (*parts, ("the untouched", plan.untouched)):
        if list(tasks) != sorted(set(tasks)):
            yield f"the tasks of {part} are not in order: {tasks}"
        for task in tasks:
            if not 0 <= task < len(plan.program.tasks):
                yield f"{part} has task {task}, which is not in the program"
            elif task in seen and not isinstance(
                plan.program.tasks[task].body, Elementwise
            ):
                yield f"task {task} is in {seen[task]} and in {part}"
            seen[task] = part
    made = Counter(task for _, task in results)
    for task in sorted(task for task, count in made.items() if count > 1):
        yield f"{made[task]} groups have the result of task {task}"
    missing = sorted(set(range(len(plan.program.tasks))) - seen.keys())
    if missing:
        yield f"tasks {missing} are in no group and not untouched"


def _pair_faults(plan: FusionPlan, group: FusionGroup) -> Iterator[str]:
    tasks = plan.program.tasks
    first = tasks[group.tasks[0]]
    for number in group.tasks:
        task = tasks[number]
        if isinstance(task.body, Opaque):
            yield f"task {number} has no kernel"
            continue
        for decision in (
            constraints.disjoint_writes(task),
            constraints.launch_domain(first, task),
        ):
            if not decision.accepted:
                yield str(decision)
        for position, access in enumerate(task.reads):
            writer = plan.program.writers.get(access.store)
            if writer is not None and writer in group.tasks:
                refusal = constraints.check_dependence(tasks[writer], task, position)
                if refusal is not None:
                    yield str(refusal)


def _store_faults(plan: FusionPlan, group: FusionGroup) -> Iterator[str]:
    """Yield what is wrong with results and temporaries."""
    program = plan.program
    written = {a.store for task in group.tasks for a in program.tasks[task].writes}
    results = {result.store for result in group.results}
    temporaries = set(group.temporaries)
    if written != results | temporaries or results & temporaries:
        yield (
            f"writes {sorted(written)}, of which {sorted(results)} are results and "
            f"{sorted(temporaries)} temporary"
        )
    if not results:
        yield "has no results"


def _missing_faults(plan: FusionPlan) -> Iterator[str]:
    """Yield the stores that somebody reads and nobody makes."""
    program = plan.program
    results = {result.store for group in plan.groups for result in group.results}
    untouched = set(plan.untouched)
    groups_of: dict[int, set[int]] = {}
    for number, group in enumerate(plan.groups):
        for task in group.tasks:
            groups_of.setdefault(task, set()).add(number)
    all_readers = _live_readers(program)
    for name in sorted(program.requested | all_readers.keys()):
        writer = program.writers.get(name)
        if writer is None or writer in untouched or name in results:
            continue
        if name in program.requested:
            yield f"{name!r} is temporary and requested"
        # It is temporary: whoever reads it has to be where it is computed.
        outside = sorted(
            reader
            for reader in all_readers.get(name, ())
            if reader in untouched
            or not groups_of.get(reader, set()) <= groups_of.get(writer, set())
        )
        if outside:
            yield f"{name!r} is temporary and tasks {outside} read it"


def _live_readers(program: Program) -> dict[str, set[int]]:
    """Return the tasks that read each store, but for those that nobody needs."""
    writers = program.writers
    pending = [writers[name] for name in program.requested if name in writers]
    live: set[int] = set()
    readers: dict[str, set[int]] = {}
    while pending:
        task = pending.pop()
        if task in live:
            continue
        live.add(task)
        for access in program.tasks[task].reads:
            readers.setdefault(access.store, set()).add(task)
            if access.store in writers:
                pending.append(writers[access.store])
    return readers


def _order_faults(
    group: FusionGroup, number: int, made_by: dict[str, int]
) -> Iterator[str]:
    for access in group.inputs:
        maker = made_by.get(access.store)
        if maker is not None and maker >= number:
            yield f"reads {access.store!r}, which group {maker} makes"
        if access.store in group.temporaries:
            yield f"reads its temporary {access.store!r}"


def _kernel_faults(plan: FusionPlan, group: FusionGroup) -> Iterator[str]:
    kernel, program = group.kernel, plan.program
    if len(group.inputs) != len(kernel.arrays):
        yield f"has {len(group.inputs)} inputs for {len(kernel.arrays)} arrays"
    for access, param in zip(group.inputs, kernel.arrays, strict=False):
        dtype = program.stores[access.store].dtype
        if dtype is not None and dtype != param.dtype:
            yield f"hands {access.store!r} of {dtype} to an array of {param.dtype}"
    if len(group.scalars) != len(kernel.scalars):
        yield f"has {len(group.scalars)} literals for {len(kernel.scalars)} scalars"
    for (task, position), dtype in zip(group.scalars, kernel.scalars, strict=False):
        value = program.tasks[task].scalars[position]
        if value.dtype != dtype:
            yield f"hands {value!r} to a scalar of {dtype}"
    if kernel.ndim != len(program.tasks[group.tasks[0]].launch):
        yield f"has {kernel.ndim} loops"
    for result in group.results:
        body = program.tasks[result.task].body
        if not all(0 <= n < len(kernel.statements) for n in result.statements):
            yield f"{result.store!r} is made by statements {result.statements}"
        elif isinstance(body, Elementwise):
            (number,) = result.statements
            if not isinstance(kernel.statements[number], Assign):
                yield f"{result.store!r} is elementwise and reduced"


def _limit_faults(group: FusionGroup, options: Options | None) -> Iterator[str]:
    if options is None:
        return
    values = len(group.kernel.function.instructions)
    arrays = len(group.inputs) + len(group.results)
    if values > options.max_group_values:
        yield f"has {values} values, more than {options.max_group_values}"
    if arrays > options.max_group_arrays:
        yield f"has {arrays} arrays, more than {options.max_group_arrays}"


def _find_cycle(plan: FusionPlan) -> list[str]:
    """Return groups and tasks that wait for each other, if there are any."""
    program = plan.program
    groups = [tuple(group.tasks) for group in plan.groups]
    parts = [*groups, *((task,) for task in plan.untouched)]
    part_of: dict[str, int] = {}
    for number, group in enumerate(plan.groups):
        part_of.update((result.store, number) for result in group.results)
    for number, task in enumerate(plan.untouched, len(groups)):
        for access in program.tasks[task].writes:
            part_of.setdefault(access.store, number)
    needs = [
        {
            part_of[access.store]
            for task in part
            for access in program.tasks[task].reads
            if part_of.get(access.store, number) != number
        }
        for number, part in enumerate(parts)
    ]
    waiting = dict(enumerate(needs))
    ready = [number for number, needed in waiting.items() if not needed]
    needed_by: dict[int, list[int]] = {}
    for number, needed in enumerate(needs):
        for other in needed:
            needed_by.setdefault(other, []).append(number)
    while ready:
        done = ready.pop()
        del waiting[done]
        for number in needed_by.get(done, ()):
            waiting[number].discard(done)
            if not waiting[number]:
                ready.append(number)
    return [str(parts[number]) for number in sorted(waiting)]
