"""What a program to try out is: inputs, the program, and what it should give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import dask.array as da
import numpy as np

from dask_diffuse.errors import OptionError

__all__ = ["Arrays", "Difference", "Problem", "compare"]

Arrays: TypeAlias = tuple[da.Array, ...]
"""Inputs or outputs of a program."""

_PIECE = 1 << 20
"""Elements compared at a time, so that comparing takes little memory."""


@dataclass(frozen=True)
class Problem:
    """A program with all that is needed to run, check and time it.

    Parameters
    ----------
    name
        For the command line.
    summary
        What it computes, as a phrase.
    unit
        What its size counts, as a phrase: ``"options"``, ``"pixels a side"``.
    size
        By default.
    tiny
        For tests.
    blocks
        By default, along each axis that is cut into blocks.
    inputs
        Makes the inputs for a size and a length of blocks. They are the same in every
        process, and computed before the clock starts.
    program
        Makes the outputs from the inputs: plain dask.array.
    reference
        Makes the outputs from NumPy arrays, with nothing but NumPy.
    outputs
        Names of the outputs.
    rtol, atol
        How much the outputs of two ways of computing may differ: by ``atol`` plus
        ``rtol`` times the magnitude. Zeros ask for the same bits.
    goal
        How many times as fast as plain Dask it has to be, if it is one of the problems
        that we measure ourselves by.
    draw
        Writes a picture of the results to a file, if there is something to see.
    picture
        File to draw into if nobody says otherwise; none if empty.
    least
        The smallest size that makes sense.
    """

    name: str
    summary: str
    unit: str
    size: int
    tiny: int
    blocks: int
    inputs: Callable[[int, int], Arrays]
    program: Callable[..., Arrays]
    reference: Callable[..., tuple[Any, ...]]
    outputs: tuple[str, ...]
    rtol: float = 1e-9
    atol: float = 0.0
    goal: float | None = None
    draw: Callable[[tuple[Any, ...], Path], None] | None = None
    picture: str = ""
    least: int = 1

    def chunk(self, size: int) -> int:
        """Return the length of a block that gives the default number of blocks.

        Parameters
        ----------
        size
            Of the problem.
        """
        return max(1, math.ceil(size / self.blocks))

    def make_inputs(self, size: int | None = None, chunk: int | None = None) -> Arrays:
        """Return the inputs, not computed yet.

        Parameters
        ----------
        size
            What `unit` says; the default of the problem if None.
        chunk
            Length of a block; by default what gives the usual number of blocks.

        Raises
        ------
        OptionError
            If one of them is not a positive integer.
        """
        return self.inputs(*self.check(size, chunk))

    def check(self, size: int | None, chunk: int | None) -> tuple[int, int]:
        """Return a size and a length of blocks with the defaults filled in.

        Parameters
        ----------
        size, chunk
            As for `make_inputs`.

        Raises
        ------
        OptionError
            As `make_inputs` does.
        """
        size = self.size if size is None else size
        if size < self.least:
            allowed = f"a number of {self.unit} of at least {self.least}"
            raise OptionError("--size", size, allowed)
        chunk = self.chunk(size) if chunk is None else chunk
        if chunk < 1:
            raise OptionError("--chunks", chunk, "a length of blocks of at least 1")
        return size, chunk

    def compare(
        self, ours: tuple[Any, ...], theirs: tuple[Any, ...]
    ) -> tuple[Difference, ...]:
        """Return how far two results lie apart, output by output.

        Parameters
        ----------
        ours, theirs
            Computed outputs.
        """
        pairs = zip(self.outputs, ours, theirs, strict=True)
        return tuple(compare(*pair, rtol=self.rtol, atol=self.atol) for pair in pairs)


@dataclass(frozen=True)
class Difference:
    """How far two results of one computation lie apart.

    Parameters
    ----------
    name
        Of the output.
    largest
        The largest difference of two elements; infinity where one of them is not
        finite and the other one is something else, or where dtype or shape differ.
    allowed
        The tolerance, in words.
    within
        Whether all elements are within the tolerance.
    reason
        What differs beside the values, or an empty text.
    """

    name: str
    largest: float
    allowed: str
    within: bool
    reason: str = ""


def compare(
    name: str, ours: Any, theirs: Any, *, rtol: float, atol: float
) -> Difference:
    """Compare two results element by element; NaN is equal to NaN.

    Parameters
    ----------
    name
        What they are, for the outcome.
    ours, theirs
        Arrays or NumPy scalars.
    rtol, atol
        As for `Problem`.

    Examples
    --------
    >>> import numpy as np
    >>> compare("x", np.array([1.0, 2.0]), np.array([1.0, 2.5]), rtol=0.1, atol=0)
    Difference(name='x', largest=0.5, allowed='0.1 relative', within=False, reason='')
    """
    allowed = _in_words(rtol, atol)
    for what in ("dtype", "shape"):
        one, other = getattr(ours, what, None), getattr(theirs, what, None)
        if one != other:
            reason = f"{what} is {one}, not {other}"
            return Difference(name, math.inf, allowed, False, reason)
    left, right = np.ravel(ours), np.ravel(theirs)
    largest, within = 0.0, True
    for start in range(0, left.size, _PIECE):
        piece = slice(start, start + _PIECE)
        distance, fits = _distance(left[piece], right[piece], rtol, atol)
        largest, within = max(largest, distance), within and fits
    return Difference(name, largest, allowed, within)


def _distance(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], rtol: float, atol: float
) -> tuple[float, bool]:
    if left.dtype == bool:
        left, right = left.view(np.uint8), right.view(np.uint8)
    same = left == right
    if left.dtype.kind in "fc":
        same |= np.isnan(left) & np.isnan(right)
    if same.all():
        return 0.0, True
    # Where integers differ, floating point is good enough to say by how much.
    wide = np.result_type(left.dtype, np.float64)
    left, right = left[~same].astype(wide), right[~same].astype(wide)
    with np.errstate(all="ignore"):
        apart = np.abs(left - right)
        apart[~(np.isfinite(left) & np.isfinite(right))] = math.inf
        within = bool((apart <= atol + rtol * np.abs(right)).all())
    largest = float(apart.max())
    return largest, within and math.isfinite(largest)


def _in_words(rtol: float, atol: float) -> str:
    parts = [f"{rtol:g} relative"] if rtol else []
    parts += [f"{atol:g} absolute"] if atol else []
    return " plus ".join(parts) or "none"
