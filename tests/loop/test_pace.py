"""The pace of a run: fixed rounds stay fixed, steps that hear only noise grow, and the whole budget is spent."""

from __future__ import annotations

from fractions import Fraction

import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import noise_scale
from mwem_sql.kernel.split import (
    Split,
    split,
)
from mwem_sql.loop.pace import CERTAIN, ENOUGH, LEAST_FIRST, MOST_FIRST, MUTE, PATIENCE, Pace
from mwem_sql.loop.regimes import FIRST_SHARE, SELECT_SHARE


def paced(rounds: int, growing: bool, delta: object = 0) -> tuple[Pace, Split]:
    plan = split(
        Budget.parse(1, delta), rounds, total_is_public=True, histogram=False, growing=growing, selecting=SELECT_SHARE
    )
    return Pace(plan), plan


@pytest.mark.parametrize("rounds", [1, 2, 7, 100])
def test_a_fixed_number_of_rounds_is_kept_whatever_is_heard(rounds: int) -> None:
    pace, plan = paced(rounds, growing=False)
    taken = []
    while pace.left:
        assert pace.rounds == rounds - len(taken)
        taken.append(pace.take())
        pace.hear(0.0, 1.0)
    assert taken == [(plan.select, plan.measure)] * rounds
    assert pace.rounds == 0


@pytest.mark.parametrize(("delta", "factor"), [(0, 2), ("1e-6", 4)])
def test_a_step_that_heard_only_noise_is_followed_by_ones_of_half_the_noise(delta: object, factor: int) -> None:
    pace, plan = paced(400, growing=True, delta=delta)
    assert plan.kind == ("zcdp" if delta else "pure")
    for distances in ([0.0] * PATIENCE, [0.2] * PATIENCE):
        before = pace.take()[1]
        for distance in distances:
            pace.hear(distance, 1.0)
        after = pace.take()[1]
        assert after == factor * before
        assert noise_scale(after, 1, plan.kind).scale == pytest.approx(
            noise_scale(before, 1, plan.kind).scale / 2, rel=1e-9
        )


def test_a_signal_above_the_noise_keeps_the_steps_as_they_are() -> None:
    pace, plan = paced(20, growing=True)
    for distance in [5.0, 0.0, 0.5, 4.0, 0.0, 0.3, 4.0] * 2:
        pace.take()
        pace.hear(distance, 1.0)
    assert pace.take() == (plan.select, plan.measure)


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 60), st.lists(st.floats(0, 3), min_size=60, max_size=60), st.sampled_from([0, "1e-6"]))
def test_whatever_is_heard_the_whole_budget_is_spent_and_no_more(
    rounds: int, distances: list[float], delta: object
) -> None:
    """The filter: shares chosen from what came before, debited from one account, add up to its limit exactly."""
    pace, plan = paced(rounds, growing=True, delta=delta)
    account = plan.accountant()
    shares = []
    while pace.left:
        shares.append(pace.take())
        for share in shares[-1]:
            account.debit(share)
        pace.hear(distances[len(shares) - 1], 1.0)
    assert account.remaining == 0
    assert len(shares) <= rounds
    # Steps never shrink, and what is left in the end is part of the last one.
    assert [sum(share) for share in shares] == sorted(sum(share) for share in shares)
    assert all(select == SELECT_SHARE * (select + measure) for select, measure in shares)


@pytest.mark.parametrize(
    ("doubt", "taken"),
    [
        (0.0, (LEAST_FIRST - 1) * FIRST_SHARE),
        (ENOUGH / 2, -FIRST_SHARE / 2),
        (ENOUGH, 0),
        (CERTAIN, 0),
        (2 * CERTAIN, FIRST_SHARE),
        (4 * CERTAIN, 3 * FIRST_SHARE),
        (0.99 * MUTE * CERTAIN / FIRST_SHARE, MOST_FIRST - FIRST_SHARE),
        (1.01 * MUTE * CERTAIN / FIRST_SHARE, 1 - FIRST_SHARE),
        (1e9, 1 - FIRST_SHARE),
    ],
)
def test_distributions_that_noise_hides_take_from_the_rounds_and_those_that_are_known_leave_to_them(
    doubt: float, taken: Fraction
) -> None:
    plan = split(
        Budget.parse(1),
        17,
        total_is_public=True,
        histogram=False,
        first=FIRST_SHARE,
        growing=True,
        selecting=SELECT_SHARE,
    )
    pace = Pace(plan)
    found = pace.spare(plan.first, doubt)
    assert float(found) == pytest.approx(float(taken))
    shares = []
    while pace.left:
        shares.append(sum(pace.take()))
    # Rounds are as large as they were, and fewer or more.
    assert plan.first + found + sum(shares) == 1
    assert all(share == plan.select + plan.measure for share in shares[:-1])
