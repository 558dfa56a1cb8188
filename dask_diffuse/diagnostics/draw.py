"""Draw a program with its groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dask_diffuse.diagnostics.explain import explain
from dask_diffuse.errors import MissingPackageError
from dask_diffuse.options import Options
from dask_diffuse.report.dot import dot_text

__all__ = ["visualize"]

_TEXT_FORMATS = ("dot", "gv")


def visualize(
    *collections: Any,
    filename: str | Path | None = None,
    options: Options | None = None,
    **changes: Any,
) -> Any:
    """Draw what `explain` tells: index tasks, stores and groups.

    Parameters
    ----------
    *collections
        Dask arrays, or anything made of them.
    filename
        Where to write the picture; the suffix picks the format: ``.svg``, ``.png``,
        ``.pdf``, or ``.dot`` for the text that graphviz reads, which needs neither
        the package nor the program. None writes nothing.
    options, **changes
        As for `explain`.

    Returns
    -------
    graphviz.Source or None
        Shows itself in a notebook. None where `filename` ends in ``.dot``.

    Raises
    ------
    MissingPackageError
        If the package or the program graphviz is not installed.
    """
    text = dot_text(explain(*collections, options=options, **changes).plan)
    path = None if filename is None else Path(filename)
    if path is not None and path.suffix[1:] in _TEXT_FORMATS:
        path.write_text(text, encoding="utf-8")
        return None
    try:
        import graphviz
    except ImportError as error:
        raise MissingPackageError("graphviz", "drawing a program", "viz") from error
    drawing = graphviz.Source(text)
    if path is not None:
        try:
            picture = drawing.pipe(format=path.suffix[1:] or "svg")
        except graphviz.ExecutableNotFound as error:
            raise MissingPackageError(
                "graphviz",
                "drawing a program",
                remedy="Install the program graphviz (its command is 'dot') with the "
                "package manager of your system, or write to a file that ends in .dot",
            ) from error
        path.write_bytes(picture)
    return drawing
