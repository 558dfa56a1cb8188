"""Values where dtypes end and operations turn, and how close results must be."""

from __future__ import annotations

import itertools

import numpy as np

from dask_diffuse.ops.dtypes import real_dtype

__all__ = ["assert_close", "assert_identical", "convertible", "grids", "special_values"]

_INTEGERS = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100)
_FLOATS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 100.7, 1e3, 1e-3, np.inf)
_PARTS = (0.0, 1.0, 2.5, 1e-3, np.inf)


def special_values(dtype: np.dtype) -> np.ndarray:
    """Zeros, units, halves, extremes, subnormals, infinities and NaN of a dtype."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = {*_INTEGERS, *(-i for i in _INTEGERS)}
        for edge in (info.min, info.max, info.max // 2):
            values |= {edge - 1, edge, edge + 1}
        return np.array(sorted(v for v in values if info.min <= v <= info.max), dtype)
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        sizes = (limits.max, limits.tiny, limits.smallest_subnormal, limits.eps)
        half = np.array([*_FLOATS, *sizes, 1 - limits.eps], dtype)
        return np.concatenate([half, -half, np.array([np.nan], dtype)])
    part = real_dtype(dtype)
    half = np.array([*_PARTS, np.finfo(part).max, np.finfo(part).tiny], part)
    parts = np.concatenate([half, -half, np.array([np.nan], part)])
    values = np.empty((len(parts), len(parts)), dtype)
    values.real, values.imag = parts[:, None], parts
    return values.ravel()


def grids(*dtypes: np.dtype) -> list[np.ndarray]:
    """All combinations of special values, as flat arrays of one length."""
    axes = np.meshgrid(*map(special_values, dtypes), indexing="ij")
    return [np.ascontiguousarray(axis).ravel() for axis in axes]


def convertible(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values, with 1 for those whose conversion to an integer C does not define."""
    if values.dtype.kind not in "fc" or dtype.kind not in "iu":
        return values
    info = np.iinfo(dtype)
    real = values.real.astype(np.longdouble)
    inside = (real > info.min - np.longdouble(1)) & (real < info.max + np.longdouble(1))
    return np.where(inside, values, values.dtype.type(1))


def _matches(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where values are equal bit for bit, but that all NaN are one."""
    if expected.dtype.kind == "c":
        real = _matches(actual.real, expected.real)
        return real & _matches(actual.imag, expected.imag)
    if expected.dtype.kind == "f":
        equal = (actual == expected) & (np.signbit(actual) == np.signbit(expected))
        return equal | (np.isnan(actual) & np.isnan(expected))
    return actual == expected


def _fail(
    actual: np.ndarray,
    expected: np.ndarray,
    bad: np.ndarray,
    operands: list[np.ndarray],
    what: str,
) -> None:
    places = np.flatnonzero(bad)
    cases = [
        f"({', '.join(str(o[i]) for o in operands)}): {actual[i]} and not {expected[i]}"
        for i in itertools.islice(places, 5)
    ]
    raise AssertionError(f"{what}: {len(places)} differ:\n" + "\n".join(cases))


def assert_identical(
    actual: np.ndarray, expected: np.ndarray, operands: list[np.ndarray], what: str
) -> None:
    """Compare bit for bit; the sign of zeros counts, that of NaN does not."""
    assert actual.dtype == expected.dtype, what
    actual = np.broadcast_to(actual, expected.shape)
    bad = ~_matches(actual, expected)
    if bad.any():
        _fail(actual, expected, bad, operands, what)


def assert_close(
    actual: np.ndarray,
    expected: np.ndarray,
    operands: list[np.ndarray],
    what: str,
    *,
    ulp: int,
    scale: np.ndarray | None = None,
) -> None:
    """Compare up to some units in the last place of the results, or of `scale`."""
    if not ulp or expected.dtype.kind not in "fc":
        return assert_identical(actual, expected, operands, what)
    assert actual.dtype == expected.dtype, what
    actual = np.broadcast_to(actual, expected.shape)
    if scale is None:
        scale = np.abs(expected)
        if expected.dtype.kind == "c":
            scale = np.maximum(np.abs(expected.real), np.abs(expected.imag))
    with np.errstate(all="ignore"):
        unit = np.spacing(np.where(np.isfinite(scale), scale, 0))
        wide = [x.astype(np.clongdouble) for x in (actual, expected)]
        error = wide[0] - wide[1]
        near = np.maximum(np.abs(error.real), np.abs(error.imag)) <= ulp * unit
    # A zero where a tiny number is due has to have its sign.
    bad = ~(_matches(actual, expected) | near)
    if bad.any():
        _fail(actual, expected, bad, operands, what)
    return None
