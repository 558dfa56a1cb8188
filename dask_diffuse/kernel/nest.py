"""The kernel IR: one rectangular loop nest over typed scalar expressions.

A kernel says nothing about block shapes, strides or the values of literals: those are
arguments at the call. Loop axis 0 is the outermost in the order of the program; a back
end may walk the axes in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dask_diffuse.kernel.function import ScalarFunction

__all__ = ["Accumulate", "ArrayParam", "Assign", "Kernel", "Statement"]


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """An array that is read at one element per iteration.

    Parameters
    ----------
    dtype
        Native byte order.
    axes
        The loop axis that each dimension of the array follows. A dimension of length 1
        is broadcast where the loop is longer, which is known at the call.
    """

    dtype: np.dtype
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """Write a value to a new array, one element per iteration.

    Parameters
    ----------
    value
        Position in the kernel's function; its dtype is the array's.
    axes
        The loop axis that each dimension of the array follows: a permutation of all.
    """

    value: int
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Reduce values over some loop axes.

    Parameters
    ----------
    reduction
        The name of a row of the table of reductions.
    values
        Positions in the kernel's function: the value, and for ``"moments"``
        optionally a bool that says whether the element counts.
    axes
        The loop axes that are reduced, in increasing order. They stay as dimensions of
        length 1.
    dtype
        Dtype of the results (for arg-reductions of the value; positions are int64).
    """

    reduction: str
    values: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: np.dtype


Statement = Assign | Accumulate


@dataclass(frozen=True)
class Kernel:
    """What one fused task computes.

    Parameters
    ----------
    label
        Readable name, from the layers it came from. Not part of the key.
    ndim
        Number of loop axes.
    arrays
        The array operands, which ``"input"`` instructions number.
    scalars
        Dtypes of the scalar arguments, which ``"scalar"`` instructions number.
    function
        The scalar expressions. Its `results` are the values the statements use.
    statements
        What becomes of the values, in the order of the results.
    """

    label: str = field(compare=False)
    ndim: int
    arrays: tuple[ArrayParam, ...]
    scalars: tuple[np.dtype, ...]
    function: ScalarFunction
    statements: tuple[Statement, ...]
