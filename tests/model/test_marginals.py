"""Marginals across cliques: messages against einsum, triples and pairs against asking the tree for each."""

from __future__ import annotations

from itertools import chain, combinations, pairwise, permutations

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.table import Table
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.marginals import (
    ROW_AXIS,
    Message,
    TwoWay,
    by_separator,
    conditional,
    joint,
    marginals,
    merge,
    message,
    three_way,
)  # fmt: skip
from mwem_sql.model.state import State
from mwem_sql.model.tree import Tree


def known(separator: tuple[str, ...], given: np.ndarray, number: int) -> Message:
    return Message(
        given=Table((ROW_AXIS, *separator), given),
        attributes=np.array([number]),
        places=10 * number + np.arange(len(given)),
        close=np.ones(1, dtype=np.bool_),
    )


GENERATOR = np.random.default_rng(5)
WEIGHTS = GENERATOR.uniform(1, 2, (2, 3, 4))
CLIQUE = Table(("a", "b", "c"), WEIGHTS)
# An attribute d of two values behind a and b, another one e of three values behind c.
D = GENERATOR.uniform(1, 2, (2, 2, 3))
D /= D.sum(axis=0)
E = GENERATOR.uniform(1, 2, (3, 4))
E /= E.sum(axis=0)
BEHIND_AB = known(("a", "b"), D, 7)
BEHIND_C = known(("c",), E, 8)


def test_values_are_passed_through_a_clique() -> None:
    found = conditional(CLIQUE, BEHIND_AB.given, ("c", "b"))
    np.testing.assert_allclose(found.cells, np.einsum("dab,abc->dcb", D, WEIGHTS) / WEIGHTS.sum(axis=0).T)
    assert found.names == (ROW_AXIS, "c", "b")


def test_two_messages_meet_in_a_clique_for_each_cell_beside() -> None:
    found = joint(CLIQUE, BEHIND_AB.given, BEHIND_C.given)
    np.testing.assert_allclose(found, np.einsum("dab,abc,ec->de", D, WEIGHTS, E))
    behind_b = known(("b",), GENERATOR.uniform(1, 2, (2, 3)), 9)
    found = joint(CLIQUE, behind_b.given, BEHIND_C.given, beside=("a",))
    np.testing.assert_allclose(found, np.einsum("db,abc,ec->ade", behind_b.given.cells, WEIGHTS, E))


def test_a_message_has_all_that_arrived_once() -> None:
    other = known(("c",), E[::-1], 9)
    assert [len(group) for group in by_separator([BEHIND_C, BEHIND_AB, other])] == [2, 1]
    found = message(CLIQUE, [BEHIND_C, BEHIND_AB, other], ("a",))
    assert found.separator == ("a",)
    assert found.attributes.tolist() == [8, 9, 7]
    assert found.places.tolist() == [80, 81, 82, 90, 91, 92, 70, 71]
    np.testing.assert_allclose(found.given.cells[:3], conditional(CLIQUE, BEHIND_C.given, ("a",)).cells)
    np.testing.assert_allclose(found.given.cells[6:], conditional(CLIQUE, BEHIND_AB.given, ("a",)).cells)
    assert merge([other]) is other


def random_tree(seed: int, count: int, sizes: tuple[int, ...], wide: int) -> Tree:
    """A tree over some attributes, joined by random pairs and triples, with random weights."""
    generator = np.random.default_rng(seed)
    names = [f"a{number}" for number in range(count)]
    state = State.uniform({name: np.ones(sizes[number % len(sizes)]) for number, name in enumerate(names)}, 1000.0)
    for number in range(1, count):
        state.join([names[number], names[int(generator.integers(number))]])
    state.join(generator.choice(names, min(wide, count), replace=False).tolist())
    (tree,) = state.trees
    for number in range(len(tree.potentials)):
        table = tree.reach(number)
        by = generator.uniform(0.2, 5.0, table.shape)
        by *= tree.total / float((by * table.cells).sum())
        tree.multiply(number, Table(table.names, by))
    tree.calibrate()
    return tree


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 9), st.sampled_from([(2,), (3,), (2, 2, 3)]), st.sampled_from([3, 7]))
def test_bulk_is_one_by_one(seed: int, count: int, sizes: tuple[int, ...], wide: int) -> None:
    """In small cliques, and in one that is larger than all marginals that meet there together."""
    compare(random_tree(seed, count, sizes, wide), sizes)


def compare(tree: Tree, sizes: tuple[int, ...]) -> None:
    index = {name: 7 + 2 * number for number, name in enumerate(sorted(tree.attributes, reverse=True))}
    names_of = {number: name for name, number in index.items()}
    size = {name: sizes[int(name[1:]) % len(sizes)] for name in index}
    asked = [row for some in combinations(index.values(), 3) for row in permutations(some)]
    for shape in {tuple(size[names_of[number]] for number in row) for row in asked}:
        rows = [row for row in asked if tuple(size[names_of[number]] for number in row) == shape]
        found = three_way(tree, index, np.array(rows), shape).reshape(len(rows), *shape)
        for row, one in zip(rows, found, strict=True):
            names = tuple(names_of[number] for number in row)
            expected = marginals(tree, [names])[names].cells / tree.total
            assert one == pytest.approx(expected, abs=1e-12)


