"""Whole tables: they agree where cliques overlap, and stay as close to the weights as the bounds say, however deep
the tree.
"""

from __future__ import annotations

import itertools
from math import sqrt

import numpy as np
import pytest
from chance import examples, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds, states, tree_of

from mwem_sql.model.state import State
from mwem_sql.synthesis.rounding import CliqueCounts, golden_offsets, systematic_counts, whole_tables

EXACT = 1e-6
"""Weights are floats, and sums of them are compared with whole numbers."""
PER_ATTRIBUTE = 2
"""A share is rounded down or up, and one row may have to move for the attribute's own marginal."""


def summed(table: CliqueCounts, names: tuple[str, ...]) -> np.ndarray:
    """Rows of a table by some of its attributes."""
    axes = [table.table.names.index(name) for name in names]
    kept = sorted(axes)
    return table.table.cells.sum(axis=tuple(set(range(table.table.cells.ndim)) - set(axes))).transpose(
        [kept.index(axis) for axis in axes]
    )


def home(tables: list[CliqueCounts], names: tuple[str, ...]) -> CliqueCounts:
    return next(table for table in tables if set(names) <= set(table.table.names))


def errors(state: State, tables: list[CliqueCounts], names: tuple[str, ...], rows: int) -> np.ndarray:
    return np.abs(summed(home(tables, names), names) - rows * state.marginal(names) / state.total)


def check(state: State, tables: list[CliqueCounts], rows: int) -> None:
    """What holds for every state and every number of rows."""
    assert {frozenset(table.table.names) for table in tables} == {frozenset(table.names) for table in state.tables}
    for number, table in enumerate(tables):
        assert table.table.cells.sum() == rows
        assert table.table.cells.min() >= 0
        weights = state.marginal(table.table.names)
        given = weights.sum(axis=tuple(range(len(table.shared), weights.ndim)), keepdims=True)
        held = summed(table, table.shared)
        if table.shared:
            assert (held == summed(home(tables[:number], table.shared), table.shared)).all()
        shares = weights / given * held.reshape(given.shape)
        new = sum(size > 1 for size in weights.shape[len(table.shared) :])
        # The error that an attribute takes over from those before it, its part of a count's error, is never larger.
        assert np.abs(table.table.cells - shares).max() < PER_ATTRIBUTE * max(new, 1) + EXACT
    for name in state.attributes:
        assert errors(state, tables, (name,), rows).max() < 1 + EXACT * max(1, rows)


@settings(deadline=None, max_examples=examples(150))
@given(states(), st.sampled_from([0, 1, 2, 3, 10, 57, 300, 5000, 10**6, 10**9]), seeds)
def test_tables_of_any_state(case: tuple[State, dict[str, int]], rows: int, seed: int) -> None:
    state, _ = case
    check(state, list(whole_tables(state, rows, np.random.default_rng(seed))), rows)


@pytest.mark.parametrize("rows", sampled([1, 9, 100, 3000, 10**6], 3))
@pytest.mark.parametrize("depth", sampled([1, 2, 5, 10], 2))
def test_errors_do_not_add_up_along_a_chain(depth: int, rows: int) -> None:
    """Pairs that share one attribute, whose own marginal is within 1: a cell is off by its own rounding and a part
    of that.
    """
    names = [f"a{number}" for number in range(depth + 1)]
    for seed in range(5):
        state = tree_of(dict.fromkeys(names, 7), list(itertools.pairwise(names)), seed)
        tables = list(whole_tables(state, rows, np.random.default_rng(seed)))
        check(state, tables, rows)
        for pair in itertools.pairwise(names):
            assert errors(state, tables, pair, rows).max() < PER_ATTRIBUTE + 1 + EXACT * rows


@pytest.mark.parametrize("width", [3, 4])
def test_pairs_and_separators_of_wide_cliques_are_kept(width: int) -> None:
    """Cells and pairs of ten overlapping cliques, against rounding without feedback and against independent draws.

    Were each of the m cells behind a cell of a pair rounded by itself, up as often as its fraction says, the pair would
    have a variance of m / 6, fractions being even. Feedback may not do worse with 6 cells, and with 36 halves the
    deviation.
    """
    names = [f"a{number}" for number in range(10 + width)]
    cliques = [tuple(names[first : first + width]) for first in range(11)]
    rows, size = 100_000, 6
    for seed in range(3):
        state = tree_of(dict.fromkeys(names, size), cliques, seed)
        tables = list(whole_tables(state, rows, np.random.default_rng(seed)))
        check(state, tables, rows)
        squares = []
        for clique in cliques:
            squares += [np.mean(errors(state, tables, pair, rows) ** 2) for pair in itertools.combinations(clique, 2)]
            cells = errors(state, tables, clique, rows)
            assert np.mean(cells**2) < 1 / 3  # two roundings of 1/6: of the cell, and of what it was given
            independent = rows * state.marginal(clique) / state.total
            assert np.mean(cells**2) < np.mean(independent) / 10
        assert sqrt(np.mean(squares)) < sqrt(size ** (width - 2) / 6) / (2 if width > 3 else 1)


