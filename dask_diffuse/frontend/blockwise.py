"""Symbolic layers: one function, called on blocks that line up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from dask_diffuse.dask_api import (
    GETTERS,
    ArrayChunkShapeDep,
    Blockwise,
    BlockwiseDep,
    GraphNode,
    TaskRef,
    blockwise_token,
    create_blocks,
    execute_subgraph,
    load_store_chunk,
)
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.frontend.chunks import Blocks, ones, unknown_chunks
from dask_diffuse.frontend.functions import (
    call_function,
    check_known,
    is_simple_op,
    unwrap,
)
from dask_diffuse.frontend.layout import Layout, make_layout
from dask_diffuse.frontend.reduction import ChunkStep, chunk_step, is_chunk_function
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.partition import Chunks, PartitionTable
from dask_diffuse.ir.task import Elementwise, Partial, Reduction
from dask_diffuse.kernel.construct import FunctionBuilder, convert_literal
from dask_diffuse.kernel.function import ScalarFunction

__all__ = ["BlockwiseImporter", "Imported", "layer_reads"]

Axes = tuple[int, ...]
Scalars = tuple[np.generic, ...]


class Imported(NamedTuple):
    """A layer in terms of the IR.

    Parameters
    ----------
    body
        What each point computes.
    reads
        Names of the stores that it reads, one for each operand.
    layout
        How their blocks line up.
    scalars
        Literals.
    blocks
        What it makes.
    written
        How that is cut.
    """

    body: Elementwise | Reduction
    reads: tuple[str, ...]
    layout: Layout
    scalars: Scalars
    blocks: Blocks
    written: Chunks


class _Read(NamedTuple):
    """An argument that is a block: which operand it is, and its dtype."""

    number: int
    dtype: np.dtype


class _Call(NamedTuple):
    """A call of a function with nothing but blocks and literals, in order.

    Equal keys mean the same but for the names of the blocks and the values of literals.
    """

    key: tuple[Any, ...]
    names: tuple[str, ...]
    literals: list[Any]


class _Shape(NamedTuple):
    """An argument that is the shape of the block to be made."""


_SHAPE = _Shape()
_PREFIX = blockwise_token(0).removesuffix("0")


def layer_reads(layer: Blockwise) -> list[Any]:
    """Return the names and the single keys that tasks of a layer read, in order."""
    reads: list[Any] = []
    for source, index in layer.indices:
        if index is not None:
            if source not in layer.io_deps:
                reads.append(source)
        elif isinstance(source, TaskRef):
            reads.append(source.key)
        elif isinstance(source, GraphNode):
            reads.extend(source.dependencies)
    # Keys in keyword arguments; the others stand for the operands.
    for key in layer.task.dependencies:
        if type(key) is not str or not key.startswith(_PREFIX):
            reads += [key]
    return reads


class BlockwiseImporter:
    """Imports symbolic layers of one graph.

    What layers have in common is worked out once: programs call the same few functions
    on arrays that are cut in the same few ways.

    Parameters
    ----------
    table
        Of the program.
    blocks
        What is known of the stores that were imported so far, by name.
    """

    def __init__(self, table: PartitionTable, blocks: Mapping[str, Blocks]) -> None:
        self._table = table
        self._blocks = blocks
        self._functions: dict[Any, tuple[ScalarFunction, Scalars] | UnsupportedError]
        self._functions = {}
        self._steps: dict[Any, ChunkStep] = {}
        self._layouts: dict[Any, tuple[Layout, list[Chunks]]] = {}
        self._known: dict[Any, Imported] = {}
        self._literal = FunctionBuilder().literal

    def import_layer(self, layer: Blockwise) -> Imported:
        """Return what a layer does.

        Raises
        ------
        UnsupportedError
            If it has to stay a call of a Python function.
        """
        call = _plain_call(layer, self._blocks)
        if call is None:
            return self._import(layer)
        known = self._known.get(call.key)
        if known is not None:
            scalars = self._scalars(call.literals, known.scalars)
            return known._replace(reads=call.names, scalars=scalars)
        imported = self._import(layer)
        if is_simple_op(layer.task.func, len(layer.task.args)):
            self._known[call.key] = imported
        return imported

    def _scalars(self, literals: Sequence[Any], like: Scalars) -> Scalars:
        """Convert literals to the dtypes that those of an equal call have."""
        if not like:
            return like
        literal = self._literal
        return tuple(
            [
                convert_literal(literal(value), scalar.dtype)  # type: ignore[arg-type]
                for value, scalar in zip(literals, like, strict=True)
            ]
        )

    def _import(self, layer: Blockwise) -> Imported:
        _check_form(layer)
        function, args, kwargs = unwrap(
            layer.task.func, layer.task.args, layer.task.kwargs
        )
        if not (_moves_elements(function) or is_chunk_function(function)):
            check_known(function)
        operands = _Operands(layer, self._blocks)
        args = tuple([operands.argument(value) for value in args])
        kwargs = {name: operands.argument(value) for name, value in kwargs.items()}
        operands.check_used()
        if is_chunk_function(function):
            return self._reduction(layer, function, args, kwargs, operands)
        axes = _positions(function, args, kwargs, operands, len(layer.output_indices))
        operands.check(axes)
        function, args, kwargs = _scalar_form(function, args, kwargs)
        layout = self._layout(layer, operands, axes)
        _check_out(layer, function, args, layout)
        body, scalars = self._function(function, args, kwargs)
        return Imported(
            body=Elementwise(body, tuple(axes)),
            reads=tuple(operands.names),
            layout=layout,
            scalars=scalars,
            blocks=Blocks(layout.space.chunks, body.dtypes[0]),
            written=layout.space.chunks,
        )

    def _reduction(
        self,
        layer: Blockwise,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operands: _Operands,
    ) -> Imported:
        ndim = len(layer.output_indices)
        if len(args) != 1 or type(args[0]) is not _Read:
            raise UnsupportedError("the chunk step of a reduction has weights")
        axes: list[Axes] = [tuple(range(ndim))]
        operands.check(axes)
        dtype = args[0].dtype
        step = self._step(function, kwargs, dtype, ndim)
        layout = self._layout(layer, operands, axes)
        written = tuple(
            ones(len(lengths)) if axis in step.axes else lengths
            for axis, lengths in enumerate(layout.space.chunks)
        )
        body = Reduction(
            function=step.function,
            operands=tuple(axes),
            axes=step.axes,
            statistics=step.statistics,
            partial=step.partial,
            partial_dtype=step.partial_dtype,
        )
        blocks = Blocks(written, step.partial_dtype)
        if step.partial is not Partial.ARRAY:
            blocks = Blocks(
                None, None, Rule.UNSUPPORTED_BLOCKS, "its blocks are partial results"
            )
        return Imported(body, tuple(operands.names), layout, (), blocks, written)

    def _step(
        self, function: Any, kwargs: dict[str, Any], dtype: np.dtype, ndim: int
    ) -> ChunkStep:
        try:
            key = function, dtype, ndim, _keywords_key(kwargs)
            step = self._steps.get(key)
        except TypeError:
            raise UnsupportedError("an argument of the chunk step is unusual") from None
        if step is None:
            with _reading_call():
                step = chunk_step(function, kwargs, dtype, ndim)
            self._steps[key] = step
        return step

    def _layout(
        self, layer: Blockwise, operands: _Operands, axes: Sequence[Axes]
    ) -> Layout:
        ndim = len(layer.output_indices)
        chunks = operands.chunks
        key = ndim, tuple(map(id, chunks)), tuple(axes), operands.created
        known = self._layouts.get(key)
        if known is not None:
            return known[0]
        if operands.created is None:
            layout = make_layout(self._table, ndim, chunks, axes)
        else:
            # Blocks that are made span the loops, too, but nobody reads them.
            every = [*chunks, operands.created.chunks]
            layout = make_layout(self._table, ndim, every, [*axes, tuple(range(ndim))])
            layout = Layout(layout.launch, layout.space, layout.reads[:-1])
        # The key holds ids: what they stand for has to live as long.
        self._layouts[key] = layout, chunks
        return layout

    def _function(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ScalarFunction, Scalars]:
        try:
            key = function, tuple(map(_literal_key, args)), _keywords_key(kwargs)
            known = self._functions.get(key)
        except TypeError:
            return _write_out(function, args, kwargs)
        if known is None:
            try:
                known = _write_out(function, args, kwargs)
            except UnsupportedError as error:
                known = error
            self._functions[key] = known
        if isinstance(known, UnsupportedError):
            raise known
        return known


def _plain_call(layer: Blockwise, known: Mapping[str, Blocks]) -> _Call | None:
    """Return the call that tasks of a layer make, if there is nothing special to it."""
    task, indices = layer.task, layer.indices
    if (
        task.kwargs
        or layer.io_deps
        or layer.new_axes
        or layer.concatenate is not None
        or layer.output_blocks
        or len(task.args) != len(indices)
    ):
        return None
    key: list[Any] = [task.func, layer.output_indices]
    names: dict[tuple[str, tuple[str, ...]], int] = {}
    literals = []
    for number, (source, index) in enumerate(indices):
        arg = task.args[number]
        if type(arg) is not TaskRef or arg.key != blockwise_token(number):
            return None
        if index is None:
            if isinstance(source, GraphNode | TaskRef | np.ndarray):
                return None
            literals.append(source)
            key.append(type(source))
            continue
        blocks = known[source]
        position = names.setdefault((source, index), len(names))
        grid = tuple(layer.numblocks[source])
        key += (position, index, grid, id(blocks.chunks), id(blocks.dtype))
    try:
        hash(task.func)
    except TypeError:
        return None
    return _Call(tuple(key), tuple([name for name, _ in names]), literals)


class _Operands:
    """The operands of one layer, each block once."""

    def __init__(self, layer: Blockwise, blocks: Mapping[str, Blocks]) -> None:
        self._layer = layer
        self._known = blocks
        self._numbers: dict[Any, _Read] = {}
        self._position = {
            symbol: axis for axis, symbol in enumerate(layer.output_indices)
        }
        self.names: list[str] = []
        self.indices: list[tuple[str, ...]] = []
        self.chunks: list[Chunks] = []
        self.created: ArrayChunkShapeDep | None = None

    def argument(self, value: Any) -> Any:
        """Return an argument of the task: a block, a shape or a literal."""
        if not isinstance(value, GraphNode | TaskRef):
            return value
        if not isinstance(value, TaskRef):
            if value.dependencies:
                raise UnsupportedError("an argument is itself a computation")
            return value()
        key = value.key
        if type(key) is str and key.startswith(_PREFIX):
            source, index = self._layer.indices[int(key[len(_PREFIX) :])]
            if index is not None:
                return self._block(source, index)
            if not isinstance(source, GraphNode | TaskRef):
                return source
        raise UnsupportedError("an argument is a single value that is computed")

    def _block(self, name: str, index: tuple[str, ...]) -> Any:
        read = self._numbers.get((name, index))
        if read is not None:
            return read
        dep = self._layer.io_deps.get(name)
        if dep is not None:
            return self._dep(dep, index)
        known = self._known[name]
        if known.dtype is None:
            raise UnsupportedError(f"of {name!r} {known.detail}", known.rule.value)
        read = self._numbers[name, index] = _Read(len(self.names), known.dtype)
        self.names.append(name)
        self.indices.append(index)
        self.chunks.append(self._chunks(name, known, index))
        return read

    def _chunks(self, name: str, known: Blocks, index: tuple[str, ...]) -> Chunks:
        grid = tuple(self._layer.numblocks[name])
        chunks = known.chunks
        if chunks is None or tuple(map(len, chunks)) != grid:
            return unknown_chunks(grid)
        return chunks

    def _dep(self, dep: BlockwiseDep, index: tuple[str, ...]) -> _Shape:
        if type(dep) is not ArrayChunkShapeDep or index != self._layer.output_indices:
            kind = type(dep).__name__
            raise UnsupportedError(f"the function is told which block it gets ({kind})")
        self.created = dep
        return _SHAPE

    def check_used(self) -> None:
        """Refuse blocks that tasks depend on and do not use."""
        for source, index in self._layer.indices:
            is_block = index is not None and source not in self._layer.io_deps
            if is_block and (source, index) not in self._numbers:
                raise UnsupportedError(f"the function does not use {source!r}")

    def check(self, axes: Sequence[Axes]) -> None:
        """Refuse blocks that are picked along other axes than they are seen along."""
        position = self._position
        for index, expected in zip(self.indices, axes, strict=True):
            try:
                picked = tuple([position[symbol] for symbol in index])
            except KeyError:
                raise UnsupportedError(
                    "the function sees several blocks at a time", Rule.CONTRACTION.value
                ) from None
            if picked != expected:
                raise UnsupportedError(
                    "an operand is indexed along other axes than NumPy broadcasts it"
                )


def _check_form(layer: Blockwise) -> None:
    if layer.task.func in GETTERS:
        raise UnsupportedError("it loads its blocks", Rule.SOURCE.value)
    if layer.task.func is load_store_chunk:
        raise UnsupportedError("it stores its blocks", Rule.UNKNOWN_FUNCTION.value)
    if layer.new_axes:
        raise UnsupportedError("it makes new axes", Rule.NEW_AXES.value)
    if layer.output_blocks:
        raise UnsupportedError(
            "only some of its blocks are wanted", Rule.LAUNCH_DOMAIN.value
        )
    if layer.concatenate is not None:
        raise UnsupportedError(
            "the function sees several blocks at a time", Rule.CONTRACTION.value
        )


def _positions(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    operands: _Operands,
    ndim: int,
) -> list[Axes]:
    """Return the axis of the result that each dimension of each operand follows."""
    ranks = [len(index) for index in operands.indices]
    if max(ranks, default=0) > ndim:
        raise UnsupportedError("the function drops axes", Rule.CONTRACTION.value)
    permute = _permutation(function)
    if permute is not None:
        return [_permuted(permute, args, kwargs, ranks)]
    if _outer_ufunc(function) is not None:
        if len(ranks) != 2:
            raise UnsupportedError("'outer' of something else than two arrays")
        first, second = ranks
        if function is np.outer and ranks != [1, 1]:
            raise UnsupportedError("'outer' flattens its operands")
        if first + second != ndim:
            raise UnsupportedError("'outer' does not make these axes")
        return [tuple(range(first)), tuple(range(first, ndim))]
    return [tuple(range(ndim - rank, ndim)) for rank in ranks]


def _moves_elements(function: Any) -> bool:
    return _permutation(function) is not None or _outer_ufunc(function) is not None


def _permutation(function: Any) -> Callable[..., list[int]] | None:
    try:
        return _PERMUTATIONS.get(function)
    except TypeError:
        # Callables need not be hashable.
        return None


def _transpose(ndim: int, axes: Any = None) -> list[int]:
    return list(np.arange(ndim)[::-1] if axes is None else axes)


def _swapaxes(ndim: int, axis1: int, axis2: int) -> list[int]:
    order = list(range(ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return order


_PERMUTATIONS: dict[Any, Callable[..., list[int]]] = {
    np.transpose: _transpose,
    np.swapaxes: _swapaxes,
}


def _permuted(
    permute: Callable[..., list[int]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    ranks: list[int],
) -> Axes:
    if len(ranks) != 1 or type(args[0]) is not _Read:
        raise UnsupportedError("a transpose of something else than blocks")
    (ndim,) = ranks
    try:
        order = [axis % ndim for axis in permute(ndim, *args[1:], **kwargs)]
    except (TypeError, IndexError, ZeroDivisionError) as error:
        raise UnsupportedError(f"a transpose: {error}") from error
    axes = [0] * ndim
    for axis, dim in enumerate(order):
        axes[dim] = axis
    return tuple(axes)


def _outer_ufunc(function: Any) -> Any:
    """Return the ufunc whose outer product a function is, or None."""
    if function is np.outer:
        return np.multiply
    ufunc = getattr(function, "__self__", None)
    if type(ufunc) is np.ufunc and function.__name__ == "outer":
        return ufunc
    return None


def _scalar_form(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the call that is made for each element, now that axes are settled."""
    if _permutation(function) is not None:
        return _same, args[:1], {}
    ufunc = _outer_ufunc(function)
    return (function if ufunc is None else ufunc), args, kwargs


