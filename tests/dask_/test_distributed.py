"""On clusters: one process, several, a scheduler of its own, and a worker that dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import dask
import dask.array as da
import numpy as np
import pytest

import dask_diffuse
from dask_diffuse.runtime.counters import call_counters

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.timeout(180),
    # What clusters say when they go is not about us.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*:RuntimeWarning"),
]

X = np.arange(240.0).reshape(12, 20) / 9
OPTIONS = {"min_bytes": 0, "strict": True}


def affine(x):
    return (x - 3) * 2 + x * x


def inputs(name: str | None = None) -> da.Array:
    return da.from_array(X, chunks=(6, 5), name=name or False)


def worker_counts() -> dict:
    return call_counters.snapshot()


def clear_counts() -> None:
    call_counters.clear()


def total_calls(client) -> int:
    counts = client.run(worker_counts).values()
    assert not any(c["fallbacks"] for c in counts), counts
    return sum(c["calls"] for c in counts)


@pytest.fixture(scope="module")
def threads() -> Iterator[distributed.Client]:
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            dashboard_address=":0",
            protocol="inproc://",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes() -> Iterator[distributed.Client]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(params=["threads", "processes"])
def client(request) -> Iterator[distributed.Client]:
    # Without a word, Dask takes the client that was made last.
    client = request.getfixturevalue(request.param)
    with client.as_current():
        yield client


class TestResults:
    def test_compute(self, client):
        client.run(clear_counts)
        with dask_diffuse.enable(**OPTIONS):
            x = inputs()
            a, b = dask.compute(affine(x), affine(x).sum(axis=0))
        np.testing.assert_array_equal(a, affine(X))
        np.testing.assert_allclose(b, affine(X).sum(axis=0))
        assert total_calls(client) == 8

    def test_persist_and_go_on(self, client):
        with dask_diffuse.enable(**OPTIONS):
            y = affine(inputs()).persist()
            assert y.__dask_keys__() == y.__dask_keys__()
            z = (y * 2 - 1).persist()
            total = z.max().compute()
        np.testing.assert_array_equal(y.compute(), affine(X))
        assert total == (affine(X) * 2 - 1).max()

    def test_futures(self, client):
        with dask_diffuse.enable(**OPTIONS):
            future = client.compute(affine(inputs()))
            np.testing.assert_array_equal(future.result(), affine(X))
            first, second = client.gather(
                client.compute([affine(inputs()), affine(inputs()).max()])
            )
        np.testing.assert_array_equal(first, affine(X))
        assert second == affine(X).max()

    def test_user_functions(self, client):
        # They do not pickle by name: the fused task has to carry them by value.
        offset = 3

        def shift(block):
            return block + offset

        with dask_diffuse.enable(**OPTIONS):
            x = inputs()
            y = affine(x).map_blocks(shift, dtype=x.dtype)
            result = (y * 2 + y).compute()
        np.testing.assert_array_equal(result, (affine(X) + 3) * 2 + (affine(X) + 3))

    def test_two_programs_on_one_cluster(self, client):
        # The same blocks, lowered in two ways: results must be right either way.
        x = inputs("shared")
        y = affine(x)
        with dask_diffuse.enable(**OPTIONS):
            first = y.persist()
            second, total = dask.persist(y, y.sum(axis=0))
        third = y.persist()
        for array in (first, second, third):
            np.testing.assert_array_equal(array.compute(), affine(X))
        np.testing.assert_allclose(total.compute(), affine(X).sum(axis=0))

    def test_errors_of_users(self, client):
        def refuse(block):
            raise KeyError("of the user")

        x = inputs()
        with (
            dask_diffuse.enable(**OPTIONS),
            pytest.raises(KeyError, match="of the user"),
        ):
            (affine(x).map_blocks(refuse, dtype=x.dtype) + 1).compute()

    def test_annotations_reach_the_scheduler(self, client):
        with dask_diffuse.enable(**OPTIONS):
            with dask.annotate(priority=11, retries=4):
                y = affine(inputs())
            persisted = y.persist()
            distributed.wait(persisted)
            keys = [str(key) for key in dask.core.flatten(y.__dask_keys__())]
            found = client.run_on_scheduler(priorities_and_retries, keys=keys)
        assert len(found) == 8
        # The scheduler negates priorities.
        assert set(found.values()) == {(-11, 4)}


def priorities_and_retries(dask_scheduler, keys) -> dict:
    return {
        str(key): (task.priority[0], task.retries)
        for key, task in dask_scheduler.tasks.items()
        if str(key) in keys
    }


class TestProcesses:
    @pytest.fixture(autouse=True)
    def _current(self, processes):
        with processes.as_current():
            yield

    def test_a_kernel_travels_once(self):
        # A fused task is small, however large its kernel and however many blocks.
        x = da.ones(4000, chunks=10)
        y = x
        for number in range(40):
            y = y * 0.5 + number
        with dask_diffuse.enable(**OPTIONS):
            small = len(distributed.protocol.pickle.dumps(y.dask))
            assert small < 200_000
            np.testing.assert_array_equal(y.compute(), plain_chain(np.ones(4000)))

    def test_a_worker_dies(self, processes):
        cluster = processes.cluster
        x = da.from_array(np.arange(4000.0), chunks=100)
        y = (x * 2 + 1).map_blocks(slow, dtype=x.dtype)
        with dask_diffuse.enable(**OPTIONS):
            future = processes.compute((y * y - 1).sum())
            time.sleep(0.5)
            victim = next(iter(cluster.workers.values()))
            processes.run(
                kill, workers=[victim.worker_address], on_error="ignore", wait=False
            )
            result = future.result(timeout=90)
        plain = np.arange(4000.0) * 2 + 1
        assert result == pytest.approx((plain * plain - 1).sum())


def plain_chain(y):
    for number in range(40):
        y = y * 0.5 + number
    return y


def slow(block):
    time.sleep(0.05)
    return block


def kill() -> None:
    os._exit(1)


@pytest.mark.parametrize("optimize_graph", [True, False])
def test_the_scheduler_of_dask_with_processes(optimize_graph):
    with (
        dask_diffuse.enable(**OPTIONS),
        dask.config.set(scheduler="processes", num_workers=2),
    ):
        result = affine(inputs()).compute(optimize_graph=optimize_graph)
    np.testing.assert_array_equal(result, affine(X))


REMOTE = """
import sys
import numpy as np
import dask
import dask.array as da
import distributed
import dask_diffuse


