"""Makes ``benchmarks`` importable, as asv does, and everything tiny."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "asv_bench"
sys.path.insert(0, str(FOLDER))


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import common

    monkeypatch.setattr(common, "TINY", True)
