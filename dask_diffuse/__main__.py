"""Make ``python -m dask_diffuse`` the same as ``dask-diffuse``."""

from __future__ import annotations

from dask_diffuse.cli import main

if __name__ == "__main__":
    main(prog_name="dask-diffuse")
