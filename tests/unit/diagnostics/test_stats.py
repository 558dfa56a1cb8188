from __future__ import annotations

import json
import sys

import dask
import dask.array as da
import pytest

import dask_diffuse
from dask_diffuse.diagnostics.stats import ProcessStats, stats


def program():
    x = da.ones((60, 40), chunks=(20, 40))
    return (da.sqrt(x) * 2 + 1).sum()


def counted(calls: int, **fallbacks: int) -> ProcessStats:
    return ProcessStats(
        graphs={"fused": 1, "seconds": 0.25},
        plans={},
        kernels={"compiled": 2, "folder": "/cache"},
        calls={"calls": calls, "fallbacks": fallbacks},
    )


def test_counts_graphs_kernels_and_calls():
    before = stats()
    with dask_diffuse.enable(min_bytes=0, strict=True):
        assert float(program().compute(scheduler="sync")) == 60 * 40 * 3
    after = stats()
    assert after.graphs["fused"] == before.graphs["fused"] + 1
    assert after.graphs["groups"] > before.graphs["groups"]
    assert after.graphs["failed"] == before.graphs["failed"]
    # One for each block.
    assert after.calls["calls"] == before.calls["calls"] + 3
    # Nothing is read, and one partial result is written for each block.
    assert after.calls["bytes_read"] == before.calls["bytes_read"]
    assert after.calls["bytes_written"] == before.calls["bytes_written"] + 3 * 8
    assert after.calls["seconds"] > before.calls["seconds"]
    assert after.calls["fallbacks"] == before.calls["fallbacks"]
    assert after.nodes == {}


def test_a_fallback_is_counted_by_its_reason():
    def reason(now):
        return now.calls["fallbacks"].get("backend", 0)

    before = stats()
    with dask_diffuse.enable(min_bytes=0, backend="interpreter"):
        program().compute(scheduler="sync")
    assert reason(stats()) == reason(before) + 3


def test_text_and_dict():
    now = stats()
    lines = str(now).splitlines()
    assert repr(now) == str(now)
    assert [line.split()[0] for line in lines] == [
        "graphs",
        "plans",
        "kernels",
        "calls",
    ]
    assert "fallbacks" in lines[-1]
    assert " read, " in lines[-1]
    saved = json.loads(json.dumps(now.to_dict()))
    assert set(saved) == {"graphs", "plans", "kernels", "calls", "nodes"}


class OneProcessCluster:
    """A client, a scheduler and two workers, of which one shares our process."""

    def run_on_scheduler(self, function):
        return ("here", 1), counted(3, errstate=1)

    def run(self, function):
        return {
            "tcp://a": (("here", 1), counted(3, errstate=1)),
            "tcp://b": (("there", 1), counted(4, errstate=2, backend=5)),
        }


def test_sums_over_processes_and_not_over_nodes(monkeypatch):
    # The function of this name hides the module.
    module = sys.modules[stats.__module__]
    monkeypatch.setattr(
        module, "_count_process", lambda: (("here", 1), counted(3, errstate=1))
    )
    total = stats(OneProcessCluster())
    assert total.calls == {"calls": 7, "fallbacks": {"errstate": 3, "backend": 5}}
    assert total.kernels == {"compiled": 4, "folder": "/cache"}
    assert total.graphs == {"fused": 2, "seconds": 0.5}
    assert list(total.nodes) == ["client", "scheduler", "tcp://a", "tcp://b"]
    text = str(total)
    assert "tcp://b\ngraphs" in text
    assert "4 calls, fallbacks (2 errstate, 5 backend)" in text


@pytest.mark.distributed
def test_asks_the_workers_of_a_cluster(tmp_path):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
        dask_diffuse.enable(min_bytes=0, dump=str(tmp_path)),
    ):
        assert float(program().compute()) == 60 * 40 * 3
        total = stats(client)
    # Options travel: the hook wrote the graph, and the workers their kernels.
    assert sorted(p.name for p in tmp_path.iterdir()) == ["graph-0000", "kernels"]
    assert sorted(p.suffix for p in (tmp_path / "kernels").iterdir()) == [
        ".ll",
        ".s",
        ".txt",
    ]
    workers = {name: n for name, n in total.nodes.items() if name.startswith("tcp")}
    assert len(workers) == 2
    assert sum(node.calls["calls"] for node in workers.values()) == 3
    # The hook ran where the scheduler is: here.
    assert all(node.graphs["fused"] == 0 for node in workers.values())
    assert total.nodes["scheduler"] == total.nodes["client"]
    assert dask.config.get("array_optimize", None) is None
