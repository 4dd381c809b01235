"""What a round may offer and what the state answers to it, kept from round to round, against asking the state afresh."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import domains, queries, seeds

from mwem_sql.model.adaptive import Adaptive
from mwem_sql.model.state import State
from mwem_sql.model.targets import Target
from mwem_sql.mwem import offers as module
from mwem_sql.mwem.offers import Offers
from mwem_sql.queries.linear import Block, LinearQuery


def cuboid(shape: dict[str, int], names: tuple[str, ...]) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def marginals(shape: dict[str, int], *ways: int) -> list[LinearQuery]:
    return [cuboid(shape, names) for way in ways for names in itertools.combinations(shape, way)]


def fresh(state: Adaptive, asked: list[LinearQuery]) -> np.ndarray:
    return np.concatenate([*state.answers(asked), np.empty(0)])


class Kept:
    """All answers, as somebody has them who is told only what is new."""

    def __init__(self, offers: Offers, asked: list[LinearQuery]) -> None:
        self.offers = offers
        self.answers: list[np.ndarray] = [np.empty(0)] * len(asked)
        self.cells = [query.cells for query in asked]

    def follow(self, state: Adaptive) -> list[int]:
        numbers, answers = self.offers.news(state)
        told = np.split(
            np.concatenate([*answers, np.empty(0)]), np.cumsum([self.cells[number] for number in numbers])[:-1]
        )
        for number, answer in zip(numbers, told, strict=len(numbers) > 0):
            self.answers[number] = answer
        return sorted(numbers.tolist())


@settings(deadline=None, max_examples=60)
@given(domains(), seeds, st.data(), st.sampled_from([0, 1000]))
def test_answers_follow_the_state(sizes: dict[str, np.ndarray], seed: int, data: st.DataObject, many: int) -> None:
    """From two-way marginals where there are many, and from the state itself."""
    generator = np.random.default_rng(seed)
    shape = {name: len(size) for name, size in sizes.items()}
    asked = marginals(shape, *data.draw(st.sampled_from([(0, 1, 2, 3), (3, 1)]))) + data.draw(
        st.lists(queries(shape), max_size=8)
    )
    state = Adaptive.uniform(sizes, 100.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MANY", many)
        kept = Kept(Offers(asked, shape, 10**6), asked)
    targets = []
    for _ in range(5):
        kept.follow(state)
        np.testing.assert_allclose(
            np.concatenate([*kept.answers, np.empty(0)]), fresh(state, asked), rtol=1e-9, atol=1e-9
        )
        assert kept.follow(state) == []
        if asked:
            query = asked[generator.integers(len(asked))]
            targets.append(Target(query, 100 * generator.dirichlet(np.ones(query.cells)), 4.0))
            state.fit(targets)
        if generator.random() < 0.5:
            state.rescale(float(generator.uniform(50, 200)))


def test_answers_may_lag_behind() -> None:
    """By the records that are allowed: less is not told, more is."""
    shape = dict.fromkeys("abc", 2)
    asked = marginals(shape, 1, 2)
    state = Adaptive.uniform({name: np.ones(2) for name in shape}, 100.0)
    kept = Kept(Offers(asked, shape, 10**6, lag=5.0), asked)
    assert kept.follow(state) == [0, 1, 2, 3, 4, 5]
    state.rescale(104.0)
    assert kept.follow(state) == []
    state.rescale(106.0)
    assert kept.follow(state) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("many", [0, 1000])
def test_only_what_changed_is_asked_again(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(module, "MANY", many)
    monkeypatch.setattr(module, "BULK", 0)
    shape = dict.fromkeys("abcdef", 3)
    asked = marginals(shape, 3)
    kept = Kept(Offers(asked, shape, 10**6), asked)
    state = Adaptive.uniform({name: np.ones(3) for name in shape}, 100.0)
    counts = []
    answers = State.answers
    monkeypatch.setattr(State, "answers", lambda self, queries: counts.append(len(queries)) or answers(self, queries))
    assert len(kept.follow(state)) == 20
    assert kept.follow(state) == []
    state.rescale(120.0)
    assert len(kept.follow(state)) == 20
    state.update(cuboid(shape, ("a", "b")), np.arange(9.0))
    # Those with a or b: all but the 4 triples of c, d, e, f.
    assert len(kept.follow(state)) == 16
    state.update(cuboid(shape, ("a", "c")), np.arange(9.0))
    assert len(kept.follow(state)) == 19
    # The state is asked for all, all but 4, all but 1; or for none, because they are products or worked out together.
    assert [count for count in counts if count] == ([] if not many else [20, 16, 19])


def measure(state: Adaptive, query: LinearQuery) -> None:
    """Make room for a query, as its measurement does."""
    state.refine(query)
    state.state.join(query.attributes)


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(0, 12), st.sampled_from([0, 10**6]), st.sampled_from([30, 60, 100, 200, 10**6]), st.data())
def test_what_is_offered_fits(seed: int, measured: int, few: int, limit: int, data: st.DataObject) -> None:
    """Never more than the limits; all that fits if the triangulation is worked out; what lies in a clique in any case."""
    generator = np.random.default_rng(seed)
    shape = {name: int(generator.integers(2, 4)) for name in "abcdef"}
    asked = marginals(shape, 1, 2, 3)
    state = Adaptive.uniform({name: np.ones(size) for name, size in shape.items()}, 100.0)
    step = data.draw(st.sampled_from([None, 0, 20]))
    offers = Offers(asked, shape, limit, step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", few)
        for _ in range(measured):
            offered = offers.fitting(state)
            cells = np.array([state.cells_with({name: shape[name] for name in query.attributes}) for query in asked])
            own = np.array([query.cells for query in asked])
            exact = (cells <= limit) & (cells - state.cells <= (limit if step is None else step) + own)
            cliques = [set(factor.attributes) - state.coarse for factor in state.state.factors]
            inside = np.array([any(clique.issuperset(query.attributes) for clique in cliques) for query in asked])
            assert not (offered & ~exact).any()
            assert offered[inside].all()
            if few:
                np.testing.assert_array_equal(offered, exact)
            if not offered.any():
                break
            measure(state, asked[generator.choice(np.flatnonzero(offered))])
            assert state.cells <= limit


@settings(deadline=None, max_examples=25)
@given(
    seeds,
    st.sampled_from([0, 10**6]),
    st.sampled_from([30, 100, 300, 1000]),
    st.sampled_from([None, 0, 20]),
    st.booleans(),
)
def test_what_is_offered_fits_however_it_splits(
    seed: int, few: int, limit: int, step: int | None, tangled: bool
) -> None:
    """Ranges, sets and sums, of one attribute and of several at once, beside plain marginals: each splits groups of its own."""
    generator = np.random.default_rng(seed)
    shape = {name: int(generator.integers(2, 12)) for name in "abcde"}
    asked = marginals(shape, 1, 2)
    for _ in range(60):
        names = tuple(generator.choice(list(shape), generator.integers(1, 4), replace=False).tolist())
        ends = {name: np.sort(generator.integers(0, shape[name] + 1, 2)) for name in names}
        places = [
            ((low <= np.arange(shape[name])) & (np.arange(shape[name]) < high)) for name, (low, high) in ends.items()
        ]
        if tangled and generator.random() < 0.5:
            size = [shape[name] for name in names]
            labels = generator.integers(-1, 2, size).astype(np.int32)
            asked.append(LinearQuery((Block(names, labels, 2, generator.integers(0, 3, size)),)))
        else:
            asked.append(
                LinearQuery(
                    tuple(Block((name,), own.astype(np.int32) - 1, 1) for name, own in zip(names, places, strict=True))
                )
            )
    state = Adaptive.uniform({name: np.ones(size) for name, size in shape.items()}, 100.0)
    offers = Offers(asked, shape, limit, step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", few)
        for _ in range(15):
            offered = np.flatnonzero(offers.fitting(state))
            for number in offered:
                twin = state.copy()
                measure(twin, asked[number])
                assert twin.cells <= limit
                cells = np.prod([twin.grids[name].runs for name in asked[number].attributes])
                assert step is None or twin.cells - state.cells <= step + cells
            if not offered.size:
                break
            measure(state, asked[generator.choice(offered)])


def test_what_was_worked_out_holds_for_the_same_groups_only() -> None:
    """a - b - c in two cliques: with b in two groups there is room for a and c side by side, with b in five there is none."""
    shape = {"a": 3, "b": 5, "c": 3}
    state = Adaptive.uniform({name: np.ones(size) for name, size in shape.items()}, 100.0)
    low = Block(("b",), np.array([0, 0, -1, -1, -1], np.int32), 1)
    for name in "ac":
        measure(state, LinearQuery((*cuboid(shape, (name,)).blocks, low)))
    offers = Offers([cuboid(shape, ("a", "c"))], shape, 40)
    assert (state.cells, offers.fitting(state).tolist()) == (12, [True])
    measure(state, cuboid(shape, ("b",)))
    assert (state.cells, offers.fitting(state).tolist()) == (30, [False])


def test_half_a_million_candidates_are_cheap_to_keep() -> None:
    """With 400 attributes, 80,200 candidates: a round that changes one pair asks the state for nothing else."""
    shape = {f"b{number}": 2 for number in range(400)}
    identity = {name: Block((name,), np.arange(2, dtype=np.int32), 2) for name in shape}
    asked = [
        LinearQuery(tuple(identity[n] for n in names)) for way in (1, 2) for names in itertools.combinations(shape, way)
    ]
    state = Adaptive.uniform({name: np.array([0.9, 0.1]) for name in shape}, 1000.0)
    offers = Offers(asked, shape, 10**7)
    kept = Kept(offers, asked)
    kept.follow(state)
    assert offers.fitting(state).all()
    state.fit([Target(asked[-1], np.array([700.0, 100.0, 100.0, 100.0]), 2.0)])
    assert len(kept.follow(state)) == 2 * 399 - 1 + 2
    np.testing.assert_allclose(kept.answers[-1], state.answer(asked[-1]), rtol=1e-9)
    np.testing.assert_allclose(kept.answers[-2], state.answer(asked[-2]), rtol=1e-9)
    assert np.concatenate(kept.answers).sum() == pytest.approx(1000.0 * len(asked))
