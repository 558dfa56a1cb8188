"""FusionPlan -> Dask layers, keys, annotations; and what Dask itself still does."""

from __future__ import annotations

from dask_diffuse.lowering.finish import Requested, finish
from dask_diffuse.lowering.lower import LoweredGraph, lower
from dask_diffuse.lowering.places import LoweringError

__all__ = ["LoweredGraph", "LoweringError", "Requested", "finish", "lower"]
