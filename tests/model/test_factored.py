"""A product of factors: marginals, answers and joins are those of the dense array."""

# ruff: noqa: N806  the paper's letters
from __future__ import annotations

import itertools

import numpy as np
import oracle
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Floats, close, dense, domains, queries, states

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.state import State

quick = settings(deadline=None, max_examples=examples(60))


def cuboid(shape: dict[str, int], *names: str) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def count(name: str, *counted: int) -> LinearQuery:
    """How many rows are in the classes marked 1."""
    return LinearQuery((Block((name,), np.array(counted, np.int32) - 1, 1),))


@quick
@given(domains(), st.sampled_from([1.0, 77.5]))
def test_uniform(sizes: dict[str, Floats], total: float) -> None:
    state = State.uniform(sizes, total)
    close(dense(state), oracle.uniform(sizes, total), total)
    assert state.attributes == tuple(sizes)
    assert state.total == total
    assert state.cells == sum(len(size) for size in sizes.values())
    assert state.shape(tuple(sizes)) == tuple(len(size) for size in sizes.values())


def test_lengths_of_any_magnitude() -> None:
    state = State.uniform({"a": np.array([5e-324, 1e308, 1e308])}, 4.0)
    assert state.marginal(["a"])[0] > 0
    np.testing.assert_allclose(state.marginal(["a"]), [0, 2, 2], atol=1e-12)


@quick
@given(states(), st.data())
def test_marginal_and_answers(case: tuple[State, dict[str, int]], data: st.DataObject) -> None:
    state, shape = case
    A = dense(state)
    assert A.sum() == pytest.approx(state.total, rel=1e-12)
    for size in range(len(shape) + 1):
        names = data.draw(st.permutations(list(shape)))[:size]
        expected = np.einsum(f"{''.join(shape)}->{''.join(names)}", A.reshape(tuple(shape.values())))
        close(state.marginal(names), expected, state.total)
    asked = data.draw(st.lists(queries(shape), max_size=6))
    expected_answers = [oracle.evaluate(oracle.dense_query(query, shape), A) for query in asked]
    for query, together, expected in zip(asked, state.answers(asked), expected_answers, strict=True):
        assert together.shape == (query.cells,)
        close(together, expected, state.total)
        close(state.answer(query), expected, state.total)


def test_blocks_that_share_factors_through_another() -> None:
    """b(a, c) joins the factors of b(b) and b(d): all three are answered together."""
    shape = {"a": 2, "b": 2, "c": 2, "d": 2}
    state = State.uniform({name: np.ones(2) for name in shape}, 16.0)
    for pair in (("a", "b"), ("c", "d")):
        state.update(cuboid(shape, *pair), np.array([9.0, 1.0, 1.0, 5.0]))
    both = Block(("a", "c"), np.array([[0, -1], [-1, 0]], np.int32), 1)
    query = LinearQuery((both, *count("b", 1, 0).blocks, *count("d", 0, 1).blocks))
    close(state.answer(query), oracle.evaluate(oracle.dense_query(query, shape), dense(state)), 16.0)


@quick
@given(states())
def test_results_are_the_callers_own(case: tuple[State, dict[str, int]]) -> None:
    """Writing to an answer or a marginal changes neither the state nor another answer."""
    state, shape = case
    before = dense(state)
    for names in itertools.chain([tuple(shape)], *(itertools.combinations(shape, size) for size in range(3))):
        query = cuboid(shape, *names)
        first, second = state.answers([query, query])
        kept = second.copy()
        first[:] = -1
        state.marginal(names)[...] = -1
        np.testing.assert_array_equal(second, kept)
    np.testing.assert_array_equal(dense(state), before)


@quick
@given(states(), st.data())
def test_join(case: tuple[State, dict[str, int]], data: st.DataObject) -> None:
    state, shape = case
    A = dense(state)
    names = data.draw(st.permutations(list(shape)))[: data.draw(st.integers(0, len(shape)))]
    cells = state.cells_with(names)
    state.join(names)
    close(dense(state), A, state.total)
    assert state.cells == state.cells_with(names) == cells
    several = {name for name in names if shape[name] > 1}
    assert not several or any(several.issubset(factor.attributes) for factor in state.factors)
    assert {name for factor in state.factors for name in factor.attributes} == set(shape)


