"""Programs in plain dask.array: for the command line, the tests and the benchmarks.

None of them knows dask_diffuse: it is switched on around them.
"""

from __future__ import annotations

from dask_diffuse.apps.problem import Arrays, Difference, Problem, compare
from dask_diffuse.apps.problems import PROBLEMS, get_problem

__all__ = ["PROBLEMS", "Arrays", "Difference", "Problem", "compare", "get_problem"]
