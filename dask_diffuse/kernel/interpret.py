"""Run kernels with NumPy: slow, readable, and what every target is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Kernel
from dask_diffuse.ops.reductions import REDUCTIONS
from dask_diffuse.ops.table import OPS

__all__ = ["convert", "evaluate", "interpret"]


def interpret(
    kernel: Kernel,
    arrays: Sequence[np.ndarray],
    scalars: Sequence[np.generic],
    extents: tuple[int, ...],
) -> list[np.ndarray]:
    """Run a kernel on arrays.

    Parameters
    ----------
    kernel
        Before or after legalization.
    arrays
        Of the dtypes and dimensions of ``kernel.arrays``.
    scalars
        Of the dtypes ``kernel.scalars``.
    extents
        Length of each loop axis, at least 1.

    Returns
    -------
    list
        The results of the statements, in order.
    """
    inputs = [
        _along_axes(array, param, kernel.ndim)
        for array, param in zip(arrays, kernel.arrays, strict=True)
    ]
    values = _run(kernel.function, inputs, scalars, extents)
    results: list[np.ndarray] = []
    for statement in kernel.statements:
        if isinstance(statement, Accumulate):
            operands = tuple(
                np.broadcast_to(values[i], extents) for i in statement.values
            )
            row = REDUCTIONS[statement.reduction]
            with np.errstate(all="ignore"):
                results += row.evaluate(operands, statement.axes, statement.dtype)
        else:
            value = np.broadcast_to(values[statement.value], extents)
            results.append(value.transpose(statement.axes).copy())
    return results


def evaluate(
    function: ScalarFunction,
    inputs: Sequence[np.ndarray],
    scalars: Sequence[np.generic] = (),
    extents: tuple[int, ...] = (),
) -> list[np.ndarray]:
    """Return the results of a function for arrays of elements.

    Parameters
    ----------
    function
        Made of table ops or of core ops.
    inputs
        For each array operand, elements that broadcast against each other.
    scalars
        Values of the scalar arguments.
    extents
        Length of each loop axis, for functions that ask for the position.

    Examples
    --------
    >>> from dask_diffuse.kernel.construct import FunctionBuilder
    >>> builder = FunctionBuilder()
    >>> x = builder.input(0, np.dtype("int8"))
    >>> function = builder.build([builder.apply("floor_divide", x, builder.literal(2))])
    >>> evaluate(function, [np.array([-3, 5], np.int8)], builder.scalars)
    [array([-2,  2], dtype=int8)]
    """
    values = _run(function, inputs, scalars, extents)
    return [values[i] for i in function.results]


def convert(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert as `numpy.ndarray.astype` does, without its warning on complex values."""
    value = np.asarray(value)
    if value.dtype.kind == "c" and dtype.kind not in "cb":
        value = value.real
    with np.errstate(all="ignore"):
        return value.astype(dtype)


def _along_axes(array: np.ndarray, param: ArrayParam, ndim: int) -> np.ndarray:
    """Give an array one dimension for each loop axis."""
    order = sorted(range(array.ndim), key=param.axes.__getitem__)
    shape = [1] * ndim
    for dimension in order:
        shape[param.axes[dimension]] = array.shape[dimension]
    return array.transpose(order).reshape(shape)


def _run(
    function: ScalarFunction,
    inputs: Sequence[np.ndarray],
    scalars: Sequence[np.generic],
    extents: tuple[int, ...],
) -> list[np.ndarray]:
    values: list[np.ndarray] = []
    with np.errstate(all="ignore"):
        for line in function.instructions:
            values.append(_value(line, values, inputs, scalars, extents))
    return values


def _value(
    line: Instruction,
    values: list[np.ndarray],
    inputs: Sequence[np.ndarray],
    scalars: Sequence[np.generic],
    extents: tuple[int, ...],
) -> np.ndarray:
    match line.op:
        case "input":
            return inputs[line.number]
        case "scalar":
            return np.asarray(scalars[line.number])
        case "const":
            return np.asarray(line.attr, line.dtype)
        case "index":
            shape = [1] * len(extents)
            shape[line.number] = extents[line.number]
            return np.arange(extents[line.number], dtype=line.dtype).reshape(shape)
        case "cast":
            return convert(values[line.args[0]], line.dtype)
        case op:
            operands = [values[i] for i in line.args]
            return np.asarray(OPS[op].evaluate(*operands))
