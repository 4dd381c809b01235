"""The kinds that a budget allows, with the noise of each."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.composition import Composition, compositions
from mwem_sql.kernel.scales import Kind, noise_scale, noise_variance, zcdp_rho

TIGHT = Budget.parse(1, "1e-9")


def composed(budget: Budget, share: Fraction, sensitivity: int = 1) -> Composition:
    """The kind with less noise."""
    kinds = compositions(budget, {"pure": share, "zcdp": share}, sensitivity=sensitivity)
    return kinds[kinds["pure"].predicted.better]


@pytest.mark.parametrize(("rounds", "kind"), [(1, "pure"), (8, "pure"), (9, "zcdp"), (200, "zcdp")])
def test_the_kind_with_the_smaller_noise_is_taken(rounds: int, kind: Kind) -> None:
    found = composed(TIGHT, Fraction(1, 2 * rounds))
    rho = float(zcdp_rho(Fraction(1), Fraction(1, 10**9)))
    laplace, gaussian = math.sqrt(2) * 2 * rounds, 1 / math.sqrt(2 * rho / (2 * rounds))
    assert found.predicted == pytest.approx((laplace, gaussian))
    assert found.kind == kind == ("zcdp" if gaussian < laplace else "pure")
    account = found.accountant()
    assert (account.kind, account.limit) == (kind, found.limit)
    assert (found.limit == 1) == (kind == "pure")


def test_each_kind_has_its_typical_share() -> None:
    found = compositions(TIGHT, {"pure": Fraction(1, 2), "zcdp": Fraction(1, 3)})["zcdp"]
    rho = zcdp_rho(Fraction(1), Fraction(1, 10**9))
    assert found.predicted == (
        math.sqrt(2) * noise_scale(Fraction(1, 2), 1, "pure").scale,
        noise_scale(rho / 3, 1, "zcdp").scale,
    )


def test_sensitivity_scales_the_prediction() -> None:
    one, three = (composed(TIGHT, Fraction(1, 40), sensitivity=k).predicted for k in (1, 3))
    assert three == pytest.approx([3 * deviation for deviation in one if deviation])


def test_without_delta_there_is_no_rho() -> None:
    found = composed(Budget.parse(1), Fraction(1, 400))
    assert (found.kind, found.predicted.zcdp, found.power) == ("pure", None, 2)


def test_noise_of_a_share() -> None:
    found = composed(Budget.parse(1), Fraction(1), sensitivity=2)
    share = Fraction(1, 7)
    assert found.scale(share, 5) == noise_scale(share, 10, "pure").scale
    assert found.variance(share) == noise_variance(share, 2, "pure")
