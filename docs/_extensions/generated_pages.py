"""Tables that are built from the code, so that they cannot go stale.

Each is written to ``reference/generated/NAME.inc.md`` before the build, and a page
includes it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

from numpydoc.docscrape import ClassDoc
from sphinx.application import Sphinx

import dask_diffuse.ir.decision
from dask_diffuse.options import Options


def option_rows() -> Iterator[str]:
    """One row for each option, from the docstring of the class."""
    yield "| option | default | meaning |"
    yield "|---|---|---|"
    fields = {field.name: field.default for field in dataclasses.fields(Options)}
    documented = {p.name: " ".join(p.desc) for p in ClassDoc(Options)["Parameters"]}
    assert documented.keys() == fields.keys()
    for name, text in documented.items():
        meaning = text.replace("``", "`")
        yield f"| `{name}` | `{fields[name]!r}` | {meaning} |"


def rule_rows() -> Iterator[str]:
    """One row for each rule, from the strings below its members."""
    yield "| rule | meaning |"
    yield "|---|---|"
    source = inspect.getsource(dask_diffuse.ir.decision.Rule)
    body = ast.parse(source).body[0].body
    for member, text in zip(body, body[1:], strict=False):
        if isinstance(member, ast.Assign):
            assert isinstance(text, ast.Expr), ast.unparse(member)
            identifier = ast.literal_eval(member.value)
            yield f"| `{identifier}` | {ast.literal_eval(text.value)} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "options": option_rows,
    "rules": rule_rows,
}


def write_tables(app: Sphinx) -> None:
    """Write every table; Sphinx rebuilds a page only if its table has changed."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in TABLES.items():
        path = folder / f"{name}.inc.md"
        text = "\n".join(rows()) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to write the tables."""
    app.connect("builder-inited", write_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
