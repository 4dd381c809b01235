"""The factored state against the paper's listing on dense arrays, and against the paper's lemma and theorem."""

# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

import itertools
from math import log, prod

import numpy as np
import oracle
import pyarrow as pa
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Floats, close, dense, domains, problems, queries, seeds, states

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.table import FACTOR_SCHEMA
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

Problem = tuple[dict[str, Floats], float, list[tuple[LinearQuery, Floats]]]


quick = settings(deadline=None, max_examples=examples(60))


def cuboid(shape: dict[str, int], *names: str) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def count(name: str, *counted: int) -> LinearQuery:
    """How many rows are in the classes marked 1."""
    return LinearQuery((Block((name,), np.array(counted, np.int32) - 1, 1),))


@quick
@given(problems(most=3, attributes=4), st.data())
def test_restricted_is_conditional(problem: Problem, data: st.DataObject) -> None:
    """What is not kept is gone, the rest keeps its proportions, and the share is returned; twice in a row."""
    sizes, total, measurements = problem
    state = State.uniform(sizes, total)
    state.replay(measurements, 3)
    expected = dense(state).reshape([len(size) for size in sizes.values()])
    for _ in range(2):
        names = data.draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, unique=True))
        shape = [len(sizes[name]) for name in names]
        flags = data.draw(st.lists(st.booleans(), min_size=prod(shape), max_size=prod(shape)))
        kept = np.array(flags, dtype=np.bool_).reshape(shape)
        axes = [list(sizes).index(name) for name in names]
        wide = kept.transpose(np.argsort(axes)).reshape(
            [size if axis in axes else 1 for axis, size in enumerate(expected.shape)]
        )
        share = float((expected * wide).sum() / expected.sum())
        if share < 1e-6:
            return
        assert state.restrict(names, kept) == pytest.approx(share, rel=1e-9)
        expected = expected * wide / share
        close(dense(state).reshape(expected.shape), expected, total)


@quick
@given(problems(fewest=1, most=1))
def test_update_is_the_papers_step(problem: Problem) -> None:
    sizes, total, [(query, measured)] = problem
    state = State.uniform(sizes, total)
    q = oracle.dense_query(query, {name: len(size) for name, size in sizes.items()})
    A = oracle.uniform(sizes, total)
    for _ in range(3):
        state.update(query, measured)
        A = oracle.update(A, q, measured)
        close(dense(state), A, total)


@quick
@given(problems(most=4, attributes=4), st.sampled_from([1, 2, 30]))
def test_replay_is_the_papers_listing(problem: Problem, passes: int) -> None:
    sizes, total, measurements = problem
    shape = {name: len(size) for name, size in sizes.items()}
    state = State.uniform(sizes, total)
    state.replay(measurements, passes)
    history = [(oracle.dense_query(query, shape), measured) for query, measured in measurements]
    A = oracle.multiplicative_weights(oracle.uniform(sizes, total), history, passes)
    close(dense(state), A, total)


@settings(deadline=None, max_examples=examples(10))
@given(seeds)
def test_whole_runs_of_the_listing(seed: int) -> None:
    """Rounds of the paper's algorithm, replayed 100 times each; the state follows from the measurements alone."""
    generator = np.random.default_rng(seed)
    shape = {"p": 3, "q": 2, "r": 4, "s": 2}
    sizes = {name: np.ones(size) for name, size in shape.items()}
    B = generator.multinomial(500, generator.dirichlet(np.ones(48) / 3)).astype(np.float64)
    asked = [cuboid(shape, *names) for names in itertools.combinations(shape, 2)]
    Q = [oracle.dense_query(query, shape) for query in asked]
    A, measurements = oracle.mwem(B, oracle.uniform(sizes, 500.0), Q, T=4, epsilon=2.0, generator=generator)
    state = State.uniform(sizes, 500.0)
    history = []
    kept = []
    for i, (q, measured) in enumerate(measurements.items(), 1):
        kept.append(state.copy())
        history.append((asked[q], measured))
        state.replay(history)
        close(dense(state), A[i], 500.0)
    close(dense(Mixture(kept)), oracle.average(A), 500.0)


