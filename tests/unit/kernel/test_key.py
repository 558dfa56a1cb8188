from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.key import kernel_key
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel, Statement
from tests.unit.kernel.builders import elementwise, make_kernel

F4, F8 = np.dtype("f4"), np.dtype("f8")


def write(b: FunctionBuilder) -> list[Statement]:
    x = b.apply("multiply", b.input(0, F8), b.literal(2.5))
    y = b.apply("add", x, b.const(1.0, F8))
    return [Assign(x.position, (0, 1)), Accumulate("sum", (y.position,), (1,), F8)]


def kernel() -> Kernel:
    return make_kernel([("f8", (0, 1))], write)


def other(value: Any) -> list[Any]:
    """Values that a field could have instead, of the same type."""
    match value:
        case bool():
            return [not value]
        case int() | float():
            return [value + 1]
        case str():
            return [f"{value}2"]
        case np.dtype():
            return [F4 if value != F4 else F8]
        case tuple():
            longer = [(*value, value[-1])] if value else []
            changed = [
                (*value[:i], changed, *value[i + 1 :])
                for i, item in enumerate(value)
                for changed in other(item)
            ]
            return [*longer, *changed, value[:-1]] if value else []
        case None:
            return [0]
        case _:
            assert dataclasses.is_dataclass(value)
            return [
                dataclasses.replace(value, **{field.name: changed})
                for field in dataclasses.fields(value)
                for changed in other(getattr(value, field.name))
            ]


def test_every_field_but_the_label_counts():
    base = kernel()
    key = kernel_key(base)
    checked = 0
    for field in dataclasses.fields(Kernel):
        for value in other(getattr(base, field.name)):
            changed = dataclasses.replace(base, **{field.name: value})
            if field.name == "label":
                assert kernel_key(changed) == key
            else:
                assert kernel_key(changed) != key, (field.name, value)
            checked += 1
    assert checked > 50


def test_keys_of_all_changes_differ():
    base = kernel()
    changes = [
        dataclasses.replace(base, **{field.name: value})
        for field in dataclasses.fields(Kernel)
        if field.name != "label"
        for value in other(getattr(base, field.name))
    ]
    distinct = set(changes)
    assert len({kernel_key(change) for change in distinct}) == len(distinct)


def test_form():
    key = kernel_key(kernel())
    assert len(key) == 32
    assert int(key, 16)


def test_equal_kernels_share_it():
    assert kernel_key(kernel()) == kernel_key(kernel())


@pytest.mark.parametrize(("x", "y"), [(1, 1.0), (1, True), (0.0, False)])
def test_equal_constants_of_different_types_differ(x: object, y: object):
    keys = {
        kernel_key(
            Kernel(
                "k",
                1,
                (),
                (),
                ScalarFunction((Instruction("const", (), F8, value),), (0,)),
                (Assign(0, (0,)),),
            )
        )
        for value in (x, y)
    }
    assert len(keys) == 2


def test_values_of_literals_do_not_count():
    def of(number: float) -> Kernel:
        def square(b: FunctionBuilder) -> list[Statement]:
            value = b.apply("multiply", b.input(0, F8), b.literal(number))
            return [Assign(value.position, (0, 1))]

        return make_kernel([("f8", (0, 1))], square)

    assert kernel_key(of(2.5)) == kernel_key(of(3.5))


def test_which_operand_is_read_again_counts():
    def of(first: int, second: int) -> Kernel:
        def chain(b: FunctionBuilder) -> list[Statement]:
            values = [b.input(0, F8), b.input(1, F8)]
            values.append(b.apply("add", values[0], values[1]))
            result = b.apply("multiply", values[first], values[second])
            return [Assign(result.position, (0, 1))]

        return make_kernel([("f8", (0, 1))] * 2, chain)

    keys = {kernel_key(of(i, j)) for i in range(3) for j in range(3)}
    assert len(keys) == 9


def test_c_names_of_one_integer_type_do_not_count():
    kernels = [
        dataclasses.replace(kernel(), arrays=(ArrayParam(np.dtype(char), (0, 1)),))
        for char in ("l", "q")
    ]
    if kernels[0].arrays[0].dtype.itemsize == 8:
        assert kernel_key(kernels[0]) == kernel_key(kernels[1])


CODE = """
from dask_diffuse.kernel.key import kernel_key
from tests.unit.kernel.builders import elementwise
print(kernel_key(elementwise("floor_divide", "i4", "f4")))
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_same_in_every_process(seed: str):
    finished = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
    )
    assert finished.stdout.strip() == kernel_key(
        elementwise("floor_divide", "i4", "f4")
    )
