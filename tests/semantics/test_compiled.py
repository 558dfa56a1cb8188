"""Every row of the op table, compiled for CPU blocks, on special values, against NumPy.

One kernel for each row computes it for all dtypes at once.
"""

from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.function import ScalarFunction
from dask_diffuse.kernel.interpret import evaluate
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel
from dask_diffuse.ops import SUPPORTED, ScalarOp
from dask_diffuse.options import Options
from dask_diffuse.runtime.cpu import get_kernel
from tests.semantics.special import convertible, grids, special_values
from tests.semantics.test_elementwise import TABLE, check_legalized, converted, name_of

pytestmark = pytest.mark.filterwarnings("ignore")

OPTIONS = Options(cache_disk=False)
LENGTH = 1999
"""A prime, so that what is left over after the last whole vector is met too."""


class Batch:
    """Functions of two or three inputs each, in one kernel."""

    def __init__(self) -> None:
        self.builder = FunctionBuilder()
        self.params: list[ArrayParam] = []
        self.arrays: list[np.ndarray] = []
        self.statements: list[Assign] = []

    def add(self, function: ScalarFunction, operands: list[np.ndarray]) -> None:
        first = len(self.arrays)
        inputs = []
        for number, operand in enumerate(operands, first):
            inputs.append(self.builder.input(number, operand.dtype))
            self.params.append(ArrayParam(operand.dtype, (0,)))
            self.arrays.append(operand)
        (result,) = self.builder.inline(function, inputs)
        self.statements.append(Assign(result.position, (0,)))

    def run(self, label: str) -> list[np.ndarray]:
        used = tuple(dict.fromkeys(s.value for s in self.statements))
        lines = self.builder.build([]).instructions
        kernel = Kernel(
            label,
            1,
            tuple(self.params),
            (),
            ScalarFunction(lines, used),
            tuple(self.statements),
        )
        compiled = get_kernel(kernel, OPTIONS)
        return compiled(self.arrays, (), (LENGTH,))


def in_blocks(operands: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Operands cut and filled up to the length of the blocks."""
    count = -(-len(operands[0]) // LENGTH)
    whole = [np.resize(operand, count * LENGTH) for operand in operands]
    return [
        [np.ascontiguousarray(x[i * LENGTH : (i + 1) * LENGTH]) for x in whole]
        for i in range(count)
    ]


def apply(op: ScalarOp, *dtypes: np.dtype) -> ScalarFunction | None:
    builder = FunctionBuilder()
    inputs = [builder.input(i, dtype) for i, dtype in enumerate(dtypes)]
    try:
        return builder.build([builder.apply(op.name, *inputs)])
    except UnsupportedError:
        return None


def cases(op: ScalarOp) -> list[tuple[np.dtype, ...]]:
    """The row for operands of one dtype, and comparisons of int64 with uint64."""
    if op.name == "where":
        return [(np.dtype(bool), dtype, dtype) for dtype in SUPPORTED]
    same = [(dtype,) * op.arity for dtype in SUPPORTED]
    if op.name in ("equal", "not_equal", "less", "less_equal", "greater_equal"):
        mixed = (np.dtype("i8"), np.dtype("u8"))
        same += [mixed, mixed[::-1]]
    return same


@pytest.mark.parametrize("op", TABLE, ids=name_of)
def test_compiled_rows_are_numpy(op: ScalarOp):
    batch = Batch()
    wanted = []
    for dtypes in cases(op):
        function = apply(op, *dtypes)
        if function is None:
            continue
        operands = grids(*dtypes)[: 10 * LENGTH]
        for block in in_blocks(operands):
            batch.add(function, block)
            wanted.append((function, block))
    assert wanted
    for (function, block), actual in zip(wanted, batch.run(op.name), strict=True):
        expected = evaluate(function, block)[0]
        check_legalized(op, actual, expected, converted(function, block))


@pytest.mark.parametrize("source", SUPPORTED, ids=str)
def test_compiled_casts_are_numpy(source: np.dtype):
    batch = Batch()
    wanted = []
    for target in SUPPORTED:
        builder = FunctionBuilder()
        function = builder.build([builder.cast(builder.input(0, source), target)])
        values = np.resize(convertible(special_values(source), target), LENGTH)
        batch.add(function, [values])
        wanted.append(values.astype(target))
    for expected, actual in zip(wanted, batch.run("casts"), strict=True):
        np.testing.assert_array_equal(actual, expected, strict=True)
        if expected.dtype.kind == "f":
            signs = np.signbit(actual) == np.signbit(expected)
            assert (signs | np.isnan(expected)).all()
