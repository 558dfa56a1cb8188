"""Kernels on CPU blocks: compiled once in a process, found again, called.

Nothing of LLVM is loaded before the first kernel is asked for.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from dask_diffuse.codegen.llvm import KernelSource, assembly, render_kernel
from dask_diffuse.codegen.strip import StripLayout, strip_layout
from dask_diffuse.codegen.target import Target, host_target
from dask_diffuse.errors import CompileError, UnsupportedError
from dask_diffuse.kernel.key import kernel_key
from dask_diffuse.kernel.legalize import legalize
from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.options import Options
from dask_diffuse.runtime.cache import KernelStore
from dask_diffuse.runtime.engine import (
    LinkedCode,
    drive,
    link,
    object_code,
)
from dask_diffuse.runtime.memory import address_of, aligned_address, thread_memory
from dask_diffuse.runtime.table import WalkTable, write_table
from dask_diffuse.runtime.walk import plan_walk

__all__ = [
    "CompiledKernel",
    "compile_kernel",
    "forget_kernels",
    "get_kernel",
    "kernel_counts",
]

_WALKS = 64
"""How many patterns of shapes and strides a kernel remembers."""


class CompiledKernel:
    """A kernel that can be called on blocks, from any thread.

    Parameters
    ----------
    kernel
        Of core ops.
    layout, source, target, code
        What it was compiled to, for which processor.
    run
        The driver.
    """

    def __init__(
        self,
        kernel: Kernel,
        layout: StripLayout,
        source: KernelSource,
        target: Target,
        code: LinkedCode,
        run: Callable[[bytes], None],
    ) -> None:
        self.kernel = kernel
        self._layout = layout
        self._code = code
        self._run = run
        self._source = source
        self._target = target
        self._walks: dict[object, WalkTable] = {}
        self._scalar_dtype = _scalar_dtype(kernel)
        self._scalars: tuple[object, np.ndarray] = None, np.empty(0, np.uint8)

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.kernel.label!r}>"

    def __call__(
        self,
        arrays: Sequence[np.ndarray],
        scalars: Sequence[np.generic],
        extents: tuple[int, ...],
    ) -> list[np.ndarray]:
        """Run the kernel.

        Parameters
        ----------
        arrays
            Of the dtypes and dimensions of ``kernel.arrays``, aligned or not.
        scalars
            Of the dtypes ``kernel.scalars``.
        extents
            Length of each loop axis, at least 1.

        Returns
        -------
        list
            The results of the statements, in order.
        """
        pattern = (extents, *[(a.shape, a.strides) for a in arrays])
        walk = self._walks.get(pattern)
        if walk is None:
            walk = self._plan(pattern, arrays, extents)
        if thread_memory.size < walk.scratch_size:
            thread_memory.grow(walk.scratch_size)
        kept = 0
        if walk.kept_size:
            accumulators = np.empty(walk.kept_size, np.uint8)
            kept = aligned_address(accumulators)
        values = self._packed_scalars(scalars)
        addresses = [thread_memory.address, kept, address_of(values)]
        addresses += map(address_of, arrays)
        results = []
        for result in walk.results:
            array = np.empty(result.shape, result.dtype)
            addresses.append(address_of(array))
            if result.order is not None:
                array = array.transpose(result.order)
            results.append(array)
        self._run(walk.pack.pack(*walk.head, *addresses))
        return results

    def source(self, form: str = "llvm") -> str:
        """Return the code as text.

        Parameters
        ----------
        form
            ``"llvm"`` or ``"asm"``.
        """
        if form == "llvm":
            return self._source.text
        return assembly(self._source, self._target)

    def _packed_scalars(self, scalars: Sequence[np.generic]) -> np.ndarray:
        """Return the scalar arguments as they lie in memory."""
        last, values = self._scalars
        # A fused task brings the same ones each time.
        if last is not scalars or type(scalars) is not tuple:
            record = np.array([tuple(scalars)], self._scalar_dtype)
            # NumPy takes a while to describe the fields of a record to others.
            values = record.view(f"V{record.itemsize}") if scalars else record
            self._scalars = scalars, values
        return values

    def _plan(
        self,
        pattern: object,
        arrays: Sequence[np.ndarray],
        extents: tuple[int, ...],
    ) -> WalkTable:
        walk = write_table(
            self.kernel,
            self._layout,
            self._code.functions,
            plan_walk(self.kernel, self._layout, arrays, extents),
            extents,
        )
        if len(self._walks) >= _WALKS:
            self._walks.clear()
        self._walks[pattern] = walk
        return walk


def get_kernel(kernel: Kernel, options: Options) -> CompiledKernel:
    """Return the compiled form of a kernel, compiling it if nobody has.

    Threads that ask for the same kernel at the same time wait for one to compile it.

    Parameters
    ----------
    kernel
        Before or after legalization.
    options
        ``exact_math`` shapes the code; ``cache_kernels``, ``cache_disk`` and
        ``cache_dir`` say where code is kept.

    Raises
    ------
    CompileError
        If it does not compile.
    """
    key = kernel_key(kernel), options.exact_math
    with _lock:
        entry = _entries.get(key)
        if entry is None:
            entry = _entries[key] = _Entry()
        _entries.move_to_end(key)
        while len(_entries) > options.cache_kernels:
            _entries.popitem(last=False)
    with entry.lock:
        if entry.compiled is not None:
            _count("memory_hits")
            return entry.compiled
        try:
            entry.compiled = _build(kernel, options)
        except Exception:
            _count("failed")
            raise
        return entry.compiled


def kernel_counts() -> dict[str, float]:
    """Return how many kernels were compiled and found in this process.

    Returns
    -------
    dict
        ``compiled``, ``memory_hits``, ``disk_hits`` and ``failed`` count kernels,
        ``compile_seconds`` is the time spent on those that were compiled or read from
        disk, and ``in_memory`` is how many there are now.
    """
    with _lock:
        counts = dict(_counts)
        counts["in_memory"] = sum(e.compiled is not None for e in _entries.values())
    return counts


def forget_kernels() -> None:
    """Forget all kernels and counts, as in a new process."""
    with _lock:
        _entries.clear()
        _counts.update(dict.fromkeys(_COUNTS, 0))


class _Entry:
    """A kernel, or the place where somebody is about to put it."""

    __slots__ = ("compiled", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.compiled: CompiledKernel | None = None


_COUNTS = ("compiled", "memory_hits", "disk_hits", "failed", "compile_seconds")
_lock = threading.Lock()
_counts: dict[str, float] = dict.fromkeys(_COUNTS, 0)
_entries: OrderedDict[tuple[str, bool], _Entry] = OrderedDict()


def _renew_locks() -> None:
    """Give a forked process locks of its own, which nobody holds."""
    global _lock
    _lock = threading.Lock()
    for entry in _entries.values():
        entry.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def _count(name: str, number: float = 1) -> None:
    with _lock:
        _counts[name] += number


def _build(kernel: Kernel, options: Options) -> CompiledKernel:
    start = time.perf_counter()
    compiled, found = compile_kernel(kernel, options, host_target())
    _count("disk_hits" if found else "compiled")
    _count("compile_seconds", time.perf_counter() - start)
    return compiled


def compile_kernel(
    kernel: Kernel, options: Options, target: Target
) -> tuple[CompiledKernel, bool]:
    """Compile a kernel for a processor that this one can stand in for.

    Returns
    -------
    tuple
        The compiled kernel, and whether its code was found on disk.
    """
    core = legalize(kernel)
    try:
        layout = strip_layout(core, target.vector_bytes)
    except UnsupportedError as error:
        raise CompileError("cpu", kernel.label, error.message) from error
    source = render_kernel(core, layout, target, exact_math=options.exact_math)
    store = KernelStore.open(options)
    code, found = object_code(source, store, target)
    run = drive(store, target)
    return CompiledKernel(core, layout, source, target, link(source, code), run), found


def _scalar_dtype(kernel: Kernel) -> np.dtype:
    """Return how the scalar arguments lie in memory: 16 bytes apart."""
    count = len(kernel.scalars)
    return np.dtype(
        {
            "names": [f"s{i}" for i in range(count)],
            "formats": list(kernel.scalars),
            "offsets": [16 * i for i in range(count)],
            "itemsize": 16 * count,
        }
    )
