"""Task and kernel fusion for dask.array: one compiled kernel per block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_diffuse.config import is_enabled, load_defaults

if TYPE_CHECKING:
    from dask_diffuse.diagnostics import explain, show_versions, stats, visualize
    from dask_diffuse.optimizer import Optimizer, disable, enable, optimize
    from dask_diffuse.options import Options

    __version__: str

__all__ = [
    "Optimizer",
    "Options",
    "__version__",
    "disable",
    "enable",
    "explain",
    "optimize",
    "show_versions",
    "stats",
    "visualize",
]

_HOME = {
    "Optimizer": "optimizer",
    "Options": "options",
    "disable": "optimizer",
    "enable": "optimizer",
    "explain": "diagnostics",
    "optimize": "optimizer",
    "show_versions": "diagnostics",
    "stats": "diagnostics",
    "visualize": "diagnostics",
}
"""Where each public name lives. They are loaded when they are first used: workers
import this package to run kernels, and need none of them."""


def __getattr__(name: str) -> object:
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        value: object = version("dask-diffuse")
    elif name in _HOME:
        value = getattr(importlib.import_module(f"dask_diffuse.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _initialize() -> None:
    load_defaults()
    if is_enabled():
        from dask_diffuse.optimizer import enable

        enable()


_initialize()
