"""The command line: try programs, see what would be fused, look after the cache."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dask_diffuse.errors import DiffuseError, DiffuseWarning, OptionError

if TYPE_CHECKING:
    from dask_diffuse.apps.measure import Measurement, Run
    from dask_diffuse.apps.problem import Problem

__all__ = ["main"]

_DIFFERENT = 1
"""Exit status where results differ. Bad input gives 2, as everywhere."""


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Show what users can mend as one message, without a traceback."""
    try:
        yield
    except OptionError as error:
        raise click.UsageError(str(error)) from error
    except DiffuseError as error:
        raise _CannotRun(str(error)) from error


class _CannotRun(click.ClickException):
    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("dask-diffuse"), prog_name="dask-diffuse")
def main() -> None:
    """Task and kernel fusion for dask.array."""


def _list_apps(context: click.Context, option: click.Parameter, value: bool) -> None:
    if not value:
        return
    from dask_diffuse.apps import PROBLEMS
    from dask_diffuse.apps.table import format_table

    rows = [
        [name, problem.summary, f"{problem.size:,} {problem.unit}"]
        for name, problem in PROBLEMS.items()
    ]
    header = ["app", "what it computes", "size"]
    click.echo(format_table("Programs to try", header, rows, left=3))
    context.exit()


_list = click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_apps,
    help="Show all apps and their sizes, and do nothing else.",
)
_size = click.option(
    "--size", type=int, help="Size of the problem; --list says what it counts."
)
_chunks = click.option("--chunks", type=int, help="Length of a block along an axis.")


@main.command()
@click.argument("app")
@_list
@click.option("--compare", is_flag=True, help="Run on plain Dask as well, and compare.")
@_size
@_chunks
@click.option(
    "--cluster",
    default="threads",
    show_default=True,
    metavar="threads|processes|ADDRESS",
    help="Where to run: threads of one process, processes on this machine, or the "
    "cluster whose scheduler has this address.",
)
@click.option(
    "--workers", type=int, help="Threads or processes; one a core if left out."
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How often to run.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to draw the results; the suffix says how, for example .png. The app "
    "terrain draws terrain.png if this is left out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of a table.")
