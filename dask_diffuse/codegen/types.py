"""How values of NumPy's dtypes look in LLVM IR, in registers and in memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from dask_diffuse.ops.dtypes import real_dtype

__all__ = [
    "constant",
    "element",
    "lane_numbers",
    "num_parts",
    "splat",
    "suffix",
    "vector",
    "vector_of",
]

_ELEMENTS = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
    "float32": "float",
    "float64": "double",
}


def element(dtype: np.dtype) -> str:
    """Return the type of one lane in registers; of one part, if complex.

    Examples
    --------
    >>> element(np.dtype("uint16")), element(np.dtype("complex64"))
    ('i16', 'float')
    """
    return _ELEMENTS[real_dtype(dtype).name]


def num_parts(dtype: np.dtype) -> int:
    """Return of how many vectors a value consists."""
    return 2 if dtype.kind == "c" else 1


def vector(lanes: int, type_: str) -> str:
    """Return the type of a vector."""
    return f"<{lanes} x {type_}>"


def suffix(lanes: int, type_: str) -> str:
    """Return how the names of intrinsics spell the type of a vector."""
    short = {"float": "f32", "double": "f64"}.get(type_, type_)
    return f"v{lanes}{short}"


def constant(value: complex, type_: str) -> str:
    """Return a number as LLVM IR writes it, bit for bit.

    Examples
    --------
    >>> constant(1.5, "double"), constant(True, "i1"), constant(-2, "i8")
    ('0x3FF8000000000000', 'true', '-2')
    """
    if type_ == "i1":
        return "true" if value else "false"
    if type_ in ("float", "double"):
        real = value.real
        number = np.float32(real) if type_ == "float" else np.float64(real)
        # LLVM writes floats of all sizes as the double of the same value.
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(number)))
        return f"0x{bits:016X}"
    return str(int(value.real))


def splat(lanes: int, type_: str, value: complex) -> str:
    """Return a constant vector whose lanes are equal."""
    return vector_of(type_, [value] * lanes)


def vector_of(type_: str, values: Sequence[complex]) -> str:
    """Return a constant vector."""
    return "<" + ", ".join(f"{type_} {constant(v, type_)}" for v in values) + ">"


def lane_numbers(lanes: int) -> str:
    """Return the constant vector that has in each lane its number, as i64."""
    return vector_of("i64", range(lanes))
