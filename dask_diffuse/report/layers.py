"""The layers of a graph of Dask as text. Symbolic ones stay symbolic."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from dask_diffuse.dask_api import Blockwise, HighLevelGraph, Key, Layer
from dask_diffuse.report.groups import short_name

__all__ = ["count_tasks", "format_layers"]

_LISTED_TASKS = 1000
"""How many tasks of a graph without layers are listed."""


def format_layers(graph: Mapping[Key, Any]) -> str:
    """Return one line for each layer, in topological order.

    A line holds the name, the class, the number of tasks, shape and dtype where they
    are announced, and the layers that it reads.

    Parameters
    ----------
    graph
        A graph of layers, or of tasks; of the latter only names are told.
    """
    if isinstance(graph, HighLevelGraph):
        lines = [_layer_line(graph, name) for name in _in_order(graph)]
        return "\n".join([f"{len(lines)} layers", *lines]) + "\n"
    names = sorted({str(key[0] if isinstance(key, tuple) else key) for key in graph})
    cut = (
        [f"and {len(names) - _LISTED_TASKS} more"] if len(names) > _LISTED_TASKS else []
    )
    head = f"{len(graph)} tasks, without layers"
    return "\n".join([head, *map(short_name, names[:_LISTED_TASKS]), *cut]) + "\n"


def count_tasks(graph: Mapping[Key, Any]) -> int:
    """Return the number of tasks of a graph, and leave its layers as they are.

    Parameters
    ----------
    graph
        A graph of layers, or of tasks.
    """
    if isinstance(graph, HighLevelGraph):
        return sum(_count_layer(layer) for layer in graph.layers.values())
    return len(graph)


def _count_layer(layer: Layer) -> int:
    if isinstance(layer, Blockwise) or layer.is_materialized():
        # The length of a Blockwise is a product of numbers of blocks.
        return len(layer)
    # The length of other symbolic layers (ArrayOverlapLayer) makes their tasks and
    # keeps them, and a layer that keeps them is sent to a scheduler with all of them.
    return len(copy.copy(layer))


def _in_order(graph: HighLevelGraph) -> Iterator[str]:
    """Yield the layers, each after those that it reads.

    Dask's own function raises if a dependency is missing or there is a cycle. Text for
    debugging should survive that.
    """
    entered: set[str] = set()
    for root in graph.layers:
        stack = [(root, _reads(graph, root))] if root not in entered else []
        entered.add(root)
        while stack:
            _, reads = stack[-1]
            read = next((n for n in reads if n not in entered), None)
            if read is None:
                yield stack.pop()[0]
            else:
                entered.add(read)
                stack.append((read, _reads(graph, read)))


def _reads(graph: HighLevelGraph, name: str) -> Iterator[str]:
    needed = graph.dependencies.get(name, ())
    return (read for read in sorted(needed) if read in graph.layers)


def _layer_line(graph: HighLevelGraph, name: str) -> str:
    layer = graph.layers[name]
    reads = " ".join(short_name(n) for n in sorted(graph.dependencies.get(name, ())))
    parts = [
        short_name(name),
        type(layer).__name__,
        f"{_count_layer(layer)} tasks",
        _array_text(layer),
        f"annotations {dict(layer.annotations)}" if layer.annotations else "",
        f"<- {reads}" if reads else "",
    ]
    return "  ".join(part for part in parts if part)


def _array_text(layer: Layer) -> str:
    known = layer.collection_annotations or {}
    if "shape" not in known or "dtype" not in known:
        return "" if not isinstance(layer, Blockwise) else "(array not announced)"
    return f"{known['dtype']}[{', '.join(map(str, known['shape']))}]"