@quick
@given(problems())
def test_order_of_attributes_changes_nothing(problem: Problem) -> None:
    sizes, total, measurements = problem
    forth, back = State.uniform(sizes, total), State.uniform(dict(reversed(sizes.items())), total)
    assert back.attributes == forth.attributes[::-1]
    for state in (forth, back):
        state.replay(measurements, passes=3)
    close(back.marginal(forth.attributes).ravel(), dense(forth), total)


@quick
@given(states())
def test_table_round_trip(case: tuple[State, dict[str, int]]) -> None:
    state, shape = case
    table = state.table()
    assert table.schema == FACTOR_SCHEMA
    assert table.num_rows == len(state.tables)
    back = State.from_table(table, state.attributes)
    assert back.attributes == state.attributes
    assert back.total == pytest.approx(state.total, rel=1e-12)
    np.testing.assert_allclose(dense(back), dense(state), rtol=1e-12)
    in_table_order = State.from_table(table)
    assert in_table_order.attributes == tuple(
        dict.fromkeys(n for names in table["attributes"].to_pylist() for n in names)
    )
    before = table["weights"].to_pylist()
    for changed in (state, back):
        changed.update(cuboid(shape, *shape), np.zeros(prod(shape.values())))
    assert table["weights"].to_pylist() == before


@quick
@given(problems(fewest=1, most=3), st.data())
def test_weights_stay_positive_under_any_measurement(problem: Problem, data: st.DataObject) -> None:
    sizes, total, measurements = problem
    state = State.uniform(sizes, total)
    extreme = st.sampled_from([-1e300, -1e6, -1.0, 0.0, 0.5, 1e6, 1e300])
    wild = [
        (query, np.array(data.draw(st.lists(extreme, min_size=query.cells, max_size=query.cells))))
        for query, _ in measurements
    ]
    for _ in range(3):
        state.replay(wild, passes=40)
        for table in state.tables:
            assert np.isfinite(table.cells).all()
            assert (table.cells > 0).all()
            assert table.cells.sum() == pytest.approx(total, rel=1e-12)
        for tree in state.trees:
            for potential in tree.potentials:
                assert potential.lowest <= log(potential.table.cells.min() / total) + 1e-6
    state.replay(measurements, passes=2)
    assert dense(state).sum() == pytest.approx(total, rel=1e-12)


def test_a_cell_comes_back_from_the_floor() -> None:
    state = State.uniform({"a": np.ones(3)}, 1.0)
    query = cuboid({"a": 3}, "a")
    for _ in range(100):
        state.update(query, np.array([1e6, -1e6, 0.5]))
    assert state.marginal(["a"])[1] < 1e-200
    state.replay([(query, np.array([0.0, 1.0, 0.0]))], passes=5000)
    assert state.marginal(["a"])[1] > 0.9


@settings(deadline=None, max_examples=30)
@given(problems(fewest=1, most=3), seeds)
def test_replays_of_exact_measurements_lower_the_relative_entropy(problem: Problem, seed: int) -> None:
    """The paper's lemma: by at least ((q(A) - q(B)) / 2n)^2 in each step, here for several cells at once, too."""
    sizes, total, measurements = problem
    shape = {name: len(size) for name, size in sizes.items()}
    generator = np.random.default_rng(seed)
    cells = prod(shape.values())
    B = total * generator.dirichlet(np.ones(cells)) * (generator.random(cells) < 0.6)
    B = B + (total - B.sum()) * np.eye(cells)[0]
    state = State.uniform(sizes, total)
    for _ in range(5):
        for query, _ in measurements:
            exact = oracle.evaluate(oracle.dense_query(query, shape), B)
            A = dense(state)
            gain = float((((state.answer(query) - exact) / (2 * total)) ** 2).sum())
            state.update(query, exact)
            assert oracle.relative_entropy(B, A) - oracle.relative_entropy(B, dense(state)) >= gain - 1e-12


