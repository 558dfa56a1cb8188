"""The fallback: the original functions, one after the other, as the host has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dask_diffuse.runtime.parts import ArgRef, Output, Step, StepRef

__all__ = ["StepRunner", "make_range"]


def make_range(
    function: Callable[..., np.ndarray],
    start: float,
    step: float,
    dtype: np.dtype,
    begin: int,
    length: int,
) -> np.ndarray:
    """Make one block of a range as `dask.array.arange` does.

    Parameters
    ----------
    function
        Of the host's tasks; it takes the start and the stop of the block, `step`,
        `length` and `dtype`.
    start, step, dtype
        Of the whole range.
    begin
        The index of the first element of the block.
    length
        Of the block.
    """
    end = begin + length
    return function(start + begin * step, start + end * step, step, length, dtype)


class StepRunner:
    """Runs the steps of a fused task.

    Values are dropped after their last use, so that no more memory is needed than by
    tasks that are not fused.

    Parameters
    ----------
    steps
        The original functions, in order.
    outputs
        What the fused task returns.

    Examples
    --------
    >>> import operator
    >>> import numpy as np
    >>> steps = (
    ...     Step(operator.mul, (ArgRef(0), 2)),
    ...     Step(operator.add, (StepRef(0), 1)),
    ... )
    >>> output = Output("array", (0,), 1, (), np.dtype("i8"))
    >>> StepRunner(steps, (output,)).run([np.array([1, 2])])
    [array([3, 5])]
    """

    def __init__(self, steps: tuple[Step, ...], outputs: tuple[Output, ...]) -> None:
        self._steps = steps
        self._results = tuple(output.step for output in outputs)

    def run(self, blocks: Sequence[Any]) -> list[Any]:
        """Return the blocks that the fused task is to return."""
        values: list[Any] = []
        for step, dead in zip(self._steps, self._dead_after, strict=True):
            args = [_resolve(value, blocks, values) for value in step.args]
            kwargs = {
                name: _resolve(value, blocks, values) for name, value in step.kwargs
            }
            values.append(step.function(*args, **kwargs))
            for number in dead:
                values[number] = None
        return [values[step] for step in self._results]

    @cached_property
    def _dead_after(self) -> tuple[tuple[int, ...], ...]:
        """For each step, the earlier ones whose values nobody needs any more."""
        last = {number: number for number in range(len(self._steps))}
        for number, step in enumerate(self._steps):
            for value in (*step.args, *(value for _, value in step.kwargs)):
                if type(value) is StepRef:
                    last[value.step] = number
        for number in self._results:
            last.pop(number, None)
        dead: list[list[int]] = [[] for _ in self._steps]
        for number, reader in last.items():
            dead[reader].append(number)
        return tuple(map(tuple, dead))


def _resolve(value: Any, blocks: Sequence[Any], values: list[Any]) -> Any:
    if type(value) is StepRef:
        return values[value.step]
    if type(value) is ArgRef:
        block = blocks[value.slot]
        return block if value.item is None else block[value.item]
    return value
