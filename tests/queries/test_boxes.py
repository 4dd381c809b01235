"""Prefix sums answer what queries answer by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.model.adaptive import Adaptive
from mwem_sql.model.grid import Grid
from mwem_sql.queries import boxes as module
from mwem_sql.queries.boxes import MOST_RUNS, Boxes, is_boxes, many_boxes
from mwem_sql.queries.linear import Block, LinearQuery
from mwem_sql.queries.stretches import Stretches

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


def test_a_state_answers_many_queries_as_it_answers_each(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    sizes = {f"x{axis}": generator.uniform(1, 2, size) for axis, size in enumerate(SIZES)}
    state = Adaptive.uniform(sizes, 100.0)
    blocks = {
        name: [Block((name,), generator.integers(-1, 2, len(size)).astype(np.int32), 2) for _ in range(6)]
        for name, size in sizes.items()
    }
    asked = [LinearQuery((one, other)) for one in blocks["x0"] for other in blocks["x1"]] + [
        LinearQuery((one,)) for one in blocks["x0"]
    ]
    asked.append(LinearQuery((Block(("x1",), np.zeros(4, np.int32), 1, np.array([1, -1, 1, -1])),)))
    for query in (asked[0], asked[7]):
        state.update(query, np.array([10.0, 20.0, 30.0, 5.0]))
        each = [state.answer(own) for own in asked]
        monkeypatch.setattr(module, "MANY_BOXES", 5)
        for own, one in zip(state.answers(asked), each, strict=True):
            np.testing.assert_allclose(own, one, atol=1e-9)
        monkeypatch.undo()


@st.composite
def grids(draw: st.DrawFn, size: int) -> Grid:
    """Groups of classes, not all of them neighbours, numbered by first appearance."""
    drawn = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    order = list(dict.fromkeys(drawn))
    sizes = np.array(draw(st.lists(st.floats(0.1, 10), min_size=size, max_size=size)))
    return Grid(np.array([order.index(group) for group in drawn], np.int32), sizes / sizes.sum())


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(grids(9), st.lists(st.integers(-1, 0), min_size=9, max_size=9))
def test_a_count_on_groups_is_its_average(grid: Grid, labels: list[int]) -> None:
    block = Block(("x",), np.array(labels, np.int32), 1)
    begins, ends, cells = block.stretches
    found = grid.counted(begins[cells >= 0], ends[cells >= 0])
    np.testing.assert_allclose(found, grid.average((block.labels >= 0).astype(np.float64), 0), atol=1e-12)


@pytest.mark.parametrize("together", [True, False])
def test_many_conditions_on_many_classes_are_no_walk_over_both(
    monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    """As many classes as conditions, of which the state has ten groups: no condition is laid out over all classes."""
    size = 3000
    sizes = {"x": np.ones(size), "y": np.ones(2)}
    state = Adaptive.uniform(sizes, 100.0)
    state.refine(LinearQuery((Block(("x",), (np.arange(size) * 10 // size).astype(np.int32), 10),)))
    half = Block(("y",), np.array([0, -1], np.int32), 1)
    asked = [
        LinearQuery((half, Block(("x",), Stretches(np.array([0, k]), np.array([0, -1], np.int32), (size,)), 1)))
        for k in range(1, size)
    ]
    if not together:
        monkeypatch.setattr(module, "MANY_BOXES", size)
    laid_out = list[int]()
    plain = Stretches.array
    monkeypatch.setattr(Stretches, "array", lambda self: laid_out.append(self.size) or plain(self))
    found = np.concatenate(state.answers(asked))
    np.testing.assert_allclose(found, 100 * np.arange(1, size) / size / 2, rtol=1e-9)
    assert sum(laid_out) <= 10 * size
