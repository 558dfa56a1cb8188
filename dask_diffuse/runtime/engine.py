"""Object code in this process: compiled by LLVM or found on disk, linked, and run.

The linker and all code it holds belong to the process and live behind one lock. Code is
released together with the `LinkedCode` that stands for it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dask_diffuse.codegen.llvm import (
    KernelSource,
    compile_source,
    render_driver,
    target_machine,
)
from dask_diffuse.codegen.mathlib import symbol_address
from dask_diffuse.codegen.target import Target, host_target
from dask_diffuse.errors import CompileError
from dask_diffuse.runtime.cache import KernelStore

__all__ = ["LinkedCode", "drive", "link", "object_code"]


@dataclass(frozen=True, slots=True, eq=False)
class LinkedCode:
    """Object code that can be called.

    Parameters
    ----------
    functions
        Address of each function.
    owner
        What keeps the code in memory.
    """

    functions: dict[str, int]
    owner: Any


def object_code(
    source: KernelSource, store: KernelStore | None, target: Target
) -> tuple[bytes, bool]:
    """Return the object code of a module.

    Parameters
    ----------
    source
        The module.
    store
        Where it may be found, and is put if it is not there.
    target
        The processor.

    Returns
    -------
    tuple
        The code, and whether it was found.

    Raises
    ------
    CompileError
        If LLVM refuses it.
    """
    if store is None:
        return compile_source(source, target), False
    # What was made of this very text, for this processor, by this compiler. Nothing
    # else can be found by mistake, whatever version of us wrote it.
    digest = hashlib.blake2b(source.text.encode(), digest_size=16)
    digest.update(_describe(target).encode())
    key = digest.hexdigest()
    code = store.get(key)
    if code is not None:
        return code, True
    code = compile_source(source, target)
    store.put(key, code)
    return code, False


def link(source: KernelSource, code: bytes) -> LinkedCode:
    """Make object code callable.

    Parameters
    ----------
    source
        The module it was made of.
    code
        The object.

    Raises
    ------
    CompileError
        If the linker refuses.
    """
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(code)
    # Processors without an instruction for rounding call C's function.
    builder.add_current_process()
    for symbol in source.symbols:
        builder.import_symbol(symbol, symbol_address(symbol))
    for function in source.functions:
        builder.export_symbol(function)
    try:
        with _lock:
            number = next(_numbers)
            owner = builder.link(_linker(number // _LINKS), f"kernel{number}")
    except RuntimeError as error:
        raise CompileError("cpu", source.label, str(error), source.text) from error
    return LinkedCode({name: owner[name] for name in source.functions}, owner)


def drive(store: KernelStore | None, target: Target) -> Callable[[bytes], None]:
    """Return the driver: a function of the words that `Call` describes.

    Parameters
    ----------
    store
        Where its code may be found, or is put.
    target
        The processor.
    """
    with _lock:
        if target not in _drivers:
            _drivers[target] = _make_driver(store, target)
        return _drivers[target]


_lock = threading.RLock()
_numbers = iter(range(1 << 62))
_LINKS = 256
"""After so many kernels comes another linker: LLVM's keeps 9 kB for each that it had.

The old one goes with the last of its kernels.
"""
_drivers: dict[Target, Callable[[bytes], None]] = {}


def _make_driver(store: KernelStore | None, target: Target) -> Callable[[bytes], None]:
    source = render_driver(target)
    code, _ = object_code(source, store, target)
    linked = link(source, code)
    # A call through ctypes releases the interpreter for other threads.
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
    function: Callable[[bytes], None] = prototype(linked.functions["drive"])
    _kept.append(linked)
    return function


_kept: list[LinkedCode] = []
"""Code that stays for as long as the process lives."""


def _renew_lock() -> None:
    """Give a forked process a lock of its own: the other may be held by nobody here."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _describe(target: Target) -> str:
    """Return what stands for a processor and this compiler."""
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    return f"llvm {version} {target.triple} {target.cpu} {target.features}"


@lru_cache(maxsize=1)
def _linker(generation: int) -> Any:
    import llvmlite.binding as llvm

    machine = target_machine(host_target())
    return llvm.create_lljit_compiler(machine, use_jit_link=False, suppress_errors=True)
