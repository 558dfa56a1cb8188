"""Calls of the math library: glibc's functions on vectors, or C's on each lane.

The names of vector functions follow the vector function ABI of x86-64:
``_ZGVeN8v_exp`` is `exp` of 8 doubles (``N8``) in AVX-512 registers (``e``), with one
vector operand (``v``). They are within 4 ulp, and right for special values.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

from dask_diffuse.codegen.target import Target
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import vector

__all__ = ["MATH_FUNCTIONS", "MathLibrary", "symbol_address"]

MATH_FUNCTIONS: dict[str, str] = {
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log2": "log2",
    "log10": "log10",
    "log1p": "log1p",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "cbrt": "cbrt",
    "erf": "erf",
    "erfc": "erfc",
    "arctan2": "atan2",
    "hypot": "hypot",
    "power": "pow",
    "fmod": "fmod",
}
"""The name in C of each op that is a function of the math library."""

_EXACT = frozenset({"fmod"})
_SIZES = {"float": 4, "double": 8}


class MathLibrary:
    """Writes calls of math functions, and remembers which functions a module needs.

    Parameters
    ----------
    target
        The processor.
    exact
        Whether to call the scalar functions only.

    Attributes
    ----------
    functions
        Text of the functions that were written for the module itself, by name.
    intrinsics
        Declarations of LLVM's own functions, by name.
    """

    def __init__(self, target: Target, exact: bool) -> None:
        self.target = target
        self.functions: dict[str, str] = {}
        self.intrinsics: dict[str, str] = {}
        self._exact = exact
        self._declarations: dict[str, str] = {}

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the functions that were called, in order."""
        return tuple(sorted(self._declarations))

    def declarations(self) -> str:
        """Return the declarations of the functions that were called."""
        return "\n".join(self._declarations[name] for name in self.symbols)

    def call(
        self, text: FunctionText, op: str, args: list[str], lanes: int, type_: str
    ) -> str:
        """Write a call of the function of an op on vectors."""
        name = MATH_FUNCTIONS[op]
        found = self._vector_function(op, name, len(args), lanes, type_)
        if found is None:
            return self._call_lanes(text, name, args, lanes, type_)
        symbol, width = found
        return self._call_vectors(text, symbol, args, lanes, width, type_)

    def _vector_function(
        self, op: str, name: str, arity: int, lanes: int, type_: str
    ) -> tuple[str, int] | None:
        """Return a function on vectors, and the number of its lanes."""
        target = self.target
        if self._exact or op in _EXACT or not target.is_x86:
            return None
        size = _SIZES[type_]
        letters = {
            16: "b",
            32: "d" if target.has_avx2 else "c" if target.has_avx else "",
            64: "e" if target.has_avx512 else "",
        }
        width = lanes
        while width * size < 16:
            width *= 2
        while width * size > target.vector_bytes:
            width //= 2
        letter = letters[width * size]
        if not letter:
            return None
        stem = name + ("f" if type_ == "float" else "")
        symbol = f"_ZGV{letter}N{width}{'v' * arity}_{stem}"
        return (symbol, width) if symbol_address(symbol) else None

    def _declare(self, symbol: str, result: str, arity: int) -> None:
        operands = ", ".join([result] * arity)
        self._declarations[symbol] = f"declare {result} @{symbol}({operands}) #1"

    def _call_vectors(
        self,
        text: FunctionText,
        symbol: str,
        args: list[str],
        lanes: int,
        width: int,
        type_: str,
    ) -> str:
        wide = vector(width, type_)
        self._declare(symbol, wide, len(args))
        if width == lanes:
            operands = ", ".join(f"{wide} {arg}" for arg in args)
            return text.let("call", f"call {wide} @{symbol}({operands})")
        if width > lanes:
            # Lanes to spare repeat the others, and so cost nothing extra.
            padded = [
                shuffle(text, a, lanes, type_, [i % lanes for i in range(width)])
                for a in args
            ]
            operands = ", ".join(f"{wide} {arg}" for arg in padded)
            result = text.let("call", f"call {wide} @{symbol}({operands})")
            return shuffle(text, result, width, type_, range(lanes))
        pieces = []
        for start in range(0, lanes, width):
            lane_range = range(start, start + width)
            cut = [shuffle(text, arg, lanes, type_, lane_range) for arg in args]
            operands = ", ".join(f"{wide} {arg}" for arg in cut)
            pieces.append(text.let("call", f"call {wide} @{symbol}({operands})"))
        return join(text, pieces, width, type_)

    def _call_lanes(
        self, text: FunctionText, name: str, args: list[str], lanes: int, type_: str
    ) -> str:
        symbol = name + ("f" if type_ == "float" else "")
        self._declare(symbol, type_, len(args))
        wide = vector(lanes, type_)
        result = "poison"
        for lane in range(lanes):
            cut = [
                text.let("lane", f"extractelement {wide} {arg}, i64 {lane}")
                for arg in args
            ]
            operands = ", ".join(f"{type_} {arg}" for arg in cut)
            value = text.let("call", f"call {type_} @{symbol}({operands})")
            result = text.let(
                "set", f"insertelement {wide} {result}, {type_} {value}, i64 {lane}"
            )
        return result


def shuffle(
    text: FunctionText, value: str, lanes: int, type_: str, order: list[int] | range
) -> str:
    """Return a vector of some lanes of another."""
    wide = vector(lanes, type_)
    mask = ", ".join(f"i32 {lane}" for lane in order)
    return text.let(
        "lanes",
        f"shufflevector {wide} {value}, {wide} poison, <{len(order)} x i32> <{mask}>",
    )


def join(text: FunctionText, pieces: list[str], width: int, type_: str) -> str:
    """Return the vector made of several, one after the other."""
    while len(pieces) > 1:
        wide = vector(width, type_)
        mask = ", ".join(f"i32 {lane}" for lane in range(2 * width))
        pieces = [
            text.let(
                "joined",
                f"shufflevector {wide} {low}, {wide} {high}, "
                f"<{2 * width} x i32> <{mask}>",
            )
            for low, high in zip(pieces[::2], pieces[1::2], strict=True)
        ]
        width *= 2
    return pieces[0]


@lru_cache(maxsize=1024)
def symbol_address(symbol: str) -> int:
    """Return where a function of the math libraries lies in memory, or 0."""
    library = _vector_library() if symbol.startswith("_ZGV") else _scalar_library()
    if library is None:
        return 0
    try:
        function = library[symbol]
    except AttributeError:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def _vector_library() -> ctypes.CDLL | None:
    """Return glibc's library of vector functions; other C libraries have none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


@lru_cache(maxsize=1)
def _scalar_library() -> ctypes.CDLL:
    # Python itself is linked to the math library, where that is one of its own.
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
