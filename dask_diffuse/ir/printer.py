"""Show programs as text: one form, for errors, dumps, tests and documentation.

Stores print as numbers and partitions as letters, both in the order in which they
appear: programs which are the same up to names print the same, but for the labels in
quotes. A partition has a line before its first use. A task is one line: what it writes,
its launch domain, the kind of its body, its accesses, what it computes, and the label
of its layer::

    program  requested: %2
      %0 : f64[1000, 1000]  input "array"
      @a = tiling(2x500, 1000)
      %1 : f64[1000, 1000]  task 0 <2, 1>  elementwise  read %0@a write %1@a  ...
      @b = tiling(2x1, 1000)
      %2 : f64[2, 1000]     task 1 <2, 1>  reduction    read %1@a reduce(sum) %2@b  ...

``%1@a`` is store 1, through partition a. ``tiling(2x500+200, 1000)`` has tiles of 500,
500 and 200 along the first axis of a store, and one of 1000 along the second.
``along (1, 0)`` says which launch axis picks the tile along each axis, where that is
not the axis of the same number; no axis picks a tile along ``-``, since there is only
one. ``?`` is a length that is not known before run time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from dask_diffuse.ir.partition import Partition, Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Store
from dask_diffuse.ir.task import (
    Access,
    Elementwise,
    IndexTask,
    Opaque,
    Privilege,
    Reduction,
)
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.kernel.printer import format_dtype

__all__ = ["format_partition", "format_program"]

_MAX_TEXT = 60
"""Expressions are cut off here: the kernels print in full."""

_MAX_COLUMN = 34
"""Wider entries do not push the others of their column."""


def format_program(program: Program, *, around: int | None = None) -> str:
    """Return a program as text; see the module for its form.

    Parameters
    ----------
    program
        What to print. It may break rules: the verifier shows it in its errors.
    around
        Id of a task. Only the tasks next to it are printed, and it is marked.

    Examples
    --------
    >>> from dask_diffuse.ir.store import Origin
    >>> x = Store("x", (4,), np.dtype("f8"), Origin("x", "array"))
    >>> print(format_program(Program({"x": x}, (), frozenset({"x"}))))
    program  requested: %0
      %0 : f64[4]  input  "array"
    """
    return _Printer(program).text(around)


def format_partition(partition: Partition) -> str:
    """Return a partition in one line.

    Examples
    --------
    >>> format_partition(Tiling(((4, 4, 2), (8,)), (1, None)))
    'tiling(2x4+2, 8) along (1, -)'
    """
    if not isinstance(partition, Tiling):
        return "replicated"
    text = f"tiling({', '.join(map(_lengths_text, partition.chunks))})"
    if partition.axes == tuple(range(len(partition.chunks))):
        return text
    axes = ", ".join("-" if axis is None else str(axis) for axis in partition.axes)
    return f"{text} along ({axes})"


class _Printer:
    """Numbers what has names, and lays lines out in columns."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._stores: dict[str, int] = {}
        self._partitions: dict[int, str] = {}
        # A row is the task it is about, if any, and its columns.
        self._rows: list[tuple[int | None, list[str]]] = []

    def text(self, around: int | None) -> str:
        program = self._program
        written = {a.store for task in program.tasks for a in task.writes}
        for name, store in program.stores.items():
            if name not in written:
                self._rows.append((None, self._input(store)))
        for task in program.tasks:
            self._task(task)
        requested = sorted(self._number(name) for name in program.requested)
        head = f"program  requested: {', '.join(f'%{n}' for n in requested) or 'none'}"
        lines = self._lines()
        if around is None:
            return "\n".join([head, *lines])
        at = next(
            (i for i, (task, _) in enumerate(self._rows) if task == around), len(lines)
        )
        marked = [
            f"{'>' if i == at else ' '}{line[1:]}" for i, line in enumerate(lines)
        ]
        first, last = max(at - 5, 0), at + 5
        return "\n".join(
            [
                head,
                *(["  ..."] if first else []),
                *marked[first : last + 1],
                *(["  ..."] if last + 1 < len(lines) else []),
            ]
        )

    def _lines(self) -> list[str]:
        rows = [columns for _, columns in self._rows if len(columns) > 1]
        widths = [
            max(
                (len(entry) for entry in column if len(entry) <= _MAX_COLUMN), default=0
            )
            for column in itertools.zip_longest(*rows, fillvalue="")
        ]
        return [
            "  " + "  ".join(map(str.ljust, columns, widths)).rstrip()
            if len(columns) > 1
            else f"  {columns[0]}"
            for _, columns in self._rows
        ]

    def _input(self, store: Store) -> list[str]:
        return [self._typed(store.name), "input", f'"{store.origin.label}"']

    def _task(self, task: IndexTask) -> None:
        reads = [self._access(access, task) for access in task.reads]
        writes = [self._access(access, task) for access in task.writes]
        launch = ", ".join(map(str, task.launch))
        self._rows.append(
            (
                task.id,
                [
                    ", ".join(self._typed(a.store) for a in task.writes) or "nothing",
                    f"task {task.id} <{launch}>",
                    _kind(task),
                    " ".join([*reads, *writes]),
                    self._body(task),
                    f'"{task.origin.label}"',
                ],
            )
        )

    def _access(self, access: Access, task: IndexTask) -> str:
        letter = self._partitions.get(id(access.partition))
        if letter is None:
            letter = _letters(len(self._partitions))
            self._partitions[id(access.partition)] = letter
            text = format_partition(access.partition)
            self._rows.append((None, [f"@{letter} = {text}"]))
        verb = access.privilege.value
        if access.privilege is Privilege.REDUCE:
            verb = f"reduce({access.reduction})"
        return f"{verb} %{self._number(access.store)}@{letter}"

    def _body(self, task: IndexTask) -> str:
        body = task.body
        if isinstance(body, Opaque):
            return body.decision.rule.value
        operands = [f"%{self._number(access.store)}" for access in task.reads]
        values = _expressions(body.function, operands, task.scalars)
        if isinstance(body, Elementwise):
            return values[0] if values else "nothing"
        axes = ", ".join(map(str, body.axes))
        texts = []
        for row in body.statistics:
            accumulated = ", ".join(_item(values, i) for i in row.values)
            texts.append(f"{row.reduction}({accumulated}) over {axes}")
        return ", ".join(texts)

    def _number(self, store: str) -> int:
        return self._stores.setdefault(store, len(self._stores))

    def _typed(self, name: str) -> str:
        store = self._program.stores.get(name)
        number = self._number(name)
        if store is None:
            return f"%{number} : not in the program"
        dtype = "?" if store.dtype is None else format_dtype(store.dtype)
        shape = ", ".join("?" if n is None else str(n) for n in store.shape)
        return f"%{number} : {dtype}[{shape}]"


