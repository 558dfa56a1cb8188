"""Vectors of elements in memory: bools are bytes, complex numbers are pairs."""

from __future__ import annotations

import numpy as np

from dask_diffuse.codegen.mathlib import shuffle
from dask_diffuse.codegen.scalar import Parts
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import element, num_parts, vector

__all__ = ["load_parts", "load_scalar", "masked_store_parts", "splat_of", "store_parts"]


def load_parts(
    text: FunctionText, base: str, offset: str, dtype: np.dtype, lanes: int
) -> Parts:
    """Load consecutive elements, which may lie anywhere.

    Parameters
    ----------
    text
        Where the instructions go.
    base, offset
        Pointer, and the number of elements after it.
    dtype
        Of the elements.
    lanes
        How many.
    """
    type_ = element(dtype)
    wide = vector(lanes, type_)
    if num_parts(dtype) == 2:
        pairs = vector(2 * lanes, type_)
        doubled = text.math("shl", offset, 1)
        loaded = text.load(pairs, text.at(type_, base, doubled), 1)
        return tuple(
            shuffle(text, loaded, 2 * lanes, type_, range(start, 2 * lanes, 2))
            for start in (0, 1)
        )
    if dtype.kind == "b":
        octets = vector(lanes, "i8")
        loaded = text.load(octets, text.at("i8", base, offset), 1)
        return (text.let("bool", f"icmp ne {octets} {loaded}, zeroinitializer"),)
    return (text.load(wide, text.at(type_, base, offset), 1),)


def store_parts(
    text: FunctionText,
    value: Parts,
    base: str,
    offset: str,
    dtype: np.dtype,
    lanes: int,
) -> None:
    """Store consecutive elements; the reverse of `load_parts`."""
    wide, stored, scale, type_ = _in_memory(text, value, dtype, lanes)
    place = text.math("shl", offset, 1) if scale == 2 else offset
    align = dtype.itemsize // scale
    text.store(wide, stored, text.at(type_, base, place), align)


def masked_store_parts(
    text: FunctionText,
    value: Parts,
    base: str,
    offset: str,
    dtype: np.dtype,
    lanes: int,
    mask: str,
    intrinsics: dict[str, str],
) -> None:
    """Store the elements of the lanes for which a mask holds."""
    wide, stored, scale, type_ = _in_memory(text, value, dtype, lanes)
    if scale == 2:
        offset = text.math("shl", offset, 1)
        twice = [lane // 2 for lane in range(2 * lanes)]
        mask = shuffle(text, mask, lanes, "i1", twice)
    short = {"float": "f32", "double": "f64"}.get(type_, type_)
    symbol = f"llvm.masked.store.v{scale * lanes}{short}.p0"
    bits = vector(scale * lanes, "i1")
    intrinsics[symbol] = f"declare void @{symbol}({wide}, ptr, i32, {bits})"
    align = dtype.itemsize // scale
    pointer = text.at(type_, base, offset)
    text.do(
        f"call void @{symbol}({wide} {stored}, ptr {pointer}, i32 {align}, "
        f"{bits} {mask})"
    )


def load_scalar(
    text: FunctionText, base: str, number: int, dtype: np.dtype, lanes: int
) -> Parts:
    """Load one of the scalar arguments into all lanes. They lie 16 bytes apart."""
    type_ = "i8" if dtype.kind == "b" else element(dtype)
    size = dtype.itemsize // num_parts(dtype)
    parts = []
    for part in range(num_parts(dtype)):
        pointer = text.at("i8", base, 16 * number + part * size)
        value = text.load(type_, pointer, size)
        parts.append(splat_of(text, value, type_, lanes))
    if dtype.kind == "b":
        octets = vector(lanes, "i8")
        return (text.let("bool", f"icmp ne {octets} {parts[0]}, zeroinitializer"),)
    return tuple(parts)


def splat_of(text: FunctionText, value: str, type_: str, lanes: int) -> str:
    """Return a vector that has a value in all lanes."""
    wide = vector(lanes, type_)
    one = text.let("one", f"insertelement {wide} poison, {type_} {value}, i64 0")
    return text.let(
        "splat",
        f"shufflevector {wide} {one}, {wide} poison, <{lanes} x i32> zeroinitializer",
    )


def _in_memory(
    text: FunctionText, value: Parts, dtype: np.dtype, lanes: int
) -> tuple[str, str, int, str]:
    """Return type and name of the vector to store, its scale, and its elements' type.

    The scale is the number of parts of a value.
    """
    type_ = element(dtype)
    wide = vector(lanes, type_)
    if num_parts(dtype) == 2:
        mask = ", ".join(
            f"i32 {lane}" for pair in range(lanes) for lane in (pair, lanes + pair)
        )
        pairs = text.let(
            "pairs",
            f"shufflevector {wide} {value[0]}, {wide} {value[1]}, "
            f"<{2 * lanes} x i32> <{mask}>",
        )
        return vector(2 * lanes, type_), pairs, 2, type_
    if dtype.kind == "b":
        octets = vector(lanes, "i8")
        stored = text.let("byte", f"zext {wide} {value[0]} to {octets}")
        return octets, stored, 1, "i8"
    return wide, value[0], 1, type_
