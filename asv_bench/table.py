"""Print what dask_diffuse promises beside what this machine measures.

Plain Dask and dask_diffuse take turns in one process, so that whatever else the machine
does hits both. Each time is the best of many and holds all of it: building the graph,
optimizing it, computing.

    python asv_bench/table.py                        # all
    python asv_bench/table.py --only chain --only softmax
    python asv_bench/table.py --part hook --json hook.json
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from benchmarks import common

import dask_diffuse
from dask_diffuse.apps import PROBLEMS, Problem
from dask_diffuse.apps.measure import Run, measure_apart
from dask_diffuse.apps.table import format_seconds, format_table
from dask_diffuse.fusion import clear_plans

PARTS = ("problems", "hook", "blocks", "first-call", "memory")


@dataclass(frozen=True)
class Claim:
    """One line: what was measured on either side, and what was promised.

    ``goal`` bounds ``value``, from below if ``larger_is_better``.
    """

    part: str
    name: str
    plain: float | None
    fused: float
    value: float
    goal: float | None
    larger_is_better: bool = False
    unit: str = "ratio"

    @property
    def is_met(self) -> bool | None:
        if self.goal is None:
            return None
        if self.larger_is_better:
            return self.value >= self.goal
        return self.value <= self.goal


CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "cpu": time.process_time,
}
"""The processor's own seconds, of all threads, hold on a busy machine, too."""


def measure_problem(
    problem: Problem, repeat: int, inputs: tuple[Any, ...], clock: str = "wall"
) -> Claim:
    now = CLOCKS[clock]
    best = dict.fromkeys(common.MODES, math.inf)
    rounds, done = repeat, 0
    while done < rounds:
        # Whoever goes first finds the caches of the processor as the other left them.
        for mode in common.MODES if done % 2 else reversed(common.MODES):
            with common.switch(mode):
                start = now()
                results = common.compute(problem.program(*inputs))
                best[mode] = min(best[mode], now() - start)
            del results
        done += 1
        if done == repeat:
            # What takes milliseconds needs many runs for a time that holds.
            rounds = max(repeat, min(500, int(4.0 / sum(best.values()))))
    plain, fused = best["dask"], best["diffuse"]
    ratio = plain / fused
    return Claim("problems", problem.name, plain, fused, ratio, problem.goal, True)


def measure_hook(
    problem: Problem, repeat: int, inputs: tuple[Any, ...]
) -> Iterator[Claim]:
    """The time of the hook for a new program and for a known one.

    Dask's optimizer returns tasks. Ours returns layers where it can, which Dask turns
    into tasks afterwards: the last line holds the time of that, too.
    """
    graph, keys = common.graph_for_compute(problem.program(*inputs))
    hook = dask_diffuse.Optimizer()
    plain = first = again = whole = math.inf
    for _ in range(max(repeat, 3) * 3):
        clear_plans()
        plain = min(plain, common.best(lambda: common.dask_optimize(graph, keys), 1))
        first = min(first, common.best(lambda: hook(graph, keys), 1))
        again = min(again, common.best(lambda: hook(graph, keys), 1))
        whole = min(whole, common.best(lambda: dict(hook(graph, keys)), 1))
    for name, seconds in (("new", first), ("known", again), ("as tasks", whole)):
        title = f"{problem.name}, {name}"
        yield Claim("hook", title, plain, seconds, seconds / plain, 1.0)


def measure_blocks(few: int, many: int, repeat: int) -> Claim:
    """Time of the hook on a symbolic graph of ten layers, by number of blocks."""
    hook = dask_diffuse.Optimizer(min_bytes=0)
    arrays = [common.layered(10, blocks, chunk=10) for blocks in (few, many)]
    calls = [common.graph_for_compute((array,)) for array in arrays]
    seconds = [
        min(common.best(lambda call=call: hook(*call), 3) for _ in range(repeat))
        for call in calls
    ]
    name = f"{many:,} against {few:,} blocks"
    return Claim("blocks", name, None, seconds[1], seconds[1] / seconds[0], 1.5)


