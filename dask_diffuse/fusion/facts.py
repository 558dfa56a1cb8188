"""What grouping needs to know about a program before it merges anything."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dask_diffuse.fusion import constraints
from dask_diffuse.fusion.cost import is_cheap_constant, num_bytes, num_values
from dask_diffuse.fusion.demand import find_demand
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import IndexTask, Opaque
from dask_diffuse.options import Options

__all__ = ["Dependence", "Facts", "Finding", "Read", "find_facts"]


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

    def decide(self, program: Program) -> Decision:
        """Ask again, of the tasks of one program: the answer comes with its values."""
        tasks = program.tasks
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
                other = None if self.second is None else second
                return constraints.cost(first, other, pays=self.accepted)
            case Rule.TOO_SMALL:
                return constraints.too_small(first, num_bytes(program, first))
            case rule:
                raise ValueError(f"planning does not ask for {rule}")


class Dependence(NamedTuple):
    """A read of what another task writes, where both have kernels.

    Parameters
    ----------
    writer, reader
        Ids of tasks.
    position
        Of the read among those of the reader.
    refusal
        The rule that keeps the two apart, as far as they alone are concerned.
    """

    writer: int
    reader: int
    position: int
    refusal: Rule | None

    def finding(self) -> Finding:
        """Return the finding: what refused, or that nothing did."""
        rule = self.refusal or Rule.TRUE_DEPENDENCE
        accepted = self.refusal is None
        return Finding(rule, accepted, self.writer, self.reader, self.position)


class Read(NamedTuple):
    """A read of a store that exists, or of what another task of a group writes.

    Parameters
    ----------
    store, axes
        Which array of a kernel it would be.
    tile
        Equal for reads of the same elements by each point, or None if points share
        what they read.
    """

    store: str
    axes: tuple[int, ...]
    tile: tuple[str, int] | None


@dataclass(frozen=True)
class Facts:
    """A program with what can be said of each task and each pair on their own.

    Parameters
    ----------
    program, options
        What was looked at.
    order
        Ids of the tasks that something requested depends on, constants left out.
    constants
        Ids of the tasks that read nothing and are repeated in each group that reads
        their store.
    fusible
        Ids of the other tasks that may be in a group.
    dependences
        For each task, its dependences on others if both are fusible.
    writers
        For each task, those that write what it reads, but for constants.
    reads
        For each fusible task, what it reads, but for constants.
    stores
        For each fusible task, what it writes and how many tasks read that; a request
        counts as one.
    values
        For each fusible task, how many values it computes, with those of its constants.
    demand
        For each task, a number that says at which points it is run.
    refusals
        Tasks that have kernels and still may not be in a group.
    """

    program: Program
    options: Options
    order: tuple[int, ...]
    constants: frozenset[int]
    fusible: frozenset[int]
    dependences: dict[int, list[Dependence]]
    writers: dict[int, list[int]]
    reads: dict[int, list[Read]]
    stores: dict[int, tuple[str, int]]
    values: dict[int, int]
    demand: dict[int, int]
    refusals: tuple[Finding, ...]

    @cached_property
    def live(self) -> frozenset[int]:
        """Ids of the tasks that something requested depends on."""
        return frozenset(self.order) | self.constants

    def constants_of(self, tasks: Iterable[int]) -> tuple[int, ...]:
        """Return the constants that tasks read, increasing."""
        if not self.constants:
            return ()
        writers = self.program.writers
        found = {
            writers.get(access.store, -1)
            for task in tasks
            for access in self.program.tasks[task].reads
        }
        return tuple(sorted(found & self.constants))

    def is_result(self, task: int, group: AbstractSet[int]) -> bool:
        """Whether others than its group read what a task writes."""
        program = self.program
        store = program.tasks[task].writes[0].store
        return store in program.requested or any(
            reader in self.live and reader not in group
            for reader in program.readers[store]
        )


def find_facts(program: Program, options: Options) -> Facts:
    """Look at each task and at each dependence of a program once."""
    live = _live_tasks(program)
    refusals = {}
    able = set()
    cheap = {task.id for task in program.tasks if is_cheap_constant(task)}
    for task in program.tasks:
        if task.id not in live or isinstance(task.body, Opaque):
            continue
        refusal = _refuse_alone(program, task, cheap, options)
        if refusal is None:
            able.add(task.id)
        else:
            refusals[task.id] = refusal
    constants = frozenset(
        task.id
        for task in program.tasks
        if task.id in cheap & able and _is_inlined(program, task, live, able)
    )
    facts = Facts(
        program,
        options,
        tuple(
            task.id
            for task in program.tasks
            if task.id in live and task.id not in constants
        ),
        constants,
        frozenset(able - constants),
        {},
        {},
        {},
        {},
        {},
        find_demand(program, live),
        tuple(refusals.values()),
    )
    for number in facts.order:
        _add_reads(facts, program.tasks[number])
    return facts


def _add_reads(facts: Facts, task: IndexTask) -> None:
    """Note what a task reads, and how it depends on those who write it."""
    program, fusible, live = facts.program, facts.fusible, facts.live
    writers = facts.writers[task.id] = []
    dependences = facts.dependences[task.id] = []
    reads = facts.reads[task.id] = []
    is_fusible = task.id in fusible
    if is_fusible:
        store = task.writes[0].store
        users = sum([reader in live for reader in program.readers[store]])
        facts.stores[task.id] = store, users + (store in program.requested)
        facts.values[task.id] = num_values(task)
        for constant in facts.constants_of((task.id,)):
            facts.values[task.id] += num_values(program.tasks[constant])
    for position, access in enumerate(task.reads):
        writer = program.writers.get(access.store, -1)
        if writer in facts.constants:
            continue
        if writer >= 0:
            writers.append(writer)
        if not is_fusible:
            continue
        assert not isinstance(task.body, Opaque)
        axes = task.body.operands[position]
        # A row that all points along a column see is no reason to run them together.
        is_own = len(axes) == len(task.launch)
        tile = (access.store, id(access.partition)) if is_own else None
        reads.append(Read(access.store, axes, tile))
        if writer in fusible:
            refusal = constraints.check_dependence(
                program.tasks[writer], task, position
            )
            rule = None if refusal is None else refusal.rule
            if rule is None and facts.demand[writer] != facts.demand[task.id]:
                rule = Rule.COST
            dependences.append(Dependence(writer, task.id, position, rule))


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


def _refuse_alone(
    program: Program, task: IndexTask, cheap: set[int], options: Options
) -> Finding | None:
    """Return why a task with a kernel may not even be a group of its own."""
    for access in task.writes:
        if not access.partition.is_injective(task.launch):
            return Finding(Rule.DISJOINT_WRITES, False, task.id)
    values = num_values(task)
    if cheap:
        # With the constants that it may have to compute itself.
        writers = {program.writers.get(access.store, -1) for access in task.reads}
        values += sum(num_values(program.tasks[writer]) for writer in writers & cheap)
    arrays = len(task.accesses)
    if values <= options.max_group_values and arrays <= options.max_group_arrays:
        return None
    return Finding(
        Rule.LIMIT,
        False,
        task.id,
        values=(values, options.max_group_values),
        arrays=(arrays, options.max_group_arrays),
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
        constraints.check_dependence(task, reader, position) is None
        for position, access in enumerate(reader.reads)
        if access.store == store
    )
