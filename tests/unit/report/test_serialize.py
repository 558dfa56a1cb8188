from __future__ import annotations

import json
import math

import numpy as np
import pytest

from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.report import program_from_dict, program_to_dict
from dask_diffuse.report.serialize import _function_from_dict, _function_to_dict


def through_json(saved):
    return json.loads(json.dumps(saved))


def test_a_program_survives(program):
    saved = program_to_dict(program)
    again = program_from_dict(through_json(saved))
    assert program_to_dict(again) == saved
    assert again.stores == program.stores
    assert again.requested == program.requested
    assert again.decisions == program.decisions
    assert [t.body for t in again.tasks] == [t.body for t in program.tasks]


def test_equal_partitions_are_still_one_object(program):
    again = program_from_dict(through_json(program_to_dict(program)))
    first, second, third, _ = again.tasks
    assert first.space is second.space is second.writes[0].partition
    assert third.writes[0].partition is not first.space


def test_literals_keep_dtype_and_value(program):
    again = program_from_dict(through_json(program_to_dict(program)))
    two, nan = again.tasks[0].scalars[0], again.tasks[1].scalars[0]
    assert two == 2.0
    assert type(two) is np.float64
    assert math.isnan(nan)


@pytest.mark.parametrize("value", [True, 3, -0.0, 2.5, math.inf, 1 - 2j])
def test_constants_keep_their_type(value):
    const = Instruction("const", (), np.dtype(type(value)), value)
    saved = _function_to_dict(ScalarFunction((const,), (0,)))
    again = _function_from_dict(through_json(saved)).instructions[0].attr
    assert repr(again) == repr(value)
    assert type(again) is type(value)
