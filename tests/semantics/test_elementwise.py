"""Every row of the op table, on special values of every dtype, against NumPy.

The interpreter runs the function as built (that is what NumPy computes) and legalized
(that is what targets compute).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.kernel.interpret import evaluate
from dask_diffuse.kernel.legalize import legalize, legalize_function
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel
from dask_diffuse.kernel.simplify import simplify, simplify_function
from dask_diffuse.kernel.verify import verify_kernel
from dask_diffuse.ops import OPS, SUPPORTED, ScalarOp
from tests.semantics.special import (
    assert_close,
    assert_identical,
    grids,
    special_values,
)

pytestmark = pytest.mark.filterwarnings("ignore")

TABLE = [op for op in OPS.values() if op.typing is not None]
LITERALS = (True, 2, -3, 0, 2.5, -0.0, np.float32(0.1), np.int8(-5), 1.5 - 2j)


def name_of(op: ScalarOp) -> str:
    return op.name


def numpy_function(op: ScalarOp) -> Any:
    function = getattr(np, op.name, None)
    return getattr(scipy.special, op.name) if function is None else function


def function_of(op: ScalarOp, *dtypes: np.dtype) -> ScalarFunction | None:
    """The row applied to inputs; None if it has no loop for them."""
    builder = FunctionBuilder()
    inputs = [builder.input(i, dtype) for i, dtype in enumerate(dtypes)]
    try:
        return builder.build([builder.apply(op.name, *inputs)])
    except UnsupportedError:
        return None


def combinations(op: ScalarOp) -> Iterator[tuple[np.dtype, ...]]:
    if op.name == "where":
        yield from itertools.product([np.dtype(bool)], SUPPORTED, SUPPORTED)
    else:
        yield from itertools.product(SUPPORTED, repeat=op.arity)


def is_ambiguous(op: ScalarOp, loop: np.dtype) -> bool:
    """Whether NumPy's answer depends on where in the array the element is.

    Its vector loops of fmax and fmin take one of two zeros, its scalar ones the other.
    """
    return op.name in ("fmax", "fmin") and loop.kind == "f"


def scale_of(op: ScalarOp, operands: list[np.ndarray]) -> np.ndarray | None:
    """What the error is relative to, where it is not the result.

    That is the largest product in a complex multiplication, and the larger operand of
    logaddexp, whose sum may cancel. SciPy rounds the square in ``exp(-x * x)``, which
    takes as many bits from the tails of erfc and ndtr as the square has.
    """
    if op.name in ("erfc", "ndtr"):
        x = np.fmin(np.abs(operands[0]), 40)
        return np.abs(numpy_function(op)(operands[0])) * (1 + x * x)
    if op.name in ("logaddexp", "logaddexp2"):
        return np.fmax(1, np.max(np.abs(operands), axis=0))
    if op.name not in ("multiply", "square") or operands[0].dtype.kind != "c":
        return None
    x, y = operands[0], operands[-1]
    products = [a * b for a in (x.real, x.imag) for b in (y.real, y.imag)]
    return np.max(np.abs(products), axis=0)


def converted(function: ScalarFunction, operands: list[np.ndarray]) -> list[np.ndarray]:
    """Operands in the dtypes of the loop."""
    last = function.instructions[function.results[0]]
    wanted = [function.instructions[i].dtype for i in last.args]
    return [x.astype(d) for x, d in zip(operands, wanted, strict=True)]


@pytest.mark.parametrize("op", TABLE, ids=name_of)
def test_built_functions_are_numpy(op: ScalarOp):
    checked = 0
    for dtypes in combinations(op):
        function = function_of(op, *dtypes)
        if function is None:
            continue
        operands = grids(*dtypes) if op.arity < 3 else few(*dtypes)
        expected = numpy_function(op)(*operands)
        actual = evaluate(function, operands)[0]
        assert function.dtypes == (expected.dtype,)
        what = f"{op.name} of {dtypes}"
        assert_identical(actual, expected, operands, what)
        checked += 1
    assert checked


def few(*dtypes: np.dtype) -> list[np.ndarray]:
    """Some combinations of special values."""
    random = np.random.default_rng(7)
    return [random.choice(special_values(dtype), 500) for dtype in dtypes]


@pytest.mark.parametrize("op", TABLE, ids=name_of)
def test_legalized_functions_are_numpy(op: ScalarOp):
    checked = 0
    for dtypes in combinations(op):
        function = function_of(op, *dtypes)
        if function is None:
            continue
        operands = grids(*dtypes) if op.arity < 3 else few(*dtypes)
        expected = evaluate(function, operands)[0]
        legal = legalize_function(function)
        in_loop = converted(function, operands)
        actual = evaluate(legal, operands)[0]
        check_legalized(op, actual, expected, in_loop)
        simpler = evaluate(simplify_function(legal), operands)[0]
        assert_identical(simpler, actual, operands, f"simplified {op.name}")
        checked += 1
    assert checked


def check_legalized(
    op: ScalarOp, actual: np.ndarray, expected: np.ndarray, operands: list[np.ndarray]
) -> None:
    loop = operands[0].dtype
    what = f"{op.name} of {[o.dtype.name for o in operands]}"
    if is_ambiguous(op, loop):
        np.testing.assert_array_equal(np.broadcast_to(actual, expected.shape), expected)
        return
    ulp = op.complex_ulp if loop.kind == "c" else op.ulp
    scale = scale_of(op, operands) if ulp else None
    if loop.kind == "c" and scale is not None:
        # Products that overflow cancel to NaN unless they are fused with the addition.
        finite = np.isfinite(scale)
        actual, expected, scale = actual[finite], expected[finite], scale[finite]
        operands = [o[finite] for o in operands]
    assert_close(actual, expected, operands, what, ulp=ulp, scale=scale)


@pytest.mark.parametrize("op", TABLE, ids=name_of)
def test_legalized_functions_are_core(op: ScalarOp):
    for dtypes in combinations(op):
        function = function_of(op, *dtypes)
        if function is None:
            continue
        params = tuple(ArrayParam(dtype, (0,)) for dtype in dtypes)
        write = Assign(function.results[0], (0,))
        kernel = Kernel(op.name, 1, params, (), function, (write,))
        verify_kernel(kernel)
        legal = legalize(kernel)
        verify_kernel(legal, core=True)
        verify_kernel(simplify(legal), core=True)


@pytest.mark.parametrize("op", [op for op in TABLE if op.arity == 2], ids=name_of)
@pytest.mark.parametrize("literal", LITERALS, ids=repr)
@pytest.mark.parametrize("first", [True, False], ids=["x-literal", "literal-x"])
def test_literals(op: ScalarOp, literal: Any, first: bool):
    for dtype in SUPPORTED:
        builder = FunctionBuilder()
        x = builder.input(0, dtype)
        value = builder.literal(literal)
        try:
            result = builder.apply(op.name, *((x, value) if first else (value, x)))
        except UnsupportedError:
            continue
        function = builder.build([result])
        values = special_values(dtype)
        operands = [values, literal] if first else [literal, values]
        # NumPy has the power of complex numbers twice, and they differ in zeros.
        named = operator.pow if op.name == "power" else numpy_function(op)
        expected = named(*operands)
        actual = evaluate(function, [values], builder.scalars)[0]
        assert function.dtypes == (expected.dtype,), (op, dtype, literal)
        what = f"{op.name} of {dtype} and {literal!r}"
        if is_ambiguous(op, expected.dtype):
            np.testing.assert_array_equal(actual, expected)
            continue
        # NumPy has other loops for one operand, which differ in the last place.
        ulp = op.complex_ulp if expected.dtype.kind == "c" else op.ulp
        operands = [np.full(len(values), x, expected.dtype) for x in operands]
        scale = scale_of(op, operands) if ulp else None
        assert_close(actual, expected, [values], what, ulp=ulp, scale=scale)


@pytest.mark.parametrize("op", TABLE, ids=name_of)
def test_what_has_no_function_is_left_for_a_reason(op: ScalarOp):
    """NumPy has no loop, or one of half precision, or the row says why not."""
    function = numpy_function(op)
    if not isinstance(function, np.ufunc) or not hasattr(np, op.name):
        return
    for dtypes in combinations(op):
        builder = FunctionBuilder()
        inputs = [builder.input(i, dtype) for i, dtype in enumerate(dtypes)]
        try:
            builder.apply(op.name, *inputs)
        except UnsupportedError as error:
            reason = error
        else:
            continue
        try:
            loop = function.resolve_dtypes((*dtypes, None))
        except TypeError:
            continue
        complex_or_power = loop[0].kind == "c" or op.name == "power"
        assert np.dtype(np.float16) in loop or complex_or_power, str(reason)
