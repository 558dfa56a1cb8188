"""Every rule by which a layer stays a call of Python, with its text."""

from __future__ import annotations

import operator

import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed

from dask_diffuse.frontend import import_graph
from dask_diffuse.ir.decision import Rule
from dask_diffuse.ir.task import Elementwise, Opaque
from tests.unit.frontend.checks import (
    OPTIONS,
    body_of,
    check,
    labels_of,
    program_of,
    refusal_of,
)


def plus_one(block):
    return block + 1


def with_id(block, block_id=None):
    return block


def masked(a):
    return da.ma.masked_greater(a.x, 1.0)


REFUSED = {
    "python function": (
        Rule.UNKNOWN_FUNCTION,
        "'plus_one' is not in the table of operations",
        lambda a: a.x.map_blocks(plus_one),
    ),
    "lambda": (
        Rule.UNKNOWN_FUNCTION,
        "'lambda' is not",
        lambda a: a.x.map_blocks(lambda block: block),
    ),
    "declined": (Rule.UNKNOWN_FUNCTION, "'i0' is a sum", lambda a: da.i0(a.y)),
    "two results": (
        Rule.UNKNOWN_FUNCTION,
        "'frexp' has two results",
        lambda a: a.x.map_blocks(np.frexp, dtype=object),
    ),
    "scipy": (
        Rule.UNKNOWN_FUNCTION,
        "'gamma' is not in the table",
        lambda a: _special("gamma")(a.y),
    ),
    "frompyfunc": (
        Rule.UNKNOWN_FUNCTION,
        "is not in the table",
        lambda a: da.frompyfunc(lambda v: v, 1, 1)(a.x),
    ),
    "block id": (
        Rule.UNSUPPORTED_ARGUMENT,
        "told which block",
        lambda a: a.x.map_blocks(with_id, dtype="f8"),
    ),
    "fft": (Rule.UNKNOWN_FUNCTION, "'fft'", lambda a: da.fft.fft(a.v.rechunk(9))),
    "choose": (
        Rule.UNKNOWN_FUNCTION,
        "'variadic_choose'",
        lambda a: da.choose(a.i % 2, [a.x, a.y]),
    ),
    "digitize": (
        Rule.UNKNOWN_FUNCTION,
        "'digitize'",
        lambda a: da.digitize(a.x, np.array([0.0, 1.0])),
    ),
    "view": (Rule.UNKNOWN_FUNCTION, "'view'", lambda a: a.x.view("i8")),
    "keyword of a ufunc": (
        Rule.UNSUPPORTED_ARGUMENT,
        "'add' is called with casting",
        lambda a: da.map_blocks(np.add, a.x, a.y, casting="unsafe", dtype="f8"),
    ),
    "where without out": (
        Rule.UNSUPPORTED_ARGUMENT,
        "leaves elements undefined",
        lambda a: np.add(a.x, a.y, where=a.m),
    ),
    "key as a literal": (
        Rule.UNSUPPORTED_ARGUMENT,
        "a single value that is computed",
        lambda a: a.x.map_blocks(np.add, delayed(3.0), dtype="f8"),
    ),
    "array as a literal": (
        Rule.UNSUPPORTED_ARGUMENT,
        "",
        lambda a: a.x.map_blocks(np.nan_to_num, nan=np.zeros((1, 1)), dtype="f8"),
    ),
    "cast to nonsense": (
        Rule.UNSUPPORTED_ARGUMENT,
        "its call cannot be read: TypeError",
        lambda a: a.x.map_blocks(_astype(), astype_dtype="nonsense", dtype="f8"),
    ),
    "too many arguments": (
        Rule.UNSUPPORTED_ARGUMENT,
        "",
        lambda a: a.x.map_blocks(np.clip, 1, 2, 3, 4, 5, 6, dtype="f8"),
    ),
    "outer of a number": (
        Rule.UNSUPPORTED_ARGUMENT,
        "something else than two arrays",
        lambda a: a.v.map_blocks(np.multiply.outer, 3.0, dtype="f8"),
    ),
    "sum of some elements": (
        Rule.UNSUPPORTED_ARGUMENT,
        "unusual",
        lambda a: a.v.map_blocks(
            np.sum, axis=0, keepdims=True, where=np.ones(1, bool), dtype="f8"
        ),
    ),
    "axis of no number": (
        Rule.UNSUPPORTED_ARGUMENT,
        "the axis is 'x'",
        lambda a: a.v.map_blocks(np.sum, axis="x", keepdims=True, dtype="f8"),
    ),
    "literal of no number": (
        Rule.UNSUPPORTED_ARGUMENT,
        "a str is not a number",
        lambda a: da.map_blocks(operator.eq, a.x, "a", dtype=bool),
    ),
    "a literal that does not fit": (
        Rule.UNSUPPORTED_ARGUMENT,
        "",
        lambda a: da.map_blocks(operator.lt, a.u, 300, dtype=bool, meta=np.empty(0)),
    ),
    "a masked number": (
        Rule.UNSUPPORTED_BLOCKS,
        "an argument is a MaskedArray",
        lambda a: da.map_blocks(np.add, a.x, np.ma.array(1.0), dtype="f8"),
    ),
    "float16": (
        Rule.UNSUPPORTED_DTYPE,
        "'float16'",
        lambda a: a.x.astype("f2"),
    ),
    "longdouble": (Rule.UNSUPPORTED_DTYPE, "dtype", lambda a: a.x.astype("g")),
    "int8 square root": (
        Rule.UNSUPPORTED_DTYPE,
        "'float16'",
        lambda a: da.sqrt(a.h.astype("i1")),
    ),
    "big-endian": (Rule.UNSUPPORTED_DTYPE, "'>f8'", lambda a: _big_endian() + 1),
    "dates": (Rule.UNSUPPORTED_DTYPE, "datetime64", lambda a: _dates() - _dates()),
    "object": (Rule.UNSUPPORTED_DTYPE, "'object'", lambda a: _objects() + 1),
    "complex sine": (
        Rule.UNSUPPORTED_DTYPE,
        "'sin' of complex",
        lambda a: np.sin(a.z),
    ),
    "integer power": (
        Rule.MAY_RAISE,
        "negative integer raises",
        lambda a: a.i**a.i,
    ),
    "enforced dtype": (
        Rule.MAY_RAISE,
        "for which NumPy raises",
        lambda a: da.blockwise(
            _enforce(),
            "ij",
            a.x,
            "ij",
            enforce_dtype="i4",
            enforce_dtype_function=np.negative,
            dtype="i4",
        ),
    ),
    "cast of a kind": (
        Rule.MAY_RAISE,
        "not a cast of kind 'safe'",
        lambda a: a.x.map_blocks(
            _astype(), astype_dtype="i4", casting="safe", dtype="i4"
        ),
    ),
    "masked arrays": (
        Rule.UNSUPPORTED_BLOCKS,
        "MaskedArray objects",
        lambda a: masked(a) + 1,
    ),
    "masked creation": (
        Rule.UNSUPPORTED_BLOCKS,
        "MaskedArray",
        lambda a: da.ones_like(masked(a)),
    ),
    "transpose in blocks": (
        Rule.UNSUPPORTED_ARGUMENT,
        "other axes than NumPy broadcasts",
        lambda a: da.blockwise(np.add, "ij", a.x, "ij", a.t, "ji", dtype="f8"),
    ),
    "blocks that do not fit": (
        Rule.BLOCK_SHAPES,
        "do not fit blocks of lengths",
        lambda a: da.map_blocks(np.add, a.x, a.x[:, :3].rechunk((3, 3)), dtype="f8"),
    ),
    "contraction": (
        Rule.CONTRACTION,
        "several blocks at a time",
        lambda a: da.blockwise(
            np.add, "i", a.x, "ij", a.w, "i", concatenate=True, dtype="f8"
        ),
    ),
    "contraction into lists": (
        Rule.CONTRACTION,
        "",
        lambda a: da.blockwise(np.add, "i", a.x, "ij", a.w, "i", dtype="f8"),
    ),
    "new axis": (
        Rule.NEW_AXES,
        "makes new axes",
        lambda a: da.blockwise(
            np.add, "ijk", a.x, "ij", 1, None, new_axes={"k": 2}, dtype="f8"
        ),
    ),
    "slice": (Rule.MATERIALIZED, "tasks that call 'getitem'", lambda a: a.x[1:, ::2]),
    "rechunk": (Rule.MATERIALIZED, "", lambda a: a.x.rechunk(2)),
    "combine": (Rule.MATERIALIZED, "combines", lambda a: a.x.sum()),
    "cumsum": (Rule.MATERIALIZED, "", lambda a: a.x.cumsum(axis=0)),
    "concatenate": (
        Rule.MATERIALIZED,
        "blocks of other layers",
        lambda a: da.concatenate([a.x, a.y]),
    ),
    "overlap": (
        Rule.MATERIALIZED,
        "ArrayOverlapLayer",
        lambda a: da.overlap.overlap(a.x, 1, "none"),
    ),
    "source": (
        Rule.SOURCE,
        "holds blocks",
        lambda a: da.from_array(np.arange(9), chunks=3),
    ),
    "random": (
        Rule.SOURCE,
        "",
        lambda a: da.random.default_rng(0).random(9, chunks=3),
    ),
    "range of fractions": (
        Rule.UNSUPPORTED_ARGUMENT,
        "ranges of whole numbers only",
        lambda a: da.arange(0, 1, 0.1, chunks=3),
    ),
    "range beyond what is exact": (
        Rule.UNSUPPORTED_DTYPE,
        "is not exact in float32",
        lambda a: da.arange(2**24 + 1, 2**24 + 9, chunks=3, dtype="f4"),
    ),
    "linspace": (Rule.SOURCE, "'linspace'", lambda a: da.linspace(0, 1, 9, chunks=3)),
    "empty": (Rule.SOURCE, "are undefined", lambda a: da.empty(9, chunks=3)),
    "load": (
        Rule.SOURCE,
        "loads its blocks",
        lambda a: da.from_array(_Loaded(), chunks=3),
    ),
}


