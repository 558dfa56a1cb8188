from __future__ import annotations

import sys
from pathlib import Path

import dask.array as da
import pytest

import dask_diffuse
from dask_diffuse.errors import MissingPackageError


@pytest.fixture
def array():
    x = da.ones((60, 40), chunks=(20, 40))
    return da.sqrt(x) * 2 + 1


@pytest.fixture
def dot_on_path(tmp_path, monkeypatch) -> None:
    """A program ``dot`` that puts what it reads into a picture."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "dot"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "print('<svg>' + sys.argv[-1] + sys.stdin.read() + '</svg>')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def draw(array, path: Path):
    return dask_diffuse.visualize(array, filename=path, min_bytes=0)


def test_text_needs_no_program(array, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "graphviz", None)
    assert draw(array, tmp_path / "plan.dot") is None
    text = (tmp_path / "plan.dot").read_text()
    assert text.startswith("digraph")
    assert 'label="group 0"' in text


def test_several_collections_are_one_picture(array, tmp_path):
    other = array.sum()
    path = tmp_path / "plan.gv"
    dask_diffuse.visualize(array, other, filename=str(path), min_bytes=0)
    assert "sum" in path.read_text()


@pytest.mark.usefixtures("dot_on_path")
def test_writes_a_picture(array, tmp_path):
    path = tmp_path / "plan.svg"
    drawing = draw(array, path)
    text = path.read_text()
    assert text.startswith("<svg>")
    assert "group 0" in text
    assert "group 0" in drawing.source


@pytest.mark.usefixtures("dot_on_path")
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_the_suffix_picks_the_format(array, tmp_path, suffix):
    path = tmp_path / f"plan.{suffix}"
    draw(array, path)
    assert f"-T{suffix}" in path.read_text()


def test_without_a_file_nothing_is_written(array, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "digraph" in dask_diffuse.visualize(array, min_bytes=0).source
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named_with_its_remedy(array, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(MissingPackageError, match=r"dask-diffuse\[viz\]"):
        draw(array, tmp_path / "plan.svg")


def test_a_missing_program_is_named_with_its_remedy(array, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackageError, match=r"command is 'dot'.*ends in \.dot"):
        draw(array, tmp_path / "plan.svg")
    assert not (tmp_path / "plan.svg").exists()
