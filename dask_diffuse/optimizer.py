"""The hook: the list of passes, the clock and the safety net."""

from __future__ import annotations

import logging
import math
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import dask.array as da
import dask.config

from dask_diffuse.config import is_disabled, read_options
from dask_diffuse.dask_api import (
    Blockwise,
    HighLevelGraph,
    Key,
    check_dask_version,
    optimize_array_graph,
)
from dask_diffuse.errors import DiffuseError, DiffuseWarning
from dask_diffuse.frontend import import_graph
from dask_diffuse.fusion import plan_fusion
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.lowering import Requested, finish, lower
from dask_diffuse.options import Options
from dask_diffuse.report import GraphTrace, write_trace
from dask_diffuse.runtime.counters import warn_fallback

__all__ = [
    "GraphRecord",
    "Optimizer",
    "Switch",
    "disable",
    "enable",
    "hook_counts",
    "optimize",
    "recent_graphs",
]

logger = logging.getLogger(__name__)

_FEW_BLOCKS = 16
"""Small arrays are left alone if they have no more blocks than this."""

_RECENT_GRAPHS = 8
"""How many graphs `recent_graphs` remembers."""


@dataclass(frozen=True)
class GraphRecord:
    """What the hook did with one graph.

    Parameters
    ----------
    plan
        The outcome of planning.
    layers_before, layers_after
        Numbers of layers; afterwards None if the graph became a list of tasks.
    seconds
        What each pass took, in the order of the passes.
    """

    plan: FusionPlan
    layers_before: int
    layers_after: int | None
    seconds: Mapping[str, float]


class _History:
    """Graphs that the hook has seen in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[GraphRecord] = deque(maxlen=_RECENT_GRAPHS)
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def count(self, outcome: str) -> None:
        with self._lock:
            self._counts[outcome] += 1

    def add(self, record: GraphRecord) -> None:
        with self._lock:
            self._recent.append(record)
            self._counts["fused"] += 1
            self._counts["groups"] += len(record.plan.groups)
            self._seconds += sum(record.seconds.values())

    def recent(self) -> tuple[GraphRecord, ...]:
        with self._lock:
            return tuple(self._recent)

    def counts(self) -> dict[str, float]:
        names = ("fused", "groups", "small", "unfused", "failed")
        with self._lock:
            counts: dict[str, float] = {name: self._counts[name] for name in names}
            return counts | {"seconds": self._seconds}

    def clear(self) -> None:
        with self._lock:
            self._recent.clear()
            self._counts.clear()
            self._seconds = 0.0


_history = _History()


def recent_graphs() -> tuple[GraphRecord, ...]:
    """Return what the hook did with the last graphs in this process, oldest first."""
    return _history.recent()


def hook_counts() -> dict[str, float]:
    """Return how many graphs the hook saw in this process, and what became of them.

    ``fused`` graphs have ``groups`` in all and took ``seconds`` to optimize; ``small``
    ones were not looked at; for ``unfused`` ones no group was found; ``failed`` ones
    met a mistake of ours and were handed to Dask's own optimizer.
    """
    return _history.counts()


class Optimizer:
    """A hook for ``dask.config.set(array_optimize=...)`` with options of its own.

    Calling it with a graph and the keys that are wanted returns a graph in which
    groups of tasks run as one compiled kernel for each block. Two are equal if their
    options are; they pickle, and take their options along to a remote scheduler.

    Parameters
    ----------
    options
        All options at once; those of Dask's configuration by default.
    **changes
        Single options.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> x = da.ones((100, 100), chunks=50)
    >>> with dask.config.set(array_optimize=Optimizer(min_bytes=0)):
    ...     float((x * 2 + 1).sum().compute())
    30000.0
    """

    __slots__ = ("options",)

    def __init__(self, options: Options | None = None, **changes: Any) -> None:
        check_dask_version()
        if options is None:
            options = read_options(**changes)
        elif changes:
            options = options.replace(**changes)
        self.options = options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Optimizer) and self.options == other.options

    def __hash__(self) -> int:
        return hash((Optimizer, self.options))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Options, ...]]:
        # The environment of a remote scheduler is not that of the client.
        return (_dasks_own, ()) if is_disabled() else (_restore, (self.options,))

    def __call__(
        self, dsk: Mapping[Key, Any], keys: object, **kwargs: Any
    ) -> Mapping[Key, Any]:
        """Return a graph that makes the same keys in fewer and faster tasks.

        Whatever goes wrong, the graph is handed to Dask's own optimizer: an exception
        here would end the user's computation.
        """
        try:
            fused = None if is_disabled() else self._fuse(dsk, keys)
        except Exception as error:
            if self.options.strict:
                raise
            _history.count("failed")
            logger.debug("a graph is not fused", exc_info=True)
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            warn_fallback("hook-failed", "a graph", reason, self.options)
            fused = None
        if fused is not None:
            return fused
        return optimize_array_graph(dsk, keys, **kwargs)  # type: ignore[no-any-return]

    def trace(self, dsk: HighLevelGraph, keys: object) -> GraphTrace:
        """Return what the passes make of a graph, without running anything.

        Parameters
        ----------
        dsk
            A graph.
        keys
            The keys that are wanted of it, nested in lists as Dask has them.
        """
        trace = GraphTrace(dsk)
        self._run_passes(trace, keys)
        return trace

    def leaves_alone(self, dsk: HighLevelGraph) -> bool:
        """Whether a graph has nothing to fuse that would pay for looking at it."""
        return _is_small(dsk, self.options)

    def _fuse(self, dsk: Mapping[Key, Any], keys: object) -> Mapping[Key, Any] | None:
        if not isinstance(dsk, HighLevelGraph) or _is_small(dsk, self.options):
            _history.count("small")
            return None
        check_dask_version()
        trace = GraphTrace(dsk)
        try:
            self._run_passes(trace, keys)
        except Exception as error:
            trace.error = error
            raise
        finally:
            write_trace(trace, self.options)
        if trace.plan is None or trace.after is None:
            _history.count("unfused")
            return None
        after = trace.after
        num_layers = len(after.layers) if isinstance(after, HighLevelGraph) else None
        _history.add(
            GraphRecord(trace.plan, len(dsk.layers), num_layers, trace.seconds)
        )
        return after

    def _run_passes(self, trace: GraphTrace, keys: object) -> None:
        dsk, options = trace.before, self.options
        with trace.time("keys"):
            requested = Requested.of(keys)
        with trace.time("import"):
            program = trace.program = import_graph(
                dsk, requested.names, options=options
            )
        with trace.time("plan"):
            plan = trace.plan = plan_fusion(program, options=options)
        if not plan.groups:
            return
        with trace.time("lower"):
            lowered = lower(plan, dsk, requested.names, options=options)
        with trace.time("finish"):
            trace.after = finish(lowered, requested)


def _dasks_own() -> Callable[..., Any]:
    """Unpickle a hook that was switched off where it comes from."""
    return optimize_array_graph  # type: ignore[no-any-return]


def _restore(options: Options) -> Optimizer:
    """Unpickle a hook, also where it will not work: it says so when it is called."""
    hook = object.__new__(Optimizer)
    hook.options = options
    return hook


def _is_small(dsk: HighLevelGraph, options: Options) -> bool:
    if not options.min_bytes:
        return False
    layers = dsk.layers.values()
    if not any(isinstance(layer, Blockwise) for layer in layers):
        return True
    known = [
        layer.collection_annotations
        for layer in layers
        if layer.collection_annotations and "chunks" in layer.collection_annotations
    ]
    return bool(known) and not any(_is_large(array, options) for array in known)


def _is_large(array: Mapping[str, Any], options: Options) -> bool:
    nbytes = math.prod(array["shape"]) * array["dtype"].itemsize
    # Lengths that are not known are NaN, and so is the product: that is not small.
    if not nbytes < options.min_bytes:
        return True
    return math.prod(map(len, array["chunks"])) > _FEW_BLOCKS


def optimize(dsk: Mapping[Key, Any], keys: object, **kwargs: Any) -> Mapping[Key, Any]:
    """Fuse a graph with the options of Dask's configuration at the time of the call.

    For ``dask.config.set(array_optimize=dask_diffuse.optimize)``. With a remote
    scheduler that is the configuration of the scheduler; an `Optimizer` takes the
    options of the client along.

    Parameters
    ----------
    dsk
        A graph.
    keys
        The keys that are wanted of it.
    **kwargs
        For Dask's own optimizer, where the graph is handed to it.
    """
    try:
        hook = Optimizer()
    except DiffuseError as error:
        warn_fallback("hook-failed", "a graph", str(error), Options())
        return optimize_array_graph(dsk, keys, **kwargs)  # type: ignore[no-any-return]
    return hook(dsk, keys, **kwargs)


_ABSENT = object()
_KEY = "array_optimize"
_others_hook: object = _ABSENT
"""What stood in Dask's configuration before a hook of ours did."""


