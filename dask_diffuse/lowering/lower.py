"""FusionPlan -> HighLevelGraph."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dask_diffuse.dask_api import Blockwise, HighLevelGraph, Layer, MaterializedLayer
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import IndexTask
from dask_diffuse.lowering.groups import LoweredGroup, lower_group
from dask_diffuse.lowering.inline import may_inline
from dask_diffuse.lowering.places import LoweringError, Place, key_name
from dask_diffuse.lowering.select import selecting_copy, selecting_layer
from dask_diffuse.options import Options

__all__ = ["LoweredGraph", "lower"]

logger = logging.getLogger(__name__)

_HEAVY_REST = 4 << 20
"""Bytes of a tuple that take longer to move, or to keep, than a task takes."""


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A graph with fused layers.

    Parameters
    ----------
    graph
        Layers that nobody needs are gone; layer dependencies are right.
    fused
        Names of the layers whose tasks do nothing but run kernels.
    own
        Names of all layers that are not the host's: those above, and the ones that
        take blocks out of a carrier.
    """

    graph: HighLevelGraph
    fused: frozenset[str]
    own: frozenset[str]


def lower(
    plan: FusionPlan,
    hlg: HighLevelGraph,
    requested: Collection[str],
    *,
    options: Options,
) -> LoweredGraph:
    """Put a plan back into layers of the host.

    A group becomes one symbolic layer. If it makes one store, the layer bears the name
    of that store, and its readers need not know::

        mul-1, add-2 (reads mul-1)     ->     add-2

    If such a store is read by the steps of a reduction alone, and its blocks are many
    and small, these steps run the kernel themselves.

    If it makes several, a carrier returns tuples. Fused readers and lists of tasks
    take their blocks from them; for others, for requested blocks, and where that would
    keep much else alive, a layer with the old name does::

        add-1, mul-2 (reads add-1)     ->     add-mul-3, add-1 = add-mul-3[0], ...

    All other layers are the same objects as before. No symbolic layer is made into
    tasks.

    Parameters
    ----------
    plan
        What to fuse.
    hlg
        The graph that its program was imported from.
    requested
        Names of the blocks that must exist in the end.
    options
        To be handed to the kernels.
    """
    lowered = _lower_groups(plan, hlg, options)
    return _Assembly(plan.program, hlg, lowered).assemble(requested)


def _lower_groups(
    plan: FusionPlan, hlg: HighLevelGraph, options: Options
) -> list[LoweredGroup]:
    places: dict[str, Place] = {}
    lowered = []
    for group in plan.groups:
        try:
            layers = lower_group(group, plan.program, hlg, places, options)
        except LoweringError as error:
            if options.strict:
                raise
            logger.info("group %r is not fused: %s", group.kernel.label, error)
            continue
        lowered.append(layers)
        places.update(layers.places)
    return lowered


