"""The boundary from outside: what broke the claim once, each through the real planner and engine, or through SQL.

"Moved" is the L1 distance between the true answers of neighbours; allowed is what the noise is made for. What a file or view may say is in
`test_files.py` and `test_relations.py`, what an account is in `test_accounts.py` and `test_names.py`.
"""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pytest
from conftest import Connection, Open

import mwem_sql
from mwem_sql.accounting.budget import Budget
from mwem_sql.accounting.caps import nominal
from mwem_sql.database.session import Session
from mwem_sql.private import engine
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.workload import Workload


def answers(con: Connection, table: str, predicate: str, unit: str | None = None, rows_per_unit: int = 1) -> np.ndarray:
    request = Request(
        table,
        Workload.from_predicates([predicate]),
        Budget(Fraction(1)),
        rounds=1,
        unit=unit,
        rows_per_unit=rows_per_unit,
    )
    plan = make_plan(Session.of(con), request)
    return engine.true_answers(con.cursor(), plan.pushdown)


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
    assert both[0] == 10


def test_a_cap_per_person_is_met_by_that_column_only(connect: Open) -> None:
    """A STRUCT's field of the same name is another unit; so is a view's column that is called like the table's."""
    con = connect()
    con.execute(
        """CREATE TABLE t (person_id INTEGER, s STRUCT(person_id INTEGER), x BOOLEAN NOT NULL, "v.pid" INTEGER); CREATE TABLE w AS SELECT 'x' AS predicate;
           INSERT INTO t SELECT 1, {'person_id': i}, true, i FROM range(200) r(i); CREATE VIEW v AS SELECT s.person_id AS pid, person_id AS own, s.person_id AS person_id, x FROM t"""
    )
    con.execute("CALL mwem_budget('t', 1, unit := 'person_id')").fetchall()
    for unit in ("pid", "person_id"):
        with pytest.raises(
            duckdb.Error,
            match=rf"a release that protects one {unit}, at most 1 rows, as a view computes it cannot be counted under the cap on t",
        ):
            con.execute(f"CALL mwem_release('v', w, 0.5, unit := '{unit}')")
    con.execute("CALL mwem_release('v', w, 0.5, unit := 'own')").fetchall()
    with pytest.raises(
        duckdb.Error, match=r"unit \('pid'\) is computed by a view, so that a cap could not count by it"
    ):
        con.execute("CALL mwem_budget('v', 1, unit := 'pid')")


def test_a_computed_unit_cannot_be_capped_later(connect: Open) -> None:
    con = connect()
    con.execute(
        """CREATE TABLE t (p INTEGER, x BOOLEAN NOT NULL, "v.pid" INTEGER); CREATE TABLE w AS SELECT 'x' AS predicate; CREATE VIEW v AS SELECT p % 2 AS pid, x FROM t"""
    )
    con.execute("CALL mwem_release('v', w, 0.5, unit := 'pid', rows := 5)").fetchall()
    with pytest.raises(
        duckdb.Error,
        match=r"a cap for one v\.pid, at most 1 rows cannot count releases of t that protect one pid, at most 1 rows, as a view computes it",
    ):
        con.execute("CALL mwem_budget('t', 1, unit := 'v.pid')")


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, max(age) AS high FROM people", "CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, 99 AS high",
        "CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, estimated_size AS high FROM duckdb_tables() WHERE table_name = 'people'",
        "CREATE VIEW bounds AS SELECT 'age' AS attribute, 0 AS low, count(*) AS high FROM pragma_storage_info('people')",
        "CREATE TABLE bounds (attribute VARCHAR, low INTEGER, n INTEGER, high AS (stats(n)::VARCHAR)); INSERT INTO bounds VALUES ('age', 0, 5)",
    ],
)  # fmt: skip
def test_a_domain_is_a_plain_table(con: Connection, made: str) -> None:
    con.execute(made)
    for call in (
        "CALL mwem_release('people', workload, 1, domain := 'bounds')",
        "FROM mwem_domain('people', domain := 'bounds')",
    ):
        with pytest.raises(
            duckdb.Error,
            match=r"domain table \('bounds'\) (is a view, and what a view reads may be private|has the generated column high, so that its rows are computed)",
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


def test_names_are_compared_in_one_way(connect: Open) -> None:
    """As DuckDB does: it ignores the case of ASCII letters, and É is not é."""
    con = connect()
    con.execute(
        'CREATE TABLE "É" ("É" BOOLEAN NOT NULL, "é" BOOLEAN NOT NULL); INSERT INTO "É" SELECT true, false FROM range(50)'
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
    assert [
        row[0]
        for row in con.execute("SELECT column_name FROM (DESCRIBE FROM mwem_weights('É_synthetic', ['é']))").fetchall()
    ] == ["é", "weight"]
    with pytest.raises(duckdb.Error, match="attribute 'ß' is not in É_synthetic"):
        con.execute("FROM mwem_weights('É_synthetic', ['ß'])")


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "words"),
    [
        (1.0, 0.0, 1000, None), (20.0, 1e-4, 100, None), (20.5, 0.0, 10, "epsilon (20.5) is above 20"), (1e6, 0.0, None, "one row may change the odds by e^1e+06"),
        (1.0, 0.01, 10, "delta (0.01) is above 0.0001"), (1.0, 1e-5, 1_000_000, "delta (1e-05) is above 1 / 1,000,000 rows"), (1.0, 1e-5, 1000, None), (1.0, 1e-5, None, None),
    ],
)  # fmt: skip
def test_a_nominal_guarantee_is_called_so(epsilon: float, delta: float, rows: int | None, words: str | None) -> None:
    found = nominal(epsilon, delta, rows)
    if words is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith("nominal guarantee: ")
        assert words in found


def test_summary_and_plan_say_when_a_guarantee_is_nominal(con: Connection) -> None:
    call = "mwem_release('people', workload, {}, delta := {}, rounds := 2, output := '{}')"
    for number, (epsilon, delta, words) in enumerate(
        [(1, 0, None), (1e6, 0, "epsilon (1e+06)"), (1, 0.99, "delta (0.99)"), (1, 0.00009, None)]
    ):
        ((private, warning),) = con.execute(
            f"SELECT private, warning FROM {call.format(epsilon, delta, f'o{number}')}"
        ).fetchall()
        assert private
        assert (warning is None) == (words is None)
        planned = con.execute(
            f"SELECT value FROM {call.format(epsilon, delta, 'p').replace('release', 'plan')} WHERE item = 'warning'"
        ).fetchall()
        assert [value[:40] for (value,) in planned] == ([] if words is None else [warning[:40]])
        if words is not None:
            assert words in warning
