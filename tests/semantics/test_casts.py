"""Casts between all dtypes, on special values, against ``ndarray.astype``."""

from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.interpret import evaluate
from dask_diffuse.kernel.legalize import legalize_function
from dask_diffuse.ops import SUPPORTED
from tests.semantics.special import assert_identical, convertible, special_values

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("source", SUPPORTED, ids=str)
@pytest.mark.parametrize("target", SUPPORTED, ids=str)
def test_casts(source: np.dtype, target: np.dtype):
    builder = FunctionBuilder()
    function = builder.build([builder.cast(builder.input(0, source), target)])
    values = convertible(special_values(source), target)
    expected = values.astype(target)
    what = f"{source} to {target}"
    assert_identical(evaluate(function, [values])[0], expected, [values], what)
    legal = legalize_function(function)
    assert_identical(evaluate(legal, [values])[0], expected, [values], what)


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize(
    "target", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"]
)
def test_negative_floats_wrap_around(source: str, target: str):
    # C does not define it; programs rely on what NumPy does on x86 and on ARM with
    # 64-bit integers in between.
    builder = FunctionBuilder()
    x = builder.input(0, np.dtype(source))
    function = legalize_function(builder.build([builder.cast(x, np.dtype(target))]))
    values = np.array([-1.0, -2.75, -100.0], source)
    expected = values.astype(np.int64).astype(target)
    assert_identical(evaluate(function, [values])[0], expected, [values], target)
