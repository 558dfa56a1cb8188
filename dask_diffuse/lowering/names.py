"""Names of new layers: readable, and the same in every process for the same work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

__all__ = ["content_key", "group_label", "scalar_text"]

_LABEL_LENGTH = 60
"""Keys are kept far below the 120 characters that dashboards show."""


def content_key(parts: Iterable[str]) -> str:
    """Return 32 hexadecimal digits that stand for some texts.

    Names of layers are tokens of everything the layers do, so the texts need not say
    more than names, literals and options.

    Examples
    --------
    >>> content_key(["a", "b"]) == content_key(["ab"])
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def group_label(labels: Iterable[str]) -> str:
    """Return a short name made from those of the layers.

    Only letters and hyphens, which is what dashboards group tasks by.

    Examples
    --------
    >>> group_label(["mul", "add", "mul", "mean_chunk"])
    'mul-add-mean-chunk'
    """
    kept: list[str] = []
    length = 0
    for label in dict.fromkeys(labels):
        text = label.replace("_", "-")
        word = "".join(c for c in text if c.isascii() and (c.isalpha() or c == "-"))
        word = word.strip("-")
        if not word or word in kept:
            continue
        length += len(word) + 1
        if length > _LABEL_LENGTH:
            break
        kept.append(word)
    return "-".join(kept) or "fused"


def scalar_text(value: np.generic) -> str:
    """Return a text that tells a literal from every other, to the last bit.

    Examples
    --------
    >>> scalar_text(np.float32(0.5)), scalar_text(np.float64(-0.0))
    ('<f4:0000003f', '<f8:0000000000000080')
    """
    return f"{value.dtype.str}:{value.tobytes().hex()}"
