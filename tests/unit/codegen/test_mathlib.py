from __future__ import annotations

import ctypes
import dataclasses
import math

import numpy as np
import pytest

from dask_diffuse.codegen.llvm import compile_source, render_kernel
from dask_diffuse.codegen.mathlib import MATH_FUNCTIONS, symbol_address
from dask_diffuse.codegen.strip import strip_layout
from dask_diffuse.codegen.target import Target, host_target
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel
from dask_diffuse.ops import OPS
from dask_diffuse.runtime.engine import link

HOST = host_target()
NARROW = {"has_avx512": False}
TARGETS: dict[str, Target] = {
    "widest": HOST,
    "avx2": dataclasses.replace(HOST, vector_bytes=32, **NARROW),
    "avx": dataclasses.replace(HOST, vector_bytes=32, has_avx2=False, **NARROW),
    "sse2": dataclasses.replace(
        HOST, vector_bytes=16, has_avx=False, has_avx2=False, **NARROW
    ),
}
NEEDS = {"widest": True, "avx2": HOST.has_avx2, "avx": HOST.has_avx, "sse2": True}
DTYPES = [np.dtype("float64"), np.dtype("float32")]
LONG = np.longdouble


def run(op, target, arrays, *, exact=False, mixed=False):
    """Compile one op, and run it on arrays whose length is that of some vectors."""
    dtype = arrays[0].dtype
    builder = FunctionBuilder()
    inputs = [builder.input(i, dtype) for i in range(len(arrays))]
    value = builder.core(op, *inputs)
    if mixed:
        # Something wider, so that a vector of this dtype is not a whole register.
        other = builder.cast(value, np.dtype("float64"))
        value = builder.cast(builder.core("negative", other), dtype)
    kernel = Kernel(
        op,
        1,
        (ArrayParam(dtype, (0,)),) * len(arrays),
        (),
        builder.build([value]),
        (Assign(value.position, (0,)),),
    )
    layout = strip_layout(kernel, target.vector_bytes)
    source = render_kernel(kernel, layout, target, exact_math=exact)
    code = link(source, compile_source(source, target))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    strip = prototype(code.functions["strip"])
    length = -(-arrays[0].size // layout.lanes) * layout.lanes
    buffers = [np.ones(length, dtype) for _ in range(len(arrays) + 1)]
    for buffer, array in zip(buffers, arrays, strict=False):
        buffer[: array.size] = array
    words = [word for buffer in buffers for word in (buffer.ctypes.data, -1)]
    table = np.array(words, np.int64)
    strip(table.ctypes.data, None, length)
    result = buffers[-1][: arrays[0].size].copy()
    return (-result if mixed else result), source.symbols


def special_values(dtype: np.dtype) -> np.ndarray:
    info = np.finfo(dtype)
    tiny = (info.tiny, info.smallest_subnormal, info.tiny / 4, info.eps, info.max)
    positive = [
        *(0.0, 0.5, 1, 1.5, 2, 2.5, 3, 6, 10, 26.5, 27, 100, 1e4, 1e10, 1e15, 1e16),
        *(1e30, 0.1, 1e-5, 1e-8, 1e-20, math.pi, math.pi / 2, 0.84375, math.inf),
        *(709.5, 710, 745, 746, 708.5, 88.5, 89, 87.5, 103.5, 104),
        *(1023.5, 1024, 1074, 1075, 1022.5, 127.5, 128, 149, 150, 126.5),
        *(2.0**24, 2.0**52, 2.0**53, 1 + float(info.eps), 1 - float(info.eps) / 2),
        *map(float, tiny),
    ]
    values = np.array([*positive, *(-x for x in positive), math.nan])
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def random_values(op: str, dtype: np.dtype) -> np.ndarray:
    rng = np.random.default_rng(0)
    largest = 700 if dtype.itemsize == 8 else 80
    values = [
        *(rng.uniform(-1, 1, 4000), rng.uniform(-20, 20, 4000)),
        rng.uniform(-largest, largest, 4000),
        np.exp(rng.uniform(-largest, largest, 4000)) * rng.choice([-1, 1], 4000),
    ]
    return np.concatenate(values).astype(dtype)


def reference(op: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        if op in ("erf", "erfc"):
            function = getattr(math, op)
            exact = np.array([function(x) for x in arrays[0].tolist()])
            return exact.astype(arrays[0].dtype)
        return np.asarray(getattr(np, op)(*arrays))


def assert_within(result: np.ndarray, expected: np.ndarray, ulp: float) -> None:
    __tracebackhide__ = True
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(result), finite)
    np.testing.assert_array_equal(result[~finite], expected[~finite])
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(expected[zero]))
    one = np.spacing(np.abs(expected[finite])).astype(LONG)
    apart = np.abs(result[finite].astype(LONG) - expected[finite].astype(LONG)) / one
    assert apart.max(initial=0) <= ulp


