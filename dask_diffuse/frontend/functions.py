"""Functions that Dask calls on blocks, written out in table ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from dask.utils import apply, funcname, partial_by_order

from dask_diffuse.dask_api import (
    Alias,
    Compose,
    DataNode,
    GraphNode,
    Task,
    TaskRef,
    array_chunk,
    create_blocks,
    curry,
    elemwise_where,
    enforce_dtype,
    execute_subgraph,
    isnull_block,
    pass_extra_kwargs,
    select_blocks,
    sqrt_block,
)
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ir.decision import Rule
from dask_diffuse.kernel.composites import apply_composite, find_composite, select
from dask_diffuse.kernel.construct import FunctionBuilder, Operand, Value
from dask_diffuse.ops.dtypes import canonical
from dask_diffuse.ops.table import ScalarOp, find_declined, find_op

__all__ = ["call_function", "check_known", "is_simple_op", "unwrap"]

_DEEPEST = 32
"""How many wrappers around a function we look through."""

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Function = Callable[..., Any]
_Wrapper = Callable[[FunctionBuilder, Args, Kwargs, int], Value]


def unwrap(function: Function, args: Args, kwargs: Kwargs) -> tuple[Any, Args, Kwargs]:
    """Return a call without the partial objects around its function.

    Examples
    --------
    >>> unwrap(partial(np.around, decimals=2), ("x",), {})[1:]
    (('x',), {'decimals': 2})
    """
    while isinstance(function, partial | curry):
        args = (*function.args, *args)
        kwargs = {**function.keywords, **kwargs}
        function = function.func
    return function, args, kwargs


def is_simple_op(function: Function, num_args: int) -> bool:
    """Whether a call is a row of the table, whatever the values of literals are."""
    if function is np.where:
        return num_args == 3
    op = find_op(function)
    # Powers of some literals are not powers.
    return op is not None and op.arity == num_args and op.name != "power"


def call_function(
    builder: FunctionBuilder,
    function: Function,
    args: Args,
    kwargs: Kwargs,
    *,
    depth: int = 0,
) -> Value:
    """Write out one call.

    Parameters
    ----------
    builder
        Of the function that grows.
    function
        As the task has it, wrappers included.
    args, kwargs
        A `Value` for the element of an array, anything else as it is.
    depth
        How many wrappers we are in.

    Raises
    ------
    UnsupportedError
        If it is not element-wise, or not known.
    """
    if depth > _DEEPEST:
        raise UnsupportedError("too many wrappers around a function")
    function, args, kwargs = unwrap(function, args, kwargs)
    wrapper = _find_wrapper(function)
    if wrapper is not None:
        return wrapper(builder, args, dict(kwargs), depth + 1)
    if isinstance(function, Compose):
        value = call_function(builder, function.first, args, kwargs, depth=depth + 1)
        for outer in function.funcs:
            value = call_function(builder, outer, (value,), {}, depth=depth + 1)
        return value
    op = find_op(function)
    if op is not None:
        return _call_op(builder, op, function, args, kwargs)
    composite = find_composite(function)
    if composite is not None:
        return apply_composite(composite, builder, args, kwargs)
    raise _unknown(function)


def check_known(function: Function) -> None:
    """Raise `UnsupportedError` if nothing is known of a function without partials."""
    if (
        _find_wrapper(function) is None
        and not isinstance(function, Compose)
        and find_op(function) is None
        and find_composite(function) is None
    ):
        raise _unknown(function)


def _find_wrapper(function: Function) -> _Wrapper | None:
    try:
        return _WRAPPERS.get(function)
    except TypeError:
        # Callables need not be hashable.
        return None


def _unknown(function: Function) -> UnsupportedError:
    declined = find_declined(function)
    if declined is not None:
        return UnsupportedError(declined, Rule.UNKNOWN_FUNCTION.value)
    return UnsupportedError(
        f"{funcname(function)!r} is not in the table of operations",
        Rule.UNKNOWN_FUNCTION.value,
        "Functions of dask.array and ufuncs of NumPy are known",
    )


def _call_op(
    builder: FunctionBuilder, op: ScalarOp, function: Function, args: Args, kw: Kwargs
) -> Value:
    if kw:
        names = ", ".join(sorted(kw))
        raise UnsupportedError(f"{op.name!r} is called with {names}")
    if len(args) != op.arity:
        raise UnsupportedError(f"{op.name!r} is called with {len(args)} operands")
    return builder.apply(op.name, *(operand(builder, value) for value in args))


def operand(builder: FunctionBuilder, value: Any) -> Operand:
    """Return an argument as operand: a literal, if it is none yet."""
    if type(value) is Value:
        return value
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        raise UnsupportedError(
            f"an argument is a {type(value).__name__}", Rule.UNSUPPORTED_BLOCKS.value
        )
    return builder.literal(value)


def _enforce_dtype(
    builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int
) -> Value:
    """Write out `dask.array.core._enforce_dtype`: a call, and perhaps a cast."""
    wanted = np.dtype(kwargs.pop("enforce_dtype"))
    function = kwargs.pop("enforce_dtype_function")
    value = call_function(builder, function, args, kwargs, depth=depth)
    if wanted in (value.dtype, object):
        return value
    return _cast_same_kind(builder, value, wanted)


def _cast_same_kind(builder: FunctionBuilder, value: Value, dtype: np.dtype) -> Value:
    if not np.can_cast(value.dtype, dtype, "same_kind"):
        raise UnsupportedError(
            f"a result of dtype {value.dtype} is to be {dtype}, for which NumPy raises",
            Rule.MAY_RAISE.value,
        )
    return builder.cast(value, canonical(dtype))


def _where_out(
    builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int
) -> Value:
    """Write out `dask.array.core._elemwise_handle_where`: a ufunc with where=."""
    function = kwargs.pop("elemwise_where_function")
    *operands, mask, out = args
    if not isinstance(function, np.ufunc):
        raise UnsupportedError(f"{funcname(function)!r} does not take where=")
    if type(out) is not Value:
        raise UnsupportedError("where= without out= leaves elements undefined")
    mask = builder.value(operand(builder, mask))
    if mask.dtype != np.dtype(bool):
        raise UnsupportedError("where= is not of dtype bool", Rule.MAY_RAISE.value)
    value = call_function(builder, function, tuple(operands), kwargs, depth=depth)
    value = _cast_same_kind(builder, value, out.dtype)
    return builder.apply("where", mask, value, out)


def _astype(builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int) -> Value:
    """Write out `dask.array.chunk.astype`."""
    if len(args) == 2:
        kwargs["astype_dtype"] = args[1]
    elif len(args) != 1:
        raise UnsupportedError("'astype' is called with too many arguments")
    dtype = canonical(np.dtype(kwargs.pop("astype_dtype")))
    casting = kwargs.pop("casting", "unsafe")
    for name in ("copy", "order", "subok"):
        # They are about memory, not about values.
        kwargs.pop(name, None)
    if kwargs:
        raise UnsupportedError(f"'astype' is called with {', '.join(sorted(kwargs))}")
    value = builder.value(operand(builder, args[0]))
    if not np.can_cast(value.dtype, dtype, casting):
        raise UnsupportedError(
            f"{value.dtype} to {dtype} is not a cast of kind {casting!r}",
            Rule.MAY_RAISE.value,
        )
    return builder.cast(value, dtype)


def _sqrt(builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int) -> Value:
    """Write out `dask.array.reductions._sqrt`, which knows masked numbers, too."""
    return call_function(builder, np.sqrt, args, kwargs, depth=depth)


def _isnull(builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int) -> Value:
    """Write out what `dask.array.isnull` calls for each block."""
    (value,) = args
    value = builder.value(operand(builder, value))
    if value.dtype.kind not in "fc":
        return builder.const(False, np.dtype(bool))
    return builder.apply("isnan", value)


def _select(builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int) -> Value:
    """Write out `dask.array.routines._select`."""
    return apply_composite(select, builder, args, kwargs)


def _apply(builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int) -> Value:
    """Write out `dask.utils.apply`, a call with its arguments in a list."""
    function, positional, *named = args
    if not isinstance(positional, list | tuple) or kwargs:
        raise UnsupportedError("'apply' is called without a list of arguments")
    by_name = dict(named[0]) if named and named[0] else {}
    return call_function(builder, function, tuple(positional), by_name, depth=depth)


def _subgraph(
    builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int
) -> Value:
    """Write out a task that Dask has fused before: a little graph of calls."""
    tasks, wanted, names, *blocks = args
    values: dict[Any, Any] = dict(zip(names, blocks, strict=True))
    pending = [wanted]
    while pending:
        key = pending[-1]
        if key in values:
            pending.pop()
            continue
        node = tasks[key]
        missing = [name for name in node.dependencies if name not in values]
        if missing:
            # In an order that does not depend on hashes.
            pending += sorted(missing, key=str)
            continue
        values[key] = _call_node(builder, node, values, depth)
    value = values[wanted]
    if not isinstance(value, Value):
        raise UnsupportedError("a fused task that computes nothing")
    return value


def _call_node(
    builder: FunctionBuilder, node: Any, values: dict[Any, Any], depth: int
) -> Any:
    """Return the value of a task within a task."""
    if isinstance(node, TaskRef):
        return values[node.key]
    if isinstance(node, Alias):
        return values[node.target]
    if isinstance(node, DataNode):
        return node.value
    if not isinstance(node, GraphNode):
        return node
    if type(node) is not Task or depth > _DEEPEST:
        raise UnsupportedError(f"a fused task holds a {type(node).__name__}")
    positional = tuple(_call_node(builder, arg, values, depth + 1) for arg in node.args)
    named = {
        name: _call_node(builder, arg, values, depth + 1)
        for name, arg in node.kwargs.items()
    }
    return call_function(builder, node.func, positional, named, depth=depth)


def _by_order(
    builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int
) -> Value:
    """Write out `dask.utils.partial_by_order`: arguments put in between others."""
    function = kwargs.pop("function")
    every = list(args)
    for position, value in kwargs.pop("other"):
        every.insert(position, value)
    return call_function(builder, function, tuple(every), kwargs, depth=depth)


def _told_where(
    builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int
) -> Value:
    """Refuse `dask.array.core._pass_extra_kwargs`."""
    raise UnsupportedError(
        "the function is told which block it gets", Rule.UNKNOWN_FUNCTION.value
    )


def _create(builder: FunctionBuilder, args: Args, kwargs: Kwargs, depth: int) -> Value:
    """Write out what `dask.array.ones` and its kin call for each block."""
    function = args[0]
    kwargs.pop("shape", None)
    meta = kwargs.pop("meta", ())
    if not isinstance(meta, tuple) and type(meta) is not np.ndarray:
        raise UnsupportedError(
            f"blocks are made like a {type(meta).__name__}",
            Rule.UNSUPPORTED_BLOCKS.value,
        )
    dtype = canonical(np.dtype(kwargs.pop("dtype", np.asarray(meta).dtype)))
    kwargs.pop("order", None)
    if function is np.full_like:
        fill = operand(builder, kwargs.pop("fill_value"))
        value = _fill(builder, fill, dtype)
    elif function in _CONSTANTS:
        value = builder.const(_CONSTANTS[function], dtype)
    else:
        raise UnsupportedError(
            f"the elements of {funcname(function)!r} are undefined", Rule.SOURCE.value
        )
    if kwargs:
        names = ", ".join(sorted(kwargs))
        raise UnsupportedError(f"{funcname(function)!r} is called with {names}")
    return value


def _fill(builder: FunctionBuilder, fill: Operand, dtype: np.dtype) -> Value:
    try:
        return builder.cast(fill, dtype)
    except ValueError as error:
        # NaN is no integer.
        raise UnsupportedError(str(error), Rule.MAY_RAISE.value) from error


_CONSTANTS: dict[Function, int] = {np.ones_like: 1, np.zeros_like: 0}

_WRAPPERS: dict[Function, _Wrapper] = {
    enforce_dtype: _enforce_dtype,
    elemwise_where: _where_out,
    array_chunk.astype: _astype,
    sqrt_block: _sqrt,
    select_blocks: _select,
    isnull_block: _isnull,
    apply: _apply,
    create_blocks: _create,
    execute_subgraph: _subgraph,
    partial_by_order: _by_order,
    pass_extra_kwargs: _told_where,
}
