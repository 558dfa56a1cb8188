"""The command line, as users meet it."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dask_diffuse.apps import PROBLEMS, clusters
from dask_diffuse.apps import measure as measure_module
from dask_diffuse.apps.measure import Run, measure
from dask_diffuse.apps.problem import Difference
from dask_diffuse.cli import main
from dask_diffuse.runtime.cache import KernelStore, forget_stores


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure in this process: that processes are used is tested once."""

    def here(spec: Run):
        return measure(replace(spec, options={"min_bytes": 0}))

    monkeypatch.setattr(measure_module, "measure_apart", here)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of compiled kernels."""
    import dask

    forget_stores()
    folder = tmp_path / "kernels"
    with dask.config.set({"diffuse.cache-dir": str(folder)}):
        yield folder
    forget_stores()


class TestRun:
    def test_in_processes(self):
        result = run("run", "black_scholes", "--compare", "--size", "100000")
        assert result.exit_code == 0, result.output
        for words in (
            "black_scholes: 100,000 options, blocks of 10,000",
            "plain Dask",
            "dask_diffuse",
            "first run",
            "fastest later run",
            "tasks",
            "kernels",
            "peak memory",
            "largest difference",
            "1e-09 relative",
        ):
            assert words in result.stdout
        assert "NO" not in result.stdout
        assert "Nothing was fused" not in result.stdout
        assert "Traceback" not in result.output

    @pytest.mark.usefixtures("_here")
    @pytest.mark.parametrize("name", PROBLEMS)
    def test_every_app(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.chdir(tmp_path)
        size = str(PROBLEMS[name].tiny)
        result = run("run", name, "--compare", "--size", size, "--repeat", "1")
        assert result.exit_code == 0, result.output
        assert (tmp_path / "terrain.png").exists() == (name == "terrain")

    @pytest.mark.usefixtures("_here")
    def test_without_compare(self):
        result = run("run", "chain", "--size", "1000", "--chunks", "300")
        assert result.exit_code == 0
        assert "plain Dask" not in result.stdout
        assert "blocks of 300" in result.stdout

    @pytest.mark.usefixtures("_here")
    def test_json(self):
        result = run("run", "chain", "--compare", "--size", "1000", "--json")
        report = json.loads(result.stdout)
        assert set(report["runs"]) == {"dask", "dask_diffuse"}
        assert report["runs"]["dask"]["kernels"] == 0
        assert report["runs"]["dask_diffuse"]["kernels"] == 1
        assert len(report["runs"]["dask_diffuse"]["seconds"]) == 3
        assert report["runs"]["dask_diffuse"]["is_right"] is True

    @pytest.mark.usefixtures("_here")
    def test_output(self, tmp_path: Path):
        path = tmp_path / "out.png"
        result = run("run", "ndvi", "--size", "60", "--output", str(path))
        assert result.exit_code == 0
        assert str(path) in result.stdout
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_results_that_differ(self, monkeypatch: pytest.MonkeyPatch):
        wrong = Difference("sum", 0.25, "1e-09 relative", False)

        def pretend(spec: Run):
            measured = measure(spec)
            return replace(measured, differences=(wrong,)) if spec.fused else measured

        monkeypatch.setattr(measure_module, "measure_apart", pretend)
        result = run("run", "chain", "--compare", "--size", "1000")
        assert result.exit_code == 1
        assert "0.25" in result.stdout
        assert "NO" in result.stdout
        assert "DIFFER" in result.stderr

    def test_troubles_are_told(self, monkeypatch: pytest.MonkeyPatch):
        def pretend(spec: Run):
            options = {"min_bytes": 0, "backend": "interpreter"}
            return replace(measure(replace(spec, options=options)), hook_failures=2)

        monkeypatch.setattr(measure_module, "measure_apart", pretend)
        result = run("run", "chain", "--size", "1000", "--repeat", "1")
        assert "Original functions ran in place of a kernel 10 times: backend" in (
            result.stdout
        )
        assert "The hook gave up on 2 graphs" in result.stdout

    @pytest.mark.usefixtures("_here")
    def test_nothing_fused_is_told(self):
        result = run("run", "two_small", "--size", "1", "--chunks", "1")
        assert result.exit_code == 0

    def test_list(self):
        result = run("run", "--list")
        assert result.exit_code == 0
        for name in PROBLEMS:
            assert name in result.stdout


# A client that finds nobody leaves sockets behind, which Python tells of later on.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((), "Missing argument 'APP'"),
            (("terain",), "Did you mean 'terrain'?"),
            (("nonsense",), "one of black_scholes, terrain"),
            (("chain", "--size", "0"), "at least 1"),
            (("chain", "--size", "many"), "'many' is not a valid integer"),
            (("chain", "--chunks", "-3"), "'--chunks' has the value -3"),
            (("chain", "--repeat", "0"), "0 is not in the range"),
            (("chain", "--workers", "0"), "--workers"),
            (("chain", "--cluster", "cuda"), "no kernels for GPUs"),
            (("chain", "--cluster", "nowhere"), "tcp://host:8786"),
            (("chain", "--output", "x.png"), "nothing to draw"),
            (("terrain", "--output", "x.docx"), ".png"),
            (("terrain", "--output", "/no/such/folder/x.png"), "a folder that exists"),
            (("chain", "--frobnicate"), "No such option"),
        ],
    )
    def test_run(self, arguments: tuple[str, ...], words: str):
        result = run("run", *arguments)
        assert result.exit_code == 2
        assert words in result.stderr
        assert "Traceback" not in result.output

    @pytest.mark.usefixtures("_here")
    def test_no_answer(self, monkeypatch: pytest.MonkeyPatch):
        assert clusters.TIMEOUT == 10
        monkeypatch.setattr(clusters, "TIMEOUT", 1)
        result = run("run", "chain", "--size", "10", "--cluster", "tcp://127.0.0.1:1")
        assert result.exit_code == 2
        assert "no scheduler answered within 1 s" in result.stderr
        assert "dask scheduler" in result.stderr
        gc.collect()

    @pytest.mark.usefixtures("_here")
    def test_a_missing_package(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "scipy.special", None)
        result = run("run", "black_scholes", "--size", "10")
        assert result.exit_code == 2
        assert "pip install 'dask-diffuse[demo]'" in result.stderr
        assert "Running" not in result.stderr

    def test_explain(self):
        result = run("explain", "nonsense")
        assert result.exit_code == 2
        assert "one of black_scholes" in result.stderr

    def test_command(self):
        assert run("frobnicate").exit_code == 2

    def test_a_bad_option_in_the_configuration(self):
        import dask

        with dask.config.set({"diffuse.cache-disk": "perhaps"}):
            result = run("cache", "info")
        assert result.exit_code == 2
        assert "perhaps" in result.stderr


def test_explain():
    result = run("explain", "black_scholes")
    assert result.exit_code == 0
    assert "1 group" in result.stdout
    assert "erf" in result.stdout


class TestInfo:
    def test_here(self):
        result = run("info")
        assert result.exit_code == 0
        for words in ("python", "numpy", "processor", "llvm", "cache folder"):
            assert words in result.stdout

    @pytest.mark.distributed
    def test_of_a_cluster(self):
        import distributed

        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0"
        ) as cluster:
            result = run("info", "--cluster", cluster.scheduler_address)
        assert result.exit_code == 0, result.output
        assert "scheduler" in result.stdout
        assert result.stdout.count("numpy") == 3


class TestCache:
    def test_nothing_there(self, folder: Path):
        result = run("cache", "info")
        assert result.exit_code == 0
        assert f"{folder} (empty)" in result.stdout
        assert "nothing to remove" in run("cache", "clear").stdout
        assert not folder.exists(), "looking makes no folder"

    @pytest.mark.parametrize("name", ["info", "show"])
    def test_what_is_there(self, folder: Path, name: str):
        from dask_diffuse.config import read_options

        store = KernelStore.open(read_options())
        assert store is not None
        store.put("aa", b"x" * 100)
        store.put("bb", b"x" * 100)
        result = run("cache", name)
        assert result.exit_code == 0
        assert "kernels  2" in result.stdout
        assert "280 bytes of 256 MiB" in result.stdout
        result = run("cache", "clear")
        assert "Removed 2 kernels, 280 bytes" in result.stdout
        assert store.get("aa") is None

    def test_refused(self, folder: Path):
        folder.write_text("a file in its place")
        result = run("cache", "info")
        assert result.exit_code == 0
        assert "not used: it is not a folder" in result.stdout
        assert "nothing to remove" in run("cache", "clear").stdout

    def test_off(self, folder: Path):
        import dask

        with dask.config.set({"diffuse.cache-disk": False}):
            assert "off" in run("cache", "info").stdout


class TestEntryPoints:
    def test_module(self):
        finished = subprocess.run(
            [sys.executable, "-m", "dask_diffuse", "--version"],
            capture_output=True,
            text=True,
        )
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.strip() == (
            f"dask-diffuse, version {version('dask-diffuse')}"
        )

    def test_help_costs_little(self):
        code = """
import sys
from dask_diffuse.cli import main
main(["run", "--help"], standalone_mode=False)
dear = ("dask.array", "llvmlite", "matplotlib")
print([name for name in dear if name in sys.modules])
"""
        finished = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True
        )
        assert finished.stdout.splitlines()[-1] == "[]", finished.stderr
