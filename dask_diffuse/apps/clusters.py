"""Where a program runs: threads of this process, processes of this machine, a cluster.

Each answers the same questions: run this, how many tasks was it, how much memory did it
take, what did the hook and the kernels do meanwhile.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dask
from dask.diagnostics import Callback

from dask_diffuse.apps.memory import read_peak, start_peak
from dask_diffuse.apps.problem import Arrays
from dask_diffuse.errors import DiffuseError, MissingPackageError, OptionError
from dask_diffuse.optimizer import hook_counts
from dask_diffuse.runtime.counters import call_counters

__all__ = ["ClusterError", "Place", "check_cluster", "connect", "open_place"]

TIMEOUT = 10
"""Seconds that a scheduler may take to answer."""

_ADDRESS = "the address of a scheduler such as tcp://host:8786"
_PLACES = f"threads, processes, or {_ADDRESS}"


class ClusterError(DiffuseError):
    """A cluster does not answer, or cannot run fused tasks.

    Parameters
    ----------
    address
        Where it was looked for.
    problem
        What happened, as a sentence without a full stop.
    remedy
        What to do about it, as a sentence.
    """

    def __init__(self, address: str, problem: str, remedy: str) -> None:
        super().__init__(address, problem, remedy)
        self.address = address
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"the cluster at {self.address}: {self.problem}. {self.remedy}"


def check_cluster(cluster: str, workers: int | None = None) -> None:
    """Refuse what is no place to run at, before anything starts.

    Parameters
    ----------
    cluster
        As on the command line.
    workers
        Threads or processes; None for one a core.

    Raises
    ------
    OptionError
        For a word that is none of the allowed ones, or a number that is too small.
    MissingPackageError
        Where ``distributed`` is needed and not installed.
    """
    if cluster == "cuda":
        remedy = "This version of dask-diffuse has no kernels for GPUs."
        raise OptionError("--cluster", cluster, _PLACES, remedy)
    if cluster not in ("threads", "processes") and ":" not in cluster:
        raise OptionError("--cluster", cluster, _PLACES)
    if workers is not None and workers < 1:
        raise OptionError("--workers", workers, "a number of at least 1")
    if cluster != "threads":
        _distributed(f"--cluster {cluster}")


def _distributed(purpose: str) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MissingPackageError("distributed", purpose, "distributed") from error
    return distributed


@contextmanager
def open_place(cluster: str, workers: int | None = None) -> Iterator[Place]:
    """Start what a program is to run on, and stop it afterwards.

    Parameters
    ----------
    cluster
        ``"threads"``, ``"processes"`` or the address of a scheduler.
    workers
        Threads or processes; None for one a core.

    Raises
    ------
    ClusterError
        If a scheduler does not answer, or lacks this package.
    """
    check_cluster(cluster, workers)
    if cluster == "threads":
        yield _Threads(workers or os.cpu_count() or 1)
        return
    distributed = _distributed(f"--cluster {cluster}")
    if cluster == "processes":
        with (
            distributed.LocalCluster(
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
            ) as local,
            distributed.Client(local) as client,
        ):
            yield _Cluster(client)
        return
    with connect(cluster) as client:
        yield _Cluster(client)


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to a cluster that runs already.

    Parameters
    ----------
    address
        Of its scheduler.

    Raises
    ------
    ClusterError
        If the scheduler does not answer, has no workers, or a node lacks this package.
    """
    distributed = _distributed(f"the cluster at {address}")
    try:
        client = distributed.Client(address, timeout=TIMEOUT)
    except ValueError as error:
        remedy = f"It is not one: {error}."
        raise OptionError("--cluster", address, _ADDRESS, remedy) from error
    except (OSError, ImportError) as error:
        raise ClusterError(
            address,
            f"no scheduler answered within {TIMEOUT} s ({error})",
            "Look whether the address is right and the scheduler runs; one is started "
            "by: dask scheduler",
        ) from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise ClusterError(
                address, "it has no workers", f"Start some by: dask worker {address}"
            )
        _check_package(client, address)
        yield client


def _check_package(client: Any, address: str) -> None:
    """See that all nodes can run the hook and its tasks."""
    try:
        client.run_on_scheduler(hook_counts)
        client.run(start_peak)
    except MissingPackageError:
        raise
    except Exception as error:
        # Whatever an import or a message raises over there.
        raise ClusterError(
            address,
            f"a node cannot run dask_diffuse ({type(error).__name__}: {error})",
            "Install the same version of dask-diffuse on the scheduler and all workers",
        ) from error


