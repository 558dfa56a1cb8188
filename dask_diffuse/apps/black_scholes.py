"""Prices of European options by the formula of Black and Scholes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from dask_diffuse.apps.problem import Arrays, Problem
from dask_diffuse.errors import MissingPackageError

__all__ = ["BLACK_SCHOLES", "BLACK_SCHOLES_SUMS", "black_scholes", "make_options"]

RATE = 0.03
VOLATILITY = 0.25


def black_scholes(price: Any, strike: Any, years: Any) -> tuple[Any, Any]:
    """Return the values of the right to buy and of the right to sell.

    Parameters
    ----------
    price
        Of the share, today.
    strike
        What the share may be bought or sold for.
    years
        Until then.
    """
    spread = VOLATILITY * np.sqrt(years)
    growth = (RATE + 0.5 * VOLATILITY * VOLATILITY) * years
    d1 = (np.log(price / strike) + growth) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-RATE * years)
    call = price * _normal(d1) - discounted * _normal(d2)
    put = discounted * _normal(-d2) - price * _normal(-d1)
    return call, put


def _normal(x: Any) -> Any:
    """Return the distribution function of the normal distribution."""
    return 0.5 * (1.0 + _erf()(x / np.sqrt(2.0)))


def _erf() -> Any:
    try:
        from scipy.special import erf
    except ImportError as error:
        raise MissingPackageError("scipy", "black_scholes", "demo") from error
    return erf


def make_options(size: int, chunk: int) -> Arrays:
    """Return prices, strikes and years of made-up options.

    Parameters
    ----------
    size
        How many.
    chunk
        How many in a block.
    """
    rng = da.random.default_rng(1973)
    return (
        rng.uniform(50, 150, size, chunks=chunk),
        rng.uniform(50, 150, size, chunks=chunk),
        rng.uniform(0.1, 2.0, size, chunks=chunk),
    )


def _sums(*options: Any) -> tuple[Any, ...]:
    return tuple(value.sum() for value in black_scholes(*options))


def _draw(results: tuple[Any, ...], path: Path) -> None:
    """Draw how many options are worth how much."""
    from dask_diffuse.apps.picture import new_figure, save

    figure = new_figure(7, 4)
    axes = figure.subplots()
    bins = np.linspace(0, 100, 101)
    for name, values in zip(BLACK_SCHOLES.outputs, results, strict=True):
        axes.hist(values, bins=bins.tolist(), histtype="step", label=name)
    # Few are worth much: on a linear scale nothing but the first bin would be seen.
    axes.set(
        yscale="log",
        xlabel="value",
        ylabel="options",
        title=f"{len(results[0]):,} options",
    )
    axes.legend()
    save(figure, path)


BLACK_SCHOLES = Problem(
    name="black_scholes",
    summary="value of the right to buy and to sell, for many options",
    unit="options",
    size=20_000_000,
    tiny=1000,
    blocks=10,
    inputs=make_options,
    program=black_scholes,
    reference=black_scholes,
    outputs=("call", "put"),
    atol=1e-11,
    goal=4.5,
    draw=_draw,
)

BLACK_SCHOLES_SUMS = Problem(
    name="black_scholes_sums",
    summary="sums of the values of many options",
    unit="options",
    size=20_000_000,
    tiny=1000,
    blocks=10,
    inputs=make_options,
    program=_sums,
    reference=_sums,
    outputs=("call", "put"),
    goal=7,
)
