"""What would be fused, and why the rest would not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import dask
import dask.array as da
import dask.config

from dask_diffuse.dask_api import HighLevelGraph, Key, optimize_array_graph
from dask_diffuse.errors import DiffuseError
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.optimizer import Optimizer
from dask_diffuse.options import Options
from dask_diffuse.report import Explanation, GraphTrace, TaskCounts, count_tasks
from dask_diffuse.report.groups import size_text

__all__ = ["explain"]

_COUNTED_TASKS = 20_000
"""Graphs of more tasks are not run through Dask's own optimizer for comparison."""


def explain(
    *collections: Any, options: Options | None = None, **changes: Any
) -> Explanation:
    """Tell what the hook does when some collections are computed; compute nothing.

    Parameters
    ----------
    *collections
        Dask arrays, xarray objects, or lists and dicts of them, as for
        ``dask.compute``. All together are one graph.
    options
        Of the hook. By default those of the hook that is enabled, else those of
        Dask's configuration.
    **changes
        Single options.

    Returns
    -------
    Explanation
        Print it, or show it in a notebook. Its `groups`, `kernels` and `refusals` hold
        the same as data.

    Raises
    ------
    DiffuseError
        If there is nothing that the hook would see.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_diffuse
    >>> x = da.ones((4000, 4000), chunks=1000)
    >>> report = dask_diffuse.explain((da.sqrt(x) * 2 + 1).sum())
    >>> [group.label for group in report.groups]
    ['ones_like, sqrt, mul, add, sum']
    """
    hook = _hook(options, changes)
    dsk, keys = _graph_for_compute(collections)
    if hook.leaves_alone(dsk):
        trace = _untouched(hook, dsk, keys)
    else:
        trace = hook.trace(dsk, keys)
    explanation = trace.explanation(exact_math=hook.options.exact_math)
    assert explanation is not None
    return replace(explanation, counts=_counts(trace, keys))


def _hook(options: Options | None, changes: dict[str, Any]) -> Optimizer:
    if options is not None:
        return Optimizer(options, **changes)
    enabled = dask.config.get("array_optimize", None)
    if isinstance(enabled, Optimizer):
        return Optimizer(enabled.options, **changes)
    return Optimizer(**changes)


class _Stopped(Exception):
    """Ends `dask.compute` before anything is computed."""


def _graph_for_compute(collections: tuple[Any, ...]) -> tuple[HighLevelGraph, object]:
    """Return the graph and the keys that `dask.compute` hands to the hook."""
    seen: list[tuple[HighLevelGraph, object]] = []

    def look(dsk: Mapping[Key, Any], keys: object, **kwargs: Any) -> NoReturn:
        if isinstance(dsk, HighLevelGraph):
            seen.append((dsk, keys))
        raise _Stopped

    def materialize(dsk: Any, keys: object, **kwargs: Any) -> NoReturn:
        # Schedulers do this: until then the graph is an expression, and making tasks
        # of it calls the hook.
        dsk.__dask_graph__()
        raise _Stopped

    settings = {"array_optimize": look, "optimization.tune.active": True}
    with dask.config.set(settings), contextlib.suppress(_Stopped):
        dask.compute(*collections, scheduler=materialize)
    if not seen:
        raise DiffuseError(_nothing_to_explain(collections))
    return seen[0]


def _nothing_to_explain(collections: tuple[Any, ...]) -> str:
    kinds = ", ".join(sorted({type(c).__name__ for c in collections})) or "nothing"
    text = f"explain() was given {kinds}: no Dask array that an optimizer would see"
    if getattr(da, "ARRAY_EXPR_ENABLED", False):
        return (
            f"{text}. array.query-planning is on, and with it Dask never calls "
            "array_optimize. Set DASK_ARRAY__QUERY_PLANNING=False before dask.array is "
            "imported."
        )
    return f"{text}. Hand it the arrays themselves, before they are computed."


def _untouched(hook: Optimizer, dsk: HighLevelGraph, keys: object) -> GraphTrace:
    """Return the trace of a graph that is too small to be looked at."""
    options = hook.options
    # Fusion is planned all the same, to say what the layers are.
    trace = hook.trace(dsk, keys)
    plan = trace.plan
    assert plan is not None
    decision = Decision(
        Rule.TOO_SMALL,
        accepted=False,
        subject="all layers",
        detail="no array is larger than min_bytes, which is "
        f"{size_text(options.min_bytes)}, or has many blocks",
        remedy="The option min_bytes=0 fuses tiny arrays as well",
    )
    tasks = tuple(task.id for task in plan.program.tasks)
    trace.plan = replace(
        plan,
        groups=(),
        untouched=tasks,
        decisions=(decision, *plan.program.decisions),
    )
    trace.after = None
    return trace


def _counts(trace: GraphTrace, keys: object) -> TaskCounts:
    before = count_tasks(trace.before)
    dask_tasks = None
    if before <= _COUNTED_TASKS:
        dask_tasks = len(optimize_array_graph(trace.before, keys))
    fused = dask_tasks if trace.after is None else count_tasks(trace.after)
    return TaskCounts(before, dask_tasks, fused)
