from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from importlib import resources

import dask
import pytest
import yaml

from dask_diffuse.config import is_disabled, is_enabled, read_options
from dask_diffuse.dask_api import optimize_array_graph
from dask_diffuse.errors import DiffuseError, OptionError
from dask_diffuse.optimizer import Optimizer
from dask_diffuse.options import Options

TEXT = resources.files("dask_diffuse")
DEFAULTS = yaml.safe_load(TEXT.joinpath("diffuse.yaml").read_text())["diffuse"]
SCHEMA = yaml.safe_load(TEXT.joinpath("diffuse-schema.yaml").read_text())
PROPERTIES = SCHEMA["properties"]["diffuse"]["properties"]


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch):
    for name in ("DEBUG", "DUMP", "STRICT", "VERIFY", "DISABLE"):
        monkeypatch.delenv(f"DIFFUSE_{name}", raising=False)


def fields():
    return {field.name: field.default for field in dataclasses.fields(Options)}


class TestFiles:
    def test_every_option_has_a_key_and_the_same_default(self):
        keys = {name.replace("_", "-") for name in fields()}
        assert set(DEFAULTS) == keys | {"enabled"}
        for name, default in fields().items():
            value = DEFAULTS[name.replace("_", "-")]
            assert (tuple(value) if isinstance(value, list) else value) == default

    def test_the_schema_describes_every_key(self):
        assert set(PROPERTIES) == set(DEFAULTS)
        assert all(p["description"] for p in PROPERTIES.values())

    @pytest.mark.parametrize("key", sorted(DEFAULTS))
    def test_defaults_follow_the_schema(self, key):
        types = {
            "array": list,
            "boolean": bool,
            "integer": int,
            "null": type(None),
            "string": str,
        }
        named = PROPERTIES[key]["type"]
        allowed = [named] if isinstance(named, str) else named
        assert type(DEFAULTS[key]) in [types[name] for name in allowed]
        assert DEFAULTS[key] in PROPERTIES[key].get("enum", [DEFAULTS[key]])

    def test_dask_knows_the_defaults(self):
        assert dask.config.get("diffuse.min-bytes") == Options().min_bytes


class TestReading:
    def test_defaults(self):
        assert read_options() == Options()

    def test_configuration(self):
        changes = {
            "diffuse.min-bytes": "1 MiB",
            "diffuse.strict": 1,
            "diffuse.silence": ["compile-failed"],
        }
        with dask.config.set(changes):
            assert read_options() == Options(
                min_bytes=1 << 20, strict=True, silence=("compile-failed",)
            )
        assert read_options() == Options()

    def test_underscores_are_as_good_as_hyphens(self):
        with dask.config.set({"diffuse.cache_kernels": 3}):
            assert read_options().cache_kernels == 3

    def test_keywords_win(self, monkeypatch):
        monkeypatch.setenv("DIFFUSE_STRICT", "1")
        with dask.config.set({"diffuse.min-bytes": 1}):
            assert read_options().strict
            options = read_options(min_bytes=2, strict=False)
        assert (options.min_bytes, options.strict) == (2, False)

    @pytest.mark.parametrize(
        ("text", "level", "topics"),
        [
            ("2", 2, ()),
            ("fusion,cache", 0, ("fusion", "cache")),
            ("1, cache", 1, ("cache",)),
            ("", 0, ()),
        ],
    )
    def test_debug(self, monkeypatch, text, level, topics):
        monkeypatch.setenv("DIFFUSE_DEBUG", text)
        options = read_options()
        assert (options.debug, options.debug_topics) == (level, topics)

    def test_dump_and_verify(self, monkeypatch):
        monkeypatch.setenv("DIFFUSE_DUMP", "some/folder")
        monkeypatch.setenv("DIFFUSE_VERIFY", "on")
        assert read_options() == Options(dump="some/folder", verify=True)

    def test_switches(self, monkeypatch):
        assert not is_disabled()
        assert not is_enabled()
        monkeypatch.setenv("DIFFUSE_DISABLE", "1")
        with dask.config.set({"diffuse.enabled": True}):
            assert is_enabled()
        assert is_disabled()

    def test_switched_off_on_the_client_is_off_on_the_scheduler(self, monkeypatch):
        hook = Optimizer()
        monkeypatch.setenv("DIFFUSE_DISABLE", "1")
        travelled = pickle.dumps(hook)
        monkeypatch.delenv("DIFFUSE_DISABLE")
        assert pickle.loads(travelled) is optimize_array_graph
        assert pickle.loads(pickle.dumps(hook)) == hook


