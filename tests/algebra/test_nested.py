"""Least squares on a tree, against the normal equations of a dense matrix."""

from __future__ import annotations

import numpy as np
import pytest

from mwem_sql.algebra.nested import LeastSquares

# A node with two leaves, a leaf beside it, and below one of the leaves three more: levels of 1, 2, 2 and 3 nodes.
PARENTS = [np.array([-1]), np.array([0, 0]), np.array([0, 0]), np.array([1, 1, 1])]
# Of each node, from the top down, the leaves that it is the sum of.
LEAVES = np.array(
    [
        [1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1],
        [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1],
    ]
)  # fmt: skip


def by_level(numbers: np.ndarray) -> list[np.ndarray]:
    return np.split(numbers, [1, 3, 5])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("columns", [(), (3,)])
def test_two_passes_solve_the_normal_equations(seed: int, columns: tuple[int, ...]) -> None:
    """Some inner nodes were not measured."""
    generator = np.random.default_rng(seed)
    precisions = generator.uniform(0.2, 5, 8)
    precisions[[0, 1, 4]] *= generator.integers(0, 2, 3)
    values = generator.normal(size=(8, *columns))
    weighed = values * precisions.reshape(-1, *[1] * len(columns))
    tree = LeastSquares(PARENTS, by_level(precisions))
    solved = np.concatenate(tree.down(tree.up(by_level(weighed))))
    normal = LEAVES.T @ (LEAVES * precisions[:, None])
    np.testing.assert_allclose(solved, LEAVES @ np.linalg.solve(normal, LEAVES.T @ weighed), atol=1e-9)
    # The top's estimate has all there is: its variance is that of the sum of all leaves.
    ones = np.ones(5)
    assert tree.variances[0][0] == pytest.approx(ones @ np.linalg.solve(normal, ones))


def test_what_was_never_measured_is_not_there() -> None:
    """The three below are not: they neither count nor are divided by."""
    precisions = np.array([1.0, 0, 2, 4, 4, 0, 0, 0])
    tree = LeastSquares(PARENTS, by_level(precisions))
    solved = tree.down(tree.up(by_level(precisions * np.array([12.0, 0, 5, 3, 4, 0, 0, 0]))))
    assert solved[0] == pytest.approx([12.0])
    assert solved[1].sum() == pytest.approx(12.0)
    assert solved[3].tolist() == tree.variances[3].tolist() == [0, 0, 0]


def test_corrections_go_down() -> None:
    tree = LeastSquares(PARENTS, by_level(np.ones(8)))
    found = tree.down(tree.up(by_level(np.ones(8))), np.array([10.0]), lambda _level, above, _solved: above / 2)
    assert [each.tolist() for each in found] == [[10.0], [5.0, 5.0], [2.5, 2.5], [1.25] * 3]
