"""Comparing results: what counts as different."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dask_diffuse.apps import problem as module
from dask_diffuse.apps.problem import Difference, compare


def difference(ours, theirs, rtol=0.0, atol=0.0) -> Difference:
    return compare("x", ours, theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.0, np.nan, np.inf, -np.inf, -0.0]),
        np.array([1 + 2j, np.nan]),
        np.array([True, False]),
        np.array([1, 2], "uint8"),
        np.float64(3),
        np.zeros((0, 3)),
        np.array(["a", "b"]),
    ],
    ids=lambda value: str(value.dtype),
)
def test_the_same(value):
    assert difference(value, value.copy()) == Difference("x", 0.0, "none", True)


@pytest.mark.parametrize(
    ("ours", "theirs", "largest"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([1.0, np.nan], [1.0, 2.5], math.inf),
        ([np.inf], [1.0], math.inf),
        ([np.inf], [-np.inf], math.inf),
        ([3 + 4j], [0j], 5.0),
    ],
)
def test_differs(ours, theirs, largest):
    found = difference(np.array(ours), np.array(theirs))
    assert found.largest == largest
    assert not found.within


def test_integers_do_not_wrap_around():
    found = difference(np.array([0], "uint8"), np.array([255], "uint8"))
    assert found.largest == 255
    assert not found.within
    found = difference(np.array([True]), np.array([False]))
    assert found.largest == 1


@pytest.mark.parametrize(
    ("rtol", "atol", "within"),
    [(0.1, 0, True), (0.01, 0, False), (0, 5, True), (0, 4, False), (0.02, 3, True)],
)
def test_tolerance(rtol, atol, within):
    assert difference(np.array([105.0]), np.array([100.0]), rtol, atol).within is within


@pytest.mark.parametrize("rtol", [1.0, 1e300])
def test_no_tolerance_is_wide_enough_for_infinity(rtol):
    assert not difference(np.array([1.0]), np.array([np.inf]), rtol).within
    assert not difference(np.array([np.nan]), np.array([1.0]), rtol).within


def test_dtype_and_shape():
    found = difference(np.float32([1]), np.float64([1]), rtol=1)
    assert not found.within
    assert found.reason == "dtype is float32, not float64"
    found = difference(np.zeros(2), np.zeros((2, 1)))
    assert found.reason == "shape is (2,), not (2, 1)"


def test_tolerance_in_words():
    x = np.zeros(1)
    assert difference(x, x).allowed == "none"
    assert difference(x, x, 1e-9, 1e-11).allowed == "1e-09 relative plus 1e-11 absolute"


def test_looks_at_all_pieces(monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 10)
    ours = np.zeros((5, 7))
    for position in range(ours.size):
        theirs = ours.copy()
        theirs.flat[position] = 1
        assert not difference(ours, theirs).within
