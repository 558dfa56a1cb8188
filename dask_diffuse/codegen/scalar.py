"""Core ops as vector instructions: one value of a kernel's function, all lanes at once.

A value is a tuple of vectors: one, or the real and the imaginary parts. All vectors of
a kernel have the same number of lanes, whatever their type.
"""

from __future__ import annotations

import numpy as np

from dask_diffuse.codegen.division import call_fmod, call_int_division
from dask_diffuse.codegen.mathlib import MATH_FUNCTIONS, MathLibrary
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import element, splat, suffix, vector
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.function import Instruction

__all__ = ["Parts", "VectorEmitter"]

Parts = tuple[str, ...]
"""The vectors of a value."""

_INTEGER = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "shift_left": "shl",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_SIGNED = {"int_div": "sdiv", "int_rem": "srem", "shift_right": "ashr"}
_UNSIGNED = {"int_div": "udiv", "int_rem": "urem", "shift_right": "lshr"}
_FLOAT = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_COMPARE = {
    "equal": ("oeq", "eq", "eq"),
    "not_equal": ("une", "ne", "ne"),
    "less": ("olt", "slt", "ult"),
    "less_equal": ("ole", "sle", "ule"),
    "greater": ("ogt", "sgt", "ugt"),
    "greater_equal": ("oge", "sge", "uge"),
}
_INTRINSICS = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "fabs": "fabs",
    "copysign": "copysign",
}
_BITS = {"float": 32, "double": 64}


