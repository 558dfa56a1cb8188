"""Reads Dask's configuration and the environment, and makes `Options` of them.

Strongest first: keywords of the caller, ``DIFFUSE_*`` in the environment, ``diffuse.*``
in Dask's configuration (which has its own files and environment variables), defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import dask.config
from dask.utils import parse_bytes

from dask_diffuse.errors import OptionError
from dask_diffuse.options import DEBUG_TOPICS, Options

__all__ = ["is_disabled", "is_enabled", "load_defaults", "read_options"]

_ENVIRONMENT = ("DEBUG", "DUMP", "STRICT", "VERIFY")
_SWITCHES = {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
}


def load_defaults() -> None:
    """Make the keys of ``diffuse.yaml`` known to `dask.config`."""
    import yaml

    text = resources.files("dask_diffuse").joinpath("diffuse.yaml").read_text("utf-8")
    dask.config.update_defaults(yaml.safe_load(text))


def is_enabled() -> bool:
    """Whether the configuration asks for the hook.

    Raises
    ------
    OptionError
        If the value is neither true nor false.
    """
    value = dask.config.get("diffuse.enabled", False)
    if not isinstance(value, bool) and not _is_bit(value):
        raise OptionError("diffuse.enabled", value, "true or false")
    return bool(value)


def is_disabled() -> bool:
    """Whether ``DIFFUSE_DISABLE`` takes the hook out of every computation."""
    value = os.environ.get("DIFFUSE_DISABLE")
    return value is not None and _switch("DIFFUSE_DISABLE", value)


def read_options(**changes: Any) -> Options:
    """Return the options that hold now.

    Parameters
    ----------
    **changes
        Options of the caller, which win.

    Raises
    ------
    OptionError
        For a name or a value that is not allowed, wherever it comes from.

    Examples
    --------
    >>> import dask
    >>> with dask.config.set({"diffuse.min-bytes": "1 MiB"}):
    ...     read_options(strict=True).min_bytes
    1048576
    """
    configured = dask.config.get("diffuse", None) or {}
    if not isinstance(configured, Mapping):
        raise OptionError("diffuse", configured, "a table of options")
    environment = tuple(os.environ.get(f"DIFFUSE_{name}") for name in _ENVIRONMENT)
    try:
        options = _options(_frozen(configured), environment)
    except TypeError:
        # A value cannot be hashed, hence is not allowed; the check says so.
        options = _options.__wrapped__(_frozen(configured), environment)
    return options.replace(**changes) if changes else options


def _frozen(configured: Mapping[str, Any]) -> tuple[tuple[str, type, Any], ...]:
    # With the type, since False and 0 are equal and not both allowed.
    return tuple(
        (name, type(value), tuple(value) if isinstance(value, list) else value)
        for name, value in configured.items()
    )


@lru_cache(maxsize=16)
def _options(
    configured: tuple[tuple[str, type, Any], ...], environment: tuple[str | None, ...]
) -> Options:
    options = Options()
    for key, _, value in configured:
        name = key.replace("-", "_")
        if name == "enabled":
            continue
        try:
            options = options.replace(**{name: _converted(options, name, value)})
        except OptionError as error:
            raise type(error)(
                f"diffuse.{key}", value, error.allowed, error.remedy
            ) from None
    return options.replace(**_from_environment(environment))


def _converted(options: Options, name: str, value: Any) -> Any:
    """Take what YAML and environment variables cannot say otherwise."""
    if name == "min_bytes" and isinstance(value, str):
        try:
            return parse_bytes(value)
        except ValueError:
            return value
    default = getattr(options, name, None)
    if isinstance(default, bool) and _is_bit(value):
        return bool(value)
    return value


def _is_bit(value: object) -> bool:
    """Whether this is how environment variables of Dask may spell true or false."""
    return type(value) is int and value in (0, 1)


def _from_environment(values: tuple[str | None, ...]) -> dict[str, Any]:
    given = {
        name: value
        for name, value in zip(_ENVIRONMENT, values, strict=True)
        if value is not None
    }
    changes: dict[str, Any] = {}
    if "DEBUG" in given:
        changes |= _debug(given["DEBUG"])
    if "DUMP" in given:
        changes["dump"] = given["DUMP"] or None
    for name in ("STRICT", "VERIFY"):
        if name in given:
            changes[name.lower()] = _switch(f"DIFFUSE_{name}", given[name])
    return changes


def _switch(name: str, value: str) -> bool:
    switch = _SWITCHES.get(value.strip().lower())
    if switch is None:
        raise OptionError(name, value, "0 or 1")
    return switch


def _debug(value: str) -> dict[str, Any]:
    """Read a level, names of topics, or both: ``2``, ``fusion,cache``, ``1,cache``."""
    words = [word for word in re.split(r"[,\s]+", value) if word]
    levels = [int(word) for word in words if word.isdigit()]
    topics = tuple(word for word in words if not word.isdigit())
    if any(level > 5 for level in levels) or not set(topics) <= set(DEBUG_TOPICS):
        names = ", ".join(DEBUG_TOPICS)
        allowed = f"a level from 0 to 5, names among {names}, or both"
        raise OptionError("DIFFUSE_DEBUG", value, allowed)
    return {"debug": max(levels, default=0), "debug_topics": topics}
