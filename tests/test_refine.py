"""Refinement: partitions of cells that are split where there are rows, and least squares on the tree that they are taken from."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql import refine
from mwem_sql.refine import FAINT, TAU_ALONE, Halves, Refinement, rounds_of

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


def measure(own: Refinement, counts: np.ndarray, scale: float, generator: np.random.Generator) -> np.ndarray:
    labels = own.labels
    values = np.bincount(labels, counts) + generator.laplace(scale=scale, size=labels.max() + 1)
    own.tell(values, 2 * scale**2)
    return labels


def refined(shape: tuple[int, ...], counts: np.ndarray, scale: float, seed: int) -> tuple[Refinement, list[np.ndarray]]:
    generator, own, partitions = np.random.default_rng(seed), Refinement(shape), []
    for number in range(own.rounds):
        partitions.append(measure(own, counts, scale, generator))
        if number + 1 == own.rounds or not own.split(2 * scale**2):
            break
    return own, partitions


@settings(max_examples=80, deadline=None)
@given(SHAPES)
def test_each_level_halves_one_attribute_and_the_last_has_single_cells(shape: tuple[int, ...]) -> None:
    tree = Halves(shape)
    cells = int(np.prod(shape))
    assert sorted(tree.order) == list(range(cells))
    assert len(tree.starts[0]) == 1
    assert len(tree.starts[-1]) == cells
    assert len(tree.levels) == rounds_of(shape)
    assert (tree.levels[-1], tree.levels) == (len(tree.starts) - 1, sorted(set(tree.levels)))
    for level, (above, below) in enumerate(pairwise(tree.starts), start=1):
        assert np.bincount(tree.parents[level], minlength=len(above)).max() <= 2
        assert set(above) <= set(below)
    # A node is a box of neighbouring classes: its cells are as many as the product of its extents.
    for starts in tree.starts:
        for begin, end in pairwise([*starts.tolist(), cells]):
            places = np.unravel_index(tree.order[begin:end], shape)
            assert np.prod([own.max() - own.min() + 1 for own in places]) == end - begin


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(0, 999), st.sampled_from([0.1, 3.0, 100.0]))
def test_a_partition_has_every_cell_once_and_only_grows_finer(shape: tuple[int, ...], seed: int, scale: float) -> None:
    counts = np.random.default_rng(seed).geometric(0.02, int(np.prod(shape)))
    own, partitions = refined(shape, counts, scale, seed)
    assert len(partitions) <= own.rounds
    for labels in partitions:
        assert sorted(set(labels.tolist())) == list(range(labels.max() + 1))
    for coarse, fine in pairwise([*partitions, own.labels]):
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == fine.max() + 1


def test_only_counts_above_noise_are_split() -> None:
    """The first of eight parts has rows, one has fewer than the noise of the next measurement could make up."""
    own = Refinement((64,))
    first = own.tree.levels[0]
    assert own.labels.tolist() == (np.arange(64) * 2**first // 64).tolist()
    values = np.zeros(2**first)
    values[0], values[1] = 1000 * TAU_ALONE, 0.9 * TAU_ALONE
    own.tell(values, 1e-6)
    assert own.split(1.0)
    sizes = np.bincount(own.labels)
    assert sorted(sizes.tolist()) == [1] * (64 // 2**first) + [64 // 2**first] * (2**first - 1)
    own.tell(np.zeros(len(sizes)), 1e-9)
    assert not own.split(1.0)


def test_what_is_known_badly_is_not_split_whatever_the_next_noise() -> None:
    own = Refinement((64,))
    own.tell(np.full(2 ** own.tree.levels[0], 100.0), 100.0**2)
    assert not own.split(1e-9)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 999))
def test_least_squares_on_the_tree_is_that_of_dense_algebra(shape: tuple[int, ...], seed: int) -> None:
    """Without shrinking, and where no estimate is negative: all measurements of all partitions, each by its precision."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(5000, 9000, int(np.prod(shape))).astype(float)
    own, rows, targets, precisions = Refinement(shape), [], [], []
    for number in range(own.rounds + 1):
        scale = float(generator.uniform(1, 20))
        labels = own.labels
        values = np.bincount(labels, counts) + generator.normal(scale=scale, size=labels.max() + 1)
        own.tell(values, scale**2)
        rows.append(np.eye(labels.max() + 1)[labels].T / scale)
        targets.append(values / scale)
        precisions.append(scale)
        if number < own.rounds - 1:
            own.split(scale**2)
    assert own.labels.max() + 1 == counts.size  # so many rows are split to the last cell
    dense = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0]
    total, variance = own.total()
    assert total == pytest.approx(dense.sum(), rel=1e-9)
    covariance = np.linalg.inv(np.concatenate(rows).T @ np.concatenate(rows))
    assert variance == pytest.approx(covariance.sum(), rel=1e-9)
    shrink, refine.SHRINK = refine.SHRINK, 0.0
    try:
        leaves = own.leaves(np.ones(counts.size), total)
    finally:
        refine.SHRINK = shrink
    np.testing.assert_allclose(leaves.values[leaves.labels], dense, rtol=1e-7)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(0, 999), st.sampled_from([0.01, 3.0, 1000.0]), st.floats(1, 1e6))
