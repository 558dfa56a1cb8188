"""What the hook costs, against Dask's own optimizer."""

from __future__ import annotations

from typing import Any

import dask_diffuse
from benchmarks import common
from dask_diffuse.apps import PROBLEMS, get_problem


class Layers:
    """Deep graphs: time should follow the number of layers."""

    params = ([10, 100, 1000, 10_000], common.MODES)
    param_names = ("layers", "mode")
    timeout = 600

    def setup(self, layers: int, mode: str) -> None:
        array = common.layered(layers, blocks=100)
        self.graph, self.keys = array.dask, array.__dask_keys__()
        self.optimize = common.optimizer_of(mode)

    def time_optimize(self, layers: int, mode: str) -> None:
        self.optimize(self.graph, self.keys)

    def track_tasks(self, layers: int, mode: str) -> int:
        return len(self.optimize(self.graph, self.keys))

    track_tasks.unit = "tasks"  # type: ignore[attr-defined]


class Blocks:
    """Wide graphs: symbolic ones should cost the same for any number of blocks."""

    params = ([100, 1000, 10_000, 100_000], common.MODES)
    param_names = ("blocks", "mode")
    timeout = 600

    def setup(self, blocks: int, mode: str) -> None:
        array = common.layered(10, blocks, chunk=10)
        self.graph, self.keys = array.dask, array.__dask_keys__()
        self.optimize = common.optimizer_of(mode)

    def time_optimize(self, blocks: int, mode: str) -> None:
        self.optimize(self.graph, self.keys)


class Problems:
    """The graphs that we measure ourselves by, as compute hands them over."""

    params = (tuple(PROBLEMS), common.MODES)
    param_names = ("problem", "mode")

    def setup(self, problem: str, mode: str) -> None:
        chosen = get_problem(problem)
        inputs = common.persisted_inputs(chosen, chosen.tiny)
        self.graph, self.keys = common.graph_for_compute(chosen.program(*inputs))
        self.optimize = common.optimizer_of(mode)

    def time_optimize(self, problem: str, mode: str) -> None:
        self.optimize(self.graph, self.keys)


class Groups:
    """How many kernels a problem takes."""

    params = (tuple(PROBLEMS),)
    param_names = ("problem",)
    unit = "groups"

    def setup(self, problem: str) -> None:
        chosen = get_problem(problem)
        inputs = common.persisted_inputs(chosen, chosen.tiny)
        self.arguments: Any = common.graph_for_compute(chosen.program(*inputs))

    def track_groups(self, problem: str) -> int:
        plan = dask_diffuse.Optimizer(min_bytes=0).trace(*self.arguments).plan
        return 0 if plan is None else len(plan.groups)
