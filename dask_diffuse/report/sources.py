"""Kernels as text, in each of the forms in which they go through the house."""

from __future__ import annotations

from collections.abc import Callable

from dask_diffuse.errors import OptionError
from dask_diffuse.kernel.legalize import legalize
from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.kernel.printer import format_kernel
from dask_diffuse.kernel.simplify import simplify

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
    return format_kernel(simplify(legalize(kernel)))


_RENDER: dict[str, Callable[[Kernel, bool], str]] = {
    "ir": _ir,
    "core": _core,
}

KERNEL_FORMS = tuple(_RENDER)
"""What `render_kernel` knows."""
