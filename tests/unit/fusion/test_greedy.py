"""The paper's own groups."""

from __future__ import annotations

import pytest

from dask_diffuse.fusion.greedy import greedy_prefix
from dask_diffuse.options import Options
from tests.unit.fusion.builders import ProgramBuilder


@pytest.fixture
def builder() -> ProgramBuilder:
    return ProgramBuilder()


def test_chain(builder):
    b = builder.op("b", "cos", builder.op("a", "sin", builder.source("x")))
    assert greedy_prefix(builder.program(b)) == ((0, 1),)


def test_ends_at_a_barrier(builder):
    x = builder.source("x")
    a = builder.op("a", "sin", x)
    o = builder.opaque("o", builder.source("y"))
    b = builder.op("b", "cos", a)
    # In the order of the program; grouping looks further.
    assert greedy_prefix(builder.program(b, o)) == ((0,), (1,), (2,))


def test_ends_at_each_constraint():
    builder = ProgramBuilder(((2, 2), (2, 2)))
    x = builder.source("x")
    a = builder.op("a", "sin", x)
    b = builder.op("b", "sin", a, axes={a: (1, 0)})
    row = builder.op("r", "sin", builder.source("row", ((2, 2),)), chunks=((2, 2),))
    c = builder.op("c", "sin", b, annotations=[("to", "me")])
    s = builder.reduce("s", "sum", c)
    program = builder.program(a, b, row, c, s)
    assert greedy_prefix(program) == ((0,), (1,), (2,), (3,), (4,))


def test_parts_that_have_nothing_in_common(builder):
    a = builder.op("a", "sin", builder.source("x"))
    b = builder.op("b", "sin", builder.source("y"))
    c = builder.op("c", "cos", a)
    assert greedy_prefix(builder.program(b, c)) == ((0, 2), (1,))


def test_limits(builder):
    x = builder.source("x")
    for number in range(6):
        x = builder.op(f"a{number}", "negative", x)
    options = Options(min_bytes=0, max_group_values=4)
    assert greedy_prefix(builder.program(x), options=options) == (
        (0, 1),
        (2, 3),
        (4, 5),
    )


def test_leaves_out_what_is_dead_and_what_is_a_literal(builder):
    one = builder.full("one", 1.0)
    a = builder.op("a", "add", builder.source("x"), one)
    builder.op("dead", "sin", a)
    assert greedy_prefix(builder.program(a)) == ((1,),)
