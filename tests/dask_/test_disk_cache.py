"""Compiled kernels on disk, from program to program: always right, fast when it can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys, warnings
import dask, dask.array as da, numpy as np
import dask_diffuse
from dask_diffuse.runtime.cpu import kernel_counts
{before}
x = np.arange(1000.0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with dask_diffuse.enable(min_bytes=0, cache_dir=sys.argv[1]):
        y = da.from_array(x, chunks=300, name=False)
        total = dask.compute((da.exp(-y / 100) * y + 1).sum(), scheduler="sync")[0]
np.testing.assert_allclose(total, (np.exp(-x / 100) * x + 1).sum(), rtol=1e-13)
print(json.dumps([kernel_counts(), [str(w.message) for w in caught]]))
"""


def start(folder: Path, before: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=before), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[dict[str, float], list[str]]:
    out, error = process.communicate(timeout=100)
    assert process.returncode == 0, error
    counts, warned = json.loads(out)
    return counts, warned


def run(folder: Path, before: str = "") -> tuple[dict[str, float], list[str]]:
    return finish(start(folder, before))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an earlier process has left its kernels."""
    folder = tmp_path_factory.mktemp("filled") / "kernels"
    counts, warned = run(folder)
    assert counts["compiled"] == 1
    assert warned == []
    assert list(folder.iterdir())
    return folder


def copy_of(filled: Path, folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    for path in filled.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
        (folder / path.name).chmod(0o600)
    return folder


def test_a_new_process_compiles_nothing(filled: Path):
    counts, warned = run(filled)
    assert (counts["compiled"], counts["disk_hits"]) == (0, 1)
    assert warned == []


@pytest.mark.parametrize("damage", ["truncated", "garbled"])
def test_damaged_files(filled: Path, tmp_path: Path, damage: str):
    folder = copy_of(filled, tmp_path / "kernels")
    for path in folder.iterdir():
        content = path.read_bytes()
        middle = len(content) // 2
        changed = {
            "truncated": content[:middle],
            "garbled": content[:middle] + b"\x00\xff" * 8 + content[middle + 16 :],
        }
        path.write_bytes(changed[damage])
    counts, warned = run(folder)
    assert (counts["compiled"], counts["disk_hits"], counts["failed"]) == (1, 0, 0)
    assert warned == []
    # What was damaged has been replaced.
    assert run(folder)[0]["disk_hits"] == 1


def test_a_file_in_place_of_the_folder(tmp_path: Path):
    path = tmp_path / "kernels"
    path.write_text("in the way")
    counts, warned = run(path)
    assert counts["compiled"] == 1
    assert len(warned) == 1
    assert "is not used" in warned[0]


def test_a_folder_that_others_may_write_to(filled: Path, tmp_path: Path):
    folder = copy_of(filled, tmp_path / "kernels")
    folder.chmod(0o777)
    counts, warned = run(folder)
    assert (counts["compiled"], counts["disk_hits"]) == (1, 0)
    assert len(warned) == 1
    assert "others may write" in warned[0]


FULL = """
import errno, os
def full(*arguments, **keywords):
    raise OSError(errno.ENOSPC, "No space left on device")
os.replace = os.mkdir = full
"""


@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk(tmp_path: Path, exists: bool):
    folder = tmp_path / "kernels"
    if exists:
        folder.mkdir(mode=0o700)
    counts, warned = run(folder, FULL)
    assert counts["compiled"] == 1
    assert warned == []
    assert not folder.exists() or not list(folder.iterdir())


def test_many_processes_at_once(tmp_path: Path):
    folder = tmp_path / "kernels"
    for process in [start(folder) for _ in range(4)]:
        counts, warned = finish(process)
        assert counts["compiled"] + counts["disk_hits"] == 1
        assert counts["failed"] == 0
        assert warned == []
    assert run(folder)[0]["disk_hits"] == 1
