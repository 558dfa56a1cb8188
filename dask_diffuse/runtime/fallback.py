"""The fallback: the original functions, one after the other, as the host has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask_diffuse.runtime.parts import ArgRef, Output, Step

__all__ = ["StepRunner"]


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
    ...     Step(operator.add, (ArgRef(1), 1)),
    ... )
    >>> output = Output("array", (0,), 1, (), np.dtype("i8"))
    >>> StepRunner(steps, (output,)).run([np.array([1, 2])])
    [array([3, 5])]
    """

    def __init__(self, steps: tuple[Step, ...], outputs: tuple[Output, ...]) -> None:
        self._steps = steps
        self._results = tuple(output.step for output in outputs)
        self._dead_after: dict[int, list[int]] | None = None

    def run(self, blocks: Sequence[Any]) -> list[Any]:
        """Return the blocks that the fused task is to return."""
        slots = list(blocks)
        dead_after = self._last_uses(len(slots))
        first = len(slots)
        for number, step in enumerate(self._steps):
            args = [_resolve(value, slots) for value in step.args]
            kwargs = {name: _resolve(value, slots) for name, value in step.kwargs}
            slots.append(step.function(*args, **kwargs))
            for slot in dead_after.get(number, ()):
                slots[slot] = None
        return [slots[first + step] for step in self._results]

    def _last_uses(self, num_args: int) -> dict[int, list[int]]:
        if self._dead_after is None:
            last: dict[int, int] = {}
            for number, step in enumerate(self._steps):
                for value in (*step.args, *(value for _, value in step.kwargs)):
                    last.update(dict.fromkeys(_slots_in(value), number))
            for step_number in self._results:
                last.pop(num_args + step_number, None)
            dead_after: dict[int, list[int]] = {}
            for slot, number in last.items():
                dead_after.setdefault(number, []).append(slot)
            self._dead_after = dead_after
        return self._dead_after


def _resolve(value: Any, slots: list[Any]) -> Any:
    if type(value) is ArgRef:
        found = slots[value.slot]
        return found if value.item is None else found[value.item]
    if type(value) is list or type(value) is tuple:
        return type(value)(_resolve(element, slots) for element in value)
    return value


def _slots_in(value: Any) -> list[int]:
    if type(value) is ArgRef:
        return [value.slot]
    if type(value) is list or type(value) is tuple:
        return [slot for element in value for slot in _slots_in(element)]
    return []
