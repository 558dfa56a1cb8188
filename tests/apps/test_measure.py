"""Measuring: time, tasks, kernels, memory, and whether results agree."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dask_diffuse.apps import measure as module
from dask_diffuse.apps import memory
from dask_diffuse.apps.clusters import ClusterError, check_cluster, open_place
from dask_diffuse.apps.measure import Measurement, ProcessError, Run, measure
from dask_diffuse.errors import MissingPackageError, OptionError

RUN = Run(
    "black_scholes",
    fused=True,
    size=2000,
    repeat=2,
    options={"min_bytes": 0},
    check=True,
)


class TestHere:
    def test_fused(self):
        measured = measure(RUN)
        assert len(measured.seconds) == 2
        assert measured.first > 0
        assert measured.later == measured.seconds[1]
        assert measured.kernels == 1
        assert measured.kernel_calls == 20
        assert measured.fallbacks == {}
        assert measured.hook_failures == 0
        assert 10 <= measured.tasks <= 40
        assert measured.bytes_peak >= measured.bytes_before > 1 << 20
        assert [one.name for one in measured.differences] == ["call", "put"]
        assert measured.is_right

    def test_plain(self):
        measured = measure(replace(RUN, fused=False, check=False, repeat=1))
        assert measured.kernels == measured.kernel_calls == 0
        assert measured.differences == ()
        assert measured.later is None
        assert measured.is_right

    def test_fewer_tasks(self):
        plain = measure(replace(RUN, problem="chain", fused=False))
        fused = measure(replace(RUN, problem="chain"))
        assert 0 < fused.tasks <= plain.tasks

    def test_fallbacks_are_seen(self):
        measured = measure(
            replace(RUN, options={"min_bytes": 0, "backend": "interpreter"})
        )
        assert measured.kernel_calls == 0
        assert measured.fallbacks == {"backend": 20}
        assert measured.is_right

    def test_a_wrong_result_is_seen(self, monkeypatch: pytest.MonkeyPatch):
        problem = module.get_problem("chain")
        runs = []

        def wrong(*inputs):
            (total,) = problem.program(*inputs)
            runs.append(total)
            return (total + len(runs),)

        broken = replace(problem, program=wrong)
        monkeypatch.setattr(module, "get_problem", lambda name: broken)
        assert not measure(replace(RUN, problem="chain")).is_right

    def test_picture(self, tmp_path: Path):
        path = tmp_path / "values.png"
        measure(replace(RUN, picture=path))
        assert path.stat().st_size > 1000

    def test_to_dict_is_plain(self):
        import json

        data = json.loads(json.dumps(measure(RUN).to_dict()))
        assert data["is_right"] is True
        assert data["differences"][0]["name"] == "call"


def _die(run: Run) -> Measurement:
    os._exit(9)


class TestApart:
    def test_agrees(self):
        measured = module.measure_apart(RUN)
        assert measured.is_right
        assert measured.kernels == 1

    def test_a_killed_process(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(module, "measure", _die)
        with pytest.raises(
            ProcessError, match=r"black_scholes fused was killed.*--size"
        ):
            module.measure_apart(RUN)

    def test_errors_come_through(self):
        with pytest.raises(OptionError, match="size"):
            module.measure_apart(replace(RUN, size=-1))


class TestMemory:
    @pytest.mark.parametrize("kind", ["of the system", "sampled"])
    def test_sees_what_is_gone_again(self, kind: str, monkeypatch: pytest.MonkeyPatch):
        if kind == "sampled":
            monkeypatch.setattr(memory.sys, "platform", "somewhere")
        memory.start_peak()
        for _ in range(3):
            x = np.ones(16 << 20)
            x.sum()
            del x
        before, peak = memory.read_peak()
        assert 0.9 * (128 << 20) < peak - before < 1.5 * (128 << 20)
        memory.start_peak()
        before, peak = memory.read_peak()
        assert peak - before < 32 << 20

    def test_where_the_mark_cannot_be_reset(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(memory, "_RESET", tmp_path / "no" / "such" / "file")
        memory.start_peak()
        before, peak = memory.read_peak()
        assert peak >= before > 0

    def test_without_psutil(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(memory.sys, "platform", "somewhere")
        monkeypatch.setitem(memory.sys.modules, "psutil", None)
        with pytest.raises(MissingPackageError, match="psutil"):
            memory.start_peak()

    def test_reading_first(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(memory, "_peak", None)
        with pytest.raises(RuntimeError, match="start_peak"):
            memory.read_peak()


# A client that finds nobody leaves sockets behind, which Python tells of later on.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestClusters:
    @pytest.fixture(autouse=True)
    def _collect(self) -> Iterator[None]:
        yield
        gc.collect()

    @pytest.mark.parametrize(
        ("cluster", "workers", "words"),
        [
            ("cuda", None, "no kernels for GPUs"),
            ("thread", None, "it must be threads, processes, or the address"),
            ("", None, "it must be threads"),
            ("threads", 0, "--workers"),
            ("processes", -1, "--workers"),
        ],
    )
    def test_bad_words(self, cluster: str, workers: int | None, words: str):
        with pytest.raises(OptionError, match=words):
            check_cluster(cluster, workers)

    def test_without_distributed(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(memory.sys.modules, "distributed", None)
        check_cluster("threads")
        with pytest.raises(MissingPackageError, match=r"dask-diffuse\[distributed\]"):
            check_cluster("processes")

    def test_nobody_answers(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("dask_diffuse.apps.clusters.TIMEOUT", 1)
        with (
            pytest.raises(ClusterError, match="no scheduler answered within 1 s"),
            open_place("tcp://127.0.0.1:1"),
        ):
            pass

    @pytest.mark.parametrize("address", ["tcp://:", "nonsense://here:1"])
    def test_no_address(self, address: str):
        with pytest.raises((OptionError, ClusterError)), open_place(address):
            pass


@pytest.mark.distributed
class TestProcesses:
    def test_fused(self):
        measured = measure(replace(RUN, cluster="processes", workers=2))
        assert "2 workers" in measured.place
        assert measured.kernels == 1
        assert measured.kernel_calls == 20
        assert 10 <= measured.tasks <= 40
        assert measured.is_right

    def test_a_cluster_that_runs_already(self):
        import distributed

        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0"
        ) as cluster:
            measured = module.measure_apart(
                replace(RUN, cluster=cluster.scheduler_address)
            )
        assert cluster.scheduler_address in measured.place
        assert measured.kernels == 1
        assert measured.is_right

    def test_a_cluster_without_workers(self):
        import distributed

        with (
            distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
            pytest.raises(ClusterError, match="it has no workers"),
            open_place(cluster.scheduler_address),
        ):
            pass