@quick
@given(states(), st.booleans())
def test_copies_go_their_own_ways(case: tuple[State, dict[str, int]], first: bool) -> None:
    state, shape = case
    twin = state.copy()
    changed, kept = (state, twin) if first else (twin, state)
    A = dense(kept)
    query = cuboid(shape, *shape)
    changed.update(query, np.linspace(-1, 2, query.cells) * state.total)
    changed.rescale(state.total * 2)
    np.testing.assert_array_equal(dense(kept), A)
    assert kept.total * 2 == changed.total


@quick
@given(states(), st.sampled_from([1.0, 0.5, 1e7]))
def test_rescale(case: tuple[State, dict[str, int]], total: float) -> None:
    state, _ = case
    A = dense(state) / state.total
    state.rescale(total)
    assert state.total == total
    close(dense(state), A * total, total)
    assert all(factor.weights.sum() == pytest.approx(total, rel=1e-12) for factor in state.factors)


def test_state_without_attributes() -> None:
    state = State.uniform({}, 12.0)
    assert state.answer(LinearQuery(())).tolist() == [12.0]
    assert (state.cells, state.cells_with(()), state.marginal(()).shape) == (0, 0, ())
    assert state.replay([(LinearQuery(()), np.array([3.0]))]) == 0
    back = State.from_table(state.table())
    assert (back.total, back.attributes) == (12.0, ())


def test_joining_tiny_shares_keeps_them_positive() -> None:
    state = State.uniform({name: np.array([1e-150, 1.0]) for name in "abc"}, 5.0)
    state.join("abc")
    weights = state.factors[0].weights
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(5.0)


def dense_after(measurements: list[tuple[LinearQuery, Floats]], sizes: dict[str, Floats], passes: int) -> Floats:
    state = State.uniform(sizes, 100.0)
    state.replay(measurements, passes, tolerance=None)
    return dense(state)


def test_factors_stop_on_their_own() -> None:
    """A factor that has settled takes no more steps while another one still moves."""
    sizes = {"a": np.ones(2), "c": np.ones(4)}
    settled = (count("a", 1, 0), np.array([50.0]))
    slow = (cuboid({"c": 4}, "c"), np.array([70.0, 20.0, 9.0, 1.0]))
    state = State.uniform(sizes, 100.0)
    assert state.replay([settled]) == 2
    assert state.replay([settled, slow], 30) == 30
    close(dense(state), dense_after([settled, slow], sizes, 30), 100.0)


def test_a_thousand_attributes_cost_a_thousand_small_factors() -> None:
    names = [f"b{number}" for number in range(1000)]
    state = State.uniform(dict.fromkeys(names, np.array([9.0, 1.0])), 1000.0)
    assert state.cells == 2000
    assert state.cells_with(names) == 2**1000
    everywhere = LinearQuery(tuple(block for name in names for block in count(name, 1, 1).blocks))
    assert state.answer(everywhere)[0] == pytest.approx(1000.0)
    some = LinearQuery(tuple(block for name in names[:20] for block in count(name, 1, 0).blocks))
    assert state.answer(some)[0] == pytest.approx(1000.0 * 0.9**20)
    state.update(cuboid(dict.fromkeys(names, 2), "b0", "b500"), np.zeros(4))
    assert state.cells == 2000


def test_attributes_of_one_class_never_join() -> None:
    state = State.uniform({"b": np.ones(1), "a": np.ones(2), "c": np.ones(1)}, 10.0)
    state.update(LinearQuery(count("b", 1).blocks + count("a", 1, 0).blocks), np.array([8.0]))
    assert state.answer(count("a", 1, 0))[0] > 5
    assert len(state.factors) == 3
    constant = State.uniform({"b": np.ones(1)}, 10.0)
    constant.update(count("b", 1), np.array([3.0]))
    assert constant.answer(count("b", 1)).tolist() == [10.0]


@pytest.mark.parametrize("total", [0.0, -1.0, float("nan"), float("inf")])
def test_total_is_positive(total: float) -> None:
    with pytest.raises(ValueError, match="total is positive"):
        State.uniform({"a": np.ones(2)}, total)
    with pytest.raises(ValueError, match="total is positive"):
        State.uniform({}, 1.0).rescale(total)


@pytest.mark.parametrize("sizes", [[], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [[1.0]]])
def test_sizes_are_positive(sizes: list[float]) -> None:
    with pytest.raises(ValueError, match="classes of positive size"):
        State.uniform({"a": np.array(sizes)}, 1.0)
