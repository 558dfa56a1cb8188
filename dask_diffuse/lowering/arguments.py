"""The arguments of a fused task: blocks, shapes, offsets and single keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_diffuse.dask_api import BlockwiseDep, Key, TaskRef, blockwise_token
from dask_diffuse.lowering.places import LoweringError

__all__ = ["Arguments"]


class Arguments:
    """Collects the arguments of a symbolic layer, each of them once.

    Parameters
    ----------
    launch
        The launch domain: the block grid of the layer.
    """

    def __init__(self, launch: tuple[int, ...]) -> None:
        self.launch = launch
        self.indices: list[tuple[Any, tuple[str, ...] | None]] = []
        self.numblocks: dict[str, tuple[int, ...]] = {}
        self.io_deps: dict[str, BlockwiseDep] = {}
        self._slots: dict[object, int] = {}
        self._covered: set[int] = set()

    def __len__(self) -> int:
        return len(self.indices)

    def add_blocks(
        self, name: str, axes: Sequence[int], numblocks: Sequence[int]
    ) -> int:
        """Return the slot of the blocks `name`, indexed by these launch axes."""
        for axis, length in zip(axes, numblocks, strict=True):
            if axis >= len(self.launch) or length not in (1, self.launch[axis]):
                raise LoweringError(
                    f"{name} has {length} blocks along launch axis {axis} of "
                    f"{self.launch}"
                )
            if length == self.launch[axis]:
                self._covered.add(axis)
        self.numblocks[name] = tuple(numblocks)
        index = tuple(blockwise_token(axis, ".") for axis in axes)
        return self._add((name, index), name, index)

    def add_dep(self, name: str, dep: BlockwiseDep, axes: Sequence[int]) -> int:
        """Return the slot of a value that is worked out for each block.

        The name stands for the content. Dask would find it by reading all chunks.
        """
        self.io_deps[name] = dep
        return self.add_blocks(name, axes, dep.numblocks)

    def add_key(self, key: Key) -> int:
        """Return the slot of a single key that every block needs."""
        return self._add((key, None), TaskRef(key), None)

    @property
    def names(self) -> list[str]:
        """Names of the blocks that are read."""
        return [name for name in self.numblocks if name not in self.io_deps]

    @property
    def keys(self) -> list[Key]:
        """Single keys that are read."""
        return [source.key for source, index in self.indices if index is None]

    @property
    def covers_launch(self) -> bool:
        """Whether the block grid of the layer follows from those of its arguments."""
        return len(self._covered) == len(self.launch)

    def _add(self, identity: object, source: Any, index: Any) -> int:
        slot = self._slots.get(identity)
        if slot is None:
            slot = self._slots[identity] = len(self.indices)
            self.indices.append((source, index))
        return slot
