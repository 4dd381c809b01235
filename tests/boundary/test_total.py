"""No row can fail a scan: what a view computes is NULL where it would fail, and what the optimizer knows of rows
reaches no expression."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from chance import sampled
from expressions import bound, functions, odd_table

import mwem_sql
from mwem_sql.boundary.relations import Relation, describe
from mwem_sql.errors import TableError
from mwem_sql.platform.catalog import Place

HERE = Place("memory", "main")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("CREATE TABLE t (a INTEGER, b VARCHAR, c DOUBLE, d DATE, i INTERVAL, s STRUCT(x VARCHAR))")
        con.execute(
            """INSERT INTO t VALUES (1, '5', 0.5, '2020-01-01', INTERVAL 1 DAY, {x: '7'}),
               (2147483647, 'x', 'nan', '5881580-07-10', INTERVAL 2147483647 MONTHS, {x: 'y'}), (NULL, NULL, NULL, NULL,
               NULL, NULL)"""
        )
        yield con


def view(con: duckdb.DuckDBPyConnection, query: str) -> Relation:
    con.execute(f"CREATE OR REPLACE VIEW v AS {query}")
    return describe(con, "v", HERE, "f")


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[object, ...]]:
    return con.execute(f"SELECT * FROM {view(con, query).tree().sql('duckdb')}").fetchall()


@pytest.mark.parametrize(
    ("item", "expected"),
    sampled(
        [
            ("b::INTEGER", [5, None, None]),
            ("a + 1", [2, None, None]),
            ("s.x::INTEGER", [7, None, None]),
            ("factorial(a)", [1, None, None]),
            ("chr(a - 2)", [None, None, None]),
            ("year(date_trunc('month', d) + INTERVAL 1 MONTH)", [2020, None, None]),
            ("epoch_ns(d)", [1577836800000000000, None, None]),
            ("CASE WHEN a = 1 THEN 0 ELSE b::INTEGER END", [0, None, None]),
            ("coalesce(b::INTEGER, 3)", [5, None, 3]),
            ("'x'::INTEGER + a", [None, None, None]),
            ("'x'::INTEGER", [None, None, None]),
            (
                (
                    "strptime('2020-01-01 ' || CASE WHEN a = 1 THEN 'UTC' ELSE 'Nowhere' END, '%Y-%m-%d "
                    "%Z')::DATE::VARCHAR"
                ),
                ["2020-01-01", None, None],
            ),
        ],
        5,
    ),
)
def test_what_fails_on_a_row_is_null_there(con: duckdb.DuckDBPyConnection, item: str, expected: list[object]) -> None:
    assert [row[0] for row in rows(con, f"SELECT {item} AS x FROM t")] == expected


def test_common_parts_of_expressions_are_not_evaluated_outside(con: duckdb.DuckDBPyConnection) -> None:
    """DuckDB evaluates b::INTEGER once for both, and beside TRY if it could."""
    asked = "SELECT b::INTEGER + 1 AS x, b::INTEGER + 2 AS y, b::INTEGER * b::INTEGER AS z FROM t"
    assert rows(con, asked) == [(6, 7, 25), (None, None, None), (None, None, None)]
    assert rows(con, "SELECT a FROM t WHERE (b::INTEGER + 1) * (b::INTEGER + 1) > 3") == [(1,)]
    view(con, asked)
    con.execute(
        "CREATE VIEW w AS SELECT x + y AS x, x * y AS y, x > 3 AND y > 3 AS z FROM v WHERE x + y > 1 OR x + y IS NULL"
    )
    found = describe(con, "w", HERE, "f").tree().sql("duckdb")
    assert con.execute(
        f"SELECT sum(x), sum(y), count(z) FROM {found} WHERE x > 1 AND y < 90 AND x < 80"
    ).fetchall() == [(13, 42, 1)]


@pytest.mark.parametrize(
    "condition", ["b::INTEGER > 3", "b", "b || ''", "a + 1 = 2", "date_trunc('year', d) = '2020-01-01'", "c < 1"]
)
def test_a_row_on_which_the_condition_fails_is_left_out(con: duckdb.DuckDBPyConnection, condition: str) -> None:
    con.execute("UPDATE t SET b = 'true' WHERE a = 1 AND ? NOT LIKE '%INTEGER%'", [condition])
    assert rows(con, f"SELECT a FROM t WHERE {condition}") == [(1,)]


def test_generated_columns_are_total_too(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """CREATE TABLE g (b VARCHAR, d DATE, n INTEGER AS (b::INTEGER), m BIGINT AS (n * n + b::INTEGER), month AS
        (date_trunc('month', d))); INSERT INTO g VALUES ('3', '2020-02-03')"""
    )
    found = describe(con, "g", HERE, "f")
    assert [column.type for column in found.columns][:4] == ["VARCHAR", "DATE", "INTEGER", "BIGINT"]
    ((b, _, n, m, month),) = con.execute(f"SELECT * FROM {found.tree().sql('duckdb')}").fetchall()
    assert (b, n, m, str(month)[:10]) == ("3", 3, 12, "2020-02-01")
    assert set(found.declared) == {"b", "d", "n", "m", "month"}


@pytest.mark.parametrize(
    ("item", "reason"),
    sampled([
        ("repeat(b, a)", "may make more than 1,000 characters of one"),
        ("lpad(b, a, 'x')", "may make more than 1,000"),
        ("repeat(repeat(b, 100), 100)", "may make more than 1,000"),
        ("format('{:>{}}', b, a)", "may make more than 1,000"),
        ("replace(b, 'x', b)", "may make more than 1,000"),
        ("regexp_matches(b, b || '(')", "may make more than 1,000"),
        ("damerau_levenshtein(b, b)", "may make more than 1,000"),
        ("date_part(b, d)", "calls date_part with a first argument that is not a constant"),
        ("date_trunc(b, d)", "calls date_trunc with a first argument that is not a constant"),
        ("timezone(b, d::TIMESTAMP)", "calls timezone with a first argument that is not a constant"),
        ("time_bucket(i, d)", "calls time_bucket with a first argument that is not a constant"),
        ("time_bucket(INTERVAL 1 DAY, d::TIMESTAMPTZ, b)", "calls time_bucket with a text that is not a constant"),
        ("make_timestamptz(a, 1, 1, 1, 1, 1, b)", "calls make_timestamptz with a text that is not a constant"),
        ("make_timestamptz(a, 1, 1, 1, 1, 1, 'Nowhere')", "which DuckDB has not"),
        ("timezone('Nowhere', d::TIMESTAMP)", "calls timezone of TIMESTAMP, which DuckDB has not"),
        ("time_bucket(INTERVAL 0 DAY, d)", "calls time_bucket of DATE, which DuckDB has not"),
        ("CASE WHEN a = 77 THEN week(i) END", "calls week of INTERVAL, which DuckDB has not"),
        ("timezone_hour(d)", "calls timezone_hour of DATE, which DuckDB has not"),
        ("b LIKE b ESCAPE 'x'", "with a pattern or an escape character that is not a constant"),
        ("b LIKE 'ax' ESCAPE b", "with a pattern or an escape character that is not a constant"),
        ("b LIKE 'ax' ESCAPE 'x'", "with an escape character (x) that is not one, or that ends the pattern"),
        ("b LIKE 'ax' ESCAPE 'xy'", "with an escape character (xy) that is not one"),
    ], 8),
)  # fmt: skip
def test_what_try_does_not_cover_is_refused(con: duckdb.DuckDBPyConnection, item: str, reason: str) -> None:
    with pytest.raises(TableError) as caught:
        view(con, f"SELECT {item} AS x FROM t")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "item",
    sampled(["repeat(b, 100)", "lpad(b, 20, 'x')", "format('{:>9}', b)", "replace(b, 'x', 'yy')",
    "levenshtein(b, 'abc')", "date_part('year', d)", "extract(month FROM d)",
     "d::TIMESTAMP AT TIME ZONE 'UTC'", "time_bucket(INTERVAL 7 DAY, d)", "week(d)", "year(i)",
     "hour(d::TIMESTAMP::TIME)", "b LIKE '5xx%' ESCAPE 'x'",
     "b NOT ILIKE 'é!%' ESCAPE '!'", "epoch_ms(a::BIGINT)", "date_diff('day', d, DATE '2020-01-01')", "last_day(d)",
     "make_timestamptz(a % 9 + 2000, 1, 1, 1, 1, 1, 'UTC')", "month(d::TIMESTAMPTZ)"], 19),
)  # fmt: skip
def test_what_people_write_is_allowed(con: duckdb.DuckDBPyConnection, item: str) -> None:
    found = view(con, f"SELECT {item} AS x FROM t").tree().sql("duckdb")
    assert con.execute(f"SELECT count(*), count(x::VARCHAR) > 0 FROM {found}").fetchall() == [(3, True)]


def test_growth_adds_up_through_views(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE VIEW one AS SELECT repeat(b, 100) AS b FROM t; CREATE VIEW two AS SELECT repeat(b, 100) AS b FROM one"
    )
    describe(con, "one", HERE, "f")
    with pytest.raises(
        TableError, match=r"view \('two'\) has a part .* that may make more than 1,000 characters of one"
    ):
        describe(con, "two", HERE, "f")
    con.execute("CREATE VIEW v0 AS SELECT a + 1 AS a, b FROM t")
    for depth in range(12):
        con.execute(f"CREATE VIEW v{depth + 1} AS SELECT a + 1 AS a, upper(b) AS b FROM v{depth}")
    describe(con, "v12", HERE, "f")


@pytest.mark.parametrize(
    ("seeds", "depth"),
    [
        (12, 2),
        pytest.param(40, 2, marks=pytest.mark.thorough),
        pytest.param(1500, 2, marks=pytest.mark.campaign),
        pytest.param(1500, 3, marks=pytest.mark.campaign),
    ],
)
def test_random_expressions_never_fail_a_scan(con: duckdb.DuckDBPyConnection, seeds: int, depth: int) -> None:
    """Two of them and a condition, over odd values; and what a row gives does not depend on the others."""
    odd_table(con)
    known, met = functions(con), Counter[str]()
    for seed in range(seeds):
        chance = random.Random(seed)
        first, second, condition = (bound(con, chance, known, depth) for _ in range(3))
        where = f" WHERE {condition}" if chance.random() < 0.3 else ""
        try:
            con.execute(f"CREATE OR REPLACE VIEW v AS SELECT {first} AS x, {second} AS y, {first} AS z FROM odd{where}")
            found = describe(con, "v", HERE, "f").tree().sql("duckdb")
        except (duckdb.Error, TableError) as refused:  # a condition that is no truth value, or what has a reason
            met["refused" if isinstance(refused, TableError) else "not SQL"] += 1
            continue
        met["run"] += 1
        try:
            con.execute(f"CREATE OR REPLACE TEMP TABLE made AS SELECT * FROM {found}")
        except duckdb.Error as failed:
            pytest.fail(f"{seed}: {first} | {second} | {where}: {failed}")
        if seed % 4 == 0 and not where:
            _check_rows_alone(con, found, seed)
    print(f"\n{seeds} views: {dict(met)}")
    assert met["run"] > seeds / 2


def _check_rows_alone(con: duckdb.DuckDBPyConnection, found: str, seed: int) -> None:
    """A row alone in its table gives what it gives among the others."""
    together = con.execute("SELECT hash(x), hash(y) FROM made").fetchall()
    con.execute("ALTER TABLE odd RENAME TO whole")
    for place in range(0, len(together), 5):
        con.execute("CREATE TABLE odd AS SELECT * FROM whole LIMIT 1 OFFSET ?", [place])
        alone = con.execute(f"SELECT hash(x), hash(y) FROM {found}").fetchall()
        con.execute("DROP TABLE odd")
        assert alone == [together[place]], seed
    con.execute("ALTER TABLE whole RENAME TO odd")


def test_a_release_does_not_fail_because_of_one_value(con: duckdb.DuckDBPyConnection) -> None:
    """Whether it failed would be an exact bit, at any epsilon."""
    con.execute("CREATE VIEW v AS SELECT b::INTEGER AS n, a FROM t WHERE a + 1 > 0 OR b::INTEGER > 0")
    con.execute("CREATE TABLE v_domain AS SELECT 'n' AS attribute, '0' AS low, '9' AS high")
    made = mwem_sql.release(con, "v", mwem_sql.Workload.from_predicates(["n > 3"]), "0.000001", rows=5)
    assert not made.reused
