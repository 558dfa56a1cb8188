"""Hand-made plans over real graphs of dask.array."""

from __future__ import annotations

import operator

import dask.array as da
import numpy as np

from dask_diffuse.fusion.plan import FusionGroup, FusionPlan, KernelResult
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.partition import PartitionTable
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Origin, Store
from dask_diffuse.ir.task import (
    Access,
    Elementwise,
    IndexTask,
    Opaque,
    Partial,
    Privilege,
    Reduction,
    Statistic,
)
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel

F8 = np.dtype("f8")
OPAQUE = Opaque(Decision(Rule.UNKNOWN_FUNCTION, False, "layer"))


def scale_function(op: str) -> ScalarFunction:
    return ScalarFunction(
        (
            Instruction("input", (), F8, 0),
            Instruction("scalar", (), F8, 0),
            Instruction(op, (0, 1), F8),
        ),
        (2,),
    )


IDENTITY = ScalarFunction((Instruction("input", (), F8, 0),), (0,))


class ProgramBuilder:
    """Makes a program for a graph, task by task."""

    def __init__(self, array: da.Array) -> None:
        self.hlg = array.dask
        self.table = PartitionTable()
        self.stores: dict[str, Store] = {}
        self.tasks: list[IndexTask] = []
        self.space = None

    def task(self, name, reads, body, *, chunks, scalars=()) -> IndexTask:
        axes = tuple(range(len(chunks)))
        written = self.table.tiling(chunks, axes)
        self.space = self.space or written
        accesses = [Access(s, self.space, Privilege.READ) for s in reads]
        accesses.append(Access(name, written, Privilege.WRITE))
        launch = tuple(map(len, chunks))
        return self.add(name, accesses, body, launch, self.space, scalars)

    def opaque(self, name, reads) -> None:
        whole = self.table.replicated
        accesses = [Access(store, whole, Privilege.READ) for store in reads]
        accesses.append(Access(name, whole, Privilege.WRITE))
        self.add(name, accesses, OPAQUE, (), None, ())

    def add(self, name, accesses, body, launch, space, scalars) -> IndexTask:
        origin = Origin(name, name.split("-")[0])
        self.stores[name] = Store(name, (), F8, origin)
        number = len(self.tasks)
        task = IndexTask(number, launch, tuple(accesses), body, origin, space, scalars)
        self.tasks.append(task)
        return task

    def scale(self, array: da.Array, source: str, op: str, value: float) -> IndexTask:
        body = Elementwise(scale_function(op), (tuple(range(array.ndim)),))
        return self.task(
            array.name, [source], body, chunks=array.chunks, scalars=(F8.type(value),)
        )

    def total(self, name: str, source: da.Array, partial=Partial.ARRAY) -> IndexTask:
        axes = tuple(range(source.ndim))
        kind = {Partial.MOMENTS: "moments", Partial.ARG: "argmax"}.get(partial, "sum")
        body = Reduction(
            IDENTITY, (axes,), axes, (Statistic(kind, (0,), F8),), partial, F8
        )
        ones = tuple((1,) * len(c) for c in source.chunks)
        return self.task(name, [source.name], body, chunks=ones)

    def program(self, requested) -> Program:
        return Program(self.stores, tuple(self.tasks), frozenset(requested))


def affine_kernel(
    outputs: tuple[str, ...] = ("add",), *, ndim=2, total=None, label="mul, add"
) -> Kernel:
    """A kernel of ``mul = x * s0`` and ``add = mul + s1``, and perhaps a reduction."""
    axes = tuple(range(ndim))
    instructions = (
        Instruction("input", (), F8, 0),
        Instruction("scalar", (), F8, 0),
        Instruction("multiply", (0, 1), F8),
        Instruction("scalar", (), F8, 1),
        Instruction("add", (2, 3), F8),
    )
    value = {"mul": 2, "add": 4}
    statements = [Assign(value[name], axes) for name in outputs]
    if total is not None:
        statements.append(Accumulate(total, (4,), axes, F8))
    results = (*(value[name] for name in outputs), *(() if total is None else (4,)))
    return Kernel(
        label,
        ndim,
        (ArrayParam(F8, axes),),
        (F8, F8),
        ScalarFunction(instructions, results),
        tuple(statements),
    )


def group_of(program: Program, tasks, results, kernel: Kernel) -> FusionGroup:
    """One group; `results` maps stores to the statements that make them."""
    return FusionGroup(
        tasks=tuple(task.id for task in tasks),
        inputs=(tasks[0].reads[0],),
        results=tuple(
            KernelResult(store, statements, program.writers[store])
            for store, statements in results.items()
        ),
        temporaries=(),
        kernel=kernel,
        scalars=tuple((task.id, 0) for task in tasks if task.scalars),
    )


def plan_of(program: Program, *groups: FusionGroup) -> FusionPlan:
    grouped = {task for group in groups for task in group.tasks}
    untouched = tuple(t.id for t in program.tasks if t.id not in grouped)
    return FusionPlan(program, groups, untouched, ())


def run_with_numpy(kernel, arrays, scalars, extents):
    """What a compiled kernel would do."""
    functions = {"multiply": operator.mul, "add": operator.add}
    values = []
    for instruction in kernel.function.instructions:
        if instruction.op == "input":
            values.append(arrays[instruction.attr])
        elif instruction.op == "scalar":
            values.append(scalars[instruction.attr])
        else:
            operands = (values[position] for position in instruction.args)
            values.append(functions[instruction.op](*operands))
    results = []
    for statement in kernel.statements:
        if isinstance(statement, Assign):
            results.append(values[statement.value])
            continue
        value = np.broadcast_to(values[statement.values[0]], extents)
        reduced = {"axis": statement.axes, "keepdims": True}
        if statement.reduction == "moments":
            count = np.full_like(value.sum(**reduced), 1, dtype="i8")
            count *= int(np.prod([extents[axis] for axis in statement.axes]))
            total = value.sum(**reduced)
            results += [count, total, ((value - total / count) ** 2).sum(**reduced)]
        elif statement.reduction == "argmax":
            results += [value.max(**reduced), value.argmax().reshape((1,) * value.ndim)]
        else:
            results.append(value.sum(**reduced))
    return results
