"""What a reduction keeps while it runs: planes of numbers, one lane each.

An `Accumulator` writes vector code that takes one more value, joins two accumulators,
and makes the results. Any order of joining is right, so the same code serves lanes,
strips and rows.

* Sums of floats are compensated: next to the sum stands the sum of what rounding lost.
  Those of float32 are plain sums in float64.
* Minima and maxima keep NaN once they meet it, or never take it (``fmin``).
* Arg-reductions keep a value and its position, and of equal values the earlier.
* Moments keep the count, the compensated sum and the sum of squared deviations, by the
  update of Youngs and Cramer (1971), which adds squares only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_diffuse.codegen.scalar import Parts, VectorEmitter
from dask_diffuse.codegen.types import element
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.kernel.nest import Accumulate

__all__ = ["Accumulator", "Plane", "accumulator"]

_DOUBLE = np.dtype(np.float64)
_WORD = np.dtype(np.int64)
_NOWHERE = 2**63 - 1

State = tuple[str, ...]
"""One vector for each plane."""


@dataclass(frozen=True, slots=True)
class Plane:
    """One number that is kept for each lane.

    Parameters
    ----------
    type_
        Its type.
    start
        What it is before the first value.
    """

    type_: str
    start: float | int

    @property
    def itemsize(self) -> int:
        """Size in bytes."""
        return {"double": 8, "float": 4}.get(self.type_) or int(self.type_[1:]) // 8


@dataclass(frozen=True, slots=True)
class Accumulator:
    """How one `Accumulate` statement is computed.

    Parameters
    ----------
    planes
        What is kept.
    update
        Writes code that takes the values of one element per lane, where a mask holds;
        the last of them is the position, for those that want it. What the other lanes
        take in changes nothing: were they left out when the state is stored, the
        processor could not hand what is stored on to the next load.
    merge
        Writes code that joins two states.
    finish
        Writes code that makes the results.
    dtypes
        Of the results.
    wants_position
        Whether it asks where the element is.
    """

    planes: tuple[Plane, ...]
    update: Callable[[VectorEmitter, State, list[Parts], str], State]
    merge: Callable[[VectorEmitter, State, State], State]
    finish: Callable[[VectorEmitter, State], list[Parts]]
    dtypes: tuple[np.dtype, ...]
    wants_position: bool = False


def accumulator(statement: Accumulate, dtypes: tuple[np.dtype, ...]) -> Accumulator:
    """Return how a statement is computed.

    Parameters
    ----------
    statement
        The statement.
    dtypes
        Of its values.

    Raises
    ------
    UnsupportedError
        If there is no code for these dtypes.
    """
    name, dtype, source = statement.reduction, statement.dtype, dtypes[0]
    if name in ("any", "all"):
        return _logic(name, source, dtype)
    if name in ("sum", "prod"):
        return (_sum if name == "sum" else _prod)(source, dtype)
    if source.kind == "c" or dtype.kind == "c":
        raise UnsupportedError(f"{name!r} of {source.name} has no vector code")
    if name == "moments":
        return _moments(dtypes, dtype)
    if name in ("argmin", "argmax"):
        return _arg(name, source, dtype)
    return _extremum(name, source, dtype)


def _sum(source: np.dtype, dtype: np.dtype) -> Accumulator:
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    if part.kind != "f":
        return _plain("add", 0, source, dtype)
    if part != _DOUBLE:
        return _plain("add", 0, source, dtype)
    count = 2 if dtype.kind == "c" else 1

    def update(v: VectorEmitter, state: State, values: list[Parts], mask: str) -> State:
        parts = v.cast(values[0], source, dtype)
        result: State = ()
        for i, part in enumerate(parts):
            part = v.select(mask, part, v.constant("double", 0), "double")
            result += _add_exactly(v, state[2 * i], state[2 * i + 1], part)
        return result

    def merge(v: VectorEmitter, left: State, right: State) -> State:
        result: State = ()
        for i in range(0, 2 * count, 2):
            result += _add_exactly(v, left[i], left[i + 1], right[i], right[i + 1])
        return result

    def finish(v: VectorEmitter, state: State) -> list[Parts]:
        return [
            tuple(_total(v, state[i], state[i + 1]) for i in range(0, 2 * count, 2))
        ]

    planes = (Plane("double", 0), Plane("double", 0)) * count
    return Accumulator(planes, update, merge, finish, (dtype,))


def _add_exactly(
    v: VectorEmitter, total: str, lost: str, value: str, more_lost: str | None = None
) -> State:
    """Add a value to a sum, and what rounding loses to what was lost (Knuth).

    Parameters
    ----------
    v
        Writes the code.
    total, lost
        The sum so far.
    value, more_lost
        What is added, which may be such a sum itself.
    """

    def op(name: str, x: str, y: str) -> str:
        return v.binary(name, "double", x, y)

    result = op("fadd", total, value)
    added = op("fsub", result, total)
    error = op(
        "fadd",
        op("fsub", total, op("fsub", result, added)),
        op("fsub", value, added),
    )
    if more_lost is not None:
        # Apart from `lost`, so that the next addition need not wait for both.
        error = op("fadd", error, more_lost)
    return result, op("fadd", lost, error)


def _total(v: VectorEmitter, total: str, lost: str) -> str:
    """Return a compensated sum. Of infinities nothing meaningful was lost."""
    difference = v.binary("fsub", "double", lost, lost)
    finite = v.test("fcmp oeq", "double", difference, v.constant("double", 0))
    return v.select(finite, v.binary("fadd", "double", total, lost), total, "double")


def _plain(op: str, start: int, source: np.dtype, dtype: np.dtype) -> Accumulator:
    """Return an accumulator that adds or multiplies; floats as float64."""
    inner = _DOUBLE if dtype.kind == "f" else dtype
    if dtype.kind == "c":
        inner = np.dtype(np.complex128)
    if dtype.kind == "b":
        raise UnsupportedError("sums and products of bools are logic")
    word = ("f" if inner.kind in "fc" else "") + op
    type_ = element(inner)
    starts = (start, 0) if dtype.kind == "c" else (start,)

    def join(v: VectorEmitter, left: State, right: State) -> State:
        if word == "fmul" and len(left) == 2:
            return _multiply_complex(v, left, right)
        return tuple(
            v.binary(word, type_, x, y) for x, y in zip(left, right, strict=True)
        )

    def update(v: VectorEmitter, state: State, values: list[Parts], mask: str) -> State:
        # The dtype first: integers wrap, floats round to it.
        value = v.cast(v.cast(values[0], source, dtype), dtype, inner)
        masked = tuple(
            v.select(mask, part, v.constant(type_, neutral), type_)
            for part, neutral in zip(value, starts, strict=True)
        )
        return join(v, state, masked)

    def finish(v: VectorEmitter, state: State) -> list[Parts]:
        return [v.cast(state, inner, dtype)]

    planes = tuple(Plane(type_, s) for s in starts)
    return Accumulator(planes, update, join, finish, (dtype,))


def _multiply_complex(v: VectorEmitter, left: State, right: State) -> State:
    def op(name: str, x: str, y: str) -> str:
        return v.binary(name, "double", x, y)

    (a, b), (c, d) = left, right
    real = op("fsub", op("fmul", a, c), op("fmul", b, d))
    return real, op("fadd", op("fmul", a, d), op("fmul", b, c))


def _prod(source: np.dtype, dtype: np.dtype) -> Accumulator:
    return _plain("mul", 1, source, dtype)


def _logic(name: str, source: np.dtype, dtype: np.dtype) -> Accumulator:
    boolean = np.dtype(bool)
    word = "or" if name == "any" else "and"

    def merge(v: VectorEmitter, left: State, right: State) -> State:
        return (v.binary(word, "i8", left[0], right[0]),)

    def update(v: VectorEmitter, state: State, values: list[Parts], mask: str) -> State:
        (truth,) = v.cast(values[0], source, boolean)
        octets = v.convert("zext", truth, "i1", "i8")
        octets = v.select(mask, octets, v.constant("i8", start), "i8")
        return merge(v, state, (octets,))

    def finish(v: VectorEmitter, state: State) -> list[Parts]:
        truth = v.test("icmp ne", "i8", state[0], v.constant("i8", 0))
        return [v.cast((truth,), boolean, dtype)]

    start = 0 if name == "any" else 1
    return Accumulator((Plane("i8", start),), update, merge, finish, (dtype,))


def _extremum(name: str, source: np.dtype, dtype: np.dtype) -> Accumulator:
    smallest = name in ("min", "fmin")
    skips_nan = name in ("fmin", "fmax")
    kept, start = _worst(source, smallest)
    if kept.kind == "f" and skips_nan:
        start = float("nan")
    type_ = element(kept)

    def merge(v: VectorEmitter, left: State, right: State) -> State:
        (old,), (new,) = left, right
        better = v.compare("less" if smallest else "greater", kept, new, old)
        best = v.select(better, new, old, type_)
        if kept.kind == "f":
            candidate = old if skips_nan else new
            isnan = v.test("fcmp uno", type_, candidate, candidate)
            best = v.select(isnan, new, best, type_)
        return (best,)

    def update(v: VectorEmitter, state: State, values: list[Parts], mask: str) -> State:
        (value,) = v.cast(values[0], source, kept)
        value = v.select(mask, value, v.constant(type_, start), type_)
        return merge(v, state, (value,))

    def finish(v: VectorEmitter, state: State) -> list[Parts]:
        return [v.cast(v.cast(state, kept, source), source, dtype)]

    return Accumulator((Plane(type_, start),), update, merge, finish, (dtype,))


def _arg(name: str, source: np.dtype, dtype: np.dtype) -> Accumulator:
    smallest = name == "argmin"
    kept, start = _worst(source, smallest)
    type_ = element(kept)

    def merge(v: VectorEmitter, left: State, right: State) -> State:
        (old, old_place), (new, new_place) = left, right
        better = v.compare("less" if smallest else "greater", kept, new, old)
        same = v.compare("equal", kept, new, old)
        if kept.kind == "f":
            # NumPy: the first NaN wins.
            new_nan = v.test("fcmp uno", type_, new, new)
            old_number = v.test("fcmp ord", type_, old, old)
            better = v.binary(
                "or", "i1", better, v.binary("and", "i1", new_nan, old_number)
            )
            both = v.binary("and", "i1", new_nan, v.test("fcmp uno", type_, old, old))
            same = v.binary("or", "i1", same, both)
        earlier = v.test("icmp slt", "i64", new_place, old_place)
        first = v.binary("and", "i1", same, earlier)
        better = v.binary("or", "i1", better, first)
        return (
            v.select(better, new, old, type_),
            v.select(better, new_place, old_place, "i64"),
        )

    def update(v: VectorEmitter, state: State, values: list[Parts], mask: str) -> State:
        (value,) = v.cast(values[0], source, kept)
        value = v.select(mask, value, v.constant(type_, start), type_)
        nowhere = v.constant("i64", _NOWHERE)
        place = v.select(mask, values[-1][0], nowhere, "i64")
        return merge(v, state, (value, place))

    def finish(v: VectorEmitter, state: State) -> list[Parts]:
        return [v.cast(v.cast(state[:1], kept, source), source, dtype), state[1:]]

    planes = (Plane(type_, start), Plane("i64", _NOWHERE))
    return Accumulator(
        planes, update, merge, finish, (dtype, _WORD), wants_position=True
    )


def _worst(source: np.dtype, smallest: bool) -> tuple[np.dtype, float | int]:
    """Return the dtype to compare in, and a value that loses against all others."""
    if source.kind == "f":
        return source, float("inf" if smallest else "-inf")
    if source.kind == "b":
        return np.dtype(np.uint8), 1 if smallest else 0
    limits = np.iinfo(source)
    return source, int(limits.max if smallest else limits.min)


def _cross(v: VectorEmitter, counts: State, totals: State) -> str:
    """Return the difference of two products, with two roundings of the result."""
    zero = v.constant("double", 0)
    product = v.binary("fmul", "double", counts[1], totals[1])
    opposite = v.binary("fsub", "double", zero, product)
    error = v.multiply_add("double", counts[1], totals[1], opposite)
    difference = v.multiply_add("double", counts[0], totals[0], opposite)
    return v.binary("fsub", "double", difference, error)


def _moments(dtypes: tuple[np.dtype, ...], dtype: np.dtype) -> Accumulator:
    def op(v: VectorEmitter, name: str, x: str, y: str) -> str:
        return v.binary(name, "double", x, y)

    def update(v: VectorEmitter, state: State, values: list[Parts], mask: str) -> State:
        count, total, lost, squares = state
        one, zero = v.constant("double", 1), v.constant("double", 0)
        (value,) = v.cast(v.cast(values[0], dtypes[0], dtype), dtype, _DOUBLE)
        if len(dtypes) == 2:
            (valid,) = v.cast(values[1], dtypes[1], np.dtype(bool))
            mask = v.binary("and", "i1", mask, valid)
        value = v.select(mask, value, zero, "double")
        new_count = op(v, "fadd", count, v.select(mask, one, zero, "double"))
        new_total, new_lost = _add_exactly(v, total, lost, value)
        # Exact but for one rounding, however far from zero the values are.
        opposite = op(v, "fsub", zero, new_total)
        distance = v.multiply_add("double", new_count, value, opposite)
        distance = op(v, "fsub", distance, new_lost)
        pairs = op(v, "fmul", new_count, count)
        share = op(v, "fdiv", op(v, "fmul", distance, distance), pairs)
        # The first value deviates from nothing.
        several = v.test("fcmp ogt", "double", count, zero)
        several = v.binary("and", "i1", several, mask)
        share = v.select(several, share, zero, "double")
        return new_count, new_total, new_lost, op(v, "fadd", squares, share)

    def merge(v: VectorEmitter, left: State, right: State) -> State:
        zero = v.constant("double", 0)
        count = op(v, "fadd", left[0], right[0])
        total, lost = _add_exactly(v, left[1], left[2], right[1], right[2])
        distance = _cross(v, (right[0], left[0]), (left[1], right[1]))
        rest = op(
            v,
            "fsub",
            *(op(v, "fmul", right[0], left[2]), op(v, "fmul", left[0], right[2])),
        )
        distance = op(v, "fadd", distance, rest)
        pairs = op(v, "fmul", op(v, "fmul", left[0], right[0]), count)
        share = op(v, "fdiv", op(v, "fmul", distance, distance), pairs)
        several = v.test("fcmp ogt", "double", pairs, zero)
        share = v.select(several, share, zero, "double")
        squares = op(v, "fadd", op(v, "fadd", left[3], right[3]), share)
        return count, total, lost, squares

    def finish(v: VectorEmitter, state: State) -> list[Parts]:
        count = v.convert("fptosi", state[0], "double", "i64")
        total = _total(v, state[1], state[2])
        # An infinity deviates from the mean by NaN, were it the only value.
        excess = op(v, "fsub", total, total)
        squares = op(v, "fadd", state[3], excess)
        return [
            (count,),
            v.cast((total,), _DOUBLE, dtype),
            v.cast((squares,), _DOUBLE, dtype),
        ]

    return Accumulator(
        (Plane("double", 0),) * 4, update, merge, finish, (_WORD, dtype, dtype)
    )
