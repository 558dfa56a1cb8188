"""Groups of tasks -> kernels: bodies in program order, stores become values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dask_diffuse.fusion.facts import Facts
from dask_diffuse.fusion.plan import FusionGroup, KernelResult
from dask_diffuse.fusion.repeat import TaskGroup
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Elementwise, IndexTask, Opaque, Reduction
from dask_diffuse.kernel.construct import FunctionBuilder, Value
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel, Statement

__all__ = ["GroupPlan", "build_group"]

_LABEL_LENGTH = 60


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group in terms of task ids, which isomorphic programs share.

    Parameters
    ----------
    tasks
        Ids, increasing, those of constants included.
    inputs
        For each array of the kernel, a task that reads it and the position of the read.
    results
        For each store that is written for others, the task that writes it and the
        statements of the kernel that make it.
    kernel
        The fused kernel.
    scalars
        As in `FusionGroup`.
    """

    tasks: tuple[int, ...]
    inputs: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, tuple[int, ...]], ...]
    kernel: Kernel
    scalars: tuple[tuple[int, int], ...]

    def of(self, program: Program) -> FusionGroup:
        """Return the group with the names of one program."""
        tasks = program.tasks
        results = tuple(
            KernelResult(tasks[task].writes[0].store, statements, task)
            for task, statements in self.results
        )
        kept = {task for task, _ in self.results}
        label = _label([tasks[task] for task in self.tasks])
        kernel = self.kernel
        if kernel.label != label:
            kernel = Kernel(
                label,
                kernel.ndim,
                kernel.arrays,
                kernel.scalars,
                kernel.function,
                kernel.statements,
            )
        return FusionGroup(
            tasks=self.tasks,
            inputs=tuple(tasks[task].accesses[read] for task, read in self.inputs),
            results=results,
            temporaries=tuple(
                tasks[task].writes[0].store for task in self.tasks if task not in kept
            ),
            kernel=kernel,
            scalars=self.scalars,
        )


def build_group(facts: Facts, group: TaskGroup) -> GroupPlan:
    """Compose the bodies of the tasks of a group.

    Stores that the group writes become values, so that those which nobody else reads
    never exist. Equal values of different tasks are computed once.

    Parameters
    ----------
    facts
        Of the program.
    group
        Its tasks.
    """
    composer = _Composer(facts.program)
    tasks = sorted((*group.tasks, *facts.constants_of(group.tasks)))
    for task in tasks:
        composer.add(facts.program.tasks[task], is_result=task in group.results)
    return composer.build(tuple(tasks))


