"""Junction trees of cyclic and acyclic graphs, against brute force on dense arrays; and what must hold of the graph."""

from __future__ import annotations

import itertools
from math import log, prod

import numpy as np
import oracle
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Floats, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.table import Table
from mwem_sql.model.state import State
from mwem_sql.model.support import IMPOSSIBLE
from mwem_sql.model.tree import WEIGHT_FLOOR, Potential, propagate

Sets = list[tuple[str, ...]]
NAMES = "abcdefg"
quick = settings(deadline=None, max_examples=examples(60))


@st.composite
def set_systems(draw: st.DrawFn) -> tuple[dict[str, int], Sets]:
    """Class counts, and sets of up to three attributes: chains, stars, cycles, several parts."""
    sizes = {name: draw(st.integers(2, 3)) for name in NAMES[: draw(st.integers(1, 7))]}
    one = st.lists(st.sampled_from(list(sizes)), min_size=1, max_size=3, unique=True)
    return sizes, [tuple(names) for names in draw(st.lists(one, max_size=9))]


def cuboid(sizes: dict[str, int], names: tuple[str, ...]) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(sizes[name], dtype=np.int32), sizes[name]) for name in names))


def measured(sizes: dict[str, int], sets: Sets, seed: int, total: float = 100.0) -> list[tuple[LinearQuery, Floats]]:
    generator = np.random.default_rng(seed)
    asked = [cuboid(sizes, names) for names in sets]
    return [(query, total * generator.dirichlet(np.full(query.cells, 0.5))) for query in asked]


def dense(state: State) -> Floats:
    return state.marginal(state.attributes)


@quick
@given(set_systems(), seeds, st.sampled_from([1, 3]))
def test_replay_on_cliques_is_the_listing(case: tuple[dict[str, int], Sets], seed: int, passes: int) -> None:
    sizes, sets = case
    measurements = measured(sizes, sets, seed)
    state = State.uniform({name: np.ones(size) for name, size in sizes.items()}, 100.0)
    state.replay(measurements, passes)
    history = [(oracle.dense_query(query, sizes), values) for query, values in measurements]
    start = oracle.uniform({name: np.ones(size) for name, size in sizes.items()}, 100.0)
    expected = oracle.multiplicative_weights(start, history, passes)
    np.testing.assert_allclose(dense(state).ravel(), expected, rtol=1e-9)
    assert state.cells <= prod(sizes.values()) + sum(sizes.values())


@quick
@given(set_systems(), seeds, st.data())
def test_marginals_are_those_of_the_product(case: tuple[dict[str, int], Sets], seed: int, data: st.DataObject) -> None:
    """The joint as the product of cliques over separators, built here; then any marginal of it in any order."""
    sizes, sets = case
    state = State.uniform({name: np.ones(size) for name, size in sizes.items()}, 100.0)
    state.replay(measured(sizes, sets, seed), 2)
    joint = np.full(tuple(sizes.values()), state.total)
    names = list(sizes)

    def spread(attributes: tuple[str, ...], weights: Floats) -> Floats:
        order = sorted(range(len(attributes)), key=lambda axis: names.index(attributes[axis]))
        return weights.transpose(order).reshape([sizes[n] if n in attributes else 1 for n in names]) / state.total

    for tree in state.trees:
        tree.calibrate()
        for number, potential in enumerate(tree.potentials):
            joint = joint * spread(potential.table.names, potential.table.cells)
            if number:
                shared = tree.layout.separators[number]
                agreed = potential.table.project(shared).cells
                joint = joint / spread(shared, agreed)
                parent = tree.potentials[tree.layout.parents[number]]
                np.testing.assert_allclose(parent.table.project(shared).cells, agreed, rtol=1e-12)
    asked = data.draw(st.permutations(names))[: data.draw(st.integers(0, len(names)))]
    letters = "".join(names)
    np.testing.assert_allclose(state.marginal(asked), np.einsum(f"{letters}->{''.join(asked)}", joint), rtol=1e-9)
    assert all(table.cells.sum() == pytest.approx(100.0, rel=1e-12) for table in state.tables)


@quick
@given(set_systems(), seeds, st.data())
def test_joining_keeps_the_distribution(case: tuple[dict[str, int], Sets], seed: int, data: st.DataObject) -> None:
    """Cliques merge and split again with the triangulation: what they say together stays."""
    sizes, sets = case
    state = State.uniform({name: np.arange(1.0, size + 1) for name, size in sizes.items()}, 100.0)
    state.replay(measured(sizes, sets, seed), 2)
    before = dense(state)
    for _ in range(3):
        names = data.draw(st.lists(st.sampled_from(list(sizes)), min_size=1, max_size=4, unique=True))
        expected = state.cells_with(names)
        state.join(names)
        assert state.cells == expected
        np.testing.assert_allclose(dense(state), before, rtol=1e-9)
    back = State.from_table(state.table(), state.attributes)
    assert back.cells == state.cells
    np.testing.assert_allclose(dense(back), before, rtol=1e-9)
    both = measured(sizes, [tuple(names)], seed + 1)
    for one in (state, back):
        one.replay(both, 2)
    np.testing.assert_allclose(dense(back), dense(state), rtol=1e-9)


def test_overlapping_queries_cost_their_sum() -> None:
    sizes = {f"x{number}": 20 for number in range(30)}
    state = State.uniform({name: np.ones(20) for name in sizes}, 100.0)
    state.replay(measured(sizes, list(itertools.pairwise(sizes)), 1), 1)
    assert state.cells == 29 * 400
    assert state.cells_with(["x3", "x5"]) == 27 * 400 + 8000
    assert state.cells_with(["x3", "x4"]) == state.cells
    ends = state.marginal(["x29", "x0"])
    np.testing.assert_allclose(ends.sum(axis=0), state.marginal(["x0"]), rtol=1e-9)


