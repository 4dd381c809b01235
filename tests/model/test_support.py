"""Counts that are 0 for sure: no fit, split or row gives them anything."""

from __future__ import annotations

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.loop.transcript import dense
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.state import State
from mwem_sql.model.support import Support
from mwem_sql.synthesis.deal import draw_codes

NAMES = "abcde"


def count(names: tuple[str, ...], broken: np.ndarray) -> LinearQuery:
    return LinearQuery((Block(names, np.where(broken, 0, -1).astype(np.int32), 1),))


def cuboid(names: tuple[str, ...], sizes: dict[str, int]) -> LinearQuery:
    shape = tuple(sizes[name] for name in names)
    cells = int(np.prod(shape))
    return LinearQuery((Block(names, np.arange(cells, dtype=np.int32).reshape(shape), cells),))


def some_names(generator: np.random.Generator, count: int) -> tuple[str, ...]:
    return tuple(sorted(generator.choice(list(NAMES), count, replace=False).tolist()))


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_nothing_gives_an_impossible_cell_any_weight_or_row(seed: int) -> None:
    """Whatever noise says of such a cell, in any clique, and whatever several rules imply together."""
    generator = np.random.default_rng(seed)
    sizes = {name: int(generator.integers(2, 6)) for name in NAMES}
    counts = [
        count(names, generator.random([sizes[name] for name in names]) < 0.4)
        for names in (some_names(generator, 2) for _ in range(3))
    ]
    base = {name: generator.random(size) + 0.1 for name, size in sizes.items()}
    try:
        support, kept = Support.of(State.unsplit(base, 1.0), counts, 1000)
    except ValueError:
        return
    assert kept == [0, 1, 2]
    state = State.unsplit(base, 1000.0, support)
    fit, targets = Fit(state), list[Target]()
    for _ in range(4):
        query = cuboid(some_names(generator, int(generator.integers(1, 4))), sizes)
        noise = generator.normal(0, 30, query.cells)
        targets.append(Target(query, 1000 / query.cells + noise, 900.0))
        fit.fit(targets)
    matched = cuboid(some_names(generator, 2), sizes)
    state.match(matched, np.full(matched.cells, 1000 / matched.cells))
    state.update(targets[0].query, targets[0].values)
    for query, answer in zip(counts, state.answers(counts), strict=True):
        assert answer < 1e-150
        assert abs(state.marginal(query.attributes).sum() - 1000) < 1e-6
    (codes,) = draw_codes(state.merged(), 300, generator)
    for query in counts:
        (block,) = query.blocks
        groups = [state.partitions[name].representatives[codes[name]] for name in block.attributes]
        assert (block.labels[tuple(groups)] < 0).all()


def test_what_two_counts_say_together_is_worked_out() -> None:
    """If a = 0 then b = 0, and if b = 0 then c = 0: so no record has a = 0 and c = 1."""
    apart = np.array([[False, True], [False, False]])
    counts = [count(("a", "b"), apart), count(("b", "c"), apart)]
    sizes = dict.fromkeys("abc", np.ones(2))
    state = State.unsplit(sizes, 8.0, Support.of(State.unsplit(sizes, 1.0), counts, 100)[0])
    far = cuboid(("a", "c"), dict.fromkeys("abc", 2))
    Fit(state).fit([Target(far, np.array([1.0, 5.0, 1.0, 1.0]), 0.01)])
    assert state.answer(far)[1] < 1e-150
    assert state.total == pytest.approx(state.marginal(["a"]).sum())


def test_counts_without_room_are_left_out_and_those_that_leave_nothing_are_refused() -> None:
    sizes = dict.fromkeys("ab", np.ones(4))
    broken = np.eye(4, dtype=bool)
    assert Support.of(State.unsplit(sizes, 1.0), [count(("a", "b"), broken)], 15)[1] == []
    with pytest.raises(ValueError, match="leave nothing"):
        Support.of(State.unsplit(sizes, 1.0), [count(("a", "b"), broken), count(("a", "b"), ~broken)], 16)


def test_a_state_from_a_histogram_keeps_within_the_support() -> None:
    sizes = dict.fromkeys("ab", np.ones(3))
    broken = np.eye(3, dtype=bool)
    uniform = State.unsplit(sizes, 9.0, Support.of(State.unsplit(sizes, 1.0), [count(("a", "b"), broken)], 9)[0])
    query = whole_domain(dict.fromkeys("ab", 3))
    state = dense(query, np.arange(9.0), uniform)  # an impossible cell may have nothing at all
    Fit(state).fit([Target(query, np.arange(9.0), 1.0)])
    assert state.answer(query)[[0, 4, 8]].max() < 1e-150
    assert state.answer(query).sum() == pytest.approx(9)
