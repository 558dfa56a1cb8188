"""Where the blocks of a store are found once its task has been fused."""

from __future__ import annotations

from dataclasses import dataclass

from dask_diffuse.dask_api import Key

__all__ = ["LoweringError", "Place", "is_block_key", "key_name"]


class LoweringError(Exception):
    """A group, or a graph, cannot be put back into layers of the host.

    A group then stays as the layers it came from. Users do not see this error.
    """


@dataclass(frozen=True, slots=True)
class Place:
    """The tasks that make the blocks of one store of a fused group.

    Parameters
    ----------
    name
        Name of the keys of these tasks: of the store itself, if it is all they
        make; else of the carrier.
    item
        Element of the tuple that a carrier returns; None if there is no tuple.
    numblocks
        Of the keys `name`.
    """

    name: str
    item: int | None
    numblocks: tuple[int, ...]


def is_block_key(key: Key) -> bool:
    """Whether this is a key of a block: a name and the indices of the block.

    Examples
    --------
    >>> is_block_key(("x", 0, 1)), is_block_key("x")
    (True, False)
    """
    return type(key) is tuple and bool(key) and type(key[0]) is str


def key_name(key: Key) -> str:
    """Return the name of a key: its first element, or the key itself.

    Examples
    --------
    >>> key_name(("x", 0, 1)), key_name("total")
    ('x', 'total')
    """
    return str(key[0] if type(key) is tuple and key else key)
