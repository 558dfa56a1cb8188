"""The most memory that a process held at once, asked of the system.

Linux keeps the peak itself and lets us start it anew. Elsewhere a thread looks at the
size of the process every few milliseconds; that needs psutil.
"""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path
from typing import Any, Protocol

from dask_diffuse.errors import MissingPackageError

__all__ = ["MemoryPeak", "read_peak", "start_peak"]

logger = logging.getLogger(__name__)

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_INTERVAL = 0.002


class MemoryPeak(Protocol):
    """Watches this process from when it is made.

    Parameters
    ----------
    before
        Bytes that the process held when watching began.
    """

    before: int

    def read(self) -> int:
        """Return the most bytes held since."""
        ...


class _KernelPeak:
    """The high-water mark that Linux keeps for each process."""

    def __init__(self) -> None:
        _RESET.write_text("5")
        self.before = _status("VmRSS")

    def read(self) -> int:
        return _status("VmHWM")


def _status(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no line {name}")


class _SampledPeak:
    """The largest of many looks at the size of the process."""

    def __init__(self) -> None:
        try:
            import psutil
        except ImportError as error:
            raise MissingPackageError("psutil", "measuring memory", "demo") from error
        self._process = psutil.Process()
        self.before = self._peak = self._now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _now(self) -> int:
        return int(self._process.memory_info().rss)

    def _look(self) -> None:
        while not self._done.wait(_INTERVAL):
            self._peak = max(self._peak, self._now())

    def read(self) -> int:
        self._done.set()
        self._thread.join()
        self._peak = max(self._peak, self._now())
        return self._peak


_peak: MemoryPeak | None = None
"""What watches this process; workers of a cluster are watched by messages."""


def start_peak() -> None:
    """Start watching this process anew.

    Raises
    ------
    MissingPackageError
        Where only psutil could tell, and it is not installed.
    """
    global _peak
    if _peak is not None:
        _peak.read()
    if sys.platform == "linux":
        try:
            _peak = _KernelPeak()
        except OSError as error:
            # Some containers keep processes from resetting their mark.
            logger.debug("the system does not tell the peak of memory: %s", error)
        else:
            return
    _peak = _SampledPeak()


def read_peak(dask_worker: Any = None) -> tuple[int, int]:
    """Return the bytes that this process held when watching began, and the most since.

    Parameters
    ----------
    dask_worker
        Ignored; lets this function run on the workers of a cluster.
    """
    if _peak is None:
        raise RuntimeError("start_peak was not called in this process")
    return _peak.before, _peak.read()
