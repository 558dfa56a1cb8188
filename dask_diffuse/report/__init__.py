"""What was done with a graph: as data, text, HTML and files.

Below the optimizer, which writes its debug folder through this room; the functions
that people call are in `dask_diffuse.diagnostics`.
"""

from __future__ import annotations

from dask_diffuse.report.dot import dot_text
from dask_diffuse.report.explanation import Explanation, KernelReport, TaskCounts
from dask_diffuse.report.groups import GroupReport, report_groups
from dask_diffuse.report.layers import count_tasks, format_layers
from dask_diffuse.report.serialize import (
    load_program,
    program_from_dict,
    program_to_dict,
)
from dask_diffuse.report.trace import GraphTrace
from dask_diffuse.report.write import write_trace

__all__ = [
    "Explanation",
    "GraphTrace",
    "GroupReport",
    "KernelReport",
    "TaskCounts",
    "count_tasks",
    "dot_text",
    "format_layers",
    "load_program",
    "program_from_dict",
    "program_to_dict",
    "report_groups",
    "write_trace",
]
