from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask.array as da
import pytest

from dask_diffuse.report import GraphTrace, load_program, program_to_dict
from dask_diffuse.report import dump as dump_module
from dask_diffuse.report.dump import dump_graph


@pytest.fixture
def trace(plan) -> GraphTrace:
    before = (da.ones((4, 6), chunks=(2, 3)) + 1).dask
    trace = GraphTrace(before, plan.program, plan, before)
    with trace.time("plan"):
        pass
    return trace


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_numbered_folder_for_each_graph(trace, tmp_path):
    target = tmp_path / "new" / "folder"
    first = dump_graph(trace, str(target), exact_math=False)
    second = dump_graph(trace, str(target), exact_math=False)
    assert first == target / "graph-0000"
    assert second == target / "graph-0001"
    assert names(target) == ["graph-0000", "graph-0001"]
    assert names(first) == [
        "00-layers.txt",
        "10-program.txt",
        "20-plan.txt",
        "21-plan.dot",
        "300-mul-add-sum.txt",
        "301-mul-add-sum-core.txt",
        "80-layers.txt",
        "90-report.json",
        "99-passes.txt",
    ]
    assert "group 0: mul, add, sum" in (first / "20-plan.txt").read_text()
    assert "multiply" in (first / "300-mul-add-sum.txt").read_text()
    assert "2 layers become 2 layers, 1 groups" in (first / "99-passes.txt").read_text()
    assert not [p for p in first.iterdir() if "could not be made" in p.read_text()]


def test_the_program_can_be_read_back(trace, tmp_path):
    folder = dump_graph(trace, str(tmp_path), exact_math=False)
    assert folder is not None
    saved = json.loads((folder / "90-report.json").read_text())
    program = load_program(folder / "90-report.json")
    assert program_to_dict(program) == saved["program"]


def test_a_graph_that_failed_is_written_as_far_as_it_came(trace, tmp_path):
    failed = GraphTrace(trace.before, trace.program)
    try:
        raise ValueError("no plan for this")
    except ValueError as error:
        failed.error = error
    folder = dump_graph(failed, str(tmp_path), exact_math=False)
    assert folder is not None
    assert names(folder) == ["00-layers.txt", "10-program.txt", "99-passes.txt"]
    text = (folder / "99-passes.txt").read_text()
    assert "Traceback" in text
    assert "no plan for this" in text


def test_a_file_that_cannot_be_made_says_so(trace, tmp_path, monkeypatch):
    def fail(graph):
        raise RuntimeError("broken text")

    monkeypatch.setattr(dump_module, "format_layers", fail)
    folder = dump_graph(trace, str(tmp_path), exact_math=False)
    assert folder is not None
    assert "broken text" in (folder / "00-layers.txt").read_text()
    assert "group 0" in (folder / "20-plan.txt").read_text()


def test_long_texts_are_cut(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(dump_module, "_MAX_CHARACTERS", 10)
    folder = dump_graph(trace, str(tmp_path), exact_math=False)
    assert folder is not None
    text = (folder / "20-plan.txt").read_text()
    assert text.splitlines()[0] == "4 layers, "
    assert "cut:" in text


def test_a_full_folder_takes_no_more(trace, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(dump_module, "MAX_GRAPHS", 2)
    written = [dump_graph(trace, str(tmp_path), exact_math=False) for _ in range(3)]
    assert written[2] is None
    assert names(tmp_path) == ["graph-0000", "graph-0001"]
    assert "holds 2 graphs, and takes no more" in caplog.text


def test_trouble_with_the_disk_is_logged_and_not_raised(trace, tmp_path, caplog):
    path = tmp_path / "file"
    path.write_text("not a folder")
    with caplog.at_level(logging.WARNING):
        assert dump_graph(trace, str(path), exact_math=False) is None
    assert "could not write a graph" in caplog.text
    assert path.read_text() == "not a folder"


def test_several_writers_get_folders_of_their_own(trace, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        folders = list(
            pool.map(
                lambda _: dump_graph(trace, str(tmp_path), exact_math=False), range(12)
            )
        )
    assert len(set(folders)) == 12
    assert None not in folders
    # Nothing that is half written is left.
    assert names(tmp_path) == [f"graph-{i:04d}" for i in range(12)]
