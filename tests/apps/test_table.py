"""Tables, with rich and without."""

from __future__ import annotations

import sys

import pytest

from dask_diffuse.apps.table import format_bytes, format_seconds, format_table

HEADER = ["", "plain", "fused"]
ROWS = [["first run", "12.5 s", "1.2 s"], ["[tasks] " + "x" * 90, "1", "2"]]


@pytest.mark.parametrize("rich", [True, False])
def test_all_cells_in_order(rich: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "300")
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    text = format_table("A title", HEADER, ROWS)
    lines = text.splitlines()
    assert lines[0] == "A title"
    (first,) = [line for line in lines if "first run" in line]
    assert first.split() == ["first", "run", "12.5", "s", "1.2", "s"]
    # Text in brackets is no markup, and numbers end in one column.
    (second,) = [line for line in lines if "[tasks]" in line]
    assert first.rindex("12.5 s") + len("12.5 s") == second.rindex("1", 0, -2) + 1
    assert not any(line.endswith(" ") for line in lines)


def test_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = format_table("A title", HEADER, ROWS)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0 ms"),
        (0.0999, "99.9 ms"),
        (0.1, "0.1 s"),
        (99.94, "99.9 s"),
        (100.4, "100 s"),
        (12345.6, "12346 s"),
    ],
)
def test_seconds(seconds: float | None, text: str):
    assert format_seconds(seconds) == text


def test_bytes():
    assert format_bytes(0) == "0 bytes"
    assert format_bytes(484 << 10) == "484 KiB"
    assert format_bytes((1 << 30) - 1) == "1024 MiB"