class _Composer:
    """A kernel under construction."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._builder = FunctionBuilder()
        self._values: dict[str, Value] = {}
        self._arrays: dict[tuple[str, tuple[int, ...]], int] = {}
        self._reads: list[tuple[int, int]] = []
        self._params: list[ArrayParam] = []
        self._scalars: list[tuple[int, int]] = []
        self._statements: list[Statement] = []
        self._accumulated: dict[Statement, int] = {}
        self._results: list[tuple[int, tuple[int, ...]]] = []

    def add(self, task: IndexTask, *, is_result: bool) -> None:
        """Append the body of a task."""
        body = task.body
        assert not isinstance(body, Opaque)
        inputs, scalars = self._operands(task, body)
        values = self._builder.inline(body.function, inputs, scalars)
        if isinstance(body, Elementwise):
            self._values[task.writes[0].store] = values[0]
        if not is_result:
            return
        statements: list[Statement] = []
        if isinstance(body, Elementwise):
            statements.append(
                Assign(values[0].position, tuple(range(len(task.launch))))
            )
        else:
            statements += (
                Accumulate(
                    row.reduction,
                    tuple(values[i].position for i in row.values),
                    body.axes,
                    row.dtype,
                )
                for row in body.statistics
            )
        self._results.append((task.id, tuple(map(self._number, statements))))

    def _operands(
        self, task: IndexTask, body: Elementwise | Reduction
    ) -> tuple[list[Value], list[Value]]:
        """Return what stands for the operands that a function uses."""
        inputs: dict[int, Value] = {}
        scalars: dict[int, Value] = {}
        for line in body.function.instructions:
            if line.op == "input":
                inputs[line.number] = self._input(
                    task, line.number, body.operands[line.number], line.dtype
                )
            elif line.op == "scalar" and line.number not in scalars:
                scalars[line.number] = self._builder.scalar(
                    len(self._scalars), line.dtype
                )
                self._scalars.append((task.id, line.number))
        return _listed(inputs), _listed(scalars)

    def _input(
        self, task: IndexTask, read: int, axes: tuple[int, ...], dtype: np.dtype
    ) -> Value:
        store = task.accesses[read].store
        value = self._values.get(store)
        if value is not None:
            return value
        number = self._arrays.setdefault((store, axes), len(self._arrays))
        if number == len(self._params):
            self._params.append(ArrayParam(dtype, axes))
            self._reads.append((task.id, read))
        return self._builder.input(number, dtype)

    def _number(self, statement: Statement) -> int:
        """Return the position of a statement; equal reductions are done once.

        Arrays are written for each store, though: users may write to a block, which
        then must not be another block as well.
        """
        known = self._accumulated.get(statement)
        if known is not None:
            return known
        number = len(self._statements)
        self._statements.append(statement)
        if isinstance(statement, Accumulate):
            self._accumulated[statement] = number
        return number

    def build(self, tasks: tuple[int, ...]) -> GroupPlan:
        """Return the group, without values that nobody uses."""
        values = (value for row in self._statements for value in _values_of(row))
        used = tuple(dict.fromkeys(values))
        pruned = _Pruned(self._builder.build([]).instructions, used)
        positions = pruned.positions
        arrays, scalars = pruned.numbers["input"], pruned.numbers["scalar"]
        kernel = Kernel(
            label=_label([self._program.tasks[task] for task in tasks]),
            ndim=len(self._program.tasks[tasks[0]].launch),
            arrays=tuple(self._params[number] for number in arrays),
            scalars=tuple(line.dtype for line in pruned.lines if line.op == "scalar"),
            function=ScalarFunction(
                tuple(pruned.lines), tuple(positions[value] for value in used)
            ),
            statements=tuple(_moved(row, positions) for row in self._statements),
        )
        return GroupPlan(
            tasks=tasks,
            inputs=tuple(self._reads[number] for number in arrays),
            results=tuple(self._results),
            kernel=kernel,
            scalars=tuple(self._scalars[number] for number in scalars),
        )


def _values_of(statement: Statement) -> tuple[int, ...]:
    if isinstance(statement, Assign):
        return (statement.value,)
    return statement.values


def _moved(statement: Statement, positions: Mapping[int, int]) -> Statement:
    if isinstance(statement, Assign):
        return Assign(positions[statement.value], statement.axes)
    values = tuple(positions[value] for value in statement.values)
    return Accumulate(statement.reduction, values, statement.axes, statement.dtype)


def _listed(values: dict[int, Value]) -> list[Value]:
    """Return values by number; a function asks for none of those that are missing."""
    unused = Value(-1, np.dtype(bool))
    return [values.get(number, unused) for number in range(max(values, default=-1) + 1)]


class _Pruned:
    """The instructions that some values need, renumbered in order.

    Parameters
    ----------
    lines
        All instructions.
    used
        Positions of the values.
    """

    def __init__(self, lines: Sequence[Instruction], used: Iterable[int]) -> None:
        live = set(used)
        for position in range(len(lines) - 1, -1, -1):
            if position in live:
                live.update(lines[position].args)
        self.lines: list[Instruction] = []
        self.positions: dict[int, int] = {}
        # Old numbers of arrays and scalars, in their new order.
        self.numbers: dict[str, dict[int, int]] = {"input": {}, "scalar": {}}
        for position in sorted(live):
            self.positions[position] = len(self.lines)
            self.lines.append(self._renumbered(lines[position]))

    def _renumbered(self, line: Instruction) -> Instruction:
        numbers = self.numbers.get(line.op)
        if numbers is None:
            args = tuple(self.positions[position] for position in line.args)
            return Instruction(line.op, args, line.dtype, line.attr)
        number = numbers.setdefault(line.number, len(numbers))
        return Instruction(line.op, (), line.dtype, number)


def _label(tasks: Sequence[IndexTask]) -> str:
    """Return a short name made from those of the layers."""
    label = ""
    for name in dict.fromkeys(task.origin.label for task in tasks):
        longer = f"{label}-{name}" if label else name
        if len(longer) > _LABEL_LENGTH:
            break
        label = longer
    return label or "fused"
