"""The scripts that print what is promised beside what is measured."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner


def test_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import table

    # Where the terminal is narrow, names are broken into lines.
    monkeypatch.setenv("COLUMNS", "160")
    file = tmp_path / "table.json"
    arguments = ["--tiny", "--repeat", "1", "--only", "chain", "--json", str(file)]
    result = CliRunner().invoke(table.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    claims = json.loads(file.read_text())
    assert {claim["part"] for claim in claims} == set(table.PARTS)
    for claim in claims:
        assert claim["fused"] > 0
        assert claim["value"] > 0
        assert claim["is_met"] in (True, False) or claim["goal"] is None
        assert claim["name"] in result.stdout


def test_ratios_are_plain_by_fused():
    import table

    claim = table.Claim("problems", "x", 3.0, 1.0, 3.0, 2.5, larger_is_better=True)
    assert claim.is_met
    assert table.row_of(claim)[4:] == ["3", "at least 2.5", "yes"]
    claim = table.Claim("hook", "x", 3.0, 6.0, 2.0, 1.0)
    assert claim.is_met is False
    assert table.row_of(claim)[4:] == ["2", "at most 1", "NO"]
    assert table.Claim("hook", "x", 3.0, 6.0, 2.0, None).is_met is None


@pytest.mark.parametrize("mode", ["dask", "diffuse"])
def test_graph_for_compute(mode: str):
    # What we time is what Dask hands over: the hook makes the same of it.
    from benchmarks import common

    import dask_diffuse
    from dask_diffuse.apps import get_problem

    problem = get_problem("chain")
    inputs = common.persisted_inputs(problem)
    graph, keys = common.graph_for_compute(problem.program(*inputs))
    assert any(name.startswith("finalize-") for name in graph.layers)
    assert len(common.optimizer_of(mode)(graph, keys)) > 0
    plan = dask_diffuse.Optimizer(min_bytes=0).trace(graph, keys).plan
    assert plan is not None
    assert len(plan.groups) == 1


def test_peers_agree_and_are_timed():
    import compare_peers

    found = compare_peers.pricers(1000, threads=1)
    assert {"dask_diffuse", "plain Dask", "numba"} <= set(found)
    assert ("jax" in found) == (importlib.util.find_spec("jax") is not None)
    best = compare_peers.measure(found, repeat=1)
    assert all(seconds > 0 for seconds in best.values())


def test_a_peer_that_disagrees():
    import compare_peers

    found = compare_peers.pricers(1000, threads=1)
    call, put = found["plain Dask"]()
    found = {"dask_diffuse": found["dask_diffuse"], "wrong": lambda: (call, put + 1)}
    with pytest.raises(AssertionError, match="wrong disagrees"):
        compare_peers.measure(found, repeat=1)
