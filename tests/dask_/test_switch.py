"""Turning the hook on and off, and options that are wrong."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import dask
import dask.array as da
import numpy as np
import pytest

import dask_diffuse
from dask_diffuse.errors import DiffuseWarning, OptionError, VersionError
from dask_diffuse.optimizer import Optimizer
from dask_diffuse.options import Options
from dask_diffuse.runtime.counters import forget_warnings
from tests.helpers import fused, watch

ABSENT = object()


def hook():
    return dask.config.config.get("array_optimize", ABSENT)


def program():
    x = da.from_array(np.arange(100.0), chunks=50)
    return x * 2 + 1


class TestNesting:
    def test_nothing_is_set_at_first(self):
        assert hook() is ABSENT

    def test_enable_and_disable(self):
        dask_diffuse.enable(min_bytes=0)
        assert isinstance(hook(), Optimizer)
        dask_diffuse.disable()
        assert hook() is ABSENT

    def test_contexts_nest(self):
        with dask_diffuse.enable(min_bytes=1):
            outer = hook()
            with dask_diffuse.enable(min_bytes=2):
                assert hook().options.min_bytes == 2
                with dask_diffuse.disable():
                    assert hook() is ABSENT
                assert hook().options.min_bytes == 2
            assert hook() is outer
        assert hook() is ABSENT

    def test_exceptions_restore(self):
        with pytest.raises(KeyError), dask_diffuse.enable():
            raise KeyError
        assert hook() is ABSENT

    def test_the_hook_of_somebody_else_comes_back(self):
        def other(graph, keys, **kwargs):
            return graph

        with dask.config.set(array_optimize=other):
            with dask_diffuse.enable():
                with dask_diffuse.disable():
                    assert hook() is other
                assert isinstance(hook(), Optimizer)
            assert hook() is other

    def test_a_switch_that_was_never_entered_can_be_left_alone(self):
        dask_diffuse.enable()
        with dask_diffuse.disable():
            assert hook() is ABSENT
        assert isinstance(hook(), Optimizer)

    def test_enabling_twice_and_disabling_once(self):
        dask_diffuse.enable()
        dask_diffuse.enable(min_bytes=3)
        dask_diffuse.disable()
        assert hook() is ABSENT

    def test_threads_can_compute_meanwhile(self):
        z, expected, right = program(), np.arange(100.0) * 2 + 1, []

        def work():
            results = (z.compute(scheduler="sync") for _ in range(20))
            right.extend(np.array_equal(result, expected) for result in results)

        threads = [threading.Thread(target=work) for _ in range(4)]
        with fused() as activity:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert right == [True] * 80
        assert activity.calls == 160

    def test_disabled_by_the_environment(self, monkeypatch):
        monkeypatch.setenv("DIFFUSE_DISABLE", "1")
        with fused() as activity:
            program().compute()
        assert not activity.graphs


class TestObject:
    def test_equal_options_make_equal_hooks(self):
        a, b = Optimizer(min_bytes=5), Optimizer(min_bytes=5)
        assert a == b
        assert hash(a) == hash(b)
        assert a != Optimizer(min_bytes=6)

    def test_pickles_small(self):
        a = Optimizer(min_bytes=5, backend="cpu")
        pickled = pickle.dumps(a)
        assert pickle.loads(pickled) == a
        assert len(pickled) < 1000

    def test_options_travel_with_the_hook(self):
        with dask.config.set({"diffuse.min-bytes": 17}):
            a = Optimizer()
        assert pickle.loads(pickle.dumps(a)).options.min_bytes == 17


class TestWrongOptions:
    def test_unknown_name(self):
        with pytest.raises(OptionError, match=r"min_byte.*min_bytes"):
            dask_diffuse.enable(min_byte=3)
        assert hook() is ABSENT

    @pytest.mark.parametrize(
        ("name", "value"),
        [("backend", "cpus"), ("min_bytes", -1), ("strict", "yes"), ("debug", 9)],
    )
    def test_wrong_value(self, name, value):
        with pytest.raises(OptionError) as caught:
            dask_diffuse.enable(**{name: value})
        assert name in str(caught.value)
        assert repr(value) in str(caught.value)
        assert hook() is ABSENT

    def test_wrong_configuration(self):
        with (
            dask.config.set({"diffuse.backend": "gpu"}),
            pytest.raises(OptionError, match=r"diffuse\.backend.*'gpu'.*interpreter"),
        ):
            dask_diffuse.enable()

    def test_wrong_configuration_of_the_function(self):
        # Set by hand, the hook reads the configuration when it runs; the computation
        # must not end for it.
        with (
            dask.config.set(
                {"array_optimize": dask_diffuse.optimize, "diffuse.debug": "much"}
            ),
            pytest.warns(DiffuseWarning, match=r"diffuse\.debug"),
        ):
            result = program().compute()
        np.testing.assert_array_equal(result, np.arange(100.0) * 2 + 1)

    def test_the_defaults_are_allowed(self):
        assert Options().replace() == Options()


class TestVersions:
    @pytest.mark.parametrize("version", ["2026.7.0", "2026.9.0", "2027.1.0", "2020.1"])
    def test_dask_that_is_not_known(self, monkeypatch, version):
        monkeypatch.setattr(dask, "__version__", version)
        with pytest.raises(VersionError) as caught:
            dask_diffuse.enable()
        assert f"dask {version} is installed" in str(caught.value)
        assert "pip install 'dask>=" in str(caught.value)
        assert hook() is ABSENT

    @pytest.mark.parametrize("version", ["2026.7.1", "2026.8.0", "2026.8.1.dev3"])
    def test_dask_that_is_known(self, monkeypatch, version):
        monkeypatch.setattr(dask, "__version__", version)
        with dask_diffuse.enable():
            assert isinstance(hook(), Optimizer)

    def test_another_dask_on_the_scheduler(self, monkeypatch):
        # The hook was made by a client; where it runs, it has to say so and go on.
        forget_warnings()
        optimizer = Optimizer(min_bytes=0)
        monkeypatch.setattr(dask, "__version__", "2027.1.0")
        z = program()
        with pytest.warns(DiffuseWarning, match=r"dask 2027\.1\.0 is installed"):
            graph = optimizer(z.dask, z.__dask_keys__())
        assert dask.get(graph, z.__dask_keys__())[0][0] == 1


class TestSmall:
    def test_small_arrays_are_left_alone(self):
        with dask_diffuse.enable(strict=True), watch() as activity:
            program().compute()
        assert not activity.graphs
        assert not activity.calls

    def test_many_small_blocks_are_not(self):
        x = da.from_array(np.arange(1000.0), chunks=10)
        with dask_diffuse.enable(strict=True), watch() as activity:
            (x * 2 + 1).compute()
        assert activity.calls == 100


EXPRESSIONS = """
import warnings
import dask
dask.config.set({"array.query-planning": True})
import dask.array as da
import dask_diffuse
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with dask_diffuse.enable(min_bytes=0):
        value = float((da.ones((4, 4), chunks=2) * 2 + 1).sum().compute())
texts = [str(w.message) for w in caught if "query-planning" in str(w.message)]
print(value, len(texts), texts[0] if texts else "")
"""


def test_expression_arrays_are_warned_about():
    finished = subprocess.run(
        [sys.executable, "-c", EXPRESSIONS], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.startswith("48.0 1 array.query-planning is on")
