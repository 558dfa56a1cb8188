"""The content key of a kernel: what caches in memory and on disk find it by."""

from __future__ import annotations

import hashlib

from dask_diffuse.kernel.function import Instruction
from dask_diffuse.kernel.nest import Accumulate, Kernel, Statement

__all__ = ["kernel_key"]

_FORMAT = 1
"""To be raised whenever a kernel of the same fields comes to mean something else."""


def kernel_key(kernel: Kernel) -> str:
    """Return 32 hex digits that two kernels share only if they compute the same.

    They depend on everything but the label, and are the same in every process. The key
    says nothing of legalization or of a target: who caches compiled code adds the
    version of the package and the options that shape the code.

    Examples
    --------
    >>> from dask_diffuse.kernel.construct import FunctionBuilder
    >>> from dask_diffuse.kernel.nest import ArrayParam, Assign
    >>> import numpy as np
    >>> float64 = np.dtype("float64")
    >>> builder = FunctionBuilder()
    >>> x = builder.input(0, float64)
    >>> function = builder.build([builder.apply("exp", x)])
    >>> array, write = ArrayParam(float64, (0,)), Assign(1, (0,))
    >>> kernels = [Kernel(s, 1, (array,), (), function, (write,)) for s in ("a", "b")]
    >>> kernel_key(kernels[0]) == kernel_key(kernels[1])
    True
    """
    lines = [f"kernel {_FORMAT} {kernel.ndim}"]
    lines += [f"array {param.dtype.str} {param.axes}" for param in kernel.arrays]
    lines += [f"scalar {dtype.str}" for dtype in kernel.scalars]
    lines += map(_instruction_text, kernel.function.instructions)
    lines.append(f"results {kernel.function.results}")
    lines += map(_statement_text, kernel.statements)
    text = "\n".join(lines).encode()
    return hashlib.blake2b(text, digest_size=16, usedforsecurity=False).hexdigest()


def _instruction_text(line: Instruction) -> str:
    text = f"{line.op} {line.args} {line.dtype.str}"
    if line.attr is None:
        return text
    # The type tells apart 1, 1.0 and True, which are equal.
    return f"{text} {type(line.attr).__name__} {line.attr!r}"


def _statement_text(statement: Statement) -> str:
    if isinstance(statement, Accumulate):
        values, axes = statement.values, statement.axes
        return f"{statement.reduction} {values} {axes} {statement.dtype.str}"
    return f"assign {statement.value} {statement.axes}"
