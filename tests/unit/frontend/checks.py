"""Import real graphs, and run each body block by block beside Dask's own tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import dask
import dask.array as da
import numpy as np

from dask_diffuse.frontend import import_graph
from dask_diffuse.ir.partition import Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import (
    Elementwise,
    IndexTask,
    Opaque,
    Partial,
    Reduction,
)
from dask_diffuse.kernel.interpret import interpret
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel
from dask_diffuse.options import Options
from dask_diffuse.runtime.assemble import assemble
from dask_diffuse.runtime.parts import Output

OPTIONS = Options(strict=True)


def program_of(*arrays: da.Array) -> Program:
    from dask.highlevelgraph import HighLevelGraph

    hlg = HighLevelGraph.merge(*(array.dask for array in arrays))
    return import_graph(hlg, {array.name for array in arrays}, options=OPTIONS)


def task_of(program: Program, name: str) -> IndexTask:
    return program.tasks[program.writers[name]]


def body_of(array: da.Array) -> Elementwise | Reduction | Opaque:
    return task_of(program_of(array), array.name).body


def refusal_of(array: da.Array):
    """The decision by which the last layer stays opaque."""
    body = body_of(array)
    assert isinstance(body, Opaque), body
    assert body.decision.subject == array.name
    assert not body.decision.accepted
    return body.decision


def labels_of(program: Program, kind: type) -> list[str]:
    return [t.origin.label for t in program.tasks if isinstance(t.body, kind)]


def check(
    *arrays: da.Array, ulp: int = 0, expect: str | Iterable[str] | None = None
) -> Program:
    """Compare each block of each layer that is no longer opaque with Dask's.

    `expect` are the labels of the layers that must not be opaque; all that the last
    ones are made of, by default.
    """
    program = program_of(*arrays)
    graph = {}
    for array in arrays:
        graph.update(array.dask.to_dict())
    done = [t for t in program.tasks if not isinstance(t.body, Opaque)]
    if expect is None:
        for array in arrays:
            body = task_of(program, array.name).body
            assert not isinstance(body, Opaque), body.decision
    else:
        wanted = expect.split() if isinstance(expect, str) else list(expect)
        assert [t.origin.label for t in done] == wanted
    assert done
    for task in done:
        _check_task(program, task, graph, ulp)
    return program


def _check_task(program, task, graph, ulp) -> None:
    for point in itertools.product(*map(range, task.launch)):
        keys = [_key(access, point) for access in task.accesses]
        with np.errstate(all="ignore"):
            *blocks, expected = dask.get(graph, keys)
        got = run_block(program, task, [np.asarray(b) for b in blocks], point, expected)
        if got is None:
            continue
        assert_same_block(got, expected, ulp, task)
        (write,) = task.writes
        lengths = write.partition.tile_shape(point)
        if isinstance(expected, np.ndarray | np.generic):
            # The dtype of a structured block is not what the store is declared to be.
            dtype = program.stores[write.store].dtype
            assert dtype is None or dtype == expected.dtype
            for planned, real in zip(lengths, expected.shape, strict=True):
                assert planned in (real, None)


def _key(access, point):
    partition = access.partition
    assert isinstance(partition, Tiling)
    index = [0 if axis is None else point[axis] for axis in partition.axes]
    return (access.store, *index)


def run_block(program, task, blocks, point, expected) -> Any:
    """What the interpreter makes of one block; None if the block is empty."""
    body = task.body
    extents = list(task.space.tile_shape(point))
    for block, axes in zip(blocks, body.operands, strict=True):
        assert block.ndim == len(axes)
        for length, axis in zip(block.shape, axes, strict=True):
            if extents[axis] is None or length > extents[axis]:
                extents[axis] = length
    if 0 in extents:
        return None
    kernel = kernel_of(task, [program.stores[a.store].dtype for a in task.reads])
    for block, param in zip(blocks, kernel.arrays, strict=True):
        assert block.dtype == param.dtype
    results = interpret(kernel, blocks, task.scalars, tuple(extents))
    if isinstance(body, Elementwise):
        return results[0]
    return _partial(task, results, tuple(extents), expected)


def kernel_of(task: IndexTask, dtypes) -> Kernel:
    body = task.body
    ndim = len(task.launch)
    params = tuple(
        ArrayParam(dtype, axes)
        for dtype, axes in zip(dtypes, body.operands, strict=True)
    )
    results = body.function.results
    if isinstance(body, Elementwise):
        statements = (Assign(results[0], tuple(range(ndim))),)
    else:
        statements = tuple(
            Accumulate(
                s.reduction, tuple(results[v] for v in s.values), body.axes, s.dtype
            )
            for s in body.statistics
        )
    scalars = tuple(scalar.dtype for scalar in task.scalars)
    label = task.origin.label
    return Kernel(label, ndim, params, scalars, body.function, statements)


def _partial(task, results, extents, expected):
    body = task.body
    form = body.partial.value
    if body.partial is Partial.MEAN and len(body.statistics) == 2:
        form = "nanmean"
    if body.partial is Partial.MOMENTS and len(body.statistics[0].values) == 2:
        form = "nanmoments"
    if body.partial is Partial.ARG:
        # Where the block lies is the business of the lowering: compare values.
        assert set(expected.dtype.names) == {"vals", "arg"}
        return {"vals": results[0]}
    output = Output(form, tuple(range(len(results))), 0, body.axes, body.partial_dtype)
    return assemble(output, results, (), extents)


def assert_same_block(got, expected, ulp, task) -> None:
    if isinstance(got, dict):
        for name in got:
            assert_same_block(got[name], np.asarray(expected[name]), max(ulp, 8), task)
        return
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype, (task.origin, got.dtype, expected.dtype)
    assert got.shape == expected.shape, (task.origin, got.shape, expected.shape)
    if ulp and got.dtype.kind in "fc":
        rtol = ulp * np.finfo(got.dtype).eps
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)
        return
    np.testing.assert_array_equal(got, expected)
    if got.dtype.kind == "f":
        numbers = ~np.isnan(got)
        np.testing.assert_array_equal(
            np.signbit(got)[numbers], np.signbit(expected)[numbers]
        )
