"""Black-Scholes by dask_diffuse, by hand with Numba, and by JAX on the CPU.

    python asv_bench/compare_peers.py

The peers get whole arrays and return whole arrays; Dask builds and optimizes a graph of
ten blocks within its time. They take turns, and each has its best time.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from benchmarks import common

from dask_diffuse.apps import compare, get_problem
from dask_diffuse.apps.black_scholes import RATE, VOLATILITY
from dask_diffuse.apps.table import format_seconds, format_table

GOALS = {"numba": 1.5, "jax": 3.0}
"""How many times as fast as each dask_diffuse has to be."""

Arrays = tuple[np.ndarray, ...]
Pricer = Callable[[], tuple[Any, Any]]


def dask_pricer(mode: str, inputs: tuple[Any, ...]) -> Pricer:
    problem = get_problem("black_scholes")

    def run() -> tuple[Any, Any]:
        with common.switch(mode):
            call, put = common.compute(problem.program(*inputs))
        return call, put

    return run


def numba_pricer(arrays: Arrays, threads: int, symmetric: bool = False) -> Pricer:
    """A loop as one writes it by hand, on all elements, in parallel.

    The same formula as everywhere; ``symmetric`` saves half of the calls of erf by
    knowing that the normal distribution is.
    """
    import numba

    @numba.njit(inline="always")
    def normal(x: float) -> float:
        return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))

    @numba.njit(parallel=True)
    def price(price: Any, strike: Any, years: Any) -> tuple[Any, Any]:
        call, put = np.empty_like(price), np.empty_like(price)
        for i in numba.prange(price.size):
            spread = VOLATILITY * math.sqrt(years[i])
            growth = (RATE + 0.5 * VOLATILITY * VOLATILITY) * years[i]
            d1 = (math.log(price[i] / strike[i]) + growth) / spread
            d2 = d1 - spread
            discounted = strike[i] * math.exp(-RATE * years[i])
            n1, n2 = normal(d1), normal(d2)
            if symmetric:
                m1, m2 = 1.0 - n1, 1.0 - n2
            else:
                m1, m2 = normal(-d1), normal(-d2)
            call[i] = price[i] * n1 - discounted * n2
            put[i] = discounted * m2 - price[i] * m1
        return call, put

    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    return lambda: price(*arrays)


def jax_pricer(arrays: Arrays) -> Pricer:
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    import jax.numpy as jnp
    from jax.scipy.special import erf

    def normal(x: Any) -> Any:
        return 0.5 * (1.0 + erf(x / math.sqrt(2.0)))

    @jax.jit
    def price(price: Any, strike: Any, years: Any) -> tuple[Any, Any]:
        spread = VOLATILITY * jnp.sqrt(years)
        growth = (RATE + 0.5 * VOLATILITY * VOLATILITY) * years
        d1 = (jnp.log(price / strike) + growth) / spread
        d2 = d1 - spread
        discounted = strike * jnp.exp(-RATE * years)
        call = price * normal(d1) - discounted * normal(d2)
        return call, discounted * normal(-d2) - price * normal(-d1)

    placed = [jnp.asarray(array) for array in arrays]
    return lambda: jax.block_until_ready(price(*placed))


def pricers(size: int, threads: int) -> dict[str, Pricer]:
    problem = get_problem("black_scholes")
    inputs = common.persisted_inputs(problem, size)
    arrays = common.compute(inputs)
    found = {
        "dask_diffuse": dask_pricer("diffuse", inputs),
        "plain Dask": dask_pricer("dask", inputs),
        "numba": numba_pricer(arrays, threads),
        "numba, half the erf": numba_pricer(arrays, threads, symmetric=True),
    }
    if importlib.util.find_spec("jax") is not None:
        found["jax"] = jax_pricer(arrays)
    return found


def measure(found: dict[str, Pricer], repeat: int) -> dict[str, float]:
    """Best seconds of each, after one call that compiles and checks the answer."""
    ours = found["dask_diffuse"]()
    for name, pricer in found.items():
        for what, one, other in zip(("call", "put"), ours, pricer(), strict=True):
            apart = compare(what, one, np.asarray(other), rtol=1e-9, atol=1e-10)
            if not apart.within:
                raise AssertionError(f"{name} disagrees: {apart}")
    del ours
    best = dict.fromkeys(found, math.inf)
    for _ in range(repeat):
        for name, pricer in found.items():
            start = time.perf_counter()
            pricer()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@click.command()
@click.option("--size", type=click.IntRange(min=1), default=20_000_000)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True)
def main(size: int, threads: int, repeat: int) -> None:
    """Price options in several ways, and print how long each takes."""
    common.WORKERS = threads
    best = measure(pricers(size, threads), repeat)
    ours = best["dask_diffuse"]
    rows = []
    for name, seconds in best.items():
        goal = GOALS.get(name)
        met = "" if goal is None else "yes" if seconds / ours >= goal else "NO"
        wanted = "" if goal is None else f"at least {goal:g}"
        row = [name, format_seconds(seconds), f"{seconds / ours:.2f}", wanted, met]
        rows.append(row)
    title = f"{size:,} options, {threads} threads, best of {repeat}"
    header = ["", "seconds", "against dask_diffuse", "goal", "met"]
    click.echo(format_table(title, header, rows))
    if "jax" not in best:
        click.echo("jax is not installed; install it to compare.")


if __name__ == "__main__":
    main()
