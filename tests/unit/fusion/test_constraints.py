"""Each constraint accepts, refuses, and says which values made it so."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dask_diffuse.fusion import constraints
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.partition import Tiling
from dask_diffuse.ir.task import IndexTask, Privilege
from tests.unit.fusion.builders import ProgramBuilder


@pytest.fixture
def builder() -> ProgramBuilder:
    return ProgramBuilder()


def last(builder: ProgramBuilder) -> IndexTask:
    return builder.tasks[-1]


class TestLaunchDomain:
    def test_accepts_equal_tiles(self, builder):
        x = builder.source("x")
        builder.op("a", "sin", x)
        builder.op("b", "cos", x)
        decision = constraints.launch_domain(*builder.tasks)
        assert decision.accepted
        assert decision.rule is Rule.LAUNCH_DOMAIN
        assert (decision.subject, decision.other) == ("a", "b")

    def test_refuses_other_domains(self, builder):
        builder.op("a", "sin", builder.source("x"))
        builder.op("b", "sin", builder.source("y", ((4, 4),)), chunks=((4, 4),))
        decision = constraints.launch_domain(*builder.tasks)
        assert not decision.accepted
        assert decision.detail == "launch domains (2, 3) and (2,) differ"
        # Rechunking would not help.
        assert decision.remedy == ""

    def test_refuses_equal_domains_of_other_tiles(self, builder):
        builder.op("a", "sin", builder.source("x"))
        other = ((4, 4), (3, 2, 4))
        builder.op("b", "sin", builder.source("y", other), chunks=other)
        decision = constraints.launch_domain(*builder.tasks)
        assert not decision.accepted
        assert decision.detail == "tile 1 along axis 1 is 3 and 2 long"
        assert "Rechunk" in decision.remedy

    def test_refuses_unknown_lengths_of_different_origin(self, builder):
        # Two stores of unknown tile lengths need not be cut alike.
        for name in "ab":
            chunks = tuple([None] * 2), (3,)
            builder.op(name, "sin", builder.source(f"{name}0", chunks), chunks=chunks)
        first, second = builder.tasks
        assert constraints.launch_domain(first, first).accepted
        decision = constraints.launch_domain(first, second)
        assert not decision.accepted
        assert decision.detail == "chunks along axis 0 are not known"

    def test_refuses_opaque_tasks(self, builder):
        x = builder.source("x")
        builder.op("a", "sin", x)
        builder.opaque("b", x)
        decision = constraints.launch_domain(*builder.tasks)
        assert not decision.accepted
        assert decision.detail == "'b' has no loops"


class TestTrueDependence:
    def test_accepts_the_partition_it_was_written_through(self, builder):
        builder.op("b", "cos", builder.op("a", "sin", builder.source("x")))
        decision = constraints.true_dependence(*builder.tasks, 0)
        assert decision.accepted
        assert (decision.subject, decision.other) == ("a", "b")

    def test_refuses_another_partition(self):
        builder = ProgramBuilder(((2, 2), (2, 2)))
        a = builder.op("a", "sin", builder.source("x"))
        builder.op("b", "cos", a, axes={a: (1, 0)})
        decision = constraints.true_dependence(*builder.tasks, 0)
        assert not decision.accepted
        assert decision.rule is Rule.TRUE_DEPENDENCE
        assert decision.detail == (
            "written through tiling (2x2, 2x2) along (0, 1), "
            "read through tiling (2x2, 2x2) along (1, 0)"
        )

    def test_refuses_other_elements_of_one_tile(self):
        # The paper's partitions are equal here: every point sees its only tile. A
        # kernel still has the wrong element in its register.
        builder = ProgramBuilder(((4,), (4,)))
        a = builder.op("a", "sin", builder.source("x"))
        builder.op("b", "cos", a, axes={a: (1, 0)})
        space = builder.tasks[0].space
        read = dataclasses.replace(builder.tasks[1].reads[0], partition=space)
        reader = dataclasses.replace(
            builder.tasks[1], accesses=(read, builder.tasks[1].writes[0])
        )
        decision = constraints.true_dependence(builder.tasks[0], reader, 0)
        assert not decision.accepted
        assert (
            decision.detail == "tiles are written along axes (0, 1), read along (1, 0)"
        )

    def test_needs_the_writer(self, builder):
        x = builder.source("x")
        builder.op("a", "sin", x)
        builder.op("b", "sin", x)
        with pytest.raises(ValueError, match="'a' does not write 'x'"):
            constraints.true_dependence(*builder.tasks, 0)


class TestAntiDependence:
    def test_accepts_and_refuses(self):
        builder = ProgramBuilder(((2, 2), (2, 2)))
        x = builder.source("x")
        builder.op("a", "sin", x)
        builder.op("b", "sin", x, axes={x: (1, 0)})
        same, other = builder.tasks
        # Not SSA, which is why programs of ours never get here.
        write = dataclasses.replace(same.reads[0], privilege=Privilege.WRITE)
        writer = dataclasses.replace(same, accesses=(write,))
        assert constraints.anti_dependence(same, writer, 0).accepted
        decision = constraints.anti_dependence(other, writer, 0)
        assert not decision.accepted
        assert decision.rule is Rule.ANTI_DEPENDENCE
        assert decision.detail.startswith("read through tiling")


class TestReduction:
    def test_refuses_partial_results(self, builder):
        total = builder.reduce("s", "sum", builder.source("x"))
        builder.opaque("agg", total)
        decision = constraints.reduction(*builder.tasks, 0)
        assert not decision.accepted
        assert decision.rule is Rule.REDUCTION
        assert "'sum' are partial" in decision.detail

    def test_accepts_what_is_written(self, builder):
        builder.op("b", "cos", builder.op("a", "sin", builder.source("x")))
        assert constraints.reduction(*builder.tasks, 0).accepted


class TestDisjointWrites:
    def test_accepts_own_tiles(self, builder):
        builder.op("a", "sin", builder.source("x"))
        assert constraints.disjoint_writes(last(builder)).accepted

    def test_refuses_shared_tiles(self, builder):
        builder.op("a", "sin", builder.source("x"))
        shared = Tiling(((8,), (3, 3, 3)), (None, 1))
        write = dataclasses.replace(last(builder).writes[0], partition=shared)
        task = dataclasses.replace(last(builder), accesses=(write,))
        decision = constraints.disjoint_writes(task)
        assert not decision.accepted
        assert decision.rule is Rule.DISJOINT_WRITES
        assert "points of (2, 3) share tiles" in decision.detail


class TestAnnotations:
    @pytest.mark.parametrize(
        ("first", "second", "name"),
        [
            ({}, {}, None),
            ({"x": 1}, {"x": 1}, None),
            ({"x": 1}, {}, "x"),
            ({"x": 1}, {"x": 2}, "x"),
            ({"priority": 1}, {}, None),
            ({"priority": 1}, {"priority": 2}, None),
            ({"priority": 1}, {"priority": len}, "priority"),
            ({"retries": 1}, {"resources": {"GPU": 1}}, None),
            ({"workers": "a"}, {"workers": ["a", "b"]}, None),
            ({"workers": "a"}, {"workers": ["b"]}, "workers"),
            ({"workers": "a"}, {}, None),
        ],
    )
    def test_which_may_be_shared(self, first, second, name):
        assert constraints.may_share_annotations(first, second) == name
        assert constraints.may_share_annotations(second, first) == name

    def test_decision(self, builder):
        x = builder.source("x")
        builder.op("a", "sin", x, annotations=[("where", "here")])
        builder.op("b", "sin", x)
        first, second = builder.tasks
        assert constraints.same_annotations(first, first).accepted
        decision = constraints.same_annotations(first, second)
        assert not decision.accepted
        assert decision.rule is Rule.ANNOTATIONS
        assert decision.detail == "annotation 'where' is 'here' and None"


class TestOthers:
    def test_limit(self, builder):
        x = builder.source("x")
        builder.op("a", "sin", x)
        builder.op("b", "sin", x)
        first, second = builder.tasks
        assert constraints.limit(first, second, (3, 3), (2, 2)).accepted
        decision = constraints.limit(first, second, (3, 3), (9, 8))
        assert not decision.accepted
        assert decision.detail == "the kernel would have 9 arrays, more than 8"
        assert decision.remedy == "Raise the option max_group_arrays"

    def test_convexity(self, builder):
        x = builder.source("x")
        for name in "abc":
            x = builder.op(name, "sin", x)
        first, between, last = builder.tasks
        assert constraints.convexity(first, last, None).accepted
        decision = constraints.convexity(first, last, between)
        assert not decision.accepted
        assert decision.detail == "'b' has to run between the two"

    def test_cost(self, builder):
        builder.op("a", "sin", builder.source("x"))
        task = last(builder)
        assert constraints.cost(task, None, pays=True).accepted
        decision = constraints.cost(task, None, pays=False)
        assert not decision.accepted
        assert decision.detail == "one pass over memory either way"
        repeated = constraints.cost(task, task, pays=True)
        assert repeated.accepted
        assert repeated.other == "a"

    def test_too_small(self, builder):
        builder.op("a", "sin", builder.source("x"))
        decision = constraints.too_small(last(builder), 72)
        assert not decision.accepted
        assert decision.rule is Rule.TOO_SMALL
        assert decision.detail == "its arrays have 72 bytes at most"

    def test_dependence_asks_in_order(self, builder):
        x = builder.source("x")
        a = builder.op("a", "sin", x)
        builder.op("b", "cos", a)
        builder.reduce("s", "sum", a)
        a, b, s = builder.tasks
        assert constraints.check_dependence(a, b, 0) is None
        assert constraints.check_dependence(a, s, 0) is None
        builder.op("c", "sin", "s", chunks=builder.written["s"])
        refusal = constraints.check_dependence(s, last(builder), 0)
        assert refusal is not None
        assert refusal.rule is Rule.LAUNCH_DOMAIN
        same_space = dataclasses.replace(last(builder), space=s.space)
        refusal = constraints.check_dependence(s, same_space, 0)
        assert refusal is not None
        assert refusal.rule is Rule.REDUCTION


def test_tasks_are_called_by_what_they_write(builder):
    builder.op("a", "sin", builder.source("x"))
    task = last(builder)
    assert constraints.task_name(task) == "a"
    nothing = dataclasses.replace(task, accesses=task.reads)
    assert constraints.task_name(nothing) == task.origin.layer


def test_scalars_do_not_matter(builder):
    builder.op("a", "multiply", builder.source("x"), 2.0)
    builder.op("b", "multiply", "a", np.float64(3.0))
    assert constraints.check_dependence(*builder.tasks, 0) is None
