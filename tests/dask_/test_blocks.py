"""Blocks of all kinds: kernels run on what they were planned for, NumPy on the rest."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

from tests.helpers import assert_same, assert_same_value, fused

X = np.linspace(-3, 3, 35).reshape(7, 5)


@pytest.fixture(autouse=True)
def _sync():
    with dask.config.set(scheduler="sync"):
        yield


def affine(x):
    return (x * 2 + 1) * x


def affine_and_sum(x):
    y = affine(x)
    return y, y.max(axis=0)


class TestLayouts:
    @pytest.mark.parametrize(
        "make",
        [
            np.ascontiguousarray,
            np.asfortranarray,
            lambda x: x[::-1],
            lambda x: x[:, ::-1],
            lambda x: x[::2, ::3],
            lambda x: x.T,
            lambda x: np.broadcast_to(x[0], x.shape),
            lambda x: np.broadcast_to(x[:, :1], x.shape),
            lambda x: np.broadcast_to(x[:1, :1], x.shape),
        ],
        ids=["C", "F", "rows-back", "cols-back", "steps", "T", "row", "column", "one"],
    )
    def test_strides(self, make):
        array = make(X)
        chunks = (array.shape[0] // 2 or 1, array.shape[1])
        activity = assert_same(affine_and_sum, (array, chunks))
        assert not activity.fallbacks

        # The same without the copy that from_array makes of its source.
        def load():
            return make(X)

        x = da.from_delayed(dask.delayed(load)(), array.shape, array.dtype)
        with fused() as activity:
            y, z = dask.compute(*affine_and_sum(x))
        np.testing.assert_array_equal(y, affine(array))
        np.testing.assert_array_equal(z, affine(array).max(axis=0))
        assert activity.calls == 1

    @pytest.mark.parametrize("name", ["ones", "zeros", "full", "arange", "linspace"])
    def test_made_arrays(self, name):
        make = {
            "ones": lambda: da.ones((7, 5), chunks=3),
            "zeros": lambda: da.zeros((7, 5), chunks=3),
            "full": lambda: da.full((7, 5), 3, chunks=3),
            "arange": lambda: da.arange(35, chunks=8),
            "linspace": lambda: da.linspace(0, 1, 35, chunks=8),
        }[name]
        expected = affine(make().compute())
        with fused() as activity:
            actual = affine(make()).compute()
        assert_same_value(actual, expected)
        assert activity.calls

    @pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (1,), (1, 1), (3, 0, 2)])
    def test_empty_and_tiny(self, shape):
        assert_same(affine, (np.ones(shape), 2), expect=None)

    def test_empty_blocks_among_others(self):
        assert_same(affine_and_sum, (X, ((3, 0, 4), (0, 5))))

    def test_zero_dimensional(self):
        assert_same(affine, np.array(3.0), expect=None)
        assert_same(lambda x, y: x * y + x, (X, 3), np.array(3.0))

    def test_unaligned(self):
        raw = np.zeros(X.nbytes + 1, np.uint8)
        array = raw[1:].view(X.dtype).reshape(X.shape)
        array[:] = X
        assert not array.flags.aligned
        x = da.from_delayed(dask.delayed(lambda: array)(), X.shape, X.dtype)
        with fused() as activity:
            np.testing.assert_array_equal(affine(x).compute(), affine(X))
        assert activity.calls == 1
        assert not activity.fallbacks

    def test_a_field_of_a_structured_array(self):
        array = np.zeros(20, [("a", "i1"), ("b", "f8")])
        array["b"] = np.arange(20)
        x = da.from_array(array, chunks=7)
        with fused():
            result = affine(x["b"]).compute()
        np.testing.assert_array_equal(result, affine(np.arange(20.0)))


class TestDtypes:
    @pytest.mark.parametrize("dtype", [">f8", ">i4", "f2", "g", "O", ">c16"])
    def test_what_kernels_do_not_handle(self, dtype):
        assert_same(affine, (X.astype(dtype), 3), expect=None)

    def test_dates(self):
        days = np.datetime64("2000-01-01") + np.arange(10)
        assert_same(lambda x: (x - x[0]) * 2 + (x - x), (days, 3), expect=None)
        assert_same(lambda x: (x == x) & (x > days[3]), (days, 3), expect=None)

    def test_strings(self):
        words = np.array(["a", "b", "a"])
        assert_same(lambda x: (x == "a") | (x == "b"), (words, 2), expect=None)

    def test_swapped_bytes_beside_native_ones(self):
        assert_same(lambda x, y: (x + 1) * y, (X, 3), (X.astype(">f8"), 3), expect=None)


class NotQuiteArray(np.ndarray):
    """A subclass that changes what an operation means."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [np.asarray(x) for x in inputs]
        return getattr(ufunc, method)(*plain, **kwargs) + 1000


class Duck:
    """Something that Dask takes for an array and that is none of NumPy's."""

    def __init__(self, array):
        self.array = np.asarray(array)

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)
    ndim = property(lambda self: self.array.ndim)

    def __getitem__(self, index):
        return Duck(self.array[index])

    def __array__(self, dtype=None, copy=None):
        return self.array

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [x.array if isinstance(x, Duck) else x for x in inputs]
        return Duck(getattr(ufunc, method)(*plain, **kwargs))

    def __array_function__(self, func, types, args, kwargs):
        return NotImplemented

    def __mul__(self, other):
        return np.multiply(self, other)

    def __add__(self, other):
        return np.add(self, other)


