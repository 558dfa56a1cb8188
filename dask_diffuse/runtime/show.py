"""Compiled kernels for people: on the log and in the folder of `DIFFUSE_DUMP`."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Protocol

from dask_diffuse.debug import log_debug
from dask_diffuse.kernel.key import kernel_key
from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.kernel.printer import format_kernel
from dask_diffuse.options import Options

__all__ = ["show_kernel"]

logger = logging.getLogger(__name__)

MAX_FILES = 1000
"""How many files of kernels one folder takes."""


class _Compiled(Protocol):
    def source(self, form: str = ...) -> str: ...


def show_kernel(kernel: Kernel, compiled: _Compiled, options: Options) -> None:
    """Log a kernel and write its code to files, if the options ask for it.

    Here and not in the hook, since workers know for which processor they compile.

    Parameters
    ----------
    kernel
        As it came in the task.
    compiled
        Has its code as text.
    options
        Of the hook.
    """
    log_debug(options, "cache", "kernel %r is ready", kernel.label)
    try:
        if options.logs("codegen"):
            text = format_kernel(kernel)
            log_debug(options, "codegen", "%s\n%s", text, compiled.source("llvm"))
        if options.dump is not None:
            _write(kernel, compiled, Path(options.dump) / "kernels")
    except OSError as error:
        logger.warning("could not show kernel %r: %s", kernel.label, error)
    except Exception:
        # Telling what happens must not change what happens.
        logger.warning("could not show kernel %r", kernel.label, exc_info=True)


def _write(kernel: Kernel, compiled: _Compiled, folder: Path) -> None:
    label = re.sub(r"[^A-Za-z0-9_-]+", "-", kernel.label)[:60]
    stem = f"{label}-{kernel_key(kernel)[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    if sum(1 for _ in folder.iterdir()) >= MAX_FILES:
        logger.warning("%s holds %d files, and takes no more", folder, MAX_FILES)
        return
    _write_file(folder / f"{stem}.txt", format_kernel(kernel))
    _write_file(folder / f"{stem}.ll", compiled.source("llvm"))
    _write_file(folder / f"{stem}.s", compiled.source("asm"))


def _write_file(path: Path, text: str) -> None:
    """Write a file that is never seen half written, whoever else writes it too."""
    if path.exists():
        return
    handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else f"{text}\n")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
