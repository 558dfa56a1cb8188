from __future__ import annotations

import operator
import pickle
import sys
import threading
from types import ModuleType

import cloudpickle
import numpy as np
import pytest
from dask.tokenize import tokenize

from dask_diffuse.errors import CompileError, FallbackWarning
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel
from dask_diffuse.options import Options
from dask_diffuse.runtime import counters
from dask_diffuse.runtime.call import (
    ArgRef,
    Binding,
    Guard,
    KernelCall,
    Output,
    Step,
    StepRef,
    run_kernel,
)

F8 = np.dtype("f8")


def double_plus(
    *, axes=((0, 1),), ndim=2, broadcast=((),), shape=None, options=None, outputs=1
):
    """``mul = x * 2.0; add = mul + y``, where y is x or a second array."""
    count = len(axes)
    kernel = Kernel(
        "mul, add",
        ndim,
        tuple(ArrayParam(F8, a) for a in axes),
        (F8,),
        ScalarFunction(
            (
                *(Instruction("input", (), F8, k) for k in range(count)),
                Instruction("scalar", (), F8, 0),
                Instruction("multiply", (0, count), F8),
                Instruction("add", (count + 1, count - 1), F8),
            ),
            (count + 1, count + 2)[-outputs:],
        ),
        tuple(
            Assign(value, tuple(range(ndim)))
            for value in (count + 1, count + 2)[-outputs:]
        ),
    )
    return KernelCall(
        key="0" * 32,
        kernel=kernel,
        scalars=(np.float64(2),),
        guards=tuple(
            Guard(ArgRef(k), F8, len(a), b)
            for k, (a, b) in enumerate(zip(axes, broadcast, strict=True))
        ),
        shape=shape,
        outputs=tuple(
            Output("array", (k,), k + 2 - outputs, (), F8) for k in range(outputs)
        ),
        steps=(
            Step(np.multiply, (ArgRef(0), 2.0)),
            Step(operator.add, (StepRef(0), ArgRef(count - 1))),
        ),
        options=options or Options(strict=True),
    )


class Runs:
    """Kernels that NumPy runs, and a record of what they were given."""

    def __init__(self):
        self.seen = []
        self.error = None

    def get_kernel(self, kernel, options):
        if self.error is not None:
            raise self.error

        def run(arrays, scalars, extents):
            self.seen.append(([type(a) for a in arrays], extents))
            first, last = (
                array.reshape([extents[a] if a in p.axes else 1 for a in (0, 1)])
                if array.ndim == 1
                else np.broadcast_to(array, extents)
                for array, p in (
                    (arrays[0], kernel.arrays[0]),
                    (arrays[-1], kernel.arrays[-1]),
                )
            )
            mul = first * scalars[0]
            return [mul, mul + last][-len(kernel.statements) :]

        return run


@pytest.fixture(autouse=True)
def runs(monkeypatch):
    runs = Runs()
    fake = ModuleType("dask_diffuse.runtime.cpu")
    fake.get_kernel = runs.get_kernel
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    counters.call_counters.clear()
    counters.forget_warnings()
    return runs


def fallbacks():
    return counters.call_counters.snapshot()["fallbacks"]


X = np.arange(12.0).reshape(3, 4)


