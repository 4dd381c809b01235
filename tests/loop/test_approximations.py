"""What the state answers to a workload, kept from round to round, against asking the state afresh."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import cuboid, domains, marginals, queries, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.loop.approximations import Approximations, GroupedQueries
from mwem_sql.loop.candidates import Limits
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.state import State


def fresh(state: State, asked: list[LinearQuery]) -> np.ndarray:
    return np.concatenate([*state.answers(asked), np.empty(0)])


class Kept:
    """All answers, as somebody has them who is told only what is new."""

    def __init__(self, asked: list[LinearQuery], shape: dict[str, int], lag: float = 0.0, **thresholds: int) -> None:
        self.asked = GroupedQueries(asked, shape)
        self.approximations = Approximations(self.asked, lag, **thresholds)
        self.answers: list[np.ndarray] = [np.empty(0)] * len(asked)
        self.cells = [query.cells for query in asked]

    def follow(self, state: State, wanted: np.ndarray | None = None) -> list[int]:
        numbers, answers = self.approximations.news(state, wanted=wanted)
        told = np.split(
            np.concatenate([*answers, np.empty(0)]), np.cumsum([self.cells[number] for number in numbers])[:-1]
        )
        for number, answer in zip(numbers, told, strict=len(numbers) > 0):
            self.answers[number] = answer
        return sorted(numbers.tolist())


@settings(deadline=None, max_examples=examples(60))
@given(domains(), seeds, st.data(), st.sampled_from([0, 1000]))
def test_answers_follow_the_state(sizes: dict[str, np.ndarray], seed: int, data: st.DataObject, many: int) -> None:
    """From two-way marginals where there are many, and from the state itself."""
    generator = np.random.default_rng(seed)
    shape = {name: len(size) for name, size in sizes.items()}
    asked = marginals(shape, *data.draw(st.sampled_from([(0, 1, 2, 3), (3, 1)]))) + data.draw(
        st.lists(queries(shape), max_size=8)
    )
    state = State.unsplit(sizes, 100.0)
    kept = Kept(asked, shape, two_way_from=many)
    fit = Fit(state)
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
            fit.fit(targets)
        if generator.random() < 0.5:
            state.rescale(float(generator.uniform(50, 200)))


@settings(deadline=None, max_examples=examples(30))
@given(domains(), seeds, st.sampled_from([0, 1000]))
def test_what_is_not_wanted_is_given_once_it_is(sizes: dict[str, np.ndarray], seed: int, many: int) -> None:
    generator = np.random.default_rng(seed)
    shape = {name: len(size) for name, size in sizes.items()}
    asked = marginals(shape, 1, 2, 3)
    if not asked:
        return
    state = State.unsplit(sizes, 100.0)
    kept = Kept(asked, shape, two_way_from=many)
    fit, targets = Fit(state), list[Target]()
    for _ in range(6):
        wanted = generator.random(len(asked)) < 0.4
        assert set(kept.follow(state, wanted)) <= set(np.flatnonzero(wanted))
        for number in np.flatnonzero(wanted):
            np.testing.assert_allclose(kept.answers[number], state.answer(asked[number]), rtol=1e-9, atol=1e-9)
        assert kept.follow(state, wanted) == []
        query = asked[generator.integers(len(asked))]
        targets.append(Target(query, 100 * generator.dirichlet(np.ones(query.cells)), 4.0))
        fit.fit(targets)
        state.rescale(float(generator.choice([100.0, 120.0])))
    kept.follow(state)
    np.testing.assert_allclose(np.concatenate(kept.answers), fresh(state, asked), rtol=1e-9, atol=1e-9)


def test_answers_may_lag_behind() -> None:
    """By the records that are allowed: less is not told, more is."""
    shape = dict.fromkeys("abc", 2)
    asked = marginals(shape, 1, 2)
    state = State.unsplit({name: np.ones(2) for name in shape}, 100.0)
    kept = Kept(asked, shape, lag=5.0)
    assert kept.follow(state) == [0, 1, 2, 3, 4, 5]
    state.rescale(104.0)
    assert kept.follow(state) == []
    state.rescale(106.0)
    assert kept.follow(state) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("many", [0, 1000])
def test_only_what_changed_is_asked_again(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    shape = dict.fromkeys("abcdef", 3)
    asked = marginals(shape, 3)
    kept = Kept(asked, shape, two_way_from=many, bulk=0)
    state = State.unsplit({name: np.ones(3) for name in shape}, 100.0)
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


@pytest.mark.thorough
def test_half_a_million_candidates_are_cheap_to_keep() -> None:
    """With 400 attributes, 80,200 candidates: a round that changes one pair asks the state for nothing else."""
    shape = {f"b{number}": 2 for number in range(400)}
    identity = {name: Block((name,), np.arange(2, dtype=np.int32), 2) for name in shape}
    asked = [
        LinearQuery(tuple(identity[n] for n in names)) for way in (1, 2) for names in itertools.combinations(shape, way)
    ]
    state = State.unsplit({name: np.array([0.9, 0.1]) for name in shape}, 1000.0)
    kept = Kept(asked, shape)
    kept.follow(state)
    assert Limits(kept.asked, 10**7).fitting(state).all()
    Fit(state).fit([Target(asked[-1], np.array([700.0, 100.0, 100.0, 100.0]), 2.0)])
    assert len(kept.follow(state)) == 2 * 399 - 1 + 2
    np.testing.assert_allclose(kept.answers[-1], state.answer(asked[-1]), rtol=1e-9)
    np.testing.assert_allclose(kept.answers[-2], state.answer(asked[-2]), rtol=1e-9)
    assert np.concatenate(kept.answers).sum() == pytest.approx(1000.0 * len(asked))


@settings(deadline=None, max_examples=examples(40))
@given(domains(), st.data())
def test_groups_hold_every_query_once_with_its_attributes(sizes: dict[str, np.ndarray], data: st.DataObject) -> None:
    shape = {name: len(size) for name, size in sizes.items()}
    listed = marginals(shape, 0, 1, 2, 3) + data.draw(st.lists(queries(shape), max_size=8))
    asked = GroupedQueries(listed, shape)
    assert sorted(number for group in asked.groups for number in group.numbers.tolist()) == list(range(len(listed)))
    for group in asked.groups:
        assert np.array_equal(np.arange(len(listed))[group.span], group.numbers)
        for place, number in enumerate(group.numbers.tolist()):
            names = [asked.names[member] for member in group.members[place].tolist()]
            assert names == list(listed[number].attributes)
            assert sorted(names, key=asked.index.__getitem__) == [
                asked.names[member] for member in group.sets[group.set_of][place].tolist()
            ]
            if group.shape is not None:
                assert group.shape == listed[number].shape
        flags = np.zeros(len(shape) ** 2, dtype=bool)
        flags[::2] = True
        told = [any(flags[link[group.set_of][place]] for link in group.links) for place in range(len(group.numbers))]
        assert sorted(group.touched(flags.reshape(len(shape), -1)).tolist()) == np.flatnonzero(told).tolist()