class VectorEmitter:
    """Writes the instructions of a function.

    Parameters
    ----------
    text
        Where they go.
    lanes
        Length of all vectors.
    library
        Writes the calls of math functions.
    """

    def __init__(
        self,
        text: FunctionText,
        lanes: int,
        library: MathLibrary,
    ) -> None:
        self._text = text
        self._lanes = lanes
        self._library = library

    def apply(
        self, line: Instruction, args: list[Parts], dtypes: list[np.dtype]
    ) -> Parts:
        """Write one core op.

        Parameters
        ----------
        line
            The instruction.
        args, dtypes
            Its operands and their dtypes.

        Raises
        ------
        UnsupportedError
            If it is not a core op for these.
        """
        op, kind = line.op, dtypes[0].kind
        match op:
            case "cast":
                return self.cast(args[0], dtypes[0], line.dtype)
            case "complex":
                return args[0][0], args[1][0]
            case "real" | "imag" if kind == "c":
                return (args[0][op == "imag"],)
            case "select":
                return tuple(
                    self.select(args[0][0], x, y, element(line.dtype))
                    for x, y in zip(args[1], args[2], strict=True)
                )
        if kind != "c":
            operands = [arg[0] for arg in args]
            if op in _COMPARE:
                return (self._compare(op, operands, dtypes[0]),)
            result = (
                self._float(op, operands, element(dtypes[0]))
                if kind == "f"
                else self._integer(op, operands, dtypes[0])
            )
            if result is not None:
                return (result,)
        raise UnsupportedError(f"{op!r} of {dtypes[0].name} is no core op")

    def cast(self, value: Parts, source: np.dtype, dtype: np.dtype) -> Parts:
        """Write a conversion, as `numpy.ndarray.astype` does it."""
        if source == dtype:
            return value
        if dtype.kind == "b":
            tests = [self._is_true(part, source) for part in value]
            if len(tests) == 2:
                mask = self._type("i1")
                return (self._text.let("or", f"or {mask} {tests[0]}, {tests[1]}"),)
            return (tests[0],)
        if source.kind == "c":
            if dtype.kind != "c":
                value = value[:1]
            source = np.dtype(f"f{source.itemsize // 2}")
        if dtype.kind == "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            parts = tuple(self._cast_real(v, source, part) for v in value)
            return (*parts, splat(self._lanes, element(part), 0))[:2]
        return (self._cast_real(value[0], source, dtype),)

    def intrinsic(self, name: str, args: list[str], type_: str) -> str:
        """Write a call of one of LLVM's functions whose types are all the same."""
        wide = self._type(type_)
        symbol = f"llvm.{name}.{suffix(self._lanes, type_)}"
        declared = ", ".join([wide] * len(args))
        self._library.intrinsics[symbol] = f"declare {wide} @{symbol}({declared})"
        operands = ", ".join(f"{wide} {arg}" for arg in args)
        return self._text.let(name, f"call {wide} @{symbol}({operands})")

    def _type(self, type_: str) -> str:
        return vector(self._lanes, type_)

    def binary(self, instruction: str, type_: str, left: str, right: str) -> str:
        """Write an instruction of two operands of one type."""
        wide = self._type(type_)
        return self._text.let(instruction, f"{instruction} {wide} {left}, {right}")

    def test(self, instruction: str, type_: str, left: str, right: str) -> str:
        """Write a comparison, as in ``test("icmp slt", "i64", x, y)``."""
        wide = self._type(type_)
        return self._text.let("test", f"{instruction} {wide} {left}, {right}")

    def multiply_add(self, type_: str, x: str, y: str, z: str) -> str:
        """Write ``x * y + z``, rounded once where the processor can do that."""
        if self._library.target.fuses:
            return self.intrinsic("fma", [x, y, z], type_)
        return self.binary("fadd", type_, self.binary("fmul", type_, x, y), z)

    def compare(self, op: str, dtype: np.dtype, left: str, right: str) -> str:
        """Write a comparison that a core op names."""
        return self._compare(op, [left, right], dtype)

    def constant(self, type_: str, value: complex) -> str:
        """Return a constant in all lanes."""
        return splat(self._lanes, type_, value)

    def select(self, condition: str, x: str, y: str, type_: str) -> str:
        """Write a choice, lane by lane."""
        wide, mask = self._type(type_), self._type("i1")
        return self._text.let(
            "select", f"select {mask} {condition}, {wide} {x}, {wide} {y}"
        )

    def _compare(self, op: str, args: list[str], dtype: np.dtype) -> str:
        ordered, signed, unsigned = _COMPARE[op]
        kind = dtype.kind
        condition = ordered if kind == "f" else signed if kind == "i" else unsigned
        word = "fcmp" if kind == "f" else "icmp"
        wide = self._type(element(dtype))
        return self._text.let(op, f"{word} {condition} {wide} {', '.join(args)}")

    def _float(self, op: str, args: list[str], type_: str) -> str | None:
        wide = self._type(type_)
        if op in _FLOAT:
            return self.binary(_FLOAT[op], type_, *args)
        if op == "negative":
            return self._text.let("fneg", f"fneg {wide} {args[0]}")
        if op in _INTRINSICS:
            return self.intrinsic(_INTRINSICS[op], args, type_)
        if op == "signbit":
            integer = self._type(f"i{_BITS[type_]}")
            bits = self._text.let("bits", f"bitcast {wide} {args[0]} to {integer}")
            return self._text.let(
                "signbit", f"icmp slt {integer} {bits}, zeroinitializer"
            )
        if op == "nextafter":
            return self._next_after(args[0], args[1], type_)
        if op == "fmod":
            return call_fmod(self._text, self._library, args, self._lanes, type_)
        if op in MATH_FUNCTIONS:
            return self._library.call(self._text, op, args, self._lanes, type_)
        return None

    def _next_after(self, x: str, y: str, type_: str) -> str:
        """Write C's ``nextafter``: floats in order are integers in order."""
        wide, integer = self._type(type_), f"i{_BITS[type_]}"
        words = self._type(integer)
        zero = splat(self._lanes, type_, 0)
        bits = self._text.let("bits", f"bitcast {wide} {x} to {words}")
        rises = self.test("fcmp olt", type_, x, y)
        is_positive = self.test("fcmp ogt", type_, x, zero)
        nearer = self.binary("xor", "i1", rises, is_positive)
        one, minus_one = (splat(self._lanes, integer, n) for n in (1, -1))
        step = self.select(nearer, minus_one, one, integer)
        moved = self.binary("add", integer, bits, step)
        result = self._text.let("moved", f"bitcast {words} {moved} to {wide}")
        # From zero, one step is the smallest number, on the side of y.
        least = self._text.let("least", f"bitcast {words} {one} to {wide}")
        least = self.intrinsic("copysign", [least, y], type_)
        is_zero = self.test("fcmp oeq", type_, x, zero)
        result = self.select(is_zero, least, result, type_)
        result = self.select(self.test("fcmp oeq", type_, x, y), y, result, type_)
        is_nan = self.test("fcmp uno", type_, x, y)
        return self.select(is_nan, self.binary("fadd", type_, x, y), result, type_)

    def _integer(self, op: str, args: list[str], dtype: np.dtype) -> str | None:
        type_ = element(dtype)
        table = _INTEGER | (_SIGNED if dtype.kind == "i" else _UNSIGNED)
        if op in ("int_div", "int_rem") and dtype.itemsize == 8:
            is_signed = dtype.kind == "i"
            return call_int_division(
                *(self._text, self._library, op, args, self._lanes, is_signed)
            )
        if op in table:
            return self.binary(table[op], type_, *args)
        if op == "negative":
            return self.binary("sub", type_, "zeroinitializer", args[0])
        if op == "invert":
            ones = splat(self._lanes, type_, 1 if type_ == "i1" else -1)
            return self.binary("xor", type_, args[0], ones)
        return None

    def _is_true(self, part: str, dtype: np.dtype) -> str:
        wide = self._type(element(dtype))
        word = "fcmp une" if dtype.kind in "fc" else "icmp ne"
        return self._text.let("true", f"{word} {wide} {part}, zeroinitializer")

    def _cast_real(self, value: str, source: np.dtype, dtype: np.dtype) -> str:
        if source == dtype:
            return value
        if dtype.kind == "f":
            if source.kind == "f":
                word = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
            else:
                word = "sitofp" if source.kind == "i" else "uitofp"
            return self.convert(word, value, element(source), element(dtype))
        if source.kind == "f":
            return self._float_to_integer(value, source, dtype)
        bits = 1 if source.kind == "b" else 8 * source.itemsize
        if 8 * dtype.itemsize == bits:
            return value
        if 8 * dtype.itemsize < bits:
            word = "trunc"
        else:
            word = "sext" if source.kind == "i" else "zext"
        return self.convert(word, value, element(source), element(dtype))

    def _float_to_integer(self, value: str, source: np.dtype, dtype: np.dtype) -> str:
        """Write what C compilers make of such a cast, out of range too.

        The instruction of x86-64 converts to a signed integer of 32 or 64 bits; of it
        the lower bits are taken.
        """
        float_, integer = element(source), element(dtype)
        if dtype.kind == "u" and dtype.itemsize == 8:
            return self._float_to_uint64(value, float_)
        size = 4 if dtype.itemsize < 4 or dtype.kind == "i" else 8
        through = f"i{8 * max(size, dtype.itemsize)}"
        whole = self.convert("fptosi", value, float_, through)
        if through == integer:
            return whole
        return self.convert("trunc", whole, through, integer)

    def _float_to_uint64(self, value: str, float_: str) -> str:
        wide, words = self._type(float_), self._type("i64")
        half = splat(self._lanes, float_, 2.0**63)
        small = self._text.let("small", f"fcmp olt {wide} {value}, {half}")
        low = self.convert("fptosi", value, float_, "i64")
        rest = self.binary("fsub", float_, value, half)
        high = self.convert("fptosi", rest, float_, "i64")
        sign = splat(self._lanes, "i64", -(2**63))
        flipped = self._text.let("flipped", f"xor {words} {high}, {sign}")
        return self.select(small, low, flipped, "i64")

    def convert(self, word: str, value: str, source: str, target: str) -> str:
        """Write a conversion to another type."""
        return self._text.let(
            word, f"{word} {self._type(source)} {value} to {self._type(target)}"
        )
