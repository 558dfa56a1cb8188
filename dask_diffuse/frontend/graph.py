"""HighLevelGraph -> Program."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import numpy as np

from dask_diffuse.dask_api import Blockwise, HighLevelGraph, Layer, MaterializedLayer
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.frontend.arguments import import_arg_step
from dask_diffuse.frontend.blockwise import BlockwiseImporter, Imported, layer_reads
from dask_diffuse.frontend.chunks import Blocks, annotated_blocks, normalize_chunks
from dask_diffuse.frontend.creation import import_range, is_range
from dask_diffuse.frontend.sources import (
    count_reads,
    describe_tasks,
    first_task,
    is_source,
    key_name,
    names_in_tasks,
    single_task_reads,
)
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.partition import PartitionTable, Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Origin, Store
from dask_diffuse.ir.task import (
    Access,
    Body,
    IndexTask,
    Opaque,
    Privilege,
    Reduction,
)
from dask_diffuse.options import Options

__all__ = ["import_graph"]

_REMEDIES = {
    Rule.UNKNOWN_DTYPE: "Say which dtype the layer before has, with dtype= or meta=",
    Rule.BLOCK_SHAPES: "Cut the operands alike with rechunk()",
    Rule.UNSUPPORTED_DTYPE: "Convert with astype(), to float64 for example",
}


def import_graph(
    hlg: HighLevelGraph, requested: Collection[str], *, options: Options
) -> Program:
    """Map the layers of a graph to index tasks over stores.

    Every layer that the requested blocks need becomes one task. Those that cannot be
    expressed become opaque tasks, with the reason. The cost follows the number of
    layers, not of blocks: symbolic layers are never made into tasks, and of lists of
    tasks one is looked at.

    Parameters
    ----------
    hlg
        As the user's program built it, before any optimization.
    requested
        Names of blocks, or whole keys of single tasks.
    options
        Of the hook.
    """
    return _Importer(hlg).run(requested)


class _Importer:
    """The program of one graph, while it is put together."""

    def __init__(self, hlg: HighLevelGraph) -> None:
        self._hlg = hlg
        self._table = PartitionTable()
        self._stores: dict[str, Store] = {}
        self._tasks: list[IndexTask] = []
        self._decisions: list[Decision] = []
        self._blocks: dict[str, Blocks] = {}
        self._blockwise = BlockwiseImporter(self._table, self._blocks)
        self._lengths: dict[int, tuple[object, tuple[int | None, ...]]] = {}
        self._reads: dict[str, list[str]] = {}
        self._shapes: dict[int, tuple[int | None, ...]] = {}
        self._names = _Names(hlg)

    def run(self, requested: Iterable[str]) -> Program:
        """Import what the requested blocks need."""
        wanted = sorted(requested, key=self._names.position)
        for name in self._order(wanted):
            self._import_layer(name, self._hlg.layers[name])
        return Program(
            self._stores,
            tuple(self._tasks),
            frozenset(wanted),
            tuple(self._decisions),
        )

    def _order(self, wanted: list[str]) -> list[str]:
        """Return the layers that are needed, each after those that it reads.

        With a stack of its own: programs make chains of thousands of layers.
        """
        provider = self._names.provider
        order: list[str] = []
        visited: set[str] = set()
        pending = [(provider(name), False) for name in reversed(wanted)]
        while pending:
            name, is_complete = pending.pop()
            if is_complete:
                order.append(name)
                continue
            if name in visited:
                continue
            visited.add(name)
            pending.append((name, True))
            reads = self._reads[name] = self._names.reads(name)
            for read in reversed(reads):
                source = provider(read)
                if source not in visited:
                    pending.append((source, False))
        return order

    def _import_layer(self, name: str, layer: Layer) -> None:
        origin = Origin(name, _label(name))
        try:
            if isinstance(layer, Blockwise):
                store = layer.output
                imported = self._blockwise.import_layer(layer)
            else:
                store = name
                imported = self._import_list(layer, name)
        except UnsupportedError as error:
            self._add_opaque(name, layer, origin, self._refusal(name, layer, error))
        else:
            self._add(store, layer, origin, imported)

    def _import_list(self, layer: Layer, name: str) -> Imported:
        if is_range(layer):
            return import_range(layer, name, self._annotated(layer), self._table)
        return import_arg_step(layer, name, self._table, self._blocks)

    def _add(
        self, store: str, layer: Layer, origin: Origin, imported: Imported
    ) -> None:
        table, layout, blocks = self._table, imported.layout, imported.blocks
        written = layout.space
        if imported.written is not written.chunks:
            written = table.tiling(imported.written, written.axes)
            if blocks.chunks is not None:
                blocks = Blocks(written.chunks, blocks.dtype)
        accesses = [
            Access(read, tiling, Privilege.READ)
            for read, tiling in zip(imported.reads, layout.reads, strict=True)
        ]
        for access in accesses:
            if access.store not in self._stores:
                self._add_made_store(access, origin)
        accesses.append(_written_access(store, written, imported.body))
        self._blocks[store] = blocks
        shape = self._shapes.get(id(blocks))
        if shape is None:
            # Blocks are kept, and so is what the id stands for.
            shape = self._shapes[id(blocks)] = blocks.shape
        self._stores[store] = Store(store, shape, blocks.dtype, origin)
        self._tasks.append(
            IndexTask(
                id=len(self._tasks),
                launch=layout.launch,
                accesses=tuple(accesses),
                body=imported.body,
                origin=origin,
                space=layout.space,
                scalars=imported.scalars,
                annotations=_annotations(layer),
            )
        )

    def _refusal(self, name: str, layer: Layer, error: UnsupportedError) -> Decision:
        rule, detail = Rule(error.rule), error.message
        if rule is Rule.MATERIALIZED:
            detail = describe_tasks(layer)
            if not self._reads[name]:
                rule = Rule.SOURCE
        return Decision(
            rule,
            accepted=False,
            subject=self._names.written(name)[0],
            detail=detail,
            remedy=error.remedy or _REMEDIES.get(rule, ""),
        )

    def _add_made_store(self, access: Access, origin: Origin) -> None:
        """Add a store that no layer makes, but the lowering."""
        assert isinstance(access.partition, Tiling)
        blocks = Blocks(access.partition.chunks, np.dtype(np.int64))
        self._blocks[access.store] = blocks
        self._stores[access.store] = Store(
            access.store, blocks.shape, blocks.dtype, origin
        )

    def _annotated(self, layer: Layer) -> Blocks:
        """Read what Dask noted about the blocks of a layer, as far as it can be."""
        numblocks = None
        if isinstance(layer, Blockwise):
            numblocks = [layer.dims[symbol] for symbol in layer.output_indices]
        annotated = annotated_blocks(layer.collection_annotations)
        return Blocks(
            normalize_chunks(annotated.chunks, numblocks, self._lengths),
            annotated.dtype,
            annotated.rule,
            annotated.detail,
        )

    def _add_opaque(
        self, name: str, layer: Layer, origin: Origin, decision: Decision
    ) -> None:
        blocks = self._annotated(layer)
        whole = self._table.replicated
        written = self._names.written(name)
        for store in written:
            self._blocks[store] = blocks
            self._stores[store] = Store(store, blocks.shape, blocks.dtype, origin)
        self._decisions.append(decision)
        accesses = [Access(read, whole, Privilege.READ) for read in self._reads[name]]
        accesses += [Access(store, whole, Privilege.WRITE) for store in written]
        self._tasks.append(
            IndexTask(
                id=len(self._tasks),
                launch=(),
                accesses=tuple(accesses),
                body=Opaque(decision, self._read_partly(name, layer)),
                origin=origin,
                annotations=_annotations(layer),
            )
        )

    def _read_partly(self, name: str, layer: Layer) -> tuple[str, ...]:
        """Return the names of which a layer reads some blocks only, as slices do."""
        most = count_reads(layer)
        if most is None:
            return ()
        # A difference along an axis of single steps leaves out one block of many.
        return tuple(
            read
            for read in self._reads[name]
            if most < 0.9 * (self._num_blocks(read) or 0)
        )

    def _num_blocks(self, store: str) -> int | None:
        blocks = self._blocks.get(store)
        if blocks is None or blocks.chunks is None:
            return None
        return math.prod(map(len, blocks.chunks))


def _reads_blocks(layer: Layer) -> bool:
    return isinstance(layer, Blockwise) and any(
        index is not None and source not in layer.io_deps
        for source, index in layer.indices
    )


def _annotations(layer: Layer) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(layer.annotations.items())) if layer.annotations else ()


def _label(name: str) -> str:
    """Return a readable name of a layer, without the token of Dask.

    Examples
    --------
    >>> _label("add-0123456789abcdef0123456789abcdef"), _label("my-array")
    ('add', 'my-array')
    """
    head, _, token = name.rpartition("-")
    return head if head and len(token) == 32 and token.isalnum() else name


class _Names:
    """Which layer makes the blocks of a name, and which names a layer reads."""

    def __init__(self, hlg: HighLevelGraph) -> None:
        self._hlg = hlg
        self._written: dict[str, list[str]] = {}
        self._providers: dict[str, str] = {}
        self._positions: dict[str, int] | None = None
        self._is_searched = False
        is_reliable = True
        for name, layer in hlg.layers.items():
            own = layer.output if isinstance(layer, Blockwise) else name
            self._written[name] = [own]
            self._providers.setdefault(own, name)
            if not hlg.dependencies.get(name) and _reads_blocks(layer):
                # Culling leaves a graph with empty dependencies.
                is_reliable = False
        for name, layer in hlg.layers.items():
            found = None if isinstance(layer, Blockwise) else first_task(layer)
            # Two layers may hold the same tasks; one of them is enough.
            if found is not None:
                own = key_name(found[0])
                if self._providers.setdefault(own, name) == name != own:
                    self._written[name].append(own)
        self._is_reliable = is_reliable

    def position(self, name: str) -> int:
        """Return where in the graph the layer of some blocks stands.

        Dask names the results of each `compute` anew. An order by names would make
        another program, and another kernel, of equal graphs.
        """
        if self._positions is None:
            self._positions = {n: i for i, n in enumerate(self._hlg.layers)}
        return self._positions.get(self._providers.get(name, name), -1)

    def written(self, layer: str) -> list[str]:
        """Return the names of blocks that a layer makes, as far as they matter."""
        return self._written[layer]

    def provider(self, name: str) -> str:
        """Return the layer that makes the blocks of a name."""
        found = self._providers.get(name)
        if found is None:
            self._search()
            found = self._providers.get(name)
        if found is None:
            raise UnsupportedError(f"no layer makes {name!r}", Rule.MATERIALIZED.value)
        return found

    def reads(self, name: str) -> list[str]:
        """Return the names that a layer reads, in order and once each."""
        layer = self._hlg.layers[name]
        if isinstance(layer, Blockwise):
            reads = [key_name(key) for key in layer_reads(layer)]
            if any(dep.produces_keys for dep in layer.io_deps.values()):
                reads += self._declared(name)
            return list(dict.fromkeys(reads))
        found = first_task(layer)
        if found is not None and isinstance(layer, MaterializedLayer):
            _, task = found
            if len(layer.mapping) == 1:
                names = single_task_reads(task)
                if names is not None:
                    return names
            if not self._is_reliable or (
                not self._hlg.dependencies.get(name) and not is_source(task)
            ):
                self._search()
                return names_in_tasks(
                    layer.mapping, self._providers, set(self._written[name])
                )
        return self._declared(name)

    def _declared(self, name: str) -> list[str]:
        """Return what a layer reads according to the dependencies of the graph."""
        return [
            read
            for needed in sorted(
                self._hlg.dependencies.get(name, ()), key=self.position
            )
            if needed in self._written and needed != name
            for read in self._written[needed]
        ]

    def _search(self) -> None:
        """Find names of blocks that are not the first of their layer."""
        if self._is_searched:
            return
        self._is_searched = True
        for name, layer in self._hlg.layers.items():
            if isinstance(layer, MaterializedLayer):
                for own in dict.fromkeys(map(key_name, layer.mapping)):
                    if own not in self._providers:
                        self._providers[own] = name
                        self._written[name].append(own)


def _written_access(store: str, written: Tiling, body: Body) -> Access:
    if isinstance(body, Reduction):
        # The last statistic is the one that gives the result its dtype.
        row = body.statistics[-1].reduction
        return Access(store, written, Privilege.REDUCE, row)
    return Access(store, written, Privilege.WRITE)
