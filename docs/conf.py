"""How the documentation is built; the text is in Markdown (MyST)."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "dask_diffuse"
author = "dask-diffuse developers"
release = importlib.metadata.version("dask-diffuse")
version = release.split("+")[0]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "generated_pages",
]
exclude_patterns = ["_build", "reference/generated/*.inc.md"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = "dask_diffuse"
nitpicky = False
