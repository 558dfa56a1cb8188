"""The parts of a `KernelCall`: plain data about its arguments and its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["ArgRef", "Binding", "Guard", "Output", "Step", "StepRef"]


@dataclass(frozen=True, slots=True)
class ArgRef:
    """The value of an argument of the call.

    Parameters
    ----------
    slot
        Position of the argument.
    item
        Element of the tuple in that slot, if the slot holds a tuple.
    """

    slot: int
    item: int | None = None


@dataclass(frozen=True, slots=True)
class StepRef:
    """In a fallback step: the value of an earlier step.

    Parameters
    ----------
    step
        Position of that step.
    """

    step: int


@dataclass(frozen=True, slots=True)
class Step:
    """One call of an original function, for the fallback.

    Parameters
    ----------
    function
        As the host's graph held it.
    args, kwargs
        Literals, `ArgRef` and `StepRef` objects.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """What one array argument of the kernel was planned to be.

    Parameters
    ----------
    source
        Where the block is found among the arguments of the call.
    dtype
        Planned dtype, native byte order.
    ndim
        Planned number of dimensions.
    broadcast
        The dimensions that were planned to have length 1 and to be repeated. All
        others must be as long as their loop.
    """

    source: ArgRef
    dtype: np.dtype
    ndim: int
    broadcast: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """How one block is assembled from results of the kernel.

    Parameters
    ----------
    form
        ``"array"``, ``"mean"``, ``"nanmean"``, ``"moments"``, ``"nanmoments"`` or
        ``"arg"``.
    results
        Positions in the flat list of results of the kernel.
    step
        The fallback step whose value is the same block.
    axes
        Reduced loop axes; empty for elementwise results.
    dtype
        Dtype of the count of a mean, else of the result.
    offset
        For ``"arg"``: the argument of the call that says where the block lies.
    """

    form: str
    results: tuple[int, ...]
    step: int
    axes: tuple[int, ...]
    dtype: np.dtype
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """Where the extent of the loops comes from when no array spans them all.

    Parameters
    ----------
    slot
        The argument of the call that is the shape of the block, a tuple of int.
    """

    slot: int
