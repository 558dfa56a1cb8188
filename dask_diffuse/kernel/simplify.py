"""Make kernels smaller without changing a bit of what they compute."""

from __future__ import annotations

from dask_diffuse.kernel.function import Instruction, ScalarFunction

__all__ = ["drop_dead"]


def drop_dead(function: ScalarFunction) -> ScalarFunction:
    """Return a function without the instructions that no result needs.

    The others keep their order.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_diffuse.kernel.construct import FunctionBuilder
    >>> builder = FunctionBuilder()
    >>> x = builder.input(0, np.dtype("float32"))
    >>> unused = builder.apply("exp", x)
    >>> len(drop_dead(builder.build([builder.apply("sqrt", x)])).instructions)
    2
    """
    lines = function.instructions
    needed = [False] * len(lines)
    for i in function.results:
        needed[i] = True
    for i in range(len(lines) - 1, -1, -1):
        if needed[i]:
            for j in lines[i].args:
                needed[j] = True
    if all(needed):
        return function
    places: list[int] = []
    kept: list[Instruction] = []
    for line, is_needed in zip(lines, needed, strict=True):
        places.append(len(kept))
        if is_needed:
            args = tuple([places[i] for i in line.args])
            moved = Instruction(line.op, args, line.dtype, line.attr)
            kept.append(line if args == line.args else moved)
    return ScalarFunction(tuple(kept), tuple([places[i] for i in function.results]))
