"""Short constructors for programs, as the frontend would make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.partition import Chunks, PartitionTable, Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Origin, Store
from dask_diffuse.ir.task import (
    Access,
    Body,
    Elementwise,
    IndexTask,
    Opaque,
    Partial,
    Privilege,
    Reduction,
    Statistic,
)
from dask_diffuse.kernel.construct import FunctionBuilder, Operand, Value

F8 = np.dtype("f8")
GRID: Chunks = ((4, 4), (3, 3, 3))

Compute = Callable[..., Operand]


class ProgramBuilder:
    """Makes a program, one layer at a time; names of stores are returned."""

    def __init__(self, chunks: Chunks = GRID) -> None:
        self.table = PartitionTable()
        self.chunks = chunks
        self.stores: dict[str, Store] = {}
        self.tasks: list[IndexTask] = []
        self.written: dict[str, Chunks] = {}

    def store(self, name: str, chunks: Chunks, dtype: np.dtype | None = F8) -> str:
        shape = tuple(
            None if None in lengths else sum(lengths)  # type: ignore[arg-type]
            for lengths in chunks
        )
        self.stores[name] = Store(name, shape, dtype, Origin(name, name.split("-")[0]))
        self.written[name] = chunks
        return name

    def source(self, name: str, chunks: Chunks | None = None, dtype=F8) -> str:
        """A store that nobody writes."""
        return self.store(name, self.chunks if chunks is None else chunks, dtype)

    def add(
        self,
        launch: tuple[int, ...],
        accesses: Sequence[Access],
        body: Body,
        name: str,
        space: Tiling | None = None,
        scalars: Sequence[np.generic] = (),
        annotations: Sequence[tuple[str, object]] = (),
    ) -> IndexTask:
        task = IndexTask(
            len(self.tasks),
            launch,
            tuple(accesses),
            body,
            Origin(name, name.split("-")[0]),
            space,
            tuple(scalars),
            tuple(annotations),
        )
        self.tasks.append(task)
        return task

    def reads(
        self, sources: Sequence[str], axes: dict[str, tuple[int, ...]], chunks: Chunks
    ) -> tuple[list[Access], tuple[tuple[int, ...], ...]]:
        accesses, operands = [], []
        for source in sources:
            own = self.written[source]
            loops = axes.get(
                source, tuple(range(len(chunks)))[len(chunks) - len(own) :]
            )
            launch_axes = tuple(
                None if len(lengths) == 1 and len(chunks[loop]) > 1 else loop
                for lengths, loop in zip(own, loops, strict=True)
            )
            partition = self.table.tiling(own, launch_axes)
            accesses.append(Access(source, partition, Privilege.READ))
            operands.append(loops)
        return accesses, tuple(operands)

    def map(
        self,
        name: str,
        compute: Compute,
        *sources: str,
        chunks: Chunks | None = None,
        axes: dict[str, tuple[int, ...]] | None = None,
        annotations: Sequence[tuple[str, object]] = (),
    ) -> str:
        """An elementwise task; `compute` takes a builder and a value per source."""
        chunks = self.chunks if chunks is None else chunks
        reads, operands = self.reads(sources, axes or {}, chunks)
        builder = FunctionBuilder()
        result = compute(builder, *self._inputs(builder, sources))
        function = builder.build([builder.value(result)])
        space = self.table.tiling(chunks, tuple(range(len(chunks))))
        self.store(name, chunks, function.dtypes[0])
        self.add(
            tuple(map(len, chunks)),
            [*reads, Access(name, space, Privilege.WRITE)],
            Elementwise(function, operands),
            name,
            space,
            builder.scalars,
            annotations,
        )
        return name

    def op(self, name: str, op: str, *operands: str | float, **keywords) -> str:
        """One op on stores and literals."""
        sources = [operand for operand in operands if isinstance(operand, str)]

        def compute(builder: FunctionBuilder, *values: Value) -> Operand:
            given = iter(values)
            return builder.apply(
                op,
                *(
                    next(given) if isinstance(o, str) else builder.literal(o)
                    for o in operands
                ),
            )

        return self.map(name, compute, *sources, **keywords)

    def full(self, name: str, value: float, chunks: Chunks | None = None) -> str:
        return self.map(name, lambda b: b.literal(np.float64(value)), chunks=chunks)

    def reduce(
        self,
        name: str,
        kind: str,
        source: str,
        axes: tuple[int, ...] = (0,),
        dtype: np.dtype = F8,
        partial: Partial = Partial.ARRAY,
    ) -> str:
        """The chunk step of a reduction."""
        chunks = self.written[source]
        reads, operands = self.reads([source], {}, chunks)
        builder = FunctionBuilder()
        values = self._inputs(builder, [source])
        space = self.table.tiling(chunks, tuple(range(len(chunks))))
        partials = tuple(
            (1,) * len(lengths) if axis in axes else lengths
            for axis, lengths in enumerate(chunks)
        )
        written = self.table.tiling(partials, tuple(range(len(chunks))))
        self.store(name, partials, dtype)
        self.add(
            tuple(map(len, chunks)),
            [*reads, Access(name, written, Privilege.REDUCE, kind)],
            Reduction(
                builder.build(values),
                operands,
                axes,
                (Statistic(kind, (0,), dtype),),
                partial,
                dtype,
            ),
            name,
            space,
        )
        return name

    def opaque(
        self,
        name: str,
        *sources: str,
        chunks: Chunks | None = None,
        partly: Sequence[str] = (),
        **keywords,
    ) -> str:
        """A task that we cannot look into; of some sources it needs some blocks."""
        chunks = self.chunks if chunks is None else chunks
        whole = self.table.replicated
        self.store(name, chunks)
        decision = Decision(Rule.UNKNOWN_FUNCTION, False, name)
        self.add(
            (),
            [
                *(Access(source, whole, Privilege.READ) for source in sources),
                Access(name, whole, Privilege.WRITE),
            ],
            Opaque(decision, tuple(partly)),
            name,
            **keywords,
        )
        return name

    def program(self, *requested: str) -> Program:
        return Program(self.stores, tuple(self.tasks), frozenset(requested))

    def _inputs(self, builder: FunctionBuilder, sources: Sequence[str]) -> list[Value]:
        dtypes = [self.stores[source].dtype for source in sources]
        return [
            builder.input(number, dtype or F8) for number, dtype in enumerate(dtypes)
        ]
