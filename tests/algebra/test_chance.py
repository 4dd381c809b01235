"""The chance to fail is debited: nobody gets more than is left."""

from __future__ import annotations

import pytest

from mwem_sql.algebra.chance import Chance


def test_parts_are_of_the_whole_and_are_debited() -> None:
    chance = Chance(0.05)
    assert chance.take("noise", 3 / 4) == pytest.approx(0.0375)
    assert chance.left == pytest.approx(0.0125)
    assert chance.rest("bounds") == pytest.approx(0.0125)
    assert chance.left == pytest.approx(0)
    assert [what for what, _ in chance.taken] == ["noise", "bounds"]
    assert sum(part for _, part in chance.taken) == pytest.approx(0.05)


def test_more_than_is_left_is_refused_and_takes_nothing() -> None:
    chance = Chance(0.05)
    chance.take("noise", 3 / 4)
    assert not chance.allows(0.26)
    with pytest.raises(ValueError, match=r"bounds takes 0\.26 of a chance of which 0\.25 is left"):
        chance.take("bounds", 0.26)
    assert chance.left == pytest.approx(0.0125)
    assert len(chance.taken) == 1


def test_a_part_is_a_chance_of_its_own() -> None:
    chance = Chance(0.1)
    part = chance.part("sum", 1 / 2)
    assert part.take("noise", 1) == pytest.approx(0.05)
    with pytest.raises(ValueError, match="count"):
        chance.part("count", 0.6)
    assert chance.remaining("count").whole == pytest.approx(0.05)


@pytest.mark.parametrize("times", [3, 7, 10, 49, 1000])
def test_equal_parts_of_all_are_not_refused_for_what_floats_round(times: int) -> None:
    chance = Chance(0.004)
    for _ in range(times):
        chance.take("a round", 1 / times)
    assert not chance.allows(1e-6)
