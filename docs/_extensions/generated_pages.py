"""Tables that are built from the code, so that they cannot go stale.

Each is written to ``reference/generated/NAME.inc.md`` before the build, and a page
includes it.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
from numpydoc.docscrape import ClassDoc
from sphinx.application import Sphinx

from dask_diffuse.cli import main
from dask_diffuse.codegen.mathlib import MATH_FUNCTIONS
from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ir.decision import Rule
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.legalize import legalize_function
from dask_diffuse.ops import DECLINED, OPS, REDUCTIONS, ReductionOp, ScalarOp
from dask_diffuse.options import DEBUG_TOPICS, Options
from dask_diffuse.runtime.counters import Fallback

KINDS = {
    "bool": np.dtype("bool"),
    "integers": np.dtype("int32"),
    "floats": np.dtype("float64"),
    "complex": np.dtype("complex128"),
}
"""The columns of the table of operations, and a dtype that stands for each."""


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
    """One row for each rule."""
    yield from _member_rows(Rule, "rule")


def fallback_rows() -> Iterator[str]:
    """One row for each reason for which a fused task runs the original functions."""
    yield from _member_rows(Fallback, "reason")


def _member_rows(kind: type[enum.Enum], title: str) -> Iterator[str]:
    """One row for each member of an enum, from the strings below them."""
    yield f"| {title} | meaning |"
    yield "|---|---|"
    body = ast.parse(inspect.getsource(kind)).body[0].body
    for member, text in itertools.pairwise(body):
        if isinstance(member, ast.Assign):
            assert isinstance(text, ast.Expr), ast.unparse(member)
            identifier = ast.literal_eval(member.value)
            meaning = ast.literal_eval(text.value).replace("``", "`")
            yield f"| `{identifier}` | {meaning} |"


def operation_rows() -> Iterator[str]:
    """One row for each operation that users can call, tried out on each kind."""
    yield f"| operation | {' | '.join(KINDS)} | math library | ulp |"
    yield f"|---|{'---|' * len(KINDS)}---|---|"
    for op in OPS.values():
        if op.typing is not None:
            cells = [_state(op, dtype) for dtype in KINDS.values()]
            ulps = str(op.ulp)
            if op.complex_ulp and cells[-1] == "yes":
                ulps += f" (complex {op.complex_ulp})"
            yield f"| `{op.name}` | {' | '.join(cells)} | {_made_of(op)} | {ulps} |"


def _state(op: ScalarOp, dtype: np.dtype) -> str:
    """Whether an operation on operands of a dtype becomes part of a kernel."""
    try:
        _core_ops(op, dtype)
    except UnsupportedError as error:
        return "" if "has no loop" in error.message else "NumPy"
    return "yes"


def _core_ops(op: ScalarOp, dtype: np.dtype) -> set[str]:
    """Names of the core ops that an operation becomes."""
    builder = FunctionBuilder()
    operands = [builder.input(number, dtype) for number in range(op.arity)]
    function = builder.build([builder.apply(op.name, *operands)])
    return {line.op for line in legalize_function(function).instructions}


def _made_of(op: ScalarOp) -> str:
    """What of the math library floats need, if anything."""
    try:
        called = sorted(_core_ops(op, KINDS["floats"]) & MATH_FUNCTIONS.keys())
    except UnsupportedError:
        called = []
    return ", ".join(f"`{MATH_FUNCTIONS[name]}`" for name in called)


def declined_rows() -> Iterator[str]:
    """One row for each function that has no row in the table, with the reason."""
    yield "| function | stays with NumPy since it |"
    yield "|---|---|"
    for name, reason in DECLINED.items():
        yield f"| `{name}` | {reason} |"


def reduction_rows() -> Iterator[str]:
    """One row for each reduction."""
    yield "| reduction | of nothing | results | NaN |"
    yield "|---|---|---|---|"
    for row in REDUCTIONS.values():
        identity = "" if row.identity is None else f"`{row.identity}`"
        nan = "skipped" if row.skips_nan else "counts"
        yield f"| `{row.name}` | {identity} | {_results(row)} | {nan} |"


def _results(row: ReductionOp) -> str:
    if row.is_arg:
        return "value, position"
    return "count, total, squares" if row.num_results == 3 else "value"


def topic_rows() -> Iterator[str]:
    """One row for each topic of the log."""
    yield "| topic | from level |"
    yield "|---|---|"
    for topic, level in DEBUG_TOPICS.items():
        yield f"| `{topic}` | {level} |"


def command_rows() -> Iterator[str]:
    """The help of the command line, command by command."""
    settings = main.context_settings
    context = click.Context(main, info_name="dask-diffuse", **settings)
    yield from _help(main, context)
    for name, command in sorted(main.commands.items()):
        yield from _command_rows(name, command, context, "##")


def _command_rows(
    name: str, command: click.Command, parent: click.Context, level: str
) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield ""
    yield f"{level} {context.command_path.partition(' ')[2]}"
    yield ""
    yield from _help(command, context)
    for inner, subcommand in sorted(getattr(command, "commands", {}).items()):
        yield from _command_rows(inner, subcommand, context, level + "#")


def _help(command: click.Command, context: click.Context) -> Iterator[str]:
    yield "```text"
    yield f"$ {context.command_path} --help"
    yield command.get_help(context)
    yield "```"


PERFORMANCE = Path(__file__).parent.parent / "performance.json"
"""Written by ``asv_bench/table.py --json docs/performance.json``."""

UNITS = {"memory": (2**20, "MiB"), "problems": (1, "s")}


def performance_rows() -> Iterator[str]:
    """One row for each claim that was measured, if any was."""
    if not PERFORMANCE.exists():
        yield "No figures are kept with this version: measure your own, as above."
        return
    yield "| | | plain Dask | dask_diffuse | measured | promised |"
    yield "|---|---|---|---|---|---|"
    for claim in json.loads(PERFORMANCE.read_text(encoding="utf-8")):
        scale, unit = UNITS.get(claim["part"], (1e-3, "ms"))
        amounts = [
            "" if claim[side] is None else f"{claim[side] / scale:.3g} {unit}"
            for side in ("plain", "fused")
        ]
        value = f"{claim['value']:.3g} {'s' if claim['unit'] == 's' else ''}".rstrip()
        bound = "at least" if claim["larger_is_better"] else "at most"
        goal = "" if claim["goal"] is None else f"{bound} {claim['goal']:g}"
        name = claim["name"].replace("_", " ")
        yield f"| {claim['part']} | {name} | {' | '.join(amounts)} | {value} | {goal} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "commands": command_rows,
    "declined": declined_rows,
    "fallbacks": fallback_rows,
    "operations": operation_rows,
    "options": option_rows,
    "performance": performance_rows,
    "reductions": reduction_rows,
    "rules": rule_rows,
    "topics": topic_rows,
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
