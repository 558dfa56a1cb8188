"""Run programs and plans block by block with NumPy, each in its own way."""

from __future__ import annotations

import itertools

import numpy as np

from dask_diffuse.fusion.plan import FusionGroup, FusionPlan
from dask_diffuse.ir.partition import Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Access, Elementwise, IndexTask, Opaque
from dask_diffuse.kernel.interpret import evaluate, interpret
from dask_diffuse.ops.reductions import REDUCTIONS

Parts = list[np.ndarray]
"""What a store is made of: one array, or the parts of partial results."""


class Memory:
    """The stores that exist."""

    def __init__(self, program: Program, seed: int = 0) -> None:
        self.program = program
        self.stores: dict[str, Parts] = {}
        random = np.random.default_rng(seed)
        for name, store in program.stores.items():
            if name not in program.writers:
                values = random.standard_normal(store.shape) * 3
                self.stores[name] = [values.astype(store.dtype)]

    def tile(self, access: Access, point: tuple[int, ...]) -> np.ndarray:
        (array,) = self.stores[access.store]
        assert isinstance(access.partition, Tiling)
        return array[_slices(access.partition, point)].copy()

    def write(self, access: Access, point: tuple[int, ...], parts: Parts) -> None:
        assert isinstance(access.partition, Tiling)
        shape = tuple(map(sum, access.partition.chunks))
        stored = self.stores.setdefault(
            access.store, [np.full(shape, 77, part.dtype) for part in parts]
        )
        for array, part in zip(stored, parts, strict=True):
            array[_slices(access.partition, point)] = part


def _slices(tiling: Tiling, point: tuple[int, ...]) -> tuple[slice, ...]:
    slices = []
    for lengths, axis in zip(tiling.chunks, tiling.axes, strict=True):
        index = 0 if axis is None else point[axis]
        start = sum(lengths[:index])
        slices.append(slice(start, start + lengths[index]))
    return tuple(slices)


def _points(launch: tuple[int, ...]):
    return itertools.product(*map(range, launch))


def run_program(program: Program, seed: int = 0) -> Memory:
    """Run the tasks one by one, in order."""
    memory = Memory(program, seed)
    for task in program.tasks:
        run_task(memory, task)
    return memory


def run_task(memory: Memory, task: IndexTask) -> None:
    body = task.body
    if isinstance(body, Opaque):
        _run_opaque(memory, task)
        return
    for point in _points(task.launch):
        extents = task.space.tile_shape(point)
        inputs = [
            _along(memory.tile(access, point), axes, len(extents))
            for access, axes in zip(task.reads, body.operands, strict=True)
        ]
        values = evaluate(body.function, inputs, task.scalars, extents)
        values = [np.broadcast_to(value, extents) for value in values]
        if isinstance(body, Elementwise):
            parts = values
        else:
            parts = []
            for row in body.statistics:
                operands = tuple(values[i] for i in row.values)
                evaluate_row = REDUCTIONS[row.reduction].evaluate
                parts += evaluate_row(operands, body.axes, row.dtype)
        memory.write(task.writes[0], point, parts)


def _run_opaque(memory: Memory, task: IndexTask) -> None:
    """Something that sees everything: no tile is right unless all inputs are."""
    total = sum(
        float(np.sum(np.cos(np.nan_to_num(part.astype(float)))))
        for access in task.reads
        for part in memory.stores[access.store]
    )
    for access in task.writes:
        store = memory.program.stores[access.store]
        ramp = np.arange(np.prod(store.shape, dtype=int), dtype=float) / 7
        memory.stores[access.store] = [np.sin(total + ramp.reshape(store.shape))]


def _along(array: np.ndarray, axes: tuple[int, ...], ndim: int) -> np.ndarray:
    order = sorted(range(array.ndim), key=axes.__getitem__)
    shape = [1] * ndim
    for dimension in order:
        shape[axes[dimension]] = array.shape[dimension]
    return array.transpose(order).reshape(shape)


def run_plan(plan: FusionPlan, seed: int = 0) -> Memory:
    """Run groups and untouched tasks as soon as what they read is there."""
    program = plan.program
    memory = Memory(program, seed)
    tasks = program.tasks
    waiting: list[FusionGroup | IndexTask] = [
        *plan.groups,
        *(tasks[number] for number in plan.untouched),
    ]
    while waiting:
        later = []
        for part in waiting:
            reads = part.inputs if isinstance(part, FusionGroup) else part.reads
            if not all(access.store in memory.stores for access in reads):
                later.append(part)
            elif isinstance(part, FusionGroup):
                _run_group(memory, part)
            else:
                run_task(memory, part)
        if len(later) == len(waiting):
            # Nobody makes what these read: fine, if nobody needs them.
            return memory
        waiting = later
    return memory


def _run_group(memory: Memory, group: FusionGroup) -> None:
    tasks = memory.program.tasks
    first = tasks[group.tasks[0]]
    scalars = [tasks[task].scalars[position] for task, position in group.scalars]
    for point in _points(first.launch):
        extents = first.space.tile_shape(point)
        arrays = [memory.tile(access, point) for access in group.inputs]
        results = iter(interpret(group.kernel, arrays, scalars, extents))
        made = [
            [next(results) for _ in range(_num_results(statement))]
            for statement in group.kernel.statements
        ]
        for result in group.results:
            parts = [part for number in result.statements for part in made[number]]
            memory.write(tasks[result.task].writes[0], point, parts)


def _num_results(statement) -> int:
    reduction = getattr(statement, "reduction", None)
    return 1 if reduction is None else REDUCTIONS[reduction].num_results


def assert_same_results(plan: FusionPlan, seed: int = 0) -> None:
    """Check that a plan makes, bit for bit, what its program makes."""
    expected = run_program(plan.program, seed).stores
    made = run_plan(plan, seed).stores
    assert plan.program.requested
    for name in plan.program.requested:
        for ours, theirs in zip(made[name], expected[name], strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
