"""Marginals in bulk are plain sums; finer classes have the sums that they came from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mwem_sql.algebra import marginals as module
from mwem_sql.algebra.marginals import marginals, shares_within, spread

SHAPE = {"a": 3, "b": 2, "c": 1, "d": 4}


@pytest.mark.parametrize("long", [1, 3, 9, 512])
def test_marginals_are_sums(monkeypatch: pytest.MonkeyPatch, long: int) -> None:
    monkeypatch.setattr(module, "LONG", long)
    module._reductions.cache_clear()
    cells = np.random.default_rng(1).integers(0, 99, tuple(SHAPE.values()))
    wanted = [names for size in range(5) for names in itertools.permutations(SHAPE, size)]
    found = marginals(cells.ravel(), list(SHAPE), list(SHAPE.values()), wanted)
    for names in wanted:
        others = tuple(axis for axis, name in enumerate(SHAPE) if name not in names)
        kept = [name for name in SHAPE if name in names]
        np.testing.assert_array_equal(found[names], cells.sum(axis=others).transpose([kept.index(n) for n in names]))
    module._reductions.cache_clear()


def test_finer_classes_share_what_there_was_by_base_measure() -> None:
    parents, base = np.array([1, 0, 1, 2]), np.array([1.0, 5.0, 3.0, 2.0])
    shares = shares_within(parents, base)
    assert shares.tolist() == [0.25, 1.0, 0.75, 1.0]
    weights = np.arange(12.0).reshape(2, 3, 2)
    found = spread(weights, 1, parents, shares)
    assert found.shape == (2, 4, 2)
    np.testing.assert_allclose(found[:, 0], weights[:, 1] / 4)
    np.testing.assert_allclose(found[:, [1, 3]], weights[:, [0, 2]])
    np.testing.assert_allclose(found.sum(axis=1), weights.sum(axis=1))
    assert weights.tolist() == np.arange(12.0).reshape(2, 3, 2).tolist()
