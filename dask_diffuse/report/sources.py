"""Kernels as text, in each of the forms in which they go through the house."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dask_diffuse.errors import OptionError
from dask_diffuse.kernel.legalize import legalize
from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.kernel.printer import format_kernel

if TYPE_CHECKING:
    from dask_diffuse.codegen.llvm import KernelSource
    from dask_diffuse.codegen.target import Target

__all__ = ["KERNEL_FORMS", "render_kernel"]


def render_kernel(kernel: Kernel, form: str, *, exact_math: bool = False) -> str:
    """Return a kernel as text.

    Parameters
    ----------
    kernel
        As composed by the planner.
    form
        ``"ir"`` for the kernel itself, ``"core"`` for the core operations it becomes,
        ``"llvm"`` for what is handed to LLVM and ``"asm"`` for what LLVM makes of it,
        both for the processor of this machine.
    exact_math
        As in the options.

    Raises
    ------
    OptionError
        For another form.
    """
    render = _RENDER.get(form)
    if render is None:
        raise OptionError("form", form, f"one of {', '.join(KERNEL_FORMS)}")
    return render(kernel, exact_math)


def _ir(kernel: Kernel, exact_math: bool) -> str:
    return format_kernel(kernel)


def _core(kernel: Kernel, exact_math: bool) -> str:
    return format_kernel(legalize(kernel))


def _llvm(kernel: Kernel, exact_math: bool) -> str:
    return _source(kernel, exact_math)[0].text


def _asm(kernel: Kernel, exact_math: bool) -> str:
    from dask_diffuse.codegen.llvm import assembly

    return assembly(*_source(kernel, exact_math))


def _source(kernel: Kernel, exact_math: bool) -> tuple[KernelSource, Target]:
    # Loads the compiler, which telling of kernels in general must not.
    from dask_diffuse.codegen.llvm import render_kernel as render_llvm
    from dask_diffuse.codegen.strip import strip_layout
    from dask_diffuse.codegen.target import host_target

    target = host_target()
    legal = legalize(kernel)
    layout = strip_layout(legal, target.vector_bytes)
    return render_llvm(legal, layout, target, exact_math=exact_math), target


_RENDER: dict[str, Callable[[Kernel, bool], str]] = {
    "ir": _ir,
    "core": _core,
    "llvm": _llvm,
    "asm": _asm,
}

KERNEL_FORMS = tuple(_RENDER)
"""What `render_kernel` knows."""
