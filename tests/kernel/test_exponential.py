"""Selection from very many: the exponential mechanism, whatever changed in between, and nothing that is closed."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from chance import examples, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.arrays import Integers
from mwem_sql.kernel import exponential
from mwem_sql.kernel.exponential import Scores, bucket_weights
from mwem_sql.kernel.noise import Noise, OpenDPNoise, SeededNoise
from mwem_sql.kernel.scales import SATURATION

GROUPED = np.array([5, 3, 5, 0, 3, 5, -40, 3, 3, -9000], dtype=np.int64)
DRAWS = 8_000


def check(drawn: list[int], scores: Integers, scale: float) -> None:
    """As often as the scores say: chi-squared over the frequent candidates, below its 1 - 1e-6 quantile."""
    counts = np.bincount(drawn, minlength=scores.size)
    weights = np.exp((scores - scores.max()) / scale)
    expected = len(drawn) * weights / weights.sum()
    common = expected > 10
    # 7 degrees of freedom; the quantile is 40.5.
    assert common.sum() == 8
    assert ((counts - expected)[common] ** 2 / expected[common]).sum() < 40.5
    assert counts[~common].sum() == 0


@pytest.mark.parametrize("noise", [OpenDPNoise(), SeededNoise(1)])
def test_selection_from_many_is_the_exponential_mechanism(noise: Noise) -> None:
    scores = Scores.of(GROUPED)
    check([noise.select_many(scores, 2.0) for _ in range(DRAWS)], GROUPED, 2.0)


@pytest.mark.parametrize("noise", sampled([OpenDPNoise(), SeededNoise(1)], 1))
def test_closed_candidates_are_as_if_they_were_not_there(noise: Noise) -> None:
    """However high their scores, at either end; the others keep their proportions."""
    scores = Scores.of(np.array([10**9, 3, 5, -(10**9), 10**9], dtype=np.int64))
    scores.open(np.array([False, True, True, False, False]))
    drawn = [noise.select_many(scores, 2.0) for _ in range(DRAWS)]
    assert set(drawn) == {1, 2}
    expected = DRAWS / (1 + math.exp(-1))
    assert abs(drawn.count(2) - expected) < 5 * math.sqrt(expected * (1 - expected / DRAWS))


@pytest.mark.thorough
def test_what_changed_between_draws_changes_them() -> None:
    """Down, up beyond the reference, to another scale: always as if sorted anew."""
    scores = Scores.of(GROUPED + 300)
    scores.draw(2.0)
    for shift in (-100, -2000, 0, 10**6):
        scores.write(np.arange(5), GROUPED[:5] + shift)
        scores.write(np.arange(5, 10), GROUPED[5:] + shift)
        check([scores.draw(2.0) for _ in range(DRAWS // 4)], GROUPED, 2.0)
    scores.write(slice(None), 3 * GROUPED)
    check([scores.draw(6.0) for _ in range(DRAWS // 4)], GROUPED, 2.0)


Change = tuple[list[int], list[int], list[bool]]


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 19), min_size=1, max_size=20, unique=True),
            st.lists(st.integers(-(10**4), 10**4), min_size=20, max_size=20),
            st.lists(st.booleans(), min_size=20, max_size=20).filter(any),
        ),
        min_size=1, max_size=8,
    ),
    st.sampled_from([0.5, 3.0, 1000.0]),
)  # fmt: skip
def test_buckets_kept_up_to_date_are_those_sorted_anew(changes: list[Change], scale: float) -> None:
    kept = Scores(20)
    for places, values, is_open in changes:
        kept.write(np.array(places), np.array(values[: len(places)]))
        kept.open(np.array(is_open))
        assert is_open[kept.draw(scale)]
        depths = np.minimum((kept._reference - kept.values) / scale, 1400)
        found = np.where(kept.is_open, np.floor(depths), -1)
        assert (depths[kept.is_open] >= 0).all()
        assert kept._buckets.tolist() == found.tolist()
        assert kept._counts.tolist() == np.bincount(found[kept.is_open].astype(int), minlength=1401).tolist()


def test_bucket_weights_are_exact() -> None:
    found = bucket_weights()
    assert len(found) == 701
    for depth, weight in enumerate(found):
        assert Fraction(weight, found[0]) == Fraction(math.exp(-depth))


def test_no_candidate_is_beyond_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far below the best all have the same weight, and none has weight 0: here they are all there is but one."""
    scores = Scores.of(np.array([0, -800, -(10**9), -(10**18)], dtype=np.int64))
    monkeypatch.setattr(exponential, "bucket_weights", lambda: [0] * 700 + [1])
    drawn = [scores.draw(1.0) for _ in range(600)]
    assert set(drawn) == {1, 2, 3}
    assert all(abs(drawn.count(place) - 200) < 5 * math.sqrt(600 * 2 / 9) for place in (1, 2, 3))


def test_half_a_million_scores_at_the_ends_of_their_range() -> None:
    values = np.full(500_000, -SATURATION, dtype=np.int64)
    values[77] = SATURATION
    scores = Scores.of(values)
    assert scores.draw(1.0) == 77
    assert scores.draw(1e300) in range(500_000)
