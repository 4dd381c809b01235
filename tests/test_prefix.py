"""Prefix sums answer what queries answer by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql import grid
from mwem_sql.compiler.linear import Block, LinearQuery
from mwem_sql.grid import Adaptive
from mwem_sql.prefix import MOST_RUNS, Boxes, is_boxes

SIZES = (7, 4)


@st.composite
def queries(draw: st.DrawFn) -> list[LinearQuery]:
    axes = draw(st.sampled_from([(0,), (1, 0)]))
    labels = [st.lists(st.integers(-1, 3), min_size=SIZES[axis], max_size=SIZES[axis]) for axis in axes]
    drawn = draw(st.lists(st.tuples(*labels), min_size=1, max_size=5))
    return [LinearQuery(tuple(Block((f"x{axis}",), np.array(own, np.int32), 4) for axis, own in zip(axes, all_, strict=True))) for all_ in drawn]


@settings(max_examples=100, deadline=None)
@given(queries(), st.integers(0, 99))
def test_answers_are_those_of_the_queries_and_whole_numbers_stay_exact(asked: list[LinearQuery], seed: int) -> None:
    assert all(map(is_boxes, asked))
    shape = [block.labels.size for block in asked[0].blocks]
    marginal = np.random.default_rng(seed).integers(-(2**60), 2**60, shape)
    boxes = Boxes(asked)
    np.testing.assert_array_equal(boxes.answers(marginal), np.concatenate([query.answer(marginal) for query in asked]))
    assert boxes.ends.tolist() == np.cumsum([query.cells for query in asked]).tolist()
    found = boxes.answers(marginal / 2**60)
    np.testing.assert_allclose(found, np.concatenate([query.answer(marginal / 2**60) for query in asked]), atol=1e-12)


def test_what_is_no_sum_over_few_boxes_is_left_to_others() -> None:
    assert not is_boxes(LinearQuery(()))
    assert not is_boxes(LinearQuery((Block(("a",), np.zeros(3, np.int32), 1, np.arange(3)),)))
    assert not is_boxes(LinearQuery((Block(("a", "b"), np.zeros((3, 2), np.int32), 1),)))
    assert not is_boxes(LinearQuery((Block(("a",), (np.arange(2 * MOST_RUNS) % 2).astype(np.int32), 2),)))


def test_a_state_answers_many_queries_as_it_answers_each(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(3)
    sizes = {f"x{axis}": generator.uniform(1, 2, size) for axis, size in enumerate(SIZES)}
    state = Adaptive.uniform(sizes, 100.0)
    blocks = {name: [Block((name,), generator.integers(-1, 2, len(size)).astype(np.int32), 2) for _ in range(6)] for name, size in sizes.items()}
    asked = [LinearQuery((one, other)) for one in blocks["x0"] for other in blocks["x1"]] + [LinearQuery((one,)) for one in blocks["x0"]]
    asked.append(LinearQuery((Block(("x1",), np.zeros(4, np.int32), 1, np.array([1, -1, 1, -1])),)))
    for query in (asked[0], asked[7]):
        state.update(query, np.array([10.0, 20.0, 30.0, 5.0]))
        each = [state.answer(own) for own in asked]
        monkeypatch.setattr(grid, "MANY", 5)
        for own, one in zip(state.answers(asked), each, strict=True):
            np.testing.assert_allclose(own, one, atol=1e-9)
        monkeypatch.undo()
