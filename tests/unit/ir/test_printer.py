"""Programs as text."""

from __future__ import annotations

import dataclasses

import numpy as np

from dask_diffuse.ir.partition import Replicated, Tiling
from dask_diffuse.ir.printer import format_partition, format_program
from tests.unit.fusion.builders import ProgramBuilder


def example() -> ProgramBuilder:
    builder = ProgramBuilder(((500, 500), (1000,)))
    row = builder.source("weights-1", ((1000,),), np.dtype("f4"))
    a = builder.op("mul-2", "multiply", builder.source("array-0"), row)
    b = builder.op("add-3", "add", a, 1.5)
    s = builder.reduce("sum-4", "sum", b)
    builder.opaque("sum-agg-5", s, chunks=((1000,),))
    return builder


def test_program():
    assert format_program(example().program("sum-agg-5")) == (
        "program  requested: %5\n"
        '  %0 : f32[1000]        input          "weights"\n'
        '  %1 : f64[1000, 1000]  input          "array"\n'
        "  @a = tiling(2x500, 1000)\n"
        "  @b = tiling(1000) along (1)\n"
        "  %2 : f64[1000, 1000]  task 0 <2, 1>  elementwise  "
        'read %1@a read %0@b write %2@a  multiply(%1, cast f64(%0))  "mul"\n'
        "  %3 : f64[1000, 1000]  task 1 <2, 1>  elementwise  "
        'read %2@a write %3@a            add(%2, 1.5)                "add"\n'
        "  @c = tiling(2x1, 1000)\n"
        "  %4 : f64[2, 1000]     task 2 <2, 1>  reduction    "
        'read %3@a reduce(sum) %4@c      sum(%3) over 0              "sum"\n'
        "  @d = replicated\n"
        "  %5 : f64[1000]        task 3 <>      opaque       "
        'read %4@d write %5@d            unknown-function            "sum"'
    )


def test_names_do_not_matter():
    program = example().program("sum-agg-5")
    renamed = dataclasses.replace(
        program,
        stores={
            f"{name}-x": dataclasses.replace(store, name=f"{name}-x")
            for name, store in program.stores.items()
        },
        tasks=tuple(
            dataclasses.replace(
                task,
                accesses=tuple(
                    dataclasses.replace(access, store=f"{access.store}-x")
                    for access in task.accesses
                ),
            )
            for task in program.tasks
        ),
        requested=frozenset({"sum-agg-5-x"}),
    )
    assert format_program(renamed) == format_program(program)


def test_around_a_task():
    builder = ProgramBuilder()
    x = builder.source("x")
    for number in range(20):
        x = builder.op(f"a{number}", "negative", x)
    lines = format_program(builder.program(x), around=10).splitlines()
    assert lines[0] == "program  requested: %20"
    assert lines[1] == lines[-1] == "  ..."
    (marked,) = [line for line in lines if line.startswith(">")]
    assert "task 10" in marked
    assert len(lines) == 14


def test_long_expressions_are_cut():
    builder = ProgramBuilder()

    def compute(f, x):
        # Text of the full expression would have 2 ** 200 letters.
        for _ in range(200):
            x = f.apply("multiply", x, x)
        return x

    builder.map("a", compute, builder.source("x"))
    text = format_program(builder.program("a"))
    assert "..." in text
    assert max(map(len, text.splitlines())) < 200


def test_partitions():
    assert format_partition(Replicated()) == "replicated"
    assert format_partition(Tiling(((4, 4, 2), (3,)), (0, 1))) == "tiling(2x4+2, 3)"
    unknown = Tiling(((None, None), ()), (1, None))
    assert format_partition(unknown) == "tiling(2x?, none) along (1, -)"


def test_broken_programs_print():
    builder = example()
    program = builder.program("sum-agg-5", "nowhere")
    stores = {name: s for name, s in program.stores.items() if name != "mul-2"}
    task = dataclasses.replace(program.tasks[1], scalars=())
    broken = dataclasses.replace(program, stores=stores, tasks=(program.tasks[0], task))
    text = format_program(broken)
    assert "not in the program" in text
    assert "add(%4, ?)" in text
