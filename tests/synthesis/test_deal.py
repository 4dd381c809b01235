"""Drawn codes: the rows that the whole tables say, evenly across cliques, in blocks and in no order."""

from __future__ import annotations

import itertools
from math import sqrt

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Floats, seeds, states, tree_of

from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.synthesis.deal import BLOCK, draw_codes, fair_parts, stable_order
from mwem_sql.synthesis.rounding import whole_tables


def counts(codes: dict[str, np.ndarray], shape: dict[str, int], *names: str) -> np.ndarray:
    """Rows in each class combination of these attributes."""
    cells = np.zeros([shape[name] for name in names], dtype=np.int64)
    np.add.at(cells, tuple(codes[name] for name in names), 1)
    return cells


def draw(
    state: State | Mixture, rows: int, generator: np.random.Generator, block: int = BLOCK
) -> dict[str, np.ndarray]:
    """All blocks one after the other."""
    blocks = list(draw_codes(state, rows, generator, block))
    return {name: np.concatenate([codes[name] for codes in blocks]) for name in state.attributes}


def independent_attributes(*classes: int, seed: int = 1) -> tuple[State, dict[str, int]]:
    generator = np.random.default_rng(seed)
    sizes = {f"a{number}": generator.dirichlet(np.full(size, 5.0)) + 0.01 for number, size in enumerate(classes)}
    return State.uniform(sizes, 100.0), dict(zip(sizes, classes, strict=True))


@settings(deadline=None, max_examples=examples(60))
@given(states(), st.integers(0, 300), seeds, st.sampled_from([1, 7, 100, BLOCK]))
def test_cliques_have_the_rows_of_their_tables(
    case: tuple[State, dict[str, int]], rows: int, seed: int, block: int
) -> None:
    """Whatever the blocks: the tables are drawn first, so that the same generator gives the same ones."""
    state, shape = case
    generator = np.random.default_rng(seed)
    generator.random()  # the share of a mixture of one
    tables = list(whole_tables(state, rows, generator))
    codes = draw(state, rows, np.random.default_rng(seed), block)
    assert list(codes) == list(state.attributes)
    for name, code in codes.items():
        assert code.shape == (rows,)
        assert (code < shape[name]).all()
    for table in tables:
        assert (counts(codes, shape, *table.table.names) == table.table.cells).all()


@pytest.mark.parametrize("attributes", [1, 3, 300])
def test_blocks_are_small_and_alike(attributes: int) -> None:
    """Each has a fair part of every cell: its share rounded down or up, of what the blocks before have left."""
    rows, block = 2000, 400 * attributes
    state, shape = independent_attributes(*[4] * attributes)
    blocks = list(draw_codes(state, rows, np.random.default_rng(1), block))
    sizes = [len(codes["a0"]) for codes in blocks]
    assert sum(sizes) == rows
    assert max(sizes) == 400
    assert max(sizes) - min(sizes) <= 1
    for name in list(shape)[:3]:
        left = sum(counts(codes, shape, name) for codes in blocks)
        for codes in blocks:
            part = counts(codes, shape, name)
            assert np.abs(part - left * part.sum() / max(left.sum(), 1)).max() < 1
            left = left - part


def test_blocks_of_a_mixture_hold_all_its_states() -> None:
    """Nine states with a class of their own each: every block has its fair part of each."""
    states_of_one_class = [State.uniform({"a": np.eye(9)[k] + 1e-12, "b": np.ones(2)}, 9.0) for k in range(9)]
    for codes in draw_codes(Mixture(states_of_one_class), 9000, np.random.default_rng(0), 1800):
        drawn = counts(codes, {"a": 9}, "a")
        assert drawn.max() - drawn.min() <= 2


@pytest.mark.parametrize("rows", [0, 1, 2, 1000])
def test_any_number_of_rows(rows: int) -> None:
    for state in (independent_attributes(3, 2, 1)[0], State.uniform({"a": np.ones(1)}, 1.0)):
        codes = draw(Mixture([state, state, state]), rows, np.random.default_rng(0))
        assert {len(code) for code in codes.values()} == {rows}
    assert draw(State.uniform({}, 5.0), rows, np.random.default_rng(0)) == {}


