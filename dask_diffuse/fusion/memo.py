"""Plans of programs that are the same up to renaming are made once.

Programs repeat: a solver computes the same arrays from other arrays, step after step.
The *canonical form* of a program keeps what a plan depends on and nothing else. Stores,
partitions and launch domains are numbered as they appear, and the number is recorded at
**every** occurrence. If only first occurrences were recorded, these two would be one::

    b = f(a); c = f(b)             b = f(a); c = f(a)

Names, literals, lengths of blocks and their number are not in it: they are arguments of
kernels. Of sizes it says no more than whether they are too small to be worth it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from dask_diffuse.fusion.cost import is_small
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import (
    Access,
    Elementwise,
    IndexTask,
    Opaque,
    Privilege,
    Reduction,
)
from dask_diffuse.options import Options

__all__ = ["Form", "Memo", "canonical_form"]

_MAX_TASKS = 20_000
"""Forms of as many tasks are remembered, in one program or in many."""

T = TypeVar("T")


class Form:
    """A canonical form, which is hashed once however large it is.

    Parameters
    ----------
    content
        Equal forms have equal contents.
    """

    __slots__ = ("_hash", "content")

    def __init__(self, content: Hashable) -> None:
        self.content = content
        self._hash = hash(content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Form):
            return NotImplemented
        return self._hash == other._hash and self.content == other.content


def canonical_form(program: Program, options: Options) -> Form | None:
    """Return what the plan of a program depends on.

    Equal forms have equal plans, up to names. None for a program whose annotations
    cannot be compared, which then is planned every time.
    """
    numbering = _Numbering(program, options.min_bytes)
    try:
        tasks = tuple([numbering.task(task) for task in program.tasks])
        requested = numbering.known(program.requested)
        limits = options.max_group_values, options.max_group_arrays
        return Form((tasks, requested, limits))
    except TypeError:
        return None


class _Numbering:
    """Numbers what has names, in the order in which it appears."""

    def __init__(self, program: Program, min_bytes: int) -> None:
        self._program = program
        self._min_bytes = min_bytes
        self._stores: dict[str, int] = {}
        self._partitions: dict[int, int] = {}
        self._launches: dict[tuple[int, ...], int] = {}

    def known(self, stores: frozenset[str]) -> tuple[int, ...]:
        """Return the numbers of the stores that have one."""
        numbers = self._stores
        return tuple(sorted(numbers[name] for name in stores if name in numbers))

    def task(self, task: IndexTask) -> tuple[Hashable, ...]:
        """Return the form of a task."""
        launches, partitions = self._launches, self._partitions
        return (
            _body_form(task),
            launches.setdefault(task.launch, len(launches)),
            len(task.launch),
            partitions.setdefault(id(task.space), len(partitions)),
            tuple([self._access(access, task) for access in task.accesses]),
            is_small(self._program, task, self._min_bytes),
            _frozen(task.annotations) if task.annotations else (),
        )

    def _access(self, access: Access, task: IndexTask) -> tuple[Hashable, ...]:
        stores, partitions = self._stores, self._partitions
        store = stores.setdefault(access.store, len(stores))
        partition = partitions.setdefault(id(access.partition), len(partitions))
        if access.privilege is Privilege.READ:
            return store, partition
        is_injective = access.partition.is_injective(task.launch)
        reduction = access.reduction
        return store, partition, access.privilege.value, reduction, is_injective


def _body_form(task: IndexTask) -> Hashable:
    match task.body:
        case Elementwise(function=function, operands=operands):
            return function, operands
        case Reduction() as body:
            return body.function, body.operands, body.axes, body.statistics
        case Opaque(partly=partly):
            # What it does is not looked at, but for the blocks that it needs.
            return tuple([access.store in partly for access in task.reads])


def _frozen(value: object) -> Hashable:
    """Return a value that is hashable and equal only to those of its own type."""
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: str(item[0]))
        return "dict", tuple((name, _frozen(item)) for name, item in items)
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(_frozen, value))
    if isinstance(value, set | frozenset):
        return "set", frozenset(map(_frozen, value))
    hash(value)
    return type(value), value


class Memo(Generic[T]):
    """What was found for forms, the last used ones of a bounded number of tasks.

    Safe to be used by several threads.
    """

    def __init__(self, max_tasks: int = _MAX_TASKS) -> None:
        self._lock = threading.Lock()
        # With the form itself, which is found again without a comparison.
        self._found: OrderedDict[Hashable, tuple[Hashable, T, int]] = OrderedDict()
        self._max_tasks = max_tasks
        self._num_tasks = 0

    def __len__(self) -> int:
        return len(self._found)

    def get(self, form: Hashable) -> T | None:
        """Return what was found for a form, or None."""
        with self._lock:
            entry = self._found.get(form)
            if entry is None:
                return None
            known, found, _ = entry
            self._found.move_to_end(known)
            return found

    def put(self, form: Hashable, found: T, num_tasks: int) -> None:
        """Remember what was found for a form of some tasks."""
        with self._lock:
            if form in self._found or num_tasks > self._max_tasks:
                return
            self._found[form] = form, found, num_tasks
            self._num_tasks += num_tasks
            while self._num_tasks > self._max_tasks:
                _, (_, _, dropped) = self._found.popitem(last=False)
                self._num_tasks -= dropped

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._found.clear()
            self._num_tasks = 0