@settings(deadline=None, max_examples=examples(25))
@given(seeds, st.sampled_from([1, 5, 40]), st.booleans())
def test_theorem_without_noise(seed: int, T: int, parity: bool) -> None:
    """The worst query measured exactly each round: the average is within 2n sqrt(log|D| / T) on all queries."""
    generator = np.random.default_rng(seed)
    shape = {"p": 3, "q": 2, "r": 3}
    n, D = 100.0, 18
    B = n * generator.dirichlet(np.full(D, 0.1))
    labels = np.zeros((40, 3, 2, 3), np.int32) if parity else generator.integers(-1, 1, (40, 3, 2, 3)).astype(np.int32)
    signs = generator.choice([-1, 1], labels.shape).astype(np.int8) if parity else np.ones(labels.shape, np.int8)
    asked = [
        LinearQuery((Block(tuple(shape), label, 1, values=sign),)) for label, sign in zip(labels, signs, strict=True)
    ]
    exact = [oracle.evaluate(oracle.dense_query(query, shape), B)[0] for query in asked]
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, n)
    before = []
    for _ in range(T):
        before.append(state.copy())
        errors = np.abs(np.array(state.answers(asked))[:, 0] - exact)
        state.update(asked[errors.argmax()], np.array([exact[errors.argmax()]]))
    found = np.array(Mixture(before).answers(asked))[:, 0]
    assert np.abs(found - exact).max() <= oracle.theorem(n, D, T)


def test_theorem_is_not_met_by_standing_still() -> None:
    """The bound above can fail: after enough rounds the uniform start is outside it."""
    exact, uniform = 100.0, 100.0 / 18
    assert exact - uniform > oracle.theorem(100.0, 18, 40)


@pytest.mark.parametrize("measured", [[1.0], [1.0, 2.0, 3.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_measurements_are_finite_and_one_per_cell(measured: list[float]) -> None:
    state = State.uniform({"a": np.ones(2)}, 1.0)
    with pytest.raises(ValueError, match="one finite number per cell"):
        state.update(cuboid({"a": 2}, "a"), np.array(measured))


def test_table_refusals() -> None:
    state = State.uniform({"a": np.ones(2), "b": np.ones(2)}, 1.0)
    with pytest.raises(ValueError, match="every attribute in one tree"):
        State.from_table(state.table(), ["a"])
    with pytest.raises(ValueError, match="no factor inside another"):
        State.from_table(pa.concat_tables([state.table(), state.table()]))
    with pytest.raises(ValueError, match="same sum"):
        State.from_table(pa.concat_tables([state.table(), State.uniform({"c": np.ones(2)}, 2.0).table()]))
    with pytest.raises(ValueError, match="at least one row"):
        State.from_table(state.table().slice(0, 0))


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
    assert not several or any(several.issubset(table.names) for table in state.tables)
    assert {name for table in state.tables for name in table.names} == set(shape)


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
    assert all(table.cells.sum() == pytest.approx(total, rel=1e-12) for table in state.tables)


def test_state_without_attributes() -> None:
    state = State.uniform({}, 12.0)
    assert state.answer(LinearQuery(())).tolist() == [12.0]
    assert (state.cells, state.cells_with(()), state.marginal(()).shape) == (0, 0, ())
    state.replay([(LinearQuery(()), np.array([3.0]))])
    assert state.total == 12.0
    back = State.from_table(state.table())
    assert (back.total, back.attributes) == (12.0, ())


def test_joining_tiny_shares_keeps_them_positive() -> None:
    state = State.uniform({name: np.array([1e-150, 1.0]) for name in "abc"}, 5.0)
    state.join("abc")
    weights = state.tables[0].cells
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(5.0)


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
    assert len(state.tables) == 3
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
