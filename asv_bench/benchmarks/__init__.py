"""Benchmarks for asv: plain Dask against dask_diffuse."""

from __future__ import annotations
