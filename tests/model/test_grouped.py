"""A state over groups answers many questions about classes as it answers each."""

from __future__ import annotations

import numpy as np
import pytest

from mwem_sql.algebra import boxes as module
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.stretches import Stretches
from mwem_sql.model.adaptive import Adaptive

SIZES = (7, 4)


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
