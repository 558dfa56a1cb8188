from __future__ import annotations

import numpy as np
import pytest

from dask_diffuse.codegen.strip import strip_layout
from dask_diffuse.codegen.words import AccumulatorMode, OperandMode
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.nest import Accumulate, ArrayParam, Assign, Kernel
from dask_diffuse.runtime.walk import Walk, plan_walk

DOUBLE = np.dtype(np.float64)


def walk_of(arrays, extents, *, axes=None, reduced=None, name="sum") -> Walk:
    """The walk of a kernel that adds arrays, and maybe reduces the sum."""
    ndim = len(extents)
    builder = FunctionBuilder()
    axes = axes or [tuple(range(ndim))] * len(arrays)
    inputs = [builder.input(i, DOUBLE) for i in range(len(arrays))]
    total = inputs[0]
    for value in inputs[1:]:
        total = builder.apply("add", total, value)
    statement = Assign(total.position, tuple(range(ndim)))
    if reduced is not None:
        statement = Accumulate(name, (total.position,), reduced, DOUBLE)
    kernel = Kernel(
        "walk",
        ndim,
        tuple(ArrayParam(DOUBLE, a) for a in axes),
        (),
        builder.build([total]),
        (statement,),
    )
    return plan_walk(kernel, strip_layout(kernel, 64), arrays, extents)


def modes(walk: Walk) -> list[int]:
    return [operand.mode for operand in walk.operands]


IN_PLACE, PACKED, SPREAD = (
    OperandMode.IN_PLACE,
    OperandMode.PACKED,
    OperandMode.SPREAD,
)


class TestAxes:
    def test_blocks_without_gaps_are_one_axis(self):
        x = np.ones((4, 5, 6))
        walk = walk_of([x, x], x.shape)
        assert walk.lengths == [120]
        assert modes(walk) == [IN_PLACE] * 3
        assert all(count == 1 for _, count in walk.loops())

    def test_order_of_memory(self):
        f = np.ones((4, 5), order="F")
        c = np.ones((4, 5))
        assert walk_of([f, f], f.shape).order == (1, 0)
        assert walk_of([f, f], f.shape).lengths == [20]
        assert walk_of([c, f], f.shape).order == (0, 1)
        assert walk_of([f, f, c], f.shape).order == (1, 0)

    def test_axes_of_length_one_are_left_out(self):
        x = np.ones((4, 1, 6, 1))
        assert walk_of([x], x.shape).lengths == [24]
        one = np.ones((1, 1))
        assert walk_of([one], one.shape).lengths == [1]

    def test_rows_with_gaps_stay_apart(self):
        x = np.ones((400, 1000))[:, 1:-1]
        walk = walk_of([x], x.shape)
        assert walk.lengths == [400, 998]
        assert modes(walk) == [IN_PLACE, IN_PLACE]
        assert walk.tile_rows == 1

    def test_what_is_reduced_stays_apart(self):
        x = np.ones((400, 1000))
        assert walk_of([x], x.shape, reduced=(0,)).lengths == [400, 1000]
        assert walk_of([x], x.shape, reduced=(0, 1)).lengths == [400_000]


class TestTiles:
    def test_short_rows_share_a_tile(self):
        x = np.ones((1000, 4))[:, :3]
        walk = walk_of([x], x.shape)
        assert (walk.tile_rows, walk.tile_columns) == (341, 3)
        assert modes(walk) == [PACKED, IN_PLACE]

    def test_broadcast_operands_are_spread(self):
        x = np.ones((400, 1000))
        column = np.ones(400)
        walk = walk_of([x, column], x.shape, axes=[(0, 1), (0,)])
        assert modes(walk) == [IN_PLACE, SPREAD, IN_PLACE]
        row = np.ones(1000)
        walk = walk_of([x, row], x.shape, axes=[(0, 1), (1,)])
        assert modes(walk) == [IN_PLACE, IN_PLACE, IN_PLACE]

    def test_columns_of_short_rows_are_packed(self):
        x = np.ones((1000, 4))
        column = np.ones(1000)
        walk = walk_of([x, column], x.shape, axes=[(0, 1), (0,)])
        assert modes(walk) == [IN_PLACE, PACKED, IN_PLACE]

    def test_transposed_operands_are_walked_in_blocks(self):
        x = np.ones((300, 300))
        walk = walk_of([x, x.T], x.shape)
        assert walk.tile_rows > 1
        assert walk.tile_columns > 1
        assert modes(walk) == [PACKED] * 3

    def test_long_rows_are_cut_only_where_something_is_packed(self):
        x = np.ones(100_000)
        assert walk_of([x], x.shape).tile_columns == 100_000
        y = np.ones(200_000)[::2]
        assert walk_of([x, y], x.shape).tile_columns < 10_000


class TestReductions:
    @pytest.mark.parametrize(
        ("shape", "axes", "mode"),
        [
            ((10_000,), (0,), AccumulatorMode.RING),
            ((10,), (0,), AccumulatorMode.TILE),
            ((500, 500), (1,), AccumulatorMode.RING),
            ((500, 500), (0,), AccumulatorMode.COLUMNS),
            ((500, 100), (1,), AccumulatorMode.TILE),
            ((500, 3), (0,), AccumulatorMode.TILE),
            ((500, 3), (1,), AccumulatorMode.COLUMNS),
            ((50, 60, 300), (0, 2), AccumulatorMode.RING),
            ((50, 60, 300), (1,), AccumulatorMode.COLUMNS),
        ],
    )
    def test_where_accumulators_are(self, shape, axes, mode):
        walk = walk_of([np.ones(shape)], shape, reduced=axes)
        assert walk.reduced[0].mode == mode
        kept = [n for axis, n in enumerate(shape) if axis not in axes]
        assert walk.reduced[0].total == np.prod(kept)

    def test_columns_that_come_again_are_kept(self):
        # Other columns come between the rows of one column.
        x = np.ones((5, 6, 700, 8)).transpose(2, 0, 3, 1)
        walk = walk_of([x], x.shape, reduced=(0, 1))
        assert walk.reduced[0].mode in (AccumulatorMode.IN_PLACE, AccumulatorMode.TILE)

    def test_loops_inside_of_which_all_is_reduced(self):
        x = np.ones((50, 60, 300))
        walk = walk_of([x], x.shape, reduced=(0, 2))
        loops = walk.loops()
        assert walk.inner(walk.reduced[0], loops) == len(loops) - 1
        walk = walk_of([x], x.shape, reduced=(1, 2))
        loops = walk.loops()
        inner = loops[walk.inner(walk.reduced[0], loops) :]
        assert all(count == 1 or walk.reduced[0].reduces[a] for a, count in inner)
