"""What fused tasks did in this process: how often they ran, and why kernels did not."""

from __future__ import annotations

import enum
import threading
import warnings

from dask_diffuse.errors import FallbackWarning
from dask_diffuse.options import Options

__all__ = [
    "CallCounters",
    "Fallback",
    "call_counters",
    "forget_warnings",
    "warn_fallback",
]


class Fallback(enum.Enum):
    """Why the original functions ran in place of a kernel."""

    BACKEND = "backend"
    """The options ask for it."""
    ERRSTATE = "errstate"
    """NumPy was told to raise, print or call something on floating-point errors."""
    BLOCK_TYPE = "block-type"
    """A block is not exactly a ``numpy.ndarray``."""
    BLOCK_DTYPE = "block-dtype"
    """A block has another dtype or byte order than was planned."""
    BLOCK_NDIM = "block-ndim"
    """A block has another number of dimensions than was planned."""
    BLOCK_SHAPE = "block-shape"
    """The blocks do not fit together as was planned."""
    BLOCK_EMPTY = "block-empty"
    """There is nothing to compute, and NumPy knows what that should look like."""
    COMPILE_FAILED = "compile-failed"
    """The kernel did not compile."""
    KERNEL_FAILED = "kernel-failed"
    """The compiled kernel raised an exception."""


class CallCounters:
    """Counts calls of fused tasks. Safe to use from several threads.

    Examples
    --------
    >>> counters = CallCounters()
    >>> counters.count_call(seconds=0.5, bytes_read=800, bytes_written=8)
    >>> counters.count_fallback(Fallback.BLOCK_EMPTY)
    >>> counters.snapshot()["calls"], counters.snapshot()["fallbacks"]
    (1, {'block-empty': 1})
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._scalar_calls = 0
        self._seconds = 0.0
        self._bytes_read = 0
        self._bytes_written = 0
        self._fallbacks: dict[Fallback, int] = {}

    def count_call(self, seconds: float, bytes_read: int, bytes_written: int) -> None:
        """Count one run of a compiled kernel, its time, and the blocks it walked."""
        with self._lock:
            self._calls += 1
            self._seconds += seconds
            self._bytes_read += bytes_read
            self._bytes_written += bytes_written

    def count_scalar_call(self) -> None:
        """Count one fused task on single numbers, which run without a kernel."""
        with self._lock:
            self._scalar_calls += 1

    def count_fallback(self, reason: Fallback) -> None:
        """Count one run of the original functions."""
        with self._lock:
            self._fallbacks[reason] = self._fallbacks.get(reason, 0) + 1

    def snapshot(self) -> dict[str, object]:
        """Return the counts as they are now."""
        with self._lock:
            return {
                "calls": self._calls,
                "scalar_calls": self._scalar_calls,
                "seconds": self._seconds,
                "bytes_read": self._bytes_read,
                "bytes_written": self._bytes_written,
                "fallbacks": {
                    reason.value: count for reason, count in self._fallbacks.items()
                },
            }

    def clear(self) -> None:
        """Start again from zero."""
        with self._lock:
            self._calls = self._scalar_calls = 0
            self._seconds = 0.0
            self._bytes_read = self._bytes_written = 0
            self._fallbacks.clear()


call_counters = CallCounters()
"""Of this process."""

_warned: set[tuple[str, str]] = set()
_warned_lock = threading.Lock()


def warn_fallback(name: str, place: str, reason: str, options: Options) -> None:
    """Warn once per process for each id and place that something was not fused.

    Parameters
    ----------
    name
        Id of the warning, which ``diffuse.silence`` may list.
    place
        What the warning is about; a second one about the same place is not shown.
    reason
        What happened, as a sentence without a full stop.
    options
        Of the hook.
    """
    if name in options.silence:
        return
    with _warned_lock:
        if (name, place) in _warned:
            return
        _warned.add((name, place))
    warnings.warn(
        f"{place}: {reason}. The result is right, only not fused. To see the "
        "exception, set DIFFUSE_STRICT=1; to silence this warning, add "
        f"{name!r} to the option 'diffuse.silence'. [{name}]",
        FallbackWarning,
        stacklevel=3,
    )


def forget_warnings() -> None:
    """Show each warning again, as in a new process."""
    with _warned_lock:
        _warned.clear()
