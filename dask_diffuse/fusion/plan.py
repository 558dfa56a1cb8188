"""The outcome of planning: which tasks become one, and what they compute."""

from __future__ import annotations

from dataclasses import dataclass

from dask_diffuse.ir.decision import Decision
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Access
from dask_diffuse.kernel.nest import Kernel

__all__ = ["FusionGroup", "FusionPlan", "KernelResult"]


@dataclass(frozen=True, slots=True)
class KernelResult:
    """One store that a group makes.

    Parameters
    ----------
    store
        Its name.
    statements
        Positions of the kernel's statements that make it: one, or two for the count
        and the total of a nan-mean.
    task
        Id of the index task whose body says how the block is assembled.
    """

    store: str
    statements: tuple[int, ...]
    task: int


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """Index tasks that become one fused task per point.

    Parameters
    ----------
    tasks
        Ids, increasing.
    inputs
        What the group reads from outside, one for each of the kernel's arrays, in
        their order.
    results
        What it writes for others.
    temporaries
        Names of the stores that exist only inside the kernel.
    kernel
        The fused kernel.
    scalars
        For each of the kernel's scalar arguments, the task and the position in
        ``IndexTask.scalars`` that its value comes from.
    """

    tasks: tuple[int, ...]
    inputs: tuple[Access, ...]
    results: tuple[KernelResult, ...]
    temporaries: tuple[str, ...]
    kernel: Kernel
    scalars: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """How a program is run.

    Parameters
    ----------
    program
        What was planned.
    groups
        Fused tasks, in an order in which each comes after what it reads.
    untouched
        Ids of the tasks that stay as they are.
    decisions
        Every refusal, the importer's included, and what was accepted.
    """

    program: Program
    groups: tuple[FusionGroup, ...]
    untouched: tuple[int, ...]
    decisions: tuple[Decision, ...]
