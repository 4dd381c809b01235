"""Regimes: which row of the table a workload gets, and for how many rounds."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from mwem_sql.accounting.split import PAPER_SHARE
from mwem_sql.mwem.regimes import DETAIL_SHARE, SELECT_SHARE, Asked, choose, default_rounds
from mwem_sql.queries.linear import Block, LinearQuery


@pytest.mark.parametrize(
    ("queries", "attributes", "rounds"), [(1, 1, 1), (3, 3, 3), (100, 1, 4), (100, 3, 6), (100, 25, 50), (20, 25, 20)]
)
def test_default_rounds(queries: int, attributes: int, rounds: int) -> None:
    assert default_rounds(queries, attributes) == rounds


def asked(queries: list[LinearQuery], shape: dict[str, int], **options: Any) -> Asked:
    return Asked(queries, np.ones(len(queries)), shape, 10**6, **options)


def parity(*names: str) -> LinearQuery:
    zero = np.zeros(2, dtype=np.int32)
    return LinearQuery(tuple(Block((name,), zero, 1, np.array([1, -1])) for name in names))


PARITIES = asked([parity(*names) for names in combinations("abcd", 2)], dict.fromkeys("abcd", 2))
SETS = asked([LinearQuery((Block(("a",), np.array([0, -1, -1, -1], dtype=np.int32), 1),))], {"a": 4})


def test_the_first_row_that_applies_is_taken() -> None:
    histogram = choose(PARITIES)
    assert (histogram.at_once, histogram.whole, histogram.rounds, histogram.selecting) == (True, True, 1, 0)
    assert histogram.strategy.queries[0].cells == 16
    refined = choose(SETS)
    assert (refined.at_once, refined.whole, refined.selecting) == (False, True, 0)


@pytest.mark.parametrize("plain", [PARITIES, SETS], ids=["parities", "sets"])
@pytest.mark.parametrize("option", [{"rounds": 3}, {"start": "histogram"}, {"fit": "replay"}, {"average": True}])
def test_an_option_that_speaks_of_rounds_gets_them(plain: Asked, option: dict[str, Any]) -> None:
    found = choose(asked(list(plain.queries), dict(plain.shape), **option))
    assert not found.at_once
    assert not found.whole
    assert found.selecting == (PAPER_SHARE if "average" in option else SELECT_SHARE)
    is_ours = option.keys() <= {"start", "fit"}
    assert found.growing is is_ours
    assert found.detail == (DETAIL_SHARE if is_ours else Fraction(0))


def test_a_histogram_that_the_model_has_no_room_for_is_not_taken() -> None:
    small = Asked(PARITIES.queries, PARITIES.weights, PARITIES.shape, 15)
    assert not choose(small).at_once
