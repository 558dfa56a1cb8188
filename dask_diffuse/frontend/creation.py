"""Ranges of numbers, which Dask hands over as a list of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from dask_diffuse.dask_api import Layer, MaterializedLayer, Task, array_chunk
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.frontend.blockwise import Imported
from dask_diffuse.frontend.chunks import Blocks, ones
from dask_diffuse.frontend.functions import unwrap
from dask_diffuse.frontend.layout import Layout, make_layout
from dask_diffuse.frontend.sources import first_task
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.partition import PartitionTable
from dask_diffuse.ir.task import Elementwise
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.ops.dtypes import canonical

__all__ = ["import_range", "is_range"]

_INT64 = np.dtype(np.int64)

_LARGEST = 2**63 - 1

_EXACT_FLOATS = {np.dtype("f4"): 2**24, np.dtype("f8"): 2**53}
"""Up to where a dtype has all whole numbers."""


def is_range(layer: Layer) -> bool:
    """Whether this is a layer of `dask.array.arange`."""
    found = first_task(layer)
    if found is None or not isinstance(found[1], Task):
        return False
    function, args, _ = unwrap(found[1].func, found[1].args, {})
    return function is array_chunk.arange and len(args) == 5


def import_range(
    layer: MaterializedLayer, name: str, blocks: Blocks, table: PartitionTable
) -> Imported:
    """Write out a range: ``first + index * step``.

    The first number of each block comes from a store that the lowering makes: no layer
    of the host does.

    Parameters
    ----------
    layer
        One for which `is_range` holds.
    name
        Its name.
    blocks
        What Dask noted about the array.
    table
        Of the program.

    Raises
    ------
    UnsupportedError
        For ranges that are not exact: NumPy adds up each block from its own start.
    """
    chunks = blocks.chunks
    if chunks is None or len(chunks) != 1 or None in chunks[0]:
        raise UnsupportedError("the chunks of a range are not known")
    lengths = [length for length in chunks[0] if length is not None]
    start, step, dtype = _check_tasks(layer, name, lengths)
    _check_exact(start, step, sum(lengths), dtype)
    firsts = (ones(len(lengths)),)
    layout = make_layout(table, 1, [firsts, chunks], [(0,), (0,)])
    function, scalars = _function(step, dtype)
    return Imported(
        body=Elementwise(function, ((0,),)),
        reads=(f"first-{name}",),
        layout=Layout(layout.launch, layout.space, layout.reads[:1]),
        scalars=scalars,
        blocks=Blocks(layout.space.chunks, dtype),
        written=layout.space.chunks,
    )


def _check_tasks(
    layer: MaterializedLayer, name: str, lengths: list[int]
) -> tuple[int, int, np.dtype]:
    """Return start, step and dtype, by the first task and the last."""
    mapping = layer.mapping
    numbers = 0, len(lengths) - 1
    tasks = [mapping.get((name, number)) for number in numbers]
    if len(mapping) != len(lengths) or not all(isinstance(t, Task) for t in tasks):
        raise UnsupportedError("the layer is a list of tasks", Rule.MATERIALIZED.value)
    (start, _, step, length, dtype), last = (_arguments(task) for task in tasks)
    if length != lengths[0] or last[3] != lengths[-1]:
        raise UnsupportedError("the blocks of a range are not as long as was noted")
    whole = [_whole(start), _whole(step), _whole(last[0])]
    if None in whole or whole[2] != whole[0] + sum(lengths[:-1]) * whole[1]:
        raise UnsupportedError("kernels have ranges of whole numbers only")
    return whole[0], whole[1], canonical(np.dtype(dtype))


def _arguments(task: Any) -> tuple[Any, ...]:
    _, args, keywords = unwrap(task.func, task.args, task.kwargs)
    like = keywords.pop("like", None)
    if keywords or len(args) != 5:
        raise UnsupportedError("a range with keywords")
    if like is not None and type(like) is not np.ndarray:
        raise UnsupportedError(
            f"blocks are made like a {type(like).__name__}",
            Rule.UNSUPPORTED_BLOCKS.value,
        )
    return args


def _whole(number: Any) -> Any:
    """Return a whole number as int, or None."""
    if isinstance(number, int | np.integer) and not isinstance(number, bool):
        return int(number)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return None


def _check_exact(start: int, step: int, length: int, dtype: np.dtype) -> None:
    last = start + step * length
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = int(limits.min), min(int(limits.max), _LARGEST)
    else:
        high = _EXACT_FLOATS.get(dtype, 0)
        low = -high
    is_inside = low <= start <= high and low <= last <= high
    if not is_inside or abs(step) > _LARGEST:
        raise UnsupportedError(
            f"a range from {start} to {last} is not exact in {dtype}",
            Rule.UNSUPPORTED_DTYPE.value,
        )


def _function(
    step: int, dtype: np.dtype
) -> tuple[ScalarFunction, tuple[np.generic, ...]]:
    builder = FunctionBuilder()
    first, index = builder.input(0, _INT64), builder.index(0)
    if step != 1:
        index = builder.apply("multiply", index, builder.literal(np.int64(step)))
    value = builder.apply("add", first, index)
    return builder.build([builder.cast(value, dtype)]), builder.scalars