@pytest.mark.parametrize("rows", sampled([1, 3, 11], 1))
def test_few_rows_follow_the_joint_on_average(rows: int) -> None:
    """Attributes that depend on each other. One row follows the weights exactly, a few to a tenth of a row per cell."""
    state = tree_of({"a": 3, "b": 2, "c": 3}, [("a", "b", "c")], 4)
    generator = np.random.default_rng(rows)
    tables = [next(whole_tables(state, rows, generator)) for _ in range(1000)]
    drawn = np.array([table.table.cells for table in tables])
    expected = rows * state.marginal(tables[0].table.names) / state.total
    error = drawn.mean(axis=0) - expected
    if rows == 1:
        common = expected * len(drawn) > 10
        # 18 cells: a normal deviate beyond 4.5 comes up in one of 8000 such tests.
        assert (np.abs(error) / np.sqrt(expected * (1 - expected) / len(drawn)))[common].max() < 4.5
    assert sqrt(np.mean(error**2)) < 0.1


def test_weights_of_all_sizes() -> None:
    """Cells that are practically empty stay so, and one that has nearly all rows gets them."""
    sizes = {"a": np.array([1.0, 1e-200, 1e-9]), "b": np.array([1e-250, 1.0])}
    state = State.uniform(sizes, 5.0)
    state.join(["a", "b"])
    (table,) = whole_tables(state, 1000, np.random.default_rng(0))
    assert table.table.cells[(0, 1) if table.table.names == ("a", "b") else (1, 0)] == 1000


def test_same_generator_same_tables() -> None:
    state = tree_of({"a": 4, "b": 5, "c": 3}, [("a", "b"), ("b", "c")], 1)
    first, second, other = (list(whole_tables(state, 500, np.random.default_rng(seed))) for seed in (7, 7, 8))
    assert all((one.table.cells == two.table.cells).all() for one, two in zip(first, second, strict=True))
    assert any((one.table.cells != two.table.cells).any() for one, two in zip(first, other, strict=True))


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=50), st.integers(0, 10_000), seeds)
def test_systematic_counts(weights: list[float], count: int, seed: int) -> None:
    drawn = systematic_counts(np.array(weights), count, np.random.default_rng(seed))
    due = np.array(weights) * count / sum(weights)
    assert drawn.sum() == count
    assert (drawn >= 0).all()
    assert np.abs(drawn - due).max() < 1 + EXACT
    assert np.abs(np.cumsum(drawn) - np.cumsum(due)).max() < 1 + EXACT


class Fixed(np.random.Generator):
    """A generator whose uniform numbers are all the same."""

    def __init__(self, offset: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.offset = offset

    def random(self, *_: object, **__: object) -> float:  # type: ignore[override]
        return self.offset


def test_systematic_counts_at_the_ends_of_the_offset() -> None:
    """49 * (1 / 49) is below 1; and the largest offset below 1, added to a large count, makes the next integer."""
    assert systematic_counts(np.array([20.0, 29.0]), 1, Fixed(0.0)).tolist() == [0, 1]
    drawn = systematic_counts(np.array([1.0, 1.0, 1e-20]), 10**6, Fixed(float(np.nextafter(1.0, 0.0))))
    assert drawn.sum() == 10**6
    assert drawn.min() >= 0


def test_golden_offsets_are_spread() -> None:
    """The gaps of such a sequence have at most three lengths, and the largest is less than 1 / (n (2 - golden
    ratio)) + 1/n.
    """
    for count in (1, 2, 10, 1000):
        offsets = np.sort(golden_offsets(count, np.random.default_rng(count)))
        assert len(offsets) == count
        assert (offsets >= 0).all() and (offsets < 1).all()
        gaps = np.diff(np.append(offsets, offsets[0] + 1))
        assert len(np.unique(gaps.round(9))) <= 3
        assert gaps.max() < 2.7 / count + EXACT
