"""No block is loaded that Dask would not load."""

from __future__ import annotations

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest

import dask_diffuse


class Loads:
    """Counts how often a block of an array is loaded."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def array(self, name: str) -> da.Array:
        def load(block_id):
            self.counts[name] += 1
            return np.full((5, 5), 1.0 + sum(block_id))

        return da.map_blocks(
            load, chunks=((5,) * 8, (5,) * 2), dtype=float, meta=np.empty((0, 0))
        )


PROGRAMS = {
    "neighbors": lambda u, v: ((u + 1).mean(), (u * v + 1)[0]),
    "reader": lambda u, v: (lambda p: (p.mean(), (p * v + 1)[:5]))(u * 2 + 1),
    "dear reader": lambda u, v: (lambda p: (p.mean(), (p * v)[:5]))(da.sin(u)),
    "two slices": lambda u, v: ((u * v + 1)[:5], (u * v + 2)[-5:]),
    "mean of a slice": lambda u, v: (u.mean(0), (u * v).mean(1)[:5]),
    "block": lambda u, v: (u.sum(), (u + v).blocks[0, 0]),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_loads(case):
    values, counts = [], []
    for is_enabled in (False, True):
        loads = Loads()
        results = PROGRAMS[case](loads.array("u"), loads.array("v"))
        switch = dask_diffuse.enable if is_enabled else dask_diffuse.disable
        options = {"min_bytes": 0, "strict": True} if is_enabled else {}
        with switch(**options):
            values.append(dask.compute(*results, scheduler="sync"))
        counts.append(loads.counts)
    assert counts[1] == counts[0]
    for ours, theirs in zip(values[1], values[0], strict=True):
        np.testing.assert_allclose(ours, theirs)
