"""A chain needs memory for its inputs and outputs, not for what lies between."""

from __future__ import annotations

import tracemalloc

import dask
import dask.array as da
import numpy as np

from tests.helpers import fused

BLOCK = 1 << 20
NBYTES = BLOCK * 8


def chain(x):
    y = x * 2 + 1
    for number in range(6):
        z = y * x - number
        y = (z + y) * (y - x)
    return y


def peak(array: da.Array) -> int:
    """Bytes that a computation allocates at most, beyond what was there before."""
    with dask.config.set(scheduler="sync"):
        array.compute()
        tracemalloc.start()
        try:
            array.compute()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_a_chain_that_is_reduced():
    x = da.from_array(np.linspace(0, 1, 4 * BLOCK), chunks=BLOCK).persist()
    y = chain(x).max()
    plain = peak(y)
    with fused() as activity:
        ours = peak(y)
    assert activity.calls == 8
    assert plain > 2 * NBYTES
    # Inputs are there already, and a block is reduced to one number.
    assert ours < NBYTES // 4


def test_a_chain_with_an_output():
    x = da.from_array(np.linspace(0, 1, 4 * BLOCK), chunks=BLOCK).persist()
    y = chain(x).map_blocks(lambda b: b[:1], dtype=float, chunks=(1,))
    plain = peak(y)
    with fused() as activity:
        ours = peak(y)
    assert activity.calls == 8
    assert plain > 2 * NBYTES
    # One block of output at a time, and what the last function keeps of each.
    assert ours < 4.5 * NBYTES


def test_nothing_is_left_behind():
    x = da.from_array(np.linspace(0, 1, 4 * BLOCK), chunks=BLOCK).persist()
    with fused(), dask.config.set(scheduler="sync"):
        chain(x).max().compute()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            chain(x).max().compute()
        left = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert left < NBYTES // 8
