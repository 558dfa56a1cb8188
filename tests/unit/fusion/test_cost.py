"""What is worth a kernel of its own."""

from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.fusion.cost import (
    is_cheap_constant,
    is_one_number,
    is_slow_in_numpy,
    num_values,
)
from dask_diffuse.ir.task import Partial
from dask_diffuse.kernel.composites import apply_composite, find_composite
from tests.unit.fusion.builders import F8, ProgramBuilder


def task_of(compute, *dtypes):
    builder = ProgramBuilder()
    sources = [
        builder.source(f"x{number}", dtype=np.dtype(dtype))
        for number, dtype in enumerate(dtypes)
    ]
    builder.map("a", compute, *sources)
    return builder.tasks[-1]


@pytest.mark.parametrize(
    ("op", "dtypes", "is_slow"),
    [
        ("add", "dd", False),
        ("multiply", "dd", False),
        ("sqrt", "d", False),
        ("exp", "d", False),
        ("log1p", "d", True),
        ("power", "dd", True),
        ("floor_divide", "qq", True),
        ("where", "?dd", False),
    ],
)
def test_single_ops(op, dtypes, is_slow):
    task = task_of(lambda f, *x: f.apply(op, *x), *dtypes)
    assert is_slow_in_numpy(task) is is_slow


@pytest.mark.parametrize(
    ("function", "args", "is_slow"),
    [
        (np.clip, (0.0, 1.0), False),
        (np.isclose, (0.5,), True),
        (np.nan_to_num, (), True),
        (np.round, (2,), True),
        (np.round, (), False),
    ],
)
def test_functions_that_take_several_passes(function, args, is_slow):
    composite = find_composite(function)
    task = task_of(lambda f, x: apply_composite(composite, f, (x, *args), {}), "d")
    assert is_slow_in_numpy(task) is is_slow


def test_conversion_is_one_pass():
    assert not is_slow_in_numpy(task_of(lambda f, x: f.cast(x, F8), "f"))


@pytest.mark.parametrize(
    ("kind", "source", "dtype", "partial", "is_slow"),
    [
        ("sum", "d", "d", Partial.ARRAY, False),
        ("max", "d", "d", Partial.ARRAY, False),
        ("sum", "d", "d", Partial.MEAN, False),
        # NumPy converts where it adds up in another dtype.
        ("sum", "f", "d", Partial.MEAN, True),
        ("sum", "?", "q", Partial.ARRAY, True),
        ("moments", "d", "d", Partial.MOMENTS, True),
        ("argmax", "d", "d", Partial.ARG, True),
    ],
)
def test_reductions(kind, source, dtype, partial, is_slow):
    builder = ProgramBuilder()
    x = builder.source("x", dtype=np.dtype(source))
    builder.reduce("s", kind, x, dtype=np.dtype(dtype), partial=partial)
    assert is_slow_in_numpy(builder.tasks[-1]) is is_slow


def test_opaque_tasks():
    builder = ProgramBuilder()
    builder.opaque("o", builder.source("x"))
    (task,) = builder.tasks
    assert not is_slow_in_numpy(task)
    assert not is_cheap_constant(task)
    assert num_values(task) == 0


def test_constants():
    assert is_cheap_constant(task_of(lambda f: f.literal(np.float64(1))))
    assert is_cheap_constant(task_of(lambda f: f.index(0)))
    assert not is_cheap_constant(task_of(lambda f: f.apply("sin", f.const(1.0, F8))))
    assert not is_cheap_constant(task_of(lambda f, x: f.apply("negative", x), "d"))


def test_numbers():
    assert is_one_number(task_of(lambda f: f.literal(np.float64(1))))
    assert not is_one_number(task_of(lambda f: f.index(0)))
    assert not is_one_number(task_of(lambda f, x: f.apply("negative", x), "d"))
