"""What a round is offered: what fits the model, by its error and importance, less the noise expected."""

# ruff: noqa: N806  the paper's letters
from __future__ import annotations

from math import pi, sqrt

import numpy as np
import oracle
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import (
    MANY,
    PlannedProblem,
    Scripted,
    cuboid,
    iterates,
    numbers,
    ones,
    points,
    purposes,
    run,
    shares,
)
from strategies import close, dense, marginals, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.noise import OpenDPNoise
from mwem_sql.kernel.scales import noise_scale
from mwem_sql.loop.approximations import GroupedQueries
from mwem_sql.loop.candidates import Limits
from mwem_sql.loop.problem import Problem
from mwem_sql.model.state import State


def chain(max_cells: int, total: float | None, average: bool = False) -> Problem:
    """Cuboids a-b, b-c, c-d of three classes each.

    4 cells at the start, then 11, 19 or 18 for two of them, 27 for all.
    """
    shape = dict.fromkeys("abcd", 3)
    workload = [cuboid(shape, *pair) for pair in ("ab", "bc", "cd")]
    return Problem(
        queries=workload, weights=np.ones(3), sizes=ones(shape), max_cells=max_cells, total=total, average=average
    )


@pytest.mark.parametrize("total", [None, 300.0])
@pytest.mark.parametrize("average", [False, True])
def test_queries_that_would_not_fit_are_not_offered(total: float | None, average: bool) -> None:
    B = np.random.default_rng(3).multinomial(300, np.full(81, 1 / 81))
    for max_cells, rounds, again in [(26, [1, 0], [1, 0, 1]), (18, [1], [1, 1, 1, 1]), (27, [1, 0, 2], [1, 0])]:
        script = Scripted([1, 0, 0])
        outcome, accountant = run(chain(max_cells, total, average), B, 5, script)
        assert numbers(outcome, "round") == rounds
        assert numbers(outcome, "again") == again
        assert accountant.remaining == 0
        assert max(state.cells for state in iterates(outcome)) <= max_cells
    # a-b and c-d share no attribute: both fit, and then b-c would be one clique too many.
    script = Scripted([0, 1])
    outcome, _ = run(chain(26, total, average), B, 3, script)
    assert numbers(outcome, "round") == [0, 2]
    assert [scores.size for scores in script.scores] == [3, 2]


@pytest.mark.parametrize("average", [False, True])
def test_no_query_fits_and_the_total_is_private(average: bool) -> None:
    B = np.full(81, 10)
    given = iter([100, 40, 40, 40])
    outcome, accountant = run(chain(8, None, average), B, 3, Scripted((), lambda _: np.array([next(given)])))
    assert purposes(outcome) == ["total", "again", "again", "again"]
    assert numbers(outcome, "total", "again") == [3, 3, 3, 3]
    assert accountant.remaining == 0
    assert 850 < outcome.total < 855  # nearly all of the budget went to the last three
    close(dense(outcome.state), np.full(81, outcome.total / 81), outcome.total)


@pytest.mark.parametrize("average", [False, True])
def test_no_query_fits_and_the_total_is_public(average: bool) -> None:
    """There is nothing to measure: the start is the result, and the account is not touched."""
    outcome, accountant = run(chain(8, 810.0, average), np.full(81, 10), 3, OpenDPNoise())
    assert outcome.measurements == ()
    assert accountant.remaining == accountant.limit
    close(dense(outcome.state), np.full(81, 10.0), 810.0)


def test_the_worst_query_is_selected() -> None:
    """Scores are the errors of A_{i-1}; with no noise to speak of, the worst comes first, and then what is left."""
    B = np.array([700, 200, 60, 40])
    problem = Problem(queries=points(4), weights=np.ones(4), sizes={"x": np.ones(4)}, max_cells=MANY, total=1000.0)
    script = Scripted()
    outcome, _ = run(problem, B, 4, script, Budget.parse(1000))
    assert numbers(outcome, "round")[0] == 0
    np.testing.assert_array_equal(script.scores[0], np.abs(B - 250))
    A = oracle.multiplicative_weights(np.full(4, 250.0), [(np.eye(4)[:1], np.array([700.0]))])
    np.testing.assert_array_equal(script.scores[1], np.abs(np.rint(A[1:]) - B[1:]))


