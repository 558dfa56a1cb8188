"""Memory on top of the inputs, each mode in a process of its own."""

from __future__ import annotations

from benchmarks import common
from dask_diffuse.apps import get_problem
from dask_diffuse.apps.measure import Run, measure_apart


class BeyondInputs:
    """The most memory held at once, less what was held before with the inputs."""

    params = (
        ("black_scholes", "black_scholes_sums", "chain", "standardize_max", "softmax"),
        common.MODES,
    )
    param_names = ("problem", "mode")
    unit = "bytes"
    timeout = 600

    def track_peak(self, problem: str, mode: str) -> int:
        size = common.size_of(get_problem(problem))
        fused = mode == "diffuse"
        measured = measure_apart(Run(problem, fused, size=size, repeat=2))
        return measured.bytes_peak - measured.bytes_before
