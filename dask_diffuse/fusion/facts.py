"""What grouping needs to know about a program before it merges anything."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from dask_diffuse.fusion import constraints
from dask_diffuse.fusion.cost import is_cheap_constant, num_values
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import IndexTask, Opaque
from dask_diffuse.options import Options

__all__ = ["Dependence", "Facts", "Finding", "Footprint", "find_facts"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A decision in terms of task ids: it says the same of every isomorphic program.

    Parameters
    ----------
    rule
        Which constraint was asked.
    accepted
        The answer.
    first, second
        The tasks that it was asked about; no second for a question about one.
    position
        Of the read in question among those of the reader.
    between
        The task that stands between the two.
    values, arrays
        For limits: how many there would be, and how many there may.
    """

    rule: Rule
    accepted: bool
    first: int
    second: int | None = None
    position: int = 0
    between: int | None = None
    values: tuple[int, int] = (0, 0)
    arrays: tuple[int, int] = (0, 0)

    def decide(self, tasks: tuple[IndexTask, ...]) -> Decision:
        """Ask again, of the tasks of one program: the answer comes with its values."""
        first = tasks[self.first]
        second = first if self.second is None else tasks[self.second]
        match self.rule:
            case Rule.LAUNCH_DOMAIN:
                return constraints.launch_domain(first, second)
            case Rule.TRUE_DEPENDENCE:
                return constraints.true_dependence(first, second, self.position)
            case Rule.REDUCTION:
                return constraints.reduction(first, second, self.position)
            case Rule.DISJOINT_WRITES:
                return constraints.disjoint_writes(first)
            case Rule.ANNOTATIONS:
                return constraints.same_annotations(first, second)
            case Rule.CONVEXITY:
                between = None if self.between is None else tasks[self.between]
                return constraints.convexity(first, second, between)
            case Rule.LIMIT:
                other = None if self.second is None else second
                return constraints.limit(first, other, self.values, self.arrays)
            case Rule.COST:
                return constraints.cost(first, pays=self.accepted)
            case rule:
                raise ValueError(f"planning does not ask for {rule}")


@dataclass(frozen=True, slots=True)
class Dependence:
    """A read of what another task writes, where both have kernels.

    Parameters
    ----------
    writer, reader
        Ids of tasks.
    finding
        Whether they may be in one group, as far as the two alone are concerned.
    """

    writer: int
    reader: int
    finding: Finding


@dataclass(frozen=True, slots=True)
class Footprint:
    """How large the kernel of a group is.

    Parameters
    ----------
    values
        Scalar values, before equal ones are shared.
    arrays
        Arrays that it reads and writes.
    """

    values: int
    arrays: int

    def fits(self, options: Options) -> bool:
        """Whether a kernel may be as large."""
        return (
            self.values <= options.max_group_values
            and self.arrays <= options.max_group_arrays
        )


@dataclass(frozen=True)
class Facts:
    """A program with what can be said of each task and each pair on their own.

    Parameters
    ----------
    program, options
        What was looked at.
    live
        Ids of the tasks that something requested depends on.
    constants
        Ids of the tasks that read nothing and are repeated in each group that reads
        their store.
    fusible
        Ids of the other tasks that may be in a group.
    dependences
        Between fusible tasks, by reader.
    edges
        All pairs of writer and reader among live tasks that are no constants, by
        reader.
    refusals
        Tasks that have kernels and still may not be in a group.
    """

    program: Program
    options: Options
    live: frozenset[int]
    constants: frozenset[int]
    fusible: frozenset[int]
    dependences: tuple[Dependence, ...]
    edges: tuple[tuple[int, int], ...]
    refusals: tuple[Finding, ...]

    @cached_property
    def _dependences_by_reader(self) -> dict[int, list[Dependence]]:
        by_reader: dict[int, list[Dependence]] = {}
        for dependence in self.dependences:
            by_reader.setdefault(dependence.reader, []).append(dependence)
        return by_reader

    def dependences_of(self, reader: int) -> list[Dependence]:
        """Return what a task reads from fusible tasks."""
        return self._dependences_by_reader.get(reader, [])

    def constants_of(self, tasks: AbstractSet[int]) -> tuple[int, ...]:
        """Return the constants that tasks read, increasing."""
        writers = self.program.writers
        found = {
            writers.get(access.store, -1)
            for task in tasks
            for access in self.program.tasks[task].reads
        }
        return tuple(sorted(found & self.constants))

    def results_of(self, tasks: AbstractSet[int]) -> list[tuple[str, int]]:
        """Return the stores that tasks write for others, and who writes each."""
        program = self.program
        return [
            (access.store, task)
            for task in sorted(tasks)
            for access in program.tasks[task].writes
            if access.store in program.requested
            or any(
                reader in self.live and reader not in tasks
                for reader in program.readers[access.store]
            )
        ]

    def footprint(self, tasks: AbstractSet[int]) -> Footprint:
        """Return how large the kernel of some tasks is."""
        program = self.program
        arrays = set()
        for task in tasks:
            body = program.tasks[task].body
            assert not isinstance(body, Opaque)
            for access, axes in zip(
                program.tasks[task].reads, body.operands, strict=True
            ):
                writer = program.writers.get(access.store, -1)
                if writer not in tasks and writer not in self.constants:
                    arrays.add((access.store, axes))
        values = sum(
            num_values(program.tasks[task])
            for task in (*tasks, *self.constants_of(tasks))
        )
        return Footprint(values, len(arrays) + len(self.results_of(tasks)))


