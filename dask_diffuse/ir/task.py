"""Index tasks: a named group of parallel point tasks with declared accesses."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from dask_diffuse.ir.decision import Decision
from dask_diffuse.ir.partition import Domain, Partition, Tiling
from dask_diffuse.ir.store import Origin
from dask_diffuse.kernel.function import ScalarFunction

__all__ = [
    "Access",
    "Body",
    "Elementwise",
    "IndexTask",
    "Opaque",
    "Partial",
    "Privilege",
    "Reduction",
    "Statistic",
]


class Privilege(enum.Enum):
    """What a task may do with a store. Dask graphs are SSA: nothing is updated."""

    READ = "read"
    WRITE = "write"
    REDUCE = "reduce"


@dataclass(frozen=True, slots=True)
class Access:
    """One store argument of an index task.

    Parameters
    ----------
    store
        Name of the store.
    partition
        Which part each point touches.
    privilege
        What it does with it.
    reduction
        Name of the row of the table of reductions, for `Privilege.REDUCE`.
    """

    store: str
    partition: Partition
    privilege: Privilege
    reduction: str | None = None


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A body that computes each element of one output from elements of the inputs.

    Parameters
    ----------
    function
        One result. ``"input"`` k is the element of read access k, ``"scalar"`` k is
        ``IndexTask.scalars[k]``.
    operands
        For each read access, the loop axis that each dimension of a block follows.
        Dimensions of length 1 broadcast, which is known at run time.
    """

    function: ScalarFunction
    operands: tuple[tuple[int, ...], ...]


class Partial(enum.Enum):
    """The Python object that the host expects from the chunk step of a reduction."""

    ARRAY = "array"
    """An array with the reduced axes kept at length 1."""
    MEAN = "mean"
    """A dict of arrays ``n`` and ``total``."""
    MOMENTS = "moments"
    """A dict of arrays ``total``, ``n`` (int64) and ``M`` (one more axis, length 1)."""
    ARG = "arg"
    """A structured array of ``vals`` and ``arg``, positions in the whole store."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One accumulation of a reduction.

    Parameters
    ----------
    reduction
        Name of the row of the table of reductions.
    values
        Positions in the *results* of the function.
    dtype
        Of the accumulated result.
    """

    reduction: str
    values: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Reduction:
    """A body that reduces some loop axes of a block to length 1.

    Parameters
    ----------
    function
        As in `Elementwise`; the values that are accumulated are its results.
    operands
        As in `Elementwise`.
    axes
        The loop axes that are reduced, increasing.
    statistics
        What is accumulated, in the order that `partial` asks for. ARRAY: the result.
        MEAN: total, and for nan-means the count before it. MOMENTS: one ``"moments"``.
        ARG: one arg-reduction.
    partial
        How the results are handed to the combine steps.
    partial_dtype
        The dtype of the count ``n`` of a MEAN, else the dtype of the result.
    """

    function: ScalarFunction
    operands: tuple[tuple[int, ...], ...]
    axes: tuple[int, ...]
    statistics: tuple[Statistic, ...]
    partial: Partial
    partial_dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Opaque:
    """A body that is a Python callable, or a layer of tasks we do not look into.

    Parameters
    ----------
    decision
        Why it could not be expressed.
    partly
        Names of the stores that it reads some blocks of, and not all.
    """

    decision: Decision
    partly: tuple[str, ...] = ()


Body = Elementwise | Reduction | Opaque


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A whole layer's worth of parallel point tasks.

    Parameters
    ----------
    id
        Position in the program.
    launch
        The launch domain; empty for opaque tasks whose points are not known.
    accesses
        Reads first, in the order of the body's operands, then writes and reductions.
    body
        What each point computes.
    origin
        The layer it came from.
    space
        How the loop axes of the body are cut over the launch domain: the tiling of
        the iteration space. None for opaque tasks.
    scalars
        Literals of the program, typed, in the order of the body's ``"scalar"``s.
    annotations
        Of the layer, as sorted pairs.
    """

    id: int
    launch: Domain
    accesses: tuple[Access, ...]
    body: Body
    origin: Origin
    space: Tiling | None = None
    scalars: tuple[np.generic, ...] = ()
    annotations: tuple[tuple[str, object], ...] = ()

    @property
    def reads(self) -> tuple[Access, ...]:
        """Accesses with `Privilege.READ`, in order."""
        return tuple([a for a in self.accesses if a.privilege is Privilege.READ])

    @property
    def writes(self) -> tuple[Access, ...]:
        """Accesses with `Privilege.WRITE` or `Privilege.REDUCE`, in order."""
        return tuple([a for a in self.accesses if a.privilege is not Privilege.READ])
