from __future__ import annotations

import dataclasses
import itertools
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_diffuse.codegen.target import Target, host_target
from dask_diffuse.errors import CompileError, UnsupportedError
from dask_diffuse.kernel.construct import FunctionBuilder, Value
from dask_diffuse.kernel.interpret import interpret
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel
from dask_diffuse.ops import OPS, REDUCTIONS, SUPPORTED
from dask_diffuse.options import Options
from dask_diffuse.runtime import cpu
from dask_diffuse.runtime.cpu import (
    compile_kernel,
    forget_kernels,
    get_kernel,
    kernel_counts,
)

OPTIONS = Options(cache_disk=False)
DOUBLE = np.dtype(np.float64)
LENGTHS = st.sampled_from([1, 2, 3, 7, 8, 9, 16, 31, 64, 100, 255, 300, 1023])
LAYOUTS = ("C", "F", "strided", "reversed", "rolled", "read-only", "unaligned")


def values_of(rng: np.random.Generator, dtype: np.dtype, shape) -> np.ndarray:
    """Ordinary values with a few special ones among them."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(max(info.min, -9), 9, shape).astype(dtype)
        some = rng.choice([info.min, info.max, 0], shape)
        return np.where(rng.random(shape) < 0.1, some, values).astype(dtype)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        values = np.empty(shape, dtype)
        values.real = values_of(rng, part, shape)
        values.imag = values_of(rng, part, shape)
        return values
    values = (rng.standard_normal(shape) * 3).astype(dtype)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 1e-40, 1e30], dtype)
    return np.where(rng.random(shape) < 0.1, rng.choice(special, shape), values)


def laid_out(values: np.ndarray, layout: str) -> np.ndarray:
    """The same values, differently in memory."""
    match layout:
        case "F":
            return np.asfortranarray(values)
        case "strided":
            wide = np.zeros([2 * n for n in values.shape], values.dtype)
            view = wide[tuple(slice(None, None, 2) for _ in values.shape)]
            view[...] = values
            return view
        case "reversed":
            flip = tuple(slice(None, None, -1) for _ in values.shape)
            return np.ascontiguousarray(values[flip])[flip]
        case "rolled":
            order = (*range(1, values.ndim), 0)[: values.ndim]
            return np.ascontiguousarray(values.transpose(order)).transpose(
                np.argsort(order)
            )
        case "unaligned":
            octets = np.zeros(values.nbytes + 1, np.uint8)
            view = octets[1:].view(values.dtype).reshape(values.shape)
            view[...] = values
            return view
        case "read-only":
            values = values.copy()
            values.flags.writeable = False
            return values
    return np.ascontiguousarray(values)


def assert_same(ours: list[np.ndarray], reference: list[np.ndarray]) -> None:
    assert len(ours) == len(reference)
    for array, expected in zip(ours, reference, strict=True):
        assert array.dtype == expected.dtype
        assert array.shape == expected.shape
        np.testing.assert_array_equal(array, expected)
        if array.dtype.kind == "f":
            zero = expected == 0
            np.testing.assert_array_equal(
                np.signbit(array)[zero], np.signbit(expected)[zero]
            )


def elementwise(name: str, dtype: np.dtype, ndim: int = 1) -> tuple[Kernel, tuple]:
    builder = FunctionBuilder()
    inputs = [builder.input(i, dtype) for i in range(OPS[name].arity)]
    value = builder.apply(name, *inputs)
    axes = tuple(range(ndim))
    kernel = Kernel(
        name,
        ndim,
        (ArrayParam(dtype, axes),) * len(inputs),
        tuple(s.dtype for s in builder.scalars),
        builder.build([value]),
        (Assign(value.position, axes),),
    )
    return kernel, builder.scalars


def reduction(
    name: str, dtype: np.dtype, result: np.dtype, ndim: int, axes: tuple[int, ...]
) -> Kernel:
    builder = FunctionBuilder()
    x = builder.input(0, dtype)
    return Kernel(
        name,
        ndim,
        (ArrayParam(dtype, tuple(range(ndim))),),
        (),
        builder.build([x]),
        (Accumulate(name, (x.position,), axes, result),),
    )


CASTS = [np.dtype(name) for name in ("?", "i4", "i8", "f4", "f8", "c8", "c16")]
EXACT = sorted(
    name
    for name, op in OPS.items()
    if op.typing is not None and op.ulp == 0 and op.complex_ulp == 0
)


@st.composite
def programs(draw):
    """A kernel of a few exact ops over arrays of several dtypes and projections."""
    ndim = draw(st.integers(1, 3))
    axes = draw(st.lists(st.permutations(range(ndim)), min_size=1, max_size=3))
    params = []
    builder = FunctionBuilder()
    pool: list[Value] = []
    for number, order in enumerate(axes):
        dtype = draw(st.sampled_from(SUPPORTED))
        kept = tuple(order[: draw(st.integers(1 if number else ndim, ndim))])
        params.append(ArrayParam(dtype, kept))
        pool.append(builder.input(number, dtype))
    pool.append(builder.index(draw(st.integers(0, ndim - 1))))
    for _ in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(EXACT))
        operands = [
            draw(st.sampled_from(pool))
            if draw(st.booleans()) or OPS[name].arity == 1
            else builder.literal(draw(st.sampled_from([2, 3, 1.5, True])))
            for _ in range(OPS[name].arity)
        ]
        try:
            pool.append(builder.apply(name, *operands))
        except UnsupportedError:
            last = pool[-1]
            # NumPy's own answer to what is out of range depends on the position.
            dtypes = SUPPORTED if last.dtype.kind in "biu" else CASTS
            pool.append(builder.cast(last, draw(st.sampled_from(dtypes))))
    results = pool[-3:]
    statements = tuple(
        Assign(value.position, tuple(draw(st.permutations(range(ndim)))))
        for value in results
    )
    kernel = Kernel(
        "program",
        ndim,
        tuple(params),
        tuple(s.dtype for s in builder.scalars),
        builder.build(results),
        statements,
    )
    return kernel, builder.scalars


class TestElementwise:
    @given(st.data())
    def test_programs_agree_with_numpy(self, data):
        kernel, scalars = data.draw(programs())
        extents = tuple(data.draw(LENGTHS) for _ in range(kernel.ndim))
        while np.prod(extents) > 30_000:
            extents = (*(max(1, n // 4) for n in extents[:-1]), extents[-1])
        rng = np.random.default_rng(0)
        arrays = []
        for param in kernel.arrays:
            shape = [extents[axis] for axis in param.axes]
            if data.draw(st.booleans()):
                shape = [1 if data.draw(st.booleans()) else n for n in shape]
            layout = data.draw(st.sampled_from(LAYOUTS))
            arrays.append(laid_out(values_of(rng, param.dtype, shape), layout))
        before = [array.copy() for array in arrays]
        compiled = get_kernel(kernel, OPTIONS)
        reference = interpret(kernel, arrays, scalars, extents)
        assert_same(compiled(arrays, scalars, extents), reference)
        for array, copy in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, copy)

    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("shape", [(1, 1), (3, 5), (5, 300), (700, 3), (40, 1029)])
    def test_layouts(self, shape, layout):
        kernel, scalars = elementwise("add", DOUBLE, 2)
        rng = np.random.default_rng(1)
        x, y = rng.random((2, *shape))
        arrays = [laid_out(x, layout), y]
        ours = get_kernel(kernel, OPTIONS)(arrays, scalars, shape)
        assert_same(ours, [x + y])

    def test_order_of_results_is_that_of_inputs(self):
        kernel, scalars = elementwise("add", DOUBLE, 2)
        compiled = get_kernel(kernel, OPTIONS)
        x = np.ones((4, 6))
        f = np.asfortranarray(x)
        assert compiled([x, x], scalars, x.shape)[0].flags.c_contiguous
        assert compiled([f, f], scalars, x.shape)[0].flags.f_contiguous
        assert compiled([x, f], scalars, x.shape)[0].flags.c_contiguous

    def test_results_own_their_memory(self):
        kernel, scalars = elementwise("negative", DOUBLE)
        (result,) = get_kernel(kernel, OPTIONS)([np.ones(9)], scalars, (9,))
        assert result.flags.owndata
        assert result.flags.writeable

    def test_nothing_past_the_end_is_written(self):
        kernel, scalars = elementwise("negative", DOUBLE)
        compiled = get_kernel(kernel, OPTIONS)
        for size in range(1, 40):
            (result,) = compiled([np.arange(size, dtype=float)], scalars, (size,))
            np.testing.assert_array_equal(result, -np.arange(size))

    def test_zero_axes(self):
        kernel, scalars = elementwise("add", DOUBLE, 0)
        one = np.array(1.5)
        assert_same(
            get_kernel(kernel, OPTIONS)([one, one], scalars, ()), [np.array(3.0)]
        )

    def test_four_axes(self):
        kernel, scalars = elementwise("subtract", DOUBLE, 4)
        x, y = np.random.default_rng(2).random((2, 3, 4, 5, 6))
        y = np.ascontiguousarray(y.transpose(3, 1, 0, 2)).transpose(2, 1, 3, 0)
        assert_same(get_kernel(kernel, OPTIONS)([x, y], scalars, x.shape), [x - y])


SHAPES = [
    *((1,), (5,), (1023,), (5000,)),
    *((3, 4), (100, 3), (3, 2000), (50, 300), (40, 1100)),
    *((5, 33, 70), (33, 5, 300), (9, 1, 8), (3, 4, 5, 6)),
]
FEW_SHAPES = [(1023,), (100, 3), (3, 300), (5, 33, 70)]
REDUCED_DTYPES = {
    "sum": [("f8", "f8"), ("f4", "f4"), ("i8", "i8"), ("?", "i8"), ("c16", "c16")],
    "prod": [("f8", "f8"), ("i4", "i8"), ("c16", "c16"), ("f4", "f4")],
    "min": [("f8", "f8"), ("i1", "i1"), ("?", "?"), ("u8", "u8")],
    "max": [("f8", "f8"), ("f4", "f4"), ("u1", "u1"), ("i8", "i8")],
    "fmin": [("f8", "f8"), ("i2", "i2")],
    "fmax": [("f4", "f4")],
    "any": [("?", "?"), ("f8", "?"), ("c8", "?")],
    "all": [("?", "?"), ("i4", "?")],
    "argmin": [("f8", "f8"), ("i2", "i2"), ("?", "?")],
    "argmax": [("f8", "f8"), ("f4", "f4"), ("u8", "u8")],
    "moments": [("f8", "f8"), ("f4", "f8"), ("i4", "f8")],
}


def reduced_values(rng: np.random.Generator, dtype: np.dtype, shape) -> np.ndarray:
    if dtype.kind == "b":
        return rng.random(shape) < 0.1
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -50, 99, shape).astype(dtype)
    if dtype.kind == "c":
        real, imag = rng.standard_normal((2, *shape))
        return (real + 1j * imag).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def assert_close(ours: list[np.ndarray], reference: list[np.ndarray]) -> None:
    for array, expected in zip(ours, reference, strict=True):
        assert array.dtype == expected.dtype
        assert array.shape == expected.shape
        if array.dtype.kind in "fc":
            single = array.dtype.char in "fF"
            scale = np.nanmax(np.abs(expected), initial=1e-300)
            np.testing.assert_allclose(
                *(array, expected),
                rtol=1e-5 if single else 1e-12,
                atol=scale * (1e-5 if single else 1e-13),
            )
        else:
            np.testing.assert_array_equal(array, expected)


class TestReductions:
    def test_all_are_tested(self):
        assert set(REDUCED_DTYPES) == set(REDUCTIONS)

    @pytest.mark.parametrize(
        ("name", "dtype", "result", "with_nan"),
        [
            (name, *pair, with_nan)
            for name, pairs in REDUCED_DTYPES.items()
            for pair in pairs
            for with_nan in ((False, True) if pair[0][0] == "f" else (False,))
        ],
    )
    def test_axes_and_layouts(self, name, dtype, result, with_nan):
        dtype, result = np.dtype(dtype), np.dtype(result)
        rng = np.random.default_rng(3)
        is_first = dtype == np.dtype(REDUCED_DTYPES[name][0][0])
        for shape in SHAPES if is_first else FEW_SHAPES:
            values = reduced_values(rng, dtype, shape)
            if name == "prod" and dtype.kind in "fc":
                # Products that float32 can hold.
                values = (1 + values / 100).astype(dtype)
            if with_nan:
                values[rng.random(shape) < 0.02] = np.nan
            ndim = len(shape)
            subsets = itertools.chain.from_iterable(
                itertools.combinations(range(ndim), n) for n in range(1, ndim + 1)
            )
            for number, axes in enumerate(subsets):
                kernel = reduction(name, dtype, result, ndim, axes)
                layout = LAYOUTS[(number + ndim) % len(LAYOUTS)]
                compiled = get_kernel(kernel, OPTIONS)
                for array in (values, laid_out(values, layout)):
                    reference = interpret(kernel, [array], (), shape)
                    assert_close(compiled([array], (), shape), reference)

    @pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
    def test_moments_of_what_is_valid(self, axes):
        builder = FunctionBuilder()
        x = builder.input(0, DOUBLE)
        valid = builder.apply("isfinite", x)
        kernel = Kernel(
            "moments",
            2,
            (ArrayParam(DOUBLE, (0, 1)),),
            (),
            builder.build([x, valid]),
            (Accumulate("moments", (x.position, valid.position), axes, DOUBLE),),
        )
        rng = np.random.default_rng(4)
        for shape in [(3, 4), (200, 3), (3, 1500), (60, 300)]:
            array = rng.standard_normal(shape) + 1e3
            array[rng.random(shape) < 0.3] = np.nan
            array[:, 0] = np.nan
            reference = interpret(kernel, [array], (), shape)
            count, total, squares = get_kernel(kernel, OPTIONS)([array], (), shape)
            np.testing.assert_array_equal(count, reference[0])
            np.testing.assert_allclose(total, reference[1], rtol=1e-13)
            np.testing.assert_allclose(squares, reference[2], rtol=1e-9)

    def test_sums_are_exact_beyond_the_last_place(self):
        # Naive sums lose all ones; so does a plain sum in any order.
        array = np.ones(100_001)
        array[0], array[-1] = 1e16, -1e16
        for shape, axes in [((100_001,), (0,)), ((100_001, 1), (0,))]:
            kernel = reduction("sum", DOUBLE, DOUBLE, len(shape), axes)
            (total,) = get_kernel(kernel, OPTIONS)([array.reshape(shape)], (), shape)
            assert total.item() == 99_999

    def test_sums_down_columns_are_exact_too(self):
        array = np.ones((1001, 3))
        array[0], array[-1] = 1e16, -1e16
        kernel = reduction("sum", DOUBLE, DOUBLE, 2, (0,))
        (total,) = get_kernel(kernel, OPTIONS)([array], (), array.shape)
        np.testing.assert_array_equal(total, [[999, 999, 999]])

    def test_infinities(self):
        kernel = reduction("sum", DOUBLE, DOUBLE, 1, (0,))
        compiled = get_kernel(kernel, OPTIONS)
        for values in ([np.inf, 1], [1, -np.inf], [np.inf, -np.inf], [-0.0, -0.0]):
            array = np.array(values * 20)
            assert_same(
                compiled([array], (), array.shape),
                interpret(kernel, [array], (), array.shape),
            )

    def test_squares_are_never_negative(self):
        kernel = reduction("moments", DOUBLE, DOUBLE, 1, (0,))
        compiled = get_kernel(kernel, OPTIONS)
        rng = np.random.default_rng(5)
        for scale in (1e-8, 1.0, 1e8):
            array = 1e9 + scale * rng.random(10_007)
            _, total, squares = compiled([array], (), array.shape)
            exact = np.var(array.astype(np.longdouble)) * array.size
            assert squares.item() >= 0
            np.testing.assert_allclose(total.item(), array.sum(), rtol=1e-15)
            # Without fused operations the distance from the mean is rounded.
            precise = 1e-12 if host_target().fuses else 1e-6
            np.testing.assert_allclose(squares.item(), float(exact), rtol=precise)
        constant = np.full(10_007, 0.1)
        assert compiled([constant], (), constant.shape)[2].item() < 1e-25

    def test_first_of_equals_wins(self):
        for name in ("argmin", "argmax"):
            kernel = reduction(name, DOUBLE, DOUBLE, 2, (0, 1))
            compiled = get_kernel(kernel, OPTIONS)
            for layout in LAYOUTS:
                array = laid_out(np.zeros((37, 300)), layout)
                assert compiled([array], (), array.shape)[1].item() == 0
            array = np.zeros((37, 300))
            array[5, 7] = array[30, 2] = np.nan
            assert compiled([array], (), array.shape)[1].item() == 5 * 300 + 7

    def test_several_statements_in_one_pass(self):
        builder = FunctionBuilder()
        x = builder.input(0, DOUBLE)
        y = builder.apply("multiply", x, builder.literal(2.0))
        kernel = Kernel(
            "many",
            2,
            (ArrayParam(DOUBLE, (0, 1)),),
            (np.dtype(float),),
            builder.build([y, x, y, x, x]),
            (
                Assign(y.position, (1, 0)),
                Accumulate("sum", (x.position,), (0,), DOUBLE),
                Accumulate("max", (y.position,), (1,), DOUBLE),
                Accumulate("argmin", (x.position,), (0, 1), DOUBLE),
                Accumulate("moments", (x.position,), (1,), DOUBLE),
            ),
        )
        rng = np.random.default_rng(6)
        for shape in [(3, 4), (300, 5), (70, 1000), (2, 5000)]:
            for layout in LAYOUTS:
                array = laid_out(rng.standard_normal(shape), layout)
                compiled = get_kernel(kernel, OPTIONS)
                reference = interpret(kernel, [array], builder.scalars, shape)
                assert_close(compiled([array], builder.scalars, shape), reference)

    def test_moments_of_complex_numbers_are_declined(self):
        dtype = np.dtype(complex)
        with pytest.raises(CompileError, match="'moments' of complex128"):
            get_kernel(reduction("moments", dtype, dtype, 1, (0,)), OPTIONS)


@st.composite
def reducing_programs(draw):
    """A kernel that reduces two arrays and their sum in several ways in one pass."""
    ndim = draw(st.integers(1, 4))
    dtype = np.dtype(draw(st.sampled_from(["f8", "f4", "i4", "u1", "?"])))
    builder = FunctionBuilder()
    every = tuple(range(ndim))
    some = tuple(draw(st.permutations(every))[: draw(st.integers(1, ndim))])
    x, y = builder.input(0, dtype), builder.input(1, DOUBLE)
    total = builder.apply("add", builder.cast(x, DOUBLE), y)
    statements = []
    values = []
    for _ in range(draw(st.integers(1, 4))):
        axes = tuple(sorted(draw(st.sets(st.sampled_from(every), min_size=1))))
        name = draw(st.sampled_from(sorted(REDUCTIONS)))
        value = draw(st.sampled_from([x, total]))
        result = np.dtype(bool) if name in ("any", "all") else value.dtype
        if name == "moments":
            result = DOUBLE
        elif name in ("sum", "prod") and value.dtype.kind in "biu":
            result = np.dtype(np.uint64 if value.dtype.kind == "u" else np.int64)
        statements.append(Accumulate(name, (value.position,), axes, result))
        values.append(value)
    if draw(st.booleans()):
        order = tuple(draw(st.permutations(every)))
        statements.append(Assign(total.position, order))
        values.append(total)
    return Kernel(
        "reducing",
        ndim,
        (ArrayParam(dtype, every), ArrayParam(DOUBLE, some)),
        (),
        builder.build(values),
        tuple(statements),
    )


class TestReducingPrograms:
    @given(st.data())
    def test_programs_agree_with_numpy(self, data):
        kernel = data.draw(reducing_programs())
        extents = tuple(data.draw(LENGTHS) for _ in range(kernel.ndim))
        while np.prod(extents) > 40_000:
            longest = int(np.argmax(extents))
            extents = tuple(
                max(1, n // 5) if axis == longest else n
                for axis, n in enumerate(extents)
            )
        rng = np.random.default_rng(data.draw(st.integers(0, 9)))
        arrays = []
        for param in kernel.arrays:
            shape = tuple(extents[axis] for axis in param.axes)
            # Near one, so that products of many are numbers.
            values = reduced_values(rng, param.dtype, shape)
            if param.dtype.kind == "f":
                values = (1 + values / 1000).astype(param.dtype)
                if data.draw(st.booleans()):
                    values[rng.random(shape) < 0.01] = np.nan
            layout = data.draw(st.sampled_from(LAYOUTS))
            arrays.append(laid_out(values, layout))
        reference = interpret(kernel, arrays, (), extents)
        assert_close(get_kernel(kernel, OPTIONS)(arrays, (), extents), reference)


class TestDivision:
    @pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
    @pytest.mark.parametrize("dtype", [np.dtype("f8"), np.dtype("f4")], ids=str)
    def test_floats(self, name, dtype):
        rng = np.random.default_rng(8)
        n = 4000
        y = rng.uniform(-10, 10, n).astype(dtype)
        near = (y * rng.integers(-1000, 1000, n)).astype(dtype)
        least = np.finfo(dtype).smallest_subnormal
        far = np.exp(rng.uniform(-80, 80, (2, n))) * rng.choice([-1, 1], n)
        values = values_of(rng, dtype, (2, n))
        pairs = [
            *((near, y), (np.nextafter(near, dtype.type(np.inf)), y)),
            *((np.nextafter(near, dtype.type(0)), y), (values[0], values[1])),
            (rng.integers(-50, 50, n).astype(dtype), np.floor(y)),
            (
                rng.integers(-1000, 1000, n).astype(dtype) * least,
                rng.integers(-9, 9, n).astype(dtype) * least,
            ),
            (far[0].astype(dtype), far[1].astype(dtype)),
        ]
        kernel, scalars = elementwise(name, dtype)
        compiled = get_kernel(kernel, OPTIONS)
        for x, by in pairs:
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(x, by)
            assert_same(compiled([x, by], scalars, x.shape), [expected])

    @pytest.mark.parametrize("name", ["remainder", "floor_divide"])
    @pytest.mark.parametrize("dtype", SUPPORTED[1:9], ids=str)
    def test_integers(self, name, dtype):
        rng = np.random.default_rng(9)
        info = np.iinfo(dtype)
        n = 4000
        full = rng.integers(info.min, info.max, n, dtype, endpoint=True)
        shifts = rng.integers(0, 8 * dtype.itemsize, (2, n)).astype(dtype)
        few = rng.integers(max(-100, info.min), 100, n).astype(dtype)
        ends = rng.choice(np.array([info.min, info.max, 0, 1], dtype), (2, n))
        # Just below a multiple, where a rounded quotient would be one too large.
        by = np.maximum(few, 1)
        below = (full >> shifts[0]) // by * by - 1
        pairs = [
            *((full, few), (full >> shifts[0], full[::-1] >> shifts[1])),
            *((ends[0], ends[1]), (ends[0], few), (below.astype(dtype), by)),
        ]
        kernel, scalars = elementwise(name, dtype)
        compiled = get_kernel(kernel, OPTIONS)
        for x, by in pairs:
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(x, by)
            assert_same(compiled([x, by], scalars, x.shape), [expected])


BASELINE = Target(host_target().triple, "x86-64", "", 16)
PROCESSORS = {
    "baseline": BASELINE,
    "nehalem": dataclasses.replace(BASELINE, cpu="nehalem"),
    "haswell": Target(
        *(BASELINE.triple, "haswell", "", 32), has_avx=True, has_avx2=True
    ),
    "skylake": Target(
        *(BASELINE.triple, "skylake-avx512", "", 64),
        **dict.fromkeys(("has_avx", "has_avx2", "has_avx512"), True),
    ),
}
RUNS = {
    "baseline": host_target().is_x86,
    "nehalem": host_target().is_x86,
    "haswell": host_target().has_avx2,
    "skylake": host_target().has_avx512,
}


@pytest.mark.parametrize("name", PROCESSORS)
class TestOtherProcessors:
    @pytest.fixture(autouse=True)
    def _runs(self, name):
        if not RUNS[name]:
            pytest.skip("the processor of this machine is not of that kind")

    @pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u2", "i1", "?", "c16"])
    def test_exact_ops(self, name, dtype):
        dtype = np.dtype(dtype)
        rng = np.random.default_rng(10)
        tested = 0
        for op in EXACT:
            try:
                kernel, scalars = elementwise(op, dtype)
            except UnsupportedError:
                continue
            compiled, _ = compile_kernel(kernel, OPTIONS, PROCESSORS[name])
            arrays = [values_of(rng, dtype, (301,)) for _ in kernel.arrays]
            reference = interpret(kernel, arrays, scalars, (301,))
            assert_same(compiled(arrays, scalars, (301,)), reference)
            tested += 1
        assert tested > 5

    @pytest.mark.parametrize("reduced", REDUCED_DTYPES)
    def test_reductions(self, name, reduced):
        rng = np.random.default_rng(11)
        for pair in REDUCED_DTYPES[reduced]:
            dtype, result = map(np.dtype, pair)
            for axes in [(0,), (1,), (0, 1)]:
                kernel = reduction(reduced, dtype, result, 2, axes)
                compiled, _ = compile_kernel(kernel, OPTIONS, PROCESSORS[name])
                for shape in [(3, 5), (90, 70), (7, 900), (1200, 3)]:
                    array = reduced_values(rng, dtype, shape)
                    reference = interpret(kernel, [array], (), shape)
                    assert_close(compiled([array], (), shape), reference)


class TestCache:
    @pytest.fixture(autouse=True)
    def _forget(self):
        forget_kernels()
        yield
        forget_kernels()

    def test_threads_compile_once(self):
        kernel, scalars = elementwise("add", DOUBLE, 2)
        rng = np.random.default_rng(7)
        arrays = [rng.random((300 + i, 200)) for i in range(8)]
        barrier = threading.Barrier(8)
        failures = []

        def work(array: np.ndarray) -> None:
            barrier.wait()
            for _ in range(20):
                compiled = get_kernel(kernel, OPTIONS)
                (result,) = compiled([array, array], scalars, array.shape)
                if not np.array_equal(result, array + array):
                    failures.append(array.shape)

        threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        counts = kernel_counts()
        assert counts["compiled"] == 1
        assert counts["memory_hits"] == 8 * 20 - 1
        assert counts["compile_seconds"] > 0

    def test_equal_kernels_are_one(self):
        first = get_kernel(elementwise("add", DOUBLE)[0], OPTIONS)
        assert get_kernel(elementwise("add", DOUBLE)[0], OPTIONS) is first
        assert kernel_counts()["in_memory"] == 1

    def test_least_recently_used_goes(self):
        options = OPTIONS.replace(cache_kernels=2)
        names = ("add", "subtract", "multiply")
        for name in names:
            get_kernel(elementwise(name, DOUBLE)[0], options)
        assert kernel_counts()["in_memory"] == 2
        get_kernel(elementwise("multiply", DOUBLE)[0], options)
        assert kernel_counts()["compiled"] == 3
        get_kernel(elementwise("add", DOUBLE)[0], options)
        assert kernel_counts()["compiled"] == 4

    def test_disk(self, tmp_path):
        options = Options(cache_dir=str(tmp_path / "kernels"))
        kernel, scalars = elementwise("sin", DOUBLE)
        x = np.linspace(-5, 5, 100)
        expected = get_kernel(kernel, options)([x], scalars, x.shape)
        assert kernel_counts()["compiled"] == 1
        forget_kernels()
        assert_same(get_kernel(kernel, options)([x], scalars, x.shape), expected)
        assert kernel_counts()["compiled"] == 0
        assert kernel_counts()["disk_hits"] == 1

    def test_failures_are_counted(self):
        dtype = np.dtype(complex)
        kernel = reduction("min", dtype, dtype, 1, (0,))
        for _ in range(2):
            with pytest.raises(CompileError, match="'min' of complex128"):
                get_kernel(kernel, OPTIONS)
        assert kernel_counts()["failed"] == 2

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes fork here")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forked_processes_go_on(self):
        kernel, scalars = elementwise("add", DOUBLE)
        x = np.arange(50.0)
        get_kernel(kernel, OPTIONS)([x, x], scalars, x.shape)
        # As if another thread was at work.
        with cpu._lock:
            child = os.fork()
            if child == 0:
                good = False
                try:
                    for op in ("add", "multiply"):
                        other, _ = elementwise(op, DOUBLE)
                        compiled = get_kernel(other, OPTIONS)
                        (y,) = compiled([x, x], scalars, x.shape)
                        good = np.array_equal(y, OPS[op].evaluate(x, x))
                finally:
                    os._exit(0 if good else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_patterns_are_forgotten(self, monkeypatch):
        monkeypatch.setattr(cpu, "_WALKS", 4)
        kernel, scalars = elementwise("negative", DOUBLE)
        compiled = get_kernel(kernel, OPTIONS)
        for size in range(1, 20):
            x = np.arange(size, dtype=float)
            assert_same(compiled([x], scalars, (size,)), [-x])


class TestExactMath:
    def test_is_another_kernel(self):
        kernel, scalars = elementwise("exp", DOUBLE)
        exact = get_kernel(kernel, OPTIONS.replace(exact_math=True))
        fast = get_kernel(kernel, OPTIONS)
        assert exact is not fast
        assert "call double @exp(" in exact.source()
        x = np.linspace(-700, 700, 1001)
        for compiled in (exact, fast):
            (result,) = compiled([x], scalars, x.shape)
            assert np.all(np.abs(result - np.exp(x)) <= 4 * np.spacing(np.exp(x)))


def test_source():
    compiled = get_kernel(elementwise("add", DOUBLE)[0], OPTIONS)
    assert "define void @strip" in compiled.source()
    assert "strip:" in compiled.source("asm")
    assert repr(compiled) == "<CompiledKernel 'add'>"
