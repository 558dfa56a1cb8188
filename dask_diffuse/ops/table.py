"""The table of scalar operations: one row an op, in NumPy's terms.

Two vocabularies share the table. *Table ops* mean what the NumPy function of their name
means, zero divisors, NaN and wrap-around included; functions are built from them. *Core
ops* are the few that a target has to know; `dask_diffuse.kernel.legalize` rewrites the
former to the latter. Where a name stands for both, the two agree for the kinds of
dtypes in `ScalarOp.core`.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_diffuse.ops.dtypes import Loop, OperandType

__all__ = [
    "DECLINED",
    "OPS",
    "Cost",
    "ScalarOp",
    "decline",
    "find_declined",
    "find_op",
    "register",
]


class Cost(enum.Enum):
    """How dear one element is, roughly."""

    CHEAP = "cheap"
    """A few instructions of the processor."""
    LIBM = "libm"
    """A function of the math library, or a division of integers."""


@dataclass(frozen=True, slots=True, eq=False)
class ScalarOp:
    """One operation on scalars.

    Parameters
    ----------
    name
        That of the NumPy function, if it has one.
    arity
        Number of operands.
    evaluate
        Computes it on arrays and scalars whose dtypes are those of a loop. This is the
        reference that every target is compared with.
    typing
        Finds the loop for operands of some types. None for ops that only
        legalization makes.
    core
        Kinds of operands, in NumPy's letters, for which it is a core op.
    ulp
        How far results may be from NumPy's, in units in the last place; 0 means bit for
        bit.
    complex_ulp
        The same for complex operands. For complex results the unit is that of the
        largest product or part involved.
    cost
        What one element costs.
    slow_in_numpy
        Whether NumPy's own loop calls a scalar function for each element.
    """

    name: str
    arity: int
    evaluate: Callable[..., np.ndarray]
    typing: Callable[[tuple[OperandType, ...]], Loop] | None = None
    core: str = ""
    ulp: int = 0
    complex_ulp: int = 0
    cost: Cost = Cost.CHEAP
    slow_in_numpy: bool = False

    @property
    def is_core(self) -> bool:
        """Whether it is a core op for some dtype."""
        return bool(self.core)

    def __repr__(self) -> str:
        return f"<ScalarOp {self.name}>"


OPS: dict[str, ScalarOp] = {}
"""All rows by name. Filled when `dask_diffuse.ops` is imported, then only read."""

DECLINED: dict[str, str] = {}
"""Functions that have no row, by the name NumPy gives them, and why."""

_BY_FUNCTION: dict[Callable[..., object], ScalarOp] = {}
_DECLINED_FUNCTIONS: dict[Callable[..., object], str] = {}
_BY_SCIPY_NAME: dict[str, ScalarOp] = {}


def register(
    op: ScalarOp, *functions: Callable[..., object], scipy: str | None = None
) -> None:
    """Add a row to the table.

    Parameters
    ----------
    op
        The row.
    functions
        The functions that mean it when called with one argument for each operand.
    scipy
        Name of the function of `scipy.special` that means it.
    """
    OPS[op.name] = op
    for function in functions:
        _BY_FUNCTION[function] = op
    if scipy is not None:
        _BY_SCIPY_NAME[scipy] = op


def decline(name: str, reason: str, *functions: Callable[..., object]) -> None:
    """Say why functions have no row."""
    DECLINED[name] = reason
    for function in functions:
        _DECLINED_FUNCTIONS[function] = name


def find_op(function: Callable[..., object]) -> ScalarOp | None:
    """Return the row of a ufunc, or of a function of `operator` or `scipy.special`.

    SciPy is not imported for it: who hands us one of its functions has done so.

    Examples
    --------
    >>> import operator
    >>> find_op(operator.truediv), find_op(np.divide), find_op(print)
    (<ScalarOp divide>, <ScalarOp divide>, None)
    """
    try:
        op = _BY_FUNCTION.get(function)
    except TypeError:
        # Callables need not be hashable.
        return None
    if op is None and type(function) is np.ufunc:
        op = _BY_SCIPY_NAME.get(function.__name__)
        special = sys.modules.get("scipy.special")
        if op is not None and getattr(special, function.__name__, None) is not function:
            op = None
    return op


def find_declined(function: Callable[..., object]) -> str | None:
    """Return why a known function has no row, or None if it is not known.

    Examples
    --------
    >>> find_declined(np.modf)
    "'modf' has two results"
    """
    try:
        name = _DECLINED_FUNCTIONS.get(function)
    except TypeError:
        return None
    return None if name is None else f"{name!r} {DECLINED[name]}"
