"""Regimes: which row of the table a workload gets, and for how many rounds."""

from __future__ import annotations

import pytest

from mwem_sql.mwem.regimes import default_rounds


@pytest.mark.parametrize(
    ("queries", "attributes", "rounds"), [(1, 1, 1), (3, 3, 3), (100, 1, 4), (100, 3, 6), (100, 25, 50), (20, 25, 20)]
)
def test_default_rounds(queries: int, attributes: int, rounds: int) -> None:
    assert default_rounds(queries, attributes) == rounds
