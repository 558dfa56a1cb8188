"""Show kernels as text: one form, for errors, dumps and documentation.

A kernel prints as its parameters, one line for each instruction, and one line for each
result::

    kernel "mul-sum" over i0, i1
      array 0 : f64[i0, i1]
      array 1 : f64[i1]
      %0 : f64 = input 0
      %1 : f64 = input 1
      %2 : f64 = multiply(%0, %1)
      out 0 : f64[i0, i1] = %2
      out 1 : f64[i0, 1]  = sum(%2) over i1

``i0`` is loop axis 0. A dtype is a letter and a number of bits: ``f`` for floats, ``i``
and ``u`` for integers, ``c`` for complex numbers; or ``bool``.
"""

from __future__ import annotations

import numpy as np

from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import Accumulate, Kernel, Statement
from dask_diffuse.ops.reductions import REDUCTIONS

__all__ = ["format_dtype", "format_function", "format_instruction", "format_kernel"]

_NUMBERED = ("input", "scalar")


def format_dtype(dtype: np.dtype) -> str:
    """Return the short name of a dtype.

    Examples
    --------
    >>> [format_dtype(np.dtype(name)) for name in ("float32", "uint8", "bool")]
    ['f32', 'u8', 'bool']
    """
    if dtype.kind == "b":
        return "bool"
    if dtype.kind in "iufc":
        return f"{dtype.kind}{8 * dtype.itemsize}"
    return str(dtype)


def format_instruction(line: Instruction) -> str:
    """Return what an instruction computes, without its number and dtype.

    Examples
    --------
    >>> format_instruction(Instruction("add", (2, 3), np.dtype("float64")))
    'add(%2, %3)'
    """
    if line.op in _NUMBERED:
        return f"{line.op} {line.attr}"
    if line.op == "const":
        return f"const {line.attr!r}"
    if line.op == "index":
        return f"index i{line.attr}"
    return f"{line.op}({', '.join(f'%{i}' for i in line.args)})"


def format_function(function: ScalarFunction) -> str:
    """Return a function as text.

    Examples
    --------
    >>> from dask_diffuse.kernel.construct import FunctionBuilder
    >>> builder = FunctionBuilder()
    >>> x = builder.input(0, np.dtype("float32"))
    >>> y = builder.apply("less", x, builder.const(0.5, np.dtype("float32")))
    >>> print(format_function(builder.build([y])))
    function
      %0 : f32  = input 0
      %1 : f32  = const 0.5
      %2 : bool = less(%0, %1)
      return %2
    """
    lines = ["function", *_body(function)]
    lines.append(f"  return {', '.join(f'%{i}' for i in function.results)}")
    return "\n".join(lines)


def format_kernel(kernel: Kernel) -> str:
    """Return a kernel as text; see the module for an example."""
    axes = ", ".join(f"i{axis}" for axis in range(kernel.ndim))
    lines = [f'kernel "{kernel.label}" over {axes or "one element"}']
    for number, param in enumerate(kernel.arrays):
        shape = ", ".join(f"i{axis}" for axis in param.axes)
        lines.append(f"  array {number} : {format_dtype(param.dtype)}[{shape}]")
    for number, dtype in enumerate(kernel.scalars):
        lines.append(f"  scalar {number} : {format_dtype(dtype)}")
    lines += _body(kernel.function)
    lines += _outputs(kernel)
    return "\n".join(lines)


def _body(function: ScalarFunction) -> list[str]:
    instructions = function.instructions
    types = [format_dtype(line.dtype) for line in instructions]
    names = [f"%{i}" for i in range(len(instructions))]
    name_width = max(map(len, names), default=0)
    type_width = max(map(len, types), default=0)
    return [
        f"  {name:{name_width}} : {dtype:{type_width}} = {format_instruction(line)}"
        for name, dtype, line in zip(names, types, instructions, strict=True)
    ]


def _outputs(kernel: Kernel) -> list[str]:
    rows: list[tuple[str, str, str]] = []
    first = 0
    for statement in kernel.statements:
        count = _num_results(statement)
        numbers = ", ".join(str(first + i) for i in range(count))
        rows.append((numbers, *_output(kernel, statement)))
        first += count
    number_width = max((len(number) for number, _, _ in rows), default=0)
    type_width = max((len(dtype) for _, dtype, _ in rows), default=0)
    return [
        f"  out {number:{number_width}} : {dtype:{type_width}} = {text}"
        for number, dtype, text in rows
    ]


def _num_results(statement: Statement) -> int:
    if isinstance(statement, Accumulate):
        row = REDUCTIONS.get(statement.reduction)
        return 1 if row is None else row.num_results
    return 1


def _output(kernel: Kernel, statement: Statement) -> tuple[str, str]:
    """Return the type of the array that a statement makes, and what is in it."""
    if isinstance(statement, Accumulate):
        axes = ["1" if k in statement.axes else f"i{k}" for k in range(kernel.ndim)]
        operands = ", ".join(f"%{i}" for i in statement.values)
        over = ", ".join(f"i{axis}" for axis in statement.axes)
        text = f"{statement.reduction}({operands}) over {over}"
        return f"{format_dtype(statement.dtype)}[{', '.join(axes)}]", text
    shape = ", ".join(f"i{axis}" for axis in statement.axes)
    instructions = kernel.function.instructions
    # What is printed may be broken: the verifier shows it in its errors.
    known = 0 <= statement.value < len(instructions)
    dtype = format_dtype(instructions[statement.value].dtype) if known else "?"
    return f"{dtype}[{shape}]", f"%{statement.value}"
