"""A plan in the language of graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Store
from dask_diffuse.ir.task import IndexTask, Opaque

__all__ = ["dot_text"]


def dot_text(plan: FusionPlan) -> str:
    """Return a plan in the language of graphviz.

    Index tasks are boxes, opaque ones gray; stores that no task writes are ellipses.
    Dashed arrows are temporaries, which live only inside a kernel.
    """
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: FusionPlan) -> Iterator[str]:
    program = plan.program
    yield "digraph program {"
    yield '  node [shape=box fontname="sans-serif" fontsize=10]'
    for number, group in enumerate(plan.groups):
        yield f"  subgraph cluster_{number} {{"
        yield f'    label="group {number}" style=rounded color="#3366cc"'
        for i in group.tasks:
            yield f"    {_task_node(program, program.tasks[i])}"
        yield "  }"
    for i in plan.untouched:
        yield f"  {_task_node(program, program.tasks[i])}"
    yield from _source_nodes(program)
    yield from _edges(plan)
    yield "}"


def _task_node(program: Program, task: IndexTask) -> str:
    stores = [program.stores[access.store] for access in task.writes]
    lines = [task.origin.label, *map(_shape_text, stores)]
    attributes = [f"label={_quote(*lines)}"]
    if isinstance(task.body, Opaque):
        attributes.append('style=filled fillcolor="#e8e8e8"')
    if any(store.name in program.requested for store in stores):
        attributes.append("peripheries=2")
    return f"t{task.id} [{' '.join(attributes)}]"


def _source_nodes(program: Program) -> Iterator[str]:
    for number, store in enumerate(program.stores.values()):
        if store.name not in program.writers:
            label = _quote(store.origin.label, _shape_text(store))
            yield f"  s{number} [shape=ellipse label={label}]"


def _edges(plan: FusionPlan) -> Iterator[str]:
    program = plan.program
    numbers = {name: number for number, name in enumerate(program.stores)}
    temporaries = {name for group in plan.groups for name in group.temporaries}
    for task in program.tasks:
        for store in dict.fromkeys(access.store for access in task.reads):
            writer = program.writers.get(store)
            tail = f"s{numbers[store]}" if writer is None else f"t{writer}"
            style = " [style=dashed]" if store in temporaries else ""
            yield f"  {tail} -> t{task.id}{style}"


def _shape_text(store: Store) -> str:
    if store.dtype is None:
        return ""
    lengths = ", ".join("?" if n is None else str(n) for n in store.shape)
    return f"{store.dtype.name}[{lengths}]"


def _quote(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines if line)
    return '"' + "\\n".join(escaped) + '"'
