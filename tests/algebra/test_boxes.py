"""Prefix sums answer what queries answer by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra import boxes as module
from mwem_sql.algebra.boxes import MOST_RUNS, Boxes, is_boxes, many_boxes
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.grid import Grid

SIZES = (7, 4)


@st.composite
def queries(draw: st.DrawFn) -> list[LinearQuery]:
    axes = draw(st.sampled_from([(0,), (1, 0)]))
    labels = [st.lists(st.integers(-1, 3), min_size=SIZES[axis], max_size=SIZES[axis]) for axis in axes]
    drawn = draw(st.lists(st.tuples(*labels), min_size=1, max_size=5))
    return [
        LinearQuery(
            tuple(Block((f"x{axis}",), np.array(own, np.int32), 4) for axis, own in zip(axes, all_, strict=True))
        )
        for all_ in drawn
    ]


@settings(max_examples=100, deadline=None)
@given(queries(), st.integers(0, 99))
def test_answers_are_those_of_the_queries_and_whole_numbers_stay_exact(asked: list[LinearQuery], seed: int) -> None:
    assert all(map(is_boxes, asked))
    shape = [block.labels.size for block in asked[0].blocks]
    marginal = np.random.default_rng(seed).integers(-(2**60), 2**60, shape)
    boxes = Boxes(asked)
    for query, whole, part in zip(asked, boxes.answers(marginal), boxes.answers(marginal / 2**60), strict=True):
        np.testing.assert_array_equal(whole, query.answer(marginal))
        np.testing.assert_allclose(part, query.answer(marginal / 2**60), atol=1e-12)


def test_what_is_no_sum_over_few_boxes_is_left_to_others() -> None:
    assert not is_boxes(LinearQuery(()))
    assert not is_boxes(LinearQuery((Block(("a",), np.zeros(3, np.int32), 1, np.arange(3)),)))
    assert not is_boxes(LinearQuery((Block(("a", "b"), np.zeros((3, 2), np.int32), 1),)))
    assert not is_boxes(LinearQuery((Block(("a",), (np.arange(2 * MOST_RUNS) % 2).astype(np.int32), 2),)))


def test_few_over_the_same_attributes_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Block(("a",), np.zeros(3, np.int32), 1), Block(("b",), np.zeros(3, np.int32), 1)
    asked = [LinearQuery((one,)), LinearQuery((other,)), LinearQuery(()), LinearQuery((one,))]
    assert many_boxes(asked) == {}
    monkeypatch.setattr(module, "MANY_BOXES", 2)
    assert many_boxes(asked) == {("a",): [0, 3]}


@st.composite
def grids(draw: st.DrawFn, size: int) -> Grid:
    """Groups of classes, not all of them neighbours, numbered by first appearance."""
    drawn = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    order = list(dict.fromkeys(drawn))
    sizes = np.array(draw(st.lists(st.floats(0.1, 10), min_size=size, max_size=size)))
    return Grid(np.array([order.index(group) for group in drawn], np.int32), sizes / sizes.sum())


@settings(max_examples=examples(100), deadline=None)
@given(queries(), st.data())
def test_sums_over_stretches_of_groups_are_those_over_classes(asked: list[LinearQuery], data: st.DataObject) -> None:
    own = [data.draw(grids(block.labels.size)) for block in asked[0].blocks]
    weights = np.random.default_rng(data.draw(st.integers(0, 99))).uniform(0, 9, [grid.count for grid in own])
    classes, runs = weights, weights
    for axis, one in enumerate(own):
        classes, runs = one.spread(classes, axis), one.spread_to_runs(runs, axis)
    assert runs.shape == tuple(grid.runs for grid in own)
    boxes = Boxes(asked)
    found, expected = boxes.spread(runs, [grid.places for grid in own]), boxes.answers(classes)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(expected), atol=1e-9)
