"""Random programs for the planner."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dask_diffuse.ir.program import Program
from dask_diffuse.ir.task import Partial
from tests.unit.fusion.builders import ProgramBuilder

GRIDS = (
    ((4, 4), (3, 3, 3)),
    ((2, 3), (2, 3)),
    ((5,), (5,)),
    ((8,), (9,)),
)
KINDS = (
    *("unary", "unary", "binary", "binary", "binary", "literal"),
    *("reduce", "opaque", "opaque-same", "slice", "constant", "row"),
    *("transposed", "moments"),
)
ANNOTATIONS = (
    (),
    (),
    (),
    (("priority", 1),),
    (("workers", ("a",)),),
    (("where", "x"),),
)


@st.composite
def programs(draw, max_tasks: int = 14) -> Program:
    """Chains, diamonds, siblings, reductions and barriers in any order."""
    grid = draw(st.sampled_from(GRIDS))
    builder = ProgramBuilder(grid)
    full = [builder.source("x"), builder.source("y")]
    rows = [builder.source("row", (grid[1],))]
    # What only tasks that see everything may read.
    partial: list[str] = []
    annotated = draw(st.booleans())
    for number in range(draw(st.integers(1, max_tasks))):
        kind = draw(st.sampled_from(KINDS))
        name = f"{kind}-{number}"
        keywords = {}
        if annotated:
            keywords["annotations"] = draw(st.sampled_from(ANNOTATIONS))
        # Mostly what was made last, so that there are long chains too.
        one = draw(st.sampled_from(full[-3:] + full))
        other = draw(st.sampled_from(full))
        match kind:
            case "unary":
                op = draw(st.sampled_from(["negative", "sin", "square", "absolute"]))
                full.append(builder.op(name, op, one, **keywords))
            case "binary":
                op = draw(st.sampled_from(["add", "multiply", "maximum"]))
                if one == other:
                    full.append(builder.op(name, op, one, 1.5, **keywords))
                else:
                    full.append(builder.op(name, op, one, other, **keywords))
            case "literal":
                value = draw(st.sampled_from([0.5, -2.0, 3.25]))
                full.append(builder.op(name, "multiply", one, value, **keywords))
            case "reduce":
                row = draw(st.sampled_from(["sum", "max", "argmin"]))
                axes = draw(st.sampled_from([(0,), (1,), (0, 1)]))
                shape = Partial.ARG if row == "argmin" else Partial.ARRAY
                partial.append(builder.reduce(name, row, one, axes, partial=shape))
            case "moments":
                partial.append(
                    builder.reduce(name, "moments", one, partial=Partial.MOMENTS)
                )
            case "opaque":
                sources = {one, *draw(st.lists(st.sampled_from(full + partial)))}
                full.append(builder.opaque(name, *sorted(sources)))
            case "slice":
                full.append(builder.opaque(name, one, partly=[one]))
            case "opaque-same":
                full.append(builder.opaque(name, one))
            case "constant":
                full.append(builder.full(name, draw(st.sampled_from([1.0, 2.5]))))
            case "row":
                row = draw(st.sampled_from(rows))
                if draw(st.booleans()):
                    rows.append(builder.op(name, "cos", row, chunks=(grid[1],)))
                else:
                    full.append(builder.op(name, "add", one, row))
            case "transposed":
                if grid[0] == grid[1]:
                    full.append(
                        builder.map(
                            name,
                            lambda b, x, y: b.apply("subtract", x, y),
                            one,
                            f"{other}",
                            axes={other: (1, 0)},
                        )
                        if one != other
                        else builder.op(name, "exp", one)
                    )
    made = [
        name for name in builder.stores if builder.stores[name].origin.layer == name
    ]
    written = [task.writes[0].store for task in builder.tasks]
    if not written:
        written = [builder.op("last", "sin", full[0])]
    assert made
    requested = draw(st.lists(st.sampled_from(written), max_size=3))
    return builder.program(written[-1], *requested)


def random_program(rng: np.random.Generator, num_tasks: int) -> Program:
    """A large program with barriers."""
    builder = ProgramBuilder()
    full = [builder.source(f"x{i}") for i in range(5)]
    for number in range(num_tasks):
        recent = full[-20:]
        one, other = (recent[rng.integers(len(recent))] for _ in range(2))
        name = f"t-{number}"
        if rng.random() < 0.1:
            full.append(builder.opaque(name, one))
        elif one == other:
            full.append(builder.op(name, "sin", one))
        else:
            full.append(builder.op(name, "add", one, other))
    return builder.program(*full[-5:])
