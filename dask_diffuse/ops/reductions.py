"""The rows of the reductions: what a kernel accumulates over some axes of a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

__all__ = ["REDUCTIONS", "ReductionOp"]

Axes = tuple[int, ...]
Evaluate = Callable[[tuple[np.ndarray, ...], Axes, np.dtype], list[np.ndarray]]


@dataclass(frozen=True, slots=True, eq=False)
class ReductionOp:
    """One way to accumulate values.

    Parameters
    ----------
    name
        As kernels and accesses spell it.
    evaluate
        Accumulates blocks of values over axes, which stay with length 1, to results
        of a dtype. This is the reference that every target is compared with.
    identity
        What nothing accumulates to, or None if that has no meaning.
    num_values
        The most values it takes for each element.
    num_results
        How many arrays it makes.
    is_arg
        Whether it says where something is.
    skips_nan
        Whether NaN counts only if there is nothing else.
    """

    name: str
    evaluate: Evaluate
    identity: bool | int | None = None
    num_values: int = 1
    num_results: int = 1
    is_arg: bool = False
    skips_nan: bool = False

    def __repr__(self) -> str:
        return f"<ReductionOp {self.name}>"


def _accumulate(
    function: Callable[..., np.ndarray],
    values: tuple[np.ndarray, ...],
    axes: Axes,
    dtype: np.dtype,
) -> list[np.ndarray]:
    return [function(values[0], axis=axes, dtype=dtype, keepdims=True)]


def _pick(
    function: Callable[..., np.ndarray],
    values: tuple[np.ndarray, ...],
    axes: Axes,
    dtype: np.dtype,
) -> list[np.ndarray]:
    return [function(values[0], axis=axes, keepdims=True).astype(dtype, copy=False)]


def _locate(
    function: Callable[..., np.ndarray],
    values: tuple[np.ndarray, ...],
    axes: Axes,
    dtype: np.dtype,
) -> list[np.ndarray]:
    value = values[0]
    kept = [axis for axis in range(value.ndim) if axis not in axes]
    shape = [1 if axis in axes else value.shape[axis] for axis in range(value.ndim)]
    # Several axes are counted as one, in C order.
    rows = value.transpose(*kept, *axes).reshape(*(value.shape[k] for k in kept), -1)
    positions = function(rows, axis=-1, keepdims=True)
    found = np.take_along_axis(rows, positions, axis=-1)
    return [
        found.reshape(shape).astype(dtype, copy=False),
        positions.reshape(shape).astype(np.int64, copy=False),
    ]


def _moments(
    values: tuple[np.ndarray, ...], axes: Axes, dtype: np.dtype
) -> list[np.ndarray]:
    value = values[0].astype(dtype, copy=False)
    valid = values[1] if len(values) == 2 else np.ones((1,) * value.ndim, bool)
    valid = np.broadcast_to(valid, value.shape)
    count = np.sum(valid, axis=axes, dtype=np.int64, keepdims=True)
    total = np.sum(value, axis=axes, dtype=dtype, keepdims=True, where=valid)
    with np.errstate(all="ignore"):
        deviation = value - total / count.astype(total.real.dtype)
    squares = (deviation * deviation.conj()).astype(dtype, copy=False)
    m2 = np.sum(squares, axis=axes, dtype=dtype, keepdims=True, where=valid)
    return [count, total, m2]


_ROWS = (
    ReductionOp("sum", partial(_accumulate, np.sum), identity=0),
    ReductionOp("prod", partial(_accumulate, np.prod), identity=1),
    ReductionOp("min", partial(_pick, np.min)),
    ReductionOp("max", partial(_pick, np.max)),
    ReductionOp("fmin", partial(_pick, np.fmin.reduce), skips_nan=True),
    ReductionOp("fmax", partial(_pick, np.fmax.reduce), skips_nan=True),
    ReductionOp("any", partial(_pick, np.any), identity=False),
    ReductionOp("all", partial(_pick, np.all), identity=True),
    ReductionOp("argmin", partial(_locate, np.argmin), num_results=2, is_arg=True),
    ReductionOp("argmax", partial(_locate, np.argmax), num_results=2, is_arg=True),
    ReductionOp("moments", _moments, identity=0, num_values=2, num_results=3),
)

REDUCTIONS: dict[str, ReductionOp] = {row.name: row for row in _ROWS}
"""All rows by name."""
