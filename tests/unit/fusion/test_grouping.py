"""Which tasks become one: shapes of programs, and why boundaries are where they are."""

from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.fusion import clear_plans, plan_fusion
from dask_diffuse.fusion.plan import FusionPlan
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.options import Options
from tests.property.fusion_programs import random_program
from tests.unit.fusion.builders import F8, ProgramBuilder
from tests.unit.fusion.executor import assert_same_results

OPTIONS = Options(min_bytes=0)


@pytest.fixture
def builder() -> ProgramBuilder:
    return ProgramBuilder()


def plan(builder: ProgramBuilder, *requested: str, options=OPTIONS) -> FusionPlan:
    clear_plans()
    made = plan_fusion(builder.program(*requested), options=options)
    verify_plan(made, options=options)
    assert_same_results(made)
    return made


def names(made: FusionPlan) -> list[str]:
    """The stores of each group, in order, results in capitals."""
    tasks = made.program.tasks
    texts = []
    for group in made.groups:
        results = {result.store for result in group.results}
        stores = [tasks[number].writes[0].store for number in group.tasks]
        texts.append(" ".join(s.upper() if s in results else s for s in stores))
    return texts


def untouched(made: FusionPlan) -> list[str]:
    return [made.program.tasks[n].writes[0].store for n in made.untouched]


def refusals(made: FusionPlan, rule: Rule) -> list[Decision]:
    return [d for d in made.decisions if d.rule is rule and not d.accepted]


class TestShapes:
    def test_chain(self, builder):
        a = builder.op("a", "multiply", builder.source("x"), 2.0)
        b = builder.op("b", "add", a, 1.0)
        made = plan(builder, builder.op("c", "sin", b))
        assert names(made) == ["a b C"]
        assert [a.store for a in made.groups[0].inputs] == ["x"]
        assert made.groups[0].scalars == ((0, 0), (1, 0))
        assert [d.rule for d in made.decisions if d.accepted] == [
            Rule.TRUE_DEPENDENCE,
            Rule.TRUE_DEPENDENCE,
        ]

    def test_diamond(self, builder):
        a = builder.op("a", "sin", builder.source("x"))
        left = builder.op("left", "add", a, 1.0)
        right = builder.op("right", "multiply", a, 2.0)
        made = plan(builder, builder.op("d", "add", left, right))
        assert names(made) == ["a left right D"]

    def test_two_results(self, builder):
        a = builder.op("a", "sin", builder.source("x"))
        b = builder.op("b", "add", a, 1.0)
        c = builder.op("c", "multiply", a, 2.0)
        made = plan(builder, b, c)
        assert names(made) == ["a B C"]
        assert [result.statements for result in made.groups[0].results] == [(0,), (1,)]

    def test_sideways(self, builder):
        x = builder.source("x")
        b = builder.op("b", "add", x, 1.0)
        c = builder.op("c", "multiply", x, 2.0)
        made = plan(builder, b, c)
        assert names(made) == ["B C"]
        assert len(made.groups[0].inputs) == 1

    def test_nothing_in_common(self, builder):
        b = builder.op("b", "exp", builder.op("a", "add", builder.source("x"), 1.0))
        d = builder.op("d", "exp", builder.op("c", "add", builder.source("y"), 1.0))
        assert names(plan(builder, b, d)) == ["a B", "c D"]

    def test_a_shared_row_is_nothing_in_common(self, builder):
        # Every row of blocks reads it again anyway, and to run both at a time would
        # hold twice as many blocks in memory.
        row = builder.source("row", (builder.chunks[1],))
        b = builder.op("b", "exp", builder.op("a", "add", builder.source("x"), row))
        d = builder.op("d", "exp", builder.op("c", "add", builder.source("y"), row))
        assert names(plan(builder, b, d)) == ["a B", "c D"]

    def test_out_of_program_order(self, builder):
        # The paper's prefix would end at the opaque task.
        x = builder.source("x")
        a = builder.op("a", "add", x, 1.0)
        other = builder.opaque("o", builder.source("y"))
        b = builder.op("b", "multiply", a, 2.0)
        c = builder.op("c", "add", b, other)
        made = plan(builder, c)
        assert names(made) == ["a b C"]

    def test_later_inputs_do_not_come_first(self, builder):
        # a waits for nothing, b for something opaque that waits for c: {a, b} first
        # would be a cycle if {a, c} were one as well.
        x = builder.source("x")
        a = builder.op("a", "sin", x)
        c = builder.op("c", "cos", x)
        o = builder.opaque("o", c)
        b = builder.op("b", "add", a, o)
        made = plan(builder, b)
        assert len(made.groups) + len(made.untouched) == 3

    def test_long_chain(self):
        builder = ProgramBuilder()
        x = builder.source("x")
        for number in range(3000):
            x = builder.op(f"a{number}", "negative", x)
        clear_plans()
        made = plan_fusion(
            builder.program(x), options=Options(min_bytes=0, max_group_values=100_000)
        )
        assert [len(group.tasks) for group in made.groups] == [3000]


