"""Kernels that run inside the first step of a reduction, where blocks are small."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

from dask_diffuse import Optimizer
from dask_diffuse.dask_api import HighLevelGraph

RNG = np.random.default_rng(5)


def blocks_of(size: int, chunk: int) -> da.Array:
    return da.from_array(RNG.random((size, size)), chunks=chunk).persist()


def optimized(*arrays: da.Array) -> HighLevelGraph:
    graph = HighLevelGraph.merge(*(array.dask for array in arrays))
    keys = [array.__dask_keys__() for array in arrays]
    return Optimizer(min_bytes=0, strict=True)(graph, keys)


def program(x: da.Array) -> da.Array:
    return (np.exp(-x) * (x + 1) - x * x / 3).sum()


def run_directly(graph: HighLevelGraph, array: da.Array) -> object:
    return dask.get(dict(graph), array.__dask_keys__())


def test_many_small_blocks_are_made_where_they_are_combined():
    x = blocks_of(320, 10)
    y = program(x)
    graph = optimized(y)
    assert len(dict(graph)) == 1024 + 256 + 64 + 16 + 4 + 1 + 1
    assert run_directly(graph, y) == pytest.approx(y.compute(), rel=1e-14)


@pytest.mark.parametrize("axis", [0, 1])
def test_along_one_axis(axis: int):
    x = blocks_of(320, 10)
    y = (x * 2 + 1).mean(axis=axis)
    graph = optimized(y)
    assert len(dict(graph)) < 1024 + 1024
    (result,) = dask.compute(y, array_optimize=Optimizer(min_bytes=0, strict=True))
    np.testing.assert_allclose(result, y.compute(), rtol=1e-14)


def test_few_tasks_stay_as_many_as_they_are():
    x = blocks_of(80, 10)
    graph = optimized(program(x))
    assert len(dict(graph)) == 64 + 64 + 16 + 4 + 1 + 1


def test_large_blocks_are_not_gathered():
    x = da.ones((16 * 400, 16 * 400), chunks=400) * 1
    x = x.map_blocks(lambda block: block, dtype=x.dtype)
    graph = optimized(program(x))
    name = next(name for name in graph.layers if name.startswith("sum-"))
    assert any(
        layer.is_materialized() is False and len(layer) == 256
        for name, layer in graph.layers.items()
        if name.startswith("sum-")
    ), name


def test_blocks_that_others_read_stay_blocks():
    x = blocks_of(320, 10)
    y = program(x)
    # The name of the blocks before they are combined.
    (name,) = (
        n
        for n in y.dask.layers
        if n.startswith("sum-") and len(y.dask.layers[n]) == 1024
    )
    partial = da.Array(y.dask, name, ((1,) * 32, (1,) * 32), dtype=float)
    graph = optimized(y, partial)
    assert len(graph.layers[name]) == 1024


def test_annotated_layers_stay_apart():
    x = blocks_of(320, 10)
    with dask.annotate(priority=3):
        y = program(x)
    assert len(dict(optimized(y))) == 1024 + 1024 + 256 + 64 + 16 + 4 + 1 + 1


def test_pickled_for_a_scheduler_elsewhere():
    import pickle

    x = blocks_of(320, 10)
    y = program(x)
    graph = pickle.loads(pickle.dumps(optimized(y)))
    assert run_directly(graph, y) == pytest.approx(y.compute(), rel=1e-14)
