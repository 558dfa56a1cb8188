from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.fusion.plan import FusionGroup, FusionPlan, KernelResult
from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.partition import PartitionTable
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Origin, Store
from dask_diffuse.ir.task import (
    Access,
    Elementwise,
    IndexTask,
    Opaque,
    Partial,
    Privilege,
    Reduction,
    Statistic,
)
from dask_diffuse.kernel.function import Instruction, ScalarFunction
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel

F8 = np.dtype("f8")
TOKEN = "0123456789abcdef0123456789abcdef"
X, MUL, ADD, SUM = (f"{name}-{TOKEN}" for name in ("array", "mul", "add", "sum"))


def scale() -> ScalarFunction:
    return ScalarFunction(
        (
            Instruction("input", (), F8, 0),
            Instruction("scalar", (), F8, 0),
            Instruction("multiply", (0, 1), F8),
        ),
        (2,),
    )


def identity() -> ScalarFunction:
    return ScalarFunction((Instruction("input", (), F8, 0),), (0,))


@pytest.fixture
def program() -> Program:
    """``y = x * 2.0 + nan``; y and the chunk step of its sum are written."""
    table = PartitionTable()
    tiling = table.tiling(((500, 500), (1000,)), (0, 1))
    partial = table.tiling(((1, 1), (1,)), (0, 1))

    def store(name: str, shape: tuple[int | None, ...] = (1000, 1000)) -> Store:
        return Store(name, shape, F8, Origin(name, name.split("-")[0]))

    def task(i, source, target, body, partition=tiling, scalars=(), **access):
        return IndexTask(
            id=i,
            launch=(2, 1),
            accesses=(
                Access(source, tiling, Privilege.READ),
                Access(target, partition, **access),
            ),
            body=body,
            origin=Origin(target, target.split("-")[0]),
            space=tiling,
            scalars=scalars,
        )

    unknown = Decision(
        Rule.UNKNOWN_FUNCTION, False, "opaque", detail="calls f", remedy="Register f"
    )
    write = {"privilege": Privilege.WRITE}
    reduction = Reduction(
        identity(),
        ((0, 1),),
        axes=(1,),
        statistics=(Statistic("sum", (0,), F8),),
        partial=Partial.ARRAY,
        partial_dtype=F8,
    )
    return Program(
        stores={
            s.name: s
            for s in (
                store(X),
                store(MUL),
                store(ADD),
                store(SUM, (2, 1)),
                store("opaque"),
            )
        },
        tasks=(
            task(
                0,
                X,
                MUL,
                Elementwise(scale(), ((0, 1),)),
                scalars=(np.float64(2),),
                **write,
            ),
            task(
                1,
                MUL,
                ADD,
                Elementwise(scale(), ((0, 1),)),
                scalars=(np.float64("nan"),),
                **write,
            ),
            task(
                2,
                ADD,
                SUM,
                reduction,
                partial,
                privilege=Privilege.REDUCE,
                reduction="sum",
            ),
            task(3, ADD, "opaque", Opaque(unknown), **write),
        ),
        requested=frozenset({ADD, SUM}),
        decisions=(unknown,),
    )


@pytest.fixture
def plan(program: Program) -> FusionPlan:
    """The first three tasks as one group."""
    kernel = Kernel(
        label="mul-add-sum",
        ndim=2,
        arrays=(ArrayParam(F8, (0, 1)),),
        scalars=(F8, F8),
        function=scale(),
        statements=(Assign(2, (0, 1)),),
    )
    group = FusionGroup(
        tasks=(0, 1, 2),
        inputs=program.tasks[0].reads,
        results=(KernelResult(ADD, (0,), 1), KernelResult(SUM, (1,), 2)),
        temporaries=(MUL,),
        kernel=kernel,
        scalars=((0, 0), (1, 0)),
    )
    accepted = Decision(Rule.TRUE_DEPENDENCE, True, MUL, ADD)
    return FusionPlan(program, (group,), (3,), (accepted, *program.decisions))
