"""The answer of `explain()`: what would be fused, and why the rest would not."""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.program import Program
from dask_diffuse.kernel.nest import Kernel
from dask_diffuse.report.groups import (
    GroupReport,
    report_groups,
    short_name,
    size_text,
)
from dask_diffuse.report.serialize import program_to_dict

__all__ = ["Explanation", "KernelReport", "TaskCounts"]

_QUIET = {Rule.SOURCE: ("layer", "layers")}
"""Rules that refuse by the nature of a layer: counted, but not listed one by one."""

_DASKS_OWN = re.compile(
    r"(-partial|-aggregate|^finalize-hlgfinalizecompute)-[0-9a-f]{32}$"
)
"""Layers that combine the partial results of a reduction, or put the result together:
they are lists of tasks in every graph, and are counted but not listed."""

_WIDTH = 88
"""Columns of the text, where it can be helped."""

_LISTED = 8
"""How many refusals of one rule the text lists."""


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """How many Dask tasks one graph is, at three stages.

    Parameters
    ----------
    graph
        As built by the user's program.
    dask
        After Dask's own optimizer; None where that was too dear to find out.
    fused
        As it is run. Where there is nothing to fuse, that is `dask`.
    """

    graph: int
    dask: int | None
    fused: int | None


@dataclass(frozen=True, slots=True, repr=False)
class KernelReport:
    """A kernel, and the text it becomes.

    Parameters
    ----------
    kernel
        In the terms of its IR.
    exact_math
        As in the options.
    """

    kernel: Kernel
    exact_math: bool = False

    def __repr__(self) -> str:
        return f"<KernelReport {self.label!r}>"

    @property
    def label(self) -> str:
        """A readable name, from the layers the kernel came from."""
        return self.kernel.label

    def source(self, form: str = "llvm") -> str:
        """Return the kernel as text.

        Parameters
        ----------
        form
            ``"ir"`` for the kernel itself, ``"core"`` for the core operations it
            becomes, ``"llvm"`` for what is handed to LLVM and ``"asm"`` for what LLVM
            makes of it, both for the processor of this machine.

        Raises
        ------
        OptionError
            For another form.
        """
        from dask_diffuse.report.sources import render_kernel

        return render_kernel(self.kernel, form, exact_math=self.exact_math)


