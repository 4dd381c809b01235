"""Targets: how far a model is off, weighed by the noise of each cell."""

from __future__ import annotations

import numpy as np

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.state import State
from mwem_sql.model.targets import Target


def cuboid(shape: dict[str, int], *names: str) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def test_targets_of_unequal_variances_are_weighed_cell_by_cell() -> None:
    query = cuboid({"a": 4}, "a")
    state = State.uniform({"a": np.ones(4)}, 100.0)
    state.fit([Target(query, np.array([10.0, 20, 30, 80]), np.array([1e-6, 1e-6, 1e-6, 1.0]))], tolerance=1e-10)
    np.testing.assert_allclose(state.answer(query), [10, 20, 30, 40], atol=1e-2)
