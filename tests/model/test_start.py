"""A start: the tree of pairs that public rows make, and a state that takes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from strategies import seeds

from mwem_sql.model.start import Start
from mwem_sql.model.state import State


def rows(seed: int, count: int = 2000) -> dict[str, np.ndarray]:
    """`b` follows `a`, and `c` follows `b`."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 4, count)
    b = np.where(draw.random(count) < 0.9, a, draw.integers(0, 4, count))
    c = np.where(draw.random(count) < 0.9, b % 3, draw.integers(0, 3, count))
    return {name: codes.astype(np.int32) for name, codes in zip("abc", (a, b, c), strict=True)}


SIZES = {"a": 4, "b": 4, "c": 3}
EVEN = {name: np.ones(size) for name, size in SIZES.items()}


def test_the_pairs_are_a_tree_of_what_goes_together() -> None:
    assert {pair.names for pair in Start.of(rows(1), SIZES).pairs} == {("a", "b"), ("b", "c")}


@given(seeds)
def test_a_state_of_a_start_has_its_pairs(seed: int) -> None:
    start = Start.of(rows(seed), SIZES)
    state = start.state(EVEN, 500.0)
    for pair in start.pairs:
        assert state.marginal(pair.names) == pytest.approx(500 * pair.cells, rel=1e-6)
    for name, shares in start.one_ways.items():
        assert state.marginal([name]) == pytest.approx(500 * shares, rel=1e-2)


@given(seeds)
def test_joined_pairs_leave_single_attributes_as_they_are(seed: int) -> None:
    draw, start = np.random.default_rng(seed), Start.of(rows(seed), SIZES)
    state = State.unsplit({name: draw.uniform(0.1, 1, size) for name, size in SIZES.items()}, 100.0)
    before = {name: state.marginal([name]) for name in SIZES}
    start.join(state)
    for name, weights in before.items():
        assert state.marginal([name]) == pytest.approx(weights, rel=1e-4)
    a_b = state.marginal(["a", "b"])
    # How they go together is that of the start: the same odds ratios.
    (pair,) = (each.cells for each in start.pairs if each.names == ("a", "b"))
    odds = [cells[0, 0] * cells[1, 1] / cells[0, 1] / cells[1, 0] for cells in (a_b, pair)]
    assert odds[0] == pytest.approx(odds[1], rel=1e-3)


def test_values_without_a_class_count_nowhere_and_other_attributes_are_even() -> None:
    codes = rows(3)
    codes["c"] = np.full_like(codes["c"], -1)
    start = Start.of(codes, SIZES)
    assert start.one_ways["c"] == pytest.approx(np.full(3, 1 / 3))
    assert [pair.names for pair in start.pairs] == [("a", "b")]
    state = start.state(EVEN | {"d": np.ones(2)}, 10.0)
    assert state.marginal(["d"]) == pytest.approx([5, 5])


def test_nothing_is_impossible() -> None:
    start = Start.of({"a": np.zeros(10, dtype=np.int32)}, {"a": 3})
    assert (start.one_ways["a"] > 0).all() and start.one_ways["a"][0] > 0.9
