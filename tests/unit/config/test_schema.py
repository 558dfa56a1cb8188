"""The schema says what the code accepts, key by key."""

from __future__ import annotations

from importlib import resources

import dask
import jsonschema
import pytest
import yaml

import dask_diffuse
from dask_diffuse.config import is_enabled, read_options
from dask_diffuse.errors import OptionError

TEXT = resources.files("dask_diffuse")
DEFAULTS = yaml.safe_load(TEXT.joinpath("diffuse.yaml").read_text())
SCHEMA = yaml.safe_load(TEXT.joinpath("diffuse-schema.yaml").read_text())
KEYS = sorted(DEFAULTS["diffuse"])

VALUES = (
    *(True, False, None),
    *(0, 1, 5, 6, -1, 2.5),
    *("", "auto", "cuda", "interpeter", "1 MiB", "/tmp/somewhere"),
    *([], ["cache"], ["compile-failed"], [3], {}),
)


def is_looser(key: str, value: object) -> bool:
    """Whether the code accepts more than the schema can say."""
    if type(value) is int and value in (0, 1):
        # Dask's environment variables write booleans as numbers.
        return True
    # Some texts are numbers of bytes.
    return key == "min-bytes" and isinstance(value, str)


def test_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_defaults_follow_it():
    jsonschema.validate(DEFAULTS, SCHEMA)


def test_unknown_keys_do_not():
    with pytest.raises(jsonschema.ValidationError, match="min-byte"):
        jsonschema.validate({"diffuse": {"min-byte": 3}}, SCHEMA)


@pytest.mark.parametrize("key", KEYS)
def test_accepts_what_the_code_accepts(key):
    schema = SCHEMA["properties"]["diffuse"]["properties"][key]
    validator = jsonschema.Draft202012Validator(schema)
    answers = set()
    for value in VALUES:
        if is_looser(key, value):
            continue
        answers.add(validator.is_valid(value))
        assert validator.is_valid(value) == accepts(key, value), (key, value)
    assert answers == {True, False}


def accepts(key: str, value: object) -> bool:
    with dask.config.set({f"diffuse.{key}": value}):
        try:
            is_enabled()
            read_options()
        except OptionError:
            return False
    return True


class TestEnable:
    """Mistakes are told when the hook is switched on, and not while computing."""

    @pytest.fixture(autouse=True)
    def _nothing_is_enabled(self):
        yield
        assert dask.config.get("array_optimize", None) is None

    def test_a_wrong_value_in_the_configuration(self):
        with (
            dask.config.set({"diffuse.backend": "gpu"}),
            pytest.raises(OptionError, match=r"'diffuse.backend' has the value 'gpu'"),
        ):
            dask_diffuse.enable()

    def test_a_wrong_name_in_the_configuration(self):
        with (
            dask.config.set({"diffuse.exact_maths": True}),
            pytest.raises(OptionError, match=r"Did you mean 'exact_math'\?"),
        ):
            dask_diffuse.enable()

    def test_a_wrong_value_in_the_environment(self, monkeypatch):
        monkeypatch.setenv("DIFFUSE_DEBUG", "fusoin")
        with pytest.raises(OptionError, match=r"'DIFFUSE_DEBUG'.*'fusoin'.*fusion"):
            dask_diffuse.enable()

    def test_a_wrong_keyword(self):
        with pytest.raises(OptionError, match=r"no option 'exact'.*exact_math"):
            dask_diffuse.enable(exact=True)

    def test_a_wrong_value(self):
        with pytest.raises(OptionError, match=r"'min_bytes'.*'1 furlong'.*integer"):
            dask_diffuse.enable(min_bytes="1 furlong")
