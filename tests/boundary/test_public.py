"""Public inputs are plain tables, wherever they are named."""

from __future__ import annotations

import duckdb
import pytest
from chance import sampled
from conftest import Connection

import mwem_sql


@pytest.mark.parametrize(
    "made",
    sampled([
        "CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, max(age) AS high FROM people",
        "CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, 99 AS high",
        ("CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, estimated_size AS high FROM duckdb_tables() WHERE "
        "table_name = 'people'"),
        ("CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, count(*) AS high FROM "
        "pragma_storage_info('people')"),
        ("CREATE TABLE bounds (attribute VARCHAR, low INTEGER, n INTEGER, high AS (stats(n)::VARCHAR)); INSERT INTO "
        "bounds VALUES ('age', 0, 5)"),
    ], 2),
)  # fmt: skip
def test_a_domain_is_a_plain_table(con: Connection, made: str) -> None:
    con.execute(made)
    for call in (
        "CALL mwem_release('people', workload, 1, domain := 'bounds')",
        "FROM mwem_domain('people', domain := 'bounds')",
    ):
        with pytest.raises(
            duckdb.Error,
            match=r"domain table \('bounds'\) (is a view, and what a view reads may be private|has the generated "
            r"column high, so that its rows are computed)",
        ):
            con.execute(call)
    assert con.execute("FROM mwem_ledger()").fetchall() == []


def test_a_workload_with_a_known_name_is_a_plain_table(con: Connection) -> None:
    con.execute("CREATE VIEW asked AS FROM workload")
    with pytest.raises(
        mwem_sql.MwemError,
        match=r"workload \('asked'\) is a view, and what a view reads may be private\. Hint: write its rows out",
    ):
        mwem_sql.release(con, "people", "asked", 1)
    made = mwem_sql.release(con, "people", "workload", 1, rounds=1)
    assert made.answer("asked").num_rows == made.answer("workload").num_rows  # nothing private is read here
