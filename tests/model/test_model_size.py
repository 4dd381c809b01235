"""The options fit and max_cells of a release, through the SQL surface: each changes what comes out, and says so."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest
from chance import sampled

import mwem_sql
from mwem_sql.platform.catalog import Place
from mwem_sql.releases import store


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        columns = ", ".join(f"{name} INTEGER NOT NULL CHECK ({name} BETWEEN 0 AND 9)" for name in "abc")
        con.execute(f"CREATE TABLE t ({columns})")
        con.execute("INSERT INTO t SELECT range % 10, (range // 3) % 10, (range // 7) % 10 FROM range(5000)")
        con.execute("CREATE TABLE workload AS FROM mwem_marginals('t', 2)")
        yield con


def release(con: duckdb.DuckDBPyConnection, options: str) -> tuple[int, list[str]]:
    """Cells of the model, and what each measurement was for."""
    con.execute("DROP TABLE IF EXISTS out")
    row = con.execute(
        "FROM mwem_release('t', workload, 1, rounds := 8, total := 5000, output := 'out', "
        f"version := '{options.replace(chr(39), '')}', {options})"
    ).fetchall()[0]
    steps = con.execute(
        "SELECT purpose FROM mwem.measurements WHERE release = $release ORDER BY step", {"release": row[0]}
    ).fetchall()
    return row[8], [purpose for (purpose,) in steps]


@pytest.mark.parametrize(
    ("limit", "cells", "rounds"),
    sampled([(101, {30, 101}, 3), (199, {110}, 4), (200, {200}, 5), (999, {200}, 5), (1000, {1000}, 6)], 2),
)
def test_the_model_keeps_to_its_limit(con: duckdb.DuckDBPyConnection, limit: int, cells: set[int], rounds: int) -> None:
    """Three pairs of three attributes are one clique of 1000 cells, two of them are two of 100 each; others fit.

    What fits is measured once, in whatever order, then some of it again.
    """
    found, purposes = release(con, f"max_cells := {limit}")
    assert found in cells
    assert purposes == ["round"] * rounds + ["again"] * (8 - rounds)


def test_a_query_too_wide_is_refused_before_anything_is_spent(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match=r"makes a model of 101 cells, more than max_cells \(100\)"):
        release(con, "max_cells := 100")
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'out'").fetchall() == [(0,)]


def test_fit(con: duckdb.DuckDBPyConnection) -> None:
    """The same seed measures the same first query; what is made of it is not the same."""
    found = []
    for fit in ("mirror", "replay"):
        release(con, f"seed := 3, fit := '{fit}'")
        found.append(store.load(con.cursor(), "out", Place.of(con), "test").state().marginal("ab"))
    assert np.abs(found[0] - found[1]).max() > 1
    with pytest.raises(duckdb.Error, match=r"fit \('x'\) must be 'mirror' or 'replay'"):
        release(con, "fit := 'x'")