OPS_OF_MATH = sorted({*MATH_FUNCTIONS, "nextafter"})


def test_every_core_op_of_the_library_has_a_function():
    exact = {"fmod"}
    libm = {name for name, op in OPS.items() if op.ulp and "f" in op.core}
    assert libm | exact == set(MATH_FUNCTIONS)
    for name in MATH_FUNCTIONS.values():
        assert symbol_address(name), name
        assert symbol_address(name + "f"), name


def test_unknown_symbols_have_no_address():
    assert symbol_address("no_such_function") == 0
    assert symbol_address("_ZGVbN2v_no_such_function") == 0


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS_OF_MATH)
def test_special_and_random_values(op, dtype, name):
    if not NEEDS[name]:
        pytest.skip("the processor of this machine does not have it")
    special = special_values(dtype)
    if OPS[op].arity == 2:
        pairs = [np.ravel(grid) for grid in np.meshgrid(special, special)]
        random = random_values(op, dtype)
        other = np.random.default_rng(1).permutation(random)
        cases = [pairs, [random, other]]
    else:
        cases = [[special], [random_values(op, dtype)]]
    for arrays in cases:
        result, _ = run(op, TARGETS[name], arrays)
        # NumPy itself is up to 4 ulp away from the exact value in float32.
        ulp = 0 if OPS[op].ulp == 0 else 4 if dtype.itemsize == 8 else 6
        assert_within(result, reference(op, *arrays), ulp)


@pytest.mark.parametrize("op", sorted(MATH_FUNCTIONS))
def test_scalar_library(op):
    special = special_values(DTYPES[0])
    arrays = [special] * OPS[op].arity
    result, symbols = run(op, HOST, arrays, exact=True)
    assert symbols == (MATH_FUNCTIONS[op],)
    assert_within(result, reference(op, *arrays), 4 if OPS[op].ulp else 0)


@pytest.mark.parametrize("name", ["widest", "avx2", "sse2"])
def test_vectors_that_are_no_whole_register(name):
    if not NEEDS[name]:
        pytest.skip("the processor of this machine does not have it")
    x = random_values("exp", np.dtype("float32"))
    result, _ = run("exp", TARGETS[name], [x], mixed=True)
    assert_within(result, np.exp(x), 6)


@pytest.mark.skipif(
    not symbol_address("_ZGVbN2v_exp"), reason="glibc has no vector library here"
)
@pytest.mark.parametrize(
    ("name", "dtype", "symbol"),
    [
        ("avx2", "float64", "_ZGVdN4v_exp"),
        ("avx2", "float32", "_ZGVdN8v_expf"),
        ("avx", "float64", "_ZGVcN4v_exp"),
        ("sse2", "float64", "_ZGVbN2v_exp"),
        ("sse2", "float32", "_ZGVbN4v_expf"),
    ],
)
def test_names_of_vector_functions(name, dtype, symbol):
    if not NEEDS[name]:
        pytest.skip("the processor of this machine does not have it")
    _, symbols = run("exp", TARGETS[name], [np.ones(64, dtype)])
    assert symbols == (symbol,)
