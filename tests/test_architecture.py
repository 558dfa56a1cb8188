"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dask_diffuse"
FILES = sorted(PACKAGE.rglob("*.py"))

# Modules of dask that its users may import from. Everything else is private and goes
# through the one door, dask_api.py, where each name is tried and described.
PUBLIC_DASK = {
    "dask",
    "dask.array",
    "dask.base",
    "dask.config",
    "dask.delayed",
    "dask.diagnostics",
    "dask.distributed",
    "dask.utils",
}
JITS = ("llvmlite", "numba", "cupy")

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported_modules(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each imported module, with the names taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or "", tuple(alias.name for alias in node.names)


def run_python(code: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_there_are_files():
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=name_of)
class TestFile:
    def test_dask_private_names_come_through_one_door(self, path: Path):
        if name_of(path) == "dask_api.py":
            return
        for module, names in imported_modules(tree_of(path)):
            if module.split(".")[0] != "dask":
                continue
            assert module in PUBLIC_DASK, f"{module} is private: see dask_api.py"
            private = [name for name in names if name.startswith("_")]
            assert not private, f"{module}: {private} are private: see dask_api.py"

    def test_no_private_names_of_other_rooms(self, path: Path):
        for module, names in imported_modules(tree_of(path)):
            if module.startswith("dask_diffuse"):
                assert not [name for name in names if name.startswith("_")], module

    def test_prints_only_on_the_command_line(self, path: Path):
        if path.name in ("cli.py", "__main__.py") or path.parent.name == "apps":
            return
        calls = (n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Call))
        lines = [
            call.lineno
            for call in calls
            if isinstance(call.func, ast.Name) and call.func.id == "print"
        ]
        assert not lines

    def test_postpones_annotations(self, path: Path):
        assert ("__future__", ("annotations",)) in imported_modules(tree_of(path))

    def test_is_of_readable_size(self, path: Path):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


HOOK = """
import sys
import numpy as np
import dask.array as da
import dask_diffuse

x = da.from_array(np.arange(1e6).reshape(1000, 1000), chunks=500)
y = (da.exp(x) + 1).sum(axis=0)
dask_diffuse.Optimizer(min_bytes=0, strict=True)(y.dask, y.__dask_keys__())
print(" ".join(name for name in {jits} if name in sys.modules))
"""


def test_the_hook_loads_no_jit():
    # With a remote scheduler the hook runs in the scheduler's process, which has
    # better things to do than to load a compiler.
    assert run_python(HOOK.format(jits=JITS)) == ""


COST = """
import time
start = time.perf_counter()
import dask.array
middle = time.perf_counter()
import dask_diffuse
{more}
print(middle - start, time.perf_counter() - middle)
"""


@pytest.mark.parametrize(
    ("more", "limit"),
    [("", 0.05), ("dask_diffuse.optimize", 0.1)],
    ids=["package", "hook"],
)
def test_import_is_cheap_beside_dask_array(more: str, limit: float):
    # Seconds lie on a busy machine; importing dask.array, some 0.3 s when it is
    # quiet, is the yardstick.
    def measure() -> float:
        host, ours = map(float, run_python(COST.format(more=more)).split())
        return min(ours, ours / host * 0.3)

    assert min(measure() for _ in range(3)) < limit
