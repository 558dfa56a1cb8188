"""Logs and files of optimized graphs, where the options ask for them."""

from __future__ import annotations

import logging

from dask_diffuse.options import Options
from dask_diffuse.report.trace import GraphTrace

__all__ = ["write_trace"]

logger = logging.getLogger(__name__)


def write_trace(trace: GraphTrace, options: Options) -> None:
    """Log what the passes made of a graph and write it to files, if that is wanted.

    Parameters
    ----------
    trace
        What the passes made of the graph, as far as they came.
    options
        Of the hook.
    """
    if options.debug or options.debug_topics:
        from dask_diffuse.report.log import log_graph

        try:
            log_graph(trace, options)
        except Exception:
            # Telling what happens must not change what happens.
            logger.warning("could not log a graph", exc_info=True)
    if options.dump is not None:
        from dask_diffuse.report.dump import dump_graph

        dump_graph(trace, options.dump, exact_math=options.exact_math)
