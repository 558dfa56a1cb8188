"""What travels to a worker and runs there: a kernel, its guards and its fallback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.options import Options

__all__ = ["ArgRef", "Binding", "Guard", "KernelCall", "Output", "Step"]


@dataclass(frozen=True, slots=True)
class ArgRef:
    """In a fallback step: the value of an earlier step, or of an argument.

    Parameters
    ----------
    slot
        Arguments of the call come first, then one slot for each step.
    item
        Element of the tuple in that slot, if the slot holds a tuple.
    """

    slot: int
    item: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One call of an original function, for the fallback.

    Parameters
    ----------
    function
        As the host's graph held it.
    args, kwargs
        Literals and `ArgRef` objects, nested in lists and tuples as they were.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]


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
    """

    source: ArgRef
    dtype: np.dtype
    ndim: int


@dataclass(frozen=True, slots=True)
class Output:
    """How one block is assembled from results of the kernel.

    Parameters
    ----------
    form
        ``"array"``, ``"mean"``, ``"nanmean"``, ``"moments"``, ``"nanmoments"``, ``"arg"``.
    results
        Positions in the flat list of results of the kernel.
    step
        The fallback step whose value is the same block.
    axes
        Reduced loop axes; empty for elementwise results.
    dtype
        Dtype of the count of a mean, else of the result.
    """

    form: str
    results: tuple[int, ...]
    step: int
    axes: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Binding:
    """Where the extent of the loops comes from when no array spans them all.

    Parameters
    ----------
    slot
        The argument of the call that is the shape of the block, a tuple of int.
    """

    slot: int


@dataclass(frozen=True, eq=False)
class KernelCall:
    """The callable inside a fused task: blocks in, one block or a tuple of blocks out.

    Parameters
    ----------
    key
        Content key of everything below, for tokens and equality.
    kernel, scalars
        The kernel, and the values of its scalar arguments.
    guards
        One for each array of the kernel.
    shape
        Where the loop extents come from, if not from the arrays.
    outputs
        The blocks to return. One is returned bare, several as a tuple.
    steps
        The original functions, in order.
    options
        Of the hook that made it.
    """

    key: str
    kernel: Kernel
    scalars: tuple[np.generic, ...]
    guards: tuple[Guard, ...]
    shape: Binding | None
    outputs: tuple[Output, ...]
    steps: tuple[Step, ...]
    options: Options