def measure_first_call(repeat: int) -> Iterator[Claim]:
    load = cold = warm = math.inf
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            cold = min(cold, common.first_call(folder)[1])
            loading, found = common.first_call(folder)
            load, warm = min(load, loading), min(warm, found)
    part = "first-call"
    yield Claim(part, "loading hook and compiler", None, load, load, None, unit="s")
    yield Claim(part, "empty disk", None, cold, cold, 0.15, unit="s")
    yield Claim(part, "filled disk", None, warm, warm, 0.03, unit="s")


def measure_memory(problem: Problem, size: int) -> Claim:
    """Memory beyond the inputs, which are in memory before the first run."""
    plain, fused = (
        measured.bytes_peak - measured.bytes_before
        for measured in (
            measure_apart(Run(problem.name, mode, size=size, repeat=3))
            for mode in (False, True)
        )
    )
    return Claim("memory", problem.name, plain, fused, fused / max(plain, 1), 1.0)


def measure_all(
    parts: Sequence[str], names: Sequence[str], repeat: int, tiny: bool, clock: str
) -> Iterator[Claim]:
    chosen = [PROBLEMS[name] for name in names]
    sizes = {p.name: p.tiny if tiny else p.size for p in chosen}
    for problem in chosen if {"problems", "hook"} & set(parts) else ():
        inputs = common.persisted_inputs(problem, sizes[problem.name])
        if "problems" in parts:
            yield measure_problem(problem, repeat, inputs, clock)
        if "hook" in parts:
            yield from measure_hook(problem, repeat, inputs)
        del inputs
    if "blocks" in parts:
        yield measure_blocks(100, 1000 if tiny else 100_000, repeat)
    if "first-call" in parts:
        yield from measure_first_call(1 if tiny else repeat)
    if "memory" in parts:
        for problem in chosen:
            yield measure_memory(problem, sizes[problem.name])


def row_of(claim: Claim) -> list[str]:
    def amount(value: float | None) -> str:
        if value is None:
            return ""
        if claim.part == "memory":
            return f"{value / 2**20:.0f} MiB"
        return format_seconds(value)

    sign = "at least" if claim.larger_is_better else "at most"
    verdict = {None: "", True: "yes", False: "NO"}[claim.is_met]
    return [
        claim.part,
        claim.name,
        amount(claim.plain),
        amount(claim.fused),
        f"{claim.value:.3g}" + (" s" if claim.unit == "s" else ""),
        "" if claim.goal is None else f"{sign} {claim.goal:g}",
        verdict,
    ]


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS))
@click.option("--only", "names", multiple=True, type=click.Choice(list(PROBLEMS)))
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--tiny", is_flag=True, help="Sizes of the tests; the goals mean nothing."
)
@click.option(
    "--clock",
    type=click.Choice(list(CLOCKS)),
    default="wall",
    show_default=True,
    help="What times problems; cpu is steadier on a busy machine.",
)
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False))
def main(
    parts: tuple[str, ...],
    names: tuple[str, ...],
    repeat: int,
    tiny: bool,
    clock: str,
    file: Path | None,
) -> None:
    """Print a table of what is promised and what is measured."""
    goals = [name for name, problem in PROBLEMS.items() if problem.goal is not None]
    claims = []
    for claim in measure_all(parts or PARTS, names or goals, repeat, tiny, clock):
        claims.append(claim)
        click.echo("  ".join(cell for cell in row_of(claim) if cell), err=True)
    header = ["", "problem", "plain Dask", "dask_diffuse", "value", "goal", "met"]
    rows = [row_of(claim) for claim in claims]
    click.echo(format_table("Best of several runs", header, rows, left=2))
    if file is not None:
        data = [asdict(claim) | {"is_met": claim.is_met} for claim in claims]
        file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
