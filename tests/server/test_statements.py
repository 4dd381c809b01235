"""What an analyst may send: decided by DuckDB's parser, never by what a text looks like."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from mwem_sql.errors import MwemError
from mwem_sql.server.statements import StatementReader, scalars
from mwem_sql.surface.spec import FUNCTIONS


@pytest.fixture(scope="module")
def reader() -> Iterator[StatementReader]:
    reader = StatementReader("published")
    yield reader
    reader.close()


QUERIES = [
    "FROM t", "SELECT #1, #2 FROM t", "TABLE t", "VALUES (1, 2)", "(SELECT 1)", "SELECT 1;",
    "SELECT 1 -- ; DROP TABLE t",
    "WITH x AS (FROM t) SELECT * FROM x", "SELECT city, count(*) FROM census GROUP BY ALL ORDER BY 1",
    "SELECT x->'a', x->>'b', [y + 1 FOR y IN l], l[1:2], {'a': 1}, MAP {'a': 1}, unnest(l), COLUMNS('a.*') FROM t",
    "SELECT a BETWEEN 1 AND 2, a IN (1, 2), a LIKE 'x', a ILIKE 'x', a SIMILAR TO 'x', a GLOB 'x', a::INT FROM t",
    "SELECT sum(a) OVER (PARTITION BY b ORDER BY c), count(*) FILTER (WHERE d), string_agg(a, ',' ORDER BY b) FROM t",
    "SELECT extract('year' FROM d), d + INTERVAL 1 DAY, d AT TIME ZONE 'UTC', date '2000-01-01', current_date FROM t",
    "SELECT coalesce(a, b), nullif(a, b), ifnull(a, b), if(a, b, c), CASE WHEN a THEN b END, TRY(a) FROM t",
    "SELECT list_transform(l, lambda x: x + 1), struct_pack(a := 1), grouping(a), random(), uuid() FROM range(3) t(l)",
    "SELECT * FROM t TABLESAMPLE 10%", "SELECT a, EXISTS (FROM u), a = ANY (SELECT 1) FROM t ASOF JOIN u USING (a)",
    "SELECT mwem_count('census_synthetic', 'age > 40')", "FROM mwem_answer('census_synthetic', w)",
    "SELECT schema_name, sql FROM duckdb_tables() UNION ALL SELECT schema_name, view_name FROM duckdb_views()",
    "SELECT catalog_name FROM information_schema.schemata", "SELECT 'DROP TABLE x; ATTACH'",
]  # fmt: skip


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_runs_as_it_is(reader: StatementReader, text: str) -> None:
    statement = reader.read(text)
    assert (statement.kind, statement.text, statement.target) == ("query", text, None)


def test_a_call_runs_as_the_query_that_was_read(reader: StatementReader) -> None:
    statement = reader.read("CALL mwem_release('census', w, 0.5, delta := 1e-6)")
    assert statement.text == "FROM mwem_release('census', w, 0.5, delta := 1e-6)"
    assert statement.calls == {"mwem_release"}


@pytest.mark.parametrize(
    ("text", "kind", "runs", "target"),
    [
        ("CREATE TABLE w AS SELECT 1", "table", "SELECT 1", "w"),
        ('create or replace table "a b" as from t', "table", "from t", "a b"),
        ("CREATE VIEW v AS FROM census", "view", "FROM census", "v"),
        ("CREATE TABLE main.w(a INTEGER, b VARCHAR[] DEFAULT NULL)", "columns",
         'CREATE\nTABLE\n"main"."w" ("a" INTEGER, "b" VARCHAR[])', "w"),
        ("CREATE TABLE w(a ENUM('x', 'y') PRIMARY KEY CHECK (a <> 'x'))", "columns",
         'CREATE\nTABLE\n"main"."w" ("a" ENUM(\'x\', \'y\') NOT NULL)', "w"),
        ("INSERT INTO main.w VALUES (NULL)", "insert", "", "w"),
        ('INSERT INTO published.main.w (a, "b c") SELECT 1, 2', "insert",
         'INSERT INTO "main"."w" ("a", "b c")\nSELECT 1, 2', "w"),
        ("INSERT INTO w (SELECT 1)", "insert", 'INSERT INTO "main"."w"\n(SELECT 1)', "w"),
        ("DELETE FROM w WHERE a = 1", "delete", 'DELETE FROM "main"."w"\nWHERE a = 1', "w"),
        ("DROP TABLE IF EXISTS w;", "drop", 'DROP TABLE IF EXISTS "main"."w"', "w"),
        ("BEGIN TRANSACTION", "transaction", "BEGIN", None),
        ("COMMIT;", "transaction", "COMMIT", None),
        ("DESCRIBE t", "show", "DESCRIBE t", None),
        ("SHOW TABLES", "show", "SHOW TABLES", None),
        ("EXPLAIN SELECT 1", "explain", "EXPLAIN SELECT 1", None),
    ],
)  # fmt: skip
def test_what_runs_of_other_statements_has_a_head_of_ours(
    reader: StatementReader, text: str, kind: str, runs: str, target: str | None
) -> None:
    statement = reader.read(text)
    assert (statement.kind, statement.text, statement.target) == (kind, runs, target)
    if runs:  # one statement, whatever the client's rest was
        assert len(duckdb.extract_statements(f"CREATE TABLE x AS {runs}" if kind in {"table", "view"} else runs)) == 1


REFUSED = [
    # Outside.
    "COPY t TO 'x.csv'", "COPY (FROM t) TO 'x.parquet'", "ATTACH 'x.duckdb'", "DETACH published", "LOAD httpfs",
    "INSTALL httpfs", "EXPORT DATABASE 'x'", "IMPORT DATABASE 'x'", "SELECT * FROM read_csv('x')",
    "FROM read_text('/etc/passwd')", "FROM glob('*')", "FROM parquet_metadata('x')", "FROM quack_query('quack:h', 'q')",
    "FROM sniff_csv('x')", "FROM read_blob('x')", "FROM arrow_scan(1, 2, 3)", "FROM pandas_scan(1)",
    # Settings, and the server itself.
    "SET threads = 1", "SET VARIABLE mwem_ticket = 'x'", "RESET threads", "USE main", "PRAGMA version", "CHECKPOINT",
    "SELECT getvariable('mwem_ticket')", "SELECT current_setting('threads')", "FROM duckdb_settings()",
    "FROM duckdb_secrets()", "FROM duckdb_logs", "FROM duckdb_logs()", "FROM pg_settings", "FROM duckdb_variables()",
    "FROM quack_active_connections()", "CALL quack_stop('quack:localhost')", "FROM quack_server_list()",
    "FROM duckdb_prepared_statements()", "CALL enable_logging()", "CALL force_checkpoint()", "VACUUM", "ANALYZE",
    "SELECT write_log('x')", "SELECT sleep_ms(1000)", "SELECT pg_sleep(10)",
    # SQL in a text, and functions that are not for clients.
    "FROM query('SELECT 1')", "FROM json_execute_serialized_sql('{}')", "SELECT json_serialize_plan('FROM t')",
    "SELECT _mwem_release('{}', [])", "SELECT main._mwem_count('{}')", "SELECT published.main._mwem_instance('')",
    "SELECT _mwem_authorize('a', 'b')", "FROM query(_mwem_sample_sql('{}'))", "SELECT x._mwem_count() FROM t x",
    # More than one, or hidden in others.
    "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE t", "PIVOT t ON g USING sum(i)", "", "-- nothing",
    "PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE p", "WITH a AS (FROM read_csv('x')) FROM a",
    "SELECT (SELECT count(*) FROM read_csv('x'))", "EXPLAIN ANALYZE FROM read_csv('x')", "DESCRIBE FROM read_csv('x')",
    "SELECT list_transform([1], lambda x: getvariable('a'))", "SELECT sum(getvariable('a')) OVER () FROM t",
    "SELECT 1 ORDER BY getvariable('a')", "SELECT 1 LIMIT (SELECT current_setting('threads'))",
    "CREATE TABLE w AS FROM read_csv('x')", "INSERT INTO w FROM read_csv('x')", "DELETE FROM w WHERE getvariable('a')",
    "CREATE TABLE w AS DESCRIBE t", "DELETE FROM w USING t WHERE true", "DELETE FROM w RETURNING *",
    "INSERT INTO w VALUES (1) RETURNING a", "INSERT INTO w VALUES (1) ON CONFLICT DO NOTHING",
    # Of others, or not a table.
    "CREATE TABLE mwem.x AS SELECT 1", "DROP TABLE mwem.releases", "DELETE FROM mwem.releases",
    "INSERT INTO mwem_server.owners VALUES ('a', 'b')", "DROP SCHEMA mwem", "DROP TABLE a, b", "DROP TABLE a CASCADE",
    "DROP MACRO mwem_count", "CREATE MACRO sum(a) AS 1", "CREATE FUNCTION f(a) AS 1", "CREATE SCHEMA s",
    "CREATE SEQUENCE s", "CREATE TYPE t AS ENUM ('a')", "CREATE INDEX i ON t (a)", "CREATE TEMP TABLE w AS SELECT 1",
    "CREATE SECRET (TYPE quack, TOKEN 'x')", "UPDATE w SET a = 1", "ALTER TABLE w ADD COLUMN b INTEGER", "TRUNCATE w",
    "COMMENT ON TABLE w IS 'x'", "MERGE INTO w USING t ON a = b WHEN MATCHED THEN DELETE",
    "CREATE VIEW v AS FROM mwem_release('census', w, 1)", "FROM __mwem_results.main.r_1",
    "CREATE TABLE w(a not_a_type)",
    "INSERT INTO memory.main.w SELECT 1", "CREATE TABLE other.main.w AS SELECT 1",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_all_else_is_refused(reader: StatementReader, text: str) -> None:
    with pytest.raises(MwemError, match=r"Hint: "):
        reader.read(text)


@pytest.mark.parametrize("name", [each.name for each in FUNCTIONS.values() if each.is_curators])
def test_the_curators_functions_are_refused_with_a_sentence(reader: StatementReader, name: str) -> None:
    with pytest.raises(MwemError, match=f"{name} is the curator's alone, and is not run for users of a server"):
        reader.read(f"CALL {name}('census')")


def test_the_columns_of_a_table_take_no_time() -> None:
    """Names of columns with a SELECT behind them would run for years."""
    reader = StatementReader("published", seconds=0.05)
    with pytest.raises(MwemError):
        reader.read("CREATE TABLE w(a) AS SELECT count(*) FROM range(1000000000) t(a), range(1000000000) u(b)")


def test_a_function_that_a_later_duckdb_adds_is_refused_if_it_is_volatile() -> None:
    allowed = scalars()
    assert {"sum", "lower", "random", "unnest", "md5"} <= allowed
    assert not allowed & {"getvariable", "current_setting", "write_log", "sleep_ms", "nextval", "setseed", "stats"}