class Place(ABC):
    """Where a program runs."""

    name: str
    """For people."""

    @abstractmethod
    def persist(self, arrays: Arrays) -> Arrays:
        """Compute the blocks of arrays and keep them where they are.

        Parameters
        ----------
        arrays
            Inputs of a program.
        """

    @abstractmethod
    def compute(self, arrays: Arrays) -> tuple[Any, ...]:
        """Return the values of arrays.

        Parameters
        ----------
        arrays
            Outputs of a program.
        """

    @abstractmethod
    def count_tasks(self, arrays: Arrays) -> tuple[tuple[Any, ...], int]:
        """Return the values of arrays, and how many tasks that took.

        Parameters
        ----------
        arrays
            Outputs of a program.
        """

    @abstractmethod
    def start_peak(self) -> None:
        """Start watching the memory of all processes."""

    @abstractmethod
    def read_peak(self) -> tuple[int, int]:
        """Return the bytes held when watching began, and the most since."""

    @abstractmethod
    def hook_counts(self) -> Mapping[str, float]:
        """Return what the hook did, where it runs."""

    @abstractmethod
    def call_counts(self) -> Counter[str]:
        """Return how often kernels ran, and why original functions did."""


class _Threads(Place):
    """The threaded scheduler of Dask, in this process."""

    def __init__(self, workers: int) -> None:
        self.name = f"{workers} threads"
        self._where = {"scheduler": "threads", "num_workers": workers}

    def persist(self, arrays: Arrays) -> Arrays:
        persisted: Arrays = dask.persist(*arrays, **self._where)
        return persisted

    def compute(self, arrays: Arrays) -> tuple[Any, ...]:
        results: tuple[Any, ...] = dask.compute(*arrays, **self._where)
        return results

    def count_tasks(self, arrays: Arrays) -> tuple[tuple[Any, ...], int]:
        count = 0

        def finish(dsk: Any, state: Mapping[str, Any], failed: bool) -> None:
            nonlocal count
            count += len(state["finished"])

        with Callback(finish=finish):
            return self.compute(arrays), count

    def start_peak(self) -> None:
        start_peak()

    def read_peak(self) -> tuple[int, int]:
        return read_peak()

    def hook_counts(self) -> Mapping[str, float]:
        return hook_counts()

    def call_counts(self) -> Counter[str]:
        return _flat(call_counters.snapshot())


class _Cluster(Place):
    """Workers of ``distributed``, on this machine or others."""

    def __init__(self, client: Any) -> None:
        self._client = client
        info = client.scheduler_info(n_workers=-1)
        count = len(info["workers"])
        workers = "1 worker" if count == 1 else f"{count} workers"
        self.name = f"{workers} at {info['address']}"

    def persist(self, arrays: Arrays) -> Arrays:
        persisted: Arrays = self._client.persist(list(arrays))
        _distributed("a cluster").wait(persisted)
        return tuple(persisted)

    def compute(self, arrays: Arrays) -> tuple[Any, ...]:
        results: list[Any] = self._client.gather(self._client.compute(list(arrays)))
        return tuple(results)

    def count_tasks(self, arrays: Arrays) -> tuple[tuple[Any, ...], int]:
        with _distributed("a cluster").get_task_stream(self._client) as stream:
            results = self.compute(arrays)
        return results, len(stream.data)

    def start_peak(self) -> None:
        self._client.run(start_peak)
        start_peak()

    def read_peak(self) -> tuple[int, int]:
        peaks = [read_peak(), *self._client.run(read_peak).values()]
        return sum(before for before, _ in peaks), sum(most for _, most in peaks)

    def hook_counts(self) -> Mapping[str, float]:
        counts: Mapping[str, float] = self._client.run_on_scheduler(hook_counts)
        return counts

    def call_counts(self) -> Counter[str]:
        return sum(map(_flat, self._client.run(_snapshot).values()), Counter())


def _snapshot() -> dict[str, Any]:
    return call_counters.snapshot()


def _flat(snapshot: Mapping[str, Any]) -> Counter[str]:
    return Counter({"calls": snapshot["calls"], **snapshot["fallbacks"]})
