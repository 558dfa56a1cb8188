"""Illegal programs are found, and errors say what is wrong with them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dask_diffuse.errors import VerifyError
from dask_diffuse.ir.partition import Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Access, IndexTask, Partial, Privilege, Statistic
from dask_diffuse.ir.verify import verify_program
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from tests.unit.fusion.builders import F8, ProgramBuilder

F4 = np.dtype("f4")


@pytest.fixture
def program() -> Program:
    builder = ProgramBuilder()
    x = builder.source("x")
    a = builder.op("a", "multiply", x, 2.0)
    s = builder.reduce("s", "sum", a)
    builder.opaque("o", s)
    made = builder.program("o")
    verify_program(made)
    return made


def with_task(program: Program, number: int, **fields: object) -> Program:
    tasks = list(program.tasks)
    tasks[number] = dataclasses.replace(tasks[number], **fields)
    return dataclasses.replace(program, tasks=tuple(tasks))


def with_body(program: Program, number: int, **fields: object) -> Program:
    body = dataclasses.replace(program.tasks[number].body, **fields)
    return with_task(program, number, body=body)


def with_access(program: Program, number: int, at: int, **fields: object) -> Program:
    accesses = list(program.tasks[number].accesses)
    accesses[at] = dataclasses.replace(accesses[at], **fields)
    return with_task(program, number, accesses=tuple(accesses))


def with_store(program: Program, of: str, **fields: object) -> Program:
    store = dataclasses.replace(program.stores[of], **fields)
    return dataclasses.replace(program, stores={**program.stores, of: store})


def assert_refused(program: Program, message: str) -> None:
    with pytest.raises(VerifyError) as error:
        verify_program(program)
    assert message in error.value.what


def test_error_shows_the_task(program):
    with pytest.raises(VerifyError) as error:
        verify_program(with_task(program, 1, id=5))
    text = str(error.value)
    assert text.startswith("task 1 of layer 's' has the id 5\nprogram  requested")
    assert "> %2 : f64[2, 9]  task 5 <2, 3>  reduction" in text


class TestSingleAssignment:
    def test_written_twice(self, program):
        assert_refused(
            with_access(program, 2, 1, store="a"),
            "writes 'a', which task 0 has written",
        )

    def test_written_twice_by_one(self, program):
        o = program.tasks[2]
        both = (*o.accesses, o.accesses[-1])
        assert_refused(with_task(program, 2, accesses=both), "writes 'o' repeatedly")

    def test_nothing_written(self, program):
        o = program.tasks[2]
        assert_refused(with_task(program, 2, accesses=o.reads), "writes nothing")

    def test_read_before_it_is_written(self, program):
        assert_refused(
            with_access(program, 0, 0, store="o"),
            "reads 'o', which task 2 writes later",
        )

    def test_read_of_itself(self, program):
        assert_refused(
            with_access(program, 2, 0, store="o"), "reads 'o', which it writes"
        )

    def test_unknown_store(self, program):
        assert_refused(
            with_access(program, 2, 0, store="y"),
            "accesses 'y', which is no store of the program",
        )

    def test_unknown_request(self, program):
        broken = dataclasses.replace(program, requested=frozenset({"y"}))
        assert_refused(broken, "requested stores ['y'] are not in the program")

    def test_store_under_another_name(self, program):
        assert_refused(with_store(program, "x", name="y"), "store 'y' is listed as 'x'")


class TestAccesses:
    def test_order(self, program):
        task = program.tasks[0]
        broken = with_task(program, 0, accesses=task.accesses[::-1])
        assert_refused(broken, "reads 'x' after its writes")

    def test_reduction_without_an_op(self, program):
        assert_refused(
            with_access(program, 1, 1, reduction=None),
            "has 'reduce' access to 's' with the reduction None",
        )
        assert_refused(
            with_access(program, 1, 1, reduction="median"),
            "reduces with 'median', which is no reduction",
        )

    def test_shared_tiles(self, program):
        task = program.tasks[0]
        shared = Tiling(((8,), (3, 3, 3)), (None, 1))
        write = Access("a", shared, Privilege.WRITE)
        broken = with_task(program, 0, accesses=(task.reads[0], write))
        assert_refused(broken, "launch domain (2, 3) share tiles")

    @pytest.mark.parametrize(
        ("partition", "message"),
        [
            (Tiling(((4, 4), (3, 3, 3)), (0,)), "has a tiling of 'x' with axes (0,)"),
            (Tiling(((4, 4),), (0,)), "cuts 'x' of shape (8, 9) through"),
            (
                Tiling(((4, 5), (3, 3, 3)), (0, 1)),
                "has tiles of 'x' of 9 along axis 0, which is 8 long",
            ),
            (
                Tiling(((4, 4), (3, 3, 3)), (0, 2)),
                "has no launch axis 2, as 'x' asks for",
            ),
            (
                Tiling(((4, 4), (3, 3, 3)), (0, 0)),
                "sees 2 tiles of 'x' along axis 1, which has 3",
            ),
            (
                Tiling(((4, 4), (3, 3, 3)), (0, None)),
                "sees 1 tiles of 'x' along axis 1, which has 3",
            ),
        ],
    )
    def test_partitions_fit(self, program, partition, message):
        assert_refused(with_access(program, 0, 0, partition=partition), message)


def function(*lines: Instruction) -> ScalarFunction:
    return ScalarFunction(lines, (len(lines) - 1,))


class TestElementwise:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"operands": ()}, "has 0 operands and reads 1 stores"),
            (
                {"operands": ((0, 2),)},
                "reads 'x' of shape (8, 9) along the axes (0, 2) of 2 loops",
            ),
            ({"operands": ((0,),)}, "along the axes (0,) of 2 loops"),
            ({"operands": ((1, 1),)}, "axes (1, 1), one of them twice"),
            (
                {"function": function(Instruction("input", (), F8, 1))},
                "has no operand 1 of its 1",
            ),
            (
                {"function": function(Instruction("input", (), F4, 0))},
                "takes 'x' to be f32, which is f64",
            ),
            (
                {"function": function(Instruction("scalar", (), F8, 1))},
                "has no scalar 1 of its 1",
            ),
            (
                {"function": function(Instruction("scalar", (), F4, 0))},
                "takes scalar 0 to be f32, which is np.float64(2.0)",
            ),
            (
                {"function": function(Instruction("index", (), np.dtype("i8"), 2))},
                "asks for the position along loop 2 of 2",
            ),
            (
                {
                    "function": ScalarFunction(
                        (Instruction("input", (), F8, 0),), (0, 0)
                    )
                },
                "is elementwise and has 2 results",
            ),
        ],
    )
    def test_bodies(self, program, fields, message):
        assert_refused(with_body(program, 0, **fields), message)

    def test_dtype_of_the_result(self, program):
        assert_refused(
            with_store(program, "a", dtype=F4), "computes f64 for 'a', which is f32"
        )

    def test_loops(self, program):
        assert_refused(with_task(program, 0, space=None), "has a kernel and no loops")
        space = Tiling(((8,), (9,)), (0, 1))
        assert_refused(
            with_task(program, 0, space=space),
            "has loops cut into (1, 1) over the launch domain (2, 3)",
        )
        space = Tiling(((4, 4), (2, 3, 4)), (0, 1))
        assert_refused(with_task(program, 0, space=space), "in loops over")

    def test_privilege(self, program):
        broken = with_access(program, 0, 1, privilege=Privilege.REDUCE, reduction="sum")
        assert_refused(broken, "is elementwise and reduces to 'a'")

    def test_two_results(self, program):
        task: IndexTask = program.tasks[0]
        other = dataclasses.replace(task.writes[0], store="o")
        broken = with_task(program, 0, accesses=(*task.accesses, other))
        assert_refused(broken, "has a kernel and writes 2 stores")


class TestReduction:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"axes": (2,)}, "reduces the axes (2,) of 2 loops"),
            ({"axes": (1, 0)}, "reduces the axes (1, 0) of 2 loops"),
            ({"statistics": ()}, "has 0 statistics for a partial result of the kind"),
            (
                {"statistics": (Statistic("median", (0,), F8),)},
                "accumulates with 'median', which is no reduction",
            ),
            (
                {"statistics": (Statistic("sum", (0, 0), F8),)},
                "accumulates 2 values with 'sum'",
            ),
            (
                {"statistics": (Statistic("sum", (1,), F8),)},
                "accumulates results (1,) of 1",
            ),
        ],
    )
    def test_bodies(self, program, fields, message):
        assert_refused(with_body(program, 1, **fields), message)

    def test_count_and_total(self, program):
        twice = (Statistic("sum", (0,), F8),) * 2
        verify_program(with_body(program, 1, statistics=twice, partial=Partial.MEAN))
        assert_refused(with_body(program, 1, statistics=twice), "has 2 statistics")

    def test_privilege(self, program):
        broken = with_access(program, 1, 1, privilege=Privilege.WRITE, reduction=None)
        assert_refused(broken, "is a reduction and writes 's' for good")


def test_opaque_tasks_have_no_loops(program):
    space = program.tasks[0].space
    assert_refused(with_task(program, 2, space=space), "is opaque and has loops")


def test_unknown_lengths_and_dtypes_are_legal():
    chunks = ((None, None), (3,))
    builder = ProgramBuilder(chunks)
    x = builder.source("x", chunks)
    builder.op("a", "negative", x)
    verify_program(with_store(builder.program("a"), "x", dtype=None))