class Switch:
    """What `enable` and `disable` return: a context manager that undoes them.

    Nothing has to be done with it; the hook then stays as it was set.
    """

    def __init__(self, hook: Optimizer | None) -> None:
        global _others_hook
        with dask.config.config_lock:
            self._before = before = dask.config.config.get(_KEY, _ABSENT)
            is_ours = isinstance(before, Optimizer) or before is optimize
            if not is_ours:
                _others_hook = before
            if hook is not None:
                _set_hook(hook)
            elif is_ours:
                _set_hook(_others_hook)

    def __enter__(self) -> Switch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with dask.config.config_lock:
            _set_hook(self._before)


def _set_hook(value: object) -> None:
    if value is _ABSENT:
        dask.config.config.pop(_KEY, None)
    else:
        dask.config.config[_KEY] = value


def enable(**options: Any) -> Switch:
    """Fuse every computation on Dask arrays from now on.

    Sets ``array_optimize`` in Dask's configuration, for all threads of the process. As
    a context manager, for as long as the context lasts; what was there before is put
    back. Arrays are fused if they are computed inside, wherever they were built.

    Parameters
    ----------
    **options
        See `Options`. The others come from Dask's configuration.

    Returns
    -------
    Switch
        A context manager.

    Raises
    ------
    OptionError
        For an option that does not exist, or a value that is not allowed.
    VersionError
        If the installed dask is older or newer than what we know.

    Examples
    --------
    >>> import dask.array as da
    >>> import dask_diffuse
    >>> x = da.ones((1000, 1000), chunks=500)
    >>> with dask_diffuse.enable():
    ...     float((x * 2 + 1).sum().compute())
    3000000.0
    """
    hook = Optimizer(**options)
    if getattr(da, "ARRAY_EXPR_ENABLED", False):
        warnings.warn(
            "array.query-planning is on, and with it Dask never calls "
            "array_optimize: nothing will be fused. Set "
            "DASK_ARRAY__QUERY_PLANNING=False before dask.array is imported.",
            DiffuseWarning,
            stacklevel=2,
        )
    return Switch(hook)


def disable() -> Switch:
    """Undo `enable`: compute as Dask, or a hook of somebody else, does.

    As a context manager, only for as long as the context lasts.

    Returns
    -------
    Switch
        A context manager.

    Examples
    --------
    >>> import dask_diffuse
    >>> with dask_diffuse.enable():
    ...     with dask_diffuse.disable():
    ...         pass  # compute something without fusion
    """
    return Switch(None)
