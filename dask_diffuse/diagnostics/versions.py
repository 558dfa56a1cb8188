"""What is installed here: for bug reports, and to compare the nodes of a cluster."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass
from typing import Any, TextIO

__all__ = ["SystemInfo", "cluster_info", "show_versions", "system_info"]

_PACKAGES = (
    "dask-diffuse",
    "dask",
    "distributed",
    "numpy",
    "llvmlite",
    "numba",
    "xarray",
    "zarr",
    "scipy",
    "cupy-cuda12x",
    "cupy-cuda13x",
)


@dataclass(frozen=True, slots=True)
class SystemInfo:
    """The machine and the packages of one process.

    Parameters
    ----------
    machine
        Pairs of a name and a value: Python, system, processor.
    packages
        Pairs of a package and its version; None where it is not installed.
    """

    machine: tuple[tuple[str, str], ...]
    packages: tuple[tuple[str, str | None], ...]

    def __str__(self) -> str:
        rows = [*self.machine, *((n, v or "not installed") for n, v in self.packages)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def to_dict(self) -> dict[str, dict[str, str | None]]:
        """Return the pairs as dicts."""
        return {"machine": dict(self.machine), "packages": dict(self.packages)}


def system_info() -> SystemInfo:
    """Return what this process runs on and with."""
    return SystemInfo(
        machine=(
            ("python", platform.python_version()),
            ("system", f"{platform.system()} {platform.release()}"),
            ("libc", " ".join(platform.libc_ver()).strip() or "unknown"),
            ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ),
        packages=tuple((name, _version(name)) for name in _PACKAGES),
    )


def cluster_info(client: Any) -> dict[str, SystemInfo]:
    """Return `system_info` of every node of a cluster.

    Parameters
    ----------
    client
        A client of ``distributed``.

    Returns
    -------
    dict
        By address for workers, and for ``"client"`` and ``"scheduler"``.
    """
    return {
        "client": system_info(),
        "scheduler": client.run_on_scheduler(system_info),
        **client.run(system_info),
    }


def show_versions(file: TextIO | None = None) -> None:
    """Write the versions of all that matters, for a bug report.

    Parameters
    ----------
    file
        Standard output if None.
    """
    (file or sys.stdout).write(f"{system_info()}\n")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """Return the model of the processor; `platform` knows only its architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        # Only Linux has the file.
        return platform.machine()
    return platform.machine()