def test_importance_changes_what_is_selected() -> None:
    B = np.array([500, 260, 140, 100])
    for weights, first in [([1, 1, 1, 1], 0), ([1, 1, 1, 3], 3), ([0.01, 0.01, 5, 0.01], 2)]:
        problem = Problem(
            queries=points(4),
            weights=np.array(weights, dtype=np.float64),
            sizes={"x": np.ones(4)},
            max_cells=MANY,
            total=1000.0,
        )
        assert numbers(run(problem, B, 1, Scripted(), Budget.parse(100))[0], "round") == [first]


@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.parametrize("delta", [0, "0.01"])
def test_a_cuboid_whose_noise_exceeds_its_error_is_not_selected(sensitivity: int, delta: object) -> None:
    shape = {"a": 2, "wide": 100}
    generator = np.random.default_rng(4)
    B = generator.multinomial(10_000, np.repeat([0.52, 0.48], 100) / 100)
    workload = [cuboid(shape, "wide"), cuboid(shape, "a")]
    error = [float(np.abs(oracle.dense_query(query, shape) @ B - 10_000 / query.cells).sum()) for query in workload]
    assert error[0] > 1.2 * error[1] > 300
    problem = PlannedProblem(
        queries=workload, weights=np.ones(2), sizes=ones(shape), max_cells=MANY, total=10_000.0, sensitivity=sensitivity
    )
    for epsilon, first in [(1000, 0), ("0.2", 1)]:
        script = Scripted()
        budget = Budget.parse(epsilon, delta)
        outcome, _ = run(problem, B, 1, script, budget)
        assert numbers(outcome, "round") == [first]
        how = shares(problem, 1, budget)
        assert how.kind == ("zcdp" if delta and first == 1 else "pure")
        # The mean of the absolute value of Laplace and of Gaussian noise.
        per_cell = noise_scale(how.measure, sensitivity, how.kind).scale * (1 if how.kind == "pure" else sqrt(2 / pi))
        penalised = [e - per_cell * query.cells for e, query in zip(error, workload, strict=True)]
        np.testing.assert_allclose(script.scores[0], penalised, atol=1)


def measure(state: State, query: LinearQuery) -> None:
    """Make room for a query, as its measurement does."""
    state.refine(query)
    state.join(query.attributes)


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(0, 12), st.sampled_from([0, 10**6]), st.sampled_from([30, 60, 100, 200, 10**6]), st.data())
def test_what_is_offered_fits(seed: int, measured: int, few: int, limit: int, data: st.DataObject) -> None:
    """Never more than the limits.

    All that fits if the triangulation is worked out; what lies in a clique in any case.
    """
    generator = np.random.default_rng(seed)
    shape = {name: int(generator.integers(2, 4)) for name in "abcdef"}
    asked = marginals(shape, 1, 2, 3)
    state = State.unsplit({name: np.ones(size) for name, size in shape.items()}, 100.0)
    step = data.draw(st.sampled_from([None, 0, 20]))
    limits = Limits(GroupedQueries(asked, shape), limit, step, most_cliques=few)
    for _ in range(measured):
        offered = limits.fitting(state)
        cells = np.array(
            [state.cells_with(query.attributes, {name: shape[name] for name in query.attributes}) for query in asked]
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
    """Ranges, sets and sums, of one attribute and of several at once, beside plain marginals.

    Each splits groups of its own.
    """
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
            asked.append(LinearQuery((Block(names, labels, 2, values=generator.integers(0, 3, size)),)))
        else:
            asked.append(
                LinearQuery(
                    tuple(Block((name,), own.astype(np.int32) - 1, 1) for name, own in zip(names, places, strict=True))
                )
            )
    state = State.unsplit({name: np.ones(size) for name, size in shape.items()}, 100.0)
    limits = Limits(GroupedQueries(asked, shape), limit, step, most_cliques=few)
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
    """a - b - c in two cliques.

    With b in two groups there is room for a and c side by side, with b in five there is none.
    """
    shape = {"a": 3, "b": 5, "c": 3}
    state = State.unsplit({name: np.ones(size) for name, size in shape.items()}, 100.0)
    low = Block(("b",), np.array([0, 0, -1, -1, -1], np.int32), 1)
    for name in "ac":
        measure(state, LinearQuery((*cuboid(shape, name).blocks, low)))
    limits = Limits(GroupedQueries([cuboid(shape, "a", "c")], shape), 40)
    assert (state.cells, limits.fitting(state).tolist()) == (12, [True])
    measure(state, cuboid(shape, "b"))
    assert (state.cells, limits.fitting(state).tolist()) == (30, [False])
