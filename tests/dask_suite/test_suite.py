"""Tests of dask.array and xarray pass with the hook as they do without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dask_suite.__main__ import run_suite
from tests.dask_suite.compare import compare, main, read_outcomes

XML = """<testsuites><testsuite>
<testcase classname="m" name="good"/>
<testcase classname="m" name="bad"><failure message="1 != 2"/></testcase>
<testcase classname="m" name="late"/>
<testcase classname="m" name="late"><error message="tear-down"/></testcase>
<testcase classname="m" name="not-here"><skipped/></testcase>
</testsuite></testsuites>"""


def check_suite(modules: list[str], arguments: list[str], folder: Path) -> dict:
    """Compare a suite and return what was fused."""
    plain, fused, report = (folder / n for n in ("plain.xml", "fused.xml", "r.json"))
    run_suite(modules, arguments, plain, folder)
    plugin = ["-p", "tests.dask_suite.plugin", "--diffuse-strict"]
    run_suite(
        modules, [*plugin, f"--diffuse-report={report}", *arguments], fused, folder
    )
    result = compare(read_outcomes(plain), read_outcomes(fused))
    assert result.plain["passed"]
    assert not result.broken, str(result)
    return json.loads(report.read_text())


class TestCompare:
    def test_the_worst_outcome_counts(self, tmp_path: Path):
        path = tmp_path / "plain.xml"
        path.write_text(XML)
        assert read_outcomes(path) == {
            "m::good": "passed",
            "m::bad": "failed",
            "m::late": "error",
            "m::not-here": "skipped",
        }

    def test_a_missing_test_is_broken(self):
        result = compare({"a": "passed", "b": "passed"}, {"a": "passed"})
        assert result.broken == {"b": "missing"}

    def test_a_test_that_failed_before_is_not_broken(self):
        assert not compare({"a": "failed"}, {"a": "failed"}).broken

    def test_exit_status(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        plain, fused = tmp_path / "plain.xml", tmp_path / "fused.xml"
        plain.write_text(XML)
        fused.write_text(XML)
        assert main([str(plain), str(fused)]) == 0
        fused.write_text(
            XML.replace('name="good"/>', 'name="good"><failure/></testcase>')
        )
        assert main([str(plain), str(fused)]) == 1
        assert "passed, now failed: m::good" in capsys.readouterr().out


@pytest.mark.timeout(600)
def test_a_part_of_dask_array(tmp_path: Path):
    fused = check_suite(
        ["dask.array.tests.test_ufunc", "dask.array.tests.test_map_blocks"],
        ["-k", "binary or where or out or clip"],
        tmp_path,
    )
    assert fused["counts"]["groups"] > 20
    assert fused["counts"]["calls"] > 500
    assert not fused["counts"]["failed"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "modules",
    [
        ["dask.array"],
        ["xarray.tests.test_dask", "xarray.tests.test_duck_array_ops"],
    ],
    ids=["dask", "xarray"],
)
def test_a_whole_suite(modules: list[str], tmp_path: Path):
    fused = check_suite(modules, [], tmp_path)
    assert fused["counts"]["calls"]
    assert not fused["counts"]["failed"]


def test_the_plugin_says_what_it_did(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import dask.array as da\n"
        "def test_it():\n"
        "    assert float((da.ones((4, 4), chunks=2) * 2 + 1).sum().compute()) == 48\n"
    )
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-m", "pytest", "-p", "tests.dask_suite.plugin"]
    finished = subprocess.run(
        [*command, "-c", "/dev/null", str(tmp_path / "test_it.py")],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
    assert "1 tests had something fused: 1 graphs" in finished.stdout
    assert "4 fused tasks ran as kernels" in finished.stdout
