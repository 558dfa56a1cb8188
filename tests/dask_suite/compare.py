"""Compares the outcomes of a test suite without and with dask_diffuse.

::

    python -m tests.dask_suite.compare plain.xml fused.xml

Both files are JUnit XML as ``pytest --junitxml`` writes it. Ends with 1 if a test
passes without dask_diffuse and does not with it.
"""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Comparison", "compare", "read_outcomes"]

_WORST = ("failed", "error", "skipped", "passed")


@dataclass(frozen=True)
class Comparison:
    """Which tests changed their outcome.

    Parameters
    ----------
    plain, fused
        How many tests have each outcome.
    broken
        Tests that pass without dask_diffuse and not with it, and what became of them.
    mended
        Tests that pass with it only.
    """

    plain: Counter[str]
    fused: Counter[str]
    broken: dict[str, str]
    mended: dict[str, str]

    def __str__(self) -> str:
        lines = [f"plain: {_words(self.plain)}", f"fused: {_words(self.fused)}"]
        lines += [f"passed, now {now}: {test}" for test, now in self.broken.items()]
        lines += [
            f"{before}, now passed: {test}" for test, before in self.mended.items()
        ]
        lines.append(f"{len(self.broken)} tests pass without dask_diffuse only")
        return "\n".join(lines)


def read_outcomes(path: Path) -> dict[str, str]:
    """Return what became of each test in a JUnit file.

    A test with an error in its set-up or tear-down has more than one entry; the worst
    counts.
    """
    outcomes: dict[str, str] = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag for child in case}
        if "failure" in kinds:
            outcome = "failed"
        elif "error" in kinds:
            outcome = "error"
        else:
            outcome = "skipped" if "skipped" in kinds else "passed"
        known = outcomes.get(test, "passed")
        outcomes[test] = min(outcome, known, key=_WORST.index)
    return outcomes


def compare(plain: dict[str, str], fused: dict[str, str]) -> Comparison:
    """Compare the outcomes of the same tests.

    Examples
    --------
    >>> print(compare({"a": "passed", "b": "failed"}, {"a": "failed", "b": "failed"}))
    plain: 1 failed, 1 passed
    fused: 2 failed
    passed, now failed: a
    1 tests pass without dask_diffuse only
    """
    broken = {
        test: fused.get(test, "missing")
        for test, outcome in sorted(plain.items())
        if outcome == "passed" and fused.get(test) != "passed"
    }
    mended = {
        test: plain.get(test, "missing")
        for test, outcome in sorted(fused.items())
        if outcome == "passed" and plain.get(test) != "passed"
    }
    return Comparison(Counter(plain.values()), Counter(fused.values()), broken, mended)


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))


def main(argv: list[str] | None = None) -> int:
    """Compare two files; the exit status says whether a test got worse."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plain", type=Path, help="JUnit file of a run without the hook")
    parser.add_argument("fused", type=Path, help="JUnit file of a run with the plugin")
    paths = parser.parse_args(argv)
    plain = read_outcomes(paths.plain)
    result = compare(plain, read_outcomes(paths.fused))
    sys.stdout.write(f"{result}\n")
    if not result.plain["passed"]:
        sys.stdout.write("no test passed without the hook: nothing was compared\n")
        return 1
    return 1 if result.broken else 0


if __name__ == "__main__":
    sys.exit(main())
