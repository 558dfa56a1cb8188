"""Blocks get tasks of their own where the rest of their tuple is heavy."""

from __future__ import annotations

import operator

import dask
import dask.array as da
import pytest

import dask_diffuse
from dask_diffuse.optimizer import hook_counts

BLOCKS = 3
HEAVY = 600_000
LIGHT = 200_000
"""Elements of 8 bytes: 4.8 and 1.6 MB a block."""


def tasks_for(block: int, outputs) -> dict:
    """The tasks that run when all outputs are computed together."""
    x = da.random.default_rng(0).random(BLOCKS * block, chunks=block)
    seen = {}

    def get(dsk, keys, **kwargs):
        seen.update(dsk if isinstance(dsk, dict) else dict(dsk.__dask_graph__()))
        return [0] * len(outputs(x))

    before = hook_counts()["groups"]
    with dask_diffuse.enable(strict=True):
        dask.compute(*outputs(x), scheduler=get)
    assert hook_counts()["groups"] == before + 1
    return seen


def two_arrays(x):
    return (x + 1) * x, (x - 1) * x


def array_and_sum(x):
    y = (x + 1) * x
    return y, y.sum()


def func_of(task):
    return getattr(task, "func", None)


def selections(tasks: dict) -> int:
    """How many tasks do nothing but take a block out of a tuple."""
    return sum(func_of(task) is operator.getitem for task in tasks.values())


@pytest.mark.parametrize(
    ("block", "outputs", "number"),
    [
        (LIGHT, two_arrays, 0),
        (HEAVY, two_arrays, 2 * BLOCKS),
        (LIGHT, array_and_sum, 0),
        # The sum does not keep the array alive; the array may keep the sum.
        (HEAVY, array_and_sum, BLOCKS),
    ],
)
def test_own_tasks(block: int, outputs, number: int):
    assert selections(tasks_for(block, outputs)) == number


def test_results_are_the_same():
    x = da.random.default_rng(0).random(2 * HEAVY, chunks=HEAVY).persist()
    plain = dask.compute(*two_arrays(x), *array_and_sum(x))
    with dask_diffuse.enable(strict=True):
        fused = dask.compute(*two_arrays(x), *array_and_sum(x))
    for one, other in zip(fused, plain, strict=True):
        assert abs(one - other).max() <= 1e-9 * abs(other).max()
