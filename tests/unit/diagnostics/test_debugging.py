"""`DIFFUSE_DEBUG` and `DIFFUSE_DUMP`, from the hook to the kernels."""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

import dask_diffuse
from dask_diffuse.report import load_program
from dask_diffuse.runtime import show
from dask_diffuse.runtime.cpu import forget_kernels

DATA = np.random.default_rng(0).random((60, 40))


def program():
    x = da.from_array(DATA, chunks=(20, 40))
    return (da.exp(x) * 2 + 1).sum()


def compute(**options) -> float:
    with dask_diffuse.enable(min_bytes=0, strict=True, cache_disk=False, **options):
        return float(program().compute(scheduler="sync"))


def topics(caplog, **options) -> set[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "dask_diffuse"):
        compute(**options)
    return {record.name.removeprefix("dask_diffuse.") for record in caplog.records}


class TestLog:
    def test_each_level_adds_topics(self, caplog):
        assert topics(caplog) == set()
        seen = [topics(caplog, debug=level) for level in range(1, 6)]
        assert seen[0] == {"optimizer"}
        for less, more in itertools.pairwise(seen):
            assert less < more
        assert seen[4] == set(dask_diffuse.options.DEBUG_TOPICS)

    def test_kernels_are_told_with_their_code(self, caplog):
        assert topics(caplog, debug_topics=("codegen",)) == {"codegen"}
        (record,) = caplog.records
        text = record.getMessage()
        assert text.startswith('kernel "exp-mul-add-sum"')
        assert "define" in text

    def test_calls_are_told_one_by_one(self, caplog):
        topics(caplog, debug_topics=("runtime",))
        assert [r.getMessage() for r in caplog.records] == [
            "kernel 'exp-mul-add-sum' over (20, 40)"
        ] * 3

    def test_fallbacks_are_told_with_their_reason(self, caplog):
        topics(caplog, debug_topics=("runtime",), backend="interpreter")
        messages = {r.getMessage() for r in caplog.records}
        assert messages == {"kernel 'exp-mul-add-sum' falls back: backend"}

    def test_the_environment_asks_for_it(self):
        code = (
            "import dask.array as da, dask_diffuse\n"
            "dask_diffuse.enable(min_bytes=0)\n"
            "((da.ones((60, 40), chunks=20) + 1) * 2).sum().compute()\n"
        )
        finished = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={"DIFFUSE_DEBUG": "1", "PATH": ""},
        )
        (line,) = finished.stderr.splitlines()
        assert line.startswith("dask_diffuse.optimizer: 7 layers become ")
        assert "1 groups" in line


class TestDump:
    def test_a_folder_for_the_graph_and_one_for_kernels(self, tmp_path):
        forget_kernels()
        assert compute(dump=str(tmp_path)) == compute()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["graph-0000", "kernels"]
        graph = {p.name: p.read_text() for p in (tmp_path / "graph-0000").iterdir()}
        assert graph["10-program.txt"].startswith("program")
        assert "exp" in graph["00-layers.txt"]
        assert "group 0: exp, mul, add, sum" in graph["20-plan.txt"]
        assert json.loads(graph["90-report.json"])["tasks"]["graph"] > 0
        assert load_program(tmp_path / "graph-0000" / "90-report.json").tasks
        kernels = sorted((tmp_path / "kernels").iterdir())
        assert [p.suffix for p in kernels] == [".ll", ".s", ".txt"]
        assert len({p.stem for p in kernels}) == 1
        assert kernels[0].name.startswith("exp-mul-add-sum-")
        assert "define" in kernels[0].read_text()

    def test_kernels_are_written_once(self, tmp_path):
        compute(dump=str(tmp_path))
        (kernel,) = (tmp_path / "kernels").glob("*.ll")
        kernel.write_text("mine")
        compute(dump=str(tmp_path))
        assert kernel.read_text() == "mine"
        assert len(list(tmp_path.glob("graph-*"))) == 2

    def test_a_failing_graph_leaves_a_trace(self, tmp_path, monkeypatch):
        def fail(*args, **kwargs):
            raise RuntimeError("no plan today")

        monkeypatch.setattr("dask_diffuse.optimizer.plan_fusion", fail)
        with pytest.raises(RuntimeError, match="no plan today"):
            compute(dump=str(tmp_path))
        (folder,) = tmp_path.iterdir()
        assert "no plan today" in (folder / "99-passes.txt").read_text()
        assert (folder / "10-program.txt").exists()

    def test_a_folder_that_cannot_be_written_changes_nothing(self, tmp_path, caplog):
        path = tmp_path / "file"
        path.write_text("")
        assert compute(dump=str(path)) == compute()
        assert "could not write a graph" in caplog.text
        assert "could not show kernel" in caplog.text

    def test_a_full_folder_takes_no_more_kernels(self, tmp_path, monkeypatch, caplog):
        monkeypatch.setattr(show, "MAX_FILES", 0)
        compute(dump=str(tmp_path))
        assert not list((tmp_path / "kernels").iterdir())
        assert "takes no more" in caplog.text

    def test_small_graphs_leave_no_trace(self, tmp_path: Path):
        with dask_diffuse.enable(dump=str(tmp_path)):
            program().compute(scheduler="sync")
        assert not list(tmp_path.iterdir())
