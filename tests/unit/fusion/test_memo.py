"""Programs that are the same up to names are planned once, others never as one."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from dask_diffuse.fusion import clear_plans, plan_counts, plan_fusion
from dask_diffuse.fusion.memo import Memo, canonical_form
from dask_diffuse.ir.program import Program
from dask_diffuse.options import Options
from tests.unit.fusion.builders import ProgramBuilder

OPTIONS = Options(min_bytes=0)


def form(builder: ProgramBuilder, *requested: str, options: Options = OPTIONS):
    return canonical_form(builder.program(*requested), options)


def chain(prefix: str = "", value: float = 2.0, chunks=((4, 4), (3, 3, 3))):
    builder = ProgramBuilder(chunks)
    a = builder.op(f"{prefix}a", "multiply", builder.source(f"{prefix}x"), value)
    builder.op(f"{prefix}b", "add", a, 1.0)
    return builder


class TestSame:
    def test_names(self):
        assert form(chain(), "b") == form(chain("other-"), "other-b")

    def test_literals(self):
        assert form(chain(), "b") == form(chain(value=3.0), "b")

    def test_blocks(self):
        longer = ((40, 40), (3,))
        assert form(chain(), "b") == form(chain(chunks=longer), "b")

    def test_what_opaque_tasks_do(self):
        forms = []
        for name in ("load", "fetch"):
            builder = ProgramBuilder()
            a = builder.op("a", "sin", builder.opaque(name, builder.source("x")))
            forms.append(form(builder, a))
        assert forms[0] == forms[1]

    def test_plan_has_its_own_names(self):
        clear_plans()
        first = plan_fusion(chain().program("b"), options=OPTIONS)
        program = chain("other-", 5.0).program("other-b")
        second = plan_fusion(program, options=OPTIONS)
        counts = plan_counts()
        assert (counts["programs"], counts["analyses"]) == (2, 1)
        assert counts["memo_hits"] == 1
        assert counts["groups"] == 2
        assert counts["in_memory"] == 1
        assert second.program is program
        (group,) = second.groups
        assert group.results[0].store == "other-b"
        assert group.inputs[0].store == "other-x"
        assert group.temporaries == ("other-a",)
        assert group.kernel == first.groups[0].kernel
        assert group.kernel.label == "other"
        assert first.groups[0].kernel.label == "a-b"
        assert {d.subject for d in second.decisions} == {"other-a"}


class TestDifferent:
    def test_occurrences_are_recorded_and_not_only_first_ones(self):
        # The paper's prototype numbers stores when it first sees them and records no
        # later occurrence, so that these are one to it.
        chained, siblings = ProgramBuilder(), ProgramBuilder()
        b = chained.op("b", "sin", chained.source("a"))
        chained.op("c", "sin", b)
        a = siblings.source("a")
        siblings.op("b", "sin", a)
        siblings.op("c", "sin", a)
        assert form(chained, "b", "c") != form(siblings, "b", "c")

    def test_back_and_forth(self):
        # T1(a -> b); T2(b -> c) against T1(a -> b); T2(a -> c), wherever they stand.
        pair = []
        for source in ("b", "a"):
            builder = ProgramBuilder()
            x = builder.source("x")
            builder.op("a", "sin", x)
            builder.op("b", "cos", "a")
            builder.op("c", "exp", source)
            pair.append(form(builder, "a", "b", "c"))
        assert pair[0] != pair[1]

    def test_requests(self):
        assert form(chain(), "b") != form(chain(), "a", "b")

    def test_operations(self):
        forms = set()
        for op in ("sin", "cos"):
            builder = ProgramBuilder()
            forms.add(form(builder, builder.op("a", op, builder.source("x"))))
        assert len(forms) == 2

    def test_dtypes(self):
        forms = set()
        for dtype in ("f4", "f8", "i4"):
            builder = ProgramBuilder()
            x = builder.source("x", dtype=np.dtype(dtype))
            forms.add(form(builder, builder.op("a", "negative", x)))
        assert len(forms) == 3

    def test_types_of_literals(self):
        forms = set()
        for value in (2.0, np.float64(2.0), 2):
            builder = ProgramBuilder()
            x = builder.source("x", dtype=np.dtype("f4"))
            forms.add(form(builder, builder.op("a", "multiply", x, value)))
        # A Python int and a Python float become the same float32.
        assert len(forms) == 2

    def test_partitions(self):
        forms = set()
        for axes in ((0, 1), (1, 0)):
            builder = ProgramBuilder(((2, 2), (2, 2)))
            a = builder.op("a", "sin", builder.source("x"))
            forms.add(form(builder, builder.op("b", "sin", a, axes={a: axes})))
        assert len(forms) == 2

    def test_broadcast(self):
        forms = set()
        for axis in (0, 1):
            builder = ProgramBuilder(((2, 2), (2, 2)))
            row = builder.source("row", ((2, 2),))
            x = builder.source("x")
            forms.add(
                form(builder, builder.op("b", "add", x, row, axes={row: (axis,)}))
            )
        assert len(forms) == 2

    def test_reductions(self):
        forms = set()
        for kind, axes in (("sum", (0,)), ("sum", (1,)), ("max", (0,))):
            builder = ProgramBuilder(((2, 2), (2, 2)))
            s = builder.reduce("s", kind, builder.source("x"), axes)
            forms.add(form(builder, s))
        assert len(forms) == 3

    def test_annotations(self):
        forms = set()
        for value in (None, 1, True, 1.0, "1", [1], (1,), {"a": 1}, {1}):
            builder = ProgramBuilder()
            annotations = () if value is None else [("it", value)]
            a = builder.op("a", "sin", builder.source("x"), annotations=annotations)
            forms.add(form(builder, a))
        assert len(forms) == 9

    @pytest.mark.parametrize("name", ["max_group_values", "max_group_arrays"])
    def test_limits(self, name):
        options = OPTIONS.replace(**{name: 7})
        assert form(chain(), "b") != form(chain(), "b", options=options)

    def test_what_is_too_small(self):
        options = Options(min_bytes=1000)
        large = ((400, 400), (3,))
        assert form(chain(), "b", options=options) != form(
            chain(chunks=large), "b", options=options
        )
        larger = ((800, 400), (3,))
        assert form(chain(chunks=large), "b", options=options) == form(
            chain(chunks=larger), "b", options=options
        )

    def test_writes_that_share_tiles(self):
        program = chain().program("b")
        task = program.tasks[1]
        shared = dataclasses.replace(
            task.writes[0],
            partition=dataclasses.replace(task.writes[0].partition, axes=(0, None)),
        )
        other = dataclasses.replace(task, accesses=(*task.reads, shared))
        broken = Program(program.stores, (program.tasks[0], other), program.requested)
        own = dataclasses.replace(
            task.writes[0], partition=dataclasses.replace(task.writes[0].partition)
        )
        equal = dataclasses.replace(task, accesses=(*task.reads, own))
        legal = Program(program.stores, (program.tasks[0], equal), program.requested)
        assert canonical_form(broken, OPTIONS) != canonical_form(legal, OPTIONS)


def test_annotations_that_cannot_be_compared_are_planned_each_time():
    class Odd:
        __hash__ = None

    builder = ProgramBuilder()
    a = builder.op("a", "sin", builder.source("x"), annotations=[("odd", Odd())])
    assert form(builder, a) is None
    clear_plans()
    for _ in range(2):
        plan_fusion(builder.program(a), options=OPTIONS)
    assert plan_counts()["analyses"] == 2


class TestMemo:
    def test_forgets_what_was_not_used(self):
        memo: Memo[str] = Memo(max_tasks=10)
        memo.put("a", "A", 4)
        memo.put("b", "B", 4)
        assert memo.get("a") == "A"
        memo.put("c", "C", 4)
        assert memo.get("b") is None
        assert (memo.get("a"), memo.get("c")) == ("A", "C")
        assert len(memo) == 2

    def test_does_not_take_what_is_too_large(self):
        memo: Memo[str] = Memo(max_tasks=10)
        memo.put("a", "A", 4)
        memo.put("b", "B", 11)
        assert memo.get("a") == "A"
        assert memo.get("b") is None

    def test_keeps_the_first(self):
        memo: Memo[str] = Memo(max_tasks=10)
        memo.put("a", "A", 6)
        memo.put("a", "B", 6)
        assert memo.get("a") == "A"
        assert len(memo) == 1

    def test_clear(self):
        memo: Memo[str] = Memo(max_tasks=10)
        memo.put("a", "A", 10)
        memo.clear()
        assert memo.get("a") is None
        memo.put("b", "B", 10)
        assert memo.get("b") == "B"


def test_threads():
    clear_plans()
    programs = [chain(f"{number}-").program(f"{number}-b") for number in range(40)]
    plans = {}

    def work(mine: list[Program]) -> None:
        for program in mine:
            plans[id(program)] = plan_fusion(program, options=OPTIONS)

    threads = [
        threading.Thread(target=work, args=(programs[start::4],)) for start in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(plans) == 40
    assert all(plans[id(p)].program is p for p in programs)
    counts = plan_counts()
    assert counts["programs"] == 40
    assert counts["memo_hits"] + counts["analyses"] == 40
    assert counts["analyses"] <= 4
    assert counts["in_memory"] == 1
