"""Iterations of solvers in as few tasks as the paper reports for them."""

from __future__ import annotations

import pytest

from dask_diffuse.fusion import clear_plans, plan_fusion
from dask_diffuse.fusion.verify import verify_plan
from dask_diffuse.ir.task import Opaque
from dask_diffuse.options import Options
from tests.unit.fusion.builders import ProgramBuilder
from tests.unit.fusion.executor import assert_same_results

OPTIONS = Options(min_bytes=0)
VECTOR = ((4, 4, 4),)
SCALAR = ()


class Solver:
    """Vectors in blocks. Matrix products are opaque, as is what adds up partials."""

    def __init__(self) -> None:
        self.builder = ProgramBuilder(VECTOR)
        self.number = 0

    def name(self, label: str) -> str:
        self.number += 1
        return f"{label}-{self.number}"

    def op(self, op: str, *operands: str | float) -> str:
        return self.builder.op(self.name(op), op, *operands)

    def scalar(self, op: str, *operands: str) -> str:
        return self.builder.op(self.name(op), op, *operands, chunks=SCALAR)

    def matvec(self, x: str) -> str:
        return self.builder.opaque(self.name("matvec"), x)

    def dot(self, x: str, y: str) -> str:
        product = self.op("square", x) if x == y else self.op("multiply", x, y)
        partial = self.builder.reduce(self.name("sum"), "sum", product)
        return self.builder.opaque(self.name("total"), partial, chunks=SCALAR)

    def axpy(self, x: str, a: str, y: str, op: str = "add") -> str:
        """X + a * y."""
        return self.op(op, x, self.op("multiply", y, a))

    def count(self, *requested: str) -> int:
        """Tasks over blocks of vectors: numbers, and what adds them up, left out."""
        program = self.builder.program(*requested)
        clear_plans()
        plan = plan_fusion(program, options=OPTIONS)
        verify_plan(plan, options=OPTIONS)
        assert_same_results(plan)
        launches = [program.tasks[group.tasks[0]].launch for group in plan.groups]
        alone = [program.tasks[number] for number in plan.untouched]
        launches += [t.launch for t in alone if not isinstance(t.body, Opaque)]
        products = [t for t in alone if t.origin.label == "matvec"]
        return sum(bool(launch) for launch in launches) + len(products)


def jacobi(solver: Solver, iterations: int) -> int:
    """Dense Jacobi: x = (b - R x) / d."""
    x, b, d = map(solver.builder.source, "xbd")
    for _ in range(iterations):
        x = solver.op("divide", solver.op("subtract", b, solver.matvec(x)), d)
    return solver.count(x)


def conjugate_gradients(solver: Solver, iterations: int) -> int:
    x, r, p = map(solver.builder.source, "xrp")
    rho = solver.dot(r, r)
    for _ in range(iterations):
        product = solver.matvec(p)
        alpha = solver.scalar("divide", rho, solver.dot(p, product))
        x = solver.axpy(x, alpha, p)
        r = solver.axpy(r, alpha, product, "subtract")
        before, rho = rho, solver.dot(r, r)
        p = solver.axpy(r, solver.scalar("divide", rho, before), p)
    return solver.count(x, p)


def bicgstab(solver: Solver, iterations: int) -> int:
    x, r, rhat, p, v = map(solver.builder.source, ("x", "r", "rhat", "p", "v"))
    rho, alpha, omega = (
        solver.builder.source(name, SCALAR) for name in ("rho", "alpha", "omega")
    )
    for _ in range(iterations):
        before, rho = rho, solver.dot(rhat, r)
        beta = solver.scalar(
            "multiply",
            solver.scalar("divide", rho, before),
            solver.scalar("divide", alpha, omega),
        )
        p = solver.axpy(r, beta, solver.axpy(p, omega, v, "subtract"))
        v = solver.matvec(p)
        alpha = solver.scalar("divide", rho, solver.dot(rhat, v))
        s = solver.axpy(r, alpha, v, "subtract")
        t = solver.matvec(s)
        omega = solver.scalar("divide", solver.dot(t, s), solver.dot(t, t))
        x = solver.axpy(solver.axpy(x, alpha, p), omega, s)
        r = solver.axpy(s, omega, t, "subtract")
    return solver.count(x, r)


@pytest.mark.parametrize(
    ("program", "most"), [(jacobi, 2), (conjugate_gradients, 4), (bicgstab, 8)]
)
def test_tasks_of_an_iteration(program, most):
    counts = [program(Solver(), iterations) for iterations in (3, 4, 5)]
    assert counts[2] - counts[1] == counts[1] - counts[0]
    assert counts[1] - counts[0] <= most


def test_black_scholes_is_one_task():
    solver = Solver()
    price, strike, years = map(solver.builder.source, ("price", "strike", "years"))
    op = solver.op
    vol = op("multiply", op("sqrt", years), 0.2)
    d1 = op("divide", op("add", op("log", op("divide", price, strike)), years), vol)
    d2 = op("subtract", d1, vol)
    discounted = op("multiply", strike, op("exp", op("multiply", years, -0.02)))
    first = op("multiply", price, op("ndtr", d1))
    second = op("multiply", discounted, op("ndtr", d2))
    call = op("subtract", first, second)
    put = op("add", op("subtract", call, price), discounted)
    assert solver.count(call, put) == 1
