"""Every way in which Dask calls the hook ends in the same results."""

from __future__ import annotations

import shutil

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

import dask_diffuse
from tests.helpers import fused

X = np.arange(600.0).reshape(20, 30) / 7
Y = np.cos(X)


@pytest.fixture(params=["sync", "threads"])
def _scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield


pytestmark = pytest.mark.usefixtures("_scheduler")


def inputs() -> tuple[da.Array, da.Array]:
    return da.from_array(X, chunks=(10, 10)), da.from_array(Y, chunks=(10, 10))


def affine(x, y):
    return (x - y) * 2 + x * y


class TestCompute:
    def test_one_collection(self):
        with fused() as activity:
            result = affine(*inputs()).compute()
        np.testing.assert_array_equal(result, affine(X, Y))
        assert activity.groups == 1
        assert activity.calls == 6

    def test_as_numpy_does_it(self):
        x, y = inputs()
        with fused() as activity:
            np.testing.assert_array_equal(np.asarray(affine(x, y)), affine(X, Y))
            assert float(affine(x, y).min()) == affine(X, Y).min()
            assert bool((affine(x, y) > -100).all())
        assert activity.graphs == 3

    def test_several_collections_in_one_graph(self):
        x, y = inputs()
        z = affine(x, y)
        with fused() as activity:
            results = dask.compute(z, {"a": [z + 1, z.max(axis=0)]}, 5)
        expected = affine(X, Y)
        np.testing.assert_array_equal(results[0], expected)
        np.testing.assert_array_equal(results[1]["a"][0], expected + 1)
        np.testing.assert_array_equal(results[1]["a"][1], expected.max(axis=0))
        assert results[2] == 5
        assert activity.graphs == 1
        # All of it is one launch domain: one kernel with three outputs.
        assert activity.calls == 6

    def test_without_merging_collections(self):
        x, y = inputs()
        with dask.config.set({"optimization.tune.active": False}), fused() as activity:
            a, b = dask.compute(affine(x, y), affine(y, x))
        np.testing.assert_array_equal(a, affine(X, Y))
        np.testing.assert_array_equal(b, affine(Y, X))
        assert activity.graphs == 2

    def test_without_optimization(self):
        with fused() as activity:
            result = affine(*inputs()).compute(optimize_graph=False)
        np.testing.assert_array_equal(result, affine(X, Y))
        assert not activity.graphs

    def test_a_single_block(self):
        x = da.from_array(X, chunks=-1)
        with fused() as activity:
            result = (x * 2 + 1).compute()
        np.testing.assert_array_equal(result, X * 2 + 1)
        assert activity.calls == 1

    def test_results_can_be_written_to(self):
        x, _ = inputs()
        with fused():
            result = (x * 2 + 1).compute()
        result[:] = 0
        assert not np.array_equal(x.compute(), result)

    def test_zero_dimensional_results_are_numpy_scalars(self):
        x, y = inputs()
        with fused() as activity:
            result = (x * y).max().compute()
        assert type(result) is np.float64
        assert result == (X * Y).max()
        assert activity.calls == 6

    def test_arrays_computed_in_the_context_but_built_outside(self):
        z = affine(*inputs())
        with fused() as activity:
            z.compute()
        assert activity.calls == 6

    def test_arrays_computed_outside_the_context(self):
        with fused() as activity:
            z = affine(*inputs())
        z.compute()
        assert not activity.graphs


class TestPersist:
    def test_keys_and_blocks_stay(self):
        z = affine(*inputs())
        with fused() as activity:
            persisted = z.persist()
        assert persisted.__dask_keys__() == z.__dask_keys__()
        assert persisted.chunks == z.chunks
        assert len(persisted.dask) == 6
        np.testing.assert_array_equal(persisted.compute(), affine(X, Y))
        assert activity.calls == 6

    def test_several_at_once(self):
        x, y = inputs()
        with fused() as activity:
            a, b = dask.persist(affine(x, y), affine(x, y).sum(axis=1))
        np.testing.assert_array_equal(a.compute(), affine(X, Y))
        np.testing.assert_allclose(b.compute(), affine(X, Y).sum(axis=1))
        assert activity.graphs == 1

    def test_an_array_that_is_both_wanted_and_read(self):
        x, y = inputs()
        a = x * y
        b = a + 1
        with fused() as activity:
            a, b = dask.persist(a, b)
        np.testing.assert_array_equal(a.compute(), X * Y)
        np.testing.assert_array_equal(b.compute(), X * Y + 1)
        assert activity.calls == 6

    def test_what_was_persisted_is_read_as_data(self):
        x, y = inputs()
        with fused() as activity:
            z = affine(x, y).persist()
            again = (z * 3 - 1).compute()
        np.testing.assert_array_equal(again, affine(X, Y) * 3 - 1)
        assert activity.calls == 12

    def test_some_blocks_only(self):
        z = affine(*inputs())
        with fused():
            block = z.blocks[1, 2].persist()
            part = z.partitions[0].compute()
        np.testing.assert_array_equal(block.compute(), affine(X, Y)[10:, 20:])
        np.testing.assert_array_equal(part, affine(X, Y)[:10])


