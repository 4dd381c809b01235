"""Tables without rows, and epsilons that leave nothing but noise: what is made, said and refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import mwem_sql
from mwem_sql.errors import OptionError

SETUP = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), home BOOLEAN NOT NULL);
    CREATE TABLE workload AS FROM mwem_marginals(['person', 'visit'], 2)
"""
ROWS = """
    INSERT INTO person SELECT i, if(i % 3 = 0, 'F', 'M') FROM range(200) t(i);
    INSERT INTO visit SELECT row_number() OVER (), pid, i = 0 FROM person, range(3) t(i) WHERE i < 1 + pid % 3
"""
TABLES = ["person", "visit"]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def test_a_table_without_rows_is_released_without_rows(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Alone and with others; it can be asked, exported and drawn again. Its intervals are from 0 to 1."""
    con.execute("CREATE TABLE alone (x BOOLEAN NOT NULL); CREATE TABLE questions AS SELECT 'x' AS predicate")
    made = [
        *mwem_sql.release(con, TABLES, "workload", 10**4, rows_per_unit=3),
        mwem_sql.release(con, "alone", "questions", 10**4),
    ]
    for one in made:
        assert one.rows == one.to_arrow().num_rows == 0
        found = mwem_sql.count_interval(con, one.output, "true")
        assert (found["low"], found["high"]) == (0, pytest.approx(1))
        assert mwem_sql.export(con, one.output, tmp_path / f"{one.release}.csv").num_rows >= 3
        assert mwem_sql.report(con, one.output, tmp_path / f"{one.release}.html").num_rows == 1
        con.execute(f"DROP TABLE {one.output}" if one.output.endswith("alone_synthetic") else "SELECT 1")
    assert mwem_sql.release(con, "alone", "questions", 10**4).to_arrow().num_rows == 0
    scores = mwem_sql.quality(con, "alone_synthetic", summary=True, compare="alone").to_pylist()
    assert {row["name"]: row["score"] for row in scores}["pMSE"] is None
    with_rows = mwem_sql.release(con, "alone", "questions", 10**4, output="some", rows=7)
    assert with_rows.rows == with_rows.to_arrow().num_rows == 7


def test_the_number_of_rows_is_not_mostly_noise_unsaid(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS)
    words = "numbers of rows are mostly noise"

    def made(epsilon: float, seed: int) -> tuple[int, str]:
        options = {"rows_per_unit": 3, "seed": seed, "version": f"{epsilon} {seed}"}
        person, visit = mwem_sql.release(con, TABLES, "workload", epsilon, **options)
        row = con.execute(
            f"SELECT warning FROM mwem_release(['person', 'visit'], workload, {epsilon}, rows_per_unit := 3,"
            f" seed := {seed}, version := '{epsilon} {seed} again')"
        ).fetchall()
        return person.rows + visit.rows, row[0][0] or ""

    noisy = [made(1e-3, seed) for seed in range(4)]
    assert max(rows for rows, _ in noisy) > 5000
    assert all(words in warning for _, warning in noisy)
    rows, warning = made(10, 1)
    assert rows == pytest.approx(600, abs=60) and words not in warning


@pytest.mark.parametrize(("epsilon", "most"), [(1e-5, 20), (1e-3, 500), (0.1, 20_000)])
def test_more_rows_of_noise_than_can_be_written_are_refused(
    con: duckdb.DuckDBPyConnection, epsilon: float, most: int
) -> None:
    """Before anything is charged: by epsilon and rows_per_unit alone."""
    con.execute(ROWS)
    reason = f"epsilon .{epsilon:g}. is so small, and rows_per_unit so large, that some [0-9,]+ rows would be noise"
    with pytest.raises(OptionError, match=reason):
        mwem_sql.release(con, TABLES, "workload", epsilon, rows_per_unit=most)
    assert mwem_sql.ledger(con).num_rows == 0
    mwem_sql.release(con, TABLES, "workload", 100 * epsilon, rows_per_unit=3)
