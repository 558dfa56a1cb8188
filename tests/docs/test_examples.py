"""Every Python block of the README and the documentation runs, page by page."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

import dask_diffuse
from dask_diffuse.optimizer import hook_counts

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^( *)```(python|text)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
TOKEN = re.compile(r"-[0-9a-f]{6}\b")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(m[2], textwrap.dedent(m[3])) for m in FENCE.finditer(text)]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


WITH_CODE = [
    page for page in PAGES if any(kind == "python" for kind, _ in blocks(page))
]


def test_there_are_pages_with_code():
    names = {name_of(page) for page in WITH_CODE}
    assert {"README.md", "docs/index.md", "docs/start/first-fusion.md"} <= names


@pytest.fixture
def names(request) -> Iterator[dict[str, object]]:
    """What a page takes for granted."""
    x = da.from_array(np.random.default_rng(0).random((400, 200)), chunks=100)
    names: dict[str, object] = {
        "da": da,
        "dask": dask,
        "dask_diffuse": dask_diffuse,
        "x": x,
        "y": (da.sqrt(x) * 2 + 1).sum(axis=0),
    }
    page = name_of(request.getfixturevalue("page"))
    if page == "docs/how-to/xarray.md":
        xr = pytest.importorskip("xarray")
        t = xr.DataArray(np.asarray(x), dims=("time", "place"), name="t")
        t.chunk(time=100).to_dataset().to_zarr("temperature.zarr", zarr_format=2)
    with contextlib.ExitStack() as stack:
        if page == "docs/how-to/distributed.md":
            distributed = pytest.importorskip("distributed")
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=1, processes=False, dashboard_address=":0"
                )
            )
            # The page names a scheduler that we do not have.
            names["_replace"] = ("tcp://scheduler:8786", cluster.scheduler_address)
        yield names
        client = names.get("client")
        if client is not None:
            client.close()


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_runs(page: Path, names, request):
    failed = hook_counts()["failed"]
    old, new = names.pop("_replace", ("", ""))
    printed = ""
    outputs = []
    for kind, text in blocks(page):
        if kind == "python":
            code = text.replace(old, new) if old else text
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(code, name_of(page), "exec"), names)
            printed = output.getvalue()
        elif printed:
            outputs.append((text, printed))
    assert hook_counts()["failed"] == failed
    if request.config.getoption("--update-golden"):
        update(page, outputs)
        return
    for text, printed in outputs:
        assert shortened(text) == shortened(printed)


def update(page: Path, outputs: list[tuple[str, str]]) -> None:
    """Write what was printed into a page, where it is more than another token."""
    for text, printed in outputs:
        if shortened(text) != shortened(printed):
            whole = page.read_text(encoding="utf-8")
            assert whole.count(text) == 1, f"{name_of(page)}: cannot find {text!r}"
            page.write_text(whole.replace(text, printed), encoding="utf-8")


def shortened(text: str) -> list[str]:
    """Lines without what differs between runs."""
    return [TOKEN.sub("-token", line.rstrip()) for line in text.strip().splitlines()]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
