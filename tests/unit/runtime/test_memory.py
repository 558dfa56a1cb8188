from __future__ import annotations

import threading

import numpy as np
import pytest

from dask_diffuse.runtime.memory import (
    LINE,
    ThreadMemory,
    address_of,
    aligned_address,
)

X = np.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    "array",
    [
        *(X, X.T, X[1:, ::2], X[::-1], X[2, 3], X[:, :0], np.zeros((), "i2")),
        np.broadcast_to(X[0], (5, 6)),
        np.zeros(3, [("a", "f8"), ("b", "i1")]),
    ],
)
def test_address_of(array):
    array = np.asarray(array)
    assert address_of(array) == array.ctypes.data


def test_address_of_read_only_arrays():
    array = X.copy()
    array.flags.writeable = False
    assert address_of(array) == array.ctypes.data


def test_aligned_address():
    memory = np.empty(1000, np.uint8)
    for offset in range(LINE + 1):
        address = aligned_address(memory[offset:])
        assert address % LINE == 0
        assert 0 <= address - address_of(memory[offset:]) < LINE


class TestThreadMemory:
    def test_grows(self):
        memory = ThreadMemory()
        for size in (10, 100_000):
            memory.grow(size)
            assert memory.size >= size
            assert memory.address % LINE == 0

    def test_threads_have_their_own(self):
        memory = ThreadMemory()
        memory.grow(10)
        seen = []

        def work() -> None:
            seen.append(memory.size)
            memory.grow(10)
            seen.append(memory.address)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen[0] == 0
        assert seen[1] != memory.address
