"""Columns brought to mean 0 and standard deviation 1, and what lies far out."""

from __future__ import annotations

from typing import Any

import dask.array as da

from dask_diffuse.apps.problem import Arrays, Problem

__all__ = ["STANDARDIZE", "STANDARDIZE_MAX", "make_table", "standardize"]

FAR_OUT = 3.0


def standardize(table: Any) -> tuple[Any, ...]:
    """Return standardized columns, and how many values of each are far out.

    Parameters
    ----------
    table
        One row an observation, one column a quantity.
    """
    scores = (table - table.mean(axis=0)) / table.std(axis=0)
    return scores, (abs(scores) > FAR_OUT).sum(axis=0)


def make_table(size: int, chunk: int) -> Arrays:
    """Return a square table of normal numbers, whose columns differ.

    Parameters
    ----------
    size
        Rows and columns.
    chunk
        Rows and columns of a block.
    """
    rng = da.random.default_rng(1895)
    numbers = rng.normal(0, 1, (size, size), chunks=chunk)
    columns = da.arange(size, chunks=chunk)
    return (numbers * (1 + columns % 7) + columns,)


def _largest(table: Any) -> tuple[Any, ...]:
    return (abs((table - table.mean(axis=0)) / table.std(axis=0)).max(),)


STANDARDIZE = Problem(
    name="standardize",
    summary="columns brought to mean 0 and deviation 1; values far out",
    unit="rows and columns",
    size=6000,
    tiny=60,
    blocks=6,
    inputs=make_table,
    program=standardize,
    reference=standardize,
    outputs=("scores", "far_out"),
    atol=1e-11,
)

STANDARDIZE_MAX = Problem(
    name="standardize_max",
    summary="the value that lies farthest out of its column",
    unit="rows and columns",
    size=6000,
    tiny=60,
    blocks=6,
    inputs=make_table,
    program=_largest,
    reference=_largest,
    outputs=("largest",),
    goal=2,
)
