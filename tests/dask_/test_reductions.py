"""Reductions of all kinds, from the blocks to the end of their combine trees."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest

from tests.helpers import EXACT, Tolerance, assert_same, fused
from tests.strategies import DTYPES, values

SHAPE, CHUNKS = (13, 6, 10), (5, 6, 4)
EXACT_REDUCTIONS = ("min", "max", "any", "all")
SUMS = ("sum", "prod", "mean", "var", "std")
NAN_REDUCTIONS = (
    "nansum",
    "nanprod",
    "nanmin",
    "nanmax",
    "nanmean",
    "nanvar",
    "nanstd",
)
AXES = (None, 0, 2, (0, 2), (1,), (2, 1, 0), -1)


def tame(dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Values of which products and variances stay small."""
    if dtype.kind in "fc":
        return values(dtype, SHAPE, seed, special=False)
    return (
        values(dtype, SHAPE, seed) % 3
        if dtype.kind in "iu"
        else values(dtype, SHAPE, seed)
    )


def bound(array: np.ndarray, name: str) -> Tolerance:
    """How far a sum may be off, added in another order: not in integers."""
    if array.dtype.kind not in "fc" and name in ("sum", "prod", "nansum", "nanprod"):
        return EXACT
    largest = float(np.nanmax(np.abs(array.astype("c16")), initial=1))
    epsilon = np.finfo(array.dtype).eps if array.dtype.kind in "fc" else None
    return Tolerance(rtol=1000, atol=1000 * largest**2, epsilon=epsilon)


def build(name: str, **kwargs):
    def program(x):
        y = x + x if x.dtype.kind != "b" else x ^ True
        module = da if isinstance(x, da.Array) else np
        return getattr(module, name)(y, **kwargs)

    return program


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*EXACT_REDUCTIONS, *SUMS])
def test_every_dtype(name, dtype):
    array = tame(dtype)
    is_complex_order = dtype.kind == "c" and name in ("min", "max")
    assert_same(
        build(name, axis=(0, 2)),
        (array, CHUNKS),
        tolerance=bound(array, name) if name in SUMS else EXACT,
        numpy=False,
        # NumPy orders complex numbers, and kernels need not.
        expect=None if is_complex_order or dtype.kind == "c" else "fused",
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
@pytest.mark.parametrize("name", NAN_REDUCTIONS)
def test_without_nan(name, dtype):
    array = tame(np.dtype(dtype))
    if array.dtype.kind in "fc":
        array[::2, 1] = np.nan
        array[3] = np.nan
    if name in ("nanmin", "nanmax") and array.dtype.kind == "c":
        pytest.skip("complex numbers have no order")
    for axis in (None, 0, (0, 2)):
        assert_same(
            build(name, axis=axis),
            (array, CHUNKS),
            tolerance=EXACT if name in ("nanmin", "nanmax") else bound(array, name),
            numpy=False,
            expect=None,
        )


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "max", "mean", "std", "any"])
def test_axes(name, axis, keepdims):
    array = tame(np.dtype("f8"))
    assert_same(
        build(name, axis=axis, keepdims=keepdims),
        (array, CHUNKS),
        tolerance=EXACT if name in EXACT_REDUCTIONS else bound(array, name),
        numpy_tolerance=bound(array, name),
    )


@pytest.mark.parametrize("split_every", [2, 3, 100, {0: 2, 2: 3}], ids=str)
@pytest.mark.parametrize("name", ["sum", "min", "mean", "var", "argmax"])
def test_combine_trees(name, split_every):
    axis = 0 if name == "argmax" else None
    array = tame(np.dtype("f8"))
    tolerance = EXACT if name in ("min", "argmax") else bound(array, name)
    if isinstance(split_every, dict) and name == "argmax":
        pytest.skip("Dask takes no dictionary here")
    assert_same(
        build(name, axis=axis, split_every=split_every),
        (array, (2, 3, 3)),
        tolerance=tolerance,
        numpy=False,
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i2", "c8"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std"])
def test_dtype_of_the_result(name, dtype):
    array = tame(np.dtype("f4"))
    if np.dtype(dtype).kind == "i" and name in ("var", "std"):
        pytest.skip("NumPy has no variance in integers")
    assert_same(
        build(name, axis=0, dtype=dtype),
        (array, CHUNKS),
        tolerance=bound(array, name),
        numpy=False,
        expect=None,
    )


@pytest.mark.parametrize("ddof", [0, 1, 5, 13])
@pytest.mark.parametrize("name", ["var", "std", "nanvar"])
def test_degrees_of_freedom(name, ddof):
    array = tame(np.dtype("f8"))
    assert_same(
        build(name, axis=0, ddof=ddof),
        (array, CHUNKS),
        tolerance=bound(array, name),
        numpy=False,
    )


