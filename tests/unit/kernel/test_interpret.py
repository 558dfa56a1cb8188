from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.interpret import convert, interpret
from dask_diffuse.kernel.nest import Accumulate, Assign, Statement
from tests.unit.kernel.builders import make_kernel

F8, I8, BOOL = np.dtype("f8"), np.dtype("i8"), np.dtype(bool)


def test_arrays_follow_their_axes():
    def write(b: FunctionBuilder) -> list[Statement]:
        x, y, z = (b.input(i, F8) for i in range(3))
        total = b.apply("add", b.apply("add", x, y), z)
        return [Assign(total.position, (0, 1)), Assign(total.position, (1, 0))]

    arrays = [("f8", (1, 0)), ("f8", (1,)), ("f8", (0, 1))]
    kernel = make_kernel(arrays, write)
    x, y, z = np.arange(6.0).reshape(3, 2), np.arange(3.0), np.ones((2, 1))
    results = interpret(kernel, [x, y, z], [], (2, 3))
    np.testing.assert_array_equal(results[0], x.T + y + z, strict=True)
    np.testing.assert_array_equal(results[1], (x.T + y + z).T, strict=True)
    assert all(result.flags.c_contiguous for result in results)


def test_positions():
    def write(b: FunctionBuilder) -> list[Statement]:
        value = b.apply(
            "add", b.apply("multiply", b.index(0), b.literal(10)), b.index(1)
        )
        return [Assign(value.position, (0, 1))]

    kernel = make_kernel([], write)
    (result,) = interpret(kernel, [], [np.int64(10)], (2, 3))
    np.testing.assert_array_equal(result, [[0, 1, 2], [10, 11, 12]])


def test_constants_fill_the_block():
    kernel = make_kernel([], lambda b: [Assign(b.const(7, I8).position, (0, 1))])
    (result,) = interpret(kernel, [], [], (2, 3))
    np.testing.assert_array_equal(result, np.full((2, 3), 7), strict=True)


def test_results_are_new_arrays():
    kernel = make_kernel(
        [("f8", (0, 1))], lambda b: [Assign(b.input(0, F8).position, (0, 1))]
    )
    x = np.ones((2, 3))
    (result,) = interpret(kernel, [x], [], (2, 3))
    assert not np.shares_memory(x, result)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "any", "all", "argmax"])
def test_reductions(name: str, axes: tuple[int, ...]):
    dtype = BOOL if name in ("any", "all") else F8

    def write(b: FunctionBuilder) -> list[Statement]:
        return [Accumulate(name, (b.input(0, F8).position,), axes, dtype)]

    kernel = make_kernel([("f8", (0, 1, 2))], write, ndim=3)
    x = np.random.default_rng(0).integers(-2, 3, (3, 4, 5)).astype(float)
    results = interpret(kernel, [x], [], x.shape)
    if name == "argmax":
        np.testing.assert_array_equal(results[0], np.max(x, axes, keepdims=True))
        rest = [axis for axis in range(3) if axis not in axes]
        flat = x.transpose(*rest, *axes).reshape(*(x.shape[k] for k in rest), -1)
        np.testing.assert_array_equal(np.squeeze(results[1]), np.argmax(flat, -1))
    else:
        expected = getattr(np, name)(x, axis=axes, keepdims=True)
        np.testing.assert_array_equal(results[0], expected, strict=True)


def test_reduction_of_what_is_broadcast():
    def write(b: FunctionBuilder) -> list[Statement]:
        return [Accumulate("sum", (b.input(0, F8).position,), (0, 1), F8)]

    kernel = make_kernel([("f8", (1,))], write)
    (result,) = interpret(kernel, [np.array([1.0, 2.0])], [], (3, 2))
    assert result == [[9.0]]


def test_moments_of_valid_elements():
    def write(b: FunctionBuilder) -> list[Statement]:
        x = b.input(0, F8)
        valid = b.apply("logical_not", b.apply("isnan", x))
        return [Accumulate("moments", (x.position, valid.position), (0,), F8)]

    kernel = make_kernel([("f8", (0, 1))], write)
    x = np.array([[1.0, np.nan], [2.0, np.nan], [6.0, 5.0]])
    count, total, m2 = interpret(kernel, [x], [], x.shape)
    np.testing.assert_array_equal(count, [[3, 1]])
    np.testing.assert_array_equal(total, [[9.0, 5.0]])
    np.testing.assert_array_equal(m2, [[14.0, 0.0]])


def test_convert_drops_the_imaginary_part_silently():
    result = convert(np.array([1.5 + 2j]), np.dtype("i4"))
    np.testing.assert_array_equal(result, np.array([1], "i4"), strict=True)
    assert convert(np.array([2j]), BOOL) == [True]
