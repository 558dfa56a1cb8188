"""Typed scalar functions in SSA form: what happens to one element of every operand.

A `ScalarFunction` is a flat tuple of instructions, each of which names earlier ones by
position. Flat and not a tree: programs share subexpressions, and chains of thousands
of operations must not recurse.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

__all__ = ["Instruction", "ScalarFunction"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One typed scalar value.

    Parameters
    ----------
    op
        The name of a row of the op table, or one of the five words of this IR:

        ``"input"``
            The element of array operand number `attr`.
        ``"scalar"``
            Scalar argument number `attr`: a literal of the user's program. Its value
            is not part of the kernel.
        ``"const"``
            The constant `attr`, a Python bool, int, float or complex that is part of
            the kernel (an exponent, an identity).
        ``"index"``
            The position along loop axis `attr` within the block, as int64.
        ``"cast"``
            ``args[0]`` converted to `dtype`, as ``ndarray.astype`` does.
    args
        Positions of the operands within the function. They are of the dtypes the op's
        loop asks for: casts are explicit.
    dtype
        Dtype of the result, in native byte order.
    attr
        See `op`; None for rows of the op table.
    """

    op: str
    args: tuple[int, ...]
    dtype: np.dtype
    attr: Hashable = None

    @property
    def number(self) -> int:
        """Which operand, argument or axis an input, a scalar or an index stands for."""
        if not isinstance(self.attr, int):
            raise TypeError(f"{self.op!r} has no number: {self.attr!r}")
        return self.attr


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A list of instructions and the positions of those that are results.

    Parameters
    ----------
    instructions
        In order: operands come before what uses them.
    results
        Positions in `instructions`.
    """

    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]

    @property
    def dtypes(self) -> tuple[np.dtype, ...]:
        """Dtypes of the results."""
        return tuple(self.instructions[i].dtype for i in self.results)