def test_same_generator_same_rows() -> None:
    state, _ = independent_attributes(4, 3)
    first, second, other = (draw(state, 200, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert all((first[name] == second[name]).all() for name in first)
    assert any((first[name] != other[name]).any() for name in first)


def test_expected_counts_are_the_weights() -> None:
    """Over many draws, for cells of a factor and of a product of factors, with far fewer rows than cells."""
    state, shape = independent_attributes(5, 4, 3, 2)
    state.join(["a0", "a2"])
    rows, draws = 7, 800
    generator = np.random.default_rng(3)
    total = np.zeros(tuple(shape.values()))
    squares = np.zeros_like(total)
    for _ in range(draws):
        drawn = counts(draw(state, rows, generator), shape, *shape)
        total += drawn
        squares += drawn**2
    expected = rows * state.marginal(tuple(shape)) / state.total
    deviation = np.sqrt(np.maximum(squares / draws - (total / draws) ** 2, expected / draws) / draws)
    # 120 cells: a normal deviate beyond 4.5 comes up in one of 1200 such tests.
    assert (np.abs(total / draws - expected) / deviation).max() < 4.5


def pair_errors(codes: dict[str, np.ndarray], state: State, shape: dict[str, int], rows: int) -> Floats:
    """Per pair of attributes: mean squared error of its cells over what a random pairing of the same values has."""
    ratios = []
    for one, other in itertools.combinations(shape, 2):
        p = counts(codes, shape, one) / rows
        q = counts(codes, shape, other) / rows
        expected = rows * state.marginal([one, other]) / state.total
        variance = rows * np.outer(p * (1 - p), q * (1 - q)) * rows / (rows - 1)
        ratios.append(np.mean((counts(codes, shape, one, other) - expected) ** 2 / variance))
    return np.array(ratios)


@pytest.mark.parametrize("classes", [(6, 5, 4, 3), (4, 4, 4, 4), (3, 40)])
def test_pairs_across_factors_are_closer_than_a_random_pairing(classes: tuple[int, ...]) -> None:
    rows, draws = 5000, 20
    state, shape = independent_attributes(*classes)
    generator = np.random.default_rng(5)
    drawn = [draw(state, rows, generator) for _ in range(draws)]
    shuffled = [{name: generator.permutation(code) for name, code in codes.items()} for codes in drawn]
    balanced = np.mean([pair_errors(codes, state, shape, rows) for codes in drawn], axis=0)
    random = np.mean([pair_errors(codes, state, shape, rows) for codes in shuffled], axis=0)
    # A random pairing has ratio 1, with the spread of a mean of squares over (r - 1)(c - 1) degrees of freedom a draw.
    freedom = [(a - 1) * (b - 1) * draws for a, b in itertools.combinations(classes, 2)]
    noise = np.sqrt(2 / np.array(freedom))
    assert (np.abs(random - 1) < 5 * noise + 0.05).all()
    assert (balanced < 1 - 5 * noise).all()
    assert balanced.mean() < 0.2


def tree_state(attributes: int, classes: int, pairs: int, seed: int) -> tuple[State, dict[str, int]]:
    """A state in which random pairs have been measured: some of them close cycles."""
    generator = np.random.default_rng(seed)
    shape = {f"a{number}": classes for number in range(attributes)}
    return tree_of(shape, [generator.choice(list(shape), 2, replace=False).tolist() for _ in range(pairs)], seed), shape


@pytest.mark.parametrize("seed", range(4))
def test_cliques_of_a_tree_are_followed_closely(seed: int) -> None:
    """A few rows per cell inside cliques, and far closer than independent draws where these err by more than a row."""
    rows = 20_000
    state, shape = tree_state(8, 4, 9, seed)
    codes = draw(state, rows, np.random.default_rng(seed))
    for table in state.tables:
        expected = rows * state.marginal(table.names) / state.total
        error = np.abs(counts(codes, shape, *table.names) - expected)
        assert error.mean() < 1
        assert error.max() < 8
    for names in itertools.combinations(shape, 2):
        expected = rows * state.marginal(names) / state.total
        spread = np.sqrt(expected * (1 - expected / rows))
        error = counts(codes, shape, *names) - expected
        # Independent draws have the mean 1 here, and with 15 degrees of freedom rarely less than a third.
        assert np.mean((error / np.maximum(spread, 1)) ** 2) < 1


@pytest.mark.thorough
def test_a_single_row_follows_the_weights() -> None:
    """Over many draws, for all cells of three cliques together."""
    state, shape = tree_state(4, 3, 5, 1)
    draws = 1500
    generator = np.random.default_rng(3)
    total = sum(counts(draw(state, 1, generator), shape, *shape) for _ in range(draws))
    expected = state.marginal(tuple(shape)) / state.total
    deviation = np.sqrt(expected * (1 - expected) / draws)
    # 81 cells, and only those with an expected count of 10 in all draws are close to normal.
    common = expected * draws > 10
    assert (np.abs(total / draws - expected) / deviation)[common].max() < 4.5


def test_a_large_factor_does_not_come_between_small_ones() -> None:
    """Rows sorted by a factor in which hardly two agree would be dealt at random with respect to all others."""
    rows, draws = 5000, 20
    state, shape = independent_attributes(3, 3000, 3)
    generator = np.random.default_rng(9)
    small = {"a0": shape["a0"], "a2": shape["a2"]}
    errors = [pair_errors(draw(state, rows, generator), state, small, rows)[0] for _ in range(draws)]
    assert np.mean(errors) < 1 - 5 * sqrt(2 / (4 * draws))


@pytest.mark.thorough
def test_a_thousand_attributes_stay_independent() -> None:
    """Dealing is deterministic but for a rotation: no pair among half a million may come out related."""
    rows = 10_000
    state = State.uniform({f"b{number}": np.array([0.9, 0.1]) for number in range(1000)}, 1.0)
    codes = draw(state, rows, np.random.default_rng(11))
    ones = np.stack(list(codes.values())).astype(np.float64)
    scores = (ones @ ones.T - 0.01 * rows) / (0.09 * sqrt(rows))
    pairs = scores[np.triu_indices(1000, 1)]
    # Independent pairs: mean square 1 +- sqrt(2 / 499500), and 6 is passed with probability 0.001.
    assert (pairs**2).mean() < 1 + 5 * sqrt(2 / len(pairs))
    assert np.abs(pairs).max() < 6
    assert np.abs(np.diagonal(scores, 1)).max() < 1


def test_rows_come_in_random_order() -> None:
    rows = 4000
    codes = draw(independent_attributes(5, 4, 3)[0], rows, np.random.default_rng(2))
    for code in codes.values():
        assert abs(np.corrcoef(np.arange(rows), code)[0, 1]) < 5 / sqrt(rows)
        assert abs(np.corrcoef(code[1:], code[:-1])[0, 1]) < 5 / sqrt(rows)


def test_mixture_splits_rows_evenly() -> None:
    """Three states that never draw the same class: each has a third of the rows, to within 1."""
    states_of_one_class = [State.uniform({"a": np.eye(3)[k] + 1e-12, "b": np.ones(2)}, 9.0) for k in range(3)]
    for rows in (2, 10, 301):
        codes = draw(Mixture(states_of_one_class), rows, np.random.default_rng(rows))
        drawn = counts(codes, {"a": 3, "b": 2}, "a")
        assert drawn.sum() == rows
        assert drawn.max() - drawn.min() <= 1


@settings(deadline=None)
@given(st.data())
def test_fair_parts(data: st.DataObject) -> None:
    groups = np.sort(data.draw(st.lists(st.integers(0, 4), max_size=30))).astype(np.int64)
    totals = data.draw(st.lists(st.integers(0, 10**6), min_size=len(groups), max_size=len(groups)))
    whole = np.array(totals, dtype=np.int64)
    sums = np.bincount(groups, whole, 5).astype(np.int64)
    sizes = np.array([data.draw(st.integers(0, int(most))) for most in sums])
    parts = fair_parts(whole, groups, sizes, np.random.default_rng(data.draw(seeds)))
    assert (np.bincount(groups, parts, 5) == sizes).all()
    assert ((parts >= 0) & (parts <= whole)).all()
    assert (np.abs(parts - whole * (sizes / np.maximum(sums, 1))[groups]) < 1 + 1e-6).all()


@pytest.mark.parametrize("count", [1, 2, 65_536, 65_537, 10**7, 2**33])
def test_stable_order(count: int) -> None:
    numbers = np.random.default_rng(0).integers(0, count, 3000)
    numbers[::7] = count - 1
    assert (stable_order(numbers, count) == np.argsort(numbers, kind="stable")).all()


def test_more_cells_than_rows_and_than_16_bits() -> None:
    """Two factors of 90,000 cells: each row is alone in its cell of both."""
    shape = {"a": 300, "b": 300, "c": 300, "d": 300}
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, 1.0)
    state.join(["a", "b"])
    state.join(["c", "d"])
    codes = draw(state, 1000, np.random.default_rng(0))
    assert counts(codes, shape, "a", "b").max() == counts(codes, shape, "c", "d").max() == 1


def test_more_classes_than_16_bits() -> None:
    state = State.uniform({"a": np.ones(70_000), "b": np.ones(2)}, 1.0)
    codes = draw(state, 140_000, np.random.default_rng(0))
    assert (np.bincount(codes["a"], minlength=70_000) == 2).all()