class TestKernelRuns:
    @pytest.mark.parametrize(
        "block",
        [
            X,
            np.asfortranarray(X),
            np.concatenate([X, X])[::2],
            X[::-1],
            np.broadcast_to(1.5, (3, 4)),
        ],
        ids=["c", "fortran", "strided", "negative", "zero-stride"],
    )
    def test_any_strides(self, runs, block):
        np.testing.assert_array_equal(double_plus()(block), block * 2.0 + block)
        assert runs.seen == [([np.ndarray], (3, 4))]
        assert not fallbacks()

    def test_several_outputs_are_a_tuple(self):
        results = run_kernel(double_plus(outputs=2), X)
        assert type(results) is tuple
        np.testing.assert_array_equal(results[0], X * 2)
        np.testing.assert_array_equal(results[1], X * 3)

    def test_a_block_inside_a_tuple(self):
        call = double_plus()
        guard = Guard(ArgRef(0, 1), F8, 2)
        call = KernelCall(
            **{f: getattr(call, f) for f in call.__dataclass_fields__}
            | {"guards": (guard,)}
        )
        np.testing.assert_array_equal(call(("other", X)), X * 3)

    @pytest.mark.parametrize("scalar", [np.float64(3), np.array(3.0)])
    def test_single_numbers(self, runs, scalar):
        call = double_plus(axes=((0, 1), ()), broadcast=((), ()))
        np.testing.assert_array_equal(call(X, scalar), X * 2 + 3)
        assert runs.seen == [([np.ndarray, np.ndarray], (3, 4))]

    def test_unaligned_blocks_are_taken(self, runs):
        np.testing.assert_array_equal(double_plus()(unaligned(X)), X * 3)
        assert runs.seen == [([np.ndarray], (3, 4))]
        assert not fallbacks()

    def test_rows_are_repeated(self, runs):
        call = double_plus(axes=((0, 1), (0, 1)), broadcast=((), (0,)))
        np.testing.assert_array_equal(call(X, X[:1]), X * 2 + X[:1])
        assert not fallbacks()

    def test_extents_from_two_arrays(self, runs):
        call = double_plus(axes=((0,), (1,)), broadcast=((), ()))
        call(np.arange(3.0), np.arange(4.0))
        assert runs.seen == [([np.ndarray, np.ndarray], (3, 4))]

    def test_extents_from_the_host(self, runs):
        call = double_plus(axes=((),), ndim=2, broadcast=((),), shape=Binding(1))
        np.testing.assert_array_equal(call(np.float64(3), (2, 2)), np.full((2, 2), 9.0))

    def test_numbers_need_no_kernel(self, runs):
        call = double_plus(axes=((),), ndim=0)
        result = call(np.float64(3))
        assert type(result) is np.float64
        assert result == 9
        assert not runs.seen
        assert counters.call_counters.snapshot()["scalar_calls"] == 1


class Subclass(np.ndarray):
    pass


def unaligned(values):
    raw = np.empty(values.nbytes + 1, "u1")[1:]
    array = raw.view("f8").reshape(values.shape)
    array[...] = values
    assert not array.flags.aligned
    return array


class TestOriginalFunctionsRun:
    @pytest.mark.parametrize(
        ("block", "reason"),
        [
            (X.view(Subclass), "block-type"),
            (np.ma.masked_array(X, X > 3), "block-type"),
            (X.astype("f4"), "block-dtype"),
            (X.astype(">f8"), "block-dtype"),
            (X.astype("O"), "block-dtype"),
            (X[0], "block-ndim"),
            (X[:0], "block-empty"),
        ],
    )
    def test_blocks_are_not_as_planned(self, runs, block, reason):
        result = double_plus()(block)
        expected = block * 2.0 + block
        assert type(result) is type(expected)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
        assert fallbacks() == {reason: 1}
        assert not runs.seen

    def test_lists_that_broadcast_but_were_not_planned_to(self, runs):
        call = double_plus(axes=((0, 1), (0, 1)), broadcast=((), ()))
        np.testing.assert_array_equal(call(X, X[:1]), X * 2 + X[:1])
        assert fallbacks() == {"block-shape": 1}

    def test_rows_that_were_planned_to_broadcast_but_do_not(self):
        call = double_plus(axes=((0, 1), (0, 1)), broadcast=((), (0,)))
        np.testing.assert_array_equal(call(X, X), X * 3)
        assert fallbacks() == {"block-shape": 1}

    def test_numpy_raises_for_blocks_that_do_not_fit(self):
        call = double_plus(axes=((0, 1), (0, 1)), broadcast=((), ()))
        with pytest.raises(ValueError, match="broadcast"):
            call(X, X[:2])

    @pytest.mark.parametrize("mode", ["raise", "call", "print", "log"])
    def test_errstate(self, runs, mode):
        with np.errstate(over=mode):
            double_plus()(X)
        assert fallbacks() == {"errstate": 1}

    @pytest.mark.parametrize("mode", ["warn", "ignore"])
    def test_errstate_that_kernels_can_honor(self, runs, mode):
        with np.errstate(all=mode):
            double_plus()(X)
        assert not fallbacks()

    def test_errstate_raises(self):
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            double_plus()(np.full((1, 1), 1e308))

    def test_options_ask_for_it(self, runs):
        call = double_plus(options=Options(backend="interpreter"))
        np.testing.assert_array_equal(call(X), X * 3)
        assert fallbacks() == {"backend": 1}

    def test_steps_drop_what_is_dead(self):
        alive = []

        class Tracked(np.ndarray):
            pass

        def step(value):
            result = np.empty(1).view(Tracked)
            alive.append(result)
            counts.append(sum(sys.getrefcount(r) > 3 for r in alive))
            return result

        counts = []
        call = double_plus(options=Options(backend="interpreter"))
        steps = (
            Step(step, (ArgRef(0),)),
            *(Step(step, (StepRef(n),)) for n in range(9)),
        )
        fields = {f: getattr(call, f) for f in call.__dataclass_fields__}
        output = Output("array", (0,), 9, (), F8)
        KernelCall(**fields | {"steps": steps, "outputs": (output,)})(X)
        assert max(counts) <= 2

    def test_keywords_reach_the_function(self):
        call = double_plus(options=Options(backend="interpreter"))
        step = Step(np.sum, (ArgRef(0),), (("axis", (0,)), ("keepdims", True)))
        fields = {f: getattr(call, f) for f in call.__dataclass_fields__}
        output = Output("array", (0,), 0, (0,), F8)
        result = KernelCall(**fields | {"steps": (step,), "outputs": (output,)})(X)
        np.testing.assert_array_equal(result, X.sum(axis=0, keepdims=True))