class TestMistakes:
    def test_name_in_a_call(self):
        with pytest.raises(OptionError, match=r"no option 'min_byte'.*'min_bytes'\?"):
            read_options(min_byte=4)

    def test_name_in_the_configuration(self):
        with (
            dask.config.set({"diffuse.min-byte": 4}),
            pytest.raises(
                OptionError, match=r"no option 'diffuse.min-byte'.*'min_bytes'\?"
            ),
        ):
            read_options()

    def test_lists_and_paths_are_as_good(self, tmp_path):
        options = read_options(debug_topics=["cache"], silence=["x"], dump=tmp_path)
        assert options.debug_topics == ("cache",)
        assert options.silence == ("x",)
        assert options.dump == str(tmp_path)
        assert hash(options) == hash(options.replace())

    @pytest.mark.parametrize(
        ("name", "value", "allowed"),
        [
            ("backend", "gpu", "one of auto, cpu, interpreter.*no kernels for GPUs"),
            ("min_bytes", -1, "at least 0"),
            ("min_bytes", "much", "at least 0"),
            ("min_bytes", True, "at least 0"),
            ("max_group_values", 2.5, "at least 0"),
            ("strict", "yes", "true or false"),
            ("debug", 6, "from 0 to 5"),
            ("cache_dir", 3, "path of a folder"),
            ("silence", "compile-failed", "list of names"),
            ("silence", {"compile-failed": {}}, "list of names"),
        ],
    )
    def test_value(self, name, value, allowed):
        with pytest.raises(OptionError, match=allowed) as caught:
            read_options(**{name: value})
        assert isinstance(caught.value, DiffuseError)
        assert isinstance(caught.value, ValueError)
        key = f"diffuse.{name.replace('_', '-')}"
        with (
            dask.config.set({key: value}),
            pytest.raises(OptionError, match=allowed) as caught,
        ):
            read_options()
        assert caught.value.name == key

    def test_spelling_of_a_value(self):
        with pytest.raises(OptionError, match=r"Did you mean 'interpreter'\?"):
            Options(backend="interpeter")

    def test_not_a_table(self):
        with dask.config.set(diffuse=3), pytest.raises(OptionError, match="table"):
            read_options()

    def test_enabled(self):
        with (
            dask.config.set({"diffuse.enabled": "maybe"}),
            pytest.raises(OptionError, match=r"diffuse.enabled.*true or false"),
        ):
            is_enabled()

    @pytest.mark.parametrize("name", ["STRICT", "VERIFY"])
    def test_environment(self, monkeypatch, name):
        monkeypatch.setenv(f"DIFFUSE_{name}", "perhaps")
        with pytest.raises(OptionError, match=f"DIFFUSE_{name}.*0 or 1"):
            read_options()

    def test_debug(self, monkeypatch):
        monkeypatch.setenv("DIFFUSE_DEBUG", "9")
        with pytest.raises(OptionError, match="level from 0 to 5"):
            read_options()


def run(code: str, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_dasks_own_environment_variables():
    code = (
        "import dask_diffuse; from dask_diffuse.config import read_options;"
        "o = read_options(); print(o.min_bytes, o.strict)"
    )
    environment = {"DASK_DIFFUSE__MIN_BYTES": "7", "DASK_DIFFUSE__STRICT": "True"}
    assert run(code, **environment) == "7 True"


def test_the_configuration_can_enable_the_hook():
    code = (
        "import dask, dask_diffuse;"
        "print(type(dask.config.get('array_optimize', None)).__name__)"
    )
    assert run(code, DASK_DIFFUSE__ENABLED="True") == "Optimizer"
    assert run(code, DASK_DIFFUSE__ENABLED="1") == "Optimizer"
    assert run(code, DASK_DIFFUSE__ENABLED="0") == "NoneType"
    assert run(code) == "NoneType"