def find_facts(program: Program, options: Options) -> Facts:
    """Look at each task and at each dependence of a program once."""
    live = _live_tasks(program)
    refusals = {}
    able = set()
    for task in program.tasks:
        if task.id not in live or isinstance(task.body, Opaque):
            continue
        refusal = _refuse_alone(task, options)
        if refusal is None:
            able.add(task.id)
        else:
            refusals[task.id] = refusal
    constants = frozenset(
        task.id
        for task in program.tasks
        if task.id in able
        and is_cheap_constant(task)
        and _is_inlined(program, task, live, able)
    )
    fusible = frozenset(able - constants)
    edges = []
    dependences = []
    for task in program.tasks:
        if task.id not in live:
            continue
        for position, access in enumerate(task.reads):
            writer = program.writers.get(access.store)
            if writer is None or writer in constants:
                continue
            edges.append((writer, task.id))
            if writer in fusible and task.id in fusible:
                finding = _find_dependence(program, writer, task.id, position)
                dependences.append(Dependence(writer, task.id, finding))
    return Facts(
        program,
        options,
        frozenset(live),
        constants,
        fusible,
        tuple(dependences),
        tuple(edges),
        tuple(refusals.values()),
    )


def _live_tasks(program: Program) -> set[int]:
    """Return the tasks that something requested depends on."""
    writers = program.writers
    pending = [writers[name] for name in program.requested if name in writers]
    live = set(pending)
    while pending:
        for access in program.tasks[pending.pop()].reads:
            writer = writers.get(access.store)
            if writer is not None and writer not in live:
                live.add(writer)
                pending.append(writer)
    return live


def _refuse_alone(task: IndexTask, options: Options) -> Finding | None:
    """Return why a task with a kernel may not even be a group of its own."""
    if not constraints.disjoint_writes(task).accepted:
        return Finding(Rule.DISJOINT_WRITES, False, task.id)
    size = Footprint(num_values(task), len(task.accesses))
    if size.fits(options):
        return None
    return Finding(
        Rule.LIMIT,
        False,
        task.id,
        values=(size.values, options.max_group_values),
        arrays=(size.arrays, options.max_group_arrays),
    )


def _is_inlined(
    program: Program, task: IndexTask, live: set[int], able: set[int]
) -> bool:
    """Whether all who read a constant can do without it.

    What has to exist anyway may as well be read.
    """
    store = task.writes[0].store
    return store not in program.requested and all(
        reader in able and _may_inline(task, program.tasks[reader])
        for reader in program.readers[store]
        if reader in live
    )


def _may_inline(task: IndexTask, reader: IndexTask) -> bool:
    store = task.writes[0].store
    return task.annotations == reader.annotations and all(
        constraints.check_dependence(task, reader, position).accepted
        for position, access in enumerate(reader.reads)
        if access.store == store
    )


def _find_dependence(
    program: Program, writer: int, reader: int, position: int
) -> Finding:
    tasks = program.tasks
    decision = constraints.check_dependence(tasks[writer], tasks[reader], position)
    return Finding(decision.rule, decision.accepted, writer, reader, position)
