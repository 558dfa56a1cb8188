"""How the blocks of the operands of a layer line up, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.partition import (
    Chunks,
    Domain,
    Lengths,
    PartitionTable,
    Tiling,
)

__all__ = ["Layout", "make_layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The loops of a layer over the launch domain, and what each operand sees.

    Parameters
    ----------
    launch
        The block grid.
    space
        How the loops are cut.
    reads
        The partition of each operand.
    """

    launch: Domain
    space: Tiling
    reads: tuple[Tiling, ...]


def make_layout(
    table: PartitionTable,
    ndim: int,
    chunks: Sequence[Chunks],
    axes: Sequence[tuple[int, ...]],
) -> Layout:
    """Return the layout of a layer that NumPy would broadcast block by block.

    Parameters
    ----------
    table
        Of the program.
    ndim
        Number of loops.
    chunks
        Of each operand.
    axes
        The loop that each dimension of each operand follows.

    Raises
    ------
    UnsupportedError
        If a block of an operand does not belong to one block of the result.
    """
    loops = _loops(table, ndim, chunks, axes)
    launch = tuple(map(len, loops))
    reads = tuple(
        table.tiling(
            operand,
            tuple(
                _launch_axis(lengths, loops[axis], axis)
                for lengths, axis in zip(operand, follows, strict=True)
            ),
        )
        for operand, follows in zip(chunks, axes, strict=True)
    )
    return Layout(launch, table.tiling(loops, tuple(range(ndim))), reads)


def _loops(
    table: PartitionTable,
    ndim: int,
    chunks: Sequence[Chunks],
    axes: Sequence[tuple[int, ...]],
) -> tuple[Lengths, ...]:
    loops: list[Lengths | None] = [None] * ndim
    for operand, follows in zip(chunks, axes, strict=True):
        for lengths, axis in zip(operand, follows, strict=True):
            known = loops[axis]
            if known is None or _spans(lengths, known):
                loops[axis] = table.lengths(lengths)
    found = tuple([lengths for lengths in loops if lengths is not None])
    if len(found) < ndim:
        raise UnsupportedError(
            "an axis of the result is an axis of no operand", Rule.NEW_AXES.value
        )
    return found


def _spans(lengths: Lengths, known: Lengths) -> bool:
    """Whether these lengths say more about a loop than those that are known."""
    if lengths is known or len(lengths) < len(known):
        return False
    return len(lengths) > len(known) or _is_ones(known)


def _is_ones(lengths: Lengths) -> bool:
    return lengths[:1] == (1,) and lengths.count(1) == len(lengths)


def _launch_axis(lengths: Lengths, loop: Lengths, axis: int) -> int | None:
    """Return the launch axis that picks tiles of these lengths along a loop."""
    if lengths is loop or lengths == loop:
        return axis
    if len(lengths) == len(loop):
        unknown = None in lengths or None in loop
        # Unknown lengths are compared at run time, block by block.
        if unknown or _is_ones(lengths):
            return axis
    elif lengths == (1,):
        return None
    raise UnsupportedError(
        f"blocks of lengths {_text(lengths)} along axis {axis} do not fit blocks of "
        f"lengths {_text(loop)}",
        Rule.BLOCK_SHAPES.value,
    )


def _text(lengths: Lengths) -> str:
    shown = [str(length) for length in lengths[:4]]
    if len(lengths) > 4:
        shown.append("...")
    return f"({', '.join(shown)})"
