"""Regimes: which row of the table a workload gets, for how many rounds, and what is always measured in each."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.kernel.split import PAPER_SHARE
from mwem_sql.loop import strategy
from mwem_sql.loop.regimes import ALWAYS_ROUNDS, DETAIL_SHARE, SELECT_SHARE, Asked, choose, default_rounds
from mwem_sql.loop.strategy import whole_domain

SHAPE = {"a": 2, "b": 3, "c": 4}


def cuboid(names: str) -> LinearQuery:
    return whole_domain({name: SHAPE[name] for name in names})


QUERIES = [cuboid("ab"), cuboid("bc"), cuboid("a")]


def asked(**options: object) -> Asked:
    return Asked(QUERIES, np.ones(3), SHAPE, 10**6, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"rounds": 4}, {"rounds": 4, "average": True}, {"start": "histogram"}])
def test_each_takes_what_a_round_takes(options: dict[str, object]) -> None:
    regime = choose(asked(always=[0, 2], **options))
    rounds = 4 if "rounds" in options else default_rounds(1, 3)
    assert (regime.rounds, regime.always) == (rounds, 2 * ALWAYS_ROUNDS / (2 * ALWAYS_ROUNDS + rounds))
    assert [(own.query, own.asked) for own in regime.strategy.always] == [(0, 0), (2, 2)]
    wanted = (1.0, 1.0) if "average" in options else (6 ** (1 / 3), 2 ** (1 / 3))
    assert tuple(own.part for own in regime.strategy.always) == pytest.approx(wanted)


def test_beside_sets_shares_follow_from_cells() -> None:
    regime = choose(asked(always=[2]))
    assert regime.whole
    parts = [12 ** (1 / 3), 6 ** (1 / 3), 2 ** (1 / 3)]
    assert float(regime.always) == pytest.approx(parts[2] / sum(parts))
    assert choose(asked()).always == 0


def test_all_of_them_leave_nothing_to_refine() -> None:
    assert choose(asked(always=[0, 1, 2])).always == 1
    assert choose(asked(always=[0, 1])).always == 1  # a is asked about in ab
    assert choose(asked(always=[0])).always < 1


def test_first_distributions_give_way_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single attributes have 9 cells; with a joint distribution of all classes there is no room for either of them beside the other."""
    monkeypatch.setattr(strategy, "MOST_SETS", 0)
    narrow = Asked(QUERIES, np.ones(3), SHAPE, 17, always=[1])
    assert choose(narrow).strategy.first
    assert not choose(Asked(QUERIES, np.ones(3), SHAPE, 13, always=[1])).strategy.first
    assert choose(Asked(QUERIES, np.ones(3), SHAPE, 13)).strategy.first


def test_a_histogram_of_parities_tells_all_of_them() -> None:
    signs = [Block((name,), np.zeros(2, np.int32), 1, values=np.array([1, -1], np.int8)) for name in "xy"]
    parities = [LinearQuery((signs[0],)), LinearQuery((signs[1],)), LinearQuery(tuple(signs))]
    regime = choose(Asked(parities, np.ones(3), {"x": 2, "y": 2}, 10**6, always=[0]))
    assert regime.at_once
    assert (regime.always, regime.strategy.always) == (Fraction(0), [])


@pytest.mark.parametrize(
    ("queries", "attributes", "rounds"), [(1, 1, 1), (3, 3, 3), (100, 1, 4), (100, 3, 6), (100, 25, 50), (20, 25, 20)]
)
def test_default_rounds(queries: int, attributes: int, rounds: int) -> None:
    assert default_rounds(queries, attributes) == rounds


def over(queries: list[LinearQuery], shape: dict[str, int], **options: Any) -> Asked:
    return Asked(queries, np.ones(len(queries)), shape, 10**6, **options)


def parity(*names: str) -> LinearQuery:
    zero = np.zeros(2, dtype=np.int32)
    return LinearQuery(tuple(Block((name,), zero, 1, values=np.array([1, -1])) for name in names))


PARITIES = over([parity(*names) for names in combinations("abcd", 2)], dict.fromkeys("abcd", 2))
SETS = over([LinearQuery((Block(("a",), np.array([0, -1, -1, -1], dtype=np.int32), 1),))], {"a": 4})


def test_the_first_row_that_applies_is_taken() -> None:
    histogram = choose(PARITIES)
    assert (histogram.at_once, histogram.whole, histogram.rounds, histogram.selecting) == (True, True, 1, 0)
    assert histogram.strategy.queries[0].cells == 16
    refined = choose(SETS)
    assert (refined.at_once, refined.whole, refined.selecting) == (False, True, 0)


@pytest.mark.parametrize("plain", [PARITIES, SETS], ids=["parities", "sets"])
@pytest.mark.parametrize("option", [{"rounds": 3}, {"start": "histogram"}, {"fit": "replay"}, {"average": True}])
def test_an_option_that_speaks_of_rounds_gets_them(plain: Asked, option: dict[str, Any]) -> None:
    found = choose(over(list(plain.queries), dict(plain.shape), **option))
    assert not found.at_once
    assert not found.whole
    assert found.selecting == (PAPER_SHARE if "average" in option else SELECT_SHARE)
    is_ours = option.keys() <= {"start", "fit"}
    assert found.growing is is_ours
    assert found.detail == (DETAIL_SHARE if is_ours else Fraction(0))


def test_a_histogram_that_the_model_has_no_room_for_is_not_taken() -> None:
    small = Asked(PARITIES.queries, PARITIES.weights, PARITIES.shape, 15)
    assert not choose(small).at_once
