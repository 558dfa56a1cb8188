"""Annotations of a fused layer, from those of the layers it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["UnmergeableError", "merge_annotations"]


class UnmergeableError(Exception):
    """Layers carry annotations that no one task can honor."""


def merge_annotations(
    layers: Iterable[Mapping[str, Any] | None],
) -> dict[str, Any] | None:
    """Return what the one task must be told so that every layer is served.

    The rules are Dask's own: the strongest wish for retries, priority and resources,
    the workers that all layers allow, other workers only if all layers allow them. Any
    other annotation must be the same in all layers.

    Parameters
    ----------
    layers
        The annotations of each layer; None or empty where there are none.

    Raises
    ------
    UnmergeableError
        If there is no such set of annotations.

    Examples
    --------
    >>> merge_annotations([{"priority": 1}, None, {"priority": 3, "retries": 2}])
    {'priority': 3, 'retries': 2}
    """
    given = [dict(layer or ()) for layer in layers]
    if all(layer == given[0] for layer in given):
        return given[0] or None
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for layer in given for name in layer):
        values = [layer[name] for layer in given if name in layer]
        if all(value == values[0] for value in values[1:]) and (
            len(values) == len(given) or name in _MERGE
        ):
            merged[name] = values[0]
        elif name in _MERGE and not any(callable(value) for value in values):
            merged[name] = _MERGE[name](values)
        else:
            raise UnmergeableError(f"annotation {name!r} differs: {values}")
    return merged


def _merge_resources(values: list[Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for resources in values:
        for name, amount in resources.items():
            merged[name] = max(amount, merged.get(name, amount))
    return merged


def _merge_workers(values: list[Any]) -> list[str]:
    sets = [{value} if isinstance(value, str) else set(value) for value in values]
    common = set.intersection(*sets)
    if not common:
        raise UnmergeableError(f"no worker may run all layers: {values}")
    return sorted(common)


_MERGE: dict[str, Callable[[list[Any]], Any]] = {
    "retries": max,
    "priority": max,
    "resources": _merge_resources,
    "workers": _merge_workers,
    "allow_other_workers": all,
}
