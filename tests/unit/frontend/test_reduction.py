from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.task import Partial, Reduction
from tests.unit.frontend.checks import (
    check,
    labels_of,
    program_of,
    refusal_of,
    task_of,
)


def step_of(array: da.Array):
    """The only chunk step of a program."""
    program = program_of(array)
    (step,) = (t for t in program.tasks if isinstance(t.body, Reduction))
    return step


def checked_step(array: da.Array, ulp: int = 8):
    step = step_of(array)
    others = set(labels_of(program_of(array), object)) - {step.origin.label}
    assert others
    done = [
        task.origin.label
        for task in program_of(array).tasks
        if not hasattr(task.body, "decision")
    ]
    check(array, ulp=ulp, expect=done)
    return step


ARRAY = {
    "sum": ("sum", "f8", lambda a: a.y.sum()),
    "sum axis": ("sum", "f8", lambda a: a.y.sum(axis=0)),
    "sum last axis": ("sum", "f8", lambda a: a.y.sum(axis=-1)),
    "sum keepdims": ("sum", "f8", lambda a: a.y.sum(axis=1, keepdims=True)),
    "sum middle": ("sum", "f8", lambda a: a.cube.sum(axis=1)),
    "sum outer axes": ("sum", "f8", lambda a: a.cube.sum(axis=(0, 2))),
    "sum of f4": ("sum", "f4", lambda a: a.f.sum()),
    "sum of f4 as f8": ("sum", "f8", lambda a: a.f.sum(dtype="f8")),
    "sum as f4": ("sum", "f4", lambda a: a.y.sum(dtype="f4")),
    "sum of bool": ("sum", "i8", lambda a: a.m.sum()),
    "sum of i2": ("sum", "i8", lambda a: a.h.sum()),
    "sum of u1": ("sum", "u8", lambda a: a.u.sum()),
    "sum of complex": ("sum", "c16", lambda a: a.z.sum()),
    "prod": ("prod", "f8", lambda a: a.y.prod(axis=0)),
    "prod of i2": ("prod", "i8", lambda a: a.h.prod(axis=0)),
    "min": ("min", "f8", lambda a: a.y.min()),
    "max nan": ("max", "f8", lambda a: a.x.max(axis=0)),
    "max of i2": ("max", "i2", lambda a: a.h.max()),
    "min of bool": ("min", "?", lambda a: a.m.min(axis=1)),
    "any": ("any", "?", lambda a: a.m.any()),
    "all": ("all", "?", lambda a: a.m.all(axis=0)),
    "any of floats": ("any", "?", lambda a: a.x.any(axis=1)),
    "nansum": ("sum", "f8", lambda a: da.nansum(a.x, axis=0)),
    "nansum of ints": ("sum", "i8", lambda a: da.nansum(a.h)),
    "nanprod": ("prod", "f8", lambda a: da.nanprod(a.x, axis=1)),
    "nanmin": ("fmin", "f8", lambda a: da.nanmin(a.x)),
    "nanmax": ("fmax", "f8", lambda a: da.nanmax(a.x, axis=1)),
    "nanmax of ints": ("max", "i8", lambda a: da.nanmax(a.i)),
    "count_nonzero": ("sum", "i8", lambda a: da.count_nonzero(a.m)),
    "norm": ("sum", "f8", lambda a: da.linalg.norm(a.y, axis=0)),
    "map_blocks": (
        "sum",
        "f8",
        lambda a: (
            a.y.map_blocks(np.sum, axis=1, keepdims=True, chunks=((3, 3, 1), 1)) + 1
        ),
    ),
}


@pytest.mark.parametrize("name", ARRAY)
def test_array_partial(a, name):
    reduction, dtype, make = ARRAY[name]
    step = checked_step(make(a))
    (statistic,) = step.body.statistics
    assert step.body.partial is Partial.ARRAY
    assert (statistic.reduction, statistic.dtype) == (reduction, np.dtype(dtype))
    assert step.body.partial_dtype == np.dtype(dtype)


MEANS = {
    "mean": (1, "f8", lambda a: a.y.mean()),
    "mean axis": (1, "f8", lambda a: a.y.mean(axis=1)),
    "mean of ints": (1, "f8", lambda a: a.i.mean(axis=0)),
    "mean of f4": (1, "f4", lambda a: a.f.mean()),
    "mean as f4": (1, "f4", lambda a: a.y.mean(dtype="f4")),
    "mean of bools": (1, "f8", lambda a: a.m.mean()),
    "mean of complex": (1, "c16", lambda a: a.z.mean(axis=0)),
    "nanmean": (2, "f8", lambda a: da.nanmean(da.where(a.x < 9, a.x, 0), axis=0)),
    "nanmean of ints": (2, "f8", lambda a: da.nanmean(a.i)),
    "average": (1, "f8", lambda a: da.average(a.y)),
}


