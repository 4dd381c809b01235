"""The paper's lemma and theorem, on runs of the loop."""

# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

from collections.abc import Sequence
from math import comb, log
from unittest import mock

import numpy as np
import oracle
import pytest
from chance import examples
from hypothesis import given, settings
from loops import (
    MANY,
    Integers,
    Scripted,
    cases,
    count,
    iterates,
    numbers,
    points,
    run,
    shape_of,
)
from strategies import Floats, close, dense

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.loop.problem import Outcome, Problem
from mwem_sql.model.fit import Fit


@settings(deadline=None, max_examples=examples(40))
@given(cases())
def test_relative_entropy_falls_in_every_round_without_noise(
    case: tuple[Problem, Integers, int, Scripted, Budget],
) -> None:
    """The lemma, and strictly where the selected query has an error; in the first round by the whole of the lemma."""
    problem, B, rounds, script, _ = case
    n = float(B.sum())
    problem = Problem(
        queries=problem.queries,
        weights=problem.weights,
        sizes=problem.sizes,
        max_cells=MANY,
        total=n,
        average=problem.average,
    )
    Q = [oracle.dense_query(query, shape_of(problem)) for query in problem.kernel_queries]
    A = oracle.uniform(problem.sizes, n)
    for T in range(1, rounds + 1):
        # Without noise a run of T rounds begins with the run of T - 1, but for the fit after the last.
        with mock.patch.object(Fit, "finish"):
            outcome, _ = run(problem, B, T + problem.average, Scripted(script.picks), Budget.parse(MANY))
        if not outcome.measurements:
            return
        A_i = dense(iterates(outcome)[-1])
        q = Q[outcome.measurements[T - 1].number]
        error = (oracle.evaluate(q, A) - oracle.evaluate(q, B)) / (2 * n)
        fall = oracle.relative_entropy(B, A) - oracle.relative_entropy(B, A_i)
        assert fall >= -1e-12
        assert fall > 0 or np.abs(error).max() < 1e-4
        assert fall >= float(error @ error) - 1e-12 or T > 1
        A = A_i


def test_the_lemma_can_fail() -> None:
    """With a measurement far off, relative entropy rises: the test above sees what it is to see."""
    B = np.array([500, 500])
    problem = Problem(
        queries=[count("x", 1, 0)], weights=np.ones(1), sizes={"x": np.ones(2)}, max_cells=MANY, total=1000.0
    )
    outcome, _ = run(problem, B, 1, Scripted((), lambda _: np.array([400])))
    assert oracle.relative_entropy(B, dense(outcome.state)) > 0.1


def worst_error(outcome: Outcome, Q: Sequence[Floats], B: Floats) -> float:
    A = dense(outcome.state)
    return max(float(np.abs(oracle.evaluate(q, A) - oracle.evaluate(q, B)).max()) for q in Q)


@pytest.mark.parametrize("T", [18, 30, 60])
@pytest.mark.parametrize("epsilon", [1, 1000])
def test_theorem_where_one_query_needs_many_steps(T: int, epsilon: int) -> None:
    """All records alike, and a count for each value: only the first count is far off, and it is selected once.

    A loop that updates with the selected query alone leaves it 0.85 to 0.91 n off, far outside of the bound.
    """
    D, n = 18, 10**6
    B = n * np.eye(D, dtype=np.int64)[7]
    problem = Problem(
        queries=points(D), weights=np.ones(D), sizes={"x": np.ones(D)}, max_cells=MANY, total=float(n), average=True
    )
    outcome, _ = run(problem, B, T, SeededNoise(T), Budget.parse(epsilon))
    bound = oracle.theorem(n, D, T, D, epsilon)
    assert bound < 0.82 * n
    assert worst_error(outcome, [np.eye(D)], B.astype(np.float64)) <= bound


@pytest.mark.parametrize(("doubt", "steps"), [(349, 2), (352, 1)])
def test_an_earlier_query_takes_the_step_when_it_is_worse_beyond_doubt(doubt: float, steps: int) -> None:
    """The first count is 350 off after its step, the second is exact; `doubt` is 2 log|Q| times the scale 2T/eps."""
    sizes = {"x": np.ones(2), "y": np.ones(2)}
    problem = Problem(
        queries=[count("x", 1, 0), count("y", 1, 0)],
        weights=np.ones(2),
        sizes=sizes,
        max_cells=MANY,
        total=1000.0,
        average=True,
    )
    epsilon = 2 * log(2) * 2 * 3 / doubt
    outcome, _ = run(problem, np.array([450, 450, 50, 50]), 3, Scripted([0, 0]), Budget.parse(epsilon))
    assert numbers(outcome, "round") == [0, 1]
    A = np.full(2, 500.0)
    for _ in range(steps):
        A = oracle.update(A, np.array([[1.0, 0.0]]), np.array([900.0]))
    close(iterates(outcome)[2].marginal(["x"]), A, 1000.0)
    close(iterates(outcome)[2].marginal(["y"]), np.full(2, 500.0), 1000.0)


@pytest.mark.thorough
def test_theorem() -> None:
    """On random instances and real noise the bound fails no more often than the theorem allows.

    It allows 2T/|Q| per instance. More failures than `allowed` have a probability below 1e-6 even then; the bound is
    below what the uniform start has for an error, so that standing still would fail in all of them.
    """
    T, queries_asked, D, n, epsilon, instances = 20, 1000, 16, 10**6, 1, 12
    probability = 2 * T / queries_asked
    allowed = binomial_quantile(instances, probability, 1e-6)
    assert allowed <= instances / 2
    bound = oracle.theorem(n, D, T, queries_asked, epsilon)
    failures = 0
    for seed in range(instances):
        generator = np.random.default_rng(seed)
        B = generator.multinomial(n, generator.dirichlet(np.full(D, 0.02)))
        if seed % 2:
            labels = np.where(generator.random((queries_asked, D)) < generator.random((queries_asked, 1)), 0, -1)
            Q = (labels == 0).astype(np.float64)
            workload = [LinearQuery((Block(("x",), row.astype(np.int32), 1),)) for row in labels]
        else:
            Q = generator.choice([-1.0, 1.0], (queries_asked, D))
            workload = [
                LinearQuery((Block(("x",), np.zeros(D, np.int32), 1, values=row.astype(np.int8)),)) for row in Q
            ]
        problem = Problem(
            queries=workload,
            weights=np.ones(queries_asked),
            sizes={"x": np.ones(D)},
            max_cells=MANY,
            total=float(n),
            average=True,
        )
        outcome, _ = run(problem, B, T, SeededNoise(seed), Budget.parse(epsilon))
        assert np.abs(Q @ (B - n / D)).max() > bound
        failures += worst_error(outcome, [Q], B.astype(np.float64)) > bound
    assert failures <= allowed


def binomial_quantile(trials: int, probability: float, beyond: float) -> int:
    """The smallest k that is exceeded with a probability of at most `beyond`."""
    mass = [comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(trials + 1)]
    return next(k for k in range(trials + 1) if sum(mass[k + 1 :]) <= beyond)
