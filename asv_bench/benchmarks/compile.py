"""The first call of a kernel, and calls of one that is known."""

from __future__ import annotations

import shutil
import tempfile

from benchmarks import common
from dask_diffuse.apps import get_problem


class FirstCall:
    """In a new process: what the first call takes longer than the next."""

    params = (["empty", "filled"],)
    param_names = ("disk",)
    unit = "seconds"
    timeout = 300

    def setup(self, disk: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="dask-diffuse-bench-")
        if disk == "filled":
            common.first_call(self.folder)

    def teardown(self, disk: str) -> None:
        shutil.rmtree(self.folder)

    def track_first_call(self, disk: str) -> float:
        return common.first_call(self.folder)[1]

    def track_loading(self, disk: str) -> float:
        return common.first_call(self.folder)[0]


class CachedCall:
    """A small program again and again: planned, compiled, and computed at once."""

    params = (common.MODES,)
    param_names = ("mode",)

    def setup(self, mode: str) -> None:
        problem = get_problem("black_scholes")
        inputs = common.persisted_inputs(problem, problem.tiny)
        self.outputs = problem.program(*inputs)
        self.switch = common.switch(mode, min_bytes=0)
        common.compute(self.outputs)

    def teardown(self, mode: str) -> None:
        self.switch.__exit__(None, None, None)

    def time_cached_call(self, mode: str) -> None:
        common.compute(self.outputs)