def test_estimates_are_positive_and_sum_to_the_total(shape: tuple[int, ...], seed: int, scale: float, total: float) -> None:
    generator = np.random.default_rng(seed)
    counts = generator.geometric(0.02, int(np.prod(shape)))
    own, _ = refined(shape, counts, scale, seed)
    base = generator.dirichlet(np.full(counts.size, 0.2))
    leaves = own.leaves(base, total)
    assert leaves.values.sum() == pytest.approx(total)
    assert (leaves.values > 0).all() and (leaves.variances > 0).all()
    np.testing.assert_array_equal(leaves.labels, own.labels)


def test_what_noise_explains_stays_with_the_base_measure_and_what_it_does_not_is_told() -> None:
    base = np.array([1.0, 3.0, 1.0, 3.0])
    for away, expected in ((0.0, [100, 300, 100, 300]), (1e4, [0, 0, 0, 800])):
        own = Refinement((4,))
        values = np.array([100.0, 300.0, 100.0, 300.0]) + np.array([-away, -away, -away, 3 * away])
        own.tell(values, 500.0**2)
        np.testing.assert_allclose(own.leaves(base, 800.0).values, expected, atol=FAINT * 4000)


def test_no_noise_is_exact() -> None:
    counts = np.random.default_rng(1).multinomial(5000, np.random.default_rng(2).dirichlet(np.full(60, 0.05)))
    own, _ = refined((5, 12), counts, 1e-9, 0)
    leaves = own.leaves(np.ones(60), own.total()[0])
    inside = np.bincount(leaves.labels)[leaves.labels]
    np.testing.assert_allclose((leaves.values[leaves.labels] / inside)[counts > 0], counts[counts > 0], atol=1e-5)


def test_error_falls_as_noise_does() -> None:
    """By about a hundred for a tenth of the noise, in the squared error of prefixes; where everything is told, by exactly that."""
    counts = np.random.default_rng(3).multinomial(10**6, 1 / np.arange(1, 513) / (1 / np.arange(1, 513)).sum()).astype(float)
    errors = []
    for scale in (300.0, 30.0, 3.0):
        found = []
        for seed in range(8):
            own, _ = refined((512,), counts, scale, seed)
            leaves = own.leaves(np.ones(512), own.total()[0])
            estimate = leaves.values[leaves.labels] / np.bincount(leaves.labels)[leaves.labels]
            found.append(np.mean(np.cumsum(estimate - counts) ** 2))
        errors.append(np.mean(found))
    assert errors[1] < errors[0] / 30 and errors[2] < errors[1] / 30


def test_what_attributes_say_alone_is_a_base_where_it_is_nearer_to_what_was_measured() -> None:
    """A spike of one attribute in each of the other's values: inside a coarse part, rows are where the attribute has them elsewhere."""
    hours = np.full(16, 1.0)
    hours[9] = 400
    counts = np.multiply.outer(np.repeat([1000.0, 5.0], 4), hours / hours.sum()).ravel()
    own, _ = refined((8, 16), counts, 4.0, 0)
    leaves = own.leaves(np.ones(128), counts.sum())
    assert len(set(leaves.labels.reshape(8, 16)[4:, 8:12].ravel())) == 1
    found = leaves.cells.reshape(8, 16)[4:, 8:12]
    assert found[:, 1].sum() > found.sum() / 2
    # Where they go together otherwise, it is not.
    mixed = np.diag(np.full(8, 1000.0)).ravel()
    own, _ = refined((8, 8), mixed, 4.0, 0)
    assert np.abs(own.leaves(np.ones(64), 8000.0).cells - mixed).sum() < 1000