@pytest.mark.parametrize("name", MEANS)
def test_mean(a, name):
    number, dtype, make = MEANS[name]
    body = checked_step(make(a)).body
    assert body.partial is Partial.MEAN
    assert body.partial_dtype == np.dtype(dtype)
    assert len(body.statistics) == number
    assert body.statistics[-1].dtype == np.dtype(dtype)


MOMENTS = {
    "var": (1, "f8", lambda a: a.y.var()),
    "std": (1, "f8", lambda a: a.y.std(axis=0)),
    "std of ints": (1, "f8", lambda a: a.h.std()),
    "std of f4": (1, "f4", lambda a: a.f.std(axis=1)),
    "var ddof": (1, "f8", lambda a: a.y.var(axis=0, ddof=1)),
    "nanvar": (2, "f8", lambda a: da.nanvar(a.y)),
    "nanstd": (2, "f8", lambda a: da.nanstd(da.where(a.p > 0.3, a.y, np.nan), axis=0)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(a, name):
    values, dtype, make = MOMENTS[name]
    body = checked_step(make(a), ulp=32).body
    assert body.partial is Partial.MOMENTS
    (statistic,) = body.statistics
    assert statistic.reduction == "moments"
    assert statistic.values == tuple(range(values))
    assert statistic.dtype == np.dtype(dtype)


ARGS = {
    "argmin": ("argmin", (0, 1), lambda a: a.y.argmin()),
    "argmax": ("argmax", (0, 1), lambda a: a.x.argmax()),
    "argmax axis": ("argmax", (0,), lambda a: a.y.argmax(axis=0)),
    "argmin last axis": ("argmin", (1,), lambda a: a.h.argmin(axis=-1)),
    "argmax 1-d": ("argmax", (0,), lambda a: a.v.argmax()),
    "argmax of bools": ("argmax", (1,), lambda a: a.m.argmax(axis=1)),
}


@pytest.mark.parametrize("name", ARGS)
def test_arg_partial(a, name):
    reduction, axes, make = ARGS[name]
    step = checked_step(make(a), ulp=0)
    assert step.body.partial is Partial.ARG
    assert step.body.axes == axes
    assert step.body.statistics[0].reduction == reduction


REFUSED = {
    "complex min": (Rule.UNSUPPORTED_DTYPE, lambda a: a.z.max()),
    "complex var": (Rule.UNSUPPORTED_DTYPE, lambda a: a.z.var()),
    "narrow var": (Rule.UNSUPPORTED_DTYPE, lambda a: a.y.var(dtype="f4")),
    "third moment": (Rule.UNSUPPORTED_ARGUMENT, lambda a: da.moment(a.y, 3)),
    "nanargmax": (Rule.MAY_RAISE, lambda a: da.nanargmax(a.x, axis=0)),
    "topk": (Rule.UNKNOWN_FUNCTION, lambda a: da.topk(a.v, 3)),
    "custom": (
        Rule.UNKNOWN_FUNCTION,
        lambda a: da.reduction(a.y, _first, _first, dtype="f8"),
    ),
    "weights": (
        Rule.UNSUPPORTED_ARGUMENT,
        lambda a: da.reduction(a.y, np.sum, np.sum, weights=a.y, dtype="f8"),
    ),
    "drops axes": (
        Rule.CONTRACTION,
        lambda a: a.y.map_blocks(np.sum, axis=1, drop_axis=1, dtype="f8"),
    ),
    "no axes": (Rule.UNSUPPORTED_ARGUMENT, lambda a: a.s.sum()),
    "no axes to search": (Rule.UNSUPPORTED_ARGUMENT, lambda a: a.s.argmax()),
    "float16": (Rule.UNSUPPORTED_DTYPE, lambda a: a.y.sum(dtype="f2")),
}


def _first(block, axis, keepdims):
    return np.sum(block, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(a, name):
    rule, make = REFUSED[name]
    program = program_of(make(a))
    assert not [t for t in program.tasks if isinstance(t.body, Reduction)]
    assert rule in {decision.rule for decision in program.decisions}


def test_a_chunk_step_without_keepdims_is_refused(a):
    array = a.y.map_blocks(np.sum, axis=1, dtype="f8")
    assert "drops the axes" in refusal_of(array).detail


def test_partial_results_have_one_element_along_reduced_axes(a):
    step = step_of(a.y.sum(axis=0))
    (write,) = step.writes
    assert write.partition.chunks == ((1, 1, 1), (4, 4, 1))
    assert step.space.chunks == a.y.chunks
    assert step.launch == (3, 3)


def test_a_reduction_reads_the_partition_that_was_written(a):
    y = a.y * 2
    program = program_of(y.sum())
    step = step_of(y.sum())
    mul = task_of(program, y.name)
    step = program.tasks[program.readers[y.name][0]]
    assert step.reads[0].partition is mul.writes[0].partition
    assert step.space is mul.space
