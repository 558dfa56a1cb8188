"""What is worth a kernel of its own: a group has to beat NumPy, not just match it."""

from __future__ import annotations

import math

from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import (
    Elementwise,
    IndexTask,
    Opaque,
    Privilege,
    Reduction,
)
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.ops.table import OPS, Cost

__all__ = [
    "is_cheap",
    "is_cheap_constant",
    "is_one_number",
    "is_slow_in_numpy",
    "is_small",
    "num_bytes",
    "num_values",
    "repeating_cost",
]

_MANY_OPS = 3
"""A function of NumPy that takes as many ops goes over memory several times."""

_CLIPPING = frozenset({"less", "greater", "where", "minimum", "maximum"})
"""NumPy clips in one pass, however many ops it takes to write out."""

_FEW_POINTS = 16
"""With more of them, what a kernel spares each point adds up."""

_VECTOR_FUNCTION = 7.0
"""Cheap operations that take as long as one of the functions that NumPy has vectorized:
about a nanosecond, as long as it takes to write and read eight bytes."""

_FREE = frozenset({"input", "scalar", "const", "index"})

_ONE_PASS = frozenset({"sum", "min", "max", "fmin", "fmax", "any", "all"})
"""Reductions that NumPy does in one vectorized pass, if it need not convert."""


def num_values(task: IndexTask) -> int:
    """Return how many scalar values a task computes for each element."""
    if isinstance(task.body, Opaque):
        return 0
    return len(task.body.function.instructions)


def is_slow_in_numpy(task: IndexTask) -> bool:
    """Whether a kernel for this task alone beats what NumPy does for it."""
    match task.body:
        case Elementwise(function=function):
            return _is_slow(function)
        case Reduction() as body:
            return _is_slow_reduction(body)
    return False


def is_cheap_constant(task: IndexTask) -> bool:
    """Whether a task reads nothing and computes little: it may be done repeatedly."""
    return not task.reads and is_cheap(task)


def is_cheap(task: IndexTask) -> bool:
    """Whether a task is made of operations of a few instructions of the processor."""
    return isinstance(task.body, Elementwise) and not any(
        map(_is_dear, task.body.function.instructions)
    )


def repeating_cost(task: IndexTask) -> float:
    """Return what it takes to compute an element again, in cheap operations.

    Infinite for what is no element-wise task, or calls a function for each element.
    """
    if not isinstance(task.body, Elementwise):
        return math.inf
    cost = 0.0
    for line in task.body.function.instructions:
        if line.op in _FREE:
            continue
        if not _is_dear(line):
            cost += 1
        elif OPS[line.op].slow_in_numpy:
            return math.inf
        else:
            cost += _VECTOR_FUNCTION
    return cost


def is_one_number(task: IndexTask) -> bool:
    """Whether all elements that a task makes are alike: it takes no memory in Dask."""
    return (
        isinstance(task.body, Elementwise)
        and not task.reads
        and not any(line.op == "index" for line in task.body.function.instructions)
    )


def num_bytes(program: Program, task: IndexTask) -> int | None:
    """Return the size of the largest store that a task sees; None if not known."""
    largest = 0
    for access in task.accesses:
        store = program.stores[access.store]
        if store.dtype is None:
            # Partial results are not larger than what they come from.
            if access.privilege is Privilege.READ:
                return None
            continue
        length = 1
        for n in store.shape:
            if n is None:
                return None
            length *= n
        largest = max(largest, length * store.dtype.itemsize)
    return largest


def is_small(program: Program, task: IndexTask, min_bytes: int) -> bool:
    """Whether a task with a kernel has few points and sees only small stores."""
    if not min_bytes or isinstance(task.body, Opaque):
        return False
    if math.prod(task.launch) > _FEW_POINTS:
        return False
    size = num_bytes(program, task)
    return size is not None and size < min_bytes


def _is_slow(function: ScalarFunction) -> bool:
    ops = [line for line in function.instructions if line.op not in _FREE]
    if any(line.op in OPS and OPS[line.op].slow_in_numpy for line in ops):
        return True
    names = [line.op for line in ops if line.op != "cast"]
    return len(names) >= _MANY_OPS and not _CLIPPING.issuperset(names)


def _is_slow_reduction(body: Reduction) -> bool:
    instructions = body.function.instructions
    if any(line.op not in _FREE for line in instructions):
        return True
    if any(row.reduction not in _ONE_PASS for row in body.statistics):
        return True
    # NumPy converts small pieces one after another where it adds up in another dtype.
    values = body.function.dtypes
    return any(row.dtype != values[row.values[0]] for row in body.statistics)


def _is_dear(line: Instruction) -> bool:
    return line.op in OPS and OPS[line.op].cost is not Cost.CHEAP
