"""Layers of the host -> Program: which stores there are, and what is done with them."""

from __future__ import annotations

from dask_diffuse.frontend.graph import import_graph

__all__ = ["import_graph"]