def loaded(dask_scheduler=None):
    import sys
    from dask_diffuse.optimizer import hook_counts
    names = [n for n in ("llvmlite", "numba", "cupy") if n in sys.modules]
    return names, hook_counts()


def main(address):
    with distributed.Client(address) as client:
        client.wait_for_workers(1)
        x = da.from_array(np.arange(1000.0), chunks=100)
        y = np.exp(-x / 1000) * x + 1
        with dask_diffuse.enable(min_bytes=0, strict=True):
            value, total = dask.compute(y, y.sum())
        plain = np.exp(-np.arange(1000.0) / 1000) * np.arange(1000.0) + 1
        np.testing.assert_allclose(value, plain, rtol=1e-14)
        np.testing.assert_allclose(total, plain.sum(), rtol=1e-14)
        names, counts = client.run_on_scheduler(loaded)
        groups, failed = int(counts["groups"]), int(counts["failed"])
        print("jits", names, "groups", groups, "failed", failed)


if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.fixture
def remote_scheduler(tmp_path) -> Iterator[str]:
    """A scheduler and a worker in processes of their own."""
    file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [
            *(sys.executable, "-m", "distributed.cli.dask_scheduler"),
            *("--scheduler-file", str(file), "--port", "0", "--no-dashboard"),
            *("--host", "127.0.0.1"),
        ],
        **quiet,
    )
    worker = subprocess.Popen(
        [
            *(sys.executable, "-m", "distributed.cli.dask_worker"),
            *("--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard"),
            *("--no-nanny", "--local-directory", str(tmp_path)),
        ],
        **quiet,
    )
    try:
        deadline = time.monotonic() + 60
        while not (file.exists() and file.read_text().endswith("}")):
            assert scheduler.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in (worker, scheduler):
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def test_a_scheduler_in_another_process(remote_scheduler, tmp_path):
    # The hook runs there, with the options that the client gave it, and must load no
    # compiler.
    script = tmp_path / "program.py"
    script.write_text(REMOTE)
    finished = subprocess.run(
        [sys.executable, str(script), remote_scheduler],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "jits [] groups 1 failed 0" in finished.stdout
