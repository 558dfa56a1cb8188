"""Task and kernel fusion for dask.array: one compiled kernel per block."""

from __future__ import annotations
