"""Small blocks: when the first step of a reduction runs the kernel for its own blocks.

A task costs the scheduler some 100 microseconds, whatever it does. For blocks of a few
thousand elements that is far more than the kernel takes, so one task then runs it for
all the blocks that it is about to combine. And where there is but one block to combine,
one task will do for any size.
"""

from __future__ import annotations

from dask_diffuse.dask_api import Layer, MaterializedLayer
from dask_diffuse.ir.partition import Chunks, Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Reduction
from dask_diffuse.lowering.groups import LoweredGroup

__all__ = ["may_inline"]

_FEWEST_TASKS = 64
"""So many tasks have to be left, for all threads and workers to have some."""

_MOST_BYTES = 1 << 20
"""All blocks that one task reads are in memory at once, and these may be so large."""


def may_inline(lowered: LoweredGroup, reader: Layer, program: Program) -> bool:
    """Whether the only reader of a fused layer should make its blocks itself.

    Parameters
    ----------
    lowered
        A group that makes one store.
    reader
        The layer that reads it.
    program
        Its program.
    """
    layer, group = lowered.layer, lowered.group
    body = program.tasks[group.results[0].task].body
    if type(reader) is not MaterializedLayer or not isinstance(body, Reduction):
        # Other readers might need a block more than once.
        return False
    if layer.annotations or reader.annotations:
        return False
    if len(layer) == len(reader):
        return True
    if len(reader) < _FEWEST_TASKS:
        return False
    blocks = -(-len(layer) // len(reader))
    nbytes = 0
    for access, param in zip(group.inputs, group.kernel.arrays, strict=True):
        if not isinstance(access.partition, Tiling):
            return False
        size = _largest_tile(access.partition.chunks)
        if size is None:
            return False
        nbytes += size * param.dtype.itemsize
    return blocks * nbytes <= _MOST_BYTES


def _largest_tile(chunks: Chunks) -> int | None:
    """Return how many elements the largest tile has, if that is known."""
    size = 1
    for lengths in chunks:
        if None in lengths:
            return None
        size *= max(lengths)  # type: ignore[type-var]
    return size
