"""All two-way marginals, kept from change to change, against asking the state for each."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model import two_way as module
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.state import State
from mwem_sql.model.two_way import TwoWay


def cuboid(shape: dict[str, int], names: tuple[str, ...]) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def errors(pairs: TwoWay, state: State) -> list[float]:
    """For each attribute and each pair of attributes the sum of absolute errors, as a share of the total."""
    found = []
    for names in itertools.chain(itertools.combinations(pairs.index, 1), itertools.permutations(pairs.index, 2)):
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
    """Random pairs and triples measured: chains, stars and cycles; after each change every pair against its marginal."""
    generator = np.random.default_rng(seed)
    shape = {f"x{number}": int(generator.integers(2, 4)) for number in range(attributes)}
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, 50.0)
    pairs = TwoWay(shape)
    before = np.zeros(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WIDE", wide)
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
        for name in state.grids.splits[followed:]:
            pairs.regrid(name, state.grids[name])
        followed = len(state.grids.splits)
        pairs.refresh(state.trees, lag)
        for names in itertools.chain(itertools.combinations(shape, 1), itertools.permutations(shape, 2)):
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
    """Half of the records in two values, then all of that half in one: the weights of groups, one after the other, are the same."""
    state = State.unsplit({"a": np.ones(4)}, 100.0)
    pairs = TwoWay({"a": 4}, read=())
    measurements = []
    for high in (4, 3):
        inside = (np.arange(4) >= 2) & (np.arange(4) < high)
        measurements.append((LinearQuery((Block(("a",), inside.astype(np.int32) - 1, 1),)), np.array([50.0])))
        state.replay(measurements, 2000)
        pairs.regrid("a", state.grids["a"])
        assert pairs.refresh(state.trees, 1e-2).all()
        np.testing.assert_allclose(state.group_marginal("a")[:2], 50.0, rtol=1e-2)


@pytest.mark.parametrize("length", [24, pytest.param(60, marks=pytest.mark.thorough)])
def test_what_is_far_away_is_left_alone(length: int) -> None:
    """A long chain of weak links: a change at one end is followed a few cliques far, whatever the length of the chain."""
    shape = {f"x{number}": 2 for number in range(length)}
    state = State.uniform({name: np.ones(2) for name in shape}, 1000.0)
    weak = np.array([300.0, 200.0, 200.0, 300.0])
    Fit(state).fit([Target(cuboid(shape, pair), weak, 1.0) for pair in itertools.pairwise(shape)], tolerance=1e-10)
    for pair in itertools.pairwise(shape):
        np.testing.assert_allclose(state.marginal(pair).ravel(), weak, rtol=1e-3)
    pairs = TwoWay(shape)
    pairs.refresh(state.trees, 1e-3)
    assert not pairs.refresh(state.trees, 1e-3).any()
    state.update(cuboid(shape, ("x0", "x1")), np.array([500.0, 0.0, 0.0, 500.0]))
    changed = pairs.refresh(state.trees, 1e-3)
    assert changed[0].any()
    assert not changed[length // 3 :, length // 3 :].any()
    assert max(errors(pairs, state)) < 1e-2