class TestOptimize:
    def test_optimized_collections_pass_through(self):
        x, y = inputs()
        with fused() as activity:
            a, b = dask.optimize(affine(x, y), affine(y, x))
            assert activity.calls == 0
            results = dask.compute(a, b, a + b)
        np.testing.assert_array_equal(results[0], affine(X, Y))
        np.testing.assert_array_equal(results[1], affine(Y, X))
        np.testing.assert_array_equal(results[2], affine(X, Y) + affine(Y, X))

    def test_optimized_collections_work_without_the_hook(self):
        with fused():
            (a,) = dask.optimize(affine(*inputs()))
        np.testing.assert_array_equal((a + 1).compute(), affine(X, Y) + 1)

    def test_shared_work_of_collections_optimized_apart(self):
        # Dask merges the graphs as dicts: equal keys have to mean equal values.
        x, y = inputs()
        shared = x * y
        with fused():
            a, b = dask.optimize(shared + 1, shared - 1)
            results = dask.compute(a, b, shared)
        np.testing.assert_array_equal(results[0], X * Y + 1)
        np.testing.assert_array_equal(results[1], X * Y - 1)
        np.testing.assert_array_equal(results[2], X * Y)

    @pytest.mark.skipif(not shutil.which("dot"), reason="needs the program dot")
    @pytest.mark.parametrize("optimize_graph", [True, False])
    def test_visualize(self, tmp_path, optimize_graph):
        z = affine(*inputs())
        with fused() as activity:
            z.visualize(str(tmp_path / "graph.svg"), optimize_graph=optimize_graph)
        assert (tmp_path / "graph.svg").exists()
        assert activity.graphs == optimize_graph
        assert not activity.calls

    def test_to_delayed(self):
        z = affine(*inputs())
        with fused():
            blocks = z.to_delayed()
            block = dask.compute(blocks[1, 0])[0]
        np.testing.assert_array_equal(block, affine(X, Y)[10:, :10])


class TestStore:
    def test_into_an_array(self):
        target = np.zeros_like(X)
        with fused() as activity:
            affine(*inputs()).store(target)
        np.testing.assert_array_equal(target, affine(X, Y))
        assert activity.calls == 6

    def test_several_targets(self):
        x, y = inputs()
        targets = [np.zeros_like(X), np.zeros_like(X)]
        with fused() as activity:
            da.store([affine(x, y), affine(y, x)], targets)
        np.testing.assert_array_equal(targets[0], affine(X, Y))
        np.testing.assert_array_equal(targets[1], affine(Y, X))
        assert activity.calls >= 6

    def test_return_stored(self):
        target = np.zeros_like(X)
        with fused():
            stored = affine(*inputs()).store(target, return_stored=True)
            np.testing.assert_array_equal((stored + 1).compute(), affine(X, Y) + 1)
        np.testing.assert_array_equal(target, affine(X, Y))

    def test_later(self):
        target = np.zeros_like(X)
        with fused() as activity:
            later = affine(*inputs()).store(target, compute=False)
            assert not target.any()
            dask.compute(later)
        np.testing.assert_array_equal(target, affine(X, Y))
        assert activity.calls == 6

    def test_zarr_there_and_back(self, tmp_path):
        path = str(tmp_path / "z.zarr")
        with fused() as activity:
            affine(*inputs()).to_zarr(path)
            back = (da.from_zarr(path) * 2 + 1).compute()
        np.testing.assert_array_equal(zarr.open(path)[:], affine(X, Y))
        np.testing.assert_array_equal(back, affine(X, Y) * 2 + 1)
        assert activity.calls == 12

    def test_npy_stack(self, tmp_path):
        with fused():
            da.to_npy_stack(str(tmp_path), affine(*inputs()).rechunk({1: -1}))
        back = da.from_npy_stack(str(tmp_path)).compute()
        np.testing.assert_array_equal(back, affine(X, Y))


class TestDelayed:
    def test_an_array_as_an_argument(self):
        total = dask.delayed(lambda array: array.sum())
        with fused() as activity:
            result = total(affine(*inputs())).compute()
        assert result == affine(X, Y).sum()
        assert activity.calls == 6

    def test_arrays_from_delayed(self):
        x = da.from_delayed(dask.delayed(lambda: X)(), X.shape, X.dtype)
        with fused() as activity:
            result = (x * 2 + 1).compute()
        np.testing.assert_array_equal(result, X * 2 + 1)
        assert activity.calls == 1

    def test_arrays_and_delayed_in_one_compute(self):
        x, y = inputs()
        number = dask.delayed(sum)([1, 2])
        with fused():
            array, result = dask.compute(affine(x, y), number)
        np.testing.assert_array_equal(array, affine(X, Y))
        assert result == 3

    def test_an_array_as_a_keyword(self):
        x, y = inputs()

        def add_total(block, *, total):
            return block + total.max()

        with fused() as activity:
            moved = x.map_blocks(add_total, total=x * y + 1, dtype=x.dtype)
            result = (moved * 2 + 1).compute()
        np.testing.assert_array_equal(result, (X + (X * Y + 1).max()) * 2 + 1)
        assert activity.graphs == 2


class TestOrder:
    """Collections keep their order, whatever else is computed with them."""

    def test_many_arrays(self):
        x, y = inputs()
        with fused():
            results = dask.compute(x + 1, y.sum(), x * y, x.max(axis=1))
        np.testing.assert_array_equal(results[0], X + 1)
        assert results[1] == pytest.approx(Y.sum(), abs=1e-12)
        np.testing.assert_array_equal(results[2], X * Y)
        np.testing.assert_array_equal(results[3], X.max(axis=1))


def test_by_hand_with_dask_config():
    with dask.config.set(
        {"array_optimize": dask_diffuse.optimize, "diffuse.min-bytes": 0}
    ):
        result = affine(*inputs()).compute()
    np.testing.assert_array_equal(result, affine(X, Y))