def cuboid(shape: dict[str, int], names: tuple[str, ...]) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def errors(pairs: TwoWay, state: State) -> list[float]:
    """For each attribute and each pair of attributes the sum of absolute errors, as a share of the total."""
    found = []
    for names in chain(combinations(pairs.index, 1), permutations(pairs.index, 2)):
        places = [
            np.arange(pairs.starts[pairs.index[name]], pairs.starts[pairs.index[name]] + state.shape([name])[0])
            for name in names
        ]
        kept = pairs.one[places[0]]
        if len(names) == 2:
            kept = np.outer(kept, pairs.one[places[1]]) + pairs.excess[np.ix_(*places)]
        found.append(float(np.abs(kept - state.marginal(names) / state.total).sum()))
    return found


@settings(deadline=None, max_examples=examples(100))
@given(seeds, st.integers(2, 9), st.integers(0, 12), st.sampled_from([0.0, 1e-3, 1e-1]), st.sampled_from([1, 512]))
def test_pairs_follow_the_state(seed: int, attributes: int, measured: int, lag: float, wide: int) -> None:
    """Random pairs and triples: chains, stars and cycles; after each change every pair against its marginal."""
    generator = np.random.default_rng(seed)
    shape = {f"x{number}": int(generator.integers(2, 4)) for number in range(attributes)}
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, 50.0)
    pairs = TwoWay(shape, wide=wide)
    before = np.zeros(0)
    for _ in range(measured + 1):
        changed = pairs.refresh(state.trees, lag)
        # Of what is taken to be independent, one side may lag behind and so may each clique on the way.
        assert max(errors(pairs, state)) <= (3 * attributes + 1) * lag + 1e-12
        after = np.array(
            [[state.marginal((a,)).sum() if a == b else state.marginal((a, b)).max() for a in shape] for b in shape]
        )
        if before.size and not lag:
            assert changed[before != after].all()
        before = after
        names = tuple(generator.choice(list(shape), generator.integers(1, min(4, attributes + 1)), replace=False))
        query = cuboid(shape, names)
        state.update(query, 50 * generator.dirichlet(np.full(query.cells, 0.3)))


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 10), st.sampled_from([0.0, 1e-3, 1e-1]))
def test_pairs_follow_a_state_whose_groups_are_split(seed: int, measured: int, lag: float) -> None:
    """Ranges over one to three attributes: pairs are kept of classes, or of groups where nobody reads classes."""
    generator = np.random.default_rng(seed)
    shape = {name: int(generator.integers(2, 8)) for name in "abcdef"}
    state = State.unsplit({name: np.ones(size) for name, size in shape.items()}, 50.0)
    read = set(generator.choice(list(shape), 3, replace=False).tolist())
    pairs, followed = TwoWay(shape, read), 0
    for _ in range(measured + 1):
        for name in state.partitions.splits[followed:]:
            pairs.regroup(name, state.partitions[name])
        followed = len(state.partitions.splits)
        pairs.refresh(state.trees, lag)
        for names in chain(combinations(shape, 1), permutations(shape, 2)):
            inner = state if read.issuperset(names) else state.merged() if read.isdisjoint(names) else None
            if inner is not None:
                exact = inner.marginal(names) / 50
                places = [
                    pairs.starts[pairs.index[name]] + np.arange(size)
                    for name, size in zip(names, exact.shape, strict=True)
                ]
                kept = pairs.one[places[0]]
                if len(names) == 2:
                    kept = np.outer(kept, pairs.one[places[1]]) + pairs.excess[np.ix_(*places)]
                assert np.abs(kept - exact).sum() <= 19 * lag + 1e-12
        names = generator.choice(list(shape), generator.integers(1, 4), replace=False).tolist()
        blocks = [
            Block((name,), (np.arange(shape[name]) < generator.integers(1, shape[name] + 1)).astype(np.int32) - 1, 1)
            for name in names
        ]
        state.update(LinearQuery(tuple(blocks)), 50 * generator.random(1))


def test_other_groups_are_a_change_whatever_they_weigh() -> None:
    """Half of the records in two values, then all of that half in one: the groups' weights are the same."""
    state = State.unsplit({"a": np.ones(4)}, 100.0)
    pairs = TwoWay({"a": 4}, read=())
    measurements = []
    for high in (4, 3):
        inside = (np.arange(4) >= 2) & (np.arange(4) < high)
        measurements.append((LinearQuery((Block(("a",), inside.astype(np.int32) - 1, 1),)), np.array([50.0])))
        state.replay(measurements, 2000)
        pairs.regroup("a", state.partitions["a"])
        assert pairs.refresh(state.trees, 1e-2).all()
        np.testing.assert_allclose(state.group_marginal("a")[:2], 50.0, rtol=1e-2)


@pytest.mark.parametrize("length", [24, pytest.param(60, marks=pytest.mark.thorough)])
def test_what_is_far_away_is_left_alone(length: int) -> None:
    """A long chain of weak links: a change at one end is followed a few cliques far, however long the chain."""
    shape = {f"x{number}": 2 for number in range(length)}
    state = State.uniform({name: np.ones(2) for name in shape}, 1000.0)
    weak = np.array([300.0, 200.0, 200.0, 300.0])
    Fit(state).fit([Target(cuboid(shape, pair), weak, 1.0) for pair in pairwise(shape)], tolerance=1e-10)
    for pair in pairwise(shape):
        np.testing.assert_allclose(state.marginal(pair).ravel(), weak, rtol=1e-3)
    pairs = TwoWay(shape)
    pairs.refresh(state.trees, 1e-3)
    assert not pairs.refresh(state.trees, 1e-3).any()
    state.update(cuboid(shape, ("x0", "x1")), np.array([500.0, 0.0, 0.0, 500.0]))
    changed = pairs.refresh(state.trees, 1e-3)
    assert changed[0].any()
    assert not changed[length // 3 :, length // 3 :].any()
    assert max(errors(pairs, state)) < 1e-2
