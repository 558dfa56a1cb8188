"""Chunk steps of reductions: what is accumulated over the axes of one block."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_diffuse.dask_api import (
    arg_chunk,
    array_chunk,
    chunk_max,
    chunk_min,
    mean_chunk,
    moment_chunk,
    nanmax_skip,
    nanmin_skip,
    nannumel,
    numel,
)
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.task import Partial, Statistic
from dask_diffuse.kernel.construct import FunctionBuilder, Value
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.ops.dtypes import canonical, promote

__all__ = ["ChunkStep", "arg_step", "chunk_step", "is_chunk_function"]

_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class ChunkStep:
    """A `dask_diffuse.ir.task.Reduction` of one operand, but for its operands.

    Parameters
    ----------
    function, axes, statistics, partial, partial_dtype
        See there.
    """

    function: ScalarFunction
    axes: tuple[int, ...]
    statistics: tuple[Statistic, ...]
    partial: Partial
    partial_dtype: np.dtype


Kwargs = dict[str, Any]
Make = Callable[[FunctionBuilder, Value, Kwargs], tuple[list[Value], list[Statistic]]]


def is_chunk_function(function: Callable[..., Any]) -> bool:
    """Whether a function is the chunk step of a reduction that kernels can do."""
    try:
        return function in _STEPS
    except TypeError:
        # Callables need not be hashable.
        return False


def chunk_step(
    function: Callable[..., Any], kwargs: Kwargs, dtype: np.dtype, ndim: int
) -> ChunkStep:
    """Write out what a chunk function of `dask.array.reduction` does.

    Parameters
    ----------
    function
        One for which `is_chunk_function` holds.
    kwargs
        All its arguments but the block.
    dtype, ndim
        Of the block.

    Raises
    ------
    UnsupportedError
        If kernels do not have this reduction in this form.
    """
    kwargs = dict(kwargs)
    axes = _axes(kwargs.pop("axis", None), ndim)
    if kwargs.pop("keepdims", False) is not True:
        raise UnsupportedError("the chunk step drops the axes that it reduces")
    partial, make = _STEPS[function]
    builder = FunctionBuilder()
    values, statistics = make(builder, builder.input(0, dtype), kwargs)
    if kwargs:
        names = ", ".join(sorted(kwargs))
        raise UnsupportedError(f"the chunk step is called with {names}")
    result = statistics[-1].dtype
    return ChunkStep(builder.build(values), axes, tuple(statistics), partial, result)


def arg_step(
    function: Callable[..., Any], args: tuple[Any, ...], axis: Any, block: np.dtype
) -> tuple[str, ScalarFunction]:
    """Return the arg-reduction of a layer of `dask.array.reductions.arg_reduction`.

    Parameters
    ----------
    function, args
        The function of a task, and what is bound to it.
    axis
        The axes that are searched, as the task has them.
    block
        Dtype of the blocks.
    """
    if function is not arg_chunk or len(args) != 2 or not isinstance(axis, tuple):
        raise UnsupportedError("the layer is a list of tasks", Rule.MATERIALIZED.value)
    name = _ARGS.get(args)
    if name is None:
        raise UnsupportedError(
            "arg-reductions that skip NaN raise if there is nothing else",
            Rule.MAY_RAISE.value,
        )
    builder = FunctionBuilder()
    value = _ordered(builder.input(0, block))
    return name, builder.build([value])


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    try:
        numbers = [operator.index(number) for number in axes]
    except TypeError:
        raise UnsupportedError(f"the axis is {axis!r}") from None
    if not all(-ndim <= number < ndim for number in numbers):
        raise UnsupportedError(f"axis {axis!r} of {ndim} axes", Rule.MAY_RAISE.value)
    found = sorted({number % ndim for number in numbers})
    if len(found) != len(numbers) or not found:
        raise UnsupportedError(f"the axis is {axis!r}")
    return tuple(found)


def _total_dtype(value: Value, kwargs: Kwargs) -> np.dtype:
    """Return the dtype in which NumPy adds or multiplies."""
    wanted = kwargs.pop("dtype", None)
    if wanted is not None:
        dtype = canonical(np.dtype(wanted))
    elif value.dtype.kind in "bi":
        dtype = promote((value.dtype, _INT64))
    elif value.dtype.kind == "u":
        dtype = promote((value.dtype, np.dtype(np.uint64)))
    else:
        dtype = value.dtype
    if dtype.kind == "b":
        raise UnsupportedError("sums of bools as bools", Rule.UNSUPPORTED_DTYPE.value)
    return dtype


def _without_nan(builder: FunctionBuilder, value: Value, instead: int) -> Value:
    if value.dtype.kind not in "fc":
        return value
    is_nan = builder.apply("isnan", value)
    return builder.apply("where", is_nan, builder.const(instead, value.dtype), value)


def _accumulate(name: str, *, skips_nan: bool = False) -> Make:
    identity = {"sum": 0, "prod": 1}[name]

    def make(
        builder: FunctionBuilder, value: Value, kwargs: Kwargs
    ) -> tuple[list[Value], list[Statistic]]:
        dtype = _total_dtype(value, kwargs)
        if skips_nan:
            value = _without_nan(builder, value, identity)
        return [builder.cast(value, dtype)], [Statistic(name, (0,), dtype)]

    return make


def _ordered(value: Value) -> Value:
    if value.dtype.kind == "c":
        raise UnsupportedError(
            "kernels do not order complex numbers", Rule.UNSUPPORTED_DTYPE.value
        )
    return value


def _extreme(name: str) -> Make:
    def make(
        builder: FunctionBuilder, value: Value, kwargs: Kwargs
    ) -> tuple[list[Value], list[Statistic]]:
        # Of the rest fmin and fmax are min and max.
        row = name if value.dtype.kind == "f" else name.removeprefix("f")
        return [_ordered(value)], [Statistic(row, (0,), value.dtype)]

    return make


def _truth(name: str) -> Make:
    def make(
        builder: FunctionBuilder, value: Value, kwargs: Kwargs
    ) -> tuple[list[Value], list[Statistic]]:
        dtype = np.dtype(bool)
        return [builder.cast(value, dtype)], [Statistic(name, (0,), dtype)]

    return make


def _skips_nan(kwargs: Kwargs) -> bool:
    """Say whether a mean or a variance skips NaN, from the functions it adds with."""
    parts = kwargs.pop("sum", np.sum), kwargs.pop("numel", numel)
    if parts == (np.sum, numel):
        return False
    if parts == (np.nansum, nannumel):
        return True
    raise UnsupportedError("the chunk step adds or counts with functions of its own")


def _valid(builder: FunctionBuilder, value: Value) -> Value:
    if value.dtype.kind not in "fc":
        return builder.const(True, np.dtype(bool))
    return builder.apply("logical_not", builder.apply("isnan", value))


def _mean(
    builder: FunctionBuilder, value: Value, kwargs: Kwargs
) -> tuple[list[Value], list[Statistic]]:
    skips_nan = _skips_nan(kwargs)
    dtype = canonical(np.dtype(kwargs.pop("dtype", "f8")))
    if dtype.kind == "b":
        raise UnsupportedError("means of bools as bools", Rule.UNSUPPORTED_DTYPE.value)
    if not skips_nan:
        return [builder.cast(value, dtype)], [Statistic("sum", (0,), dtype)]
    count = builder.cast(_valid(builder, value), _INT64)
    total = builder.cast(_without_nan(builder, value, 0), dtype)
    statistics = [Statistic("sum", (0,), _INT64), Statistic("sum", (1,), dtype)]
    return [count, total], statistics


def _moments(
    builder: FunctionBuilder, value: Value, kwargs: Kwargs
) -> tuple[list[Value], list[Statistic]]:
    skips_nan = _skips_nan(kwargs)
    dtype = canonical(np.dtype(kwargs.pop("dtype", "f8")))
    if kwargs.pop("order", 2) != 2:
        raise UnsupportedError("kernels have moments up to the second order")
    if kwargs.pop("implicit_complex_dtype", False) or "c" in (
        value.dtype.kind,
        dtype.kind,
    ):
        raise UnsupportedError(
            "kernels have no moments of complex numbers", Rule.UNSUPPORTED_DTYPE.value
        )
    if dtype.kind != "f" or promote((value.dtype, dtype)) != dtype:
        # Dask subtracts the mean before it rounds to the dtype of the result.
        raise UnsupportedError(
            f"moments of {value.dtype} as {dtype}", Rule.UNSUPPORTED_DTYPE.value
        )
    values = [builder.cast(value, dtype)]
    if skips_nan:
        values.append(_valid(builder, value))
    return values, [Statistic("moments", tuple(range(len(values))), dtype)]


_STEPS: dict[Callable[..., Any], tuple[Partial, Make]] = {
    np.sum: (Partial.ARRAY, _accumulate("sum")),
    np.prod: (Partial.ARRAY, _accumulate("prod")),
    np.nansum: (Partial.ARRAY, _accumulate("sum", skips_nan=True)),
    np.nanprod: (Partial.ARRAY, _accumulate("prod", skips_nan=True)),
    chunk_min: (Partial.ARRAY, _extreme("min")),
    chunk_max: (Partial.ARRAY, _extreme("max")),
    np.min: (Partial.ARRAY, _extreme("min")),
    np.max: (Partial.ARRAY, _extreme("max")),
    nanmin_skip: (Partial.ARRAY, _extreme("fmin")),
    nanmax_skip: (Partial.ARRAY, _extreme("fmax")),
    np.any: (Partial.ARRAY, _truth("any")),
    np.all: (Partial.ARRAY, _truth("all")),
    mean_chunk: (Partial.MEAN, _mean),
    moment_chunk: (Partial.MOMENTS, _moments),
}

_ARGS: dict[tuple[Any, ...], str] = {
    (np.min, array_chunk.argmin): "argmin",
    (np.max, array_chunk.argmax): "argmax",
}
