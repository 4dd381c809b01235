"""Values found by noisy counts: the chance of a value of one unit, exact and counted; order, texts and failures."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.errors import EngineError, OptionError
from mwem_sql.kernel import scales
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.noise import Noise, OpenDPNoise, SeededNoise
from mwem_sql.kernel.scales import Kind, least_threshold, threshold_scale
from mwem_sql.kernel.thresholds import Threshold, discovery_budget, find_threshold, frequent_values


def tail(scale: float, least: int, kind: Kind) -> float:
    """The chance that noise on whole numbers is `least` or more."""
    if kind == "pure":
        a = math.exp(-1 / scale)
        return a**least / (1 + a) if least > 0 else 1 - a ** (1 - least) / (1 + a)
    reach = int(40 * scale) + abs(least) + 10
    masses = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale * scale))
    return float(masses[np.arange(-reach, reach + 1) >= least].sum() / masses.sum())


def lone(threshold: Threshold, values: int) -> float:
    """The chance that any value of a unit is published that nobody else has, in any column."""
    one = tail(threshold.scale, threshold.least - 1, threshold.kind)
    return -math.expm1(values * threshold.columns * math.log1p(-one))


def batch(counts: dict[str, int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(counts.keys(), pa.string()), pa.array(counts.values(), pa.int64())], ["v", "n"])


@settings(max_examples=20)
@given(
    st.floats(0.01, 20), st.floats(-10, -0.3), st.integers(1, 30), st.integers(1, 4),
)  # fmt: skip
def test_the_value_of_one_unit_is_published_with_a_chance_of_at_most_delta(
    epsilon: float, power: float, values: int, columns: int
) -> None:
    """From the noise's own distribution, and not from OpenDP's map."""
    budget = Budget.parse(str(epsilon), str(10**power))
    threshold = find_threshold(budget, columns, values)
    assert lone(threshold, values) <= float(threshold.failure) * (1 + 1e-9)
    assert threshold.failure <= budget.delta
    assert Fraction(threshold.cost) <= threshold.share
    if threshold.kind == "pure":
        assert threshold.scale >= values * columns / epsilon * (1 - 1e-12)
        assert threshold.least == 3 or lone_at(threshold, threshold.least - 1, values) > float(threshold.failure)
    else:
        rho = columns * values / (2 * threshold.scale**2)
        assert rho <= float(threshold.limit) * (1 + 1e-12)
        left = budget.delta - threshold.failure
        assert scales.zcdp_epsilon(threshold.limit, left) <= budget.epsilon


def lone_at(threshold: Threshold, least: int, values: int) -> float:
    one = tail(threshold.scale, least - 1, threshold.kind)
    return threshold.columns * -math.expm1(values * math.log1p(-one))


@pytest.mark.parametrize("noise", [OpenDPNoise(), SeededNoise(7)], ids=["opendp", "seeded"])
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_counted_at_a_large_delta(noise: Noise, kind: Kind, count: int) -> None:
    """How often values of so many units are published is what their distribution says, to 7 standard deviations."""
    draws, scale, least = 20_000, 2.0, 4
    above = noise.above(np.full(draws, count, dtype=np.int64), scale, least, kind)
    assert min(above.values(), default=least) >= least
    chance = tail(scale, least - count, kind)
    assert abs(len(above) / draws - chance) <= 7 * math.sqrt(chance * (1 - chance) / draws)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_threshold_itself_is_published_and_the_map_leaves_it_out(kind: Kind) -> None:
    """Why the map of the threshold before decides. Where OpenDP's map counts it, this fails, and that can go."""
    assert scales.make_threshold(1e-3, 5, kind)({1: 4, 2: 5, 3: 6}) == {2: 5, 3: 6}
    says = scales.make_threshold(2.0, 4, kind).map((1, 1, 1))[1]
    assert says < 0.8 * tail(2.0, 3, kind)
    assert scales.make_threshold(2.0, 3, kind).map((1, 1, 1))[1] >= tail(2.0, 3, kind) * (1 - 1e-12)


@pytest.mark.parametrize("delta", ["1e-2", "1e-6"])
def test_neighbours_of_one_value(delta: str) -> None:
    """(epsilon, delta) of whether a value is published, for every count and both neighbours; exactly."""
    budget = Budget.parse("0.5", delta)
    threshold = find_threshold(budget, 1, 1)
    assert threshold.kind == "pure"
    epsilon, most = float(budget.epsilon), float(budget.delta) * (1 + 1e-9)

    def published(count: int) -> float:
        return tail(threshold.scale, threshold.least - count, "pure") if count else 0.0

    for count in range(threshold.least + 60):
        one, other = published(count), published(count + 1)
        for p, q in ((one, other), (other, one), (1 - one, 1 - other), (1 - other, 1 - one)):
            assert p <= math.exp(epsilon) * q + most


def test_gaussian_noise_is_taken_where_a_unit_has_many_values() -> None:
    budget = discovery_budget(Budget.parse("1", "1e-6"))
    assert (float(budget.epsilon), float(budget.delta)) == (0.1, 5e-7)
    kinds = [find_threshold(budget, 1, values).kind for values in (1, 2, 50)]
    assert kinds == ["pure", "pure", "zcdp"]
    thresholds = [find_threshold(budget, 1, values).least for values in (1, 2, 10, 50)]
    assert thresholds == sorted(thresholds)
    assert find_threshold(budget, 2, 1).least > thresholds[0]
    assert find_threshold(Budget.parse("1", "1e-6"), 1, 1).least < thresholds[0]


def test_values_come_in_the_order_of_their_bytes_and_without_what_sql_cannot_write() -> None:
    threshold = find_threshold(Budget.parse("10", "1e-6"), 1, 1)
    counts = dict.fromkeys(("b", "", "a'; --", "ä", "Z", "🦀", "nul\x00", "a\\b", "É", "É"), 10**6)
    orders = [batch(counts), batch(dict(reversed(counts.items())))]
    raw = pa.array([b"\xff\xfe", b"ok"], pa.binary()).view(pa.string())
    orders.append(pa.record_batch([raw, pa.array([10**6, 10**6], pa.int64())], ["v", "n"]))
    wanted = sorted((text for text in counts if "\0" not in text), key=str.encode)
    for noise in (OpenDPNoise(), SeededNoise(1)):
        for order in orders[:2]:
            account = threshold.accountant()
            assert list(frequent_values([order], threshold, account, Draws(noise))) == wanted
            assert account.spent == threshold.limit and account.mapped == Fraction(threshold.cost)
            account.settle()
        found = frequent_values(orders[1:], threshold, threshold.accountant(), Draws(noise))
        assert list(found) == sorted([*wanted, "ok"], key=str.encode)


def test_a_failure_says_nothing_and_its_share_is_spent() -> None:
    threshold = find_threshold(Budget.parse("1", "1e-6"), 2, 1)
    account = threshold.accountant()
    broken = pa.record_batch([pa.array(["Smith"]), pa.array(["x"])], ["v", "n"])
    with pytest.raises(EngineError, match="a private answer could not be computed") as refused:
        frequent_values([broken], threshold, account, Draws(OpenDPNoise()))
    assert refused.value.__cause__ is None and refused.value.__context__ is None
    assert account.spent == threshold.share == threshold.limit / 2


def test_a_threshold_beyond_all_counts_is_refused() -> None:
    scale = threshold_scale(Fraction(1, 10**13), 10**6, "pure").scale
    with pytest.raises(OptionError, match=r"a part of delta \(1e-300\) must be within reach of a threshold"):
        least_threshold(scale, Fraction(1, 10**300), 10**6, "pure")
