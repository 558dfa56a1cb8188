"""What all tests share: hypothesis profiles, a cache of their own, expected texts."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import hypothesis
import pytest

EXPECTED = Path(__file__).parent / "golden" / "expected"

# Random programs: a few each time, always the same ones; many with -m fuzz.
hypothesis.settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=40,
    print_blob=True,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large,
    ],
)
hypothesis.settings.register_profile(
    "fuzz",
    hypothesis.settings.get_profile("default"),
    derandomize=False,
    max_examples=int(os.environ.get("DIFFUSE_FUZZ_EXAMPLES", "3000")),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the texts under tests/golden/expected instead of comparing them",
    )


_CACHE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    # Kernels of another state of the code must not be found on disk, and ours not by
    # anybody else. Processes that tests start inherit this.
    config.stash[_CACHE] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(
        prefix="dask-diffuse-tests-"
    )
    os.environ["DIFFUSE_VERIFY"] = "1"
    # Importing it adds defaults to the configuration, which a test that puts the
    # configuration back must not take away again.
    with contextlib.suppress(ImportError):
        importlib.import_module("distributed")
    wants_fuzz = "fuzz" in (config.option.markexpr or "").replace("not fuzz", "")
    hypothesis.settings.load_profile("fuzz" if wants_fuzz else "default")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_CACHE], ignore_errors=True)


@pytest.fixture(autouse=True)
def _same_configuration_afterwards() -> Iterator[None]:
    """Leave the hook and the configuration as they were, whatever a test does."""
    before = dict(dask.config.config)
    yield
    dask.config.config.clear()
    dask.config.config.update(before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with the one in ``tests/golden/expected/<file>/<test>.txt``.

    Nothing that changes between runs may be in it. ``--update-golden`` writes it.
    """
    assert request.node.path is not None
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = EXPECTED / request.node.path.stem / f"{name}.txt"

    def check(text: str) -> None:
        text = text.rstrip("\n") + "\n"
        address = re.search(r"0x[0-9a-f]{6,}|\b[0-9a-f]{32}\b", text)
        assert address is None, f"{address} changes from run to run"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing: run pytest --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check
