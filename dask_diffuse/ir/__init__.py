"""See the page on the layout of the package."""

from __future__ import annotations
