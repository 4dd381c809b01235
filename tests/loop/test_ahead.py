"""What comes ahead of rounds: shares that add up, and numbers of rows from which on a histogram takes their place."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from loops import PURE, cuboid, first_of

from mwem_sql.kernel.scales import noise_scale
from mwem_sql.kernel.split import split
from mwem_sql.loop.ahead import TOLD, doubt, refined_ahead, told_from
from mwem_sql.loop.problem import Problem
from mwem_sql.loop.strategy import whole_domain

SHAPE = {"a": 4, "b": 9}
SHARES = split(PURE, 2, total_is_public=False, histogram=False, first=Fraction(1, 5), growing=True)


def test_shares_add_up_and_grow_with_the_part() -> None:
    problem = first_of(SHAPE, [])
    found = refined_ahead(problem, Fraction(1, 3))
    assert sum(share for _, share in found) == Fraction(1, 3)
    assert [first for first, _ in found] == list(problem.first)
    assert found[1][1] / found[0][1] == pytest.approx(9 / 4)
    assert refined_ahead(problem, Fraction(0)) == []


def test_noise_on_what_comes_first_is_a_share_of_n() -> None:
    problem = first_of(SHAPE, [])
    ahead = refined_ahead(problem, Fraction(1, 3))
    scales = [noise_scale(share, 1, "pure").scale for _, share in ahead]
    assert doubt(problem, ahead, SHARES, 100.0) == pytest.approx((4 * scales[0] + 9 * scales[1]) / 2 / 100)


def test_a_histogram_takes_the_place_of_rounds_from_so_many_rows_on() -> None:
    """Its noise, added up to the cells of the largest cuboid, is then a third of them."""
    problem = Problem(
        queries=[cuboid(SHAPE, "a"), cuboid(SHAPE, "b")],
        weights=np.ones(2),
        sizes={name: np.ones(size) for name, size in SHAPE.items()},
        max_cells=10**6,
        histogram=whole_domain(SHAPE),
    )
    scale = noise_scale(SHARES.limit - SHARES.total, 1, "pure").scale
    assert TOLD * told_from(problem, SHARES) == pytest.approx(scale * np.sqrt(36 * 9))
