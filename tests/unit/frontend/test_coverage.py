"""Which functions of dask.array become kernels, and why the others do not."""

from __future__ import annotations

import inspect

import dask.array as da
import numpy as np
import pytest
from dask.array import ufunc as module

from dask_diffuse.dask_api import Blockwise
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.task import Opaque
from dask_diffuse.ops import DECLINED, OPS
from tests.unit.frontend.checks import body_of, check, program_of, task_of

WRAPPERS = {
    name: value
    for name, value in vars(module).items()
    if isinstance(value, da.ufunc.ufunc)
}

BOOLS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "invert"}
INTEGERS = {"left_shift", "right_shift", "gcd", "lcm"}


def operands(a, name, ufunc):
    if name in INTEGERS:
        return (a.i, a.u)[: ufunc.nin]
    if name in BOOLS:
        return (a.m, a.m)[: ufunc.nin]
    if name == "ldexp":
        return a.y, a.h
    if name == "bitwise_count":
        return (a.u,)
    return (a.p, a.x)[: ufunc.nin]


UFUNCS = {
    name: wrapper._ufunc
    for name, wrapper in WRAPPERS.items()
    if isinstance(wrapper._ufunc, np.ufunc)
}


def test_the_wrappers_of_dask_are_known():
    assert len(UFUNCS) > 70


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_ufunc(a, name):
    ufunc = UFUNCS[name]
    args = operands(a, name, ufunc)
    array = WRAPPERS[name](*args)
    if isinstance(array, tuple):
        array = array[0]
    program = program_of(array)
    (layer,) = (
        layer for layer in array.dask.layers.values() if isinstance(layer, Blockwise)
    )
    body = task_of(program, layer.output).body
    if ufunc.__name__ in DECLINED:
        assert isinstance(body, Opaque)
        assert body.decision.rule is Rule.UNKNOWN_FUNCTION
        assert DECLINED[ufunc.__name__] in body.decision.detail
    else:
        assert ufunc.__name__ in OPS
        check(array, ulp=8)


FUNCTIONS = {
    "angle": lambda a: da.angle(a.z),
    "around": lambda a: da.around(a.x, 1),
    "clip": lambda a: da.clip(a.x, 0, 1),
    "fix": lambda a: da.fix(a.x),
    "imag": lambda a: da.imag(a.z),
    "iscomplex": lambda a: da.iscomplex(a.z),
    "isclose": lambda a: da.isclose(a.x, a.y),
    "isnull": lambda a: da.isnull(a.x),
    "isreal": lambda a: da.isreal(a.z),
    "nan_to_num": lambda a: da.nan_to_num(a.x),
    "notnull": lambda a: da.notnull(a.x),
    "outer": lambda a: da.outer(a.v, a.w),
    "real": lambda a: da.real(a.z),
    "round": lambda a: da.round(a.x, 1),
    "select": lambda a: da.select([a.m], [a.x], 1.0),
    "sinc": lambda a: da.sinc(a.y),
    "transpose": lambda a: da.transpose(a.x),
    "where": lambda a: da.where(a.m, a.x, 1),
    "ones": lambda a: da.ones(9, chunks=3),
    "ones_like": lambda a: da.ones_like(a.x),
    "zeros": lambda a: da.zeros(9, chunks=3),
    "zeros_like": lambda a: da.zeros_like(a.x),
    "full": lambda a: da.full(9, 2, chunks=3),
    "full_like": lambda a: da.full_like(a.x, 2),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_function(a, name):
    array = FUNCTIONS[name](a)
    assert not isinstance(body_of(array), Opaque)
    check(array, ulp=8)


def test_the_methods_of_arrays(a):
    check(
        a.x.clip(0, 1),
        a.x.round(1),
        a.z.conj(),
        a.x.astype("f4"),
        a.z.real,
        a.z.imag,
        a.x.T,
        a.x.swapaxes(0, 1),
        ulp=8,
    )


def operators():
    """Every operator that arrays overload, with a right-hand form if there is one."""
    relics = {"__array_ufunc__", "__div__", "__rdiv__"}
    for name, function in vars(da.Array).items():
        if not name.startswith("__") or not inspect.isfunction(function):
            continue
        if name in relics:
            continue
        source = inspect.getsource(function)
        if "elemwise(" in source:
            yield name


OPERATORS = sorted(operators())


def test_the_operators_of_dask_are_known():
    assert len(OPERATORS) >= 30


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(a, name):
    bitwise = {"and", "or", "xor", "invert", "lshift", "rshift"}
    word = name.strip("_")
    is_bitwise = word in bitwise or word.removeprefix("r") in bitwise
    x, y = (a.u, a.u) if is_bitwise else (a.p, a.y)
    method = getattr(da.Array, name)
    arity = len(inspect.signature(method).parameters)
    array = method(x, y) if arity == 2 else method(x)
    check(array, ulp=8)
