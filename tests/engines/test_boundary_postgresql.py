"""What a private relation of PostgreSQL may be: names by what the server runs, all that is read, the lock first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from servers import MISSING, superuser

import mwem_sql
from mwem_sql.boundary.sides import NotRowWiseError
from mwem_sql.boundary.sources import Facts
from mwem_sql.errors import MwemError, TableError

pytest.importorskip("adbc_driver_postgresql", reason=MISSING)

import adbc_driver_manager
from adbc_driver_postgresql import dbapi

from mwem_sql.scan.engines import open_engine
from mwem_sql.scan.engines.postgresql import TransactionSnapshot
from mwem_sql.scan.engines.postgresql_catalog import Catalog
from mwem_sql.scan.engines.postgresql_rules import Expressions, Node, Rule

pytestmark = pytest.mark.engines

SCHEMA = """
    CREATE SCHEMA b;
    GRANT USAGE ON SCHEMA b TO reader;
    ALTER DEFAULT PRIVILEGES IN SCHEMA b GRANT SELECT ON TABLES TO reader;
    CREATE TYPE b.color AS ENUM ('red', 'green');
    CREATE DOMAIN b.shade AS b.color;
    CREATE DOMAIN b.age AS integer CHECK (VALUE >= 0);
    CREATE TABLE b.t (x integer, name text, c b.color, s b.shade, age b.age, v varchar(9), l char(3),
        f double precision, n numeric(9, 2), w numeric,
        day date, at timestamp, zoned timestamptz, yes boolean, u uuid, small smallint, big bigint, r real, doc json);
    INSERT INTO b.t (x, name, c, age, yes) SELECT i, 'abc', 'red', 1, true FROM generate_series(1, 50) AS i;
    CREATE FUNCTION b.peek(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER
        AS 'BEGIN RETURN (SELECT count(*) FROM b.t) > 7; END';
    CREATE FUNCTION b.paint(b.color) RETURNS text LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER
        AS 'BEGIN RETURN (SELECT count(*)::text FROM b.t); END'
"""


@pytest.fixture
def admin(postgresql: int) -> Iterator[Any]:
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS b CASCADE")
        run(cursor, SCHEMA)
        yield cursor
        cursor.execute("RESET ALL")
        cursor.execute("DROP SCHEMA IF EXISTS b CASCADE")


@pytest.fixture
def place(admin: Any, postgresql: int) -> Iterator[Any]:  # noqa: ARG001
    engine = open_engine(f"postgresql://reader@127.0.0.1:{postgresql}/postgres", None)
    yield engine
    engine.close()


@pytest.fixture
def con(connect: Any, admin: Any, postgresql: int) -> duckdb.DuckDBPyConnection:  # noqa: ARG001
    con: duckdb.DuckDBPyConnection = connect()
    con.execute("CREATE TABLE d (attribute VARCHAR, low VARCHAR, high VARCHAR); INSERT INTO d VALUES ('x', '0', '99')")
    con.execute("CREATE TABLE workload AS SELECT 'x > 40' AS predicate")
    con.execute(f"CALL mwem_attach('w', 'postgresql://reader@127.0.0.1:{postgresql}/postgres')")
    return con


def run(cursor: Any, text: str) -> None:
    for statement in text.split(";\n"):
        cursor.execute(statement)


def described(place: Any, name: str) -> Facts:
    facts: Facts = place.describe(["b", name], "test")
    return facts


def refused(place: Any, *parts: str) -> str:
    with pytest.raises(TableError) as caught:
        place.describe(list(parts), "test")
    return str(caught.value)


def release(con: duckdb.DuckDBPyConnection, name: str, epsilon: float = 1, **options: Any) -> Any:
    return mwem_sql.release(con, f"w.b.{name}", "workload", epsilon=epsilon, rows=5, domain="d", output=f"o_{name}",
        **options)  # fmt: skip


# A name means what the server runs.

OPERATOR = "CREATE OPERATOR b.= (FUNCTION = b.peek, LEFTARG = integer, RIGHTARG = integer)"


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("(regexp_matches(name, '.', 'g'))[1]", "calls a function that returns sets"),
        ("unnest(ARRAY[x, x])", "calls a function that returns sets"),
        ("generate_series(1, x)", "calls a function that returns sets"), ("b.peek(x, x)", "calls b.peek"),
        ("x OPERATOR(b.=) 1", "calls b.="),
        ("x IS DISTINCT FROM 3", "calls b.="), ("nullif(x, 3)", "calls b.="),
        ("CASE x WHEN 3 THEN 1 ELSE 0 END", "calls b.="), ("x IN (3, 4)", "calls b.="),
        ("b.paint(c)", "calls b.paint"), ("c::text", "calls b.paint"), ("s::text", "calls b.paint"),
        ("clock_timestamp()", "calls clock_timestamp"),
        ("now()", "calls now"), ("current_date", "reads the clock or the session"), ("random()", "calls random"),
        ("current_user", "reads the clock or the session"),
        ("x = (SELECT max(x) FROM b.t)", "has a subquery"), ("row_number() OVER ()", "uses windows"),
        ("count(*)", "aggregates"), ("ctid", "reads a system column"),
        ("tableoid", "reads a system column"), ("t", "reads a system column, or the row as a whole"),
        ("ROW(x, 1) < ROW(1, 2)", "not on the list"),
        ("query_to_xml('SELECT 1', true, true, '')", "calls query_to_xml"),
        ("pg_relation_size('b.t')", "calls pg_relation_size"), ("xmlelement(name a, x)", "not on the list"),
        ('name = \'a\' COLLATE "ci"', "under a collation of a user's"), ("x::b.age", "casts to a domain"),
        ("date_part('day', day)", "calls date_part"),
        # Of one row, but not of all values.
        ("name::integer", "casts by text, which fails"), ("doc::text", "casts by text"),
        ("x + 1", r"calls \+, which can fail"), ("x * 2", "which can fail"), ("6 / x", "which can fail"),
        ("x / 0", "which can fail"), ("x % small", "which can fail"), ("-x", "which can fail"),
        ("abs(x)", "calls abs, which can fail"), ("big::integer", "which can fail"),
        ("x::smallint", "which can fail"), ("(x::bigint * 2)::integer", "which can fail"), ("f * 2", "which can fail"),
        ("n + 1", "which can fail"), ("f::real", "which can fail"),
        ("sqrt(f)", "calls sqrt, which can fail"), ("n::integer", "which can fail"),
        ("w::numeric(9, 2)", "which can fail"), ("substr(name, 1, x)", "which can fail"),
        ("substr(name, 1, -1)", "which can fail"), ("name LIKE v", "which can fail"),
        (r"name LIKE 'a\'", "which can fail"), (r"name LIKE ANY (ARRAY['a', 'a\'])", "which can fail"),
        ("name ~ 'a'", "which can fail"), ("day + x", "which can fail"), ("day - day", "which can fail"),
        ("day::timestamp", "which can fail"), ("chr(x)", "which can fail"),
        ("repeat(name, x)", "which can fail"), ("lpad(name, x, v)", "which can fail"),
        ("extract(hour from day)", "which can fail"), ("date_trunc('month', at)", "which can fail"),
        ("zoned::date", "calls"), ("at = zoned", "calls"), ("to_char(x, '99')", "calls"), ("concat(x, name)", "calls"),
        ("encode('a', name)", "calls"), ("doc ->> 'a'", "which can fail"),
        ("greatest(doc::text, name)", "casts by text"), ("ARRAY[x, 1] @> ARRAY[1]", "which can fail"),
    ],
)  # fmt: skip
def test_an_expression_of_other_rows_or_not_of_all_values_is_refused(
    admin: Any, place: Any, item: str, reason: str
) -> None:
    run(
        admin,
        f"CREATE CAST (b.color AS text) WITH FUNCTION b.paint(b.color);\n{OPERATOR};\nSET search_path = b, "
        f"pg_catalog, public",
    )
    admin.execute(f"CREATE VIEW b.v AS SELECT {item} AS i FROM b.t")
    assert "view ('v') " in refused(place, "b", "v")
    with pytest.raises(TableError, match=reason):
        described(place, "v")
    if reason not in {"aggregates", "uses windows", "calls a function that returns sets"}:
        admin.execute("DROP VIEW b.v")
        admin.execute(f"CREATE VIEW b.v AS SELECT x FROM b.t WHERE ({item}) IS NOT NULL")
        refused(place, "b", "v")


ACCEPTED = (
    "x", "x::bigint + 1", "x / 10 * 10", "x % 7", "-(x::bigint)", "abs(small::integer) + 1", "(x % 100)::smallint",
    "(x::bigint * small)::bigint", "length(name) + x / 2", "x::double precision",
    "x::numeric", "r::double precision", "floor(f)", "abs(f)", "-f", "lower(name)", "upper(v)", "name || v",
    "left(name, 2)", "right(name, x)", "substr(name, x, 3)", "substring(v from 2)",
    "trim(name)", "length(l)", "l::text", "x::text", "day::text", "c::text", "s::text", "u::text", "w::text",
    "yes::text", "age::text", "v::varchar(2)", "name::char(2)", "md5(name)",
    "extract(year from day)", "extract(hour from at)", "date_part('day', at)", "date_trunc('day', at)", "at::date",
    "isfinite(day)", "x > 3", "x IN (1, 2)", "small = big", "r < f", "n >= 1.5",
    "name = 'a'", "name LIKE 'a%'", "v NOT LIKE '_b'", "l ILIKE 'x'", "name LIKE ANY (ARRAY['a%', '%b'])", "c = 'red'",
    "c IN ('red', 'green')", "c < 'green'", "age > 3", "day < '2020-01-01'",
    "day < at", "zoned > '2020-01-01'", "u = '00000000-0000-0000-0000-000000000000'", "yes", "NOT yes", "yes IS TRUE",
    "x IS NULL", "x IS DISTINCT FROM 3", "nullif(x, 3)", "coalesce(x, 0)",
    "greatest(x, 3)", "least(name, 'b')", "CASE x WHEN 3 THEN 'a' ELSE name END", "CASE WHEN yes THEN x END",
    'name COLLATE "C" < \'b\'', "starts_with(name, 'a')", "position('a' in name)", "doc", "reverse(name)",
    "v IN ('a', lower('B'))", "ARRAY[x, 1]",
)  # fmt: skip
ODD = {
    "x": ("NULL", "0", "-1", "2147483647", "-2147483648"), "small": ("NULL", "0", "-32768", "32767"),
    "big": ("NULL", "0", "-9223372036854775808", "9223372036854775807"),
    "f": ("NULL", "'NaN'", "'Infinity'", "'-Infinity'", "1.7e308", "4.9e-324", "-0.0"),
    "r": ("NULL", "'NaN'", "'Infinity'", "3.4e38"), "n": ("NULL", "'NaN'", "-9999999.99"),
    "w": ("NULL", "'NaN'", "'Infinity'", "-9.9e131000", "1e-16000"),
    "name": ("NULL", "''", "'\\'", "'%_['", "'ßİé'", "repeat('x', 3000)"), "v": ("NULL", "''", "'\\'", "'ß€'"),
    "l": ("NULL", "''", "'a'", "'ß€x'"),
    "day": ("NULL", "'infinity'", "'-infinity'", "'5874897-12-31'", "'4713-01-01 BC'"),
    "at": ("NULL", "'infinity'", "'-infinity'", "'294276-12-31 23:59:59'", "'4713-01-01 BC'"),
    "zoned": ("NULL", "'infinity'", "'294276-12-31 23:59:59+00'"), "c": ("NULL", "'red'", "'green'"),
    "s": ("NULL", "'red'"), "age": ("NULL", "0", "2147483647"), "yes": ("NULL", "true", "false"),
    "u": ("NULL", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"), "doc": ("NULL", "'{}'"),
}  # fmt: skip


def test_what_is_accepted_fails_on_no_value(admin: Any, place: Any) -> None:
    """Every kind of expression that is taken, over every pair of odd values of two columns."""
    fill(admin)
    for item in ACCEPTED:
        admin.execute("DROP VIEW IF EXISTS b.v")
        admin.execute(f"CREATE VIEW b.v AS SELECT {item} AS i FROM b.t")
        described(place, "v")
        admin.execute("SELECT count(i) AS n, max(i::text) AS most FROM b.v")
        assert admin.fetch_arrow_table().num_rows == 1, item


def fill(admin: Any) -> None:
    names = list(ODD)
    rows = [
        ", ".join(ODD[name][(k * (7 * place + 1) + k // 31) % len(ODD[name])] for place, name in enumerate(names))
        for k in range(max(map(len, ODD.values())) * 31)
    ]
    admin.execute(f"INSERT INTO b.t ({', '.join(names)}) VALUES {', '.join(f'({row})' for row in rows)}")


BASIC = {
    "int4": "x", "int2": "small", "int8": "big", "float8": "f", "float4": "r", "numeric": "w", "text": "name",
    "varchar": "v", "bpchar": "l", "date": "day", "timestamp": "at", "bool": "yes", "uuid": "u",
    "timestamptz": "zoned", "anyenum": "c", "json": "doc",
}  # fmt: skip


def test_no_function_that_is_accepted_fails(admin: Any, place: Any) -> None:
    """All functions and operators of PostgreSQL, over columns of their types: refused, or no error on odd values."""
    fill(admin)
    admin.execute(
        """SELECT oprname::text AS name, l.typname::text AS first, r.typname::text AS second
        FROM pg_operator AS o LEFT JOIN pg_type AS l ON l.oid = oprleft JOIN pg_type AS r ON r.oid = oprright
        WHERE o.oid < 16384"""
    )
    items = [
        f"{BASIC[row['first']] if row['first'] else ''} OPERATOR(pg_catalog.{row['name']}) {BASIC[row['second']]}"
        for row in admin.fetch_arrow_table().to_pylist()
        if row["second"] in BASIC and row["first"] in {*BASIC, None}
    ]
    admin.execute(
        """SELECT p.proname::text AS name, ARRAY(SELECT t.typname::text
            FROM unnest(p.proargtypes) WITH ORDINALITY AS a(oid, k) JOIN pg_type AS t ON t.oid = a.oid
            ORDER BY k)::text AS types
        FROM pg_proc AS p WHERE p.oid < 16384 AND p.prokind = 'f' AND NOT p.proretset AND p.pronargs > 0
        AND p.provolatile = 'i' AND p.prolang = 12 AND p.prorettype NOT IN (2275, 2281)
        AND pronamespace = 'pg_catalog'::regnamespace"""
    )
    for row in admin.fetch_arrow_table().to_pylist():
        types = row["types"].strip("{}").split(",")
        if set(types) <= BASIC.keys():
            items.append(f'pg_catalog."{row["name"]}"({", ".join(BASIC[own] for own in types)})')
    items = [item for item in dict.fromkeys(items) if _is_sql(admin, item)]
    listed = ", ".join(f"{item} AS i{k}" for k, item in enumerate(items))
    admin.execute(f"CREATE VIEW b.v AS SELECT {listed} FROM b.t")
    with place.snapshot() as snapshot:
        catalog = Catalog(snapshot.rows, "")
        (row,) = snapshot.rows(
            "SELECT ev_class::bigint AS oid, ev_action::text AS action FROM pg_rewrite WHERE ev_class = 'b.v'::regclass"
        )
        rule = Rule.of(row["action"], row["oid"])
        expressions = Expressions(catalog, rule.varno, total=True)
        taken = [
            k
            for k, entry in enumerate(rule.query.nodes("targetList"))
            if _is_taken(expressions, entry.nodes("expr")[0])
        ]
    assert len(items) > 900 and 150 < len(taken) < 400
    for k in taken:
        admin.execute(f"SELECT count(i{k}) AS n FROM b.v")
        assert admin.fetch_arrow_table().num_rows == 1, items[k]


def _is_sql(admin: Any, item: str) -> bool:
    try:
        admin.execute(f"SELECT {item} FROM b.t LIMIT 0")
    except adbc_driver_manager.Error:  # ambiguous without a cast
        return False
    return True


def _is_taken(expressions: Expressions, node: Node) -> bool:
    try:
        expressions.check(node)
    except NotRowWiseError:
        return False
    return True


def test_a_users_cast_of_an_enum_is_not_called(con: duckdb.DuckDBPyConnection, admin: Any) -> None:
    """Neither by a scan of the table nor by what is declared: with it, every row would have been another code."""
    con.execute("CREATE TABLE red AS SELECT 'c = ''red''' AS predicate")
    admin.execute("CREATE CAST (b.color AS text) WITH FUNCTION b.paint(b.color)")
    mwem_sql.release(con, "w.b.t", "red", epsilon=1, rows=5, output="r")
    true = con.execute("SELECT true_answer FROM mwem_compare('w.b.t', 'r', red)").fetchall()
    assert true == [(50,)]


def test_types_that_are_named_like_others(admin: Any, place: Any) -> None:
    run(
        admin,
        "CREATE TYPE b.citext AS (word text);\nCREATE TYPE b.int4 AS ENUM ('a');\nCREATE TYPE b.text AS (x "
        "integer);\nCREATE DOMAIN b.date AS integer;\n"
        "CREATE TABLE b.odd (one b.citext, two b.int4, three b.text, four b.date, five b.shade, six b.color)",
    )
    columns = {column.name: column.type for column in described(place, "odd").columns}
    assert columns == {"two": "ENUM('a')", "four": "INTEGER", "six": "ENUM('red', 'green')"}
    admin.execute("CREATE EXTENSION IF NOT EXISTS citext SCHEMA public")
    admin.execute("CREATE TABLE b.real (word public.citext)")
    assert [column.type for column in described(place, "real").columns] == ["VARCHAR"]
    admin.execute("CREATE VIEW b.v AS SELECT word, word::text AS t FROM b.real")
    assert [column.type for column in described(place, "v").columns] == ["VARCHAR", "VARCHAR"]
    admin.execute("CREATE OR REPLACE VIEW b.v AS SELECT word, word::text AS t FROM b.real WHERE word = 'a'")
    assert "calls" in refused(place, "b", "v")


def test_an_enum_that_is_altered_in_between(con: duckdb.DuckDBPyConnection, admin: Any, place: Any) -> None:
    before = described(place, "t")
    admin.execute("ALTER TYPE b.color RENAME VALUE 'green' TO 'blue'")
    admin.execute("ALTER TYPE b.color ADD VALUE 'pink' BEFORE 'red'")
    assert {column.name: column.type for column in described(place, "t").columns}["c"] == "ENUM('pink', 'red', 'blue')"
    assert before.columns != described(place, "t").columns
    con.execute("CREATE TABLE red AS SELECT 'c = ''red''' AS predicate")
    describe, seen = TransactionSnapshot.describe, []

    def later(self: TransactionSnapshot, parts: Any, function: str) -> Any:
        seen.append(function)
        if len(seen) == 2:
            admin.execute("ALTER TYPE b.color RENAME VALUE 'blue' TO 'grey'")
        return describe(self, parts, function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionSnapshot, "describe", later)
        with pytest.raises(MwemError, match="replaced or written to"):
            mwem_sql.release(con, "w.b.t", "red", epsilon=1, rows=5, output="r")


def test_what_a_superuser_replaced_in_pg_catalog(postgresql: int) -> None:
    """In a database of its own, which is dropped."""
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS spoiled")
        cursor.execute("CREATE DATABASE spoiled")
    uri = f"postgresql://postgres@127.0.0.1:{postgresql}/spoiled"
    with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        run(
            cursor,
            "CREATE TABLE public.t (x integer, name text);\nCREATE VIEW public.v AS SELECT lower(name) AS name FROM "
            "public.t",
        )
        place = open_engine(uri, None)
        assert place.describe(["v"], "test").columns and place.describe(["t"], "test").columns
        cursor.execute(
            "CREATE OR REPLACE FUNCTION pg_catalog.lower(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS 'SELECT "
            "upper($1)'"
        )
        assert "calls lower, which is not one of PostgreSQL's own" in refused(place, "public", "v")
        assert place.describe(["t"], "test").columns
        cursor.execute("CREATE FUNCTION public.more(smallint, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
        cursor.execute("CREATE OPERATOR pg_catalog.>= (FUNCTION = public.more, LEFTARG = smallint, RIGHTARG = text)")
        assert "has a function or operator in pg_catalog (>=(smallint,text))" in refused(place, "public", "t")
        cursor.execute("DROP OPERATOR pg_catalog.>= (smallint, text)")
        cursor.execute(
            "CREATE OR REPLACE FUNCTION pg_catalog.int4ge(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE "
            "STRICT AS 'SELECT $1 <> $2'"
        )
        assert "(int4ge(integer,integer))" in refused(place, "public", "t")
        place.close()
    with superuser(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE spoiled WITH (FORCE)")


# A relation is all it reads.


@pytest.mark.parametrize(
    "parts",
    [
        ("pg_catalog", "pg_class"),
        ("pg_catalog", "pg_tables"),
        ("information_schema", "sql_features"),
        ("pg_toast", "t"),
        ("pg_temp", "t"),
    ],
)
def test_system_schemas_are_refused(place: Any, parts: tuple[str, str]) -> None:
    assert any(word in refused(place, *parts) for word in ("is PostgreSQL's own or temporary", "does not exist"))


def test_a_view_of_a_system_table_is_refused(admin: Any, place: Any) -> None:
    admin.execute("CREATE VIEW b.v AS SELECT relname, relpages FROM pg_class")
    assert "table (pg_catalog.pg_class) is PostgreSQL's own" in refused(place, "b", "v")


def test_a_foreign_table_anywhere_is_refused(admin: Any, place: Any) -> None:
    run(
        admin,
        "CREATE EXTENSION IF NOT EXISTS file_fdw;\nDROP SERVER IF EXISTS files CASCADE;\nCREATE SERVER files "
        "FOREIGN DATA WRAPPER file_fdw;\n"
        "CREATE TABLE b.parts (x integer) PARTITION BY RANGE (x);\nCREATE TABLE b.low PARTITION OF b.parts FOR VALUES "
        "FROM (0) TO (5) PARTITION BY RANGE (x);\n"
        "CREATE TABLE b.lowest PARTITION OF b.low FOR VALUES FROM (0) TO (2);\nCREATE VIEW b.v AS SELECT x FROM "
        "b.parts;\nCREATE TABLE b.parent (x integer);\nCREATE VIEW b.only AS SELECT x FROM ONLY b.parent",
    )
    assert {key[2] for key in described(place, "parts").keys[0]} == {
        key[2] for key in described(place, "lowest").keys[0]
    }
    assert described(place, "v").columns and described(place, "parent").columns
    assert "reads ONLY a part" in refused(place, "b", "only")
    admin.execute(
        "CREATE FOREIGN TABLE b.far PARTITION OF b.low FOR VALUES FROM (2) TO (5) SERVER files OPTIONS (filename "
        "'/nowhere')"
    )
    admin.execute("CREATE FOREIGN TABLE b.child () INHERITS (b.parent) SERVER files OPTIONS (filename '/nowhere')")
    for name in ("far", "low", "parts", "v", "parent"):
        assert "is a foreign table, which may be anything" in refused(place, "b", name)
    assert described(place, "lowest").columns
    admin.execute("DROP SERVER files CASCADE")


def test_leaves_and_all_tables_above_them_are_one_account(
    con: duckdb.DuckDBPyConnection, admin: Any, place: Any
) -> None:
    """A child of two parents; and a table that was released before it became a child."""
    run(admin, "CREATE TABLE b.mother (x integer);\nCREATE TABLE b.father (x integer);\nCREATE TABLE b.child () "
               "INHERITS (b.mother, b.father);\n"
        "INSERT INTO b.child SELECT generate_series(1, 50);\nCREATE TABLE b.loner (x integer)")  # fmt: skip
    names = {row: {key[2] for key in described(place, row).keys[0]} for row in ("mother", "father", "child")}
    assert names["mother"] == names["father"] == names["child"] and len(names["child"]) == 3
    con.execute("CALL mwem_budget('w.b.mother', 1)")
    release(con, "mother", 0.75)
    for name in ("father", "child"):
        with pytest.raises(MwemError, match=r"0\.25 of 1 is left"):
            release(con, name, 0.75)
    con.execute("CALL mwem_budget('w.b.loner', 1)")
    release(con, "loner", 1)
    admin.execute("ALTER TABLE b.loner INHERIT b.mother")
    for name in ("mother", "loner"):
        with pytest.raises(MwemError, match="2 accounts"):
            mwem_sql.release(con, f"w.b.{name}", "workload", epsilon=0.1, rows=5, domain="d", output="more")
    assert con.execute("SELECT sum(epsilon) FROM mwem_ledger()").fetchall() == [(1.75,)]


def test_a_column_is_known_by_its_number(admin: Any, place: Any) -> None:
    run(
        admin,
        "CREATE TABLE b.parts (gone integer, person text, x integer) PARTITION BY RANGE (x);\nALTER TABLE "
        "b.parts DROP COLUMN gone;\n"
        "CREATE TABLE b.part (x integer, person text);\nALTER TABLE b.parts ATTACH PARTITION b.part DEFAULT;\nCREATE "
        "VIEW b.v AS SELECT person AS who, x FROM b.part",
    )
    above = {name: column.id for name, column in described(place, "parts").declared.items()}
    assert above["person"].endswith(":2") and above["x"].endswith(":3")
    assert {name: column.id for name, column in described(place, "part").declared.items()} == above
    assert described(place, "v").declared["who"].id == above["person"]
    admin.execute("ALTER TABLE b.parts RENAME COLUMN person TO x2")
    admin.execute("ALTER TABLE b.parts RENAME COLUMN x TO person")
    now = {name: column.id for name, column in described(place, "part").declared.items()}
    assert now == {"x2": above["person"], "person": above["x"]}


def test_generated_columns_of_every_leaf(admin: Any, place: Any) -> None:
    run(
        admin,
        "CREATE TABLE b.parent (x integer);\nCREATE TABLE b.child (more boolean GENERATED ALWAYS AS (b.peek(x, "
        "1)) STORED) INHERITS (b.parent);\n"
        "CREATE TABLE b.computed (x integer, y integer GENERATED ALWAYS AS (x * 2) STORED, z text GENERATED ALWAYS AS "
        "(x::text) STORED)",
    )
    for name in ("parent", "child"):
        assert "table ('child') has the generated column more, which calls b.peek" in refused(place, "b", name)
    assert [column.name for column in described(place, "computed").columns] == [
        "x",
        "y",
        "z",
    ]  # stored: cannot fail any more
    admin.execute(f"{OPERATOR}")
    admin.execute("SET search_path = b, pg_catalog")
    admin.execute("CREATE TABLE b.hidden (x integer, y boolean GENERATED ALWAYS AS (x IS DISTINCT FROM 3) STORED)")
    assert "calls b.=" in refused(place, "b", "hidden")


def test_row_level_security_of_any_leaf(admin: Any, place: Any, postgresql: int) -> None:
    run(admin, "CREATE TABLE b.parts (x integer) PARTITION BY RANGE (x);\nCREATE TABLE b.part PARTITION OF b.parts "
               "DEFAULT;\n"
        "CREATE VIEW b.v AS SELECT x FROM b.parts;\nCREATE VIEW b.asker WITH (security_invoker = true) AS SELECT x "
        "FROM b.parts;\n"
        "CREATE VIEW b.barrier WITH (security_barrier = true) AS SELECT x FROM b.parts WHERE x > 3")  # fmt: skip
    for name in ("parts", "part", "v", "asker", "barrier"):
        assert described(place, name).columns
    admin.execute("ALTER TABLE b.part ENABLE ROW LEVEL SECURITY")
    for name in ("parts", "part", "v", "asker", "barrier"):
        assert "table (b.part) has row-level security" in refused(place, "b", name)
    own = open_engine(f"postgresql://postgres@127.0.0.1:{postgresql}/postgres", None)
    assert described(own, "parts").columns  # a superuser sees all rows
    assert "row-level security" in refused(own, "b", "v")  # but whoever owns a view need not
    own.close()
    run(
        admin,
        "ALTER TABLE b.part DISABLE ROW LEVEL SECURITY;\nALTER TABLE b.parts ENABLE ROW LEVEL SECURITY;\nALTER TABLE "
        "b.parts FORCE ROW LEVEL SECURITY",
    )
    for name in ("parts", "v", "asker"):
        assert "table (b.parts) has row-level security" in refused(place, "b", name)


def test_rules(admin: Any, place: Any) -> None:
    """A table that ON SELECT made a view is one; rules for writing are not run by reading."""
    run(
        admin,
        'CREATE TABLE b.turned (x integer);\nCREATE RULE "_RETURN" AS ON SELECT TO b.turned DO INSTEAD SELECT '
        "a.x FROM b.t AS a, b.t AS b;\n"
        "CREATE VIEW b.v AS SELECT x FROM b.t;\nCREATE RULE ins AS ON INSERT TO b.v DO INSTEAD INSERT INTO b.t (x) "
        "VALUES (new.x);\n"
        "CREATE RULE also AS ON INSERT TO b.t DO ALSO NOTIFY t;\nCREATE VIEW b.over AS SELECT x FROM b.v WHERE x > "
        "3;\nCREATE VIEW b.over_turned AS SELECT x FROM b.turned",
    )
    assert "joins" in refused(place, "b", "turned") and "joins" in refused(place, "b", "over_turned")
    for name in ("t", "v", "over"):
        assert described(place, name).columns[0].name == "x"
    assert described(place, "over").keys == described(place, "t").keys


def test_a_role_with_some_columns_only(admin: Any, place: Any) -> None:
    run(
        admin,
        "CREATE TABLE b.some (x integer, y integer);\nREVOKE SELECT ON b.some FROM reader;\nGRANT SELECT (x) ON "
        "b.some TO reader",
    )
    assert "may not be read by this role" in refused(place, "b", "some")


# Hold, then look.


def test_a_view_that_is_replaced_while_a_release_waits_for_the_lock(
    con: duckdb.DuckDBPyConnection, admin: Any, postgresql: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is checked is what is there when the lock is held: the new definition, which is not what was charged."""
    admin.execute("CREATE VIEW b.v AS SELECT x FROM b.t")
    describe, looks, scans = TransactionSnapshot.describe, [], []

    def described_later(self: TransactionSnapshot, parts: Any, function: str) -> Facts:
        looks.append(parts)
        if len(looks) != 2:  # that of the plan came first
            return describe(self, parts, function)
        other.execute("BEGIN")
        other.execute("CREATE OR REPLACE VIEW b.v AS SELECT a.x FROM b.t AS a, generate_series(1, 1000)")
        until_blocked = threading.Thread(target=commit_when_blocked)
        until_blocked.start()
        try:
            return describe(self, parts, function)
        finally:
            until_blocked.join()

    def commit_when_blocked() -> None:
        while True:
            admin.execute(
                "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'reader'"
            )
            if admin.fetch_arrow_table().to_pylist()[0]["n"]:
                break
        other.execute("COMMIT")

    run_ = TransactionSnapshot.run
    monkeypatch.setattr(TransactionSnapshot, "describe", described_later)
    monkeypatch.setattr(
        TransactionSnapshot, "run", lambda self, statement, rows: scans.append(statement) or run_(self, statement, rows)
    )
    withheld = pytest.raises(MwemError, match="could not be read")
    with superuser(postgresql) as connection, connection.cursor() as other, withheld:
        release(con, "v")
    assert len(looks) == 2 and scans == []


def test_the_lock_comes_before_the_snapshot(admin: Any, place: Any) -> None:
    """Rows that are written while the lock is waited for are seen: no statement before it took the snapshot."""
    with place.snapshot() as snapshot:
        hold = snapshot._lock

        def held(relation: Any) -> None:
            begin = snapshot.begin

            def begun() -> None:
                begin()
                admin.execute("INSERT INTO b.t (x) VALUES (77)")

            snapshot.begin = begun
            hold(relation)
            snapshot.begin = begin

        snapshot._lock = held
        snapshot.describe(["b", "t"], "test")
        assert snapshot.rows("SELECT count(*) AS n FROM b.t WHERE x = 77") == [{"n": 1}]


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        ("t", "ALTER TABLE b.late INHERIT b.t"), ("v", "ALTER TABLE b.late INHERIT b.t"),
        ("parts", "ALTER TABLE b.part ATTACH PARTITION b.late_part FOR VALUES FROM (5) TO (9)"),
        ("t", "ALTER SCHEMA b RENAME TO b_gone;\nALTER SCHEMA b_other RENAME TO b"),
    ],
)  # fmt: skip
def test_what_is_added_after_the_look_is_noticed(
    con: duckdb.DuckDBPyConnection, admin: Any, monkeypatch: pytest.MonkeyPatch, asked: str, change: str
) -> None:
    """A child, a partition or a schema's new name needs no lock that ours excludes; but what is scanned is locked."""
    run(
        admin,
        "CREATE TABLE b.late (LIKE b.t);\nINSERT INTO b.late (x) SELECT 77 FROM generate_series(1, "
        "1000);\nCREATE VIEW b.v AS SELECT x FROM b.t;\n"
        "CREATE TABLE b.parts (x integer) PARTITION BY RANGE (x);\nCREATE TABLE b.part PARTITION OF b.parts FOR "
        "VALUES FROM (0) TO (9) PARTITION BY RANGE (x);\n"
        "CREATE TABLE b.late_part (x integer);\nDROP SCHEMA IF EXISTS b_other CASCADE;\nCREATE SCHEMA "
        "b_other;\nCREATE TABLE b_other.t (LIKE b.t);\nGRANT USAGE ON SCHEMA b_other TO reader;\nGRANT SELECT ON "
        "b_other.t TO reader",
    )
    run_, done = TransactionSnapshot.run, []

    def later(self: TransactionSnapshot, statement: str, rows: int) -> Any:
        if not done:
            run(admin, change)
            done.append(change)
        return run_(self, statement, rows)

    monkeypatch.setattr(TransactionSnapshot, "run", later)
    try:
        with pytest.raises(MwemError, match="replaced or written to while they were read"):
            release(con, asked)
    finally:
        if "RENAME" in change:
            run(admin, "ALTER SCHEMA b RENAME TO b_other;\nALTER SCHEMA b_gone RENAME TO b")
        admin.execute("DROP SCHEMA b_other CASCADE")
    assert done
    assert con.execute("SELECT status FROM mwem_ledger()").fetchall() == [("failed",)]


def test_a_snapshot_is_of_the_relations_that_it_has_locked(admin: Any, place: Any) -> None:
    admin.execute("CREATE VIEW b.v AS SELECT x FROM b.t")
    with place.snapshot() as snapshot:
        assert snapshot.describe(["b", "t"], "test") == snapshot.describe(["B", "T"], "test")
        with pytest.raises(ValueError, match="certain relations"):
            snapshot.describe(["b", "v"], "test")
