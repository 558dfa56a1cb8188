"""Readers of fused tasks: they take one block of several, or make it themselves."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

from dask_diffuse.dask_api import (
    Alias,
    Blockwise,
    GraphNode,
    Key,
    MaterializedLayer,
    Task,
    TaskRef,
    blockwise_token,
)
from dask_diffuse.lowering.inline import InlinedLayer, combine_inlined
from dask_diffuse.lowering.places import Place, is_block_key

__all__ = ["SelectingTasks", "selecting_copy", "selecting_layer"]


class SelectingTasks(Mapping[Key, Any]):
    """The tasks of a layer, with some blocks replaced by what makes them.

    Rewritten when they are read, which the scheduler does once: the hook need not look
    at each of them.

    Parameters
    ----------
    tasks
        As the host's graph holds them: graph nodes, legacy tuples or keys.
    places
        For each store that carriers make, where its blocks are.
    inlined
        Fused layers whose tasks become part of those that read them.
    """

    def __init__(
        self,
        tasks: Mapping[Key, Any],
        places: Mapping[str, Place],
        inlined: Mapping[str, Blockwise],
    ) -> None:
        self._tasks = tasks
        self._places = dict(places)
        self._inlined = {name: InlinedLayer(la) for name, la in inlined.items()}

    @property
    def inlines(self) -> bool:
        """Whether tasks of other layers become part of these."""
        return bool(self._inlined)

    @property
    def original(self) -> Mapping[Key, Any]:
        """The tasks as the host's graph holds them."""
        return self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._tasks)

    def __contains__(self, key: object) -> bool:
        return key in self._tasks

    def __getitem__(self, key: Key) -> Any:
        task = self._tasks[key]
        if isinstance(task, Alias):
            return self._select(task.target, key) or task
        if isinstance(task, GraphNode):
            return self._substitute(task)
        if self._inlined and type(task) is tuple:
            combined = combine_inlined(key, task, self._inlined)
            if combined is not None:
                return combined
        return self._select(task, key) or self._legacy(task)

    def _select(self, key: Key, name: Key | None) -> Task | None:
        """Return what makes a block from what the new graph has, unless it has it."""
        if not is_block_key(key):
            return None
        layer = self._inlined.get(key[0])
        if layer is not None:
            return layer.task(key)
        place = self._places.get(key[0])
        if place is None:
            return None
        carrier = TaskRef((place.name, *key[1:]))
        return Task(name, operator.getitem, carrier, place.item)

    def _substitute(self, task: GraphNode) -> GraphNode:
        chosen = {
            key: selection
            for key in task.dependencies
            if (selection := self._select(key, None)) is not None
        }
        return task.substitute(chosen) if chosen else task

    def _legacy(self, value: Any) -> Any:
        selection = self._select(value, None)
        if selection is not None:
            return selection
        if isinstance(value, GraphNode):
            return self._substitute(value)
        if type(value) is tuple or type(value) is list:
            return type(value)(self._legacy(element) for element in value)
        if type(value) is dict:
            return {name: self._legacy(element) for name, element in value.items()}
        return value


def selecting_copy(
    layer: MaterializedLayer,
    places: Mapping[str, Place],
    inlined: Mapping[str, Blockwise],
) -> MaterializedLayer:
    """Return a list of tasks that makes blocks of some stores itself.

    Parameters
    ----------
    layer, places, inlined
        See `SelectingTasks`.
    """
    copy = MaterializedLayer(SelectingTasks(layer.mapping, places, inlined))
    copy.annotations = layer.annotations
    copy.collection_annotations = layer.collection_annotations
    return copy


def selecting_layer(name: str, place: Place) -> Blockwise:
    """Return a layer whose blocks, called `name`, are elements of a carrier."""
    index = tuple(blockwise_token(axis, ".") for axis in range(len(place.numblocks)))
    first = TaskRef(blockwise_token(0))
    return Blockwise(
        output=name,
        output_indices=index,
        task=Task(name, operator.getitem, first, place.item),
        indices=[(place.name, index)],
        numblocks={place.name: place.numblocks},
    )
