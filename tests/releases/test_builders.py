"""Common workloads of several tables: each row counts rows of one table, and the release of all of them runs."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import mwem_sql
from mwem_sql.errors import OptionError

SETUP = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL, note VARCHAR);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), away BOOLEAN NOT NULL,
                        day INTEGER NOT NULL CHECK (day BETWEEN 1 AND 31));
    CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), days INTEGER CHECK (days BETWEEN 1 AND 9));
    CREATE TABLE gold (pid INTEGER PRIMARY KEY REFERENCES person (pid));
    INSERT INTO person SELECT i, if(i % 3 = 0, 'F', 'M'), NULL FROM range(60) t(i);
    INSERT INTO visit SELECT row_number() OVER (), pid, i = 0, 1 + pid % 31 FROM person, range(2) t(i);
    INSERT INTO drug SELECT vid, 1 + vid % 9 FROM visit;
    INSERT INTO gold SELECT pid FROM person WHERE pid % 2 = 0
"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def rows(con: duckdb.DuckDBPyConnection, tables: list[str], order: int) -> list[tuple[str, tuple[str, ...]]]:
    return [(row["of"], tuple(row["group_by"])) for row in mwem_sql.marginals(con, tables, order).to_pylist()]


def test_pairs_have_a_column_or_number_of_the_table_itself(con: duckdb.DuckDBPyConnection) -> None:
    """Columns above are asked about in their own table; a column without values, and keys, are left out."""
    assert rows(con, ["visit", "person"], 2) == [
        ("person", ("sex", "visit")),
        ("visit", ("away", "day")),
        ("visit", ("away", "person.sex")),
        ("visit", ("day", "person.sex")),
    ]
    assert rows(con, ["person", "visit", "drug"], 1) == [
        ("person", ("sex",)), ("person", ("visit",)),
        ("visit", ("away",)), ("visit", ("day",)), ("visit", ("drug",)),
        ("drug", ("days",)),
    ]  # fmt: skip


def test_a_table_with_fewer_columns_is_asked_about_all_of_them(con: duckdb.DuckDBPyConnection) -> None:
    """One that has keys alone, about those above it: each table of a release must be asked about."""
    assert rows(con, ["person", "gold"], 2) == [("person", ("sex", "gold")), ("gold", ("person.sex",))]
    assert rows(con, ["person", "visit"], 3) == [("person", ("sex", "visit")), ("visit", ("away", "day", "person.sex"))]
    with pytest.raises(OptionError, match=r"mwem_marginals: order \(4\) must be from 1 to 3"):
        mwem_sql.marginals(con, ["person", "visit"], 4)


def test_the_release_of_a_workload_that_was_made_runs(con: duckdb.DuckDBPyConnection) -> None:
    tables = ["person", "visit", "drug", "gold"]
    con.execute("CREATE TABLE workload AS FROM mwem_marginals(['person', 'visit', 'drug', 'gold'], 2)")
    con.execute(
        "INSERT INTO workload BY NAME FROM mwem_ranges(['person', 'visit', 'drug', 'gold'], 'day', 3, seed := 1)"
    )
    made = mwem_sql.release(con, tables, "workload", 1, rows_per_unit={"visit": 2, "drug": 4, "gold": 1})
    asked = [{query.label for query in one.workload} for one in made]
    for table, labels in zip(tables, asked, strict=True):
        assert labels >= {", ".join(names) for of, names in rows(con, tables, 2) if of == table}


def test_ranges_count_rows_of_the_nearest_table_that_sees_all_columns(con: duckdb.DuckDBPyConnection) -> None:
    tables = ["drug", "person", "visit"]
    for columns, of, begins in (
        ("day", "visit", '"day" BETWEEN'),
        (["visit.day", "days"], "drug", '"visit.day" BETWEEN'),
    ):
        for row in mwem_sql.ranges(con, tables, columns, 2).to_pylist():
            assert row["of"] == of and row["predicate"].startswith(begins)
    for columns in ("vid", "visit", "note", "nothing"):
        with pytest.raises(OptionError, match=f"mwem_ranges: columns .{columns}. are not all of one of the tables"):
            mwem_sql.ranges(con, tables, columns, 2)
    with pytest.raises(OptionError, match="mwem_ranges: no column is named"):
        mwem_sql.ranges(con, tables, [], 2)


def test_what_is_for_one_table_is_refused_of_several(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(OptionError, match=r"mwem_domain: domain \('d'\) is for one table"):
        mwem_sql.domain(con, ["person", "visit"], domain="d")
    with pytest.raises(OptionError, match=r"mwem_marginals: tables .*must be a list of 2 to 100"):
        mwem_sql.marginals(con, ["person"], 1)


def test_the_domain_of_several_tables_lists_columns_keys_and_numbers(con: duckdb.DuckDBPyConnection) -> None:
    found = {row["attribute"]: row for row in mwem_sql.domain(con, ["visit", "person"]).to_pylist()}
    assert list(found) == [
        "person.pid", "person.sex", "person.note", "person.visit",
        "visit.vid", "visit.pid", "visit.away", "visit.day",
    ]  # fmt: skip
    assert (found["visit.day"]["low"], found["visit.day"]["high"], found["visit.day"]["lacks"]) == ("1", "31", None)
    assert found["visit.pid"]["lacks"].startswith("it is a key") and found["person.note"]["lacks"].startswith("values")
    assert found["person.visit"]["declared"] == "rows of visit, up to rows_per_unit of the release"
