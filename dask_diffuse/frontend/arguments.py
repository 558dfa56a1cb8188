"""Chunk steps of arg-reductions, which Dask hands over as lists of tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dask_diffuse.dask_api import Layer, MaterializedLayer
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.frontend.blockwise import Imported
from dask_diffuse.frontend.chunks import Blocks, ones
from dask_diffuse.frontend.functions import unwrap
from dask_diffuse.frontend.layout import make_layout
from dask_diffuse.frontend.reduction import arg_step
from dask_diffuse.frontend.sources import first_task
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.partition import PartitionTable
from dask_diffuse.ir.task import Partial, Reduction, Statistic

__all__ = ["import_arg_step"]


def import_arg_step(
    layer: Layer, name: str, table: PartitionTable, blocks: Mapping[str, Blocks]
) -> Imported:
    """Return what the chunk step of an arg-reduction does.

    Parameters
    ----------
    layer
        Any layer that is not symbolic.
    name
        Its name.
    table
        Of the program.
    blocks
        What is known of the stores that were imported so far.

    Raises
    ------
    UnsupportedError
        If it is another layer, or one that kernels cannot do.
    """
    source, axis, bound = _parse(layer, name)
    known = blocks.get(source)
    if known is None or known.dtype is None:
        detail = "nothing is known of its blocks" if known is None else known.detail
        rule = Rule.UNKNOWN_DTYPE if known is None else known.rule
        raise UnsupportedError(f"of {source!r} {detail}", rule.value)
    chunks = known.chunks
    if not chunks and chunks is not None:
        raise UnsupportedError("there is no axis to search")
    assert isinstance(layer, MaterializedLayer)
    if (
        chunks is None
        or any(None in lengths for lengths in chunks)
        or math.prod(map(len, chunks)) != len(layer.mapping)
    ):
        raise UnsupportedError(
            f"positions in {source!r} need known chunks", Rule.BLOCK_SHAPES.value
        )
    reduction, function = arg_step(bound[0], bound[1:], axis, known.dtype)
    ndim = len(chunks)
    loops = tuple(range(ndim))
    axes = loops if len(axis) == ndim or ndim == 1 else tuple(axis[:1])
    layout = make_layout(table, ndim, [chunks], [loops])
    written = tuple(
        ones(len(lengths)) if number in axes else lengths
        for number, lengths in enumerate(layout.space.chunks)
    )
    body = Reduction(
        function=function,
        operands=(loops,),
        axes=axes,
        statistics=(Statistic(reduction, (0,), known.dtype),),
        partial=Partial.ARG,
        partial_dtype=known.dtype,
    )
    made = Blocks(None, None, Rule.UNSUPPORTED_BLOCKS, "its blocks are partial results")
    return Imported(body, (source,), layout, (), made, written)


def _parse(layer: Layer, name: str) -> tuple[str, Any, tuple[Any, ...]]:
    """Return the store, the axes and the function with what is bound to it."""
    found = first_task(layer)
    if found is not None:
        key, task = found
        if type(task) is tuple and len(task) == 4 and callable(task[0]):
            function, block, axis, _ = task
            is_first = (
                type(key) is tuple
                and type(block) is tuple
                and block[1:] == key[1:] == (0,) * (len(key) - 1)
                and key[0] == name
                and type(block[0]) is str
            )
            function, bound, keywords = unwrap(function, (), {})
            if is_first and not keywords and isinstance(axis, tuple):
                return block[0], axis, (function, *bound)
    raise UnsupportedError("it is a list of tasks", Rule.MATERIALIZED.value)
