"""Short ways to write kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dask_diffuse.kernel.construct import FunctionBuilder, Value
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel, Statement

__all__ = ["elementwise", "make_kernel"]

Write = Callable[[FunctionBuilder], list[Statement]]


def make_kernel(
    arrays: list[tuple[str, tuple[int, ...]]],
    write: Write,
    *,
    ndim: int = 2,
    label: str = "test",
) -> Kernel:
    """A kernel of what a function writes with a builder; it returns the statements."""
    builder = FunctionBuilder()
    statements = tuple(write(builder))
    used: list[Value] = []
    for statement in statements:
        if isinstance(statement, Accumulate):
            used += [Value(i, np.dtype(bool)) for i in statement.values]
        else:
            used.append(Value(statement.value, np.dtype(bool)))
    return Kernel(
        label,
        ndim,
        tuple(ArrayParam(np.dtype(dtype), axes) for dtype, axes in arrays),
        tuple(scalar.dtype for scalar in builder.scalars),
        builder.build(list(dict.fromkeys(used))),
        statements,
    )


def elementwise(name: str, *dtypes: str) -> Kernel:
    """A kernel that applies one row to arrays."""

    def write(builder: FunctionBuilder) -> list[Statement]:
        inputs = [builder.input(i, np.dtype(d)) for i, d in enumerate(dtypes)]
        return [Assign(builder.apply(name, *inputs).position, (0, 1))]

    return make_kernel([(dtype, (0, 1)) for dtype in dtypes], write, label=name)
