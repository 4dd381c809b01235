"""Rows given some of their classes: the conditional distribution of the dense joint, evenly in every group."""

from __future__ import annotations

from math import sqrt

import numpy as np
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds, states

from mwem_sql.algebra.table import Table
from mwem_sql.model.state import State
from mwem_sql.synthesis.given import draw_given

ROWS = 4000


def counted(codes: dict[str, np.ndarray], shape: dict[str, int]) -> np.ndarray:
    cells = np.zeros(list(shape.values()), dtype=np.int64)
    np.add.at(cells, tuple(codes[name] for name in shape), 1)
    return cells


@settings(deadline=None, max_examples=examples(60))
@given(states(), st.data(), seeds)
def test_rows_follow_the_dense_joint_given_what_is_given(
    case: tuple[State, dict[str, int]], data: st.DataObject, seed: int
) -> None:
    """In expectation exactly; a table of c cliques is rounded c times, each by less than a row per group."""
    state, shape = case
    names = data.draw(st.lists(st.sampled_from(list(shape)), unique=True, max_size=len(shape) - 1)) if shape else []
    generator = np.random.default_rng(seed)
    fixed = {name: generator.integers(0, shape[name], ROWS) for name in names}
    drawn = draw_given(state, fixed, ROWS, generator)
    assert drawn.keys() == shape.keys() - set(names)
    codes = {**fixed, **drawn}
    assert all((codes[name] < shape[name]).all() for name in shape)
    joint = state.marginal(list(shape)).astype(np.float64)
    own = tuple(axis for axis, name in enumerate(shape) if name not in names)
    cells = counted(codes, shape)
    groups = cells.sum(axis=own, keepdims=True)
    expected = np.divide(joint, joint.sum(axis=own, keepdims=True)) * groups
    # A cell is a sum of Bernoulli counts at most, each of its cliques' roundings among `ROWS` rows.
    tolerance = 6 * np.sqrt(np.maximum(expected, 1)) + 6
    assert (np.abs(cells - expected) <= tolerance).all()


def test_one_clique_is_rounded_by_less_than_a_row_in_every_group() -> None:
    generator = np.random.default_rng(1)
    state = State.uniform({"a": np.ones(3), "x": np.array([1.0, 2.0, 5.0])}, 1.0)
    fixed = {"a": generator.integers(0, 3, 500)}
    drawn = draw_given(state, fixed, 500, generator)
    cells = counted({**fixed, **drawn}, {"a": 3, "x": 3})
    # x is in a tree of its own, which nothing is given of: one group of all rows.
    assert np.abs(cells.sum(axis=0) - 500 * np.array([1, 2, 5]) / 8).max() < 1


def test_many_groups_are_worked_on_some_at_a_time() -> None:
    joint = np.arange(1.0, 13.0).reshape(4, 3)
    state = State.of([Table(("a", "x"), joint)])
    fixed = {"a": np.arange(400) % 4}
    drawn = draw_given(state, fixed, 400, np.random.default_rng(2), most_cells=3)
    cells = counted({**fixed, **drawn}, {"a": 4, "x": 3})
    assert np.abs(cells - 100 * joint / joint.sum(axis=1, keepdims=True)).max() < 1


def test_rows_of_one_parent_are_independent_given_it() -> None:
    """Neighbours in one group have the same class as often as the squares of shares say, and not less."""
    rows, shares = 20_000, np.array([0.5, 0.3, 0.2])
    state = State.uniform({"x": shares}, 1.0)
    drawn = draw_given(state, {}, rows, np.random.default_rng(3))["x"]
    same = (drawn[0::2] == drawn[1::2]).mean()
    expected = float((shares**2).sum())
    assert abs(same - expected) < 5 * sqrt(expected * (1 - expected) / (rows / 2))


def test_no_rows() -> None:
    state = State.uniform({"a": np.ones(2), "x": np.ones(2)}, 1.0)
    drawn = draw_given(state, {"a": np.zeros(0, dtype=np.int64)}, 0, np.random.default_rng(4))
    assert drawn["x"].shape == (0,)
