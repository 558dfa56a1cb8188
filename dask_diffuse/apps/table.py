"""Tables for a terminal, drawn by rich where it is installed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

__all__ = ["format_bytes", "format_seconds", "format_table"]

_SHORTEST_LINE = 72
_LONGEST_LINE = 160


def format_seconds(seconds: float | None) -> str:
    """Write seconds with three digits that matter.

    Parameters
    ----------
    seconds
        None for what was not measured.

    Examples
    --------
    >>> format_seconds(1.23456), format_seconds(0.00123456), format_seconds(None)
    ('1.23 s', '1.23 ms', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 0.1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def format_bytes(nbytes: int) -> str:
    """Write a number of bytes in the unit that suits it.

    Parameters
    ----------
    nbytes
        How many.

    Examples
    --------
    >>> format_bytes(3 << 30), format_bytes(5 << 20), format_bytes(2048)
    ('3.00 GiB', '5 MiB', '2 KiB')
    """
    if nbytes >= 1 << 30:
        return f"{nbytes / (1 << 30):.2f} GiB"
    if nbytes >= 1 << 20:
        return f"{nbytes / (1 << 20):.0f} MiB"
    return f"{nbytes / (1 << 10):.0f} KiB" if nbytes >= 1 << 10 else f"{nbytes} bytes"


def format_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1
) -> str:
    """Return a table as text.

    Parameters
    ----------
    title
        A line above it.
    header
        Names of the columns.
    rows
        What is in it.
    left
        How many columns are aligned to the left; numbers come after them.

    Examples
    --------
    >>> "1.5 s" in format_table("Times", ["", "fused"], [["first run", "1.5 s"]])
    True
    """
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        # Rich is an extra; what it draws can be read without it.
        return _plain_table(title, header, rows, left)
    table = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(header):
        table.add_column(Text(name), justify="left" if number < left else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=_width(table))
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return "\n".join([title, *lines])


def _width(table: Any) -> int:
    """Return the width of a table that no cell is broken in, or of the terminal."""
    from rich.console import Console

    natural = Console(width=_LONGEST_LINE).measure(table).maximum
    terminal = shutil.get_terminal_size(fallback=(_LONGEST_LINE, 0)).columns
    return max(min(natural, terminal), _SHORTEST_LINE)


def _plain_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], left: int
) -> str:
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [title]
    for line in lines:
        cells = (
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)