@dataclass(frozen=True, repr=False)
class Explanation:
    """What the hook does with a graph, as data, text and HTML.

    Parameters
    ----------
    plan
        The outcome of planning.
    counts
        Numbers of Dask tasks.
    exact_math
        As in the options.
    """

    plan: FusionPlan
    counts: TaskCounts
    exact_math: bool = False

    @property
    def program(self) -> Program:
        """The graph as index tasks over stores."""
        return self.plan.program

    @cached_property
    def groups(self) -> tuple[GroupReport, ...]:
        """What is fused: one entry for each kernel."""
        return report_groups(self.plan)

    @cached_property
    def kernels(self) -> tuple[KernelReport, ...]:
        """The kernels of the groups, in the same order."""
        return tuple(
            KernelReport(group.kernel, self.exact_math) for group in self.plan.groups
        )

    @cached_property
    def refusals(self) -> tuple[Decision, ...]:
        """Every question that was answered with no, sorted by rule."""
        order = {rule: position for position, rule in enumerate(Rule)}
        refused = dict.fromkeys(d for d in self.plan.decisions if not d.accepted)
        return tuple(sorted(refused, key=lambda decision: order[decision.rule]))

    def __str__(self) -> str:
        return "\n".join(_text(self))

    def __repr__(self) -> str:
        # What a prompt shows. The fields go on for pages.
        return str(self)

    def _repr_html_(self) -> str:
        return _html(self)

    def to_dict(self) -> dict[str, object]:
        """Return everything, the program included, as JSON can hold it."""
        return {
            "version": 1,
            "tasks": {
                "graph": self.counts.graph,
                "dask": self.counts.dask,
                "fused": self.counts.fused,
            },
            "groups": [group.to_dict() for group in self.groups],
            "refusals": [_refusal_dict(decision) for decision in self.refusals],
            "program": program_to_dict(self.program),
        }

    def save(self, path: str | Path) -> None:
        """Write `to_dict` to a file: no data, only what is done with them.

        Parameters
        ----------
        path
            Name of a JSON file. ``dask_diffuse.report.load_program`` reads the
            program back, so that a bug report can be replayed.
        """
        text = json.dumps(self.to_dict(), indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")


def _refusal_dict(decision: Decision) -> dict[str, object]:
    return {
        "rule": decision.rule.value,
        "subject": decision.subject,
        "other": decision.other,
        "detail": decision.detail,
        "remedy": decision.remedy,
    }


def _headline(report: Explanation) -> str:
    counts = report.counts
    tasks = _count(counts.graph, "task")
    dask = "" if counts.dask is None else f" ({counts.dask} by Dask's own optimizer)"
    if report.groups:
        outcome = f"{tasks} become {counts.fused}{dask}"
    else:
        outcome = f"{tasks}, left to Dask's own optimizer"
    return (
        f"{_count(len(report.program.tasks), 'layer')}, "
        f"{_count(len(report.groups), 'group')}; {outcome}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _text(report: Explanation) -> Iterable[str]:
    yield _headline(report)
    for number, group in enumerate(report.groups):
        yield ""
        yield from _group_text(number, group)
    yield from _refusals_text(report.refusals)


def _group_text(number: int, group: GroupReport) -> Iterable[str]:
    launch = " x ".join(map(str, group.launch)) or "1"
    yield f"group {number}: {group.label}"
    yield (
        f"  blocks       {launch}; {_count(group.tasks_before, 'task')} become "
        f"{group.tasks_after}, {_count(group.num_values, 'value')} per element"
    )
    for title, names in (("reads", group.reads), ("writes", group.writes)):
        for name in names:
            yield f"  {title:<12} {name}"
    if group.temporaries:
        temporaries = ", ".join(short_name(name) for name in group.temporaries)
        yield from textwrap.wrap(
            temporaries,
            _WIDTH,
            initial_indent="  temporaries  ",
            subsequent_indent=" " * 15,
            break_long_words=False,
            break_on_hyphens=False,
        )
    yield f"  saves        {_savings(group)}"


def _savings(group: GroupReport) -> str:
    bound = "" if group.exact else "at least "
    return (
        f"{bound}{size_text(group.bytes_not_written)} written, "
        f"{size_text(group.bytes_not_read)} read"
    )


def _is_quiet(decision: Decision) -> bool:
    return decision.rule in _QUIET or (
        decision.rule is Rule.MATERIALIZED and bool(_DASKS_OWN.search(decision.subject))
    )


@dataclass(frozen=True, slots=True)
class _Refused:
    """The refusals of one rule: texts of those that are listed, a text on the rest."""

    rule: Rule
    listed: tuple[str, ...]
    rest: str
    remedies: tuple[str, ...]


def _refused(refusals: Iterable[Decision]) -> Iterator[_Refused]:
    by_rule: dict[Rule, list[Decision]] = {}
    for decision in refusals:
        by_rule.setdefault(decision.rule, []).append(decision)
    for rule, decisions in by_rule.items():
        loud = [decision for decision in decisions if not _is_quiet(decision)]
        quiet = len(decisions) - len(loud)
        rest = [f"{len(loud) - _LISTED} more"] if len(loud) > _LISTED else []
        if quiet:
            one, many = _QUIET.get(rule, ("combine step", "combine steps and results"))
            rest.append(f"{quiet} {one if quiet == 1 else many}")
        yield _Refused(
            rule,
            tuple(map(_refusal_text, loud[:_LISTED])),
            ("and " if loud else "") + " and ".join(rest) if rest else "",
            tuple(dict.fromkeys(d.remedy for d in loud if d.remedy)),
        )


def _refusals_text(refusals: tuple[Decision, ...]) -> Iterable[str]:
    if refusals:
        yield ""
        yield "not fused"
    for refused in _refused(refusals):
        if not refused.listed:
            yield f"  {refused.rule.value}: {refused.rest}"
            continue
        yield f"  {refused.rule.value}:"
        yield from (f"    {text}" for text in refused.listed)
        if refused.rest:
            yield f"    {refused.rest}"
        yield from (f"    remedy: {remedy}" for remedy in refused.remedies)


def _refusal_text(decision: Decision) -> str:
    pair = decision.subject
    if decision.other is not None:
        pair += f" with {decision.other}"
    return short_name(f"{pair}: {decision.detail}" if decision.detail else pair)


def _html(report: Explanation) -> str:
    escape = html.escape
    rows = "".join(
        f"<tr><td>{number}</td><td>{escape(group.label)}</td>"
        f"<td>{escape(' x '.join(map(str, group.launch)) or '1')}</td>"
        f"<td>{group.tasks_before} &rarr; {group.tasks_after}</td>"
        f"<td>{len(group.temporaries)}</td><td>{escape(_savings(group))}</td></tr>"
        for number, group in enumerate(report.groups)
    )
    head = "".join(
        f"<th>{title}</th>"
        for title in ("group", "layers", "blocks", "tasks", "temporaries", "saves")
    )
    items = "".join(
        f"<li><code>{refused.rule.value}</code>: {refused.rest}<ul>"
        + "".join(f"<li>{escape(text)}</li>" for text in refused.listed)
        + "</ul></li>"
        for refused in _refused(report.refusals)
    )
    return (
        f"<div><p>{escape(_headline(report))}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<details><summary>not fused</summary><ul>{items}</ul></details></div>"
    )
