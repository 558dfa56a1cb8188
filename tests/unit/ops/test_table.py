from __future__ import annotations

import operator
import subprocess
import sys

import numpy as np
import pytest
import scipy.special

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ops import DECLINED, OPS, Cost, find_declined, find_op

UFUNCS = {
    function.__name__: function
    for function in vars(np).values()
    if isinstance(function, np.ufunc)
}


def test_there_are_ufuncs():
    assert len(UFUNCS) > 80


@pytest.mark.parametrize("name", UFUNCS)
def test_every_ufunc_has_a_row_or_a_reason(name: str):
    ufunc = UFUNCS[name]
    row, reason = find_op(ufunc), find_declined(ufunc)
    assert (row is None) != (reason is None)
    if row is not None:
        assert row.name == name
        assert row.arity == ufunc.nin
        assert ufunc.nout == 1


def test_no_name_is_both():
    assert not set(OPS) & set(DECLINED)


@pytest.mark.parametrize("name", OPS)
def test_rows(name: str):
    row = OPS[name]
    assert row.name == name
    assert set(row.core) <= set("biufc")
    assert row.is_core == bool(row.core)
    # What only legalization makes is for targets.
    assert row.typing is not None or row.is_core
    assert repr(row) == f"<ScalarOp {name}>"
    if row.ulp:
        assert row.cost is Cost.LIBM


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (operator.add, "add"),
        (operator.iadd, "add"),
        (operator.truediv, "divide"),
        (operator.floordiv, "floor_divide"),
        (operator.mod, "remainder"),
        (operator.pow, "power"),
        (operator.neg, "negative"),
        (operator.abs, "absolute"),
        (abs, "absolute"),
        (operator.invert, "invert"),
        (operator.and_, "bitwise_and"),
        (operator.lshift, "left_shift"),
        (operator.le, "less_equal"),
        (np.true_divide, "divide"),
        (np.mod, "remainder"),
        (np.abs, "absolute"),
        (np.acos, "arccos"),
        (scipy.special.erf, "erf"),
        (scipy.special.expit, "expit"),
    ],
)
def test_functions_that_mean_a_row(function: object, name: str):
    row = find_op(function)  # type: ignore[arg-type]
    assert row is not None
    assert row.name == name


def exp(x: np.ndarray) -> np.ndarray:
    return x


@pytest.mark.parametrize(
    "function",
    [exp, print, scipy.special.gamma, np.frompyfunc(exp, 1, 1), [], np.sum, max],
    ids=["namesake", "print", "gamma", "frompyfunc", "list", "sum", "max"],
)
def test_functions_that_mean_none(function: object):
    assert find_op(function) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (divmod, "'divmod' has two results"),
        (np.modf, "'modf' has two results"),
        (operator.matmul, "'matmul' is not element-wise"),
        (np.add, None),
        (print, None),
        ([], None),
    ],
)
def test_declined(function: object, reason: str | None):
    assert find_declined(function) == reason  # type: ignore[arg-type]


def test_scipy_is_not_imported():
    code = (
        "import sys, numpy, dask_diffuse.ops as ops; ops.find_op(numpy.add);"
        "ops.OPS['erf'].evaluate(numpy.ones(2)); print('scipy' in sys.modules)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr", "expit"])
def test_functions_of_scipy_without_it(name: str, monkeypatch: pytest.MonkeyPatch):
    x = np.array([[-800.0, -3.0, -0.5], [0.0, 0.75, 40.0]])
    expected = getattr(scipy.special, name)(x)
    monkeypatch.delitem(sys.modules, "scipy.special")
    actual = OPS[name].evaluate(x)
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-320)
    assert actual.shape == x.shape


def test_complex_math_is_left_to_numpy():
    for name in ("exp", "sin", "sqrt", "power", "log1p"):
        row = OPS[name]
        assert row.typing is not None
        with pytest.raises(UnsupportedError, match="complex"):
            row.typing((np.dtype("c8"),) * row.arity)
