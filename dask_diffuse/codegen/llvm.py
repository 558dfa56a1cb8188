"""Kernels and the driver as modules of LLVM IR, and these as object code.

A module of a kernel holds the strip function (see `dask_diffuse.codegen.strip`) and,
for each reduction, the functions that start, fold, merge and finish its accumulators.
The module of the driver (see `dask_diffuse.codegen.driver`) is the same for all
kernels. The vectors are explicit, and so no passes are run that would find them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dask_diffuse.codegen.driver import driver_functions
from dask_diffuse.codegen.mathlib import MathLibrary
from dask_diffuse.codegen.strip import StripLayout, StripWriter
from dask_diffuse.codegen.target import Target
from dask_diffuse.errors import CompileError, UnsupportedError
from dask_diffuse.kernel.nest import Kernel

__all__ = [
    "KernelSource",
    "assembly",
    "compile_source",
    "render_driver",
    "render_kernel",
    "target_machine",
]


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The text of a module.

    Parameters
    ----------
    label
        What it is for.
    text
        LLVM IR.
    functions
        Names of the functions it defines.
    symbols
        Names of the functions of the C library it calls.
    """

    label: str
    text: str
    functions: tuple[str, ...]
    symbols: tuple[str, ...] = ()


def render_kernel(
    kernel: Kernel, layout: StripLayout, target: Target, *, exact_math: bool = False
) -> KernelSource:
    """Return the module of a kernel.

    Parameters
    ----------
    kernel
        Of core ops.
    layout
        Of its operands, from `dask_diffuse.codegen.strip.strip_layout`.
    target
        The processor.
    exact_math
        Whether to call the scalar math library only.

    Raises
    ------
    CompileError
        If it holds something there is no code for.
    """
    library = MathLibrary(target, exact_math)
    writer = StripWriter(kernel, layout, library)
    functions = {}
    try:
        functions["strip"] = writer.strip()
        for number in range(len(layout.accumulators)):
            functions[f"start{number}"] = writer.start(number)
            functions[f"fold{number}"] = writer.fold(number)
            functions[f"merge{number}"] = writer.merge(number)
            functions[f"finish{number}"] = writer.finish(number)
    except UnsupportedError as error:
        raise CompileError("cpu", kernel.label, error.message) from error
    declared = [library.declarations(), *_sorted_values(library.intrinsics)]
    comment = kernel.label.replace("\n", " ")
    text = "\n".join(
        [
            f"; {comment}",
            f"; {layout.lanes} lanes of {8 * target.vector_bytes}-bit vectors",
            *functions.values(),
            *_sorted_values(library.functions),
            *declared,
            _attributes(target),
        ]
    )
    return KernelSource(kernel.label, text, tuple(functions), library.symbols)


def render_driver(target: Target) -> KernelSource:
    """Return the module of the driver."""
    text = driver_functions(target.vector_bytes) + "\n" + _attributes(target)
    return KernelSource("driver", text, ("drive",), ("memcpy",))


def compile_source(
    source: KernelSource, target: Target, *, optimize: bool = False
) -> bytes:
    """Return the object code of a module.

    Parameters
    ----------
    source
        The module.
    target
        The processor.
    optimize
        Whether to run LLVM's usual passes: for the driver, which is scalar code.

    Raises
    ------
    CompileError
        If LLVM refuses it.
    """
    import llvmlite.binding as llvm

    try:
        module = llvm.parse_assembly(source.text)
        module.verify()
    except RuntimeError as error:
        raise CompileError("cpu", source.label, str(error), source.text) from error
    machine = target_machine(target)
    if optimize:
        tuning = llvm.create_pipeline_tuning_options(speed_level=2)
        passes = llvm.create_pass_builder(machine, tuning)
        passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


def assembly(source: KernelSource, target: Target) -> str:
    """Return a module as assembly, to be read by people."""
    import llvmlite.binding as llvm

    text: str = target_machine(target).emit_assembly(llvm.parse_assembly(source.text))
    return text


def target_machine(target: Target) -> Any:
    """Return LLVM's code generator for a processor."""
    import llvmlite.binding as llvm

    _initialize()
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=2,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@lru_cache(maxsize=1)
def _initialize() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _sorted_values(declarations: dict[str, str]) -> list[str]:
    return [declarations[name] for name in sorted(declarations)]


def _attributes(target: Target) -> str:
    bits = 8 * target.vector_bytes
    return (
        f'attributes #0 = {{ nounwind "min-legal-vector-width"="{bits}" '
        f'"prefer-vector-width"="{bits}" }}\n'
        "attributes #1 = { nounwind willreturn }\n"
    )
