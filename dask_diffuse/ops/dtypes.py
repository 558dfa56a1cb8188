"""Dtypes that kernels handle, and the result types of operations, by NumPy itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dask_diffuse.errors import UnsupportedError

__all__ = [
    "SUPPORTED",
    "Loop",
    "OperandType",
    "canonical",
    "float_loop",
    "is_supported",
    "promote",
    "real_dtype",
    "select_loop",
    "ufunc_loop",
]

OperandType = np.dtype | type
"""The dtype of an operand, or `int`, `float` or `complex` for a Python literal.

Literals are weak (NEP 50): they take the dtype of what they meet.
"""

Loop = tuple[tuple[np.dtype, ...], np.dtype]
"""Dtypes of the operands of an operation after conversion, and of its result."""

SUPPORTED: tuple[np.dtype, ...] = tuple(
    np.dtype(name)
    for name in (
        "bool",
        *("int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64"),
        *("complex64", "complex128"),
    )
)
"""In native byte order. All others are left to NumPy."""

_CANONICAL = {dtype: dtype for dtype in SUPPORTED}
_REAL: dict[np.dtype, np.dtype] = {
    np.dtype("complex64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("float64"),
}
_PYTHON_ZEROS = {int: 0, float: 0.0, complex: 0j}


def is_supported(dtype: np.dtype) -> bool:
    """Whether kernels handle a dtype.

    Examples
    --------
    >>> is_supported(np.dtype("float32")), is_supported(np.dtype(">f4"))
    (True, False)
    """
    return dtype in _CANONICAL


def canonical(dtype: np.dtype) -> np.dtype:
    """Return the one object that stands for a dtype.

    C has two names for one integer type, and so has NumPy: ``dtype("l")`` and
    ``dtype("q")`` are equal but print differently.

    Raises
    ------
    UnsupportedError
        If kernels do not handle it.
    """
    try:
        return _CANONICAL[dtype]
    except KeyError:
        raise UnsupportedError(
            f"kernels do not handle dtype {str(dtype)!r}", "unsupported-dtype"
        ) from None


def real_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the parts of a complex dtype; others are returned as such.

    Examples
    --------
    >>> real_dtype(np.dtype("complex64"))
    dtype('float32')
    """
    return _REAL.get(dtype, dtype)


@lru_cache(maxsize=4096)
def promote(operands: tuple[OperandType, ...]) -> np.dtype:
    """Return the dtype that holds all operands, as `numpy.result_type` finds it.

    Examples
    --------
    >>> promote((np.dtype("float32"), float)), promote((np.dtype("int8"), float))
    (dtype('float32'), dtype('float64'))
    """
    values = [
        operand if isinstance(operand, np.dtype) else _PYTHON_ZEROS[operand]
        for operand in operands
    ]
    return canonical(np.result_type(*values))


@lru_cache(maxsize=4096)
def ufunc_loop(
    ufunc: np.ufunc,
    refuse: Callable[[Loop], None] | None,
    operands: tuple[OperandType, ...],
) -> Loop:
    """Return the loop that a ufunc of NumPy picks.

    Parameters
    ----------
    ufunc
        With one result.
    refuse
        Raises `UnsupportedError` for loops that have no scalar form.
    operands
        Their types.

    Raises
    ------
    UnsupportedError
        If there is no loop or it has no scalar form.

    Examples
    --------
    >>> ufunc_loop(np.add, None, (np.dtype("float32"), float))
    ((dtype('float32'), dtype('float32')), dtype('float32'))
    """
    try:
        dtypes = ufunc.resolve_dtypes((*operands, None))
    except TypeError:
        raise _no_loop(ufunc.__name__, operands) from None
    *inputs, output = (canonical(dtype) for dtype in dtypes)
    loop = tuple(inputs), output
    if refuse is not None:
        refuse(loop)
    return loop


@lru_cache(maxsize=4096)
def select_loop(operands: tuple[OperandType, ...]) -> Loop:
    """Return the loop of `numpy.where`: a bool, and two operands of one dtype."""
    dtype = promote(operands[1:])
    return (_CANONICAL[np.dtype(bool)], dtype, dtype), dtype


@lru_cache(maxsize=4096)
def float_loop(name: str, operands: tuple[OperandType, ...]) -> Loop:
    """Return the loop of a function of SciPy that has loops for floats only.

    SciPy's ufuncs say so of themselves, but SciPy must not be imported for it.
    """
    dtype = promote(operands)
    if dtype.kind == "c":
        raise _no_loop(name, operands)
    if dtype.kind != "f":
        dtype = _CANONICAL[np.dtype("float64")]
    return (dtype,) * len(operands), dtype


def _no_loop(name: str, operands: tuple[OperandType, ...]) -> UnsupportedError:
    types = ", ".join(
        str(operand) if isinstance(operand, np.dtype) else f"Python {operand.__name__}"
        for operand in operands
    )
    return UnsupportedError(f"{name!r} has no loop for {types}", "unsupported-dtype")
