from __future__ import annotations

import logging

import dask.array as da
import pytest

from dask_diffuse.ir.decision import Rule
from dask_diffuse.options import Options
from dask_diffuse.report import GraphTrace, write_trace


@pytest.fixture
def trace(plan) -> GraphTrace:
    x = da.ones((4, 6), chunks=(2, 3))
    trace = GraphTrace((x + 1).dask, plan.program, plan, (x + 2).dask)
    with trace.time("import"):
        pass
    return trace


def messages(trace, caplog, **options) -> list[tuple[str, str]]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "dask_diffuse"):
        write_trace(trace, Options(**options))
    return [
        (r.name.removeprefix("dask_diffuse."), r.getMessage()) for r in caplog.records
    ]


def test_quiet_unless_asked(trace, caplog):
    assert messages(trace, caplog) == []


def test_level_1_is_one_line_a_graph(trace, caplog):
    ((topic, line),) = messages(trace, caplog, debug=1)
    assert topic == "optimizer"
    assert line.startswith("2 layers become 2 layers, 1 groups, in ")
    assert "import" in line
    assert "\n" not in line


def test_level_2_adds_every_decision_once(trace, caplog):
    lines = messages(trace, caplog, debug=2)
    assert [topic for topic, _ in lines] == ["optimizer", "frontend", "fusion"]
    (_, imported), (_, planned) = lines[1:]
    assert Rule.UNKNOWN_FUNCTION.value in imported
    assert Rule.TRUE_DEPENDENCE.value in planned


def test_level_3_adds_the_program_and_the_change_of_layers(trace, caplog):
    lines = messages(trace, caplog, debug=3)
    assert {topic for topic, _ in lines} == {
        "optimizer",
        "frontend",
        "fusion",
        "ir",
        "lowering",
    }
    text = dict(lines)
    assert "float64" in text["ir"] or "f64" in text["ir"]
    assert "-add-" in text["lowering"]
    assert "+add-" in text["lowering"]


def test_topics_are_logged_whatever_the_level(trace, caplog):
    lines = messages(trace, caplog, debug_topics=("fusion",))
    assert {topic for topic, _ in lines} == {"fusion"}


def test_a_graph_that_failed_is_told(trace, caplog):
    trace = GraphTrace(trace.before, error=ValueError("no"))
    ((_, line),) = messages(trace, caplog, debug=1)
    assert "2 layers failed with ValueError('no')" in line


def test_a_graph_without_groups_is_told(trace, caplog):
    trace = GraphTrace(trace.before, trace.program, trace.plan)
    ((_, line),) = messages(trace, caplog, debug=1)
    assert "2 layers, nothing to fuse" in line


def test_trouble_with_text_is_not_raised(trace, caplog, monkeypatch):
    monkeypatch.setattr("dask_diffuse.report.log.format_layers", lambda graph: 1 / 0)
    lines = messages(trace, caplog, debug=3)
    assert lines[-1] == ("report.write", "could not log a graph")
