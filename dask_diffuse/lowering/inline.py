"""Small blocks: when the first step of a reduction runs the kernel for its own blocks.

A task costs the scheduler some 100 microseconds, whatever it does. For blocks of a few
thousand elements that is far more than the kernel takes, so one task then runs it for
all the blocks that it is about to combine. And where there is but one block to combine,
one task will do for any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dask_diffuse.dask_api import (
    Blockwise,
    Key,
    Layer,
    MaterializedLayer,
    Task,
    TaskRef,
    blockwise_token,
)
from dask_diffuse.ir.partition import Chunks, Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Reduction
from dask_diffuse.lowering.groups import LoweredGroup
from dask_diffuse.lowering.places import is_block_key
from dask_diffuse.runtime.call import combine_kernel, run_kernel

__all__ = ["InlinedLayer", "combine_inlined", "may_inline"]

_FEWEST_TASKS = 64
"""So many tasks have to be left, for all threads and workers to have some."""

_MOST_BYTES = 1 << 20
"""All blocks that one task reads are in memory at once, and these may be so large."""


def may_inline(lowered: LoweredGroup, reader: Layer, program: Program) -> bool:
    """Whether the only reader of a fused layer should make its blocks itself.

    Parameters
    ----------
    lowered
        A group that makes one store.
    reader
        The layer that reads it.
    program
        Its program.
    """
    layer, group = lowered.layer, lowered.group
    body = program.tasks[group.results[0].task].body
    if type(reader) is not MaterializedLayer or not isinstance(body, Reduction):
        # Other readers might need a block more than once.
        return False
    if layer.annotations or reader.annotations:
        return False
    if len(layer) == len(reader):
        return True
    if len(reader) < _FEWEST_TASKS:
        return False
    blocks = -(-len(layer) // len(reader))
    nbytes = 0
    for access, param in zip(group.inputs, group.kernel.arrays, strict=True):
        if not isinstance(access.partition, Tiling):
            return False
        size = _largest_tile(access.partition.chunks)
        if size is None:
            return False
        nbytes += size * param.dtype.itemsize
    return blocks * nbytes <= _MOST_BYTES


def _largest_tile(chunks: Chunks) -> int | None:
    """Return how many elements the largest tile has, if that is known."""
    size = 1
    for lengths in chunks:
        known = [length for length in lengths if length is not None]
        if len(known) < len(lengths):
            return None
        size *= max(known, default=0)
    return size


class InlinedLayer:
    """Makes single tasks of a fused layer, without all the others.

    Parameters
    ----------
    layer
        Whose tasks call `run_kernel`.
    """

    def __init__(self, layer: Blockwise) -> None:
        self._layer = layer
        axis_of = {symbol: axis for axis, symbol in enumerate(layer.output_indices)}
        number_of = {blockwise_token(n): n for n in range(len(layer.indices))}
        self._arguments: list[tuple[Any, tuple[int | None, ...] | None]] = []
        for arg in layer.task.args:
            if not isinstance(arg, TaskRef):
                self._arguments.append((arg, None))
                continue
            source, index = layer.indices[number_of[arg.key]]
            if index is not None:
                lengths = layer.numblocks[source]
                index = tuple(
                    axis_of[symbol] if length > 1 else None
                    for symbol, length in zip(index, lengths, strict=True)
                )
            self._arguments.append((source, index))

    def arguments(self, coords: tuple[int, ...]) -> list[Any]:
        """Return the call and the blocks that the task of one block is given."""
        deps = self._layer.io_deps
        arguments = []
        for source, axes in self._arguments:
            if axes is None:
                arguments.append(source)
                continue
            index = tuple([0 if axis is None else coords[axis] for axis in axes])
            dep = deps.get(source)
            arguments.append(TaskRef((source, *index)) if dep is None else dep[index])
        return arguments

    def task(self, key: Key) -> Task:
        """Return the task that makes one block."""
        return Task(None, run_kernel, *self.arguments(key[1:]))


def combine_inlined(
    name: Key, task: tuple[Any, ...], inlined: Mapping[str, InlinedLayer]
) -> Task | None:
    """Return the step of a reduction as one flat task, if it can be one.

    Parameters
    ----------
    name
        Of the task.
    task
        As `dask.array.reductions` makes it: a function and blocks nested in lists.
    inlined
        The layers that are part of it.
    """
    if len(task) != 2 or type(task[1]) is not list:
        return None
    keys: list[Key] = []
    tree = _number(task[1], keys)
    layers = {key[0] if is_block_key(key) else None for key in keys}
    layer = inlined.get(layers.pop() or "") if len(layers) == 1 else None
    if layer is None:
        return None
    first, *others = [layer.arguments(key[1:]) for key in keys]
    blocks = [block for arguments in (first, *others) for block in arguments[1:]]
    return Task(name, combine_kernel, first[0], task[0], tree, *blocks)


def _number(blocks: list[Any], keys: list[Key]) -> list[Any]:
    """Return nested lists with the number of each key, which is added to `keys`."""
    tree: list[Any] = []
    for block in blocks:
        if type(block) is list:
            tree.append(_number(block, keys))
        else:
            tree.append(len(keys))
            keys.append(block)
    return tree
