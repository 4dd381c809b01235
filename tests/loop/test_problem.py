"""A problem: one weight per query, and the kernel's numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
from loops import MANY, cuboid, ones, shares

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.loop.plan import SHARES
from mwem_sql.loop.problem import Problem
from mwem_sql.loop.strategy import whole_domain


def test_a_problem_has_one_weight_per_query() -> None:
    with pytest.raises(ValueError, match="one weight per query"):
        Problem(queries=[LinearQuery(())], weights=np.ones(2), sizes={}, max_cells=MANY)


def test_numbers_of_the_kernels_queries() -> None:
    shape = {"a": 2, "b": 3}
    workload = [cuboid(shape, "a"), cuboid(shape, "b")]
    whole = whole_domain(shape)
    problem = Problem(queries=workload, weights=np.ones(2), sizes=ones(shape), max_cells=MANY)
    assert list(problem.kernel_queries[:-1]) == workload
    assert list(replace(problem, histogram=whole).kernel_queries[:-1]) == [*workload, whole]
    np.testing.assert_array_equal(oracle.dense_query(whole, shape), np.eye(6))
    assert SHARES["total"] == shares(
        Problem(queries=workload, weights=np.ones(2), sizes=ones(shape), max_cells=MANY), 2
    ).share("total")
