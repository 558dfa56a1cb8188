"""Every program that comes with the package: NumPy, plain Dask and fused agree."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

import dask_diffuse
from dask_diffuse.apps import PROBLEMS, Problem, get_problem
from dask_diffuse.errors import OptionError
from dask_diffuse.optimizer import hook_counts
from dask_diffuse.runtime.counters import call_counters

SYNC = {"scheduler": "synchronous"}

all_problems = pytest.mark.parametrize(
    "problem", PROBLEMS.values(), ids=PROBLEMS.keys()
)


def compute(problem: Problem, inputs: tuple[da.Array, ...]):
    outputs = problem.program(*inputs)
    assert len(outputs) == len(problem.outputs)
    assert all(isinstance(output, da.Array) for output in outputs)
    return dask.compute(*outputs, **SYNC)


def assert_within(problem: Problem, ours, theirs):
    for difference in problem.compare(ours, theirs):
        assert difference.within, difference


@all_problems
def test_dask_agrees_with_numpy(problem: Problem):
    inputs = problem.make_inputs(problem.tiny)
    with dask_diffuse.disable():
        assert_within(
            problem,
            compute(problem, inputs),
            problem.reference(*dask.compute(*inputs, **SYNC)),
        )


@all_problems
@pytest.mark.parametrize("chunk", ["usual", "uneven", "one block"])
def test_fused_agrees_with_dask(problem: Problem, chunk: str):
    size = problem.tiny
    length = {"usual": None, "uneven": size // 3 + 1, "one block": size}[chunk]
    with dask_diffuse.disable():
        inputs = dask.persist(*problem.make_inputs(size, length), **SYNC)
        plain = compute(problem, inputs)
    before, calls = hook_counts(), call_counters.snapshot()
    with dask_diffuse.enable(min_bytes=0, strict=True):
        fused = compute(problem, inputs)
    after = hook_counts()
    assert_within(problem, fused, plain)
    assert after["fused"] == before["fused"] + 1
    assert call_counters.snapshot()["calls"] > calls["calls"]
    assert call_counters.snapshot()["fallbacks"] == calls["fallbacks"]


@all_problems
def test_the_smallest_size(problem: Problem):
    inputs = problem.make_inputs(problem.least)
    with dask_diffuse.disable():
        plain = compute(problem, inputs)
    with dask_diffuse.enable(min_bytes=0, strict=True):
        assert_within(problem, compute(problem, inputs), plain)


@all_problems
def test_inputs_are_the_same_every_time(problem: Problem):
    # Two processes measure, and each makes its own.
    for one, other in zip(
        problem.make_inputs(problem.tiny),
        problem.make_inputs(problem.tiny),
        strict=True,
    ):
        np.testing.assert_array_equal(one.compute(**SYNC), other.compute(**SYNC))


@all_problems
def test_sizes_are_what_we_promise(problem: Problem):
    inputs = problem.make_inputs()
    assert max(len(lengths) for lengths in inputs[0].chunks) == problem.blocks
    assert problem.size in inputs[0].shape


PROMISED = {
    "black_scholes": (4.5, (20_000_000,), 10),
    "black_scholes_sums": (7, (20_000_000,), 10),
    "chain": (2.5, (30_000_000,), 10),
    "statistics": (2.5, (30_000_000,), 10),
    "haversine": (4, (10_000_000,), 10),
    "ndvi_mean": (3, (8000, 8000), 64),
    "standardize_max": (2, (6000, 6000), 36),
    "softmax": (2, (20_000, 1000), 10),
    "small_blocks": (4, (3200, 3200), 4096),
    "matmul": (1, (2000, 2000), 4),
    "two_small": (0.95, (100, 100), 4),
}


@pytest.mark.parametrize("name", PROMISED)
def test_the_table_of_goals(name: str):
    problem = PROBLEMS[name]
    goal, shape, blocks = PROMISED[name]
    (first, *_) = problem.make_inputs()
    assert (problem.goal, first.shape, first.npartitions) == (goal, shape, blocks)


def test_all_goals_are_in_the_table():
    assert {p.name for p in PROBLEMS.values() if p.goal is not None} == set(PROMISED)


KERNELS = {
    "black_scholes": 1,
    "black_scholes_sums": 1,
    "chain": 1,
    "statistics": 1,
    "haversine": 1,
    "ndvi": 1,
    "ndvi_mean": 1,
    "small_blocks": 1,
    "two_small": 1,
    "matmul": 1,
    "standardize": 2,
    "standardize_max": 2,
    "softmax": 2,
    "terrain": 2,
}
"""What separates two is a sum that has to be complete, or a view."""


@pytest.mark.parametrize("name", KERNELS)
def test_takes_few_kernels(name: str):
    problem = PROBLEMS[name]
    inputs = dask.persist(*problem.make_inputs(problem.tiny), **SYNC)
    outputs = problem.program(*inputs)
    explanation = dask_diffuse.explain(*outputs, min_bytes=0)
    assert len(explanation.groups) <= KERNELS[name]


@pytest.mark.parametrize(
    ("size", "chunk", "words"),
    [
        (0, None, "'--size' has the value 0"),
        (-5, None, "at least 1"),
        (10, 0, "'--chunks' has the value 0"),
        (10, -1, "'--chunks' has the value -1"),
    ],
)
def test_bad_sizes(size: int, chunk: int | None, words: str):
    with pytest.raises(OptionError, match=words):
        PROBLEMS["chain"].make_inputs(size, chunk)


def test_names_may_have_hyphens_and_capitals():
    assert get_problem("Black-Scholes") is PROBLEMS["black_scholes"]


def test_unknown_name():
    with pytest.raises(OptionError, match="Did you mean 'terrain'") as caught:
        get_problem("terain")
    for name in PROBLEMS:
        assert name in str(caught.value)
