"""Runs a program on plain Dask and fused, each in a process of its own.

Peaks of memory would mean nothing if one process did both. The process that runs fused
also runs the program once more on plain Dask when everything is measured, to compare
the results.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dask_diffuse.apps.clusters import Place, open_place
from dask_diffuse.apps.problem import Difference
from dask_diffuse.apps.problems import get_problem
from dask_diffuse.errors import DiffuseError
from dask_diffuse.optimizer import disable, enable

__all__ = ["Measurement", "ProcessError", "Run", "measure", "measure_apart"]


class ProcessError(DiffuseError):
    """A process that measures ended before it was done.

    Parameters
    ----------
    run
        What it measured, in words.
    """

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return (
            f"the process that ran {self.run} was killed. If memory ran short, try a "
            "smaller --size, or smaller blocks with --chunks"
        )


@dataclass(frozen=True)
class Run:
    """What to measure.

    Parameters
    ----------
    problem
        Its name.
    fused
        Whether with the hook, or plain Dask.
    size, chunk
        As for `Problem.make_inputs`.
    cluster, workers
        As for `open_place`.
    repeat
        How often the program runs; at least once.
    options
        Of the hook; the others are those of Dask's configuration.
    check
        Whether to run on plain Dask afterwards, and compare.
    picture
        Where to draw the results, if anywhere.
    """

    problem: str
    fused: bool
    size: int | None = None
    chunk: int | None = None
    cluster: str = "threads"
    workers: int | None = None
    repeat: int = 3
    options: dict[str, Any] = field(default_factory=dict)
    check: bool = False
    picture: Path | None = None

    def __str__(self) -> str:
        return f"{self.problem} {'fused' if self.fused else 'on plain Dask'}"


@dataclass(frozen=True)
class Measurement:
    """What running a program took.

    Parameters
    ----------
    place
        Where it ran, in words.
    seconds
        Of each run, in order: building the graph, optimizing it and computing.
    tasks
        That the scheduler ran for one run of the program.
    kernels
        Fused groups in the graph of one run; each is one kernel.
    kernel_calls
        How often kernels ran in all.
    fallbacks
        How often original functions ran in place of a kernel, by reason.
    hook_failures
        Graphs that the hook gave up on.
    bytes_before, bytes_peak
        Memory of all processes together, before the first run with the inputs in it,
        and the most during the runs.
    differences
        From plain Dask, one for each output, if that was asked for.
    """

    place: str
    seconds: tuple[float, ...]
    tasks: int
    kernels: int
    kernel_calls: int
    fallbacks: dict[str, int]
    hook_failures: int
    bytes_before: int
    bytes_peak: int
    differences: tuple[Difference, ...] = field(default=())

    @property
    def first(self) -> float:
        """Seconds of the first run, which compiles."""
        return self.seconds[0]

    @property
    def later(self) -> float | None:
        """Seconds of the fastest later run, if there was one."""
        return min(self.seconds[1:], default=None)

    @property
    def is_right(self) -> bool:
        """Whether all outputs are within their tolerance."""
        return all(difference.within for difference in self.differences)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self) | {"is_right": self.is_right}


def measure(run: Run) -> Measurement:
    """Measure in this process.

    Parameters
    ----------
    run
        What.
    """
    problem = get_problem(run.problem)
    inputs = problem.make_inputs(run.size, run.chunk)
    with warnings.catch_warnings(), open_place(run.cluster, run.workers) as place:
        # Pixels without data divide zero by zero; both ways of computing say so.
        warnings.simplefilter("ignore", RuntimeWarning)
        with disable():
            inputs = place.persist(inputs)
        with _switch(run):
            hooks, calls = place.hook_counts(), place.call_counts()
            place.start_peak()
            seconds, results = [], None
            for _ in range(run.repeat):
                # What the last run gave must not count as memory of this one.
                results = None
                start = time.perf_counter()
                results = place.compute(problem.program(*inputs))
                seconds.append(time.perf_counter() - start)
            before, peak = place.read_peak()
            hooks_after, calls_after = place.hook_counts(), place.call_counts()
            tasks = _count_tasks(place, problem.program(*inputs))
        if run.picture is not None and problem.draw is not None:
            assert results is not None
            problem.draw(results, run.picture)
        differences: tuple[Difference, ...] = ()
        if run.check:
            assert results is not None
            with disable():
                plain = place.compute(problem.program(*inputs))
            differences = problem.compare(results, plain)
        calls_made = calls_after - calls
        return Measurement(
            place=place.name,
            seconds=tuple(seconds),
            tasks=tasks,
            kernels=round((hooks_after["groups"] - hooks["groups"]) / run.repeat),
            kernel_calls=calls_made.pop("calls", 0),
            fallbacks=dict(calls_made),
            hook_failures=round(hooks_after["failed"] - hooks["failed"]),
            bytes_before=before,
            bytes_peak=peak,
            differences=differences,
        )


def _switch(run: Run) -> AbstractContextManager[object]:
    return enable(**run.options) if run.fused else disable()


def _count_tasks(place: Place, outputs: Any) -> int:
    """Count in a run that is not timed; results are dropped at once."""
    return place.count_tasks(outputs)[1]


def measure_apart(run: Run) -> Measurement:
    """Measure in a new process.

    Parameters
    ----------
    run
        What.

    Raises
    ------
    ProcessError
        If the process dies, as it does when memory runs short.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        try:
            return pool.submit(measure, run).result()
        except BrokenProcessPool as error:
            raise ProcessError(str(run)) from error
