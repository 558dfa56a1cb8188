"""What a legal kernel is, in code."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dask_diffuse.errors import UnsupportedError, VerifyError
from dask_diffuse.kernel.function import Instruction
from dask_diffuse.kernel.nest import Accumulate, Assign, Kernel
from dask_diffuse.kernel.printer import format_dtype, format_instruction, format_kernel
from dask_diffuse.ops.dtypes import is_supported, real_dtype
from dask_diffuse.ops.reductions import REDUCTIONS
from dask_diffuse.ops.table import OPS

__all__ = ["verify_kernel"]

_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)
_CONTEXT = 5
_SOURCES = ("input", "scalar", "const", "index")
_CONST_TYPES = {"b": bool, "i": int, "u": int, "f": float}
_CORE_INTEGERS = (np.dtype(np.int32), _INT64)


def verify_kernel(kernel: Kernel, *, core: bool = False) -> None:
    """Check a kernel.

    Parameters
    ----------
    kernel
        What to check.
    core
        Whether it has to be legalized: made of core ops only.

    Raises
    ------
    VerifyError
        If it breaks a rule; with the rule, the values and the printed kernel around
        the offending line.
    """
    for what in _parameter_faults(kernel):
        raise VerifyError(f"kernel {kernel.label!r}: {what}", format_kernel(kernel))
    for position, line in enumerate(kernel.function.instructions):
        fault = _instruction_fault(kernel, position, line)
        if fault is None and core:
            fault = _core_fault(kernel, line)
        if fault is not None:
            message = f"kernel {kernel.label!r}, %{position}: {fault}"
            raise VerifyError(message, _around(kernel, f"%{position} "))
    for what in _statement_faults(kernel, core):
        raise VerifyError(f"kernel {kernel.label!r}: {what}", format_kernel(kernel))


def _around(kernel: Kernel, name: str) -> str:
    """Return the printed kernel around a line, which is marked."""
    lines = format_kernel(kernel).splitlines()
    for at, line in enumerate(lines):
        if line.startswith(f"  {name}"):
            lines[at] = f"> {line[2:]}"
            return "\n".join(lines[max(at - _CONTEXT, 0) : at + _CONTEXT + 1])
    return "\n".join(lines)


def _parameter_faults(kernel: Kernel) -> Iterator[str]:
    if kernel.ndim < 0:
        yield f"it has {kernel.ndim} loop axes"
    for number, param in enumerate(kernel.arrays):
        if not is_supported(param.dtype):
            yield f"array {number} has dtype {param.dtype}, which kernels do not handle"
        if len(set(param.axes)) < len(param.axes):
            yield f"array {number} follows a loop axis twice: {param.axes}"
        if not all(0 <= axis < kernel.ndim for axis in param.axes):
            yield f"array {number} follows {param.axes} of {kernel.ndim} loop axes"
    for number, dtype in enumerate(kernel.scalars):
        if not is_supported(dtype):
            yield f"scalar {number} has dtype {dtype}, which kernels do not handle"


def _instruction_fault(kernel: Kernel, position: int, line: Instruction) -> str | None:
    """Return what is wrong with an instruction, or None."""
    if not is_supported(line.dtype):
        return f"dtype {line.dtype} is not one that kernels handle"
    if not all(0 <= i < position for i in line.args):
        return f"operands {line.args} do not all come before it"
    if line.op in _SOURCES:
        return _source_fault(kernel, line)
    if line.attr is not None:
        return f"{line.op!r} takes no attribute and has {line.attr!r}"
    instructions = kernel.function.instructions
    operands = tuple([instructions[i].dtype for i in line.args])
    if line.op == "cast":
        return None if len(operands) == 1 else f"'cast' of {len(operands)} operands"
    row = OPS.get(line.op)
    if row is None:
        return f"there is no op {line.op!r}"
    if len(operands) != row.arity:
        return f"{line.op!r} takes {row.arity} operands and has {len(operands)}"
    return _type_fault(line, operands)


def _source_fault(kernel: Kernel, line: Instruction) -> str | None:
    if line.args:
        return f"{line.op!r} takes no operands and has {line.args}"
    if line.op == "const":
        return _const_fault(line)
    limit, dtype = {
        "input": (len(kernel.arrays), None),
        "scalar": (len(kernel.scalars), None),
        "index": (kernel.ndim, _INT64),
    }[line.op]
    number = line.attr
    if type(number) is not int or not 0 <= number < limit:
        return f"{line.op} {number!r} is not one of {limit}"
    if dtype is None:
        is_input = line.op == "input"
        dtype = kernel.arrays[number].dtype if is_input else kernel.scalars[number]
    if line.dtype != dtype:
        return f"{line.op} {number} is {dtype} and not {line.dtype}"
    return None


def _const_fault(line: Instruction) -> str | None:
    wanted = _CONST_TYPES.get(line.dtype.kind)
    value = line.attr
    if wanted is None:
        return "complex constants are made of real ones"
    if type(value) is not wanted:
        return f"constant {value!r} is not a Python {wanted.__name__}"
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return "constant -0.0 equals 0.0, so that kernels would that are not equal"
    if type(value) is int:
        limits = np.iinfo(line.dtype)
        if not limits.min <= value <= limits.max:
            return f"constant {value} is out of the range of {line.dtype}"
    return None


def _type_fault(line: Instruction, operands: tuple[np.dtype, ...]) -> str | None:
    typing = OPS[line.op].typing
    if typing is None:
        wanted = _core_result(line.op, operands)
        if wanted is None:
            return f"{line.op!r} does not take {_names(operands)}"
    else:
        try:
            loop, wanted = typing(operands)
        except UnsupportedError as error:
            return str(error)
        if loop != operands:
            return f"{line.op!r} takes {_names(loop)} and has {_names(operands)}"
    if line.dtype != wanted:
        expression = format_instruction(line)
        return f"{expression} is {format_dtype(wanted)}, not {format_dtype(line.dtype)}"
    return None


def _core_result(op: str, operands: tuple[np.dtype, ...]) -> np.dtype | None:
    """Return the result type of an op that only legalization makes, or None."""
    first, last = operands[0], operands[-1]
    if op == "select":
        return last if first == _BOOL and operands[1] == last else None
    if op == "complex":
        real = first == last and first.kind == "f"
        return np.result_type(first, np.complex64) if real else None
    if op in ("real", "imag"):
        return real_dtype(first) if first.kind == "c" else None
    return first if first == last and first.kind in "iu" else None


def _names(dtypes: tuple[np.dtype, ...]) -> str:
    return f"({', '.join(map(format_dtype, dtypes))})"


def _core_fault(kernel: Kernel, line: Instruction) -> str | None:
    """Return why an instruction is not a core op for its operands, or None."""
    lines = kernel.function.instructions
    operands = [lines[i] for i in line.args]
    for operand in operands:
        if operand.op == "complex":
            return f"{line.op!r} uses a complex number, which only results are"
    match line.op:
        case "input" | "scalar" | "const" | "index":
            return None
        case "cast":
            return _core_cast_fault(operands[0].dtype, line.dtype)
        case "real" | "imag":
            if operands[0].op in _SOURCES:
                return None
            return f"{line.op!r} is of what is read, not of {operands[0].op!r}"
    kinds = OPS[line.op].core
    kind = operands[0].dtype.kind
    same = len({operand.dtype for operand in operands}) == 1
    if kind not in kinds or not (same or line.op == "select"):
        names = _names(tuple([operand.dtype for operand in operands]))
        return f"{line.op!r} of {names} is not a core op"
    return None


def _core_cast_fault(source: np.dtype, target: np.dtype) -> str | None:
    if "c" in (source.kind, target.kind) or target.kind == "b" or source == target:
        bad = True
    else:
        bad = source.kind == "b" and target.kind == "f"
        bad |= (
            source.kind == "f" and target.kind in "iu" and target not in _CORE_INTEGERS
        )
    return f"a cast of {source} to {target} is not a core cast" if bad else None


def _statement_faults(kernel: Kernel, core: bool) -> Iterator[str]:
    num_lines = len(kernel.function.instructions)
    if not kernel.statements:
        yield "it has no statements"
    used: set[int] = set()
    first = 0
    for statement in kernel.statements:
        positions: tuple[int, ...]
        if isinstance(statement, Assign):
            positions, count = (statement.value,), 1
            faults = _assign_faults(kernel, statement)
        else:
            positions = statement.values
            row = REDUCTIONS.get(statement.reduction)
            count = 1 if row is None else row.num_results
            faults = _accumulate_faults(kernel, statement, core)
        if not all(0 <= i < num_lines for i in positions):
            yield f"out {first} uses {positions}, of {num_lines} instructions"
        for what in faults:
            yield f"out {first}: {what}"
        used.update(positions)
        first += count
    results = kernel.function.results
    if len(set(results)) < len(results) or set(results) != used:
        yield f"its function has results {results}, and statements use {sorted(used)}"


def _assign_faults(kernel: Kernel, statement: Assign) -> Iterator[str]:
    if sorted(statement.axes) != list(range(kernel.ndim)):
        yield f"axes {statement.axes} are no permutation of {kernel.ndim} loop axes"


def _accumulate_faults(
    kernel: Kernel, statement: Accumulate, core: bool
) -> Iterator[str]:
    row = REDUCTIONS.get(statement.reduction)
    if row is None:
        yield f"there is no reduction {statement.reduction!r}"
        return
    axes = statement.axes
    if not axes or list(axes) != sorted({a for a in axes if 0 <= a < kernel.ndim}):
        yield f"axes {axes} are not some of {kernel.ndim} loop axes in increasing order"
    if not is_supported(statement.dtype):
        yield f"dtype {statement.dtype} is not one that kernels handle"
    if not 1 <= len(statement.values) <= row.num_values:
        yield f"{row.name!r} of {len(statement.values)} values"
        return
    lines = kernel.function.instructions
    value, *valid = [lines[i].dtype for i in statement.values]
    yield from _accumulated_dtype_faults(statement, value, core)
    if valid and valid[0] != _BOOL:
        yield f"what says which elements count is {valid[0]}, not bool"


def _accumulated_dtype_faults(
    statement: Accumulate, value: np.dtype, core: bool
) -> Iterator[str]:
    name, dtype = statement.reduction, statement.dtype
    wanted: np.dtype
    match name:
        case "any" | "all":
            wanted = _BOOL
        case "moments":
            wanted = dtype if dtype.kind == "f" else np.dtype(np.float64)
            if value.kind == "c":
                yield f"moments of complex values ({value}) are left to Dask"
        case "sum" | "prod":
            wanted = dtype
        case _:
            wanted = value
    if dtype != wanted:
        yield f"{name!r} of {value} is {wanted}, not {dtype}"
    if core and name in ("any", "all", "moments", "sum", "prod") and value != dtype:
        yield f"{name!r} accumulates {dtype} and has {value}, which is not legal yet"