def _kind(task: IndexTask) -> str:
    match task.body:
        case Elementwise():
            return "elementwise"
        case Reduction():
            return "reduction"
        case Opaque():
            return "opaque"


def _expressions(
    function: ScalarFunction, operands: list[str], scalars: tuple[np.generic, ...]
) -> list[str]:
    """Return the results of a function as nested calls, cut off where too long."""
    texts: list[str] = []
    for line in function.instructions:
        match line.op:
            case "input":
                text = _item(operands, line.number)
            case "scalar":
                text = _item([str(scalar) for scalar in scalars], line.number)
            case "const":
                text = str(line.attr)
            case "index":
                text = f"index {line.attr}"
            case op:
                name = f"cast {format_dtype(line.dtype)}" if op == "cast" else op
                text = f"{name}({', '.join(_item(texts, i) for i in line.args)})"
        texts.append(text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}...")
    return [_item(texts, i) for i in function.results]


def _item(texts: list[str], number: int) -> str:
    return texts[number] if 0 <= number < len(texts) else "?"


def _letters(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ... for 0, 1, ..."""
    letters = ""
    while number >= 0:
        number, letter = divmod(number, 26)
        letters = chr(ord("a") + letter) + letters
        number -= 1
    return letters


def _lengths_text(lengths: Iterable[int | None]) -> str:
    parts = []
    for length, run in itertools.groupby(lengths):
        count = sum(1 for _ in run)
        text = "?" if length is None else str(length)
        parts.append(text if count == 1 else f"{count}x{text}")
    return "+".join(parts) or "none"
