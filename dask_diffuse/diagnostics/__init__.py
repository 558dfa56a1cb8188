"""What people call to see what is done: `explain`, `stats`, `visualize`, versions."""

from __future__ import annotations

from dask_diffuse.diagnostics.draw import visualize
from dask_diffuse.diagnostics.explain import explain
from dask_diffuse.diagnostics.stats import ProcessStats, Stats, stats
from dask_diffuse.diagnostics.versions import show_versions

__all__ = [
    "ProcessStats",
    "Stats",
    "explain",
    "show_versions",
    "stats",
    "visualize",
]
