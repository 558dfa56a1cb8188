"""Pictures of results, drawn by matplotlib where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dask_diffuse.errors import MissingPackageError, OptionError

__all__ = ["check_picture", "new_figure", "save"]


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure that belongs to no window.

    Parameters
    ----------
    width, height
        In inches.

    Raises
    ------
    MissingPackageError
        Without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("matplotlib", "a picture", "demo") from error
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write a figure in the format that the suffix of the path names.

    Parameters
    ----------
    figure
        What `new_figure` made.
    path
        Where to.
    """
    figure.savefig(path, dpi=120)


def check_picture(path: Path) -> None:
    """Say what is wrong with the path of a picture before anything is computed.

    Parameters
    ----------
    path
        Where a picture is to go.

    Raises
    ------
    OptionError
        If it cannot be written, or has a suffix that names no format.
    """
    figure = new_figure(1, 1)
    formats = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        allowed = f"a file that ends in one of .{', .'.join(formats)}"
        raise OptionError("--output", str(path), allowed)
    if not path.absolute().parent.is_dir():
        raise OptionError("--output", str(path), "a file in a folder that exists")
