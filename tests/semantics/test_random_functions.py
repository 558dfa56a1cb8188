"""Random functions of operations in which NumPy is exact, in all their forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.construct import FunctionBuilder, Value
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.kernel.interpret import evaluate
from dask_diffuse.kernel.legalize import legalize_function
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel
from dask_diffuse.kernel.simplify import simplify_function
from dask_diffuse.ops import OPS, SUPPORTED
from dask_diffuse.options import Options
from dask_diffuse.runtime.cpu import get_kernel
from tests.semantics.special import assert_identical, special_values

pytestmark = pytest.mark.filterwarnings("ignore")

LENGTH = 67
OPTIONS = Options(cache_disk=False)

# Those that look at the sign of NaN or choose between zeros by position are left out.
EXACT = sorted(
    name
    for name, op in OPS.items()
    if op.typing is not None
    and not op.ulp
    and not op.complex_ulp
    and name not in ("signbit", "copysign", "fmax", "fmin", "nextafter", "spacing")
)
DTYPES = [dtype for dtype in SUPPORTED if dtype.kind != "c"]


@st.composite
def functions(draw: st.DrawFn) -> tuple[ScalarFunction, list[np.dtype]]:
    builder = FunctionBuilder()
    dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=2, max_size=4))
    values: list[Value] = [builder.input(i, dtype) for i, dtype in enumerate(dtypes)]
    for constant in draw(st.lists(st.sampled_from([0, 1, -1, 2]), max_size=2)):
        dtype = draw(st.sampled_from(DTYPES))
        values.append(builder.const(abs(constant), dtype))
    for _ in range(draw(st.integers(1, 25))):
        name = draw(st.sampled_from([*EXACT, "cast", "cast"]))
        if name == "cast":
            operand = draw(st.sampled_from(values))
            # Out of the range, casts of floats to integers have no meaning in NumPy.
            kinds = "fb" if operand.dtype.kind == "f" else "fbiu"
            targets = [dtype for dtype in DTYPES if dtype.kind in kinds]
            values.append(builder.cast(operand, draw(st.sampled_from(targets))))
            continue
        operands = [draw(st.sampled_from(values)) for _ in range(OPS[name].arity)]
        try:
            values.append(builder.apply(name, *operands))
        except UnsupportedError:
            continue
    return builder.build(values[-3:]), dtypes


def check_meaning(case: tuple[ScalarFunction, list[np.dtype]], seed: int) -> None:
    function, dtypes = case
    random = np.random.default_rng(seed)
    inputs = [random.choice(special_values(dtype), LENGTH) for dtype in dtypes]
    expected = evaluate(function, inputs)
    legal = legalize_function(function)
    for other in (legal, simplify_function(legal), simplify_function(function)):
        for actual, wanted in zip(evaluate(other, inputs), expected, strict=True):
            assert_identical(actual, wanted, [], "random function")


def check_compiled(case: tuple[ScalarFunction, list[np.dtype]], seed: int) -> None:
    function, dtypes = case
    random = np.random.default_rng(seed)
    inputs = [random.choice(special_values(dtype), LENGTH) for dtype in dtypes]
    kernel = Kernel(
        "random",
        1,
        tuple(ArrayParam(dtype, (0,)) for dtype in dtypes),
        (),
        ScalarFunction(function.instructions, tuple(dict.fromkeys(function.results))),
        tuple(Assign(position, (0,)) for position in function.results),
    )
    results = get_kernel(kernel, OPTIONS)(inputs, (), (LENGTH,))
    for actual, value in zip(results, evaluate(function, inputs), strict=True):
        wanted = np.broadcast_to(value, actual.shape)
        assert_identical(actual, wanted, [], "compiled function")


CASES = functions()
SEEDS = st.integers(0, 2**32 - 1)


@given(CASES, SEEDS)
def test_rewriting_keeps_the_meaning(
    case: tuple[ScalarFunction, list[np.dtype]], seed: int
):
    check_meaning(case, seed)


@pytest.mark.fuzz
@given(CASES, SEEDS)
def test_rewriting_keeps_the_meaning_of_many(
    case: tuple[ScalarFunction, list[np.dtype]], seed: int
):
    check_meaning(case, seed)


@given(CASES, SEEDS)
def test_compiling_keeps_the_meaning(
    case: tuple[ScalarFunction, list[np.dtype]], seed: int
):
    check_compiled(case, seed)


@pytest.mark.fuzz
@given(CASES, SEEDS)
def test_compiling_keeps_the_meaning_of_many(
    case: tuple[ScalarFunction, list[np.dtype]], seed: int
):
    check_compiled(case, seed)
