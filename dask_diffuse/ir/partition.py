"""Partitions: how a store is cut over the points of a launch domain.

Partitions are structured values, not lists of sub-stores. They are interned by a
`PartitionTable`, so that two of one program are equal exactly if they are the same
object: the O(1) comparison that constraints C2 to C4 of Diffuse ask for, however many
blocks there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "Chunks",
    "Domain",
    "Lengths",
    "Partition",
    "PartitionTable",
    "Replicated",
    "Tiling",
    "total_length",
]

Domain = tuple[int, ...]
"""A launch domain: its length along each axis. Points are tuples of indices."""

Lengths = tuple[int | None, ...]
"""Tile lengths along one axis of a store; None where not known before run time."""

Chunks = tuple[Lengths, ...]
"""Tile lengths along each axis of a store."""


@dataclass(frozen=True, eq=False, slots=True)
class Replicated:
    """Every point sees the whole store."""

    def is_injective(self, launch: Domain) -> bool:
        """Whether distinct points see distinct tiles: only if there is one point."""
        return all(length == 1 for length in launch)


@dataclass(frozen=True, eq=False, slots=True)
class Tiling:
    """One rectangular tile of the store per point.

    Parameters
    ----------
    chunks
        Tile lengths along each axis of the store.
    axes
        For each axis of the store, the launch axis that picks the tile, or None if
        the axis has a single tile, which every point sees.

    Examples
    --------
    A row vector that every row of a 2 x 3 launch domain reads:

    >>> row = Tiling(chunks=((4, 4, 2),), axes=(1,))
    >>> row.is_injective((2, 3)), row.is_injective((1, 3))
    (False, True)
    """

    chunks: Chunks
    axes: tuple[int | None, ...]

    def is_injective(self, launch: Domain) -> bool:
        """Whether distinct points see distinct tiles.

        A write needs this. Equal partitions alone do not make a dependence
        point-wise: two points could still share a tile.
        """
        return all(
            length == 1 or axis in self.axes for axis, length in enumerate(launch)
        )

    def tile_shape(self, point: tuple[int, ...]) -> tuple[int | None, ...]:
        """Lengths of the tile that `point` sees."""
        return tuple(
            lengths[0 if axis is None else point[axis]]
            for lengths, axis in zip(self.chunks, self.axes, strict=True)
        )


Partition = Replicated | Tiling


class _Facts(NamedTuple):
    """What takes a walk over all lengths to find out."""

    lengths: Lengths
    digest: int
    total: int | None


_KEPT_FACTS = 1024
_facts: dict[int, _Facts] = {}
"""By the id of the tuple, which lives as long as it is here.

Arrays of one program, and of the next one, share the tuples that say how they are cut;
with many blocks a walk over them would be what planning costs.
"""


def _facts_of(lengths: Lengths) -> _Facts:
    facts = _facts.get(id(lengths))
    if facts is None:
        total = 0 if None in lengths else sum(lengths)  # type: ignore[arg-type]
        facts = _Facts(lengths, hash(lengths), None if None in lengths else total)
        if len(_facts) >= _KEPT_FACTS:
            _facts.clear()
        _facts[id(lengths)] = facts
    return facts


def total_length(lengths: Lengths) -> int | None:
    """Return the sum of tile lengths, or None if one of them is not known.

    Examples
    --------
    >>> total_length((4, 4, 2)), total_length((4, None))
    (10, None)
    """
    return _facts_of(lengths).total


class PartitionTable:
    """Interns partitions, so that equality is identity.

    Chunks with unknown lengths are equal only to themselves: two stores of unknown
    tile lengths need not be cut alike.

    Examples
    --------
    >>> table = PartitionTable()
    >>> table.tiling(((2, 2),), (0,)) is table.tiling(((2, 2),), (0,))
    True
    """

    def __init__(self) -> None:
        self._replicated = Replicated()
        self._by_digest: dict[int, list[Lengths]] = {}
        self._by_id: dict[int, Lengths] = {}
        self._kept: list[Lengths] = []
        self._tilings: dict[tuple[object, ...], Tiling] = {}

    @property
    def replicated(self) -> Replicated:
        """The partition in which every point sees the whole store."""
        return self._replicated

    def lengths(self, lengths: Lengths) -> Lengths:
        """Return the one object that stands for these tile lengths along one axis."""
        found = self._by_id.get(id(lengths))
        if found is not None:
            return found
        canonical = self._canonical(lengths)
        self._by_id[id(lengths)] = canonical
        # An id stays taken only while its object lives: keep the spelling we met.
        self._kept.append(lengths)
        return canonical

    def _canonical(self, lengths: Lengths) -> Lengths:
        facts = _facts_of(lengths)
        if facts.total is None:
            return lengths
        alike = self._by_digest.setdefault(facts.digest, [])
        for met in alike:
            if met == lengths:
                return met
        alike.append(lengths)
        return lengths

    def tiling(self, chunks: Chunks, axes: tuple[int | None, ...]) -> Tiling:
        """Return the one `Tiling` with these chunks and axes."""
        canonical = tuple(self.lengths(lengths) for lengths in chunks)
        key = (tuple(map(id, canonical)), axes)
        found = self._tilings.get(key)
        if found is None:
            found = self._tilings[key] = Tiling(canonical, axes)
        return found
