from __future__ import annotations

import dask.array as da
import numpy as np
import pytest


class Arrays:
    """Small arrays of every kind, cut into unequal blocks."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        values = rng.normal(size=(7, 9)) * 3
        values[0, 0], values[3, 4], values[6, 8] = np.nan, np.inf, -np.inf
        values[1, 1], values[2, 2] = 0.0, -0.0
        cut = {"chunks": (3, 4)}
        self.x = da.from_array(values, **cut)
        self.y = da.from_array(rng.normal(size=(7, 9)), **cut)
        self.p = da.from_array(rng.uniform(0.1, 0.9, size=(7, 9)), **cut)
        self.f = da.from_array(rng.normal(size=(7, 9)).astype("f4"), **cut)
        self.i = da.from_array(rng.integers(-9, 9, size=(7, 9)), **cut)
        self.h = da.from_array(rng.integers(-9, 9, size=(7, 9)).astype("i2"), **cut)
        self.u = da.from_array(rng.integers(0, 9, size=(7, 9)).astype("u1"), **cut)
        self.m = da.from_array(values > 0, **cut)
        self.z = da.from_array(
            rng.normal(size=(7, 9)) + 1j * rng.normal(size=(7, 9)), **cut
        )
        self.v = da.from_array(rng.normal(size=9), chunks=4)
        self.w = da.from_array(rng.normal(size=7), chunks=3)
        self.r = da.from_array(rng.normal(size=(1, 9)), chunks=(1, 4))
        self.c = da.from_array(rng.normal(size=(7, 1)), chunks=(3, 1))
        self.s = da.from_array(np.array(2.5), chunks=())
        self.t = da.from_array(rng.normal(size=(9, 7)), chunks=(4, 3))
        self.cube = da.from_array(rng.normal(size=(4, 5, 6)), chunks=(2, 3, 6))


@pytest.fixture(scope="session")
def a() -> Arrays:
    return Arrays()
