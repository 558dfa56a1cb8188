"""What the words mean that a program hands to the driver, and where they lie."""

from __future__ import annotations

__all__ = [
    "MAX_PLANES",
    "AccumulatorMode",
    "Call",
    "OperandKind",
    "OperandMode",
    "Table",
]

MAX_PLANES = 4
"""The most planes an accumulator has."""


class Table:
    """Where things are in the table, in words.

    First a header, then `count` and `index` of each axis of the walk, a record for each
    operand, the steps (for each axis, what to add to the place of each operand and each
    accumulator when that axis advances and all inside it begin again), and a record
    for each accumulator.
    """

    STRIP, NUM_LOOPS, NUM_OPERANDS, NUM_ACCUMULATORS = 0, 1, 2, 3
    ROWS, COLUMNS, TILE_ROWS, TILE_COLUMNS = 4, 5, 6, 7
    ROW_LOOP, COLUMN_LOOP = 8, 9
    SCALARS, ENTRIES, LANES = 10, 11, 12
    LOOPS, OPERANDS, STEPS, ACCUMULATORS = 13, 14, 15, 16
    HEADER = 17

    KIND, ITEMSIZE, PLACE, ROW_STRIDE, COLUMN_STRIDE, MODE, SCRATCH, TAIL = range(8)
    OPERAND = 8

    NUM_PLANES, FIRST_ENTRY, OFFSET, KEPT_ROW_STRIDE, ACC_MODE = range(5)
    INNER, REDUCES_ROWS, REDUCES_COLUMNS, TOTAL, RING = range(5, 10)
    START, FOLD, MERGE, FINISH = range(10, 14)
    SEEN_ROWS, SEEN_COLUMNS = 14, 15
    SIZES = 16
    RESULTS = SIZES + MAX_PLANES
    KEPT = RESULTS + MAX_PLANES
    LOCAL = KEPT + MAX_PLANES
    FROM = LOCAL + MAX_PLANES
    TO = FROM + MAX_PLANES
    RESULT_SIZES = TO + MAX_PLANES
    ACCUMULATOR = RESULT_SIZES + MAX_PLANES


class Call:
    """What the driver is called with, in words: the table, and addresses to put in.

    A relocation is a pair of words: a place in the table, and the number of the address
    to be added to what is there. Address 0 is that of scratch memory, at the beginning
    of which the table is copied; the others are as whoever made the table wants them.
    """

    TABLE, NUM_WORDS, RELOCATIONS, NUM_RELOCATIONS = range(4)
    ADDRESSES = 4


class OperandKind:
    """What an operand is."""

    INPUT, RAMP, OUTPUT = range(3)


class OperandMode:
    """How an operand is reached."""

    IN_PLACE, PACKED, SPREAD = range(3)


class AccumulatorMode:
    """Where a tile accumulates to.

    ``IN_PLACE``: to the accumulators of the results. ``TILE``: to accumulators of its
    own, which are folded or merged into those. ``RING``: to a few of its own, in turn.
    ``COLUMNS``: to accumulators of its own that become results at the end of a run.
    """

    IN_PLACE, TILE, RING, COLUMNS = range(4)
