"""Every benchmark runs once, tiny."""

from __future__ import annotations

import importlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "asv_bench"
MODULES = ("compile", "kernels", "memory", "optimize", "workloads")
METHOD = re.compile(r"(time|track|peakmem|mem)_\w+")
DEAR = {"BeyondInputs": 2}
"""Classes that start processes: so many of their parameters are enough."""


def classes() -> Iterator[tuple[str, str]]:
    for path in sorted((FOLDER / "benchmarks").glob("*.py")):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            if not name.startswith("_"):
                yield path.stem, name


def parameters(benchmark: Any) -> Iterator[tuple[Any, ...]]:
    axes = [
        # Of sizes the smallest is enough; the others differ in more than time.
        values[:1] if isinstance(values[0], int) else values
        for values in benchmark.params
    ]
    combinations = itertools.product(*axes)
    yield from itertools.islice(combinations, DEAR.get(benchmark.__name__))


def test_all_modules_have_benchmarks():
    assert {module for module, _ in classes()} == set(MODULES)


@pytest.mark.parametrize(("module", "name"), list(classes()))
def test_runs(module: str, name: str):
    benchmark = getattr(importlib.import_module(f"benchmarks.{module}"), name)
    methods = [method for method in dir(benchmark) if METHOD.fullmatch(method)]
    assert methods
    for values in parameters(benchmark):
        instance = benchmark()
        instance.setup(*values) if hasattr(instance, "setup") else None
        for method in methods:
            result = getattr(instance, method)(*values)
            assert method.startswith("track_") == (result is not None), method
        instance.teardown(*values) if hasattr(instance, "teardown") else None


def test_asv_finds_them(tmp_path: Path):
    pytest.importorskip("asv", reason="asv is in the group bench")
    from asv.benchmarks import Benchmarks  # noqa: F401
    from asv.config import Config

    config = Config.load(str(FOLDER / "asv.conf.json"))
    assert config.project == "dask-diffuse"
    assert (FOLDER / config.benchmark_dir).is_dir()


def test_the_settings_are_json():
    settings = json.loads((FOLDER / "asv.conf.json").read_text())
    assert settings["version"] == 1
