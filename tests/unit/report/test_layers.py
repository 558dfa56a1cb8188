from __future__ import annotations

import dask.array as da
import numpy as np

from dask_diffuse.dask_api import Blockwise, HighLevelGraph
from dask_diffuse.report import count_tasks, format_layers


def test_one_line_a_layer_in_order():
    x = da.ones((4, 6), chunks=(2, 3))
    lines = format_layers((x + 1).dask).splitlines()
    assert lines[0] == "2 layers"
    ones, add = lines[1:]
    assert ones.startswith("ones_like-")
    assert "Blockwise  4 tasks  float64[4, 6]" in add
    assert add.endswith("<- " + ones.split()[0])


def test_tasks_without_layers():
    graph = {("x-1", 0): 1, ("x-1", 1): 2, "total": 3}
    assert format_layers(graph).splitlines() == [
        "3 tasks, without layers",
        "total",
        "x-1",
    ]


def test_long_lists_are_cut():
    text = format_layers({f"key-{i}": i for i in range(1500)})
    assert text.splitlines()[-1] == "and 500 more"


def test_annotations_are_told():
    import dask

    with dask.annotate(priority=3):
        x = da.ones(4, chunks=2) + 1
    assert "annotations {'priority': 3}" in format_layers(x.dask)


def test_symbolic_layers_stay_symbolic():
    x = da.from_array(np.arange(64.0), chunks=8)
    y = da.overlap.overlap(x + 1, depth=1, boundary="none") * 2
    number = len(y.dask)
    y = da.overlap.overlap(x + 1, depth=1, boundary="none") * 2
    before = {name: layer.is_materialized() for name, layer in y.dask.layers.items()}
    assert not all(before.values())
    assert any(isinstance(layer, Blockwise) for layer in y.dask.layers.values())
    assert count_tasks(y.dask) == number
    format_layers(y.dask)
    after = {name: layer.is_materialized() for name, layer in y.dask.layers.items()}
    assert after == before


def test_broken_graphs_have_text():
    y = (da.ones(4, chunks=2) + 1) * 2
    ones, add, mul = y.dask.layers
    broken = HighLevelGraph(
        y.dask.layers, {ones: {"missing"}, add: {mul, ones}, mul: {add}}
    )
    lines = format_layers(broken).splitlines()
    assert len(lines) == 4
    assert {line.split()[0].rpartition("-")[0] for line in lines[1:]} == {
        "ones_like",
        "add",
        "mul",
    }


def test_order_follows_dependencies():
    x = da.ones(4, chunks=2)
    y = (x + 1) * (x - 1)
    layers = dict(reversed(y.dask.layers.items()))
    lines = format_layers(HighLevelGraph(layers, y.dask.dependencies)).splitlines()
    position = {line.split("-")[0]: n for n, line in enumerate(lines)}
    assert position["ones_like"] < min(position["add"], position["sub"])
    assert max(position["add"], position["sub"]) < position["mul"]
