"""Ranges: the one list of tasks that creates something kernels can."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

from dask_diffuse.dask_api import HighLevelGraph, MaterializedLayer
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.task import Elementwise
from dask_diffuse.ir.verify import verify_program
from dask_diffuse.kernel.interpret import evaluate
from tests.unit.frontend.checks import program_of, refusal_of, task_of

RANGES = {
    "stop": ((20,), {"chunks": 6}),
    "start and step": ((5, 25, 3), {"chunks": 4}),
    "down": ((9, -9, -2), {"chunks": 4}),
    "floats": ((10.0,), {"chunks": 3}),
    "small ints": ((-5, 100, 7), {"chunks": 4, "dtype": "i1"}),
    "unsigned": ((200,), {"chunks": 64, "dtype": "u1"}),
    "one block": ((7,), {"chunks": 7}),
    "blocks of one": ((3,), {"chunks": 1}),
    "f4": ((-5, 9), {"chunks": 5, "dtype": "f4"}),
    "far": ((2**62, 2**62 + 9), {"chunks": 4}),
}


@pytest.mark.parametrize("name", RANGES)
def test_range(name):
    args, kwargs = RANGES[name]
    array = da.arange(*args, **kwargs)
    expected = array.compute(scheduler="sync")
    program = program_of(array)
    verify_program(program)
    task = task_of(program, array.name)
    assert isinstance(task.body, Elementwise)
    assert task.launch == array.numblocks
    assert task.space.chunks == array.chunks
    (read,) = task.reads
    assert read.store not in program.writers
    assert program.stores[read.store].origin.layer == array.name
    blocks = []
    begin = 0
    for length in array.chunks[0]:
        first = np.array([int(expected[begin])])
        (block,) = evaluate(task.body.function, [first], task.scalars, (length,))
        assert block.dtype == expected.dtype
        blocks.append(np.broadcast_to(block, length))
        begin += length
    np.testing.assert_array_equal(np.concatenate(blocks), expected)


def test_a_range_is_read_along_its_axis():
    array = da.arange(20, chunks=6) * da.ones((3, 20), chunks=(3, 6))
    task = program_of(array).tasks[-1]
    assert {access.partition.axes for access in task.reads} == {(1,), (0, 1)}


def test_a_range_whose_tasks_are_not_as_was_noted():
    array = da.arange(20, chunks=6)
    mapping = dict(array.dask.layers[array.name].mapping)
    mapping[array.name, 3] = mapping[array.name, 2]
    layer = MaterializedLayer(mapping)
    layer.collection_annotations = array.dask.layers[array.name].collection_annotations
    graph = HighLevelGraph({array.name: layer}, {array.name: set()})
    changed = da.Array(graph, array.name, array.chunks, dtype=array.dtype)
    assert refusal_of(changed).rule is Rule.UNSUPPORTED_ARGUMENT
