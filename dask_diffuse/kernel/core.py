"""A builder with one method for each core op, for the rules of legalization."""

from __future__ import annotations

import numpy as np

from dask_diffuse.kernel.construct import FunctionBuilder, Value

__all__ = ["CoreBuilder"]

_BOOL = np.dtype(bool)


class CoreBuilder(FunctionBuilder):
    """Builds functions of core ops.

    Operands have the dtype the op asks for: nothing is converted or checked.

    Examples
    --------
    >>> builder = CoreBuilder()
    >>> x = builder.input(0, np.dtype("float32"))
    >>> builder.select(builder.less(x, builder.zero(x)), builder.negative(x), x)
    Value(position=4, dtype=dtype('float32'))
    """

    __slots__ = ()

    def add(self, x: Value, y: Value) -> Value:
        """Return ``x + y``."""
        return self.emit("add", (x[0], y[0]), x[1])

    def subtract(self, x: Value, y: Value) -> Value:
        """Return ``x - y``."""
        return self.emit("subtract", (x[0], y[0]), x[1])

    def multiply(self, x: Value, y: Value) -> Value:
        """Return ``x * y``."""
        return self.emit("multiply", (x[0], y[0]), x[1])

    def divide(self, x: Value, y: Value) -> Value:
        """Return ``x / y`` of floats."""
        return self.emit("divide", (x[0], y[0]), x[1])

    def negative(self, x: Value) -> Value:
        """Return ``-x``."""
        return self.emit("negative", (x[0],), x[1])

    def equal(self, x: Value, y: Value) -> Value:
        """Return ``x == y`` of numbers."""
        return self.emit("equal", (x[0], y[0]), _BOOL)

    def not_equal(self, x: Value, y: Value) -> Value:
        """Return ``x != y`` of numbers, which is true for NaN."""
        return self.emit("not_equal", (x[0], y[0]), _BOOL)

    def less(self, x: Value, y: Value) -> Value:
        """Return ``x < y`` of numbers."""
        return self.emit("less", (x[0], y[0]), _BOOL)

    def less_equal(self, x: Value, y: Value) -> Value:
        """Return ``x <= y`` of numbers."""
        return self.emit("less_equal", (x[0], y[0]), _BOOL)

    def greater(self, x: Value, y: Value) -> Value:
        """Return ``x > y`` of numbers."""
        return self.emit("greater", (x[0], y[0]), _BOOL)

    def greater_equal(self, x: Value, y: Value) -> Value:
        """Return ``x >= y`` of numbers."""
        return self.emit("greater_equal", (x[0], y[0]), _BOOL)

    def both(self, x: Value, y: Value) -> Value:
        """Return ``x & y`` of bools or integers."""
        return self.emit("bitwise_and", (x[0], y[0]), x[1])

    def either(self, x: Value, y: Value) -> Value:
        """Return ``x | y`` of bools or integers."""
        return self.emit("bitwise_or", (x[0], y[0]), x[1])

    def differ(self, x: Value, y: Value) -> Value:
        """Return ``x ^ y`` of bools or integers."""
        return self.emit("bitwise_xor", (x[0], y[0]), x[1])

    def invert(self, x: Value) -> Value:
        """Return ``~x`` of a bool or an integer."""
        return self.emit("invert", (x[0],), x[1])

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """Return ``x if condition else y``."""
        return self.emit("select", (condition[0], x[0], y[0]), x[1])

    def convert(self, x: Value, dtype: np.dtype) -> Value:
        """Return a value cast to a dtype, which has to be a core cast."""
        return x if x[1] == dtype else self.emit("cast", (x[0],), dtype)

    def call(self, name: str, *operands: Value) -> Value:
        """Return a function of floats, of their dtype."""
        args = tuple([operand[0] for operand in operands])
        return self.emit(name, args, operands[0][1])

    def zero(self, x: Value) -> Value:
        """Return the zero of a value's dtype."""
        return self.const(0, x[1])

    def one(self, x: Value) -> Value:
        """Return the one of a value's dtype."""
        return self.const(1, x[1])

    def is_nan(self, x: Value) -> Value:
        """Return whether a float is NaN."""
        return self.emit("not_equal", (x[0], x[0]), _BOOL)

    def is_number(self, x: Value) -> Value:
        """Return whether a float is not NaN."""
        return self.emit("equal", (x[0], x[0]), _BOOL)

    def is_true(self, x: Value) -> Value:
        """Return whether a bool or a number is not zero."""
        return x if x[1] == _BOOL else self.not_equal(x, self.zero(x))