class TestTypes:
    def test_masked_arrays(self):
        x = da.ma.masked_greater(da.from_array(X, chunks=3), 1)
        expected = affine(x).compute()
        with fused():
            actual = affine(x).compute()
            total = (affine(x) + 1).sum().compute()
        assert type(actual) is np.ma.MaskedArray
        np.testing.assert_array_equal(actual.mask, expected.mask)
        np.testing.assert_array_equal(actual.filled(0), expected.filled(0))
        assert total == pytest.approx((expected + 1).sum())

    def test_filled_masked_arrays(self):
        x = da.ma.masked_greater(da.from_array(X, chunks=3), 1)
        expected = affine(da.ma.filled(x, 7)).compute()
        with fused():
            np.testing.assert_array_equal(
                affine(da.ma.filled(x, 7)).compute(), expected
            )

    @pytest.mark.filterwarnings("ignore:the matrix subclass")
    @pytest.mark.parametrize("kind", [np.matrix, NotQuiteArray, np.ma.array, Duck])
    def test_blocks_that_nobody_announced(self, kind):
        # Dask believes what it is told about a Delayed; the blocks are something else.
        def load():
            return (
                X[:5].view(kind)
                if isinstance(kind, type) and issubclass(kind, np.ndarray)
                else kind(X[:5])
            )

        x = da.from_delayed(dask.delayed(load)(), (5, 5), X.dtype)
        y = affine(x)
        expected = dask.compute(y.to_delayed()[0, 0])[0]
        with fused() as activity:
            actual = dask.compute(y.to_delayed()[0, 0])[0]
        assert type(actual) is type(expected)
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
        assert activity.fallbacks == {"block-type": 1}

    @pytest.mark.parametrize(
        ("block", "reason"),
        [
            (X.astype("f4"), "block-dtype"),
            (X.astype(">f8"), "block-dtype"),
            ((X * 10).astype(int), "block-dtype"),
            (X[0], "block-ndim"),
            (X[None], "block-ndim"),
            ([[1.0, 2.0]], "block-type"),
            (3.0, "block-type"),
        ],
        ids=["f4", "bytes", "int", "row", "deep", "list", "float"],
    )
    def test_blocks_that_are_not_what_they_claim_to_be(self, block, reason):
        x = da.from_delayed(dask.delayed(lambda: block)(), X.shape, X.dtype)
        y = (x + 1) * np.float64(2)
        with dask.config.set(array_optimize=None):
            expected, failure = self.outcome(y)
        with fused() as activity:
            actual, same = self.outcome(y)
        assert type(same) is type(failure)
        if failure is None:
            assert_same_value(actual, expected)
        assert activity.fallbacks == {reason: 1}

    @staticmethod
    def outcome(x):
        try:
            return dask.compute(x.to_delayed().ravel()[0])[0], None
        except Exception as error:
            return None, error

    def test_a_wrong_dtype_of_map_blocks(self):
        x = da.from_array(X, chunks=3)
        y = x.map_blocks(lambda b: b.astype("f4"), dtype="f8")
        expected = (y * 2 + 1).persist().blocks[0, 0].compute()
        with fused() as activity:
            actual = (y * 2 + 1).persist().blocks[0, 0].compute()
        assert_same_value(actual, expected)
        assert "block-dtype" in activity.fallbacks

    def test_blocks_of_other_shapes_than_announced(self):
        # The length of a block is that of the block, whatever the chunks say.
        x = da.from_delayed(dask.delayed(lambda: X[:3])(), X.shape, X.dtype)
        with fused() as activity:
            result = dask.compute(affine(x).to_delayed()[0, 0])[0]
        np.testing.assert_array_equal(result, affine(X[:3]))
        assert activity.tasks == 1

    def test_blocks_that_do_not_fit_each_other(self):
        x = da.from_array(X, chunks=-1)
        y = da.from_delayed(dask.delayed(lambda: X[:3])(), X.shape, X.dtype)
        with fused() as activity, pytest.raises(ValueError, match="broadcast"):
            (affine(x) + y).compute()
        assert activity.fallbacks == {"block-shape": 1}

    def test_blocks_that_broadcast_though_nobody_said_so(self):
        x = da.from_array(X, chunks=-1)
        y = da.from_delayed(dask.delayed(lambda: X[:1])(), X.shape, X.dtype)
        with fused() as activity:
            result = (affine(x) + y).compute()
        np.testing.assert_array_equal(result, affine(X) + X[:1])
        assert activity.fallbacks == {"block-shape": 1}


class TestInputs:
    def test_are_never_written_to(self):
        array = X.copy()
        blocks = [dask.delayed(lambda: array)() for _ in range(2)]
        x = da.concatenate([da.from_delayed(b, X.shape, X.dtype) for b in blocks])
        with fused():
            dask.compute(affine(x), x + 1, -x, np.exp(x), x.sum())
        np.testing.assert_array_equal(array, X)

    def test_results_do_not_share_memory_with_inputs(self):
        x = da.from_array(X, chunks=3).persist()
        with fused():
            result = affine(x).persist()
        blocks = [b for b in x.dask.values() if isinstance(b, np.ndarray)]
        for key in dask.core.flatten(result.__dask_keys__()):
            mine = result.dask[key]
            assert not any(np.shares_memory(mine, block) for block in blocks)

    def test_user_functions_may_write_to_what_they_get(self):
        # As with Dask itself, a block made for one reader is the reader's.
        def clear(block):
            block = np.array(block)
            block[:] = 0
            return block

        x = da.from_array(X, chunks=3)
        y = affine(x)
        with fused():
            zeros, values = dask.compute(y.map_blocks(clear, dtype=y.dtype), y + 0)
        assert not zeros.any()
        np.testing.assert_array_equal(values, affine(X))
