"""All programs by name, and those that are too short for a file of their own."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import dask.array as da
import numpy as np

from dask_diffuse.apps.black_scholes import BLACK_SCHOLES, BLACK_SCHOLES_SUMS
from dask_diffuse.apps.ndvi import NDVI, NDVI_MEAN
from dask_diffuse.apps.problem import Arrays, Problem
from dask_diffuse.apps.standardize import STANDARDIZE, STANDARDIZE_MAX
from dask_diffuse.apps.terrain import TERRAIN
from dask_diffuse.errors import OptionError

__all__ = ["PROBLEMS", "get_problem"]

EARTH_RADIUS = 6371.0
"""In kilometres."""


def _uniform(count: int, low: float, high: float) -> Any:
    """Make the function that makes so many vectors of numbers between two bounds."""

    def inputs(size: int, chunk: int) -> Arrays:
        rng = da.random.default_rng(2025)
        return tuple(rng.uniform(low, high, size, chunks=chunk) for _ in range(count))

    return inputs


def _chain(a: Any, b: Any, d: Any) -> tuple[Any, ...]:
    return (((a + b) * d - a * 0.5 + b * d - 2).sum(),)


def _statistics(x: Any) -> tuple[Any, ...]:
    y = np.sqrt(abs(x)) * 2
    return y.sum(), y.min(), y.max(), y.mean(), y.std()


def _haversine(lat1: Any, lon1: Any, lat2: Any, lon2: Any) -> tuple[Any, ...]:
    lat1, lon1, lat2, lon2 = map(np.radians, (lat1, lon1, lat2, lon2))
    half = (
        np.sin((lat2 - lat1) / 2) ** 2
        + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    )
    return ((2 * EARTH_RADIUS * np.arcsin(np.sqrt(half))).mean(),)


def _softmax(x: Any) -> tuple[Any, ...]:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return ((powers / powers.sum(axis=1, keepdims=True)).sum(axis=0),)


def _rows(size: int, chunk: int) -> Arrays:
    rng = da.random.default_rng(2025)
    return (rng.normal(0, 1, (size, 1000), chunks=(chunk, 1000)),)


def _small_blocks(x: Any) -> tuple[Any, ...]:
    return ((np.exp(-x) * (x + 1) - x * x / 3).sum(),)


def _square(size: int, chunk: int) -> Arrays:
    rng = da.random.default_rng(2025)
    return (rng.uniform(0, 1, (size, size), chunks=chunk),)


def _matmul(a: Any, b: Any) -> tuple[Any, ...]:
    return (np.tanh(a @ b * 0.001 + 1).sum(),)


def _two_squares(size: int, chunk: int) -> Arrays:
    rng = da.random.default_rng(2025)
    return tuple(rng.uniform(0, 1, (size, size), chunks=chunk) for _ in range(2))


def _two_small(x: Any) -> tuple[Any, ...]:
    return x * 2 + 1, (x - 0.5).sum(axis=0)


_CHAIN = Problem(
    name="chain",
    summary="sum of ((a+b)*d - a*0.5 + b*d - 2)",
    unit="elements",
    size=30_000_000,
    tiny=1000,
    blocks=10,
    inputs=_uniform(3, 0, 1),
    program=_chain,
    reference=_chain,
    outputs=("sum",),
    goal=2.5,
)

_STATISTICS = Problem(
    name="statistics",
    summary="sum, min, max, mean and std of sqrt(abs(x))*2 in one go",
    unit="elements",
    size=30_000_000,
    tiny=1000,
    blocks=10,
    inputs=_uniform(1, -1, 1),
    program=_statistics,
    reference=_statistics,
    outputs=("sum", "min", "max", "mean", "std"),
    goal=2.5,
)

_HAVERSINE = Problem(
    name="haversine",
    summary="mean distance of pairs of points on the earth",
    unit="pairs",
    size=10_000_000,
    tiny=1000,
    blocks=10,
    inputs=_uniform(4, -90, 90),
    program=_haversine,
    reference=_haversine,
    outputs=("mean",),
    goal=4,
)

_SOFTMAX = Problem(
    name="softmax",
    summary="softmax of each of so many rows of 1000, summed by column",
    unit="rows",
    size=20_000,
    tiny=20,
    blocks=10,
    inputs=_rows,
    program=_softmax,
    reference=_softmax,
    outputs=("sums",),
    goal=2,
)

_SMALL_BLOCKS = Problem(
    name="small_blocks",
    summary="sum of exp(-x)*(x+1) - x*x/3 in many blocks of 50 x 50",
    unit="rows and columns",
    size=3200,
    tiny=12,
    blocks=64,
    inputs=_square,
    program=_small_blocks,
    reference=_small_blocks,
    outputs=("sum",),
    goal=4,
)

_MATMUL = Problem(
    name="matmul",
    summary="sum of tanh(a @ b * 0.001 + 1)",
    unit="rows and columns",
    size=2000,
    tiny=40,
    blocks=2,
    inputs=_two_squares,
    program=_matmul,
    reference=_matmul,
    outputs=("sum",),
    goal=1,
)

_TINY = Problem(
    name="two_small",
    summary="two small expressions of one small array",
    unit="rows and columns",
    size=100,
    tiny=20,
    blocks=2,
    inputs=_square,
    program=_two_small,
    reference=_two_small,
    outputs=("line", "sums"),
    atol=1e-12,
    goal=0.95,
)

PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {
        problem.name: problem
        for problem in (
            BLACK_SCHOLES,
            TERRAIN,
            STANDARDIZE,
            NDVI,
            BLACK_SCHOLES_SUMS,
            _CHAIN,
            _STATISTICS,
            _HAVERSINE,
            NDVI_MEAN,
            STANDARDIZE_MAX,
            _SOFTMAX,
            _SMALL_BLOCKS,
            _MATMUL,
            _TINY,
        )
    }
)
"""Those that show something first, those that we measure ourselves by after them."""


def get_problem(name: str) -> Problem:
    """Return a problem by its name; hyphens are as good as underscores.

    Parameters
    ----------
    name
        One of `PROBLEMS`.

    Raises
    ------
    OptionError
        With the names there are.

    Examples
    --------
    >>> get_problem("black-scholes").outputs
    ('call', 'put')
    """
    problem = PROBLEMS.get(name.replace("-", "_").lower())
    if problem is None:
        close = difflib.get_close_matches(name, PROBLEMS, n=1)
        remedy = f"Did you mean {close[0]!r}?" if close else ""
        raise OptionError("APP", name, f"one of {', '.join(PROBLEMS)}", remedy)
    return problem