class _Assembly:
    """The new graph, built from what is requested back to the sources."""

    def __init__(
        self, program: Program, hlg: HighLevelGraph, lowered: list[LoweredGroup]
    ) -> None:
        self._program = program
        self._hlg = hlg
        self._layers: dict[str, Layer] = {}
        self._dependencies: dict[str, set[str]] = {}
        self._fused = {group.name: group for group in lowered}
        self._calls = {
            group.call_key: group.call_layer
            for group in lowered
            if group.call_key is not None and group.call_layer is not None
        }
        self._places = {
            store: place for group in lowered for store, place in group.places.items()
        }
        self._apart = frozenset(self._worth_a_task(lowered))
        self._inlined: dict[str, LoweredGroup] = {}
        self._tasks_of: dict[str, list[IndexTask]] = {}
        for task in program.tasks:
            self._tasks_of.setdefault(task.origin.layer, []).append(task)

    def assemble(self, requested: Iterable[str]) -> LoweredGraph:
        """Make the layers that the requested blocks need."""
        self._inlined = self._choose_inlined(frozenset(requested))
        pending = [self._provider(name) for name in sorted(requested)]
        while pending:
            name = pending.pop()
            if name not in self._layers:
                layer, needed = self._make(name)
                self._layers[name] = layer
                self._dependencies[name] = needed
                pending.extend(sorted(needed))
        return LoweredGraph(
            HighLevelGraph(self._layers, self._dependencies),
            fused=frozenset(self._fused.keys() & self._layers.keys()),
            own=frozenset((self._fused.keys() | self._places) & self._layers.keys()),
        )

    def _choose_inlined(self, requested: frozenset[str]) -> dict[str, LoweredGroup]:
        inlined = {}
        for name, group in self._fused.items():
            readers = self._program.readers.get(name, ())
            if len(readers) != 1 or name in requested:
                continue
            reader = self._program.tasks[readers[0]]
            layer = self._hlg.layers[reader.origin.layer]
            if may_inline(group, layer, self._program):
                inlined[name] = group
        return inlined

    def _worth_a_task(self, groups: list[LoweredGroup]) -> Iterator[str]:
        """Yield the stores whose blocks get tasks of their own beside the carrier.

        Who reads a block out of a tuple keeps the whole tuple alive, and moves all of
        it to another worker. If the rest of it is heavy, a task costs less.
        """
        for group in groups:
            nbytes = {
                store: self._block_bytes(store, place)
                for store, place in group.places.items()
                if place.item is not None
            }
            total = sum(nbytes.values())
            for store, own in nbytes.items():
                if total - own >= _HEAVY_REST:
                    yield store

    def _block_bytes(self, name: str, place: Place) -> float:
        """Return the bytes of a block, on average; 0 if that is not known."""
        store = self._program.stores[name]
        if store.dtype is None or None in store.shape:
            return 0
        lengths = [length for length in store.shape if length is not None]
        nbytes = math.prod(lengths) * store.dtype.itemsize
        return nbytes / max(math.prod(place.numblocks), 1)

    def _provider(self, name: str) -> str:
        """Return the layer of the new graph whose keys have this name."""
        if name in self._places or name in self._fused or name in self._calls:
            return name
        writer = self._program.writers.get(name)
        if writer is not None:
            return self._program.tasks[writer].origin.layer
        if name in self._program.stores:
            return self._program.stores[name].origin.layer
        if name in self._hlg.layers:
            return name
        raise LoweringError(f"no layer makes {name!r}")

    def _make(self, name: str) -> tuple[Layer, set[str]]:
        """Make the layer of this name, and say which layers it needs."""
        if name in self._fused:
            return self._fused_layer(self._fused[name])
        if name in self._calls:
            return self._calls[name], set()
        if name in self._places:
            place = self._places[name]
            layer = selecting_layer(name, place)
            layer.annotations = self._fused[place.name].layer.annotations
            layer.collection_annotations = self._collection_annotations(name)
            return layer, {place.name}
        return self._untouched_layer(name)

    def _fused_layer(self, group: LoweredGroup) -> tuple[Layer, set[str]]:
        # A carrier's tuples are no array that anybody has seen before.
        group.layer.collection_annotations = (
            self._collection_annotations(group.name)
            if group.name in group.places
            else None
        )
        names = (*group.reads, *map(key_name, group.keys))
        return group.layer, {self._provider(name) for name in names}

    def _collection_annotations(self, store: str) -> dict[str, Any] | None:
        task = self._program.tasks[self._program.writers[store]]
        annotations = self._hlg.layers[task.origin.layer].collection_annotations
        return None if annotations is None else dict(annotations)

    def _untouched_layer(self, name: str) -> tuple[Layer, set[str]]:
        layer = self._hlg.layers[name]
        carried: dict[str, Place] = {}
        inlined: dict[str, Blockwise] = {}
        needed: set[str] = set()
        for store in self._reads(name):
            place = self._places.get(store)
            is_list = type(layer) is MaterializedLayer
            if store in self._inlined:
                group = self._inlined[store]
                inlined[store] = group.layer
                needed |= self._fused_layer(group)[1]
            elif (
                place is not None
                and place.item is not None
                and is_list
                and store not in self._apart
            ):
                carried[store] = place
                needed.add(place.name)
            else:
                needed.add(self._provider(store))
        if carried or inlined:
            layer = selecting_copy(layer, carried, inlined)
        return layer, needed

    def _reads(self, layer: str) -> list[str]:
        tasks = self._tasks_of.get(layer)
        if tasks is not None:
            # What the lowering makes itself bears the layer that asks for it.
            stores = self._program.stores
            return [
                access.store
                for task in tasks
                for access in task.reads
                if stores[access.store].origin.layer != layer
            ]
        return [
            access.store
            for needed in self._hlg.dependencies[layer]
            for task in self._tasks_of.get(needed, ())
            for access in task.writes
        ]
