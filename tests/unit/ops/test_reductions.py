from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.ops import REDUCTIONS

X = np.random.default_rng(0).normal(size=(3, 4, 5))
AXES = [(0,), (1,), (2,), (0, 2), (0, 1, 2)]
NAMES = {"fmin": np.fmin.reduce, "fmax": np.fmax.reduce}


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize(
    "name", ["sum", "prod", "min", "max", "fmin", "fmax", "any", "all"]
)
def test_evaluate_is_numpy(name: str, axes: tuple[int, ...]):
    function = NAMES.get(name) or getattr(np, name)
    values = np.where(X > 1, np.nan, X) if name[0] == "f" else X
    values = values > 0.5 if name in ("any", "all") else values
    expected = function(values, axis=axes, keepdims=True)
    row = REDUCTIONS[name]
    (actual,) = row.evaluate((values,), axes, expected.dtype)
    np.testing.assert_array_equal(actual, expected, strict=True)
    assert row.num_results == 1


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_positions_count_in_c_order(name: str, axes: tuple[int, ...]):
    row = REDUCTIONS[name]
    value, position = row.evaluate((X,), axes, X.dtype)
    expected = np.min if name == "argmin" else np.max
    np.testing.assert_array_equal(value, expected(X, axis=axes, keepdims=True))
    lengths = [X.shape[axis] for axis in axes]
    places = np.unravel_index(position, lengths)
    index = list(np.indices(value.shape, sparse=True))
    for axis, place in zip(axes, places, strict=True):
        index[axis] = place
    np.testing.assert_array_equal(X[tuple(index)], value)
    assert position.dtype == np.int64
    assert row.is_arg
    assert row.num_results == 2


def test_first_of_equals():
    value = np.array([[1.0, 3.0, 3.0]])
    _, position = REDUCTIONS["argmax"].evaluate((value,), (1,), value.dtype)
    assert position == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_moments(dtype: str, axes: tuple[int, ...]):
    x = X.astype(dtype)
    count, total, m2 = REDUCTIONS["moments"].evaluate((x,), axes, np.dtype(dtype))
    size = np.prod([x.shape[axis] for axis in axes])
    assert (count == size).all()
    np.testing.assert_allclose(total, x.sum(axes, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(m2 / size, x.var(axes, keepdims=True), rtol=1e-4)
    assert (count.dtype, total.dtype, m2.dtype) == (np.int64, x.dtype, x.dtype)


def test_moments_of_nothing():
    x = np.ones((2, 3))
    valid = np.array([[True, False, False], [True, False, True]])
    count, total, m2 = REDUCTIONS["moments"].evaluate((x, valid), (0,), x.dtype)
    np.testing.assert_array_equal(count, [[2, 0, 1]])
    np.testing.assert_array_equal(total, [[2, 0, 1]])
    np.testing.assert_array_equal(m2, [[0, 0, 0]])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_identity(name: str):
    row = REDUCTIONS[name]
    assert repr(row) == f"<ReductionOp {name}>"
    if row.identity is None:
        return
    if name == "moments":
        count, total, m2 = row.evaluate((np.ones((0, 2)),), (0,), np.dtype("f8"))
        assert not count.any()
        assert not total.any()
        assert not m2.any()
        return
    dtype = np.dtype(bool) if name in ("any", "all") else np.dtype("f8")
    (empty,) = row.evaluate((np.ones((0, 2), dtype),), (0,), dtype)
    np.testing.assert_array_equal(empty, np.full((1, 2), row.identity))
