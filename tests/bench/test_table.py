"""The scripts that print what is promised beside what is measured."""

from __future__ import annotations

import json
import math
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


@pytest.mark.parametrize("name", ["dask_diffuse", "plain Dask", "numba", "half", "jax"])
def test_peers_agree_and_are_timed(name: str):
    import compare_peers

    if name == "jax":
        pytest.importorskip("jax", reason="the comparison leaves out what is missing")
    assert compare_peers.measure_here(name, 1000, threads=1, repeat=1) > 0


def test_peers_have_processes_of_their_own():
    import compare_peers

    names = ["dask_diffuse", "plain Dask"]
    best = compare_peers.measure(names, 1000, threads=1, repeat=1)
    assert list(best) == names
    assert all(0 < seconds < math.inf for seconds in best.values())


def test_a_peer_that_disagrees():
    import compare_peers

    pricer, inputs = compare_peers.make_pricer("plain Dask", 1000, threads=1)
    call, put = pricer()
    with pytest.raises(AssertionError, match="prices differ"):
        compare_peers.check(lambda: (call, put + 1), inputs)
