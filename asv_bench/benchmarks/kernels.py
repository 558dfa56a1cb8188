"""Single kernels on one block, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

import dask_diffuse
from benchmarks import common

EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: x * x + 2 * x - 1,
    "exp": lambda x: np.exp(-x) * x,
    "trigonometry": lambda x: np.sin(x) * np.cos(x),
    "where": lambda x: np.where(x > 0.5, x * 2, x + 1),
    "sum": lambda x: (x * x + 1).sum(),
    "mean and std": lambda x: (x * 2).std(),
}


def _layout(x: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers in other places of memory."""
    match layout:
        case "contiguous":
            return x
        case "fortran":
            return np.asfortranarray(x)
        case "every second":
            wide = np.empty((x.shape[0], 2 * x.shape[1]), x.dtype)
            wide[:, ::2] = x
            return wide[:, ::2]
        case _:
            raise AssertionError(layout)


class Kernels:
    """One block in the calling thread; `numpy` is the same without Dask."""

    params = (
        tuple(EXPRESSIONS),
        ("float32", "float64"),
        ("contiguous", "fortran", "every second"),
        ("numpy", "diffuse"),
    )
    param_names = ("expression", "dtype", "layout", "mode")

    def setup(self, expression: str, dtype: str, layout: str, mode: str) -> None:
        side = 20 if common.TINY else 1500
        numbers = np.random.default_rng(0).random((side, side)).astype(dtype)
        self.array = _layout(numbers, layout)
        self.expression = EXPRESSIONS[expression]
        self.output = None
        if mode == "diffuse":
            block = da.from_array(self.array, chunks=-1, name=False)
            self.output = self.expression(block)
            self.time_kernel(expression, dtype, layout, mode)

    def time_kernel(self, expression: str, dtype: str, layout: str, mode: str) -> None:
        if self.output is None:
            self.expression(self.array)
            return
        with dask_diffuse.enable(min_bytes=0):
            dask.compute(self.output, scheduler="synchronous")
