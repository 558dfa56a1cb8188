"""Partitions: how a store is cut over the points of a launch domain.

Partitions are structured values, not lists of sub-stores. They are interned by a
`PartitionTable`, so that two of one program are equal exactly if they are the same
object: the O(1) comparison that constraints C2 to C4 of Diffuse ask for, however many
blocks there are.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Chunks", "Domain", "Partition", "PartitionTable", "Replicated", "Tiling"]

Domain = tuple[int, ...]
"""A launch domain: its length along each axis. Points are tuples of indices."""

Chunks = tuple[tuple[int | None, ...], ...]
"""Tile lengths along each axis of a store; None where not known before run time."""


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
        self._chunks: dict[tuple[int | None, ...], tuple[int | None, ...]] = {}
        self._by_id: dict[int, tuple[int | None, ...]] = {}
        self._kept: list[tuple[int | None, ...]] = []
        self._tilings: dict[tuple[object, ...], Tiling] = {}

    @property
    def replicated(self) -> Replicated:
        """The partition in which every point sees the whole store."""
        return self._replicated

    def lengths(self, lengths: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the one object that stands for these tile lengths along one axis."""
        found = self._by_id.get(id(lengths))
        if found is not None:
            return found
        if None in lengths:
            canonical = lengths
        else:
            canonical = self._chunks.setdefault(lengths, lengths)
        self._by_id[id(lengths)] = canonical
        # An id stays taken only while its object lives: keep the spelling we met.
        self._kept.append(lengths)
        return canonical

    def tiling(self, chunks: Chunks, axes: tuple[int | None, ...]) -> Tiling:
        """Return the one `Tiling` with these chunks and axes."""
        canonical = tuple(self.lengths(lengths) for lengths in chunks)
        key = (tuple(map(id, canonical)), axes)
        found = self._tilings.get(key)
        if found is None:
            found = self._tilings[key] = Tiling(canonical, axes)
        return found