class TestBarriers:
    def test_opaque_in_between(self, builder):
        a = builder.op("a", "exp", builder.source("x"))
        o = builder.opaque("o", a)
        b = builder.op("b", "add", a, o)
        made = plan(builder, b)
        # Each of the two alone, since a has to come first.
        assert names(made) == []
        assert sorted(untouched(made)) == ["a", "b", "o"]
        (decision,) = refusals(made, Rule.CONVEXITY)
        assert (decision.subject, decision.other) == ("a", "b")
        assert decision.detail == "'o' has to run between the two"

    def test_path_through_other_groups(self, builder):
        # a -> m -> t -> b, where only m and t are of another domain.
        row = (builder.chunks[1],)
        a = builder.op("a", "log1p", builder.source("x"))
        total = builder.reduce("s", "sum", a)
        m = builder.opaque("m", total, chunks=row)
        t = builder.op("t", "exp", m, chunks=row)
        b = builder.op("b", "subtract", a, t)
        c = builder.op("c", "log1p", b)
        made = plan(builder, c)
        assert names(made) == ["A S", "b C"]
        assert untouched(made) == ["m", "t"]
        (decision,) = refusals(made, Rule.CONVEXITY)
        assert (decision.subject, decision.other) == ("a", "b")

    def test_other_domains(self, builder):
        row = (builder.chunks[1],)
        w = builder.op("w", "log1p", builder.source("row", row), chunks=row)
        a = builder.op("a", "add", builder.source("x"), w)
        made = plan(builder, builder.op("b", "log1p", a))
        assert names(made) == ["W", "a B"]
        (decision,) = refusals(made, Rule.LAUNCH_DOMAIN)
        assert decision.detail == "launch domains (3,) and (2, 3) differ"

    def test_transposed(self):
        builder = ProgramBuilder(((2, 2), (2, 2)))
        a = builder.op("a", "log1p", builder.source("x"))
        b = builder.op("b", "log1p", a, axes={a: (1, 0)})
        made = plan(builder, b)
        assert names(made) == ["A", "B"]
        (decision,) = refusals(made, Rule.TRUE_DEPENDENCE)
        assert (decision.subject, decision.other) == ("a", "b")

    def test_transposed_in_one_tile(self):
        builder = ProgramBuilder(((4,), (4,)))
        a = builder.op("a", "log1p", builder.source("x"))
        b = builder.map(
            "b", lambda f, x, y: f.apply("subtract", x, y), a, "x", axes={a: (1, 0)}
        )
        made = plan(builder, b)
        assert names(made) == ["A"]
        assert untouched(made) == ["b"]

    def test_source_may_be_read_through_many_partitions(self):
        builder = ProgramBuilder(((2, 2), (2, 2)))
        x = builder.source("x")
        a = builder.op("a", "sin", x)
        b = builder.map(
            "b", lambda f, x, y: f.apply("subtract", x, y), a, x, axes={x: (1, 0)}
        )
        made = plan(builder, b)
        assert names(made) == ["a B"]
        assert [param.axes for param in made.groups[0].kernel.arrays] == [
            (0, 1),
            (1, 0),
        ]


