"""What a round may offer and what the state answers to it, kept from round to round, against asking the state afresh."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import domains, queries, seeds

from mwem_sql import offers as module
from mwem_sql.compiler.linear import Block, LinearQuery
from mwem_sql.fit import Target
from mwem_sql.offers import Offers
from mwem_sql.pairs import one_way, two_way
from mwem_sql.state import State


def cuboid(shape: dict[str, int], names: tuple[str, ...]) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def marginals(shape: dict[str, int], *ways: int) -> list[LinearQuery]:
    return [cuboid(shape, names) for way in ways for names in itertools.combinations(shape, way)]


def fresh(state: State, asked: list[LinearQuery]) -> np.ndarray:
    return np.concatenate([*state.answers(asked), np.empty(0)])


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(2, 9), st.integers(0, 12))
def test_all_pairs_of_a_tree(seed: int, attributes: int, measured: int) -> None:
    """Random pairs and triples measured: chains, stars and cycles; every pair against its marginal."""
    generator = np.random.default_rng(seed)
    shape = {f"x{number}": int(generator.integers(2, 4)) for number in range(attributes)}
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, 50.0)
    for _ in range(measured):
        names = tuple(generator.choice(list(shape), generator.integers(1, min(4, attributes + 1)), replace=False))
        query = cuboid(shape, names)
        state.update(query, 50 * generator.dirichlet(np.full(query.cells, 0.3)))
    ends = np.cumsum(list(shape.values()))
    starts = dict(zip(shape, (ends - list(shape.values())).tolist(), strict=True))
    one, two = np.zeros(ends[-1]), np.zeros((ends[-1], ends[-1]))
    for tree in state.trees:
        one_way(tree, starts, one)
        two_way(tree, starts, two)
        for a, b in itertools.permutations(tree.attributes, 2):
            block = two[starts[a] : starts[a] + shape[a], starts[b] : starts[b] + shape[b]]
            np.testing.assert_allclose(block, state.marginal([a, b]) / 50, rtol=1e-9, atol=1e-13)
    for name, start in starts.items():
        np.testing.assert_allclose(one[start : start + shape[name]], state.marginal([name]) / 50, rtol=1e-9)


@settings(deadline=None, max_examples=40)
@given(domains(), seeds, st.data())
def test_answers_follow_the_state(sizes: dict[str, np.ndarray], seed: int, data: st.DataObject) -> None:
    generator = np.random.default_rng(seed)
    shape = {name: len(size) for name, size in sizes.items()}
    asked = marginals(shape, 0, 1, 2, 3) + data.draw(st.lists(queries(shape), max_size=5))
    offers = Offers(asked, shape, 10**6)
    state = State.uniform(sizes, 100.0)
    everything = np.arange(len(asked))
    for _ in range(4):
        np.testing.assert_allclose(offers.answers(state, everything), fresh(state, asked), rtol=1e-9, atol=1e-9)
        some = np.flatnonzero(generator.random(len(asked)) < 0.5)
        chosen = [asked[number] for number in some]
        np.testing.assert_allclose(offers.answers(state, some), fresh(state, chosen), rtol=1e-9, atol=1e-9)
        query = asked[generator.integers(len(asked))]
        state.fit([Target(query, 100 * generator.dirichlet(np.ones(query.cells)), 4.0)])
        state.rescale(float(generator.uniform(50, 200)))


def test_only_what_changed_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = dict.fromkeys("abcdef", 3)
    asked = marginals(shape, 3)
    offers = Offers(asked, shape, 10**6)
    state = State.uniform({name: np.ones(3) for name in shape}, 100.0)
    counts = []
    answers = State.answers
    monkeypatch.setattr(State, "answers", lambda self, queries: counts.append(len(queries)) or answers(self, queries))
    everything = np.arange(len(asked))
    offers.answers(state, everything)
    offers.answers(state, everything)
    state.rescale(120.0)
    offers.answers(state, everything)
    state.update(cuboid(shape, ("a", "b")), np.arange(9.0))
    offers.answers(state, everything)
    # All 20; then those with a or b: all but the 4 triples of c, d, e, f.
    assert counts == [20, 16]


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(0, 12), st.sampled_from([0, 10**6]), st.sampled_from([30, 60, 100, 200, 10**6]))
def test_what_is_offered_fits(seed: int, measured: int, few: int, limit: int) -> None:
    """Never more than the limit; all that fits if the triangulation is worked out; what lies in a clique in any case."""
    generator = np.random.default_rng(seed)
    shape = {name: int(generator.integers(2, 4)) for name in "abcdef"}
    asked = marginals(shape, 1, 2, 3)
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, 100.0)
    offers = Offers(asked, shape, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", few)
        for _ in range(measured):
            offered = offers.fitting(state)
            exact = np.array([state.cells_with(query.attributes) <= limit for query in asked])
            cliques = [set(factor.attributes) for factor in state.factors]
            inside = np.array([any(clique.issuperset(query.attributes) for clique in cliques) for query in asked])
            assert not (offered & ~exact).any()
            assert offered[inside].all()
            if few:
                np.testing.assert_array_equal(offered, exact)
            if not offered.any():
                break
            state.join(asked[generator.choice(np.flatnonzero(offered))].attributes)
            assert state.cells <= limit


def test_half_a_million_candidates_are_cheap_to_keep() -> None:
    """With 400 attributes, 80,200 candidates: a round that changes one pair asks the state for nothing else."""
    shape = {f"b{number}": 2 for number in range(400)}
    identity = {name: Block((name,), np.arange(2, dtype=np.int32), 2) for name in shape}
    asked = [LinearQuery(tuple(identity[n] for n in names)) for way in (1, 2) for names in itertools.combinations(shape, way)]
    state = State.uniform({name: np.array([0.9, 0.1]) for name in shape}, 1000.0)
    offers = Offers(asked, shape, 10**7)
    everything = np.arange(len(asked))
    offers.answers(state, everything)
    assert offers.fitting(state).all()
    state.fit([Target(asked[-1], np.array([700.0, 100.0, 100.0, 100.0]), 2.0)])
    answers = offers.answers(state, everything)
    np.testing.assert_allclose(answers[-4:], state.answer(asked[-1]), rtol=1e-9)
    np.testing.assert_allclose(answers[-8:-4], state.answer(asked[-2]), rtol=1e-9)
    assert answers.sum() == pytest.approx(1000.0 * len(asked))
