"""The comparison: true answers beside released ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Connection
from released import CITIES, OF_CITIES, weighed

import mwem_sql


@pytest.fixture(scope="module", params=[False, True], ids=["last", "average"])
def released(request: pytest.FixtureRequest) -> Iterator[Connection]:
    with weighed(CITIES, OF_CITIES, average=request.param) as con:
        yield con


def test_a_list_may_have_expressions(released: Connection) -> None:
    released.execute("CREATE OR REPLACE TABLE asked AS SELECT ['sex', 'age // 6'] AS group_by")
    found = released.execute("SELECT cell, true_answer FROM mwem_compare('t', 't_synthetic', asked)").fetchall()
    true = released.execute("SELECT [sex::VARCHAR, (age // 6)::VARCHAR], count(*) FROM t GROUP BY ALL").fetchall()
    assert sorted(map(str, found)) == sorted(str((cell, float(rows))) for cell, rows in true)


def test_the_comparison_has_the_truth(released: Connection) -> None:
    mwem_sql.release(released, "t", OF_CITIES, 3, rounds=4, output="compared", seed=1)
    released.execute(
        "CREATE OR REPLACE TABLE asked AS SELECT unnest(['age > 6', 'age % 2 = 1', 'ok IS NULL', 'sex = ''F'' AND city "
        "= ''Bern''']) AS predicate"
    )
    found = released.execute(
        "SELECT name, true_answer, answer, error FROM mwem_compare('t', 'compared', asked)"
    ).fetchall()
    for name, truth, answer, error in found:
        assert released.execute(f"SELECT count(*) FROM t WHERE {name}").fetchall() == [(truth,)]
        assert error == pytest.approx(abs(truth - answer))


TABLES = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), kind ENUM ('A', 'B') NOT NULL);
    INSERT INTO person SELECT i, if(i % 3 = 0, 'F', 'M') FROM range(90) t(i);
    INSERT INTO visit SELECT row_number() OVER (), pid, if(i < 2, 'A', 'B') FROM person, range(4) t(i)
    WHERE i < if(sex = 'F', 4, 1);
    INSERT INTO visit VALUES (-1, NULL, 'A');
    CREATE TABLE of_visits AS
    SELECT 'visit' AS of, unnest(['sex = ''F''', 'kind = ''B'' AND person.sex = ''F''']) AS predicate;
    CREATE TABLE of_persons AS SELECT 'person' AS of, unnest(['visit >= 2', 'visit = 2 AND sex = ''F''']) AS predicate;
    CREATE TABLE workload AS FROM of_visits UNION ALL FROM of_persons
"""


def test_tables_that_keys_join_are_compared_row_by_row_with_what_is_above_and_below() -> None:
    """Of all rows that lead to a unit, also those beyond the number that is used; a number of rows is no larger."""
    with mwem_sql.connect() as con:
        con.execute(TABLES)
        mwem_sql.release(con, ["person", "visit"], "workload", 1000, rows_per_unit=2)
        rows = mwem_sql.compare(con, "visit", "visit_synthetic", "of_visits").to_pylist()
        assert [row["true_answer"] for row in rows] == [120, 60]
        assert round(rows[0]["answer"]) == 60  # two visits of each of 30 women
        assert {row["note"] for row in rows} == {
            "the true answer is of all rows that lead to a person; the release used at most 2 of each"
        }
        rows = mwem_sql.compare(con, "person", "person_synthetic", "of_persons").to_pylist()
        assert [(row["true_answer"], round(row["answer"]), row["note"]) for row in rows] == [(30, 30, None)] * 2


def test_another_table_of_the_release_is_refused_before_it_is_read() -> None:
    with mwem_sql.connect() as con:
        con.execute(TABLES)
        mwem_sql.release(con, ["person", "visit"], "workload", 1, rows_per_unit=2)
        con.execute("CREATE TABLE copy AS FROM visit")
        for table, message in (
            ("person", r"mwem_compare: table \('person'\) is not the one that visit_synthetic was made from"),
            ("copy", r"mwem_compare: tables \('copy', 'person'\) lead to none of the others"),
        ):
            with pytest.raises(mwem_sql.MwemError, match=message):
                mwem_sql.compare(con, table, "visit_synthetic", "of_visits")
        assert con.execute("SELECT count(*) FROM mwem_ledger() WHERE action = 'mwem_compare'").fetchall() == [(0,)]


def test_scores_of_a_table_are_about_its_own_columns() -> None:
    pytest.importorskip("sklearn")
    with mwem_sql.connect() as con:
        con.execute(TABLES)
        mwem_sql.release(con, ["person", "visit"], "workload", 1, rows_per_unit=2)
        names = mwem_sql.quality(con, "visit_synthetic", summary=True, compare="visit").column("name").to_pylist()
        assert "pMSE" in names
        with pytest.raises(mwem_sql.OptionError, match=r"target \('sex'\) is not a column .* it has kind"):
            mwem_sql.quality(con, "visit_synthetic", summary=True, compare="visit", target="sex")
