"""Whether a start is kept: it follows from what the kernel tells, and costs what the plan says."""

from __future__ import annotations

import numpy as np
import pytest
from loops import PURE, Scripted, cuboid, ones, run, shares

from mwem_sql.kernel.budget import Budget
from mwem_sql.loop.problem import Problem
from mwem_sql.model.start import Start

SHAPE = {"a": 3, "b": 3}


def problem(start: Start | None) -> Problem:
    pair = cuboid(SHAPE, "a", "b")
    return Problem(
        queries=[cuboid(SHAPE, "a"), pair],
        weights=np.ones(2),
        sizes=ones(SHAPE),
        max_cells=1000,
        total=300.0,
        certified={0: cuboid(SHAPE, "a"), 1: pair},
        start=start,
    )


def start_of(turn: int) -> Start:
    """Rows of which `b` is `a`, some values on."""
    a = np.repeat(np.arange(3, dtype=np.int32), 100)
    return Start.of({"a": a, "b": ((a + turn) % 3).astype(np.int32)}, SHAPE)


DIAGONAL = np.diag([100, 100, 100]).reshape(-1)


def test_a_right_start_is_kept_and_a_wrong_one_is_not() -> None:
    for turn, share in ((0, 0.99), (1, 1 / 3)):
        # The round is spent on `a`, which says nothing of how the two go together.
        outcome, _ = run(problem(start_of(turn)), DIAGONAL, 1, Scripted(picks=[0]))
        assert np.trace(outcome.state.marginal(["a", "b"])) == pytest.approx(300 * share, rel=0.02)


def test_the_comparison_takes_its_share_and_no_more() -> None:
    plan = shares(problem(start_of(0)), 1)
    assert float(plan.share("start") / plan.limit) == pytest.approx(0.02)
    assert not shares(problem(None), 1).of("start")
    _, accountant = run(problem(start_of(0)), DIAGONAL, 1, Scripted(), Budget.parse(1, "1e-6"))
    assert accountant.spent <= accountant.limit


def test_a_start_is_not_compared_where_noise_would_decide() -> None:
    outcome, _ = run(problem(start_of(0)), DIAGONAL, 1, Scripted(picks=[0]), Budget.parse("0.01"))
    assert np.trace(outcome.state.marginal(["a", "b"])) == pytest.approx(100, rel=0.02)


def test_what_is_decided_follows_from_the_noisy_errors_alone() -> None:
    """Noise that makes the start look worse, by the book, drops a right one."""
    errors = iter([np.array([500]), np.array([0])])

    def noise(size: int) -> np.ndarray:
        return next(errors, np.zeros(size, np.int64)) if size == 1 else np.zeros(size, np.int64)

    outcome, _ = run(problem(start_of(0)), DIAGONAL, 1, Scripted(picks=[0], noise=noise), PURE)
    assert np.trace(outcome.state.marginal(["a", "b"])) == pytest.approx(100, rel=0.02)
