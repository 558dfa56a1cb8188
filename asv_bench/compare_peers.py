"""Black-Scholes by dask_diffuse, by hand with Numba, and by JAX on the CPU.

    python asv_bench/compare_peers.py

The peers get whole arrays and return whole arrays; Dask builds and optimizes a graph of
ten blocks within its time. Each runs in processes of its own, in turns, and has its
best time.
"""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import click
import numpy as np
from benchmarks import common

from dask_diffuse.apps import compare, get_problem
from dask_diffuse.apps.black_scholes import RATE, VOLATILITY
from dask_diffuse.apps.table import format_seconds, format_table

GOALS = {"numba": 1.5, "jax": 3.0}
"""How many times as fast as each dask_diffuse has to be."""

CHECKED = 100_000
"""So many prices are compared with those of plain Dask."""

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


def make_pricer(name: str, size: int, threads: int) -> tuple[Pricer, tuple[Any, ...]]:
    """Return what prices all options, and the inputs as arrays of Dask."""
    inputs = common.persisted_inputs(get_problem("black_scholes"), size)
    modes = dict(zip(("plain Dask", "dask_diffuse"), common.MODES, strict=True))
    if name in modes:
        return dask_pricer(modes[name], inputs), inputs
    arrays = common.compute(inputs)
    if name == "jax":
        return jax_pricer(arrays), inputs
    return numba_pricer(arrays, threads, symmetric=name != "numba"), inputs


def check(pricer: Pricer, inputs: tuple[Any, ...]) -> None:
    """Compare the first prices with those of plain Dask; compiles as well."""
    problem = get_problem("black_scholes")
    with common.switch("dask"):
        wanted = common.compute(problem.program(*[x[:CHECKED] for x in inputs]))
    for what, one, other in zip(("call", "put"), wanted, pricer(), strict=True):
        found = np.asarray(other)[:CHECKED]
        apart = compare(what, one, found, rtol=1e-9, atol=1e-10)
        if not apart.within:
            raise AssertionError(f"prices differ: {apart}")


def measure_here(name: str, size: int, threads: int, repeat: int) -> float:
    """Best seconds of some calls in this process."""
    common.WORKERS = threads
    pricer, inputs = make_pricer(name, size, threads)
    check(pricer, inputs)
    return common.best(pricer, repeat)


def measure(names: list[str], size: int, threads: int, repeat: int) -> dict[str, float]:
    """Best seconds of each, in a process of its own.

    Threads that wait busily for the next call of their own kernel would slow down
    whoever comes next. Each has two processes, the second ones in reverse order.
    """
    best = dict.fromkeys(names, math.inf)
    context = multiprocessing.get_context("spawn")
    for name in (*names, *reversed(names)):
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            seconds = pool.submit(measure_here, name, size, threads, repeat).result()
        best[name] = min(best[name], seconds)
    return best


@click.command()
@click.option("--size", type=click.IntRange(min=1), default=20_000_000)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True)
def main(size: int, threads: int, repeat: int) -> None:
    """Price options in several ways, and print how long each takes."""
    names = ["dask_diffuse", "plain Dask", "numba", "numba, half the erf"]
    if importlib.util.find_spec("jax") is not None:
        names.append("jax")
    best = measure(names, size, threads, repeat)
    ours = best["dask_diffuse"]
    rows = []
    for name, seconds in best.items():
        goal = GOALS.get(name)
        met = "" if goal is None else "yes" if seconds / ours >= goal else "NO"
        wanted = "" if goal is None else f"at least {goal:g}"
        row = [name, format_seconds(seconds), f"{seconds / ours:.2f}", wanted, met]
        rows.append(row)
    title = f"{size:,} options, {threads} threads, best of {2 * repeat}"
    header = ["", "seconds", "against dask_diffuse", "goal", "met"]
    click.echo(format_table(title, header, rows))
    if "jax" not in best:
        click.echo("jax is not installed; install it to compare.")


if __name__ == "__main__":
    main()
