from __future__ import annotations

import operator
import sys
from types import ModuleType

import dask
import dask.array as da
import numpy as np
import pytest

from dask_diffuse.dask_api import Blockwise, DataNode, HighLevelGraph, flatten_keys
from dask_diffuse.ir.task import Partial
from dask_diffuse.lowering import LoweredGraph, LoweringError, lower
from dask_diffuse.options import Options
from dask_diffuse.runtime.call import KernelCall, run_kernel
from dask_diffuse.runtime.counters import call_counters
from tests.unit.lowering.builders import (
    ProgramBuilder,
    affine_kernel,
    group_of,
    plan_of,
    run_with_numpy,
)

STRICT = Options(strict=True)


@pytest.fixture(autouse=True)
def _numpy_kernels(monkeypatch):
    """Kernels that NumPy runs: nothing here is about code generation."""

    def get_kernel(kernel, options):
        return lambda *args: run_with_numpy(kernel, *args)

    fake = ModuleType("dask_diffuse.runtime.cpu")
    fake.get_kernel = get_kernel
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    call_counters.clear()


@pytest.fixture
def x():
    values = np.random.default_rng(0).normal(size=(7, 9))
    return da.from_array(values, chunks=(3, 4))


def compute(lowered: LoweredGraph, keys):
    graph = lowered.graph
    graph.validate()
    return dask.threaded.get(graph.to_dict(), keys)


def assemble(array: da.Array, lowered: LoweredGraph) -> np.ndarray:
    return da.core.concatenate3(compute(lowered, array.__dask_keys__()))


def calls_of(lowered: LoweredGraph) -> list[KernelCall]:
    tasks = lowered.graph.to_dict().values()
    found = [
        value.value if isinstance(value, DataNode) else value
        for task in tasks
        for value in (task, *getattr(task, "args", ()))
    ]
    return list({call for call in found if isinstance(call, KernelCall)})


def chain(x):
    """``mul = x * 2; add = mul + 1``, as arrays and as a program."""
    mul = x * 2
    add = mul + 1
    builder = ProgramBuilder(add)
    builder.opaque(x.name, [])
    tasks = [
        builder.scale(mul, x.name, "multiply", 2),
        builder.scale(add, mul.name, "add", 1),
    ]
    return mul, add, builder, tasks


class TestOneOutput:
    def lowered(self, x):
        _, add, builder, tasks = chain(x)
        program = builder.program([add.name])
        group = group_of(program, tasks, {add.name: (0,)}, affine_kernel())
        return add, lower(plan_of(program, group), add.dask, [add.name], options=STRICT)

    def test_keeps_its_name_and_its_values(self, x):
        add, lowered = self.lowered(x)
        np.testing.assert_array_equal(
            assemble(add, lowered), add.compute(optimize_graph=False)
        )
        assert call_counters.snapshot()["calls"] == 9

    def test_drops_the_temporary(self, x):
        add, lowered = self.lowered(x)
        assert lowered.fused == {add.name}
        kinds = sorted(name.split("-")[0] for name in lowered.graph.layers)
        assert kinds == ["add", "array", "kernel"]

    def test_is_symbolic(self, x):
        add, lowered = self.lowered(x)
        layer = lowered.graph.layers[add.name]
        assert isinstance(layer, Blockwise)
        assert not layer.is_materialized()

    def test_keeps_other_layers_as_they_are(self, x):
        _, lowered = self.lowered(x)
        assert lowered.graph.layers[x.name] is x.dask.layers[x.name]

    def test_keeps_what_is_known_about_the_array(self, x):
        add, lowered = self.lowered(x)
        known = lowered.graph.layers[add.name].collection_annotations
        assert known == add.dask.layers[add.name].collection_annotations
        assert known["dtype"] == "f8"

    def test_tasks_share_one_call(self, x):
        add, lowered = self.lowered(x)
        graph = lowered.graph.to_dict()
        (key,) = (k for k in graph if isinstance(k, str) and k.startswith("kernel"))
        tasks = [graph[k] for k in flatten_keys(add.__dask_keys__())]
        assert all(task.func is run_kernel for task in tasks)
        assert all(key in task.dependencies for task in tasks)

    def test_few_tasks_carry_their_call(self):
        x = da.from_array(np.arange(4.0), chunks=2)
        _, add, builder, tasks = chain(x)
        program = builder.program([add.name])
        group = group_of(program, tasks, {add.name: (0,)}, affine_kernel(ndim=1))
        lowered = lower(plan_of(program, group), add.dask, [add.name], options=STRICT)
        assert sorted(lowered.graph.layers) == sorted([x.name, add.name])
        assert len(calls_of(lowered)) == 1

    def test_is_deterministic(self, x):
        keys = {call.key for _ in range(2) for call in calls_of(self.lowered(x)[1])}
        assert len(keys) == 1

    def test_falls_back_to_the_original_functions(self, x):
        add, lowered = self.lowered(x)
        with np.errstate(divide="raise"):
            result = assemble(add, lowered)
        np.testing.assert_array_equal(result, add.compute(optimize_graph=False))
        assert call_counters.snapshot()["fallbacks"] == {"errstate": 9}


