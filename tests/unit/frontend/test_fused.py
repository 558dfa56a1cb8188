"""Layers that Dask has fused before they are handed to us."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
from dask.array.optimization import optimize

from dask_diffuse.dask_api import optimize_blockwise
from dask_diffuse.ir.decision import Rule
from tests.unit.frontend.checks import body_of, check, program_of, refusal_of, task_of


def fused(array: da.Array) -> da.Array:
    graph = optimize_blockwise(array.dask, keys=[(array.name,)])
    return da.Array(graph, array.name, array.chunks, meta=array._meta)


def test_a_chain_is_inlined(a):
    y = fused((a.x + 1) * 2 - a.y)
    assert len(y.dask.layers) == 3
    program = check(y)
    assert [line.op for line in body_of(y).function.instructions if line.args] == [
        "add",
        "multiply",
        "subtract",
    ]
    assert len(task_of(program, y.name).reads) == 2


def test_a_diamond_is_computed_once(a):
    b = a.x + 1
    y = fused(b * 2 + b * 3)
    ops = [line.op for line in body_of(y).function.instructions if line.args]
    assert sorted(ops) == ["add", "add", "multiply", "multiply"]
    check(y)


def test_creation_within(a):
    check(fused(da.ones((7, 9), chunks=(3, 4)) * 2 + a.x))
    check(fused(da.full((7, 9), 2.5, chunks=(3, 4)) * 2))


def test_broadcasts_within(a):
    check(fused((a.v * 2) + (a.x * a.s)))


def test_nested_twice(a):
    inner = fused((a.x + 1) * 2)
    check(fused((inner - 1) / 3))


def test_unknown_functions_within_are_named(a):
    decision = refusal_of(fused(a.x.map_blocks(lambda block: block) + 1))
    assert decision.rule is Rule.UNKNOWN_FUNCTION
    assert "'lambda'" in decision.detail


def test_transposes_within_are_refused(a):
    decision = refusal_of(fused((a.x + 1).T * 2))
    assert "along other axes" in decision.detail


def test_graphs_of_dask_optimize_pass_through(a):
    (y,) = dask.optimize(a.x + 1)
    z = y * 2
    program = program_of(z)
    (write,) = (t for t in program.tasks if t.writes[0].store == z.name)
    assert write.reads[0].store == y.name
    check(z)


def test_culled_layers_without_tasks_fused(a):
    with dask.config.set({"optimization.fuse.active": False}):
        graph = optimize((a.x + 1).dask, (a.x + 1).__dask_keys__())
    y = da.Array(graph, (a.x + 1).name, a.x.chunks, dtype="f8") * 2
    program = check(y)
    assert np.prod(task_of(program, y.name).launch) == 9
