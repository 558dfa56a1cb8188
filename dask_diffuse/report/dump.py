"""The folder of `DIFFUSE_DUMP`: for each graph, what the passes made of it, as files.

Only for debugging: whatever goes wrong here is logged and never raised.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from dask_diffuse.ir.printer import format_program
from dask_diffuse.report.dot import dot_text
from dask_diffuse.report.explanation import Explanation, KernelReport
from dask_diffuse.report.layers import format_layers
from dask_diffuse.report.trace import GraphTrace

__all__ = ["MAX_GRAPHS", "dump_graph"]

logger = logging.getLogger(__name__)

MAX_GRAPHS = 200
"""How many graphs one folder takes. Files are never removed: they may be wanted."""

_MAX_KERNELS = 50
_MAX_CHARACTERS = 4_000_000

_NUMBERED = re.compile(r"graph-(\d+)$")

_Files = Iterator[tuple[str, Callable[[], str]]]


def dump_graph(trace: GraphTrace, folder: str, *, exact_math: bool) -> Path | None:
    """Write what is known of one graph into a new folder below `folder`.

    The folder ``graph-0007`` appears at once with all its files, so that several
    processes may write, and others read, at the same time.

    Parameters
    ----------
    trace
        What the passes made of the graph, as far as they came.
    folder
        Made if it is not there.
    exact_math
        As in the options; it shapes the text of kernels.

    Returns
    -------
    Path or None
        The new folder, or None if nothing could be written, for which the log has the
        reason.
    """
    try:
        return _dump(trace, Path(folder), exact_math)
    except OSError as error:
        # The folder is to blame, and where we are does not matter.
        logger.warning("could not write a graph to %r: %s", folder, error)
        return None
    except Exception:
        logger.warning("could not write a graph to %r", folder, exc_info=True)
        return None


def _dump(trace: GraphTrace, folder: Path, exact_math: bool) -> Path | None:
    folder.mkdir(parents=True, exist_ok=True)
    number = _next_number(folder)
    if number >= MAX_GRAPHS:
        logger.warning(
            "%s holds %d graphs, and takes no more; empty it, or name another one",
            folder,
            MAX_GRAPHS,
        )
        return None
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder))
    try:
        for name, text in _files(trace, exact_math):
            _write(temporary / name, text)
        return _publish(temporary, folder, number)
    finally:
        # Gone if it was published.
        shutil.rmtree(temporary, ignore_errors=True)


def _next_number(folder: Path) -> int:
    found = (_NUMBERED.match(entry.name) for entry in folder.iterdir())
    return max((int(match[1]) + 1 for match in found if match), default=0)


def _publish(temporary: Path, folder: Path, number: int) -> Path | None:
    for candidate in range(number, MAX_GRAPHS):
        target = folder / f"graph-{candidate:04d}"
        try:
            # Fails if another process has taken the number: a folder replaces only an
            # empty one.
            os.rename(temporary, target)
        except OSError:
            if not target.exists():
                raise
            continue
        return target
    return None


def _write(path: Path, make_text: Callable[[], str]) -> None:
    try:
        text = make_text()
    except Exception:
        text = f"could not be made:\n{traceback.format_exc()}"
    if len(text) > _MAX_CHARACTERS:
        text = f"{text[:_MAX_CHARACTERS]}\ncut: {len(text)} characters in all\n"
    path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


def _files(trace: GraphTrace, exact_math: bool) -> _Files:
    yield "00-layers.txt", lambda: format_layers(trace.before)
    program = trace.program
    if program is not None:
        yield "10-program.txt", lambda: format_program(program)
    explanation = trace.explanation(exact_math=exact_math)
    if explanation is not None:
        yield from _plan_files(explanation)
    after = trace.after
    if after is not None:
        yield "80-layers.txt", lambda: format_layers(after)
    yield "99-passes.txt", lambda: _passes_text(trace)


def _plan_files(explanation: Explanation) -> _Files:
    yield "20-plan.txt", lambda: str(explanation)
    yield "21-plan.dot", lambda: dot_text(explanation.plan)
    for number, kernel in enumerate(explanation.kernels[:_MAX_KERNELS]):
        yield from _kernel_files(number, kernel)
    yield "90-report.json", lambda: json.dumps(explanation.to_dict(), indent=1)


def _kernel_files(number: int, kernel: KernelReport) -> _Files:
    label = re.sub(r"[^A-Za-z0-9_-]+", "-", kernel.label)[:60]
    yield f"3{2 * number:02d}-{label}.txt", partial(kernel.source, "ir")
    yield f"3{2 * number + 1:02d}-{label}-core.txt", partial(kernel.source, "core")


def _passes_text(trace: GraphTrace) -> str:
    if trace.error is None:
        return str(trace)
    return f"{trace}\n\n{''.join(traceback.format_exception(trace.error))}"
