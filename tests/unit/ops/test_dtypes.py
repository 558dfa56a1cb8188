from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.special

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ops.dtypes import (
    SUPPORTED,
    canonical,
    float_loop,
    is_supported,
    promote,
    real_dtype,
    select_loop,
    ufunc_loop,
)

LITERALS = {int: 1, float: 1.0, complex: 1j}


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_literals_are_weak(dtype: np.dtype):
    for kind, value in LITERALS.items():
        assert promote((dtype, kind)) == (np.ones(2, dtype) + value).dtype


def test_promotion_is_numpys():
    for pair in itertools.product(SUPPORTED, repeat=2):
        assert promote(pair) == np.result_type(*pair)


def test_literals_alone():
    assert promote((int,)) == np.int64
    assert promote((int, float)) == np.float64


@pytest.mark.parametrize(
    "name", ["f2", ">f8", ">i4", "O", "S3", "M8[s]", "m8[s]", "g", "G", "i4,i4", "T"]
)
def test_unsupported(name: str):
    dtype = np.dtypes.StringDType() if name == "T" else np.dtype(name)
    assert not is_supported(dtype)
    with pytest.raises(UnsupportedError) as caught:
        canonical(dtype)
    assert caught.value.rule == "unsupported-dtype"


def test_c_names_of_one_type_are_one_object():
    same = [d for d in (np.dtype(c) for c in "ilqILQ") if d == np.dtype(np.int64)]
    assert len({id(canonical(dtype)) for dtype in same}) == 1


def test_real_dtype():
    assert real_dtype(np.dtype("c16")) == np.float64
    assert real_dtype(np.dtype("i4")) == np.int32


class TestLoops:
    def test_of_mixed_signs(self):
        i8, u8 = np.dtype("i8"), np.dtype("u8")
        assert ufunc_loop(np.less, None, (i8, u8)) == ((i8, u8), np.dtype(bool))
        assert ufunc_loop(np.add, None, (i8, u8))[1] == np.float64

    def test_missing(self):
        with pytest.raises(UnsupportedError, match="'subtract' has no loop for bool"):
            ufunc_loop(np.subtract, None, (np.dtype(bool),) * 2)
        with pytest.raises(UnsupportedError, match="Python float"):
            ufunc_loop(np.invert, None, (float,))

    def test_of_half_precision(self):
        with pytest.raises(UnsupportedError, match="float16"):
            ufunc_loop(np.exp, None, (np.dtype("i1"),))

    def test_of_where(self):
        f4 = np.dtype("f4")
        loop, result = select_loop((np.dtype("i4"), f4, int))
        assert (loop, result) == ((np.dtype(bool), f4, f4), f4)

    @pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
    def test_of_scipy(self, dtype: np.dtype):
        if dtype.kind == "c":
            with pytest.raises(UnsupportedError):
                float_loop("erf", (dtype,))
            return
        expected = scipy.special.ndtr(np.ones(2, dtype)).dtype
        _, result = float_loop("ndtr", (dtype,))
        assert result == expected
