"""Constructors of scalar functions: they find loops, insert casts and share values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.ops.dtypes import (
    Loop,
    OperandType,
    canonical,
    promote,
    real_dtype,
    ufunc_loop,
)
from dask_diffuse.ops.table import OPS

__all__ = ["FunctionBuilder", "Literal", "Operand", "Value", "convert_literal"]

_BOOL = np.dtype(bool)
_INDEX = np.dtype(np.int64)


class Value(NamedTuple):
    """A value of the function under construction.

    Parameters
    ----------
    position
        Of its instruction.
    dtype
        Its dtype.
    """

    position: int
    dtype: np.dtype


class Literal(NamedTuple):
    """A literal of the user's program, which has no instruction yet.

    It becomes a scalar argument once an operation says of which dtype.

    Parameters
    ----------
    number
        Tells apart the literals of one builder.
    value
        A Python number, or a scalar of NumPy.
    dtype
        That of a NumPy scalar. A Python number is weak, and this is its type.
    """

    number: int
    value: bool | int | float | complex | np.generic
    dtype: OperandType

    @property
    def is_weak(self) -> bool:
        """Whether it takes the dtype of what it meets."""
        return not isinstance(self.dtype, np.dtype)


Operand = Value | Literal


class FunctionBuilder:
    """Builds a `ScalarFunction`.

    Equal values are built once. Literals become scalar arguments: their values are in
    `scalars`, not in the function.

    Examples
    --------
    >>> builder = FunctionBuilder()
    >>> x = builder.input(0, np.dtype("float32"))
    >>> y = builder.apply("multiply", x, builder.literal(2.5))
    >>> function = builder.build([y])
    >>> [(line.op, line.args, line.dtype.char) for line in function.instructions]
    [('input', (), 'f'), ('scalar', (), 'f'), ('multiply', (0, 1), 'f')]
    >>> builder.scalars
    (np.float32(2.5),)
    """

    __slots__ = ("_instructions", "_known", "_literals", "_num_literals", "_scalars")

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._known: dict[Hashable, int] = {}
        self._literals: dict[tuple[int, np.dtype], Value] = {}
        self._num_literals = 0
        self._scalars: list[np.generic] = []

    @property
    def scalars(self) -> tuple[np.generic, ...]:
        """Values of the scalar arguments that literals became, in order."""
        return tuple(self._scalars)

    def __len__(self) -> int:
        return len(self._instructions)

    def input(self, number: int, dtype: np.dtype) -> Value:
        """Return the element of an array operand."""
        return self.emit("input", (), canonical(dtype), number)

    def scalar(self, number: int, dtype: np.dtype) -> Value:
        """Return a scalar argument, for functions whose caller numbers them."""
        return self.emit("scalar", (), canonical(dtype), number)

    def const(self, value: bool | int | float | complex, dtype: np.dtype) -> Value:
        """Return a constant that is part of the kernel.

        There is no negative zero among the constants, since Python has it equal to
        zero, and so would have two functions equal that are not.
        """
        kind = dtype.kind
        if kind == "c":
            number = complex(value)
            part = real_dtype(dtype)
            parts = self.const(number.real, part), self.const(number.imag, part)
            return self.core("complex", *parts, dtype=dtype)
        if kind == "f":
            value = float(dtype.type(value))
            if value == 0 and math.copysign(1, value) < 0:
                return self.core("negative", self.const(0.0, dtype))
            if value != value:
                # NaN equals nothing but itself as an object.
                value = math.nan
        elif kind == "b":
            value = bool(value)
        else:
            value = int(dtype.type(value))
        return self.emit("const", (), dtype, value)

    def index(self, axis: int) -> Value:
        """Return the position along a loop axis within the block, as int64."""
        return self.emit("index", (), _INDEX, axis)

    def literal(self, value: object) -> Operand:
        """Return an operand for a literal of the user's program.

        Parameters
        ----------
        value
            A Python bool, int, float or complex, or a scalar or 0-d array of NumPy.

        Raises
        ------
        UnsupportedError
            If it is something else.
        """
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, bool):
            value = np.bool_(value)
        dtype: OperandType
        if isinstance(value, np.generic):
            dtype = canonical(value.dtype)
        elif isinstance(value, int):
            dtype = int
        elif isinstance(value, float):
            dtype = float
        elif isinstance(value, complex):
            dtype = complex
        else:
            raise UnsupportedError(f"a {type(value).__name__} is not a number")
        self._num_literals += 1
        return Literal(self._num_literals, value, dtype)

    def cast(self, operand: Operand, dtype: np.dtype) -> Value:
        """Return an operand converted as `numpy.ndarray.astype` does it."""
        if isinstance(operand, Literal):
            return self._scalar_of(operand, dtype)
        if operand.dtype == dtype:
            return operand
        return self.emit("cast", (operand.position,), dtype)

    def value(self, operand: Operand) -> Value:
        """Return a value for an operand, of the dtype it has by itself."""
        if isinstance(operand, Literal):
            return self._scalar_of(operand, promote((operand.dtype,)))
        return operand

    def apply(self, name: str, *operands: Operand) -> Value:
        """Apply a table op, in the loop that NumPy picks for the operands.

        Parameters
        ----------
        name
            Of the row.
        operands
            Converted to what the loop asks for.

        Raises
        ------
        UnsupportedError
            If NumPy has no such loop, or it has no scalar form.
        """
        if name == "power" and type(operands[1]) is Literal:
            expanded = _expand_power(self, operands[0], operands[1])
            if expanded is not None:
                return expanded
        op = OPS[name]
        if op.typing is None or len(operands) != op.arity:
            raise UnsupportedError(f"{name!r} does not take {len(operands)} operands")
        wanted, dtype = op.typing(tuple([operand.dtype for operand in operands]))
        args = tuple(map(self._position_as, operands, wanted))
        return self.emit(name, args, dtype)

    def core(self, name: str, *operands: Value, dtype: np.dtype | None = None) -> Value:
        """Apply an op to operands of the dtypes it takes; nothing is checked.

        Parameters
        ----------
        name
            Of a row.
        operands
            Its operands.
        dtype
            Of the result; that of the last operand if None.
        """
        args = tuple([operand.position for operand in operands])
        return self.emit(name, args, operands[-1].dtype if dtype is None else dtype)

    def inline(
        self,
        function: ScalarFunction,
        inputs: Sequence[Value] = (),
        scalars: Sequence[Value] = (),
        axes: Sequence[int] | None = None,
    ) -> tuple[Value, ...]:
        """Copy a function into this one.

        Parameters
        ----------
        function
            What to copy.
        inputs, scalars
            What stands for its array operands and its scalar arguments.
        axes
            The loop axis that stands for each of its loop axes; itself if None.

        Returns
        -------
        tuple
            What stands for its results.
        """
        values: list[Value] = []
        for line in function.instructions:
            match line.op:
                case "input":
                    values.append(inputs[line.number])
                case "scalar":
                    values.append(scalars[line.number])
                case "index":
                    axis = line.number if axes is None else axes[line.number]
                    values.append(self.emit("index", (), line.dtype, axis))
                case _:
                    args = tuple([values[i].position for i in line.args])
                    values.append(self.emit(line.op, args, line.dtype, line.attr))
        return tuple([values[i] for i in function.results])

    def build(self, results: Sequence[Value]) -> ScalarFunction:
        """Return the function with these results."""
        positions = tuple([result.position for result in results])
        return ScalarFunction(tuple(self._instructions), positions)

    def emit(
        self, op: str, args: tuple[int, ...], dtype: np.dtype, attr: Hashable = None
    ) -> Value:
        """Return the value of an instruction, which is made if it is new."""
        key = (op, args, dtype, attr)
        position = self._known.get(key)
        if position is None:
            position = self._known[key] = len(self._instructions)
            self._instructions.append(Instruction(op, args, dtype, attr))
        return Value(position, dtype)

    def _position_as(self, operand: Operand, dtype: np.dtype) -> int:
        return self.cast(operand, dtype).position

    def _scalar_of(self, literal: Literal, dtype: np.dtype) -> Value:
        key = literal.number, dtype
        value = self._literals.get(key)
        if value is None:
            scalar = convert_literal(literal, dtype)
            value = self.emit("scalar", (), dtype, len(self._scalars))
            self._literals[key] = value
            self._scalars.append(scalar)
        return value


def convert_literal(literal: Literal, dtype: np.dtype) -> np.generic:
    """Return a literal as a NumPy scalar.

    Raises
    ------
    UnsupportedError
        If it does not fit, for which NumPy raises.
    """
    if literal.dtype == dtype and isinstance(literal.value, np.generic):
        return literal.value
    scalar: np.generic
    try:
        if dtype.char in "fF":
            # NumPy: a literal that overflows float32 is an infinity, with a warning.
            with np.errstate(all="ignore"):
                scalar = dtype.type(literal.value)
        else:
            scalar = dtype.type(literal.value)
    except (OverflowError, TypeError) as error:
        raise UnsupportedError(str(error)) from None
    return scalar


def _expand_power(
    builder: FunctionBuilder, base: Operand, exponent: Literal
) -> Value | None:
    """Return the power of a literal exponent for which NumPy does not call ``pow``.

    Raises
    ------
    UnsupportedError
        For what has no scalar form.
    """
    (wanted, _), dtype = _power_loop(base.dtype, exponent.dtype)
    number = convert_literal(exponent, dtype).item()
    if dtype.kind in "iu":
        if base.dtype == _BOOL and exponent.is_weak and number == 2:
            message = "the square of bools has one dtype as operator, another as ufunc"
            raise UnsupportedError(message)
        return _integer_power(builder, builder.cast(base, wanted), number)
    if dtype.kind == "c" and exponent.dtype not in (int, float):
        # NumPy: its operator calls ``pow`` for those, which loses the sign of zeros.
        return None
    if number == 0:
        return builder.const(1, dtype)
    if number == 1:
        return builder.cast(base, dtype)
    if number == 2:
        return builder.core("square", builder.cast(base, dtype))
    if dtype.kind == "c":
        return None
    value = builder.cast(base, dtype)
    match number:
        case 0.5:
            return builder.core("sqrt", value)
        case -1:
            return builder.core("reciprocal", value)
        case 3:
            # NumPy calls ``pow``. Two products are as close as a math function has to
            # be, under- and overflow included, and far cheaper.
            return builder.core("multiply", value, builder.core("square", value))
        case 4:
            return builder.core("square", builder.core("square", value))
    return None


def _power_loop(base: OperandType, exponent: OperandType) -> Loop:
    return ufunc_loop(np.power, None, (base, exponent))


def _integer_power(builder: FunctionBuilder, base: Value, exponent: int) -> Value:
    if exponent < 0:
        message = "an integer to the power of a negative integer raises"
        raise UnsupportedError(message, "may-raise")
    result = None
    while exponent:
        if exponent & 1:
            result = base if result is None else builder.core("multiply", result, base)
        exponent >>= 1
        if exponent:
            base = builder.core("multiply", base, base)
    return builder.const(1, base.dtype) if result is None else result
