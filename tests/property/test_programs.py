"""Random programs: kernels, the interpreter, plain Dask and NumPy agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import EXACT, assert_same
from tests.strategies import (
    DTYPES,
    Program,
    approximate_programs,
    chunkings,
    exact_programs,
    values,
)


def check_exact(program: Program) -> None:
    assert_same(
        program,
        *program.inputs,
        expect=None,
        numpy_tolerance=program.tolerance,
    )


def check_approximate(program: Program) -> None:
    tolerance = program.tolerance
    assert_same(
        program,
        *program.inputs,
        expect=None,
        tolerance=tolerance,
        numpy_tolerance=tolerance,
    )


@given(exact_programs())
def test_exact_programs(program: Program):
    check_exact(program)


@given(approximate_programs())
def test_approximate_programs(program: Program):
    check_approximate(program)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@given(exact_programs(max_steps=25))
def test_many_exact_programs(program: Program):
    check_exact(program)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@given(approximate_programs(max_steps=25))
def test_many_approximate_programs(program: Program):
    check_approximate(program)


@settings(max_examples=15)
@given(
    dtype=st.sampled_from(DTYPES),
    chunks=chunkings((33,)),
    seed=st.integers(0, 1000),
)
def test_blocks_of_unknown_length(dtype, chunks, seed):
    # A boolean mask leaves blocks whose lengths nobody knows before they are there.
    x, y = values(dtype, (33,), seed), values(dtype, (33,), seed + 1)
    mask = values(np.dtype(bool), (33,), seed + 2)

    def build(x, y, mask):
        x, y = x[mask], y[mask]
        return np.where(x == y, x, y) * 2, (x != y).sum()

    assert_same(build, (x, chunks), (y, chunks), (mask, chunks), expect=None)


def test_a_program_prints_as_python():
    program = Program()
    program.add_input(np.ones(3), (3,))
    program.outputs = (0,)
    assert repr(program) == "\nv0 = float64[3] in (3,)\nreturn v0"
    assert program.tolerance != EXACT
