"""Ranges are made inside kernels: Dask's own tasks for them are gone."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

from dask_diffuse.dask_api import Blockwise
from dask_diffuse.optimizer import Optimizer
from tests.helpers import fused

PROGRAMS = {
    "one axis": lambda: da.arange(20, chunks=6) * 2 + 1,
    "summed": lambda: (da.arange(5, 25, 3, chunks=4) ** 2).sum(),
    "floats": lambda: da.arange(10.0, chunks=3) * 2 - da.ones(10, chunks=3),
    "small ints": lambda: da.arange(-5, 15, chunks=7, dtype="i2") // 3 + 1,
    "with its mirror image": lambda: (
        da.arange(20, chunks=5)[::-1] + da.arange(20, chunks=5) * 2
    ),
    "twice": lambda: (lambda r: (r * 2 + 1) + r.sum())(da.arange(9, chunks=4)),
    "blocks of one": lambda: da.arange(3, chunks=1) * 2 + 1,
}


@pytest.mark.parametrize("backend", ["auto", "interpreter"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_numbers(name, backend):
    array = PROGRAMS[name]()
    expected = array.compute(scheduler="sync")
    with fused(backend=backend) as activity:
        got = array.compute(scheduler="sync")
        (kept,) = dask.persist(array, scheduler="sync")
    assert activity.groups
    for result in (got, kept.compute(scheduler="sync")):
        assert np.asarray(result).dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_no_task_of_the_range_is_left():
    array = da.arange(20, chunks=6) * 2 + 1
    graph = Optimizer(min_bytes=0, strict=True)(array.dask, array.__dask_keys__())
    assert not any(name.startswith("arange") for name in graph.layers)
    (layer,) = (x for x in graph.layers.values() if isinstance(x, Blockwise))
    assert len(layer) == 4


def test_a_range_that_others_read_stays():
    array = da.arange(20, chunks=5)
    total = (array * 2 + 1).sum() + array.reshape(4, 5).map_blocks(np.cumsum, axis=1)
    expected = total.compute(scheduler="sync")
    with fused():
        got = total.compute(scheduler="sync")
    np.testing.assert_array_equal(got, expected)
