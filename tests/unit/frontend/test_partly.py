"""What reads some blocks of a store only, and what reads all of them."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from dask.core import flatten

from dask_diffuse.frontend import import_graph
from dask_diffuse.ir.task import Opaque
from dask_diffuse.options import Options


def is_partly_read(array: da.Array, source: da.Array) -> bool:
    """Whether no layer of an array reads all blocks of a source."""
    requested = {key[0] for key in flatten(array.__dask_keys__())}
    program = import_graph(array.dask, requested, options=Options())
    readers = [program.tasks[number] for number in program.readers[source.name]]
    assert readers
    return all(
        isinstance(task.body, Opaque) and source.name in task.body.partly
        for task in readers
    )


@pytest.fixture
def x() -> da.Array:
    return da.from_array(np.zeros((80, 40)), chunks=10)


SOME = {
    "one block": lambda a: a[:10, :10],
    "a row of blocks": lambda a: a[:3],
    "one element": lambda a: a[5, 7],
    "all but a column of blocks": lambda a: a[:, :30],
    "blocks": lambda a: a.blocks[1:3],
}
ALL = {
    "reduction": lambda a: a.sum(),
    "reduction of an axis": lambda a: a.max(axis=1),
    "tree": lambda a: a.sum(split_every=2),
    "border cut off": lambda a: a[1:-1, 1:-1],
    "every other": lambda a: a[::2],
    "reversed": lambda a: a[::-1],
    "larger blocks": lambda a: a.rechunk(40),
    "smaller blocks": lambda a: a.rechunk(5),
    "other blocks": lambda a: a.rechunk((80, 5)),
    "concatenation": lambda a: da.concatenate([a, a]),
    "stack": lambda a: da.stack([a, a]),
    "reshape": lambda a: a.reshape(3200),
    "ravel": lambda a: a.ravel(),
    "product": lambda a: a @ a.T,
    "function": lambda a: a.map_blocks(np.sort),
    "overlap": lambda a: a.map_overlap(np.sort, depth=1, boundary="none"),
    "cumulative sum": lambda a: a.cumsum(axis=0),
    "roll": lambda a: da.roll(a, 3, axis=0),
    "broadcast": lambda a: da.broadcast_to(a, (2, 80, 40)),
    "argmax": lambda a: a.argmax(),
    "median": lambda a: da.median(a, axis=0),
    "top": lambda a: da.topk(a, 2, axis=0),
    "histogram": lambda a: da.histogram(a, bins=5, range=(0, 1))[0],
}


@pytest.mark.parametrize("case", SOME)
def test_some(x, case):
    source = x + 1
    assert is_partly_read(SOME[case](source), source)


@pytest.mark.parametrize("case", ALL)
def test_all(x, case):
    source = x + 1
    assert not is_partly_read(ALL[case](source), source)


def test_nearly_all():
    # What a difference along an axis of single steps reads.
    source = da.from_array(np.zeros((80, 40)), chunks=(1, 40)) + 1
    assert not is_partly_read(source[1:], source)
    assert not is_partly_read(source[:-1], source)
    assert is_partly_read(source[40:], source)
