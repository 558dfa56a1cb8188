"""Runs a test suite of somebody else without and with the hook, and compares.

::

    python -m tests.dask_suite dask.array
    python -m tests.dask_suite xarray.tests.test_dask xarray.tests.test_distributed
    python -m tests.dask_suite dask.array.tests.test_ufunc -- -k "not slow"

Takes minutes; what comes after ``--`` goes to both runs of pytest. Ends with 1 if a
test passes without the hook and does not with it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.dask_suite.compare import compare, read_outcomes

ROOT = Path(__file__).parent.parent.parent


def run_suite(
    modules: list[str],
    arguments: list[str],
    report: Path,
    folder: Path,
) -> None:
    """Run the tests of some modules from an empty folder and write a JUnit file."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-c", os.devnull, "--rootdir", str(folder), f"--junitxml={report}"),
        *arguments,
        *("--pyargs", *modules),
    ]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # Blocks are small: threads inside NumPy's linear algebra only get in the way.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**threads, **os.environ, "PYTHONPATH": path}
    subprocess.run(command, cwd=folder, env=environment, check=False)


def main(argv: list[str] | None = None) -> int:
    """Run both ways and compare; the exit status says whether a test got worse."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="+", help="packages or modules of tests")
    parser.add_argument("--plain", type=Path, help="JUnit file of an earlier plain run")
    parser.add_argument(
        "--fused", type=Path, help="where to keep that of the fused run"
    )
    argv = sys.argv[1:] if argv is None else argv
    split = argv.index("--") if "--" in argv else len(argv)
    options = parser.parse_args(argv[:split])
    arguments = argv[split + 1 :]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = options.plain or folder / "plain.xml"
        if options.plain is None:
            run_suite(options.modules, arguments, plain, folder)
        fused = (options.fused or folder / "fused.xml").absolute()
        plugin = ["-p", "tests.dask_suite.plugin", "--diffuse-strict"]
        run_suite(options.modules, [*plugin, *arguments], fused, folder)
        result = compare(read_outcomes(plain), read_outcomes(fused))
    sys.stdout.write(f"{result}\n")
    return 1 if result.broken or not result.plain["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
