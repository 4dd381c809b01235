"""What rows of parents say: a state that begins with them, and ends in agreement with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from strategies import seeds

from mwem_sql.algebra.table import Table
from mwem_sql.model.parents import Parents
from mwem_sql.model.start import every_cell
from mwem_sql.model.state import State

SIZES = {"a": 3, "b": 4, "x": 2, "y": 3}
BASES = {name: np.ones(size) for name, size in SIZES.items()}


def parents(seed: int, rows: int = 3000) -> Parents:
    """`b` follows `a`."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 3, rows)
    b = np.where(draw.random(rows) < 0.8, a, draw.integers(0, 4, rows))
    return Parents(rows, {"a": a.astype(np.int32), "b": b.astype(np.int32)})


def counted(of: Parents, *names: str) -> np.ndarray:
    cells = np.zeros([SIZES[name] for name in names])
    np.add.at(cells, tuple(of.codes[name] for name in names), 1)
    return cells


def fitted(of: Parents, seed: int, *sets: tuple[str, ...]) -> State:
    """A state of a level, with random marginals of some sets."""
    draw, state = np.random.default_rng(seed), of.state(BASES)
    for names in sets:
        shape = [SIZES[name] for name in names]
        cells = draw.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape) + 1e-3
        state.take(every_cell(names, shape), cells / cells.sum() * of.total)
    return state


@given(seeds)
def test_a_level_begins_with_its_parents(seed: int) -> None:
    of = parents(seed)
    state = of.state(BASES)
    # A row more, spread evenly: nothing is impossible.
    assert state.marginal(["a", "b"]) == pytest.approx(counted(of, "a", "b"), abs=2)
    assert state.marginal(["x"]) == pytest.approx(np.full(2, 1500.0))


@pytest.mark.parametrize("sets", [[("a", "x")], [("a", "x"), ("b", "x")], [("a", "x"), ("x", "y"), ("b", "y")]])
@given(seeds)
def test_the_parents_win_and_how_the_level_depends_on_them_stays(sets: list[tuple[str, ...]], seed: int) -> None:
    of = parents(seed)
    state = fitted(of, seed, *sets)
    before = state.marginal(["a", "b", "x", "y"])
    of.agree(state, 10**6)
    after = state.marginal(["a", "b", "x", "y"])
    assert state.total == pytest.approx(of.rows)
    assert after.sum(axis=(2, 3)) == pytest.approx(counted(of, "a", "b"), abs=2)
    # Given the parents' cell, the level's attributes are as before.
    given_before, given_after = (joint / joint.sum(axis=(2, 3), keepdims=True) for joint in (before, after))
    assert given_after == pytest.approx(given_before, abs=1e-4)


def test_without_room_for_their_joint_the_cliques_have_what_they_hold() -> None:
    of = parents(1)
    state = State.of(
        [Table(("a", "x"), np.full((3, 2), 500.0)), Table(("x", "y"), np.full((2, 3), 500.0)),
         Table(("y", "b"), np.full((3, 4), 250.0))],
        tuple(SIZES),
    )  # fmt: skip
    cells = state.cells
    of.agree(state, cells)
    assert state.cells == cells
    for name in "ab":
        assert state.marginal([name]) == pytest.approx(counted(of, name), abs=2)


def test_a_level_without_rows_has_a_state() -> None:
    of = Parents(0, {"a": np.zeros(0, dtype=np.int32)})
    state = of.state(BASES)
    of.agree(state, 10**6)
    assert state.total == 1