@pytest.mark.parametrize("updates", [300, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_thousands_of_adversarial_updates(updates: int) -> None:
    """Measurements far outside [0, n], over a cycle with a tail and a part of its own."""
    sizes = dict.fromkeys("abcdef", 3)
    generator = np.random.default_rng(4)
    queries = [cuboid(sizes, tuple(names)) for names in ("ab", "bc", "cd", "da", "de", "f", "abc")]
    state = State.uniform({name: np.array([1e-100, 1.0, 1e100]) for name in sizes}, 1000.0)
    for number in range(updates):
        query = queries[generator.integers(len(queries))]
        wild = generator.choice([-1e300, -1e6, -1.0, 0.0, 3.0, 1e3, 1e6, 1e300], query.cells)
        state.update(query, wild if number % 7 else generator.uniform(-300, 1300, query.cells))
    for table in state.tables:
        assert np.isfinite(table.cells).all()
        assert (table.cells > 0).all()
        assert table.cells.sum() == pytest.approx(1000.0, rel=1e-9)
    assert dense(state).sum() == pytest.approx(1000.0, rel=1e-9)
    # It still learns.
    calm = [(query, np.full(query.cells, 1000.0 / query.cells)) for query in queries]
    state.replay(calm, 5000)
    np.testing.assert_allclose(state.marginal("ae"), np.full((3, 3), 1000 / 9), rtol=0.1)


def potential() -> Potential:
    cells = np.random.default_rng(5).uniform(0.1, 1.1, (3, 2, 4))
    return Potential(Table(("a", "b", "c"), cells), log(cells.min() / cells.sum()))


def test_weights_are_multiplied_in_place_unless_they_are_shared() -> None:
    alone, by = potential(), Table(("a",), np.array([1.0, 2.0, 3.0]))
    memory, before = alone.table.cells, alone.table.cells.copy()
    alone.multiply(by, 1.0)
    assert np.shares_memory(alone.table.cells, memory)
    np.testing.assert_allclose(memory, before * np.array([1.0, 2.0, 3.0])[:, None, None])
    other = alone.share()
    assert other.table.cells is alone.table.cells
    before = other.table.cells.copy()
    alone.multiply(by, 1.0)
    np.testing.assert_array_equal(other.table.cells, before)
    assert (alone.table.cells != before).any()
    assert alone.stamp > other.stamp


def test_weights_near_0_come_back_to_the_floor() -> None:
    """Others, and weights that the bound vouches for, stay."""
    low = Potential(Table(("a",), np.array([0.0, 1e-305, 10.0])), -1.0)
    low.lift(10.0)
    assert low.table.cells.tolist() == [0.0, 1e-305, 10.0]
    low.lowest = -1000.0
    low.lift(10.0)
    assert low.table.cells.tolist() == [10 * WEIGHT_FLOOR, 10 * WEIGHT_FLOOR, 10.0]
    assert low.lowest == pytest.approx(log(WEIGHT_FLOOR))


@quick
@given(set_systems(), seeds)
def test_two_passes_make_cliques_agree(case: tuple[dict[str, int], Sets], seed: int) -> None:
    """Cliques that are multiplied at will, all at once, have the marginals of the product, and so do separators."""
    sizes, sets = case
    state = State.uniform({name: np.ones(size) for name, size in sizes.items()}, 100.0)
    state.replay(measured(sizes, sets, seed), 2)
    generator = np.random.default_rng(seed)
    for tree in state.trees:
        tree.calibrate()
        names = tuple(tree.attributes)
        joint = state.marginal(names)
        potentials = [one.share() for one in tree.potentials]
        separators = [one.table.project(own) for one, own in zip(potentials, tree.layout.separators, strict=True)]
        for one in potentials:
            by = Table(one.table.names, generator.uniform(0.1, 10, one.table.shape))
            joint = joint * by.align(names)
            one.multiply(by, 100.0)
        joint *= 100 / joint.sum()
        agreed = propagate(potentials, tree.layout.parents, separators, 100.0)
        for number, (one, shared) in enumerate(zip(potentials, agreed, strict=True)):
            expected = Table(names, joint).project(one.table.names).cells
            np.testing.assert_allclose(one.table.cells, expected, rtol=1e-9)
            if number:
                np.testing.assert_allclose(shared.cells, one.table.project(shared.names).cells, rtol=1e-9)


@pytest.mark.parametrize("factor", [10.0, 0.1, 1e25, 1e-25])
def test_impossible_cells_stay_near_the_floor_whatever_they_are_multiplied_by(factor: float) -> None:
    """No number of small steps makes a weight of one, or a zero that nothing can be divided by."""
    potential = Potential.of(Table(("a",), np.array([50.0, 50.0, 0.0])), 100.0)
    potential.forbid(np.array([2]))
    for _ in range(400):
        potential.multiply(Table(("a",), np.array([1.0, 1.0, factor])), 100.0)
        assert np.finfo(float).tiny < potential.table.cells[2] < IMPOSSIBLE * 100


def test_cells_that_become_impossible_lose_their_weight_with_the_next_change() -> None:
    potential = Potential.of(Table(("a",), np.array([50.0, 50.0])), 100.0)
    potential.multiply(Table(("a",), np.ones(2)), 100.0)
    potential.forbid(np.array([1]))
    potential.multiply(Table(("a",), np.ones(2)), 100.0)
    assert potential.table.cells[1] == WEIGHT_FLOOR * 100
