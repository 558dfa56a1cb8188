"""What loads or makes blocks becomes part of the kernel's task, as with Dask itself."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

from dask_diffuse import Optimizer
from dask_diffuse.dask_api import (
    Alias,
    Task,
    convert_legacy_graph,
    optimize_array_graph,
)

HOOK = Optimizer(min_bytes=0, strict=True)
BLOCKS = 64


class Loader:
    """An array that is no array of NumPy, so that Dask loads it block by block."""

    shape = (80, 80)
    dtype = np.dtype(float)
    ndim = 2

    def __getitem__(self, index: object) -> np.ndarray:
        return np.arange(6400.0).reshape(self.shape)[index]


def loaded() -> da.Array:
    return da.from_array(Loader(), chunks=10)


def made() -> da.Array:
    return da.random.default_rng(1).random((80, 80), chunks=10)


def real_tasks(x: da.Array, hook: object = optimize_array_graph) -> dict[object, Task]:
    with dask.config.set(array_optimize=hook):
        (collection,) = dask.optimize(x)
    graph = convert_legacy_graph(dict(collection.dask))
    return {
        key: task
        for key, task in graph.items()
        if isinstance(task, Task) and not isinstance(task, Alias)
    }


@pytest.mark.parametrize("source", [loaded, made])
class TestSource:
    def test_is_part_of_the_kernel(self, source):
        x = source()
        y = np.exp(-x) * (x + 1)
        tasks = real_tasks(y, HOOK)
        assert len(tasks) == len(real_tasks(y)) == BLOCKS

    def test_is_loaded_once_if_two_groups_read_it(self, source):
        x = source()
        y = x - 2 * x.mean(axis=0)
        assert len(real_tasks(y, HOOK)) <= len(real_tasks(y))

    def test_that_is_wanted_itself_stays(self, source):
        x = source()
        y = np.exp(-x) * (x + 1)
        with dask.config.set(array_optimize=HOOK):
            a, b = dask.compute(x, y)
        np.testing.assert_allclose(b, np.exp(-a) * (a + 1), rtol=1e-15)

    def test_gives_the_same_values(self, source):
        x = source()
        y = (np.exp(-x) * (x + 1)).sum(axis=1)
        with dask.config.set(array_optimize=HOOK):
            result = y.compute()
        np.testing.assert_allclose(result, y.compute(), rtol=1e-14)


def test_the_scheduler_still_knows_who_loads():
    tasks = real_tasks(np.exp(loaded()) + 1, HOOK)
    assert all(task.data_producer for task in tasks.values())


def test_two_sources_of_one_kernel_stay_two_tasks():
    x, y = made(), da.random.default_rng(2).random((80, 80), chunks=10)
    z = np.exp(x) + y * 2
    assert len(real_tasks(z, HOOK)) == 3 * BLOCKS