def _special(name):
    import scipy.special

    return getattr(scipy.special, name)


def _enforce():
    from dask.array.core import _enforce_dtype

    return _enforce_dtype


def _astype():
    from dask.array.chunk import astype

    return astype


def _big_endian():
    return da.from_array(np.arange(9.0).astype(">f8"), chunks=3)


def _dates():
    return da.from_array(np.arange(9).astype("M8[s]"), chunks=3)


def _objects():
    return da.from_array(np.array([1, None], object), chunks=1)


class _Loaded:
    shape, dtype, ndim = (9,), np.dtype("f8"), 1

    def __getitem__(self, index):
        return np.arange(9.0)[index]


@pytest.mark.parametrize("name", REFUSED)
def test_refused(a, name):
    rule, text, make = REFUSED[name]
    decision = refusal_of(make(a))
    assert decision.rule is rule, decision
    assert text in decision.detail


def test_every_rule_of_the_importer_is_met():
    met = {rule for rule, _, _ in REFUSED.values()}
    # UNKNOWN_DTYPE, LAUNCH_DOMAIN: below. The others belong to the planner.
    assert met >= {
        Rule.UNKNOWN_FUNCTION,
        Rule.UNSUPPORTED_ARGUMENT,
        Rule.UNSUPPORTED_DTYPE,
        Rule.UNSUPPORTED_BLOCKS,
        Rule.BLOCK_SHAPES,
        Rule.CONTRACTION,
        Rule.NEW_AXES,
        Rule.MATERIALIZED,
        Rule.SOURCE,
        Rule.MAY_RAISE,
    }


