"""Programs and kernels as text, in the forms in which they go through the house."""

from __future__ import annotations

from dask_diffuse.ir.program import Program
from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.options import Options

__all__ = ["KERNEL_FORMS", "format_program", "render_kernel"]

KERNEL_FORMS = ("ir", "core", "llvm", "asm")
"""``ir``: as composed by the planner. ``core``: legalized and simplified. ``llvm``: as
handed to LLVM. ``asm``: what LLVM makes of it on this machine."""