def run(
    app: str,
    compare: bool,
    size: int | None,
    chunks: int | None,
    cluster: str,
    workers: int | None,
    repeat: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Run APP fused, and with --compare on plain Dask too.

    Prints the seconds of the first and of later runs, tasks, kernels, peak memory and
    the largest difference of the results. Ends with status 1 if the results differ by
    more than the app allows, with 2 if it cannot run.
    """
    with _plain_errors():
        from dask_diffuse.apps.clusters import check_cluster
        from dask_diffuse.apps.measure import Run

        problem = _problem(app)
        size, chunks = problem.check(size, chunks)
        check_cluster(cluster, workers)
        # Building costs next to nothing, and says early which package is missing.
        problem.program(*problem.make_inputs(size, chunks))
        output = _picture(problem, output)
        plain = Run(problem.name, False, size, chunks, cluster, workers, repeat)
        fused = replace(plain, fused=True, check=compare, picture=output)
        runs = [plain, fused] if compare else [fused]
        measured = _measured(runs)
    click.echo(_as_json(runs, measured) if as_json else _as_text(runs, measured))
    if output is not None:
        click.echo(f"The picture is in {output}", err=as_json)
    if not all(measurement.is_right for measurement in measured):
        click.echo("The results DIFFER by more than the app allows.", err=True)
        sys.exit(_DIFFERENT)


def _problem(app: str) -> Problem:
    from dask_diffuse.apps import get_problem

    return get_problem(app)


def _picture(problem: Problem, output: Path | None) -> Path | None:
    if output is None and not problem.picture:
        return None
    from dask_diffuse.apps.picture import check_picture

    if problem.draw is None:
        allowed = "left out, since this app has nothing to draw"
        raise OptionError("--output", str(output), allowed)
    path = output or Path(problem.picture)
    check_picture(path)
    return path


def _measured(runs: Sequence[Run]) -> list[Measurement]:
    from dask_diffuse.apps.measure import measure_apart

    measured = []
    for spec in runs:
        click.echo(f"Running {spec} ...", err=True)
        measured.append(measure_apart(spec))
    return measured


def _as_text(runs: Sequence[Run], measured: Sequence[Measurement]) -> str:
    from dask_diffuse.apps.table import format_bytes, format_seconds, format_table

    spec = runs[-1]
    title = (
        f"{spec.problem}: {spec.size:,} {_problem(spec.problem).unit}, blocks of "
        f"{spec.chunk:,}, {measured[-1].place}"
    )
    header = ["", *("dask_diffuse" if spec.fused else "plain Dask" for spec in runs)]
    columns = [
        (
            format_seconds(one.first),
            format_seconds(one.later),
            f"{one.tasks:,}",
            f"{one.kernels:,}",
            format_bytes(one.bytes_peak),
            format_bytes(one.bytes_peak - one.bytes_before),
        )
        for one in measured
    ]
    names = (
        "first run",
        "fastest later run",
        "tasks",
        "kernels",
        "peak memory",
        "beyond the inputs",
    )
    rows = [[name, *cells] for name, *cells in zip(names, *columns, strict=True)]
    if len(measured) == 2:
        header.append("ratio")
        for row, ratio in zip(rows, _ratios(*measured), strict=True):
            row.append(ratio)
    parts = [format_table(title, header, rows)]
    parts += _differences(measured[-1])
    parts += _troubles(measured[-1])
    return "\n".join(parts)


def _ratios(plain: Measurement, fused: Measurement) -> Iterator[str]:
    beyond = [max(one.bytes_peak - one.bytes_before, 1) for one in (plain, fused)]
    pairs: list[tuple[float | None, float | None]] = [
        (plain.first, fused.first),
        (plain.later, fused.later),
        (plain.tasks, fused.tasks),
        (None, None),
        (plain.bytes_peak, fused.bytes_peak),
        (beyond[0], beyond[1]),
    ]
    for one, other in pairs:
        yield f"{one / other:.2f}" if one is not None and other else ""


def _differences(measurement: Measurement) -> Iterator[str]:
    from dask_diffuse.apps.table import format_table

    if not measurement.differences:
        return
    rows = [
        [
            one.name,
            f"{one.largest:.2g}" if one.largest else "0",
            one.allowed,
            "yes" if one.within else f"NO {one.reason}".rstrip(),
        ]
        for one in measurement.differences
    ]
    header = ["output", "largest difference", "allowed", "within"]
    yield format_table("Results, fused against plain", header, rows, left=4)


def _troubles(measurement: Measurement) -> Iterator[str]:
    if measurement.hook_failures:
        count = measurement.hook_failures
        yield f"The hook gave up on {count} graphs; see the warning."
    for reason, count in measurement.fallbacks.items():
        yield f"Original functions ran in place of a kernel {count} times: {reason}."
    if not measurement.kernels:
        yield "Nothing was fused."


def _as_json(runs: Sequence[Run], measured: Sequence[Measurement]) -> str:
    spec = runs[-1]
    report = {
        "app": spec.problem,
        "size": spec.size,
        "chunks": spec.chunk,
        "cluster": spec.cluster,
        "runs": {
            "dask_diffuse" if spec.fused else "dask": measurement.to_dict()
            for spec, measurement in zip(runs, measured, strict=True)
        },
    }
    return json.dumps(report, indent=2)


@main.command()
@click.argument("app")
@_list
@_size
@_chunks
def explain(app: str, size: int | None, chunks: int | None) -> None:
    """Print what would be fused of APP, and why the rest would not.

    Computes nothing.
    """
    with _plain_errors():
        import dask_diffuse

        problem = _problem(app)
        outputs = problem.program(*problem.make_inputs(size, chunks))
        click.echo(str(dask_diffuse.explain(*outputs)))


@main.command()
@click.option("--cluster", metavar="ADDRESS", help="Ask all nodes of a cluster.")
def info(cluster: str | None) -> None:
    """Print versions, processor, compiler and the cache folder."""
    from dask_diffuse.diagnostics.versions import cluster_info, system_info

    with _plain_errors():
        if cluster is None:
            nodes: dict[str, Any] = {"": system_info()}
        else:
            from dask_diffuse.apps.clusters import connect

            with connect(cluster) as client:
                nodes = cluster_info(client)
        for name, system in nodes.items():
            click.echo(f"{name}\n{system}\n" if name else str(system))
        if cluster is None:
            _echo_pairs([*_compiler(), ("cache folder", _cache_text())])


def _echo_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{name:<{width}}  {value}")


def _compiler() -> Iterator[tuple[str, str]]:
    import llvmlite.binding as llvm

    yield "llvm", ".".join(map(str, llvm.llvm_version_info))
    yield "target", f"{llvm.get_host_cpu_name()}, {llvm.get_default_triple()}"


def _cache_text() -> str:
    from dask_diffuse.config import read_options
    from dask_diffuse.runtime.cache import cache_folder, why_refused

    options = read_options()
    folder = cache_folder(options)
    if not options.cache_disk:
        return f"{folder} (off: diffuse.cache-disk is false)"
    if not folder.exists():
        return f"{folder} (empty)"
    reason = why_refused(folder)
    return f"{folder} (not used: {reason})" if reason else str(folder)


@main.group()
def cache() -> None:
    """Look after the compiled kernels on disk."""


@cache.command("info")
def cache_info() -> None:
    """Print where compiled kernels are kept, and what they take."""
    from dask_diffuse.apps.table import format_bytes
    from dask_diffuse.runtime.cache import MAX_BYTES

    with _plain_errors():
        click.echo(f"folder   {_cache_text()}")
        store = _store()
    if store is None:
        return
    usage = store.usage()
    click.echo(f"kernels  {usage.files:,}")
    click.echo(f"size     {format_bytes(usage.nbytes)} of {format_bytes(MAX_BYTES)}")


@cache.command("clear")
def cache_clear() -> None:
    """Remove all compiled kernels from the disk."""
    from dask_diffuse.apps.table import format_bytes

    with _plain_errors():
        store = _store()
    if store is None:
        click.echo("There is nothing to remove.")
        return
    gone = store.clear()
    where = f"from {store.folder}"
    click.echo(f"Removed {gone.files:,} kernels, {format_bytes(gone.nbytes)}, {where}")


# Both names are in use elsewhere for the same thing.
cache.add_command(cache_info, "show")


def _store() -> Any:
    """Return the store if there is one on disk; do not make a folder to look at."""
    import warnings

    from dask_diffuse.config import read_options
    from dask_diffuse.runtime.cache import KernelStore, cache_folder

    options = read_options()
    if not cache_folder(options).exists():
        return None
    with warnings.catch_warnings():
        # The text above says the same.
        warnings.simplefilter("ignore", DiffuseWarning)
        return KernelStore.open(options)