class TestSeveralOutputs:
    def lowered(self, x, requested=None, readers=()):
        mul, add, builder, tasks = chain(x)
        for name, reads in readers:
            builder.opaque(name, reads)
        requested = [mul.name, add.name] if requested is None else requested
        program = builder.program(requested)
        results = {mul.name: (0,), add.name: (1,)}
        group = group_of(program, tasks, results, affine_kernel(("mul", "add")))
        plan = plan_of(program, group)
        return mul, add, plan

    def test_requested_blocks_keep_their_names(self, x):
        mul, add, plan = self.lowered(x)
        lowered = lower(plan, add.dask, [mul.name, add.name], options=STRICT)
        assert not any(
            layer.is_materialized()
            for name, layer in lowered.graph.layers.items()
            if isinstance(layer, Blockwise)
        )
        np.testing.assert_array_equal(
            assemble(mul, lowered), mul.compute(optimize_graph=False)
        )
        np.testing.assert_array_equal(
            assemble(add, lowered), add.compute(optimize_graph=False)
        )

    def test_the_carrier_has_a_readable_name(self, x):
        mul, add, plan = self.lowered(x)
        lowered = lower(plan, add.dask, [mul.name, add.name], options=STRICT)
        (name,) = lowered.fused
        assert name.startswith("mul-add-")
        assert dask.utils.key_split(name) == "mul-add"
        assert len(name) == len("mul-add-") + 32

    def test_unwanted_outputs_cost_no_task(self, x):
        mul, add, plan = self.lowered(x)
        lowered = lower(plan, add.dask, [add.name], options=STRICT)
        assert mul.name not in lowered.graph.layers

    def test_lists_of_tasks_select_for_themselves(self, x):
        _, add, _ = self.lowered(x)
        keys = list(flatten_keys(add.__dask_keys__()))
        tasks = {
            "graph-node": dask._task_spec.Task(
                "graph-node",
                np.block,
                dask._task_spec.List(
                    *(dask._task_spec.TaskRef(key) for key in keys[:2])
                ),
            ),
            "alias": dask._task_spec.Alias("alias", keys[0]),
            "legacy": (operator.add, (np.negative, keys[0]), [keys[1], 1][1]),
            "key": keys[0],
        }
        hlg = HighLevelGraph(
            {**add.dask.layers, "list": tasks},
            {**add.dask.dependencies, "list": {add.name}},
        )
        _mul, add, plan = self.lowered(x, ["list"], [("list", [add.name])])
        lowered = lower(plan, hlg, ["list"], options=STRICT)
        assert add.name not in lowered.graph.layers
        expected = dask.get(hlg.to_dict(), list(tasks))
        for actual, wanted in zip(compute(lowered, list(tasks)), expected, strict=True):
            np.testing.assert_array_equal(actual, wanted)

    def test_symbolic_readers_get_a_layer_of_the_old_name(self, x):
        _mul, add, _ = self.lowered(x)
        outer = add.map_blocks(np.sort, dtype="f8")
        _, _, plan = self.lowered(x, [outer.name], [(outer.name, [add.name])])
        lowered = lower(plan, outer.dask, [outer.name], options=STRICT)
        assert lowered.graph.layers[outer.name] is outer.dask.layers[outer.name]
        assert add.name in lowered.graph.layers
        np.testing.assert_array_equal(
            assemble(outer, lowered), outer.compute(optimize_graph=False)
        )


@pytest.mark.parametrize("partial", [Partial.MEAN, Partial.MOMENTS, Partial.ARG])
def test_partial_results_are_what_dask_expects(x, partial):
    _mul, add, builder, tasks = chain(x)
    total = {Partial.MEAN: da.mean, Partial.MOMENTS: da.std, Partial.ARG: da.argmax}
    result = total[partial](add)
    name = next(
        name for name, needed in result.dask.dependencies.items() if add.name in needed
    )
    builder.hlg = result.dask
    tasks.append(builder.total(name, add, partial))
    last = name
    while last != result.name:
        (reader,) = result.dask.dependents[last]
        builder.opaque(reader, [last])
        last = reader
    program = builder.program([result.name])
    kind = {Partial.MOMENTS: "moments", Partial.ARG: "argmax"}.get(partial, "sum")
    kernel = affine_kernel((), total=kind)
    group = group_of(program, tasks, {name: (0,)}, kernel)
    lowered = lower(plan_of(program, group), result.dask, [result.name], options=STRICT)
    expected = result.compute(optimize_graph=False)
    actual = compute(lowered, (result.name,))
    assert type(actual) is type(expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-13)
    assert call_counters.snapshot()["calls"] == 9
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(compute(lowered, (result.name,)), expected)


def test_a_group_that_is_not_as_planned_stays_as_it_was(x):
    _, add, builder, tasks = chain(x)
    program = builder.program([add.name])
    group = group_of(program, tasks, {add.name: (0,)}, affine_kernel())
    mapping = {k: v for k, v in add.dask.to_dict().items() if k[0] == add.name}
    hlg = HighLevelGraph({**add.dask.layers, add.name: mapping}, add.dask.dependencies)
    plan = plan_of(program, group)
    with pytest.raises(LoweringError, match="list of tasks"):
        lower(plan, hlg, [add.name], options=STRICT)
    lowered = lower(plan, hlg, [add.name], options=Options())
    assert not lowered.fused
    np.testing.assert_array_equal(
        assemble(add, lowered), add.compute(optimize_graph=False)
    )


def test_annotations_are_merged(x):
    with dask.annotate(priority=2, retries=1):
        mul = x * 2
    with dask.annotate(priority=5):
        add = mul + 1
    builder = ProgramBuilder(add)
    builder.opaque(x.name, [])
    tasks = [
        builder.scale(mul, x.name, "multiply", 2),
        builder.scale(add, mul.name, "add", 1),
    ]
    program = builder.program([add.name])
    group = group_of(program, tasks, {add.name: (0,)}, affine_kernel())
    with dask.annotate(priority=9):
        lowered = lower(plan_of(program, group), add.dask, [add.name], options=STRICT)
    layers = lowered.graph.layers
    assert layers[add.name].annotations == {"priority": 5, "retries": 1}
    assert layers[x.name].annotations is None
