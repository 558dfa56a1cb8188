"""What the benchmarks share: problems of the right size, and the hook on or off."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import dask
import dask.array as da
from dask.array.optimization import optimize as dask_optimize

import dask_diffuse
from dask_diffuse.apps import Problem

MODES = ("dask", "diffuse")
"""Values of the parameter ``mode``."""

TINY = False
"""Whether everything runs at the size that the tests use."""

WORKERS = os.cpu_count() or 1


def size_of(problem: Problem) -> int:
    return problem.tiny if TINY else problem.size


def switch(mode: str, **options: Any) -> AbstractContextManager[object]:
    if mode == "dask":
        return dask_diffuse.disable()
    return dask_diffuse.enable(**options)


def persisted_inputs(problem: Problem, size: int | None = None) -> tuple[Any, ...]:
    """Inputs in memory, computed without the hook."""
    inputs = problem.make_inputs(size_of(problem) if size is None else size)
    with dask_diffuse.disable():
        return dask.persist(*inputs, scheduler="threads", num_workers=WORKERS)


def compute(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    with warnings.catch_warnings():
        # Pixels without data divide zero by zero, in both modes.
        warnings.simplefilter("ignore", RuntimeWarning)
        return dask.compute(*outputs, scheduler="threads", num_workers=WORKERS)


def graph_for_compute(outputs: tuple[Any, ...]) -> tuple[Any, Any]:
    """The graph and the keys that an optimizer is given when these are computed."""
    seen: list[tuple[Any, Any]] = []

    def record(dsk: Any, keys: Any, **kwargs: Any) -> Any:
        seen.append((dsk, keys))
        return dask_optimize(dsk, keys, **kwargs)

    def get(dsk: Any, keys: Any, **kwargs: Any) -> Any:
        # Turning it into tasks calls the hook; nothing need be computed after that.
        dict(dsk if isinstance(dsk, dict) else dsk.__dask_graph__())
        raise _Recorded

    with dask.config.set(array_optimize=record):
        try:
            dask.compute(*outputs, scheduler=get)
        except _Recorded:
            return seen[0]
    raise AssertionError("the optimizer was not called")


class _Recorded(Exception):
    pass


def layered(layers: int, blocks: int, chunk: int = 1000) -> Any:
    """A symbolic graph: so many element-wise layers on so many blocks."""
    x = da.ones(blocks * chunk, chunks=chunk)
    for number in range(layers):
        x = x + 1 if number % 2 else x * 0.5
    return x


def optimizer_of(mode: str) -> Callable[..., Any]:
    if mode == "dask":
        return dask_optimize
    return dask_diffuse.Optimizer(min_bytes=0)


def best(function: Callable[[], Any], repeat: int) -> float:
    """Seconds of the fastest of some calls."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


_FIRST_CALL = """
import sys
import time
import dask
import numpy
import scipy.special
import dask.array as da
import dask_diffuse
from dask_diffuse.apps import get_problem

problem = get_problem("black_scholes")
inputs = dask.persist(*problem.make_inputs({size}, {size}), scheduler="synchronous")
start = time.perf_counter()
dask_diffuse.enable(cache_dir=sys.argv[1], min_bytes=0)
import llvmlite.binding
import dask_diffuse.runtime.cpu
loading = time.perf_counter() - start
seconds = []
for _ in range(4):
    start = time.perf_counter()
    dask.compute(*problem.program(*inputs), scheduler="synchronous")
    seconds.append(time.perf_counter() - start)
print(loading, seconds[0] - min(seconds[1:]))
"""


def first_call(cache_dir: str, size: int = 10_000) -> tuple[float, float]:
    """Seconds to load hook and compiler, and what the first call takes beyond others.

    In a new process. The first call plans the program, and compiles the kernel or finds
    it on disk.
    """
    finished = subprocess.run(
        [sys.executable, "-c", _FIRST_CALL.format(size=size), cache_dir],
        capture_output=True,
        text=True,
        check=False,
        env={name: os.environ[name] for name in os.environ if name != _NO_BYTECODE},
    )
    if finished.returncode:
        raise RuntimeError(finished.stderr)
    loading, beyond = map(float, finished.stdout.split())
    return loading, beyond


_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Would have every process compile our modules again; an installed package is not."""