class TestKernelsThatDoNotCompile:
    def test_warns_once_and_computes(self, runs):
        runs.error = CompileError("cpu", "mul, add", "no such instruction")
        call = double_plus(options=Options())
        with pytest.warns(
            FallbackWarning, match=r"no such instruction.*compile-failed"
        ):
            np.testing.assert_array_equal(call(X), X * 3)
        np.testing.assert_array_equal(call(X), X * 3)
        assert fallbacks() == {"compile-failed": 2}

    def test_can_be_silenced(self, runs):
        runs.error = OSError("disk on fire")
        double_plus(options=Options(silence=("compile-failed",)))(X)
        assert fallbacks() == {"compile-failed": 1}

    def test_strict_raises(self, runs):
        runs.error = CompileError("cpu", "mul, add", "no such instruction")
        with pytest.raises(CompileError):
            double_plus()(X)

    def test_a_kernel_that_raises(self, runs):
        runs.get_kernel = None

        def broken(*args):
            raise RuntimeError("segment missing")

        sys.modules["dask_diffuse.runtime.cpu"].get_kernel = lambda *args: broken
        with pytest.warns(FallbackWarning, match="kernel-failed"):
            np.testing.assert_array_equal(double_plus(options=Options())(X), X * 3)
        with pytest.raises(RuntimeError):
            double_plus()(X)


class TestTravel:
    @pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
    def test_pickles(self, dumps):
        call = double_plus()
        copy = pickle.loads(dumps(call))
        assert copy == call
        assert hash(copy) == hash(call)
        np.testing.assert_array_equal(copy(X), X * 3)

    def test_copies_in_one_process_are_one(self):
        pickled = pickle.dumps(double_plus())
        assert pickle.loads(pickled) is pickle.loads(pickled)

    def test_functions_made_at_run_time(self):
        call = double_plus(options=Options(backend="interpreter"))
        step = Step(lambda block: block + 1, (ArgRef(0),))
        fields = {f: getattr(call, f) for f in call.__dataclass_fields__}
        output = Output("array", (0,), 0, (), F8)
        call = KernelCall(
            **fields | {"key": "1" * 32, "steps": (step,), "outputs": (output,)}
        )
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(call))(X), X + 1)

    def test_is_small(self):
        assert len(pickle.dumps(double_plus())) < 2000

    def test_token_is_the_key(self):
        assert tokenize(double_plus()) == tokenize(double_plus())

    def test_threads_share_a_call(self):
        call = double_plus()
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(call(X))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 8
        assert counters.call_counters.snapshot()["calls"] == 8
