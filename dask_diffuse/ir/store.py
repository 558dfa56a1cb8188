"""Stores: the distributed arrays of a program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Origin", "Store"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something came from; survives fusion and reaches generated code.

    Parameters
    ----------
    layer
        Name of the layer, as the host's graph spells it.
    label
        Short readable name, for example ``"add"``.
    """

    layer: str
    label: str


@dataclass(frozen=True, slots=True)
class Store:
    """One distributed array. How it is cut is the business of partitions.

    Parameters
    ----------
    name
        The name of its blocks in the host's graph.
    shape
        Length of each axis; None where it is not known before run time. The empty
        tuple also for stores whose blocks are not arrays (partial results).
    dtype
        None where it is not known before run time.
    origin
        The layer that makes it.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype | None
    origin: Origin
