"""What travels to a worker and runs there: a kernel, its guards and its fallback."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from dask_diffuse.debug import log_debug
from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.options import Options
from dask_diffuse.runtime.assemble import assemble
from dask_diffuse.runtime.counters import Fallback, call_counters, warn_fallback
from dask_diffuse.runtime.fallback import StepRunner
from dask_diffuse.runtime.guard import (
    BlockGuards,
    BoundBlocks,
    errstate_allows_kernels,
)
from dask_diffuse.runtime.parts import ArgRef, Binding, Guard, Output, Step, StepRef
from dask_diffuse.runtime.show import show_kernel

__all__ = [
    "ArgRef",
    "Binding",
    "Guard",
    "KernelCall",
    "Output",
    "Step",
    "StepRef",
    "combine_kernel",
    "run_kernel",
]

_Compiled = Callable[
    [Sequence[np.ndarray], Sequence[np.generic], tuple[int, ...]], list[np.ndarray]
]


@dataclass(frozen=True, eq=False)
class KernelCall:
    """The callable inside a fused task: blocks in, one block or a tuple of blocks out.

    Parameters
    ----------
    key
        Content key of everything below, for tokens and equality.
    kernel, scalars
        The kernel, and the values of its scalar arguments.
    guards
        One for each array of the kernel.
    shape
        Where the loop extents come from, if not from the arrays.
    outputs
        The blocks to return. One is returned bare, several as a tuple.
    steps
        The original functions, in order.
    options
        Of the hook that made it.
    """

    key: str
    kernel: Kernel
    scalars: tuple[np.generic, ...]
    guards: tuple[Guard, ...]
    shape: Binding | None
    outputs: tuple[Output, ...]
    steps: tuple[Step, ...]
    options: Options

    def __call__(self, *blocks: Any) -> Any:
        """Run the kernel on some blocks, or the original functions if it cannot be."""
        results = self._run(blocks)
        return results[0] if len(results) == 1 else tuple(results)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelCall) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<KernelCall {self.kernel.label!r} {self.key[:8]}>"

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "dask_diffuse.KernelCall", self.key

    def __reduce__(self) -> tuple[Callable[..., KernelCall], tuple[str, bytes]]:
        return _restore, (self.key, self._pickled)

    @cached_property
    def _pickled(self) -> bytes:
        return _dumps(tuple(getattr(self, field.name) for field in fields(self)))

    @cached_property
    def _guards(self) -> BlockGuards:
        return BlockGuards(
            self.guards, self.kernel.arrays, self.kernel.ndim, self.shape
        )

    @cached_property
    def _steps(self) -> StepRunner:
        return StepRunner(self.steps, self.outputs)

    @cached_property
    def _logs_calls(self) -> bool:
        return self.options.logs("runtime")

    @cached_property
    def _compiled(self) -> _Compiled | None:
        """The compiled kernel, or None if it cannot be had."""
        # A worker that only ever falls back need not load a compiler.
        from dask_diffuse.runtime.cpu import get_kernel

        try:
            compiled = get_kernel(self.kernel, self.options)
        except Exception as error:
            if self.options.strict:
                raise
            self._warn(Fallback.COMPILE_FAILED, error)
            return None
        show_kernel(self.kernel, compiled, self.options)
        return compiled

    def _run(self, blocks: Sequence[Any]) -> list[Any]:
        if self.kernel.ndim == 0:
            # On single numbers NumPy takes less time than a call of a kernel.
            call_counters.count_scalar_call()
            return self._steps.run(blocks)
        bound = self._bind(blocks)
        if isinstance(bound, Fallback):
            return self._fall_back(bound, blocks)
        start = perf_counter()
        results = self._launch(bound)
        if isinstance(results, Fallback):
            return self._fall_back(results, blocks)
        call_counters.count_call(
            perf_counter() - start,
            sum([array.nbytes for array in bound.arrays]),
            sum([array.nbytes for array in results]),
        )
        if self._logs_calls:
            label, extents = self.kernel.label, bound.extents
            log_debug(self.options, "runtime", "kernel %r over %s", label, extents)
        return [
            assemble(output, results, blocks, bound.extents) for output in self.outputs
        ]

    def _fall_back(self, reason: Fallback, blocks: Sequence[Any]) -> list[Any]:
        call_counters.count_fallback(reason)
        if self._logs_calls:
            message = "kernel %r falls back: %s"
            log_debug(self.options, "runtime", message, self.kernel.label, reason.value)
        return self._steps.run(blocks)

    def _bind(self, blocks: Sequence[Any]) -> BoundBlocks | Fallback:
        if self.options.backend == "interpreter":
            return Fallback.BACKEND
        if not errstate_allows_kernels():
            return Fallback.ERRSTATE
        return self._guards.bind(blocks)

    def _launch(self, bound: BoundBlocks) -> list[np.ndarray] | Fallback:
        compiled = self._compiled
        if compiled is None:
            return Fallback.COMPILE_FAILED
        try:
            return compiled(bound.arrays, self.scalars, bound.extents)
        except MemoryError:
            raise
        except Exception as error:
            if self.options.strict:
                raise
            self._warn(Fallback.KERNEL_FAILED, error)
            return Fallback.KERNEL_FAILED

    def _warn(self, reason: Fallback, error: Exception) -> None:
        place = f"kernel {self.kernel.label!r}"
        message = str(error).partition("\n")[0]
        cause = f"{type(error).__name__}: {message}" if message else repr(error)
        warn_fallback(reason.value, place, cause, self.options)


def run_kernel(call: KernelCall, *blocks: Any) -> Any:
    """Run a fused task.

    Tasks name this function and carry the call as an argument, so that one copy of the
    call can serve all of them.
    """
    return call(*blocks)


def combine_kernel(
    call: KernelCall, combine: Callable[[Any], Any], tree: list[Any], *blocks: Any
) -> Any:
    """Run a kernel for several blocks, and combine what it makes of them.

    Parameters
    ----------
    call
        Makes one block.
    combine
        The step of a reduction.
    tree
        Nested lists of the numbers of the blocks that the step takes.
    *blocks
        The arguments of the first call, of the second, and so on.
    """
    count = _count(tree)
    width = len(blocks) // count
    made = [call(*blocks[i * width : (i + 1) * width]) for i in range(count)]
    return combine(_fill(tree, made))


def _count(tree: list[Any]) -> int:
    return sum(_count(node) if type(node) is list else 1 for node in tree)


def _fill(tree: list[Any], made: list[Any]) -> list[Any]:
    return [_fill(node, made) if type(node) is list else made[node] for node in tree]


def _dumps(state: object) -> bytes:
    """Pickle by reference where that is enough, as the host's own serializer does."""
    try:
        pickled = pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
        if b"__main__" not in pickled:
            return pickled
    except Exception:
        # Functions made at run time, for which pickle raises errors of many types.
        pass
    import cloudpickle

    by_value: bytes = cloudpickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)
    return by_value


_RESTORED_CALLS = 128
_restored: dict[str, KernelCall] = {}
_restored_lock = threading.Lock()


def _restore(key: str, pickled: bytes) -> KernelCall:
    """Unpickle a call, or return the one that is already here.

    Many tasks arrive with equal calls. They share one, and with it the compiled kernel.
    """
    call = _restored.get(key)
    if call is None:
        call = KernelCall(*pickle.loads(pickled))
        call.__dict__["_pickled"] = pickled
        with _restored_lock:
            while len(_restored) >= _RESTORED_CALLS:
                del _restored[next(iter(_restored))]
            call = _restored.setdefault(key, call)
    return call
