"""Make NumPy's meaning explicit: rewrite table ops to the core ops that targets know.

After it, every instruction is a core op for its operands: no target has to know what
NumPy makes of a zero divisor, a shift past the width or a NaN. Complex numbers are
pairs of real ones; ``real`` and ``imag`` are left where an operand is read, and
``complex`` where a result is made.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.construct import Value
from dask_diffuse.kernel.core import CoreBuilder
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import Accumulate, Kernel, Statement
from dask_diffuse.kernel.rules_casts import cast_real
from dask_diffuse.kernel.rules_complex import COMPLEX_RULES, Parts
from dask_diffuse.kernel.rules_complex import is_true as complex_is_true
from dask_diffuse.kernel.rules_floats import FLOAT_RULES
from dask_diffuse.kernel.rules_integers import BOOL_RULES, INTEGER_RULES, Rule
from dask_diffuse.kernel.simplify import drop_dead, rebuild, simplify
from dask_diffuse.ops.dtypes import real_dtype
from dask_diffuse.ops.table import OPS

__all__ = ["legalize", "legalize_function"]

_BOOL = np.dtype(bool)

_RULES: dict[str, dict[str, Rule]] = {
    "b": BOOL_RULES,
    "i": INTEGER_RULES,
    "u": INTEGER_RULES,
    "f": FLOAT_RULES,
}

_BOOL_REDUCTIONS = {
    "sum": "any",
    "max": "any",
    "fmax": "any",
    "prod": "all",
    "min": "all",
    "fmin": "all",
}
"""Reductions to bools by what they are then."""

Legal = Value | Parts


def legalize_function(function: ScalarFunction) -> ScalarFunction:
    """Return a function of core ops that computes the same.

    Raises
    ------
    UnsupportedError
        If an operation has no core ops for its operands.

    Examples
    --------
    >>> builder = CoreBuilder()
    >>> x = builder.input(0, np.dtype("int16"))
    >>> y = builder.input(1, np.dtype("int16"))
    >>> function = builder.build([builder.apply("maximum", x, y)])
    >>> [line.op for line in legalize_function(function).instructions]
    ['input', 'input', 'greater', 'select']
    """
    builder = CoreBuilder()
    values = _rewrite(builder, function)
    results = [_whole(builder, values[i]) for i in function.results]
    return drop_dead(builder.build(results))


def legalize(kernel: Kernel) -> Kernel:
    """Return a kernel of core ops that computes the same, simplified.

    Values that are accumulated are of the dtype they accumulate in, and bools where
    only their truth matters.

    Raises
    ------
    UnsupportedError
        If an operation has no core ops for its operands.
    """
    builder = CoreBuilder()
    values = _rewrite(builder, kernel.function)
    statements: list[tuple[Statement, list[Value]]] = []
    for statement in kernel.statements:
        if isinstance(statement, Accumulate):
            operands = [values[i] for i in statement.values]
            accumulated = _accumulated(builder, statement, operands)
            if statement.dtype == _BOOL:
                name = statement.reduction
                name = _BOOL_REDUCTIONS.get(name, name)
                statement = replace(statement, reduction=name)
            statements.append((statement, accumulated))
        else:
            statements.append((statement, [_whole(builder, values[statement.value])]))
    return simplify(rebuild(kernel, builder, statements))


def _accumulated(
    b: CoreBuilder, statement: Accumulate, operands: list[Legal]
) -> list[Value]:
    """Return operands in the dtypes that a reduction accumulates."""
    value, *valid = operands
    dtype = statement.dtype
    if statement.reduction in ("sum", "prod", "moments", "any", "all"):
        if statement.reduction in ("any", "all"):
            dtype = _BOOL
        value = _cast(b, value, dtype)
    elif dtype == _BOOL and statement.reduction in _BOOL_REDUCTIONS:
        value = _cast(b, value, _BOOL)
    return [_whole(b, value), *(_whole(b, _cast(b, v, _BOOL)) for v in valid)]


def _rewrite(builder: CoreBuilder, function: ScalarFunction) -> list[Legal]:
    values: list[Legal] = []
    for line in function.instructions:
        values.append(_legal(builder, line, values))
    return values


def _legal(b: CoreBuilder, line: Instruction, values: list[Legal]) -> Legal:
    op = line.op
    if op in ("input", "scalar", "const", "index"):
        return _source(b, line)
    operands = [values[i] for i in line.args]
    if op == "cast":
        return _cast(b, operands[0], line.dtype)
    if line.dtype.kind == "c" or any(type(x) is Parts for x in operands):
        rule = COMPLEX_RULES.get(op)
        if rule is None:
            raise _no_rule(line, "complex numbers")
        return rule(b, *operands)
    # From here on all operands are values.
    first = operands[0]
    assert type(first) is Value
    dtype = first.dtype
    if dtype.kind == "b" and len(operands) == 3:
        return b.emit("select", _positions(operands), line.dtype)
    rules = _RULES[dtype.kind]
    real_rule = rules.get(op)
    if real_rule is not None:
        return real_rule(b, *operands)
    if dtype.kind in OPS[op].core:
        return b.emit(op, _positions(operands), line.dtype)
    raise _no_rule(line, str(dtype))


def _positions(operands: list[Legal]) -> tuple[int, ...]:
    return tuple([x.position for x in operands if type(x) is Value])


def _source(b: CoreBuilder, line: Instruction) -> Legal:
    source = b.emit(line.op, (), line.dtype, line.attr)
    if line.dtype.kind != "c":
        return source
    part = real_dtype(line.dtype)
    return Parts(b.core("real", source, dtype=part), b.core("imag", source, dtype=part))


def _cast(b: CoreBuilder, x: Legal, dtype: np.dtype) -> Legal:
    if isinstance(x, Parts):
        if dtype.kind == "c":
            part = real_dtype(dtype)
            return Parts(b.convert(x.real, part), b.convert(x.imag, part))
        if dtype.kind == "b":
            return complex_is_true(b, x)
        # NumPy: the imaginary part is dropped, with a warning.
        return cast_real(b, x.real, dtype)
    if dtype.kind == "c":
        real = cast_real(b, x, real_dtype(dtype))
        return Parts(real, b.zero(real))
    return cast_real(b, x, dtype)


def _whole(b: CoreBuilder, x: Legal) -> Value:
    if isinstance(x, Parts):
        dtype = np.result_type(x.real.dtype, np.complex64)
        return b.core("complex", x.real, x.imag, dtype=dtype)
    return x


def _no_rule(line: Instruction, operands: str) -> UnsupportedError:
    message = f"{line.op!r} of {operands} has no core ops"
    return UnsupportedError(message, "unsupported-dtype")
