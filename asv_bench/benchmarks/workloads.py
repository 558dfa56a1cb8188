"""Time and peak memory of the problems that we measure ourselves by."""

from __future__ import annotations

from benchmarks import common
from dask_diffuse.apps import PROBLEMS, get_problem


class Workloads:
    """The graph is built, optimized and computed within the time."""

    params = (tuple(PROBLEMS), common.MODES)
    param_names = ("problem", "mode")
    timeout = 600

    def setup(self, problem: str, mode: str) -> None:
        self.problem = get_problem(problem)
        self.inputs = common.persisted_inputs(self.problem)
        self.switch = common.switch(mode)
        self.run()

    def teardown(self, problem: str, mode: str) -> None:
        self.switch.__exit__(None, None, None)

    def run(self) -> None:
        common.compute(self.problem.program(*self.inputs))

    def time_compute(self, problem: str, mode: str) -> None:
        self.run()

    def peakmem_compute(self, problem: str, mode: str) -> None:
        self.run()
