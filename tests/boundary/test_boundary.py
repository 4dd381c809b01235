"""The boundary from outside: what broke the claim once, each through the real planner and engine, or through SQL.

"Moved" is the L1 distance between the true answers of neighbours; allowed is what the noise is made for. What a file or
view may say is in `test_files.py` and `test_relations.py`, what an account is in `test_accounts.py` and
`test_names.py`.
"""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pytest
from conftest import Connection, Open

from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.session import Session
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan import execution
from mwem_sql.workload import Workload


def answers(con: Connection, table: str, predicate: str, unit: str | None = None, rows_per_unit: int = 1) -> np.ndarray:
    request = Request(
        table=table,
        workload=Workload.from_predicates([predicate]),
        budget=Budget(Fraction(1)),
        rounds=1,
        unit=unit,
        rows_per_unit=rows_per_unit,
    )
    plan = make_plan(Session.of(con), request)
    return execution.true_answers(con.cursor(), plan.pushdown)


@pytest.mark.parametrize("collation", ["column", "setting"])
def test_collations_merge_no_units(connect: Open, collation: str) -> None:
    """Persons aB3 and Ab3, five rows each: without the one, the other's rows are what they were."""
    con = connect()
    if collation == "setting":
        con.execute("SET GLOBAL default_collation = 'NOCASE'")
    con.execute(
        f"CREATE TABLE visits (person VARCHAR{' COLLATE NOCASE' if collation == 'column' else ''}, x BOOLEAN NOT NULL)"
    )
    con.execute(
        "INSERT INTO visits SELECT 'aB3', true FROM range(5); INSERT INTO visits SELECT 'Ab3', false FROM range(5)"
    )
    both = answers(con, "visits", "x", "person", 5)
    con.execute("DELETE FROM visits WHERE encode(person) = encode('aB3')")
    assert con.execute("SELECT count(*) FROM visits").fetchall() == [(5,)]
    alone = answers(con, "visits", "x", "person", 5)
    con.execute("RESET GLOBAL default_collation")
    assert int(np.abs(both - alone).max()) <= 5
    assert both.max() == 10  # the total: all rows of both


def test_a_cap_per_person_is_met_by_that_column_only(connect: Open) -> None:
    """A STRUCT's field of the same name is another unit; so is a view's column that is called like the table's."""
    con = connect()
    con.execute(
        """CREATE TABLE t (person_id INTEGER, s STRUCT(person_id INTEGER), x BOOLEAN NOT NULL, "v.pid" INTEGER); CREATE
        TABLE w AS SELECT 'x' AS predicate;
           INSERT INTO t SELECT 1, {'person_id': i}, true, i FROM range(200) r(i); CREATE VIEW v AS SELECT s.person_id
           AS pid, person_id AS own, s.person_id AS person_id, x FROM t"""
    )
    con.execute("CALL mwem_budget('t', 1, unit := 'person_id')").fetchall()
    for unit in ("pid", "person_id"):
        with pytest.raises(
            duckdb.Error,
            match=rf"a release that protects one {unit}, at most 1 rows, as a view computes it cannot be counted "
            rf"under the cap on t",
        ):
            con.execute(f"CALL mwem_release('v', w, 0.5, unit := '{unit}', rows_per_unit := 1)")
    con.execute("CALL mwem_release('v', w, 0.5, unit := 'own', rows_per_unit := 1)").fetchall()
    with pytest.raises(
        duckdb.Error, match=r"unit \('pid'\) is computed by a view, so that a cap could not count by it"
    ):
        con.execute("CALL mwem_budget('v', 1, unit := 'pid')")


def test_a_computed_unit_cannot_be_capped_later(connect: Open) -> None:
    con = connect()
    con.execute(
        """CREATE TABLE t (p INTEGER, x BOOLEAN NOT NULL, "v.pid" INTEGER); CREATE TABLE w AS SELECT 'x' AS predicate;
        CREATE VIEW v AS SELECT p % 2 AS pid, x FROM t"""
    )
    con.execute("CALL mwem_release('v', w, 0.5, unit := 'pid', rows_per_unit := 1, rows := 5)").fetchall()
    with pytest.raises(
        duckdb.Error,
        match=r"a cap for one v\.pid, at most 1 rows cannot count releases of t that protect one pid, at most 1 rows, "
        r"as a view computes it",
    ):
        con.execute("CALL mwem_budget('t', 1, unit := 'v.pid')")


def test_names_are_compared_in_one_way(connect: Open) -> None:
    """As DuckDB does: it ignores the case of ASCII letters, and É is not é."""
    con = connect()
    con.execute(
        'CREATE TABLE "É" ("É" BOOLEAN NOT NULL, "é" BOOLEAN NOT NULL); INSERT INTO "É" SELECT true, false FROM '
        "range(50)"
    )
    con.execute('CREATE TABLE "é" AS FROM "É"; CREATE TABLE w AS SELECT unnest([\'"É"\', \'"é"\']) AS predicate')
    first = con.execute("SELECT output, reused FROM mwem_release('É', w, 100, rounds := 2, rows := 50)").fetchall()
    second = con.execute("SELECT output, reused FROM mwem_release('é', w, 100, rounds := 2, rows := 50)").fetchall()
    assert (first, second) == ([("memory.main.É_synthetic", False)], [("memory.main.é_synthetic", False)])
    counts = con.execute(
        "SELECT mwem_count('É_synthetic', '\"É\"') > 40, mwem_count('É_synthetic', '\"é\"') < 10"
    ).fetchall()
    assert counts == [(True, True)]
    con.execute("CALL mwem_budget('É', 200)").fetchall()
    with pytest.raises(duckdb.Error, match="has no cap"):
        con.execute("CALL mwem_release('é', w, 1, output := 'o')")
    assert [row[0] for row in con.execute("DESCRIBE FROM mwem_weights('É_synthetic', ['é'])").fetchall()] == [
        "é",
        "weight",
    ]
    with pytest.raises(duckdb.Error, match="É_synthetic was made without ß"):
        con.execute("FROM mwem_weights('É_synthetic', ['ß'])")
