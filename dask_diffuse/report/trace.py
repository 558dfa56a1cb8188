"""One graph on its way through the passes, for logs and files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dask_diffuse.dask_api import HighLevelGraph, Key
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.ir.program import Program
from dask_diffuse.report.explanation import Explanation, TaskCounts
from dask_diffuse.report.layers import count_tasks

__all__ = ["GraphTrace"]


@dataclass
class GraphTrace:
    """What the passes made of one graph, as far as they came.

    The optimizer fills it in, pass by pass.

    Parameters
    ----------
    before
        The graph as it was handed to the hook.
    program
        The graph as index tasks.
    plan
        What is fused.
    after
        The graph that is run; a list of tasks if it has no layers.
    seconds
        What each pass took, in the order of the passes.
    error
        What stopped them.
    """

    before: HighLevelGraph
    program: Program | None = None
    plan: FusionPlan | None = None
    after: Mapping[Key, Any] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    error: BaseException | None = None

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time one pass."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - start

    def explanation(self, *, exact_math: bool) -> Explanation | None:
        """Return what `explain` tells of the graph, or None if it was not planned."""
        if self.plan is None:
            return None
        after = None if self.after is None else count_tasks(self.after)
        counts = TaskCounts(count_tasks(self.before), None, after)
        return Explanation(self.plan, counts, exact_math)

    def __str__(self) -> str:
        passes = ", ".join(f"{name} {s * 1e3:.2f}" for name, s in self.seconds.items())
        spent = f"{sum(self.seconds.values()) * 1e3:.2f} ms ({passes})"
        layers = len(self.before.layers)
        if self.error is not None:
            return f"{layers} layers failed with {self.error!r} after {spent}"
        if self.plan is None or self.after is None:
            return f"{layers} layers, nothing to fuse, in {spent}"
        kind = "layers" if isinstance(self.after, HighLevelGraph) else "tasks"
        number = len(getattr(self.after, "layers", self.after))
        return (
            f"{layers} layers become {number} {kind}, "
            f"{len(self.plan.groups)} groups, in {spent}"
        )
