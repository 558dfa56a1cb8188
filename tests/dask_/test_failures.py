"""Whatever goes wrong in the hook or in a kernel, the user's computation goes on."""

from __future__ import annotations

import operator
import warnings

import dask
import dask.array as da
import numpy as np
import pytest

import dask_diffuse
import dask_diffuse.optimizer
import dask_diffuse.runtime.cpu
from dask_diffuse.errors import FallbackWarning
from dask_diffuse.runtime.counters import forget_warnings
from tests.helpers import fused

X = np.arange(40.0).reshape(4, 10)


@pytest.fixture(autouse=True)
def _fresh():
    forget_warnings()
    with dask.config.set(scheduler="sync"):
        yield


def program() -> da.Array:
    x = da.from_array(X, chunks=(2, 5))
    return (x * 2 + 1).sum(axis=0)


EXPECTED = (X * 2 + 1).sum(axis=0)


def break_(monkeypatch: pytest.MonkeyPatch, module, name: str) -> None:
    def broken(*args, **kwargs):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(module, name, broken)


PASSES = ["import_graph", "plan_fusion", "lower", "finish"]


class TestHook:
    @pytest.mark.parametrize("name", PASSES)
    def test_falls_back_and_says_why(self, monkeypatch, name):
        break_(monkeypatch, dask_diffuse.optimizer, name)
        with (
            pytest.warns(FallbackWarning, match="ZeroDivisionError: planted") as caught,
            fused(strict=False) as activity,
        ):
            first, second = program().compute(), program().compute()
        np.testing.assert_array_equal(first, EXPECTED)
        np.testing.assert_array_equal(second, EXPECTED)
        assert len(caught) == 1
        assert "[hook-failed]" in str(caught[0].message)
        assert activity.failed == 2
        assert not activity.calls

    @pytest.mark.parametrize("name", PASSES)
    def test_strict_raises(self, monkeypatch, name):
        break_(monkeypatch, dask_diffuse.optimizer, name)
        with pytest.raises(ZeroDivisionError, match="planted"), fused():
            program().compute()

    def test_can_be_silenced(self, monkeypatch):
        break_(monkeypatch, dask_diffuse.optimizer, "lower")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with fused(strict=False, silence=("hook-failed",)):
                result = program().compute()
        np.testing.assert_array_equal(result, EXPECTED)

    def test_persist_and_delayed_survive_as_well(self, monkeypatch):
        break_(monkeypatch, dask_diffuse.optimizer, "plan_fusion")
        with fused(strict=False):
            with pytest.warns(FallbackWarning):
                persisted = program().persist()
            total = dask.delayed(np.sum)(program()).compute()
        np.testing.assert_array_equal(persisted.compute(), EXPECTED)
        assert total == EXPECTED.sum()


class TestKernel:
    def test_what_does_not_compile(self, monkeypatch):
        break_(monkeypatch, dask_diffuse.runtime.cpu, "get_kernel")
        with (
            pytest.warns(FallbackWarning, match="planted") as caught,
            fused(strict=False) as activity,
        ):
            result = program().compute()
        np.testing.assert_array_equal(result, EXPECTED)
        assert len(caught) == 1
        assert "[compile-failed]" in str(caught[0].message)
        assert activity.fallbacks == {"compile-failed": 4}

    def test_what_fails_when_it_runs(self, monkeypatch):
        def get_kernel(kernel, options):
            return lambda arrays, scalars, extents: operator.truediv(1, 0)

        monkeypatch.setattr(dask_diffuse.runtime.cpu, "get_kernel", get_kernel)
        with (
            pytest.warns(FallbackWarning, match="ZeroDivisionError"),
            fused(strict=False) as activity,
        ):
            result = program().compute()
        np.testing.assert_array_equal(result, EXPECTED)
        assert activity.fallbacks == {"kernel-failed": 4}

    def test_strict_raises(self, monkeypatch):
        break_(monkeypatch, dask_diffuse.runtime.cpu, "get_kernel")
        with pytest.raises(ZeroDivisionError, match="planted"), fused():
            program().compute()

    def test_no_memory_is_no_reason_to_use_more(self, monkeypatch):
        def run(arrays, scalars, extents):
            raise MemoryError

        monkeypatch.setattr(
            dask_diffuse.runtime.cpu, "get_kernel", lambda kernel, options: run
        )
        with pytest.raises(MemoryError), fused(strict=False):
            program().compute()


class TestUserErrors:
    """What NumPy raises, we raise."""

    def test_errstate(self):
        x = da.from_array(np.array([1.0, 0.0, 2.0, 3.0]), chunks=2)
        with fused() as activity, np.errstate(all="raise"):
            with pytest.raises(FloatingPointError, match="divide by zero"):
                (1 / x + 1).compute()
            result = (x * 2 + 1).compute()
        np.testing.assert_array_equal(result, [3, 1, 5, 7])
        assert set(activity.fallbacks) == {"errstate"}
        assert not activity.calls

    def test_errstate_in_threads(self):
        x = da.from_array(np.zeros(8), chunks=2)
        with (
            fused(),
            np.errstate(divide="raise"),
            pytest.raises(FloatingPointError),
            dask.config.set(scheduler="threads"),
        ):
            (1 / x + 1).compute()

    def test_errstate_call(self):
        seen = []
        x = da.from_array(np.zeros(2), chunks=2)
        with (
            fused(),
            np.errstate(divide="call", call=lambda kind, flag: seen.append(kind)),
        ):
            (1 / x + 1).compute()
        assert seen == ["divide by zero"]

    def test_integer_powers(self):
        x = da.from_array(np.array([2, 3]), chunks=1)
        y = da.from_array(np.array([1, -1]), chunks=1)
        with fused(), pytest.raises(ValueError, match="negative integer powers"):
            (x**y + 1).compute()

    def test_a_function_that_raises(self):
        def refuse(block):
            raise KeyError("of the user")

        x = da.from_array(X, chunks=5)
        with fused(), pytest.raises(KeyError, match="of the user"):
            ((x * 2 + 1).map_blocks(refuse, dtype=x.dtype) + 1).compute()

    def test_a_source_that_raises(self):
        def load():
            raise OSError("no such file")

        x = da.from_delayed(dask.delayed(load)(), (3,), float)
        with fused(), pytest.raises(OSError, match="no such file"):
            (x * 2 + 1).compute()
