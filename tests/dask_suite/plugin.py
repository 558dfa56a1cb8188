"""A pytest plugin that fuses whatever other people's tests compute.

::

    python -m pytest -p tests.dask_suite.plugin --diffuse-strict --pyargs dask.array

Every test runs with the hook enabled, for arrays of any size, and at the end stands how
much was fused. ``python -m tests.dask_suite dask.array`` runs a suite with and without
it and compares the outcomes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dask_diffuse
from dask_diffuse.errors import FallbackWarning
from dask_diffuse.fusion import grouping
from dask_diffuse.optimizer import hook_counts
from dask_diffuse.runtime.counters import call_counters, forget_warnings

_HOOK = ("fused", "groups", "unfused", "small", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dask_diffuse")
    group.addoption(
        "--diffuse-strict",
        action="store_true",
        help="let mistakes of dask_diffuse raise instead of falling back",
    )
    group.addoption(
        "--diffuse-backend", default="auto", help="option 'backend' of the hook"
    )
    group.addoption(
        "--diffuse-eager",
        action="store_true",
        help="make kernels of single operations, too, where NumPy is as fast",
    )
    group.addoption(
        "--diffuse-report", default=None, help="also write the counts to this JSON file"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--diffuse-eager"):
        # Not an option of the package: it would only make programs slower.
        grouping._pays = lambda facts, group: True
    config.pluginmanager.register(_Fuser(config), "dask_diffuse.fuser")


class _Fuser:
    """Enables the hook around each test and adds up what happened."""

    def __init__(self, config: pytest.Config) -> None:
        self._options = {
            "min_bytes": 0,
            "backend": config.getoption("--diffuse-backend"),
            "strict": config.getoption("--diffuse-strict"),
            "verify": True,
        }
        self._report = config.getoption("--diffuse-report")
        self._counts: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()
        self._tests_with_groups = 0
        self._warnings: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        # Tests may clear our counters, or raise in a fixture: the difference is taken
        # for each test by itself.
        call_counters.clear()
        forget_warnings()
        before = hook_counts()
        with dask_diffuse.enable(**self._options):
            result = yield
        after = hook_counts()
        self._counts.update({n: int(after[n] - before[n]) for n in _HOOK})
        self._tests_with_groups += after["groups"] > before["groups"]
        calls: dict[str, Any] = call_counters.snapshot()
        self._counts["calls"] += calls["calls"]
        self._counts["scalar_calls"] += calls["scalar_calls"]
        self._fallbacks.update(calls["fallbacks"])
        return result

    def pytest_warning_recorded(self, warning_message: Any, nodeid: str) -> None:
        if issubclass(warning_message.category, FallbackWarning):
            self._warnings.append(f"{nodeid}: {warning_message.message}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        counts = self._counts
        write = terminalreporter.write_line
        terminalreporter.section("dask_diffuse")
        write(
            f"{self._tests_with_groups} tests had something fused: {counts['fused']} "
            f"graphs with {counts['groups']} groups; {counts['unfused']} graphs had "
            f"none, {counts['failed']} failed"
        )
        write(
            f"{counts['calls']} fused tasks ran as kernels and "
            f"{counts['scalar_calls']} on single numbers"
        )
        for reason, count in sorted(self._fallbacks.items()):
            write(f"{count} fell back: {reason}")
        for text in self._warnings:
            write(f"warning: {text}")
        if self._report:
            report = {
                "tests": self._tests_with_groups,
                "counts": dict(counts),
                "fallbacks": dict(self._fallbacks),
                "warnings": self._warnings,
            }
            Path(self._report).write_text(json.dumps(report, indent=2) + "\n")