def test_an_operand_of_unknown_dtype(a):
    x = a.x.map_blocks(plus_one)
    y = x * 2
    y.dask.layers[x.name].collection_annotations = None
    decision = refusal_of(y)
    assert decision.rule is Rule.UNKNOWN_DTYPE
    assert x.name in decision.detail
    assert decision.remedy


def test_some_of_the_blocks(a):
    y = a.x + 1
    culled = y.dask.cull({(y.name, 0, 0)})
    program = import_graph(culled, {y.name}, options=OPTIONS)
    (task,) = (t for t in program.tasks if t.writes[0].store == y.name)
    assert task.body.decision.rule is Rule.LAUNCH_DOMAIN


def test_partial_results_have_no_elements(a):
    means = a.y.mean(axis=0)
    step = next(name for name in means.dask.layers if name.startswith("mean_chunk"))
    # Nobody does this, but nothing forbids it.
    array = da.Array(means.dask, step, a.y.chunks, dtype="f8") * 2
    assert refusal_of(array).rule is Rule.UNSUPPORTED_BLOCKS


def test_opaque_tasks_name_what_they_read(a):
    y = a.x.map_blocks(plus_one)
    task = program_of(y).tasks[-1]
    assert [access.store for access in task.reads] == [a.x.name]
    assert [access.store for access in task.writes] == [y.name]
    assert (task.launch, task.space) == ((), None)


def test_opaque_layers_pass_dtype_and_chunks_on(a):
    y = check(a.x.map_blocks(plus_one) * 2, a.x[1:, ::2] - 1, expect="mul sub")
    assert labels_of(y, Elementwise) == ["mul", "sub"]


def test_filled_arrays_are_plain_again(a):
    filled = da.ma.filled(masked(a), 0.0)
    program = program_of(filled * 2)
    assert labels_of(program, Elementwise) == ["mul"]


def test_keys_in_keywords_are_read(a):
    y = a.x.map_blocks(lambda block, k: block * k, k=a.v[:1], dtype="f8")
    task = program_of(y).tasks[-1]
    assert isinstance(task.body, Opaque)
    assert task.reads[0].store == a.x.name
    assert task.reads[1].store.startswith("finalize")


def test_every_refusal_is_a_decision_of_the_program(a):
    program = program_of(masked(a) + 1, a.x.map_blocks(plus_one)[1:])
    opaque = [t.body.decision for t in program.tasks if isinstance(t.body, Opaque)]
    assert list(program.decisions) == opaque
    assert isinstance(body_of(a.x.map_blocks(plus_one)), Opaque)
