"""What `DIFFUSE_DEBUG` shows of each graph, on the levels 1 to 3."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from dask_diffuse.debug import log_debug
from dask_diffuse.ir.printer import format_program
from dask_diffuse.options import Options
from dask_diffuse.report.groups import short_name
from dask_diffuse.report.layers import format_layers
from dask_diffuse.report.trace import GraphTrace

__all__ = ["log_graph"]


def log_graph(trace: GraphTrace, options: Options) -> None:
    """Log what the passes made of one graph, as far as the options ask for it.

    Parameters
    ----------
    trace
        What the passes made of the graph, as far as they came.
    options
        Of the hook.
    """
    log_debug(options, "optimizer", "%s", trace)
    if trace.program is not None:
        if options.logs("frontend"):
            for decision in trace.program.decisions:
                log_debug(options, "frontend", "%s", short_name(str(decision)))
        if options.logs("ir"):
            log_debug(options, "ir", "imported\n%s", format_program(trace.program))
    if trace.plan is not None and options.logs("fusion"):
        imported = set(trace.plan.program.decisions)
        for decision in trace.plan.decisions:
            if decision not in imported:
                log_debug(options, "fusion", "%s", short_name(str(decision)))
    if trace.after is not None and options.logs("lowering"):
        log_debug(options, "lowering", "lowered\n%s", "\n".join(_changes(trace)))


def _changes(trace: GraphTrace) -> Iterator[str]:
    """Yield the layers before and after fusion, as a diff."""
    before = format_layers(trace.before).splitlines()
    after = format_layers(trace.after or {}).splitlines()
    return difflib.unified_diff(before, after, "before", "after", n=0, lineterm="")