def _same() -> None:
    """Stand for functions that only move elements."""


def _check_out(
    layer: Blockwise, function: Any, args: tuple[Any, ...], layout: Layout
) -> None:
    """Refuse ``out=`` blocks that NumPy would have to broadcast: it raises."""
    if "elemwise_where_function" not in layer.task.kwargs or not args:
        return
    out = args[-1]
    if type(out) is _Read:
        read = layout.reads[out.number]
        if read.chunks != layout.space.chunks:
            raise UnsupportedError(
                "the blocks of out= are smaller than the result", Rule.MAY_RAISE.value
            )


@contextmanager
def _reading_call() -> Iterator[None]:
    """Turn errors about arguments into a refusal: NumPy may raise, or we misread."""
    try:
        yield
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise UnsupportedError(
            f"its call cannot be read: {type(error).__name__}: {error}"
        ) from error


def _write_out(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[ScalarFunction, Scalars]:
    builder = FunctionBuilder()

    def value(arg: Any) -> Any:
        return builder.input(*arg) if type(arg) is _Read else arg

    values = tuple(map(value, args))
    named = {name: value(arg) for name, arg in kwargs.items()}
    if function is _same:
        result = values[0]
    else:
        makes = function in (create_blocks, execute_subgraph)
        if any(arg is _SHAPE for arg in args) and not makes:
            raise UnsupportedError("the function is told the shape of its block")
        with _reading_call():
            result = call_function(builder, function, values, named)
    return builder.build([result]), builder.scalars


def _literal_key(arg: Any) -> Any:
    """Return what tells an argument from every other, as Python's equality does not."""
    if type(arg) is _Read or arg is None:
        return arg
    if isinstance(arg, float | complex | np.generic | np.ndarray):
        if isinstance(arg, np.ndarray) and arg.ndim:
            raise TypeError("arrays are no keys")
        return type(arg), repr(arg), str(getattr(arg, "dtype", ""))
    hash(arg)
    return type(arg), arg


def _keywords_key(kwargs: dict[str, Any]) -> Any:
    if not kwargs:
        return ()
    return tuple(sorted((name, _literal_key(value)) for name, value in kwargs.items()))
