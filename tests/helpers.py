"""Runs one program in every way there is, and compares the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dask
import dask.array as da
import numpy as np

import dask_diffuse
from dask_diffuse.optimizer import hook_counts
from dask_diffuse.runtime.counters import call_counters

__all__ = [
    "Activity",
    "Tolerance",
    "assert_same",
    "assert_same_value",
    "fused",
    "watch",
]

Chunks = Any
Input = np.ndarray | tuple[np.ndarray, Chunks]


@dataclass(frozen=True)
class Tolerance:
    """How far two floats may be apart: ``atol + rtol * abs(expected)``.

    Both are in units of `epsilon`, which is that of the result's dtype if not given.
    Zero means bit for bit, NaN and the sign of zero included.
    """

    rtol: float = 0.0
    atol: float = 0.0
    epsilon: float | None = None

    @property
    def is_exact(self) -> bool:
        return not self.rtol and not self.atol


EXACT = Tolerance()


@dataclass
class Activity:
    """What the hook and the fused tasks of this process did meanwhile."""

    graphs: int = 0
    groups: int = 0
    failed: int = 0
    calls: int = 0
    scalar_calls: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        """Fused tasks that ran, in whatever way."""
        return self.calls + self.scalar_calls + sum(self.fallbacks.values())


def _snapshot() -> Activity:
    hook, calls = hook_counts(), call_counters.snapshot()
    return Activity(
        graphs=int(hook["fused"]),
        groups=int(hook["groups"]),
        failed=int(hook["failed"]),
        calls=calls["calls"],
        scalar_calls=calls["scalar_calls"],
        fallbacks=dict(calls["fallbacks"]),
    )


@contextmanager
def watch() -> Iterator[Activity]:
    """Fill an `Activity` with what happens inside."""
    before, activity = _snapshot(), Activity()
    try:
        yield activity
    finally:
        after = _snapshot()
        for name in ("graphs", "groups", "failed", "calls", "scalar_calls"):
            setattr(activity, name, getattr(after, name) - getattr(before, name))
        for name, count in after.fallbacks.items():
            if more := count - before.fallbacks.get(name, 0):
                activity.fallbacks[name] = more


@contextmanager
def fused(**options: Any) -> Iterator[Activity]:
    """Enable the hook for arrays of any size, and see what it does."""
    options = {"min_bytes": 0, "strict": True} | options
    with dask_diffuse.enable(**options), watch() as activity:
        yield activity


def assert_same(
    build: Callable[..., Any],
    *inputs: Input,
    tolerance: Tolerance = EXACT,
    numpy: bool = True,
    numpy_tolerance: Tolerance = Tolerance(rtol=256, atol=256),
    expect: str | None = "fused",
    scheduler: str = "sync",
    **options: Any,
) -> Activity:
    """Compare a program with kernels to plain Dask, the interpreter and NumPy.

    Everything is compared: values, dtypes, shapes, types, chunks, keys, and block by
    block what `persist` makes. Inputs are read-only and must stay as they are.

    Parameters
    ----------
    build
        Takes Dask arrays, or NumPy arrays in their place, and returns one or several.
    inputs
        Arrays, bare or with the chunks they are cut into.
    tolerance
        Between kernels and plain Dask.
    numpy
        Whether `build` works with NumPy arrays as well.
    numpy_tolerance
        Between plain Dask and NumPy, which adds in another order.
    expect
        ``"fused"`` if kernels must have run without a fallback, ``"unfused"`` if
        there must be no group, ``"fallback"`` if there must be groups and no kernel
        ran. None does not ask.
    scheduler
        Of Dask.
    **options
        Of the hook.

    Returns
    -------
    Activity
        What happened while kernels ran.
    """
    inputs = tuple(_frozen(item) for item in inputs)
    copies = [array.copy() for array, _ in inputs]
    sources = [
        da.from_array(array, chunks=chunks, name=f"input-{number:032x}")
        for number, (array, chunks) in enumerate(inputs)
    ]
    with dask_diffuse.disable():
        expected = _Run.of(build, sources, scheduler)
    with fused(backend="interpreter", **options):
        _compare(_Run.of(build, sources, scheduler), expected, EXACT, "interpreter")
    with fused(**options) as activity:
        actual = _Run.of(build, sources, scheduler)
    _compare(actual, expected, tolerance, "kernels")
    if numpy:
        _compare_numpy(build, [array for array, _ in inputs], expected, numpy_tolerance)
    for (array, _), copy in zip(inputs, copies, strict=True):
        assert_same_value(array, copy, EXACT, "an input was written to")
    _check_activity(activity, expect)
    return activity


def assert_same_value(
    actual: Any, expected: Any, tolerance: Tolerance = EXACT, where: str = ""
) -> None:
    """Compare two arrays or NumPy scalars: type, dtype, shape and values."""
    assert type(actual) is type(expected), (where, type(actual), type(expected))
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert actual == expected, where
        return
    assert actual.dtype == expected.dtype, (where, actual.dtype, expected.dtype)
    assert actual.shape == expected.shape, (where, actual.shape, expected.shape)
    actual, expected = np.asarray(actual), np.asarray(expected)
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(actual, expected, err_msg=where)
    elif expected.dtype.kind == "c":
        _compare_floats(actual.real, expected.real, tolerance, where)
        _compare_floats(actual.imag, expected.imag, tolerance, where)
    else:
        _compare_floats(actual, expected, tolerance, where)


def _compare_floats(
    actual: np.ndarray, expected: np.ndarray, tolerance: Tolerance, where: str
) -> None:
    if tolerance.is_exact:
        np.testing.assert_array_equal(actual, expected, err_msg=where)
        signs = ~np.isnan(expected)
        np.testing.assert_array_equal(
            np.signbit(actual)[signs],
            np.signbit(expected)[signs],
            err_msg=f"{where}: signs of zeros",
        )
        return
    epsilon = tolerance.epsilon or float(np.finfo(expected.dtype).eps)
    np.testing.assert_allclose(
        actual,
        expected,
        rtol=tolerance.rtol * epsilon,
        atol=tolerance.atol * epsilon,
        err_msg=where,
    )


def _frozen(item: Input) -> tuple[np.ndarray, Chunks]:
    array, chunks = item if isinstance(item, tuple) else (item, item.shape)
    # A view, so that the flag of the caller's array stays.
    array = array.view()
    array.flags.writeable = False
    return array, chunks


@dataclass(frozen=True)
class _Run:
    """A program that has been computed and persisted, or what it raised."""

    collections: tuple[da.Array, ...] = ()
    values: tuple[Any, ...] = ()
    blocks: tuple[dict[Any, Any], ...] = ()
    error: Exception | None = None

    @classmethod
    def of(
        cls, build: Callable[..., Any], sources: Sequence[da.Array], scheduler: str
    ) -> _Run:
        try:
            result = build(*sources)
            collections = result if isinstance(result, tuple) else (result,)
            with np.errstate(all="ignore"), dask.config.set(scheduler=scheduler):
                values = dask.compute(*collections)
                persisted = dask.persist(*collections)
        except Exception as error:
            return cls(error=error)
        blocks = tuple(
            {key: array.dask[key] for key in dask.core.flatten(array.__dask_keys__())}
            for array in persisted
        )
        return cls(collections, values, blocks)


def _compare(actual: _Run, expected: _Run, tolerance: Tolerance, way: str) -> None:
    if expected.error is not None:
        # Which of several tasks that fail is the first, is up to the scheduler.
        assert type(actual.error) is type(expected.error), (way, actual.error)
        return
    if actual.error is not None:
        raise AssertionError(f"{way}: raises, and Dask does not") from actual.error
    for mine, theirs in zip(actual.collections, expected.collections, strict=True):
        assert mine.__dask_keys__() == theirs.__dask_keys__(), way
        assert str(mine.chunks) == str(theirs.chunks), way
    for mine, theirs in zip(actual.values, expected.values, strict=True):
        assert_same_value(mine, theirs, tolerance, f"{way}, computed")
    for mine, theirs in zip(actual.blocks, expected.blocks, strict=True):
        assert mine.keys() == theirs.keys(), way
        for key, block in theirs.items():
            where = f"{way}, persisted block {key[1:]} of {key[0]}"
            assert_same_value(_block(mine[key]), _block(block), tolerance, where)


def _block(entry: Any) -> Any:
    return getattr(entry, "value", entry)


def _compare_numpy(
    build: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    run: _Run,
    tolerance: Tolerance,
) -> None:
    if run.error is not None:
        return
    with np.errstate(all="ignore"):
        result = build(*arrays)
    results = result if isinstance(result, tuple) else (result,)
    for actual, expected in zip(run.values, results, strict=True):
        expected = np.asarray(expected)
        assert actual.dtype == expected.dtype, ("NumPy", actual.dtype, expected.dtype)
        assert_same_value(np.asarray(actual), expected, tolerance, "NumPy")


def _check_activity(activity: Activity, expect: str | None) -> None:
    assert not activity.failed, activity
    match expect:
        case "fused":
            assert activity.groups, activity
            assert activity.calls, activity
            assert not set(activity.fallbacks) - {"block-empty"}, activity
        case "unfused":
            assert not activity.groups, activity
        case "fallback":
            assert activity.groups, activity
            assert activity.fallbacks, activity
            assert not activity.calls, activity
        case None:
            pass
        case _:
            raise ValueError(f"expect={expect!r} is not known")
