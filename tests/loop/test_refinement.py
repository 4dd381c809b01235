"""Refinement: partitions of cells that follow the data, and least squares on the tree that they are taken from."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.loop.refinement import FLOOR, MANY, Halves, Refinement, partitions_of

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


def measure(own: Refinement, counts: np.ndarray, scale: float, generator: np.random.Generator) -> np.ndarray:
    labels = own.labels
    values = np.bincount(labels, counts) + generator.laplace(scale=scale, size=labels.max() + 1)
    own.add(values, 2 * scale**2)
    return labels


def even(*shape: int) -> Refinement:
    return Refinement(shape, np.ones(int(np.prod(shape))))


def refined(
    shape: tuple[int, ...], counts: np.ndarray, scale: float, seed: int, base: np.ndarray | None = None
) -> tuple[Refinement, list[np.ndarray]]:
    generator, own, partitions = (
        np.random.default_rng(seed),
        even(*shape) if base is None else Refinement(shape, base),
        [],
    )
    for number in range(partitions_of(shape)):
        partitions.append(measure(own, counts, scale, generator))
        if number + 1 == partitions_of(shape) or not own.look(2 * scale**2):
            break
    return own, partitions


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(0, 999), st.sampled_from([0.1, 3.0, 100.0]))
def test_a_partition_has_every_cell_once_and_its_parts_are_made_of_leaves(
    shape: tuple[int, ...], seed: int, scale: float
) -> None:
    counts = np.random.default_rng(seed).geometric(0.02, int(np.prod(shape)))
    own, partitions = refined(shape, counts, scale, seed)
    assert len(partitions) <= partitions_of(shape)
    leaves = own.leaves(float(counts.sum())).labels
    for labels in (*partitions, leaves):
        assert sorted(set(labels.tolist())) == list(range(labels.max() + 1))
    for labels in partitions:
        assert len(set(zip(leaves.tolist(), labels.tolist(), strict=True))) == leaves.max() + 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=3).map(tuple))
def test_shares_follow_the_parts_that_the_sides_of_a_box_cut(shape: tuple[int, ...]) -> None:
    """Counted for every place at which a box may end, attribute by attribute."""
    tree = Halves(shape)
    for level, above, surface in zip(tree.levels, [0, *tree.levels], tree.surfaces, strict=False):
        most = 1
        for axis, size in enumerate(shape):
            if any(_is_cut(tree, above, shape, axis, place) for place in range(1, size)):
                most = max(most, *(_beside(tree, level, shape, axis, place) for place in range(1, size)))
        assert surface == most
    if len(shape) == 1:
        assert set(even(*shape).parts(2)) == {1}


def _is_cut(tree: Halves, level: int, shape: tuple[int, ...], axis: int, place: int) -> bool:
    """Whether a node of this level has cells on both sides of a place."""
    upper = (np.unravel_index(tree.order, shape)[axis] >= place).astype(float)
    sums = np.add.reduceat(upper, tree.starts[level])
    return bool(((sums > 0) & (sums < np.diff(np.append(tree.starts[level], len(upper))))).any())


def _beside(tree: Halves, level: int, shape: tuple[int, ...], axis: int, place: int) -> int:
    """How many nodes of this level have a cell right below a place."""
    below = (np.unravel_index(tree.order, shape)[axis] == place - 1).astype(float)
    return int((np.add.reduceat(below, tree.starts[level]) > 0).sum())


def test_a_share_grows_with_the_parts_that_are_cut() -> None:
    assert even(16, 16).parts(2) == pytest.approx([4 ** (1 / 3), 16 ** (1 / 3)])
    assert even(16, 16).parts(1) == pytest.approx([2, 4])
    assert Refinement((16, 16), np.ones(256), by_cells=True).parts(2) == pytest.approx([16 ** (1 / 3), 256 ** (1 / 3)])


def test_at_once_single_cells_are_measured_and_nothing_else() -> None:
    own = Refinement((16, 16), np.ones(256), by_cells=True, at_once=True)
    assert len(own.parts(2)) == 1
    assert sorted(own.labels.tolist()) == list(range(256))


def test_only_counts_above_noise_are_split() -> None:
    """The first of four parts has rows, the others have fewer than the noise of the next measurement could make up, and
    are measured as one.
    """
    own = even(64)
    first = own.tree.levels[0]
    assert own.labels.tolist() == (np.arange(64) * 2**first // 64).tolist()
    values = np.zeros(2**first)
    values[0], values[1] = 1000 * MANY, 0.9 * MANY
    own.add(values, 1e-6)
    assert own.look(1.0)
    single = 64 // 2**first
    assert np.bincount(own.labels)[own.labels][:single].tolist() == [1] * single
    # Those whose sum with the first part is large stay apart; the upper half is one part.
    assert len(set(own.labels[32:])) == 1
    assert own.labels.max() + 1 == single + first


def test_what_is_even_is_not_split_however_many_rows_it_has() -> None:
    """Even is as the base has it."""
    base = np.arange(1.0, 65.0)
    own = Refinement((64,), base)
    counts = 1e6 * base
    measure(own, counts, 10.0, np.random.default_rng(0))
    assert not own.look(200.0)
    counts[:8] *= 2
    own = Refinement((64,), base)
    measure(own, counts, 10.0, np.random.default_rng(0))
    assert own.look(200.0)


@pytest.mark.parametrize(
    ("epsilon", "expected", "cells"),
    [
        ("1/10", ["1/4"] * 4, [1024, 128, 16, 1]),
        ("3/100", ["1/4", "3/8", "3/8"], [1024, 32, 32]),
        ("1/100", ["1/4", "3/4"], [1024, 2048]),
    ],
)
def test_there_are_fewer_partitions_where_noise_hides_what_they_tell(
    epsilon: str, expected: list[str], cells: list[int]
) -> None:
    """Four are planned, each an eighth of the one before; fewer are further apart. The share is spent exactly.

    Of 1,000 rows 700 have one value: so many cells are in its part.
    """
    counts = np.full(4096, 300 / 4096)
    counts[5] += 700
    own, shares, partitions = even(4096), list[Fraction](), list[np.ndarray]()

    def measure(labels: np.ndarray, share: Fraction) -> tuple[np.ndarray, float]:
        shares.append(share)
        partitions.append(labels)
        return np.bincount(labels, counts), 2 / float(share) ** 2

    own.measure(Fraction(epsilon), own.parts(2), measure, lambda share: 2 / float(share) ** 2)
    assert shares == [Fraction(part) * Fraction(epsilon) for part in expected]
    assert sum(shares) == Fraction(epsilon)
    assert [np.count_nonzero(labels == labels[5]) for labels in partitions] == cells


def test_what_is_known_badly_is_not_split_whatever_the_next_noise() -> None:
    own = even(64)
    own.add(np.array([300.0, 100.0, 300.0, 50.0]), 100.0**2)
    assert not own.look(1e-9)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 999))
def test_least_squares_on_the_tree_is_that_of_dense_algebra(shape: tuple[int, ...], seed: int) -> None:
    """Where no estimate is negative.

    All measurements of all partitions, each by its precision.
    """
    generator = np.random.default_rng(seed)
    counts = generator.integers(5000, 9000, int(np.prod(shape))).astype(float)
    own, rows, targets, precisions = even(*shape), [], [], []
    rounds = partitions_of(shape)
    for number in range(rounds + 1):
        scale = float(generator.uniform(1, 20))
        labels = own.labels
        values = np.bincount(labels, counts) + generator.normal(scale=scale, size=labels.max() + 1)
        own.add(values, scale**2)
        rows.append(np.eye(labels.max() + 1)[labels].T / scale)
        targets.append(values / scale)
        precisions.append(scale)
        if number < rounds - 1:
            own.look(scale**2)
    assert own.labels.max() + 1 == counts.size  # so many rows are split to the last cell
    dense = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets), rcond=None)[0]
    total, variance = own.total()
    assert total == pytest.approx(dense.sum(), rel=1e-9)
    covariance = np.linalg.inv(np.concatenate(rows).T @ np.concatenate(rows))
    assert variance == pytest.approx(covariance.sum(), rel=1e-9)
    leaves = own.leaves(total)
    np.testing.assert_allclose(leaves.values[leaves.labels], dense, rtol=1e-7)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.integers(0, 999), st.sampled_from([0.01, 3.0, 1000.0]), st.floats(1, 1e6))
def test_estimates_are_positive_and_sum_to_the_total(
    shape: tuple[int, ...], seed: int, scale: float, total: float
) -> None:
    generator = np.random.default_rng(seed)
    counts = generator.geometric(0.02, int(np.prod(shape)))
    own, _ = refined(shape, counts, scale, seed, generator.dirichlet(np.full(counts.size, 0.2)))
    leaves = own.leaves(total)
    assert leaves.values.sum() == pytest.approx(total)
    assert (leaves.values > 0).all() and (leaves.variances > 0).all()


def test_what_noise_explains_stays_with_the_base_measure_and_what_it_does_not_is_told() -> None:
    base = np.array([1.0, 3.0, 1.0, 3.0])
    for away, expected in ((0.0, [100, 300, 100, 300]), (1e4, [0, 0, 0, 800])):
        own = Refinement((4,), base)
        values = np.array([100.0, 300.0, 100.0, 300.0]) + np.array([-away, -away, -away, 3 * away])
        own.add(values, 500.0**2)
        np.testing.assert_allclose(own.leaves(800.0).values, expected, atol=FLOOR * 4000)


def test_no_noise_is_exact() -> None:
    counts = np.random.default_rng(1).multinomial(5000, np.random.default_rng(2).dirichlet(np.full(60, 0.05)))
    own, _ = refined((5, 12), counts, 1e-9, 0)
    leaves = own.leaves(own.total()[0])
    inside = np.bincount(leaves.labels)[leaves.labels]
    np.testing.assert_allclose((leaves.values[leaves.labels] / inside)[counts > 0], counts[counts > 0], atol=1e-5)


def test_error_falls_as_noise_does() -> None:
    """By about a hundred for a tenth of the noise, in the squared error of prefixes.

    Where everything is told, by exactly that.
    """
    counts = (
        np.random.default_rng(3).multinomial(10**6, 1 / np.arange(1, 513) / (1 / np.arange(1, 513)).sum()).astype(float)
    )
    errors = []
    for scale in (300.0, 30.0, 3.0):
        found = []
        for seed in range(8):
            own, _ = refined((512,), counts, scale, seed)
            leaves = own.leaves(own.total()[0])
            estimate = leaves.values[leaves.labels] / np.bincount(leaves.labels)[leaves.labels]
            found.append(np.mean(np.cumsum(estimate - counts) ** 2))
        errors.append(np.mean(found))
    assert errors[1] < errors[0] / 30 and errors[2] < errors[1] / 30


def test_what_attributes_say_alone_is_a_base_where_it_is_nearer_to_what_was_measured() -> None:
    """A spike of one attribute in each of the other's values.

    Inside a coarse part, rows are where the attribute has them elsewhere.
    """
    hours = np.full(16, 1.0)
    hours[9] = 400
    counts = np.multiply.outer(np.repeat([1000.0, 5.0], 4), hours / hours.sum()).ravel()
    own, _ = refined((8, 16), counts, 4.0, 0)
    leaves = own.leaves(counts.sum())
    assert len(set(leaves.labels.reshape(8, 16)[4:, 8:12].ravel())) == 1
    found = leaves.cells.reshape(8, 16)[4:, 8:12]
    assert found[:, 1].sum() > found.sum() / 2
    # Where they go together otherwise, it is not.
    mixed = np.diag(np.full(8, 1000.0)).ravel()
    own, _ = refined((8, 8), mixed, 4.0, 0)
    assert np.abs(own.leaves(8000.0).cells - mixed).sum() < 1000


@settings(max_examples=examples(80), deadline=None)
@given(SHAPES)
def test_each_level_halves_one_attribute_and_the_last_has_single_cells(shape: tuple[int, ...]) -> None:
    tree = Halves(shape)
    cells = int(np.prod(shape))
    assert sorted(tree.order) == list(range(cells))
    assert len(tree.starts[0]) == 1
    assert len(tree.starts[-1]) == cells
    assert len(tree.levels) == partitions_of(shape)
    assert (tree.levels[-1], tree.levels) == (len(tree.starts) - 1, sorted(set(tree.levels)))
    for level, (above, below) in enumerate(pairwise(tree.starts), start=1):
        assert np.bincount(tree.parents[level], minlength=len(above)).max() <= 2
        assert set(above) <= set(below)
    # A node is a box of neighbouring classes: its cells are as many as the product of its extents.
    for starts in tree.starts:
        for begin, end in pairwise([*starts.tolist(), cells]):
            places = np.unravel_index(tree.order[begin:end], shape)
            assert np.prod([own.max() - own.min() + 1 for own in places]) == end - begin


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_sums_of_a_level_are_those_of_the_nodes_below(shape: tuple[int, ...], seed: int) -> None:
    tree = Halves(shape)
    cells = np.random.default_rng(seed).random(int(np.prod(shape)))
    for level in range(1, len(tree.starts)):
        below = np.bincount(tree.parents[level], tree.sums(cells, level))
        np.testing.assert_allclose(below, tree.sums(cells, level - 1))
    np.testing.assert_allclose(tree.sums(cells, 0), [cells.sum()])
