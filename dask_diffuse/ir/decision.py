"""Decisions: a recorded yes or no, the rule that gave it and the values it saw.

`explain()`, logs, tests and bug reports all read the same objects.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Decision", "Rule"]


class Rule(enum.Enum):
    """Why something was, or was not, fused. The value is the id shown to users."""

    LAUNCH_DOMAIN = "launch-domain"
    """C1: tasks of one group run over one launch domain, cut in the same way."""
    TRUE_DEPENDENCE = "true-dependence"
    """C2: what a group writes it reads only through the same partition."""
    ANTI_DEPENDENCE = "anti-dependence"
    """C3: what a group has read it writes only through the same partition."""
    REDUCTION = "reduction"
    """C4: what a group reduces to, no other task of it reads or writes."""
    DISJOINT_WRITES = "disjoint-writes"
    """Each point writes a tile of its own."""
    CONVEXITY = "convexity"
    """No path leaves a group and comes back."""
    LIMIT = "limit"
    """The kernel would grow past `max_group_values` or `max_group_arrays`."""
    COST = "cost"
    """Fusing would not pay."""
    ANNOTATIONS = "annotations"
    """The layers carry annotations that cannot be merged."""

    UNKNOWN_FUNCTION = "unknown-function"
    """The layer calls a function that has no row in the op table."""
    UNSUPPORTED_ARGUMENT = "unsupported-argument"
    """A known function, called in a way that has no scalar form."""
    UNSUPPORTED_DTYPE = "unsupported-dtype"
    """A dtype that kernels do not handle."""
    UNKNOWN_DTYPE = "unknown-dtype"
    """The dtype of an operand is not known before run time."""
    UNSUPPORTED_BLOCKS = "unsupported-blocks"
    """Blocks are not plain NumPy or CuPy arrays."""
    BLOCK_SHAPES = "block-shapes"
    """The blocks of an operand do not broadcast tile by tile."""
    CONTRACTION = "contraction"
    """The layer sees several blocks of an operand at a time."""
    NEW_AXES = "new-axes"
    """The layer makes axes that no operand has."""
    MATERIALIZED = "materialized"
    """The layer is a list of tasks and not a symbolic operation."""
    SOURCE = "source"
    """The layer loads or makes data."""
    MAY_RAISE = "may-raise"
    """NumPy may raise for some values, so NumPy has to run."""
    TOO_SMALL = "too-small"
    """The arrays are smaller than `min_bytes`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One question that was asked while planning, and its answer.

    Parameters
    ----------
    rule
        What was checked.
    accepted
        The answer.
    subject
        Name of the store (hence of the layer) that the question was about.
    other
        Name of the second store, where the question was about a pair.
    detail
        The values that decided, as a short sentence without a full stop.
    remedy
        What a user can do about a refusal, or the empty string.
    """

    rule: Rule
    accepted: bool
    subject: str
    other: str | None = None
    detail: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        pair = f"{self.subject!r}" + (f" with {self.other!r}" if self.other else "")
        verdict = "fused" if self.accepted else "not fused"
        text = (
            f"{pair} {verdict}: {self.detail}" if self.detail else f"{pair} {verdict}"
        )
        if self.remedy:
            text += f". {self.remedy}"
        return f"{text} [{self.rule.value}]"
