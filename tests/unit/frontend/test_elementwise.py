from __future__ import annotations

import operator

import dask.array as da
import numpy as np
import pytest
import scipy.special
from dask.array.core import elemwise
from dask.utils import partial_by_order
from toolz import compose, curry

from dask_diffuse.dask_api import Blockwise, HighLevelGraph
from dask_diffuse.ir.task import Elementwise
from tests.unit.frontend.checks import (
    body_of,
    check,
    labels_of,
    program_of,
    task_of,
)

OPERATORS = {
    "neg": lambda a: -a.x,
    "abs": lambda a: abs(a.x),
    "abs int": lambda a: abs(a.h),
    "abs complex": lambda a: abs(a.z),
    "invert bool": lambda a: ~a.m,
    "invert int": lambda a: ~a.i,
    "add": lambda a: a.x + a.y,
    "add itself": lambda a: a.x + a.x,
    "add int": lambda a: a.x + 1,
    "radd": lambda a: 1 + a.x,
    "rsub": lambda a: 1 - a.x,
    "rtruediv": lambda a: 1 / a.x,
    "rfloordiv": lambda a: 7 // a.x,
    "rmod": lambda a: 7 % a.x,
    "rpow": lambda a: 2.5**a.x,
    "floordiv": lambda a: a.x // 2,
    "mod": lambda a: a.x % 2,
    "floordiv int": lambda a: a.i // 3,
    "mod int": lambda a: a.i % 3,
    "floordiv zero": lambda a: a.i // a.i,
    "truediv int": lambda a: a.i / a.h,
    "pow 2": lambda a: a.x**2,
    "pow 3": lambda a: a.x**3,
    "pow half": lambda a: a.x**0.5,
    "pow minus one": lambda a: a.x**-1,
    "pow minus one float": lambda a: a.x**-1.0,
    "pow zero": lambda a: a.x**0,
    "pow int": lambda a: a.i**3,
    "pow small int": lambda a: a.h**2,
    "pow array": lambda a: a.p**a.x,
    "gt": lambda a: a.x > 3,
    "rgt": lambda a: a.x < 3,
    "eq": lambda a: a.x == a.y,
    "ne": lambda a: a.x != 0,
    "le signs": lambda a: a.i <= a.u,
    "and": lambda a: a.m & (a.x > 1),
    "or": lambda a: a.m | (a.x > 1),
    "xor": lambda a: a.m ^ (a.x > 1),
    "and int": lambda a: a.i & 3,
    "lshift": lambda a: a.i << 2,
    "rshift": lambda a: a.u >> a.u,
    "bool add": lambda a: a.m + a.m,
    "bool mul": lambda a: a.m * 2,
    "mixed": lambda a: a.h + a.u,
    "complex": lambda a: a.z * (1 + 2j) - a.x,
    "divmod": lambda a: np.divmod(a.x, 2)[1],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(a, name):
    check(OPERATORS[name](a), ulp=8 if "pow" in name or "complex" in name else 0)


LITERALS = {
    "weak float": lambda a: a.f * 2.5,
    "weak int": lambda a: a.f * 2,
    "weak bool": lambda a: a.i + True,
    "weak complex": lambda a: a.f * 2j,
    "weak int to small": lambda a: a.u + 3,
    "strong float": lambda a: a.f * np.float64(2.5),
    "strong same": lambda a: a.f * np.float32(2.5),
    "strong array": lambda a: a.f * np.array(2.5),
    "strong int": lambda a: a.u + np.int64(3),
    "negative zero": lambda a: a.x * -0.0,
    "nan": lambda a: da.maximum(a.x, np.nan),
    "0-d operand": lambda a: a.f + a.s,
    "0-d of a reduction": lambda a: a.f - a.f.sum(),
    "0-d int": lambda a: a.u + da.from_array(np.array(3)),
}


@pytest.mark.parametrize("name", LITERALS)
def test_literal(a, name):
    array = LITERALS[name](a)
    check(array)
    body = body_of(array)
    assert body.function.dtypes == (array.dtype,)


def test_literals_are_scalars_not_part_of_the_function(a):
    one = task_of(program_of(a.x * 2.0), (a.x * 2.0).name)
    two = task_of(program_of(a.x * 3.0), (a.x * 3.0).name)
    assert one.body.function == two.body.function
    assert one.scalars == (np.float64(2.0),)
    assert two.scalars == (np.float64(3.0),)


def test_signed_zeros_are_two_literals(a):
    program = program_of(da.clip(a.x, 0.0, 1.0), da.clip(a.x, -0.0, 1.0))
    zeros = [t.scalars[0] for t in program.tasks if t.scalars]
    assert sorted(np.signbit(zeros)) == [False, True]


FUNCTIONS = {
    "where": lambda a: da.where(a.m, a.x, a.y),
    "where weak": lambda a: da.where(a.m, a.f, 0),
    "where weak float": lambda a: da.where(a.m, a.f, 0.1),
    "where number": lambda a: da.where(a.x, a.i, a.f),
    "where setitem": lambda a: setitem(a.x, a.x > 1, 0),
    "clip": lambda a: da.clip(a.x, -1, 1),
    "clip method": lambda a: a.x.clip(None, 1),
    "clip low": lambda a: a.x.clip(-1),
    "clip numpy": lambda a: np.clip(a.x, -1, 1),
    "clip arrays": lambda a: da.clip(a.x, a.y, a.p),
    "clip int": lambda a: da.clip(a.u, -5, 300),
    "round": lambda a: da.round(a.x, 2),
    "around": lambda a: da.around(a.x),
    "around negative": lambda a: da.around(a.i, -1),
    "isclose": lambda a: da.isclose(a.x, a.y, rtol=0.5),
    "isclose nan": lambda a: da.isclose(a.x, a.x, equal_nan=True),
    "nan_to_num": lambda a: da.nan_to_num(a.x),
    "nan_to_num values": lambda a: a.x.map_blocks(np.nan_to_num, nan=3, posinf=4.0),
    "angle": lambda a: da.angle(a.z),
    "angle degrees": lambda a: da.angle(a.z, deg=True),
    "angle real": lambda a: da.angle(a.x),
    "real": lambda a: a.z.real,
    "imag": lambda a: a.z.imag,
    "real of real": lambda a: da.real(a.x),
    "conj": lambda a: da.conj(a.z),
    "isreal": lambda a: da.isreal(a.z),
    "iscomplex": lambda a: da.iscomplex(a.z),
    "fix": lambda a: da.fix(a.x),
    "sinc": lambda a: da.sinc(a.y),
    "select": lambda a: da.select([a.m, a.x > 1], [a.x, a.y], 7),
    "logical": lambda a: da.logical_and(a.m, a.x > 2),
    "isnull": lambda a: da.isnull(a.x),
    "notnull": lambda a: da.notnull(a.x),
}


def setitem(x, mask, value):
    x = x.copy()
    x[mask] = value
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(a, name):
    array = FUNCTIONS[name](a)
    check(array, ulp=4)
    assert body_of(array).function.dtypes == (array.dtype,)


CASTS = {
    "narrow": lambda a: a.x.astype("f4"),
    "wide": lambda a: a.f.astype("f8"),
    "to complex": lambda a: a.x.astype("c16"),
    "to bool": lambda a: a.x.astype(bool),
    "to int": lambda a: a.y.astype("i4"),
    "same kind": lambda a: a.x.astype("f4", casting="same_kind"),
    "no copy": lambda a: a.i.astype("i2", copy=False),
    "dtype of a ufunc": lambda a: np.add(a.x, a.y, dtype="f4"),
    "dtype of an int ufunc": lambda a: np.multiply(a.i, 3, dtype="f8"),
}


@pytest.mark.parametrize("name", CASTS)
def test_cast(a, name):
    check(CASTS[name](a))


BLOCK_FUNCTIONS = {
    "map_blocks ufunc": lambda a: a.x.map_blocks(np.sin),
    "map_blocks operator": lambda a: da.map_blocks(operator.add, a.x, a.y),
    "map_blocks broadcast": lambda a: da.map_blocks(np.add, a.x, a.v, dtype="f8"),
    "elemwise": lambda a: elemwise(np.add, a.x, 1),
    "elemwise dtype": lambda a: elemwise(np.add, a.x, 1, dtype="f4"),
    "blockwise": lambda a: da.blockwise(np.add, "ij", a.x, "ij", a.v, "j", dtype="f8"),
    "compose": lambda a: a.x.map_blocks(compose(np.sqrt, np.abs), dtype="f8"),
    "curry": lambda a: a.x.map_blocks(curry(np.add, 1.0), dtype="f8"),
    "partial_by_order": lambda a: a.x.map_blocks(
        partial_by_order, function=np.subtract, other=[(0, 1.0)], dtype="f8"
    ),
    "erf": lambda a: a.x.map_blocks(scipy.special.erf),
    "ufunc of an array": lambda a: scipy.special.expit(a.y),
    "outer": lambda a: np.add.outer(a.w, a.v),
    "da outer": lambda a: da.outer(a.w, a.v),
    "wrong claim": lambda a: a.x.map_blocks(np.cos, dtype="f4"),
}


@pytest.mark.parametrize("name", BLOCK_FUNCTIONS)
def test_block_function(a, name):
    check(BLOCK_FUNCTIONS[name](a), ulp=4)


def test_the_dtype_is_what_numpy_makes_not_what_was_claimed(a):
    claimed = a.x.map_blocks(np.cos, dtype="f4")
    assert claimed.dtype == "f4"
    assert body_of(claimed).function.dtypes == (np.dtype("f8"),)


WHERE_OUT = {
    "where": lambda a: np.add(a.x, a.y, where=a.m, out=da.zeros_like(a.x)),
    "where casts": lambda a: np.add(
        a.f, a.f, where=a.m, out=da.zeros_like(a.x, dtype="f8")
    ),
    "where itself": lambda a: np.divide(a.x, a.y, where=a.y > 0, out=a.p.copy()),
    "out": lambda a: da.add(a.x, a.y, out=da.zeros_like(a.x)),
    "where 0-d": lambda a: np.add(a.x, a.s, where=a.m, out=da.zeros_like(a.x)),
}


@pytest.mark.parametrize("name", WHERE_OUT)
def test_where_and_out(a, name):
    array = WHERE_OUT[name](a)
    check(array)


BROADCAST = {
    "row": lambda a: a.x + a.v,
    "one row": lambda a: a.x * a.r,
    "one column": lambda a: a.x * a.c,
    "row and column": lambda a: a.r + a.c,
    "column by row of 1-d": lambda a: a.w[:, None] * a.v,
    "0-d": lambda a: a.s + a.s,
    "0-d first": lambda a: a.s - a.x,
    "both ranks": lambda a: a.cube + a.cube.sum(axis=0),
    "other chunks of a row": lambda a: a.x + a.v.rechunk(2),
    "keepdims": lambda a: a.x - a.x.max(axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", BROADCAST)
def test_broadcast(a, name):
    array = BROADCAST[name](a)
    program = check(array)
    assert program.stores[array.name].shape == array.shape


TRANSPOSES = {
    "T": lambda a: a.x.T,
    "T and add": lambda a: a.x.T + a.t,
    "three axes": lambda a: da.transpose(a.cube, (2, 0, 1)),
    "swapaxes": lambda a: a.cube.swapaxes(0, 2) * 2,
    "moveaxis": lambda a: da.moveaxis(a.cube, 0, -1) * 2,
    "negative axes": lambda a: a.cube.transpose((-1, 0, 1)),
}


@pytest.mark.parametrize("name", TRANSPOSES)
def test_transpose(a, name):
    array = TRANSPOSES[name](a)
    program = check(array)
    assert program.stores[array.name].shape == array.shape


CREATION = {
    "ones": lambda a: da.ones((7, 9), chunks=(3, 4)),
    "zeros": lambda a: da.zeros((7, 9), chunks=(3, 4), dtype="i2"),
    "full": lambda a: da.full((7, 9), 3, chunks=(3, 4)),
    "full float": lambda a: da.full((7,), 2.7, chunks=3, dtype="i4"),
    "full bool": lambda a: da.full((7,), True, chunks=3),
    "full complex": lambda a: da.full((7,), 1j, chunks=3),
    "ones_like": lambda a: da.ones_like(a.x),
    "zeros_like": lambda a: da.zeros_like(a.f),
    "full_like": lambda a: da.full_like(a.x, 2),
    "0-d": lambda a: da.ones((), chunks=()),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(a, name):
    array = CREATION[name](a)
    program = check(array)
    task = task_of(program, array.name)
    assert task.reads == ()
    assert task.launch == array.numblocks
    assert program.stores[array.name].shape == array.shape
    check(array + 1, da.maximum(array, 2), expect=None)


def test_values_that_fill_are_literals():
    one, two = da.full(9, 2.5, chunks=3), da.full(9, 3.5, chunks=3)
    assert body_of(one).function == body_of(two).function


def test_one_store_read_twice_is_one_operand(a):
    task = task_of(program_of(a.x * a.x), (a.x * a.x).name)
    assert len(task.reads) == 1
    assert task.body.operands == ((0, 1),)


def test_a_read_follows_the_partition_of_the_write(a):
    y = a.x + 1
    program = program_of(y * y.sum(axis=0))
    add, mul = task_of(program, y.name), program.tasks[-1]
    assert add.writes[0].partition is mul.reads[0].partition
    assert add.space is mul.space
    assert mul.reads[1].partition.axes == (1,)


def test_dtypes_are_right_without_annotations(a):
    y = (a.x.astype("f4") * 2 > 1) & a.m
    for layer in y.dask.layers.values():
        if isinstance(layer, Blockwise):
            layer.collection_annotations = None
    check(y)


def test_annotations_of_the_layer_are_those_of_the_task(a):
    import dask

    with dask.annotate(priority=3, retries=2):
        y = a.x + 1
    task = task_of(program_of(y), y.name)
    assert task.annotations == (("priority", 3), ("retries", 2))


def test_all_layers_of_a_program_are_elementwise(a):
    y = (a.x + 1) * 2 - a.y
    program = program_of(y)
    assert labels_of(program, Elementwise) == ["add", "mul", "sub"]
    assert isinstance(y.dask, HighLevelGraph)
