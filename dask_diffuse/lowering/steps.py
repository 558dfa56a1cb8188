"""Fallback steps: the calls that the host's own layers would have made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask_diffuse.dask_api import (
    Alias,
    Blockwise,
    GraphNode,
    Layer,
    MaterializedLayer,
    Task,
    TaskRef,
    blockwise_token,
)
from dask_diffuse.lowering.arguments import Arguments
from dask_diffuse.lowering.offsets import ArgOffsets, BlockStarts
from dask_diffuse.lowering.places import LoweringError, is_block_key
from dask_diffuse.runtime.fallback import make_range
from dask_diffuse.runtime.parts import ArgRef, Step, StepRef

__all__ = [
    "BlockSource",
    "arg_chunk_step",
    "blockwise_step",
    "is_arg_chunk",
    "produces_data",
    "range_step",
]

BlockSource = Callable[[str, tuple[int, ...], tuple[int, ...]], ArgRef | StepRef]
"""Finds the value of a block: its name, the launch axes of its dims, its block grid."""


def blockwise_step(
    layer: Blockwise, axes: tuple[int, ...], arguments: Arguments, blocks: BlockSource
) -> Step:
    """Return the call that each task of a symbolic layer makes.

    Parameters
    ----------
    layer
        As the host's graph holds it.
    axes
        The launch axis of each dimension of its output.
    arguments
        Of the fused task; what the call needs from outside is added.
    blocks
        Finds the blocks of other stores.
    """
    axis_of = dict(zip(layer.output_indices, axes, strict=True))
    values: dict[str, Any] = {}
    for number, (source, index) in enumerate(layer.indices):
        token = blockwise_token(number)
        if index is None:
            values[token] = _literal(source, arguments)
            continue
        if not axis_of.keys() >= set(index):
            raise LoweringError(f"layer {layer.output!r} sees several blocks at a time")
        source_axes = tuple(axis_of[symbol] for symbol in index)
        if source in layer.io_deps:
            dep = layer.io_deps[source]
            values[token] = ArgRef(arguments.add_dep(source, dep, source_axes))
        else:
            values[token] = blocks(source, source_axes, tuple(layer.numblocks[source]))
    task = layer.task
    return Step(
        task.func,
        tuple(_argument(value, values, arguments) for value in task.args),
        tuple(
            (name, _argument(value, values, arguments))
            for name, value in task.kwargs.items()
        ),
    )


def _argument(value: Any, values: dict[str, Any], arguments: Arguments) -> Any:
    if isinstance(value, TaskRef) and value.key in values:
        return values[value.key]
    return _literal(value, arguments)


def _literal(value: Any, arguments: Arguments) -> Any:
    if isinstance(value, TaskRef):
        return ArgRef(arguments.add_key(value.key))
    if isinstance(value, Alias):
        return ArgRef(arguments.add_key(value.target))
    if not isinstance(value, GraphNode):
        return value
    if value.dependencies:
        raise LoweringError(f"a literal is itself a computation: {value!r}")
    return value()


def is_arg_chunk(layer: Layer) -> bool:
    """Whether this is the chunk step of an arg-reduction, a layer of legacy tuples."""
    if not isinstance(layer, MaterializedLayer) or not len(layer):
        return False
    task = layer[next(iter(layer))]
    return (
        type(task) is tuple
        and len(task) == 4
        and callable(task[0])
        and is_block_key(task[1])
    )


def arg_chunk_step(
    layer: MaterializedLayer,
    name: str,
    chunks: tuple[tuple[int, ...], ...],
    axes: tuple[int, ...],
    arguments: Arguments,
    blocks: BlockSource,
) -> tuple[Step, int]:
    """Return the call of each task of an arg-reduction, and the slot of offsets.

    Parameters
    ----------
    layer
        As `dask.array.reductions.arg_reduction` makes it.
    name
        Of the blocks that it makes.
    chunks
        Of the array that is searched.
    axes
        The launch axis of each dimension.
    arguments
        Of the fused task; the offset is added.
    blocks
        Finds the blocks of other stores.
    """
    function, key, searched, offset = layer[next(iter(layer))]
    grid = tuple(map(len, chunks))
    dep = ArgOffsets(chunks, None if isinstance(offset, tuple) else searched[0])
    slot = arguments.add_dep(f"offset-{name}", dep, axes)
    step = Step(function, (blocks(key[0], axes, grid), searched, ArgRef(slot)))
    return step, slot


def range_step(
    layer: MaterializedLayer,
    name: str,
    chunks: tuple[tuple[int, ...], ...],
    arguments: Arguments,
) -> tuple[Step, int]:
    """Return the call of each task of a range, and the slot of what blocks start with.

    Parameters
    ----------
    layer
        As `dask.array.arange` makes it.
    name
        Of the blocks that hold the first numbers.
    chunks
        Of the range.
    arguments
        Of the fused task; the starts are added.
    """
    task = layer.mapping[next(iter(layer.mapping))]
    start, _, step, _, dtype = task.args
    starts = BlockStarts(chunks, int(start), int(step))
    slot = arguments.add_dep(name, starts, (0,))
    call = (task.func, start, step, dtype, ArgRef(slot, 1), ArgRef(slot, 2))
    return Step(make_range, call), slot


def produces_data(layer: Layer) -> bool:
    """Whether tasks of this layer load data, which the scheduler wants to know."""
    return (
        isinstance(layer, Blockwise)
        and isinstance(layer.task, Task)
        and layer.task.data_producer
    )
