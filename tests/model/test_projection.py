"""A state agrees with public counts to the last digits, and is as near to what it was as they allow."""

from __future__ import annotations

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.totals import CountedPartition
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.model.projection import can_agree, project
from mwem_sql.model.state import State

SIZES = {"a": 3, "b": 4, "c": 2}


def partition(table: np.ndarray, names: tuple[str, ...], labels: np.ndarray, *, rest: bool = False) -> CountedPartition:
    axes = tuple(axis for axis, name in enumerate(SIZES) if name not in names)
    query = LinearQuery((Block(names, labels.astype(np.int32), int(labels.max()) + 1),))
    rows = query.answer(table.sum(axis=axes))
    return CountedPartition(query=query, rows=rows[:-1] if rest else rows, rest=rest)


def some(generator: np.random.Generator, table: np.ndarray) -> CountedPartition:
    names = tuple(sorted(generator.choice(list(SIZES), generator.integers(1, 3), replace=False).tolist()))
    shape = tuple(SIZES[name] for name in names)
    labels = np.unique(generator.integers(0, 5, shape), return_inverse=True)[1].reshape(shape)
    return partition(table, names, labels, rest=bool(generator.integers(0, 2)) and labels.max() > 0)


def state_of(generator: np.random.Generator, total: float) -> State:
    state = State.unsplit({name: generator.random(size) + 0.1 for name, size in SIZES.items()}, total)
    query = whole_domain(SIZES)
    state.match(query, generator.dirichlet(np.ones(24)) * total)
    return state


def relative_entropy(p: np.ndarray, q: np.ndarray) -> float:
    return float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_counts_of_a_table_are_met_and_the_state_comes_no_further_from_it(seed: int) -> None:
    """Csiszar: the distance to the table falls by that of the projection."""
    generator = np.random.default_rng(seed)
    table = generator.poisson(8.0, tuple(SIZES.values())) + 1.0
    partitions = [some(generator, table) for _ in range(3)]
    state, query = state_of(generator, table.sum()), whole_domain(SIZES)
    before = state.answer(query)
    assert can_agree(state, partitions)
    assert project(state, partitions) < 1e-6 * table.sum()
    for each in partitions:
        assert np.allclose(state.answer(each.query), each.values(table.sum()), atol=1e-5)
    after, true = state.answer(query), table.reshape(-1)
    assert relative_entropy(true, after) <= relative_entropy(true, before) - relative_entropy(after, before) + 1e-3


def test_a_state_that_agrees_is_left_as_it_is() -> None:
    generator = np.random.default_rng(0)
    table = generator.poisson(8.0, tuple(SIZES.values())) + 1.0
    partitions = [some(generator, table) for _ in range(2)]
    state = state_of(generator, table.sum())
    project(state, partitions)
    stamps = [potential.stamp for tree in state.trees for potential in tree.potentials]
    project(state, partitions)
    assert [potential.stamp for tree in state.trees for potential in tree.potentials] == stamps


@pytest.mark.parametrize("wrong", [False, True])
def test_counts_that_contradict_each_other_are_seen(wrong: bool) -> None:
    """Around a triangle: a = b, b = c, and a <> c."""
    same = {"a": 2, "b": 2, "c": 2}
    state = State.unsplit({name: np.ones(size) for name, size in same.items()}, 100.0)

    def pair(names: tuple[str, str], equal: float) -> CountedPartition:
        query = LinearQuery((Block(names, np.array([[0, 1], [1, 0]], dtype=np.int32), 2),))
        return CountedPartition(query=query, rows=np.array([equal, 100 - equal]), rest=False)

    last = pair(("a", "c"), 0.0 if wrong else 100.0)
    assert can_agree(state, [pair(("a", "b"), 100.0), pair(("b", "c"), 100.0), last]) != wrong