class TestReductions:
    def test_with_what_they_reduce(self, builder):
        a = builder.op("a", "sin", builder.source("x"))
        s = builder.reduce("s", "sum", a)
        t = builder.reduce("t", "max", a, (0, 1))
        made = plan(builder, s, t)
        assert names(made) == ["a S T"]

    def test_mean_removed(self, builder):
        x = builder.source("x")
        s = builder.reduce("s", "moments", x)
        mean = builder.opaque("mean", s, chunks=(builder.chunks[1],))
        b = builder.op("b", "subtract", x, mean)
        c = builder.op("c", "divide", b, 3.0)
        made = plan(builder, c)
        assert names(made) == ["S", "b C"]
        assert [a.store for a in made.groups[1].inputs] == ["x", "mean"]
        assert made.groups[1].kernel.arrays[1].axes == (1,)
        # Both read x, and the one has to wait for the other.
        (decision,) = refusals(made, Rule.CONVEXITY)
        assert (decision.subject, decision.other) == ("s", "b")

    def test_partial_results_are_not_read(self, builder):
        builder.chunks = ((1, 1), (3, 3, 3))
        s = builder.reduce("s", "sum", builder.source("x"), (0,))
        b = builder.op("b", "log1p", s)
        made = plan(builder, b)
        assert names(made) == ["B"]
        assert refusals(made, Rule.REDUCTION)

    def test_kept_for_others(self, builder):
        a = builder.op("a", "sin", builder.source("x"))
        s = builder.reduce("s", "sum", a)
        o = builder.opaque("o", a)
        made = plan(builder, s, o)
        assert names(made) == ["A S"]
        assert made.groups[0].temporaries == ()


class TestConstants:
    def test_are_repeated(self, builder):
        one = builder.full("one", 1.0)
        a = builder.op("a", "arctan2", builder.source("x"), one)
        b = builder.op("b", "arctan2", builder.source("y"), one)
        made = plan(builder, a, b)
        assert names(made) == ["one A", "one B"]
        assert [group.temporaries for group in made.groups] == [("one",), ("one",)]
        assert made.groups[0].scalars == ((0, 0),)

    def test_one_number_is_no_reason_for_a_kernel(self, builder):
        a = builder.op("a", "add", builder.source("x"), builder.full("one", 1.0))
        assert names(plan(builder, a)) == []

    def test_many_numbers_are(self, builder):
        index = builder.map("i", lambda f: f.cast(f.index(1), F8))
        a = builder.op("a", "add", builder.source("x"), index)
        assert names(plan(builder, a)) == ["i A"]

    def test_requested(self, builder):
        one = builder.full("one", 1.0)
        a = builder.op("a", "add", builder.source("x"), one)
        made = plan(builder, a, one)
        assert names(made) == ["ONE A"]

    def test_read_by_others(self, builder):
        one = builder.full("one", 1.0)
        a = builder.op("a", "add", builder.source("x"), one)
        made = plan(builder, a, builder.opaque("o", one))
        assert names(made) == ["ONE A"]

    def test_dear_ones_are_made_once(self, builder):
        built = builder.map("i", lambda f: f.apply("sin", f.cast(f.index(1), F8)))
        a = builder.op("a", "add", builder.source("x"), built)
        b = builder.op("b", "add", builder.source("y"), built)
        made = plan(builder, a, b)
        assert sum("i" in text.lower().split() for text in names(made)) == 1


class TestRequests:
    def test_requested_stores_exist(self, builder):
        a = builder.op("a", "sin", builder.source("x"))
        b = builder.op("b", "add", a, 1.0)
        made = plan(builder, a, b)
        assert names(made) == ["A B"]
        assert made.groups[0].temporaries == ()

    def test_dead_tasks_are_left_alone(self, builder):
        a = builder.op("a", "sin", builder.source("x"))
        builder.op("dead", "add", a, 1.0)
        b = builder.op("b", "add", a, 2.0)
        made = plan(builder, b)
        assert names(made) == ["a B"]
        assert untouched(made) == ["dead"]


class TestLimits:
    def test_values(self, builder):
        x = builder.source("x")
        for number in range(9):
            x = builder.op(f"a{number}", "negative", x)
        made = plan(builder, x, options=Options(min_bytes=0, max_group_values=6))
        assert [len(group.tasks) for group in made.groups] == [3, 3, 3]
        for decision in refusals(made, Rule.LIMIT):
            assert decision.detail == "the kernel would have 12 values, more than 6"
            assert decision.remedy == "Raise the option max_group_values"
        assert len(refusals(made, Rule.LIMIT)) == 2

    def test_arrays(self, builder):
        total = builder.source("x")
        for number in range(6):
            total = builder.op(f"a{number}", "add", total, builder.source(f"y{number}"))
        made = plan(builder, total, options=Options(min_bytes=0, max_group_arrays=5))
        assert [len(group.tasks) for group in made.groups] == [3, 3]
        assert all(len(g.inputs) + len(g.results) <= 5 for g in made.groups)

    def test_arrays_that_vanish_do_not_count(self, builder):
        x, y = builder.source("x"), builder.source("y")
        a = builder.op("a", "add", x, y)
        b = builder.op("b", "add", a, x)
        c = builder.op("c", "add", b, y)
        assert names(
            plan(builder, c, options=Options(min_bytes=0, max_group_arrays=3))
        ) == ["a b C"]

    def test_task_beyond_the_limit_alone(self, builder):
        x, y = builder.source("x"), builder.source("y")
        a = builder.op("a", "power", x, y)
        b = builder.op("b", "exp", a)
        made = plan(builder, b, options=Options(min_bytes=0, max_group_arrays=2))
        assert untouched(made) == ["a", "b"]
        (decision,) = refusals(made, Rule.LIMIT)
        assert (decision.subject, decision.other) == ("a", None)


