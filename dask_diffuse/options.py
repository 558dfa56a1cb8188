"""Options: plain data that travels with the hook to the scheduler and the workers.

Reading them from Dask's configuration is the business of `dask_diffuse.config`.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dask_diffuse.errors import OptionError, UnknownOptionError

__all__ = ["DEBUG_TOPICS", "Options"]

_BACKENDS = ("auto", "cpu", "interpreter")

DEBUG_TOPICS = {
    "optimizer": 1,
    "frontend": 2,
    "fusion": 2,
    "ir": 3,
    "lowering": 3,
    "codegen": 4,
    "cache": 5,
    "runtime": 5,
}
"""What can be logged, and the level from which on it is."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a hook and its kernels are told to do.

    Frozen, hashable and picklable: with a remote scheduler the hook runs in the
    scheduler's process, where the client's configuration is not known.

    Parameters
    ----------
    backend
        ``"auto"`` and ``"cpu"`` run compiled kernels, on the CPU in this version;
        ``"interpreter"`` runs the original functions inside each fused task.
    exact_math
        Call the scalar math library of C instead of the vector one. Slower; math
        functions are then as accurate as the C library on the worker.
    min_bytes
        Leave graphs alone whose largest array is smaller than this, in bytes, and
        that have few blocks: fusing them cannot pay.
    max_group_values
        Largest number of scalar values in one kernel.
    max_group_arrays
        Largest number of arrays that one kernel reads and writes.
    cache_dir
        Folder of compiled kernels. None picks the user's cache folder.
    cache_disk
        Whether compiled kernels are kept on disk.
    cache_kernels
        How many compiled kernels stay in memory in each process.
    strict
        Raise instead of falling back. For tests.
    verify
        Check every program and every kernel against the rules of its IR.
    debug
        Level 0 to 5; see the page on debugging.
    debug_topics
        What to log whatever the level: any of ``optimizer``, ``frontend``, ``fusion``,
        ``ir``, ``lowering``, ``codegen``, ``cache`` and ``runtime``.
    dump
        Folder for the files of each optimized graph, or None.
    silence
        Ids of warnings that are not shown.
    """

    backend: str = "auto"
    exact_math: bool = False
    min_bytes: int = 1 << 18
    max_group_values: int = 400
    max_group_arrays: int = 48
    cache_dir: str | None = None
    cache_disk: bool = True
    cache_kernels: int = 512
    strict: bool = False
    verify: bool = False
    debug: int = 0
    debug_topics: tuple[str, ...] = ()
    dump: str | None = None
    silence: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("debug_topics", "silence"):
            # A list, as YAML has it, would not be hashable.
            if isinstance(names := getattr(self, name), list):
                object.__setattr__(self, name, tuple(names))
        for name in ("cache_dir", "dump"):
            if isinstance(folder := getattr(self, name), os.PathLike):
                object.__setattr__(self, name, os.fspath(folder))
        for name, (is_allowed, allowed) in _ALLOWED.items():
            value = getattr(self, name)
            if not is_allowed(value):
                raise OptionError(name, value, allowed, _remedy(name, value))

    def replace(self, **changes: Any) -> Options:
        """Return these options with some of them changed.

        Raises
        ------
        OptionError
            For a name that is not an option, or a value that is not allowed.
        """
        for name, value in changes.items():
            if name not in _ALLOWED:
                known = ", ".join(sorted(_ALLOWED))
                raise UnknownOptionError(name, value, known, _guess(name, _ALLOWED))
        return dataclasses.replace(self, **changes)

    def logs(self, topic: str) -> bool:
        """Whether messages on a topic are wanted.

        Examples
        --------
        >>> options = Options(debug=2, debug_topics=("cache",))
        >>> options.logs("fusion"), options.logs("cache"), options.logs("runtime")
        (True, True, False)
        """
        return self.debug >= DEBUG_TOPICS[topic] or topic in self.debug_topics


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_level(value: object) -> bool:
    return _is_count(value) and value in range(6)


def _is_folder(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _is_topics(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(name, str) and name in DEBUG_TOPICS for name in value
    )


def _is_backend(value: object) -> bool:
    return isinstance(value, str) and value in _BACKENDS


_BOOL = (_is_bool, "true or false")
_COUNT = (_is_count, "an integer of at least 0")
_FOLDER = (_is_folder, "the path of a folder, or null")
_NAMES = (_is_names, "a list of names")

_ALLOWED: dict[str, tuple[Callable[[object], bool], str]] = {
    "backend": (_is_backend, f"one of {', '.join(_BACKENDS)}"),
    "exact_math": _BOOL,
    "min_bytes": _COUNT,
    "max_group_values": _COUNT,
    "max_group_arrays": _COUNT,
    "cache_dir": _FOLDER,
    "cache_disk": _BOOL,
    "cache_kernels": _COUNT,
    "strict": _BOOL,
    "verify": _BOOL,
    "debug": (_is_level, "an integer from 0 to 5"),
    "debug_topics": (_is_topics, f"a list of names among {', '.join(DEBUG_TOPICS)}"),
    "dump": _FOLDER,
    "silence": _NAMES,
}


def _remedy(name: str, value: object) -> str:
    if name != "backend":
        return ""
    if isinstance(value, str) and value in ("cuda", "gpu"):
        return "This version has no kernels for GPUs."
    return _guess(value, _BACKENDS)


def _guess(value: object, known: Iterable[str]) -> str:
    """Say what may have been meant, if it is a matter of spelling."""
    close = difflib.get_close_matches(str(value), list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else ""
