"""Which queries there is room for, against working it out for each of them."""

from __future__ import annotations

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import cuboid, marginals, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.loop import limits as module
from mwem_sql.loop.alike import Asked
from mwem_sql.loop.limits import Limits
from mwem_sql.model.state import State


def measure(state: State, query: LinearQuery) -> None:
    """Make room for a query, as its measurement does."""
    state.refine(query)
    state.join(query.attributes)


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(0, 12), st.sampled_from([0, 10**6]), st.sampled_from([30, 60, 100, 200, 10**6]), st.data())
def test_what_is_offered_fits(seed: int, measured: int, few: int, limit: int, data: st.DataObject) -> None:
    """Never more than the limits; all that fits if the triangulation is worked out; what lies in a clique in any case."""
    generator = np.random.default_rng(seed)
    shape = {name: int(generator.integers(2, 4)) for name in "abcdef"}
    asked = marginals(shape, 1, 2, 3)
    state = State.unsplit({name: np.ones(size) for name, size in shape.items()}, 100.0)
    step = data.draw(st.sampled_from([None, 0, 20]))
    limits = Limits(Asked(asked, shape), limit, step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", few)
        for _ in range(measured):
            offered = limits.fitting(state)
            cells = np.array(
                [
                    state.cells_with(query.attributes, {name: shape[name] for name in query.attributes})
                    for query in asked
                ]
            )
            own = np.array([query.cells for query in asked])
            exact = (cells <= limit) & (cells - state.cells <= (limit if step is None else step) + own)
            cliques = [set(table.names) - state.partitions.coarse for table in state.tables]
            inside = np.array([any(clique.issuperset(query.attributes) for clique in cliques) for query in asked])
            assert not (offered & ~exact).any()
            assert offered[inside].all()
            if few:
                np.testing.assert_array_equal(offered, exact)
            if not offered.any():
                break
            measure(state, asked[generator.choice(np.flatnonzero(offered))])
            assert state.cells <= limit


@settings(deadline=None, max_examples=examples(25))
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
    state = State.unsplit({name: np.ones(size) for name, size in shape.items()}, 100.0)
    limits = Limits(Asked(asked, shape), limit, step)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", few)
        for _ in range(15):
            offered = np.flatnonzero(limits.fitting(state))
            for number in offered:
                twin = state.copy()
                measure(twin, asked[number])
                assert twin.cells <= limit
                cells = np.prod([len(twin.partitions[name].runs) for name in asked[number].attributes])
                assert step is None or twin.cells - state.cells <= step + cells
            if not offered.size:
                break
            measure(state, asked[generator.choice(offered)])


def test_what_was_worked_out_holds_for_the_same_groups_only() -> None:
    """a - b - c in two cliques: with b in two groups there is room for a and c side by side, with b in five there is none."""
    shape = {"a": 3, "b": 5, "c": 3}
    state = State.unsplit({name: np.ones(size) for name, size in shape.items()}, 100.0)
    low = Block(("b",), np.array([0, 0, -1, -1, -1], np.int32), 1)
    for name in "ac":
        measure(state, LinearQuery((*cuboid(shape, (name,)).blocks, low)))
    limits = Limits(Asked([cuboid(shape, ("a", "c"))], shape), 40)
    assert (state.cells, limits.fitting(state).tolist()) == (12, [True])
    measure(state, cuboid(shape, ("b",)))
    assert (state.cells, limits.fitting(state).tolist()) == (30, [False])