class TestAnnotations:
    def test_keep_tasks_apart(self, builder):
        a = builder.op("a", "log1p", builder.source("x"), annotations=[("to", "a")])
        b = builder.op("b", "log1p", a, annotations=[("to", "b")])
        made = plan(builder, b)
        assert names(made) == ["A", "B"]
        (decision,) = refusals(made, Rule.ANNOTATIONS)
        assert decision.detail == "annotation 'to' is 'a' and 'b'"

    def test_of_all_tasks_of_a_group(self, builder):
        # a and c alone could be one, but b has been merged with a.
        workers = (
            [("workers", ("p", "q"))],
            [("workers", ("q",))],
            [("workers", ("p",))],
        )
        a = builder.op("a", "log1p", builder.source("x"), annotations=workers[0])
        b = builder.op("b", "log1p", a, annotations=workers[1])
        c = builder.op("c", "log1p", b, annotations=workers[2])
        made = plan(builder, c)
        assert names(made) == ["a B", "C"]


class TestCost:
    @pytest.mark.parametrize(
        ("op", "is_fused"), [("add", False), ("sqrt", False), ("log1p", True)]
    )
    def test_alone(self, builder, op, is_fused):
        operands = [builder.source("x")] + ([1.0] if op == "add" else [])
        made = plan(builder, builder.op("a", op, *operands))
        assert bool(made.groups) == is_fused
        assert bool(refusals(made, Rule.COST)) != is_fused


class TestSmall:
    def test_rows_are_left_alone(self, builder):
        row = (builder.chunks[1],)
        v = builder.op("v", "log1p", builder.source("row", row), chunks=row)
        w = builder.op("w", "negative", v, chunks=row)
        a = builder.op("a", "add", builder.source("x"), w)
        made = plan(
            builder, builder.op("b", "log1p", a), options=Options(min_bytes=100)
        )
        assert names(made) == ["a B"]
        assert untouched(made) == ["v", "w"]
        (decision,) = refusals(made, Rule.TOO_SMALL)
        assert decision.subject == "w"
        assert decision.detail == "its arrays have 72 bytes at most"

    def test_with_something_large_they_are_not(self, builder):
        row = builder.source("row", (builder.chunks[1],))
        a = builder.op("a", "add", builder.source("x"), row)
        made = plan(
            builder, builder.op("b", "log1p", a), options=Options(min_bytes=100)
        )
        assert names(made) == ["a B"]

    def test_many_blocks_are_not(self):
        chunks = ((2,) * 20,)
        builder = ProgramBuilder(chunks)
        a = builder.op("a", "log1p", builder.source("x", chunks))
        made = plan(builder, a, options=Options(min_bytes=1 << 30))
        assert names(made) == ["A"]

    def test_what_is_not_known_is_not_small(self):
        chunks = ((None, None), (3,))
        builder = ProgramBuilder(chunks)
        a = builder.op("a", "log1p", builder.source("x", chunks))
        clear_plans()
        made = plan_fusion(builder.program(a), options=Options(min_bytes=1 << 30))
        assert names(made) == ["A"]


@pytest.mark.parametrize("seed", range(3))
def test_same_every_time(seed):
    # No order of sets, no addresses.
    program = random_program(np.random.default_rng(seed), 60)
    clear_plans()
    first = plan_fusion(program, options=OPTIONS)
    clear_plans()
    again = plan_fusion(program, options=OPTIONS)
    assert first.groups == again.groups
    assert first.decisions == again.decisions


def test_constant_of_a_group_and_of_a_task_alone(builder):
    one = builder.full("one", 1.0)
    a = builder.op("a", "add", builder.source("x"), one)
    b = builder.op("b", "exp", builder.op("c", "add", builder.source("y"), one))
    made = plan(builder, a, b)
    assert names(made) == ["one c B"]
    # NumPy adds a constant in one pass, for which the constant has to exist.
    assert untouched(made) == ["one", "a"]
