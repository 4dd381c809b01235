"""Estimates from noisy answers: without bias, with the variance that they say, and by all that tells them."""

from __future__ import annotations

import numpy as np
import pytest
from measurements import measurement

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.nested import is_nested
from mwem_sql.judge.evidence import Families, Family
from mwem_sql.kernel.tails import cumulants

SIZES = {"a": 8, "b": 3}
TRUE = np.array([[9, 0, 4], [7, 7, 7], [0, 1, 0], [30, 2, 2], [5, 5, 5], [1, 0, 0], [8, 3, 1], [0, 0, 50]], dtype=float)


def partition(labels: list[int], values: np.ndarray | None = None, spread: float = 1.0) -> Measurement:
    block = Block(("a",), np.array(labels, dtype=np.int32), max(labels) + 1)
    truth = LinearQuery((block,)).answer(TRUE.sum(axis=1))
    return measurement(LinearQuery((block,)), truth if values is None else values, spread)


def count(labels: list[int]) -> LinearQuery:
    return LinearQuery((Block(("a",), np.array(labels, dtype=np.int32), 1),))


COARSE, FINE, OTHER = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 2, 2], [0, 1, 1, 0, 2, 2, 2, 2]


def test_nested_partitions_are_one_family_and_others_are_not() -> None:
    assert is_nested(partition(COARSE), partition(FINE))
    # Merged again, and split elsewhere.
    assert is_nested(partition(FINE), partition([0, 0, 0, 0, 1, 1, 2, 2]))
    assert not is_nested(partition(FINE), partition(OTHER))


def test_without_noise_everything_is_the_truth() -> None:
    families = Families(
        [partition(COARSE), partition(FINE), partition(OTHER), partition([0, 0, 0, 0, 1, 1, 2, 2])], SIZES
    )
    for labels in (
        [0, 0, -1, -1, -1, -1, -1, -1],
        [0] * 8,
        [-1, -1, -1, -1, 0, 0, -1, -1],
    ):
        asked = count(labels)
        exact = families.exact(asked)
        sums = exact.estimates
        assert exact.is_exact.all()
        assert families.are_exact([asked]) == [True]
        assert sums.values == pytest.approx(asked.answer(TRUE.sum(axis=1)))
    assert families.are_exact([count([0, -1, -1, -1, -1, -1, -1, -1])]) == [False]


def test_a_node_joins_its_own_answer_and_that_of_its_parts() -> None:
    """Variance 1 of its own and 2 of two parts: 2/3, and weights 2/3 and 1/3."""
    coarse, fine = partition(COARSE, np.array([10.0, 20.0])), partition(FINE, np.array([1.0, 3.0, 5.0]))
    exact = Families([coarse, fine], SIZES).exact(count([0, 0, 0, 0, -1, -1, -1, -1]))
    sums = exact.estimates
    assert exact.is_exact.all()
    assert exact.is_joined.all()
    assert sums.values[0] == pytest.approx(10 * 2 / 3 + 4 / 3)
    assert sums.variances[0] == pytest.approx(2 / 3)
    assert sums.fourths[0] == pytest.approx(3 * (2 / 3) ** 4 + 6 * (1 / 3) ** 4)


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_is_estimated_by_least_squares(seed: int) -> None:
    """Against the dense solution: value, variance and fourth cumulant, of sums with any factors."""
    generator = np.random.default_rng(seed)
    labels = [COARSE, FINE, [0, 0, 0, 0, 1, 1, 2, 3], [0, 1, 2, 2, 3, 3, 3, 3], FINE]
    answers = [partition(own, generator.normal(size=max(own) + 1), float(generator.uniform(0.5, 3))) for own in labels]
    rows = np.concatenate([np.array(own) == np.arange(max(own) + 1)[:, None] for own in labels]).astype(float)
    variances = np.concatenate([np.full(own.values.size, own.variance) for own in answers])
    factors = np.repeat(generator.normal(size=5), [1, 1, 2, 2, 2])
    factors[4:6] = factors[6]
    block = Block(("a",), np.zeros(8, dtype=np.int32), 1, values=factors)
    found = Family(answers).enclosure(LinearQuery((block,)), SIZES)
    assert found is not None
    normal = np.linalg.pinv(rows.T @ (rows / variances[:, None]))
    weights = (rows / variances[:, None]) @ normal @ factors
    assert found.low.values[0] == pytest.approx(weights @ np.concatenate([own.values for own in answers]))
    assert found.low.variances[0] == pytest.approx(weights**2 @ variances)
    fourths = np.concatenate([np.full(own.values.size, cumulants(own.scale, own.kind)[1]) for own in answers])
    assert found.low.fourths[0] == pytest.approx(weights**4 @ fourths)


def test_families_are_joined_by_precision() -> None:
    one, other = partition(FINE, np.array([10.0, 0, 0]), 1.0), partition(OTHER, np.array([1.0, 1.0, 40.0]), 4.0)
    exact = Families([one, other], SIZES).exact(count([-1, -1, -1, -1, 0, 0, 0, 0]))
    sums = exact.estimates
    assert exact.is_joined.all()
    assert not Families([one, other], SIZES).exact(count([0, 0, -1, -1, -1, -1, -1, -1])).is_joined.any()
    assert sums.values[0] == pytest.approx((0 * 4 + 40) / 5)
    assert sums.variances[0] == pytest.approx(0.8)


@pytest.mark.parametrize("draws", [800, pytest.param(4000, marks=pytest.mark.thorough)])
def test_variances_are_those_of_the_noise(draws: int) -> None:
    """The mean within five standard deviations, the variance within a fifth: four of 800 draws, nine of 4,000."""
    generator, found = np.random.default_rng(0), []
    asked = count([0, 0, 0, 0, 0, 0, -1, -1])
    truth = asked.answer(TRUE.sum(axis=1))[0]
    for _ in range(draws):
        answers = [partition(own) for own in (COARSE, FINE, [0, 0, 1, 1, 2, 2, 3, 3])]
        noisy = [
            measurement(own.query, own.values + generator.normal(size=own.values.size), 1.0, gaussian=True)
            for own in answers
        ]
        sums = Families(noisy, SIZES).exact(asked).estimates
        found.append(sums.values[0] - truth)
    variance = float(sums.variances[0])
    assert abs(np.mean(found)) < 5 * np.sqrt(variance / draws)
    assert np.var(found) == pytest.approx(variance, rel=0.2)
    assert variance < 3  # less than of single parts of one partition


def test_a_marginal_of_a_cuboid_and_bounds_from_part_of_the_attributes() -> None:
    blocks = tuple(Block((name,), np.arange(size, dtype=np.int32), size) for name, size in SIZES.items())
    families = Families([measurement(LinearQuery(blocks), TRUE.ravel(), 2.0)], SIZES)
    exact = families.exact(LinearQuery(blocks[1:]))
    sums = exact.estimates
    assert exact.is_exact.all()
    assert sums.values == pytest.approx(TRUE.sum(axis=0))
    assert sums.variances == pytest.approx([16.0] * 3)
    assert [len(families.sharing(["a", "b"], k)) for k in (1, 2)] == [1, 1]
    family = Family([measurement(LinearQuery(blocks[:1]), TRUE.sum(axis=1), 1.0)])
    told = family.enclosure(LinearQuery(blocks), SIZES)
    assert told is not None
    assert not told.is_exact.any()
    assert told.low.values == pytest.approx(0)
    assert told.high.values == pytest.approx(np.repeat(TRUE.sum(axis=1), 3))