class TestArgReductions:
    @pytest.mark.parametrize("name", ["argmin", "argmax", "nanargmin", "nanargmax"])
    @pytest.mark.parametrize("axis", [None, 0, 1, 2])
    @pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u8"])
    def test_ties_and_axes(self, name, axis, dtype):
        array = tame(np.dtype(dtype)).round()
        # Over all axes, Dask takes the first of several in the order of blocks.
        assert_same(
            build(name, axis=axis),
            (array, CHUNKS),
            numpy=axis is not None,
            numpy_tolerance=EXACT,
            expect=None,
        )

    @pytest.mark.parametrize("name", ["argmin", "argmax"])
    def test_nan_comes_first(self, name):
        array = tame(np.dtype("f8"))
        array[4, :, 2] = array[9, 3] = np.nan
        assert_same(build(name, axis=0), (array, CHUNKS))

    def test_are_fused_with_what_they_read(self):
        x = tame(np.dtype("f8"))
        activity = assert_same(
            lambda x: (np.argmax(x * x - 1, axis=0), (x * x - 1).min()), (x, CHUNKS)
        )
        assert activity.groups == 2  # One each for compute and persist.


class TestSpecialValues:
    ARRAY = values(np.dtype("f8"), SHAPE, 3)

    @pytest.mark.parametrize("name", EXACT_REDUCTIONS)
    def test_exact_ones(self, name):
        array = np.where(self.ARRAY == 0, 1.0, self.ARRAY)
        for axis in (None, 0, (1, 2)):
            assert_same(build(name, axis=axis), (array, CHUNKS))

    @pytest.mark.parametrize("name", SUMS)
    def test_nan_and_infinity_spread(self, name):
        assert_same(
            build(name, axis=(0, 1)),
            (self.ARRAY, CHUNKS),
            tolerance=Tolerance(rtol=1000, atol=1000),
            numpy=False,
        )

    def test_integers_wrap(self):
        for dtype in ("i1", "i8", "u4"):
            array = values(np.dtype(dtype), SHAPE, 1)
            assert_same(build("sum", axis=0), (array, CHUNKS), expect=None)
            assert_same(
                build("prod", axis=0, dtype=dtype), (array, CHUNKS), expect=None
            )

    def test_a_large_mean_and_a_small_variance(self):
        # The sum of squares minus the square of the sum would be all noise.
        array = 1e8 + np.random.default_rng(0).random((1000, 4))
        tolerance = Tolerance(rtol=1e9)
        for name in ("var", "std"):
            assert_same(
                build(name, axis=0),
                (array, (100, 4)),
                tolerance=tolerance,
                numpy_tolerance=tolerance,
            )

    def test_sums_are_as_accurate_as_those_of_numpy(self):
        array = np.random.default_rng(0).random(1 << 18).astype("f4")
        exact = float(np.sum(array, dtype="f8")) * 2
        x = da.from_array(array, chunks=-1)
        with fused() as activity:
            ours = float((x + x).sum().compute())
        theirs = float(np.sum(array + array))
        assert activity.calls == 1
        spacing = float(np.spacing(np.float32(exact)))
        assert abs(ours - exact) <= max(abs(theirs - exact), spacing)


class TestEmpty:
    @pytest.mark.parametrize("name", [*SUMS[:3], "any", "all", "min", "argmax"])
    def test_nothing_at_all(self, name):
        axis = 0 if name == "argmax" else None
        assert_same(
            build(name, axis=axis), (np.ones((0, 3)), (1, 3)), numpy=False, expect=None
        )

    @pytest.mark.parametrize("name", [*SUMS, *EXACT_REDUCTIONS])
    def test_empty_blocks_among_others(self, name):
        x = np.arange(20.0).reshape(4, 5)
        assert_same(
            build(name, axis=0),
            (x, ((2, 0, 2), (5, 0))),
            tolerance=bound(x, name),
            numpy=False,
            expect=None,
        )


class TestNeighbours:
    def test_cumulative_sums(self):
        x = np.arange(60.0).reshape(6, 10)
        assert_same(
            lambda x: np.cumsum(x * 2 + 1, axis=0) * 3, (x, (2, 5)), expect="fused"
        )

    def test_own_reductions(self):
        def program(x):
            return da.reduction(
                x * 2 + 1,
                chunk=lambda block, axis, keepdims: block.max(axis, keepdims=keepdims),
                aggregate=lambda b, axis, keepdims: b.max(axis, keepdims=keepdims),
                dtype=x.dtype,
                axis=0,
            )

        x = np.arange(60.0).reshape(6, 10)
        assert_same(program, (x, (2, 5)), numpy=False)

    def test_weights(self):
        x = np.arange(60.0).reshape(6, 10)
        weights = np.linspace(1, 2, 10)

        def program(x, weights):
            return (x * weights).sum(axis=1) / weights.sum()

        assert_same(program, (x, (2, 5)), (weights, 5), tolerance=bound(x, "sum"))

    def test_softmax(self):
        x = np.random.default_rng(0).normal(size=(12, 20))

        def program(x):
            e = np.exp(x - x.max(axis=1, keepdims=True))
            return (e / e.sum(axis=1, keepdims=True)).sum(axis=0)

        assert_same(program, (x, (4, 20)), tolerance=Tolerance(64, 64))
        assert_same(program, (x, (4, 5)), tolerance=Tolerance(64, 64))

    def test_moments_and_others(self):
        x = np.random.default_rng(0).normal(size=(12, 20))

        def program(x):
            y = np.sqrt(abs(x)) * 2
            return y.sum(), y.min(), y.max(), y.mean(), y.std()

        activity = assert_same(program, (x, (4, 20)), tolerance=Tolerance(64, 64))
        assert activity.groups == 2
        with dask.config.set(scheduler="threads"):
            assert_same(
                program, (x, (4, 5)), tolerance=Tolerance(64, 64), scheduler="threads"
            )
