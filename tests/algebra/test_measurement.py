"""A measurement joins values to their query, once, and moves to other classes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from measurements import measurement

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement, NoisyValues

A = Block(("a",), np.arange(3, dtype=np.int32), 3)
B = Block(("b",), np.arange(2, dtype=np.int32), 2)
DRAWN = NoisyValues(values=np.array([5, 7, 9]), kind="zcdp", scale=2.0, variance=4.0, share=Fraction(1, 3))


def test_the_query_joins_what_the_kernel_returned() -> None:
    joined = Measurement.of(DRAWN, LinearQuery((A,)), "round", 4)
    assert joined.query.blocks == (A,)
    assert (joined.kind, joined.scale, joined.variance, joined.share) == ("zcdp", 2.0, 4.0, Fraction(1, 3))
    assert (joined.purpose, joined.number, joined.values.tolist()) == ("round", 4, [5, 7, 9])


def test_parts_are_a_partition_in_the_order_of_their_first_cells() -> None:
    """Part 2 has the first cell, part 0 the next that is in none so far, part 1 the last."""
    parts = np.array([2, 2, 0, 2, 0, 1])
    joined = Measurement.of(DRAWN, LinearQuery((A, B)), "first", 1, parts)
    (block,) = joined.query.blocks
    assert block.attributes == ("a", "b")
    assert block.labels.tolist() == [[0, 0], [1, 0], [1, 2]]
    assert joined.values.tolist() == [9, 5, 7]
    assert joined.is_partition


def test_on_other_classes_every_class_is_asked_what_the_one_in_its_place_is() -> None:
    sums = Block(("a",), np.array([0, -1, 1], dtype=np.int32), 2, values=np.array([3, 0, 8]), unit=0.5)
    moved = measurement(LinearQuery((sums, B)), np.arange(4), 2.0).on(
        {"a": np.array([2, 2, 0, 1]), "b": np.array([1, 0])}
    )
    first, second = moved.query.blocks
    assert first.labels.tolist() == [1, 1, 0, -1]
    assert first.values is not None
    assert first.values.tolist() == [8, 8, 3, 0]
    assert (first.unit, second.labels.tolist()) == (0.5, [1, 0])
    assert not moved.is_partition
