"""Rules for casts between real dtypes: what ``ndarray.astype`` computes, in core casts.

Core casts are: bools to integers; integers to integers, which wraps around; integers to
floats; floats to floats; and floats to int32 and int64. Of the last, C and NumPy say
nothing for NaN and what is out of range. NumPy on x86 has what the processor has: the
smallest integer. Core casts have the same, and the rules for other integer dtypes go
through these two as NumPy's compiled code does.
"""

from __future__ import annotations

import numpy as np

from dask_diffuse.kernel.construct import Value
from dask_diffuse.kernel.core import CoreBuilder

__all__ = ["cast_real"]

_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)


def cast_real(b: CoreBuilder, x: Value, dtype: np.dtype) -> Value:
    """Return a value that is not complex as another dtype that is not complex."""
    if x.dtype == dtype:
        return x
    if dtype.kind == "b":
        return b.is_true(x)
    if x.dtype.kind == "b" and dtype.kind == "f":
        # One instruction, where there is none from bools to floats.
        return b.select(x, b.const(1.0, dtype), b.const(0.0, dtype))
    if x.dtype.kind != "f" or dtype.kind == "f" or dtype in (_INT32, _INT64):
        return b.convert(x, dtype)
    if dtype == _UINT64:
        return _float_to_uint64(b, x)
    wide = _INT64 if dtype.itemsize == 4 else _INT32
    return b.convert(b.convert(x, wide), dtype)


def _float_to_uint64(b: CoreBuilder, x: Value) -> Value:
    # Half of the range lies beyond int64. Negative values wrap around.
    middle = b.const(2.0**63, x.dtype)
    upper = b.greater_equal(x, middle)
    within = b.select(upper, b.subtract(x, middle), x)
    integer = b.convert(b.convert(within, _INT64), _UINT64)
    top_bit = b.select(upper, b.const(1 << 63, _UINT64), b.const(0, _UINT64))
    return b.differ(integer, top_bit)
