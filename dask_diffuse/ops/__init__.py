"""What a scalar operation is, in NumPy's terms: one table of ops, one of reductions."""

from __future__ import annotations

from dask_diffuse.ops import elementwise as _rows
from dask_diffuse.ops.dtypes import SUPPORTED, canonical, is_supported
from dask_diffuse.ops.reductions import REDUCTIONS, ReductionOp
from dask_diffuse.ops.table import (
    DECLINED,
    OPS,
    Cost,
    ScalarOp,
    find_declined,
    find_op,
)

__all__ = [
    "DECLINED",
    "OPS",
    "REDUCTIONS",
    "SUPPORTED",
    "Cost",
    "ReductionOp",
    "ScalarOp",
    "canonical",
    "find_declined",
    "find_op",
    "is_supported",
]

# The rows are there once their module has been imported.
del _rows
