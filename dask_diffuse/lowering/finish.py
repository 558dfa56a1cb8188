"""What Dask's own optimizer still has to do once groups are fused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import dask

from dask_diffuse.dask_api import (
    Blockwise,
    DataNode,
    GraphNode,
    HighLevelGraph,
    Key,
    Layer,
    MaterializedLayer,
    Task,
    convert_legacy_graph,
    finalize,
    flatten_keys,
    fuse_linear_task_spec,
    optimize_blockwise,
    optimize_slices,
)
from dask_diffuse.lowering.lower import LoweredGraph
from dask_diffuse.lowering.places import is_block_key, key_name
from dask_diffuse.lowering.select import SelectingTasks
from dask_diffuse.runtime.call import KernelCall

__all__ = ["Requested", "finish"]

_TASKS_PER_GAIN = 2
"""The passes take about half as long, for each task, as the scheduler does."""


@dataclass(frozen=True, slots=True)
class Requested:
    """The keys that the caller wants.

    Parameters
    ----------
    keys
        Flat, in the caller's order.
    counts
        How many of them have each name.
    """

    keys: tuple[Key, ...]
    counts: Mapping[str, int]

    @classmethod
    def of(cls, keys: object) -> Requested:
        """Read nested lists of keys.

        Examples
        --------
        >>> Requested.of([[("x", 0), ("x", 1)], "total"]).counts
        {'x': 2, 'total': 1}
        """
        flat = tuple(flatten_keys(keys))
        if set(map(type, flat)) == {tuple}:
            return cls(flat, dict(Counter(map(itemgetter(0), flat))))
        return cls(flat, dict(Counter(map(key_name, flat))))

    @property
    def names(self) -> frozenset[str]:
        """Names of the blocks that are wanted."""
        return frozenset(self.counts)


def finish(lowered: LoweredGraph, requested: Requested) -> Mapping[Key, Any]:
    """Run the passes of Dask that this graph still needs.

    Symbolic layers, data, combine steps of reductions and the final concatenation need
    none: the cost of the hook then does not depend on the number of blocks. Other
    symbolic layers go through Dask's Blockwise fusion. Other lists of tasks, and
    blocks that nobody wants, go through culling and linear fusion as they always do.

    Parameters
    ----------
    lowered
        A graph with fused layers.
    requested
        What is wanted of it.
    """
    graph = lowered.graph
    layers = graph.layers
    if any(_may_be_merged(name, lowered) for name in layers):
        graph = optimize_blockwise(
            graph, keys=[(n,) for n in _kept(lowered, requested)]
        )
    if not _has_lists_to_fuse(layers.values()) and not _is_partial(graph, requested):
        return graph  # type: ignore[no-any-return]
    return _fuse_tasks(graph, requested, lowered.fused)


def _may_be_merged(name: str, lowered: LoweredGraph) -> bool:
    """Whether this layer and a symbolic one that it reads could be one.

    Fused layers are merged already, but for what loads or makes their blocks.
    """
    graph = lowered.graph
    if not isinstance(graph.layers[name], Blockwise):
        return False
    read = [n for n in graph.dependencies[name] if n not in lowered.own]
    if name not in lowered.own:
        read = list(graph.dependencies[name])
    return any(isinstance(graph.layers[other], Blockwise) for other in read)


def _kept(lowered: LoweredGraph, requested: Requested) -> set[str]:
    """Names of layers that Dask must not merge into their readers.

    It may merge a fused layer into one that reads each of its blocks once. Elsewhere
    it would run the kernel again for each reader.
    """
    kept = set(requested.counts)
    dependents = lowered.graph.dependents
    for name in lowered.fused:
        blocks = len(lowered.graph.layers[name])
        for reader in dependents.get(name, ()):
            if reader in lowered.own or len(lowered.graph.layers[reader]) != blocks:
                kept.add(name)
    return kept


def _is_partial(graph: HighLevelGraph, requested: Requested) -> bool:
    """Whether some blocks of a requested store are not wanted."""
    for name, count in requested.counts.items():
        layer = graph.layers.get(name)
        if isinstance(layer, Blockwise) and count < len(layer):
            return True
    return False


def _has_lists_to_fuse(layers: Collection[Layer]) -> bool:
    """Whether a pass over all tasks would gain more than it takes."""
    chained = 0
    for layer in layers:
        if isinstance(layer, Blockwise):
            continue
        gain = _gain_of_fusing(layer)
        if gain is None:
            return True
        chained += gain
    return chained > sum(map(len, layers)) // _TASKS_PER_GAIN


def _gain_of_fusing(layer: Layer) -> int | None:
    """Return how many tasks of a list could go, or None if any number may.

    The tasks of one layer are alike, so one of them tells.
    """
    if not isinstance(layer, MaterializedLayer) or not len(layer):
        return None
    tasks = layer.mapping
    if isinstance(tasks, SelectingTasks):
        if tasks.inlines:
            return 0
        # Its own form of the task would do as well, but is not to be made now.
        tasks = tasks.original
    task = tasks[next(iter(tasks))]
    if isinstance(task, Task):
        return 0 if task.func is finalize else None
    if isinstance(task, GraphNode):
        return 0 if isinstance(task, DataNode) else None
    if type(task) is tuple and task and callable(task[0]):
        if len(task) != 2 or type(task[1]) is not list:
            return None
        return 0 if _folds(task[1]) else len(layer)
    return None if is_block_key(task) else 0


def _folds(blocks: list[Any]) -> bool:
    """Whether a combine step of `dask.array.reductions` sees more than one block.

    If it does not, it could be one task with what makes the block. But that is a small
    array, and a task saved is all there is to gain.
    """
    while len(blocks) == 1 and type(blocks[0]) is list:
        blocks = blocks[0]
    return len(blocks) > 1


def _fuse_tasks(
    graph: HighLevelGraph, requested: Requested, fused: frozenset[str]
) -> Mapping[Key, Any]:
    keys = set(requested.keys)
    graph = graph.cull(keys)
    is_annotated = any(layer.annotations for layer in graph.layers.values())
    if is_annotated or dask.config.get("optimization.fuse.active", None) is False:
        # A plain dict has no place for annotations.
        return graph  # type: ignore[no-any-return]
    tasks = convert_legacy_graph(graph.to_dict())
    tasks = _fuse_sources(tasks, keys, fused)
    tasks = fuse_linear_task_spec(tasks, keys=keys)
    return optimize_slices(tasks)  # type: ignore[no-any-return]


def _fuse_sources(
    tasks: dict[Key, GraphNode], keys: set[Key], fused: frozenset[str]
) -> dict[Key, GraphNode]:
    """Fuse each run of a kernel with the chain of tasks that makes its only block.

    Linear fusion would, but for the kernel call, on which all runs depend.
    """
    readers = Counter(key for task in tasks.values() for key in task.dependencies)
    result = dict(tasks)
    for key, task in tasks.items():
        if key_name(key) not in fused:
            continue
        chain = [task]
        while (source := _only_source(chain[-1], tasks)) is not None:
            if readers[source.key] != 1 or source.key in keys:
                break
            chain.append(source)
            del result[source.key]
        if len(chain) > 1:
            result[key] = Task.fuse(*reversed(chain), key=key)
    return result


def _only_source(task: GraphNode, tasks: Mapping[Key, GraphNode]) -> Task | None:
    """Return the task that makes the only block of a task, if there is one."""
    sources = [tasks.get(key) for key in task.dependencies]
    blocks = [source for source in sources if not _is_call(source)]
    if len(blocks) != 1 or not isinstance(blocks[0], Task) or blocks[0].block_fusion:
        return None
    return blocks[0]


def _is_call(node: GraphNode | None) -> bool:
    return isinstance(node, DataNode) and isinstance(node.value, KernelCall)
