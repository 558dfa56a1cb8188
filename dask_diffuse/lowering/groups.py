"""One fused group: the arguments of its tasks, its kernel call and its layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from dask_diffuse.dask_api import (
    ArrayChunkShapeDep,
    Blockwise,
    DataNode,
    HighLevelGraph,
    Key,
    Layer,
    MaterializedLayer,
    Task,
    TaskRef,
    blockwise_token,
)
from dask_diffuse.frontend.creation import is_range
from dask_diffuse.fusion.plan import FusionGroup, KernelResult
from dask_diffuse.ir.partition import Chunks, Domain, Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import (
    Access,
    Elementwise,
    IndexTask,
    Opaque,
    Partial,
    Reduction,
)
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel, Statement
from dask_diffuse.lowering.annotations import UnmergeableError, merge_annotations
from dask_diffuse.lowering.arguments import Arguments
from dask_diffuse.lowering.names import content_key, group_label, scalar_text
from dask_diffuse.lowering.places import LoweringError, Place
from dask_diffuse.lowering.steps import (
    arg_chunk_step,
    blockwise_step,
    is_arg_chunk,
    produces_data,
    range_step,
)
from dask_diffuse.ops.reductions import REDUCTIONS
from dask_diffuse.options import Options
from dask_diffuse.runtime.call import KernelCall, run_kernel
from dask_diffuse.runtime.parts import ArgRef, Binding, Guard, Output, Step, StepRef

__all__ = ["LoweredGroup", "lower_group"]

_FEW_POINTS = 4
"""Up to this many tasks carry their kernel call themselves."""

_FORMS = {
    Partial.ARRAY: "array",
    Partial.MEAN: "mean",
    Partial.MOMENTS: "moments",
    Partial.ARG: "arg",
}


@dataclass(frozen=True, slots=True)
class LoweredGroup:
    """The layers of one group.

    Parameters
    ----------
    name, layer
        The fused layer.
    call_key, call_layer
        The layer that holds the kernel call, if the tasks share one.
    places
        For each store that the group makes, where its blocks are.
    reads
        Names of the blocks that the tasks read, as the fused graph has them.
    keys
        Single keys that the tasks need.
    group
        What was lowered.
    """

    name: str
    layer: Blockwise
    call_key: str | None
    call_layer: MaterializedLayer | None
    places: dict[str, Place]
    reads: tuple[str, ...]
    keys: tuple[Key, ...]
    group: FusionGroup


def lower_group(
    group: FusionGroup,
    program: Program,
    hlg: HighLevelGraph,
    places: Mapping[str, Place],
    options: Options,
) -> LoweredGroup:
    """Make the symbolic layer of a group.

    Parameters
    ----------
    group
        What to lower.
    program
        Its program.
    hlg
        The graph that the program was imported from.
    places
        Where earlier groups left their stores.
    options
        To be handed to the kernels.

    Raises
    ------
    LoweringError
        If the host's layers are not as the plan takes them to be.
    """
    builder = _GroupBuilder(group, program, hlg, places)
    steps = builder.steps()
    guards = builder.guards()
    shape = builder.binding(guards)
    outputs = builder.outputs()
    key = builder.content_key(options)
    call = KernelCall(
        key=key,
        kernel=group.kernel,
        scalars=builder.scalars,
        guards=guards,
        shape=shape,
        outputs=outputs,
        steps=steps,
        options=options,
    )
    return _layers(builder, call)


class _GroupBuilder:
    """What is known about a group while its call is put together."""

    def __init__(
        self,
        group: FusionGroup,
        program: Program,
        hlg: HighLevelGraph,
        places: Mapping[str, Place],
    ) -> None:
        self.group = group
        self.program = program
        self.places = places
        self.tasks = [program.tasks[number] for number in group.tasks]
        self.layers = [hlg.layers[task.origin.layer] for task in self.tasks]
        self.launch, self.space = _common_space(self.tasks)
        self.axes = tuple(range(len(self.launch)))
        self.arguments = Arguments(self.launch)
        self.step_of: dict[str, int] = {}
        self.offset_of: dict[str, int] = {}
        self.made: dict[str, int] = {}

    def steps(self) -> tuple[Step, ...]:
        """Return the original calls, in order."""
        return tuple(
            self._step(number, task, layer)
            for number, (task, layer) in enumerate(
                zip(self.tasks, self.layers, strict=True)
            )
        )

    def _step(self, number: int, task: IndexTask, layer: Layer) -> Step:
        store = task.writes[0].store
        if isinstance(layer, Blockwise):
            if layer.output_blocks:
                raise LoweringError(f"layer {store!r} lacks some of its blocks")
            step = blockwise_step(layer, self.axes, self.arguments, self._block)
        elif is_arg_chunk(layer):
            step, self.offset_of[store] = arg_chunk_step(
                layer, store, self._chunks(), self.axes, self.arguments, self._block
            )
        elif is_range(layer):
            made = task.reads[0].store
            step, self.made[made] = range_step(
                layer, made, self._chunks(), self.arguments
            )
        else:
            raise LoweringError(f"layer {store!r} is a list of tasks")
        self.step_of[store] = number
        return step

    def _block(
        self, name: str, axes: tuple[int, ...], numblocks: tuple[int, ...]
    ) -> ArgRef | StepRef:
        if name in self.step_of:
            return StepRef(self.step_of[name])
        return self._argument(name, axes, numblocks)

    def _argument(
        self, name: str, axes: tuple[int, ...], numblocks: tuple[int, ...]
    ) -> ArgRef:
        if name in self.made:
            return ArgRef(self.made[name], 0)
        place = self.places.get(name)
        if place is None:
            return ArgRef(self.arguments.add_blocks(name, axes, numblocks))
        slot = self.arguments.add_blocks(place.name, axes, place.numblocks)
        return ArgRef(slot, place.item)

    def _chunks(self) -> tuple[tuple[int, ...], ...]:
        """Return the tile lengths of the loops, all known."""
        chunks = self.space.chunks
        if any(length is None for lengths in chunks for length in lengths):
            raise LoweringError("positions need known chunks")
        return chunks  # type: ignore[return-value]

    def guards(self) -> tuple[Guard, ...]:
        """Say what the kernel expects of its arrays."""
        return tuple(
            self._guard(access, param)
            for access, param in zip(
                self.group.inputs, self.group.kernel.arrays, strict=True
            )
        )

    def _guard(self, access: Access, param: ArrayParam) -> Guard:
        chunks = _chunks_of(access, self.program)
        numblocks = tuple(map(len, chunks))
        return Guard(
            source=self._argument(access.store, param.axes, numblocks),
            dtype=param.dtype,
            ndim=len(param.axes),
            broadcast=tuple(
                dim
                for dim, (lengths, loop) in enumerate(
                    zip(chunks, param.axes, strict=True)
                )
                if _is_repeated(lengths, self.space.chunks[loop])
            ),
        )

    def binding(self, guards: tuple[Guard, ...]) -> Binding | None:
        """Make the shape of the block an argument, unless the arrays tell it."""
        spanned = {
            loop
            for guard, param in zip(guards, self.group.kernel.arrays, strict=True)
            for dim, loop in enumerate(param.axes)
            if dim not in guard.broadcast
        }
        if len(spanned) == len(self.axes) and self.arguments.covers_launch:
            return None
        for slot, (source, index) in enumerate(self.arguments.indices):
            dep = self.arguments.io_deps.get(source) if index is not None else None
            if isinstance(dep, ArrayChunkShapeDep) and dep.chunks == self.space.chunks:
                return Binding(slot)
        chunks = tuple(
            tuple(math.nan if length is None else length for length in lengths)
            for lengths in self.space.chunks
        )
        name = f"shape-{content_key([self.group.results[0].store])}"
        dep = ArrayChunkShapeDep(chunks)
        return Binding(self.arguments.add_dep(name, dep, self.axes))

    def outputs(self) -> tuple[Output, ...]:
        """Say how each block is assembled."""
        positions = _result_positions(self.group.kernel)
        return tuple(
            self._output(
                result, [p for number in result.statements for p in positions[number]]
            )
            for result in self.group.results
        )

    def _output(self, result: KernelResult, positions: list[int]) -> Output:
        body = self.program.tasks[result.task].body
        step = self.step_of[result.store]
        match body:
            case Elementwise():
                statement = self.group.kernel.statements[result.statements[0]]
                if not isinstance(statement, Assign) or statement.axes != self.axes:
                    raise LoweringError(f"{result.store!r} does not follow the loops")
                dtype = body.function.dtypes[0]
                return Output("array", tuple(positions), step, (), dtype)
            case Reduction():
                return Output(
                    form=_form(body),
                    results=tuple(positions),
                    step=step,
                    axes=body.axes,
                    dtype=body.partial_dtype,
                    offset=self.offset_of.get(result.store),
                )
            case Opaque():
                raise LoweringError(f"{result.store!r} has no kernel")
            case _:
                assert_never(body)

    @property
    def scalars(self) -> tuple[np.generic, ...]:
        """The literals of the program that the kernel takes."""
        tasks = self.program.tasks
        return tuple(
            tasks[number].scalars[position] for number, position in self.group.scalars
        )

    def content_key(self, options: Options) -> str:
        """Return a key for everything that the fused tasks do.

        The names of the layers are tokens of what these layers do.
        """
        kernel = self.group.kernel
        return content_key(
            (
                repr(options),
                *(task.writes[0].store for task in self.tasks),
                "results",
                *(result.store for result in self.group.results),
                "arguments",
                *(f"{source}{index}" for source, index in self.arguments.indices),
                "kernel",
                *(f"{i.op}{i.dtype.str}" for i in kernel.function.instructions),
                *map(scalar_text, self.scalars),
            )
        )


def _common_space(tasks: list[IndexTask]) -> tuple[Domain, Tiling]:
    first = tasks[0]
    if first.space is None:
        raise LoweringError("a task of a group has no loops")
    axes = tuple(
        loop if axis is None else axis for loop, axis in enumerate(first.space.axes)
    )
    if axes != tuple(range(len(first.launch))):
        raise LoweringError(f"loops {axes} do not follow the domain {first.launch}")
    return first.launch, first.space


def _chunks_of(access: Access, program: Program) -> Chunks:
    if isinstance(access.partition, Tiling):
        return access.partition.chunks
    return tuple((length,) for length in program.stores[access.store].shape)


def _is_repeated(lengths: tuple[int | None, ...], loop: tuple[int | None, ...]) -> bool:
    """Whether tiles of these lengths are repeated along a loop."""
    return lengths is not loop and lengths != loop and set(lengths) == {1}


def _result_positions(kernel: Kernel) -> list[tuple[int, ...]]:
    """For each statement, the positions of its results in the flat list of a kernel."""
    positions = []
    start = 0
    for statement in kernel.statements:
        count = _num_results(statement)
        positions.append(tuple(range(start, start + count)))
        start += count
    return positions


def _num_results(statement: Statement) -> int:
    if isinstance(statement, Assign):
        return 1
    return REDUCTIONS[statement.reduction].num_results


def _form(body: Reduction) -> str:
    form = _FORMS[body.partial]
    skips_nan = {
        Partial.MEAN: len(body.statistics) > 1,
        Partial.MOMENTS: len(body.statistics[0].values) > 1,
    }
    return f"nan{form}" if skips_nan.get(body.partial, False) else form


def _layers(builder: _GroupBuilder, call: KernelCall) -> LoweredGroup:
    group, arguments = builder.group, builder.arguments
    label = group_label(task.origin.label for task in builder.tasks)
    is_carrier = len(group.results) > 1
    name = f"{label}-{call.key}" if is_carrier else group.results[0].store
    refs = [TaskRef(blockwise_token(n)) for n in range(len(arguments))]
    call_key = call_layer = None
    carried: KernelCall | TaskRef = call
    if math.prod(builder.launch) > _FEW_POINTS:
        # Tasks are pickled one by one: all of them refer to one copy of the call.
        call_key = f"kernel-{label}-{call.key}"
        call_layer = MaterializedLayer({call_key: DataNode(call_key, call)})
        call_layer.annotations = None
        carried = TaskRef(blockwise_token(arguments.add_key(call_key)))
    layer = Blockwise(
        output=name,
        output_indices=tuple(blockwise_token(axis, ".") for axis in builder.axes),
        task=Task(
            name,
            run_kernel,
            carried,
            *refs,
            _data_producer=any(map(produces_data, builder.layers)),
        ),
        indices=arguments.indices,
        numblocks=arguments.numblocks,
        io_deps=arguments.io_deps,
    )
    try:
        layer.annotations = merge_annotations(la.annotations for la in builder.layers)
    except UnmergeableError as error:
        raise LoweringError(str(error)) from error
    return LoweredGroup(
        name=name,
        layer=layer,
        call_key=call_key,
        call_layer=call_layer,
        places={
            result.store: Place(name, item if is_carrier else None, builder.launch)
            for item, result in enumerate(group.results)
        },
        reads=tuple(arguments.names),
        keys=tuple(arguments.keys),
        group=group,
    )
