"""Options: plain data that travels with the hook to the scheduler and the workers.

Reading them from Dask's configuration is the business of `dask_diffuse.config`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from dask_diffuse.errors import OptionError

__all__ = ["Options"]

_BACKENDS = ("auto", "cpu", "cuda", "interpreter")


@dataclass(frozen=True, slots=True)
class Options:
    """What a hook and its kernels are told to do.

    Frozen, hashable and picklable: with a remote scheduler the hook runs in the
    scheduler's process, where the client's configuration is not known.

    Parameters
    ----------
    backend
        ``"auto"`` looks at the blocks, ``"cpu"`` and ``"cuda"`` insist,
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
        Names of rooms to log in full, whatever the level.
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
        if self.backend not in _BACKENDS:
            raise OptionError("backend", self.backend, f"one of {', '.join(_BACKENDS)}")
        for name in ("min_bytes", "max_group_values", "max_group_arrays", "cache_kernels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise OptionError(name, value, "an integer of at least 0")
        for name in ("exact_math", "cache_disk", "strict", "verify"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(name, getattr(self, name), "true or false")
        if not isinstance(self.debug, int) or not 0 <= self.debug <= 5:
            raise OptionError("debug", self.debug, "an integer from 0 to 5")
        for name in ("cache_dir", "dump"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise OptionError(name, value, "the path of a folder, or null")
        for name in ("debug_topics", "silence"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
                raise OptionError(name, value, "a list of names")

    def replace(self, **changes: Any) -> Options:
        """Return these options with some of them changed.

        Raises
        ------
        OptionError
            For a name that is not an option, or a value that is not allowed.
        """
        known = {field.name for field in dataclasses.fields(self)}
        for name, value in changes.items():
            if name not in known:
                allowed = f"one of the options {', '.join(sorted(known))}"
                raise OptionError(name, value, allowed)
        return dataclasses.replace(self, **changes)
