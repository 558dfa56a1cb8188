"""Lists of tasks: what they read, and what one of them tells about the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dask.utils import funcname

from dask_diffuse.dask_api import (
    Alias,
    GraphNode,
    Key,
    Layer,
    MaterializedLayer,
    Task,
    TaskRef,
    finalize,
)

__all__ = [
    "count_reads",
    "describe_tasks",
    "first_task",
    "is_source",
    "key_name",
    "names_in_tasks",
    "single_task_reads",
]


def key_name(key: Key) -> str:
    """Return the name of a key: its first element, or the key itself."""
    return str(key[0] if type(key) is tuple and key else key)


def first_task(layer: Layer) -> tuple[Key, Any] | None:
    """Return one task of a list of tasks, which mostly stands for all of them."""
    if not isinstance(layer, MaterializedLayer):
        # Other layers make all their tasks before they show one.
        return None
    return next(iter(layer.mapping.items()), None)


def single_task_reads(task: Any) -> list[str] | None:
    """Return the names that the task of a layer of one task reads.

    None if it is no graph node. The final concatenation of an array reads the blocks of
    that array and nothing else: one of them tells.
    """
    if not isinstance(task, GraphNode):
        return None
    if isinstance(task, Task) and task.func is finalize and task.args:
        leaf = _first_leaf(task.args[0])
        if leaf is not None:
            return [key_name(leaf)]
    return list(dict.fromkeys(map(key_name, sorted(task.dependencies, key=str))))


def count_reads(layer: Layer) -> int | None:
    """Return how many blocks a list of tasks reads at most, going by its first task.

    None if that cannot be told. Slices read as many as they have; what combines blocks
    reads all of them.
    """
    found = first_task(layer)
    if found is None or not isinstance(layer, MaterializedLayer):
        return None
    _, task = found
    if isinstance(task, Task) and task.func is finalize:
        return None
    if isinstance(task, Alias):
        num_reads = 1
    elif isinstance(task, GraphNode):
        num_reads = len(task.dependencies)
    else:
        num_reads = sum(1 for _ in _keys(task))
    return num_reads * len(layer.mapping)


def _first_leaf(nested: Any) -> Key | None:
    while True:
        if isinstance(nested, TaskRef):
            return nested.key
        args = getattr(nested, "args", nested)
        if not isinstance(args, list | tuple) or not args:
            return None
        nested = args[0]


def describe_tasks(layer: Layer) -> str:
    """Say what the tasks of a list do, going by one of them."""
    found = first_task(layer)
    if found is None:
        return f"its class is {type(layer).__name__}"
    _, task = found
    if isinstance(task, Task):
        if task.func is finalize:
            return "it puts the blocks of the result together"
        return f"it is a list of tasks that call {funcname(task.func)!r}"
    if type(task) is tuple and task and callable(task[0]):
        if len(task) == 2 and type(task[1]) is list:
            return "it combines the results of blocks"
        return f"it is a list of tasks that call {funcname(task[0])!r}"
    if isinstance(task, Alias) or _has_keys(task):
        return "it gives blocks of other layers a name"
    return "it holds blocks"


def is_source(task: Any) -> bool:
    """Whether a task needs no other."""
    if isinstance(task, GraphNode):
        return not task.dependencies
    return not _has_keys(task)


def _has_keys(value: Any) -> bool:
    if type(value) is tuple and value and type(value[0]) is str:
        return True
    if type(value) is tuple or type(value) is list:
        return any(map(_has_keys, value))
    return isinstance(value, GraphNode) and bool(value.dependencies)


def names_in_tasks(
    mapping: Mapping[Key, Any], known: Collection[str], own: Collection[str]
) -> list[str]:
    """Return all names that tasks read, in order, by going through all of them.

    What the layer has itself does not count. After `dask.optimize` of two collections,
    the layer of each holds the tasks of both: each would seem to read the other.

    Parameters
    ----------
    mapping
        The tasks.
    known
        Names that there are.
    own
        Names that the layer itself makes.
    """
    found: dict[str, None] = {}
    for task in mapping.values():
        for key in _keys(task):
            name = key_name(key)
            if name in known and name not in own and not _has(mapping, key):
                found[name] = None
    return list(found)


def _has(mapping: Mapping[Key, Any], key: Key) -> bool:
    try:
        return key in mapping
    except TypeError:
        # A literal that looks like a key, with a list inside.
        return False


def _keys(value: Any) -> Iterator[Key]:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, GraphNode):
            yield from value.dependencies
        elif type(value) is str:
            yield value
        elif type(value) is tuple or type(value) is list:
            if value and type(value) is tuple and type(value[0]) is str:
                yield value
            pending.extend(value)
        elif type(value) is dict:
            pending.extend(value.values())
