"""Names, row-wise views, refused views, and what a relation reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql import catalog
from mwem_sql.catalog import Name, Place, describe, find, sources, split_name
from mwem_sql.errors import TableError

HERE = Place("memory", "main")


SCHEMA = """
    CREATE SCHEMA s;
    CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90), sex VARCHAR, d DATE, x DOUBLE);
    CREATE TABLE s.u (a INTEGER, b INTEGER);
    CREATE VIEW w AS SELECT age FROM t WHERE age > 3;
    CREATE SEQUENCE numbers;
    CREATE MACRO oldest() AS (SELECT max(age) FROM t);
    CREATE MACRO nested() AS oldest() + 1;
    CREATE MACRO twice(n) AS n + n;
    CREATE MACRO people() AS TABLE SELECT * FROM t"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(SCHEMA)
        yield con


@pytest.fixture(scope="module")
def shared() -> Iterator[duckdb.DuckDBPyConnection]:
    """For tests that add nothing but the view v."""
    with duckdb.connect() as con:
        con.execute(SCHEMA)
        yield con


def view(con: duckdb.DuckDBPyConnection, query: str) -> catalog.Relation:
    con.execute(f"CREATE OR REPLACE VIEW v AS {query}")
    return describe(con, "v", HERE, "f")


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a", ["a"]), ("a.b", ["a", "b"]), ('a."b.c"', ["a", "b.c"]), ('"a""b"', ['a"b']), ('"a"."b"."c"', ["a", "b", "c"]),
     ("my table", ["my table"]), ("a . b", ["a", "b"]), ('"a', ['"a']), ('"a"b', ['"a"b']), ("a.", ["a."]), ("", [""]),
     ("ünï.täble", ["ünï", "täble"])],
)  # fmt: skip
def test_split_name(text: str, parts: list[str]) -> None:
    assert split_name(text) == parts


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=1, max_size=3))
def test_quoted_names_split_into_what_was_quoted(parts: list[str]) -> None:
    assert split_name(".".join('"' + part.replace('"', '""') + '"' for part in parts)) == parts


@pytest.mark.parametrize("table", ["two words", 'a "quoted" one', "select", "Größe", "s.u", "a.b.c.d", "'single'", "t;--", "日本"])
def test_odd_names_are_found(con: duckdb.DuckDBPyConnection, table: str) -> None:
    name = Name("memory", "main", table)
    con.execute(f'CREATE TABLE {name.quoted()} ("my ""col""" INTEGER, "order" VARCHAR)')
    assert find(con, name.quoted(), HERE) == (name, False)
    quoted = '"' + table.replace('"', '""') + '"'
    assert find(con, quoted, HERE) == (name, False)
    described = describe(con, quoted, HERE, "f")
    assert [column.name for column in described.columns] == ['my "col"', "order"]


def test_an_unquoted_name_with_dots_is_read_as_duckdb_reads_it(con: duckdb.DuckDBPyConnection) -> None:
    con.execute('CREATE TABLE "s.u" (c INTEGER); CREATE TABLE "p.q" (c INTEGER)')
    assert find(con, "s.u", HERE) == (Name("memory", "s", "u"), False)
    assert find(con, '"s.u"', HERE) == (Name("memory", "main", "s.u"), False)
    assert find(con, "p.q", HERE) == (Name("memory", "main", "p.q"), False)
    assert view(con, "SELECT * FROM s.u").below == (Name("memory", "s", "u"),)


def test_names_ignore_case_as_duckdb_does(con: duckdb.DuckDBPyConnection) -> None:
    assert find(con, "MEMORY.Main.T", HERE) == (Name("memory", "main", "t"), False)
    con.execute('CREATE TABLE "É" (a INTEGER); CREATE TABLE "é" (b INTEGER)')
    assert find(con, "é", HERE) == (Name("memory", "main", "é"), False)
    assert find(con, "É", HERE) == (Name("memory", "main", "É"), False)


def test_order_of_preference(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    con.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS other; CREATE TABLE other.t (b INTEGER); CREATE TABLE s.t (c INTEGER)")
    assert find(con, "t", HERE) == (Name("memory", "main", "t"), False)
    assert find(con, "t", Place("memory", "s")) == (Name("memory", "s", "t"), False)
    assert find(con, "t", Place("other", "main")) == (Name("other", "main", "t"), False)
    assert find(con, "other.t", HERE) == (Name("other", "main", "t"), False)
    assert find(con, "u", HERE) is None
    con.execute("CREATE TABLE s.only_here (a INTEGER)")
    assert find(con, "numbers", HERE) is None
    assert find(con, "duckdb_tables", HERE) is None
    con.execute("CREATE TABLE only_main (a INTEGER)")
    assert find(con, "only_main", Place("memory", "s")) == (Name("memory", "main", "only_main"), False)


def test_place_of_a_connection(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("USE memory.s")
    assert Place.of(con) == Place("memory", "s")


def test_a_macro_cannot_change_what_is_found(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE MACRO lower(x) AS 'same'")
    assert find(con, "nothing", HERE) is None
    assert find(con, "T", HERE) == (Name("memory", "main", "t"), False)


def test_unknown_and_temporary_tables_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TEMP TABLE hidden (a INTEGER)")
    for table in ("nothing", "hidden", "a.b.c.d", ""):
        with pytest.raises(TableError, match=r"^f: table \('.*'\) does not exist for this call. Hint: name a table"):
            describe(con.cursor(), table, HERE, "f")


def test_a_table_is_described_by_its_schema_alone(con: duckdb.DuckDBPyConnection) -> None:
    found = describe(con, "t", HERE, "f")
    assert [(column.name, column.type, column.nullable) for column in found.columns] == [
        ("age", "INTEGER", False), ("sex", "VARCHAR", True), ("d", "DATE", True), ("x", "DOUBLE", True),
    ]  # fmt: skip
    assert found.checks == ("(age BETWEEN 17 AND 90)",)
    assert found.charged == found.name == Name("memory", "main", "t")


def inherited(relation: catalog.Relation) -> dict[str, str]:
    return {name: column.name for name, column in relation.declared.items()}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t", {"age": "age", "sex": "sex", "d": "d", "x": "x"}),
        ("FROM t", {"age": "age", "sex": "sex", "d": "d", "x": "x"}),
        ("SELECT sex, age FROM t WHERE age > 20 ORDER BY age DESC", {"sex": "sex", "age": "age"}),
        ("SELECT age AS years, sex s FROM main.t", {"years": "age", "s": "sex"}),
        ("SELECT y.age FROM memory.main.t AS y", {"age": "age"}),
        ("SELECT t.* EXCLUDE (d, x) FROM t", {"age": "age", "sex": "sex"}),
        ("SELECT * REPLACE (lower(sex) AS sex) FROM t", {"age": "age", "d": "d", "x": "x"}),
        ("SELECT age + 1 AS age, sex FROM t", {"sex": "sex"}),
        ("SELECT *, year(d) AS y, CASE WHEN age > 3 THEN 1 END AS c FROM t", {"age": "age", "sex": "sex", "d": "d", "x": "x"}),
        ("SELECT age AS sex, sex AS age FROM t", {"sex": "age", "age": "sex"}),
        ("SELECT sex FROM t AS y(sex, age, d, x)", {}),
        ("SELECT age FROM t WHERE sex LIKE 'a%' AND sex NOT LIKE 'b%' AND age NOT IN (1, 2) AND d >= DATE '2020-01-01'", {"age": "age"}),
        ("SELECT age, extract(year FROM d) AS y, d + INTERVAL 1 DAY AS n, age::BIGINT AS b, coalesce(x, 0) AS z FROM t", {"age": "age"}),
        ("SELECT sex ILIKE 'a' AS i, nullif(age, 3) AS f, list_contains([1, 2], age) AS l, sex[1] AS c, age FROM t", {"age": "age"}),
        ("SELECT age, age AS again FROM t", {"age": "age", "again": "age"}),
        ("SELECT age FROM t WHERE d > current_date - 30", {"age": "age"}),
    ],
)  # fmt: skip
def test_row_wise_views_inherit(shared: duckdb.DuckDBPyConnection, query: str, expected: dict[str, str]) -> None:
    found = view(shared, query)
    assert inherited(found) == expected
    assert found.charged == Name("memory", "main", "t")
    assert found.checks == ("(age BETWEEN 17 AND 90)",)
    assert found.name == Name("memory", "main", "v")


def test_columns_named_with_the_view_go_by_position(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE VIEW v(b, a) AS SELECT * FROM s.u; CREATE VIEW z(sex, years) AS SELECT age, sex FROM t")
    assert inherited(describe(con, "v", HERE, "f")) == {"b": "a", "a": "b"}
    assert inherited(describe(con, "z", HERE, "f")) == {"sex": "age", "years": "sex"}


def test_a_view_over_a_view(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE VIEW s.inside AS SELECT age AS years, sex FROM t WHERE age < 50")
    found = view(con, "SELECT years AS n, sex || 'x' AS sex FROM s.inside")
    assert inherited(found) == {"n": "age"}
    assert found.charged == Name("memory", "main", "t")
    con.execute("CREATE OR REPLACE VIEW s.inside AS SELECT count(*) AS n FROM t")
    with pytest.raises(TableError, match=r"view \('inside'\) calls count_star"):
        view(con, "SELECT n FROM s.inside")


def test_not_null_is_inherited(con: duckdb.DuckDBPyConnection) -> None:
    found = view(con, "SELECT age, sex FROM t")
    assert [found.declared[name].nullable for name in ("age", "sex")] == [False, True]


@pytest.mark.parametrize("extension", ["parquet", "csv"])
def test_views_over_files(con: duckdb.DuckDBPyConnection, tmp_path: Path, extension: str) -> None:
    file = tmp_path / f"people.{extension}"
    con.execute(f"COPY (SELECT 30 AS age, 'female' AS sex) TO '{file}'")
    for source in (f"'{file}'", f"read_{extension}('{file}')", f"'{tmp_path}/*.{extension}'"):
        found = view(con, f"SELECT age, sex FROM {source} WHERE age > 3")
        assert [column.type for column in found.columns][1] == "VARCHAR"
        assert (found.declared, found.checks, found.charged) == ({}, (), Name("memory", "main", "v"))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT t.* FROM t JOIN s.u ON t.age = u.a", "joins"),
        ("SELECT t.* FROM t, s.u", "joins"),
        ("SELECT t.* FROM t LEFT JOIN s.u ON true", "joins"),
        ("SELECT t.* FROM t SEMI JOIN s.u ON t.age = u.a", "joins"),
        ("SELECT t.age FROM t, LATERAL (SELECT t.age) l", "joins"),
        ("SELECT count(*) AS n FROM t", "calls count_star"),
        ("SELECT max(age) AS age FROM t", "calls max"),
        ("SELECT list(age) AS l FROM t", "calls list"),
        ("SELECT 1 AS one FROM t ORDER BY sum(age)", "calls sum"),
        ("SELECT sex FROM t GROUP BY sex", "aggregates"),
        ("SELECT sex FROM t GROUP BY ALL", "aggregates"),
        ("SELECT DISTINCT age FROM t", "drops duplicates"),
        ("SELECT DISTINCT ON (sex) age FROM t", "drops duplicates"),
        ("SELECT row_number() OVER () AS n FROM t", "uses windows"),
        ("SELECT sum(age) OVER (ORDER BY age) AS n FROM t", "uses windows"),
        ("SELECT lag(age) OVER w AS n FROM t WINDOW w AS (ORDER BY d)", "uses windows"),
        ("SELECT age FROM t QUALIFY row_number() OVER (ORDER BY d) < 3", "uses windows"),
        ("SELECT age FROM t LIMIT 3", "limits its rows"),
        ("SELECT age FROM t OFFSET 3", "limits its rows"),
        ("SELECT unnest([1, 2]) AS n FROM t", "calls unnest"),
        ("SELECT age FROM t WHERE age > (SELECT avg(age) FROM t)", "has a subquery"),
        ("SELECT age FROM t WHERE age IN (SELECT a FROM s.u)", "has a subquery"),
        ("SELECT age FROM t WHERE EXISTS (SELECT 1 FROM s.u)", "has a subquery"),
        ("SELECT age, (SELECT max(a) FROM s.u) AS m FROM t", "has a subquery"),
        ("WITH q AS (SELECT * FROM t) SELECT * FROM q", "has a WITH clause"),
        ("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT * FROM r", "has a WITH clause"),
        ("SELECT age FROM t UNION ALL SELECT age FROM t", "is not a plain SELECT"),
        ("SELECT age FROM t EXCEPT SELECT a FROM s.u", "is not a plain SELECT"),
        ("SELECT * FROM (SELECT * FROM t)", "selects from something other"),
        ("SELECT * FROM (VALUES (1), (2)) AS l(a)", "selects from something other"),
        ("VALUES (1), (2)", "(is not a plain SELECT|selects from something other)"),
        ("SELECT * FROM range(10)", "reads the table function range"),
        ("SELECT * FROM people()", "reads the table function people"),
        ("SELECT * FROM query_table('t')", "reads the table function query_table"),
        ("SELECT * FROM unnest([1, 2]) AS l(a)", "(reads the table function unnest|selects from something other)"),
        ("SELECT * FROM t TABLESAMPLE 10%", "samples"),
        ("SELECT * FROM t USING SAMPLE 5", "samples"),
        ("SELECT * FROM s.u UNPIVOT (v FOR n IN (a, b))", "pivots"),
        ("SELECT * FROM t PIVOT (count(*) FOR sex IN ('F', 'M'))", "(pivots|is not a plain|selects from something other)"),
        ("SELECT oldest() AS o FROM t", "calls oldest"),
        ("SELECT age + oldest() AS o FROM t", "calls oldest"),
        ("SELECT twice(age) AS o FROM t", "calls twice"),
        ("SELECT nextval('numbers') AS n FROM t", "calls nextval"),
        ("SELECT random() AS r FROM t", "calls random"),
        ("SELECT COLUMNS('a.*') FROM t", "calls columns"),
        ("SELECT rowid AS r FROM t", "reads rowid, which depends on other rows"),
        ("SELECT age FROM t WHERE rowid < 10", "reads rowid"),
        ("SELECT 1 AS one", "reads no table"),
    ],
)  # fmt: skip
def test_refused_views(shared: duckdb.DuckDBPyConnection, query: str, reason: str) -> None:
    with pytest.raises(
        TableError, match=rf"^f: view \('v'\) {reason}.*; a private view must give at most one row per row of one table. Hint: write a plain"
    ):
        view(shared, query)


def test_more_refused_views(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    con.create_function("stateful", lambda n: n, ["INTEGER"], "INTEGER")
    with pytest.raises(TableError, match="calls stateful"):
        view(con, "SELECT stateful(age) AS age FROM t")
    con.execute("CREATE OR REPLACE MACRO lower(x) AS (SELECT max(sex) FROM t)")
    with pytest.raises(TableError, match="calls lower"):
        view(con, "SELECT lower(sex) AS sex FROM t")
    con.execute(f"COPY (SELECT 30 AS age) TO '{tmp_path / 'people.parquet'}'")
    with pytest.raises(TableError, match="reads file_row_number"):
        view(con, f"SELECT file_row_number AS age FROM read_parquet('{tmp_path / 'people.parquet'}', file_row_number = true)")


def test_a_column_called_rowid_is_a_column(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE r (rowid INTEGER)")
    assert inherited(view(con, "SELECT rowid AS n FROM r")) == {"n": "rowid"}


def test_a_view_survives_reopening(tmp_path: Path) -> None:
    file = str(tmp_path / "kept.duckdb")
    with duckdb.connect(file) as con:
        con.execute("CREATE TABLE t (age INTEGER NOT NULL); CREATE VIEW v AS SELECT age AS years FROM t")
    with duckdb.connect(file) as con:
        found = describe(con, "v", Place.of(con), "f")
    assert inherited(found) == {"years": "age"}
    assert found.charged == Name("kept", "main", "t")


def tables(con: duckdb.DuckDBPyConnection, name: str) -> set[str]:
    found = find(con, name, HERE)
    assert found is not None
    return {str(read).removeprefix("memory.") for read in sources(con, *found)}


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("SELECT a FROM s.u", {"s.u"}),
        ("SELECT max(age) AS m FROM t", {"main.t"}),
        ("SELECT a FROM s.u WHERE a < (SELECT max(age) FROM t)", {"s.u", "main.t"}),
        ("SELECT a, (SELECT 1 WHERE EXISTS (FROM t)) AS q FROM s.u", {"s.u", "main.t"}),
        ("SELECT a FROM s.u UNION ALL SELECT age FROM memory.main.t", {"s.u", "main.t"}),
        ("WITH q AS (SELECT age FROM t) SELECT a FROM s.u JOIN q ON true", {"s.u", "main.t"}),
        ("SELECT a FROM s.u JOIN t ON a = age", {"s.u", "main.t"}),
        ("SELECT * FROM w", {"main.w", "main.t"}),
        ("SELECT * FROM people()", {"main.t"}),
        ("SELECT oldest() AS o", {"main.t"}),
        ("SELECT a + oldest() AS o FROM s.u", {"s.u", "main.t"}),
        ("SELECT nested() AS o FROM s.u", {"s.u", "main.t"}),
        ("SELECT 1 AS one", set()),
        ("SELECT twice(a) AS a FROM s.u", {"s.u"}),
        ("SELECT * FROM (VALUES (1)) AS l(a)", set()),
    ],
)  # fmt: skip
def test_sources(shared: duckdb.DuckDBPyConnection, query: str, read: set[str]) -> None:
    shared.execute(f"CREATE OR REPLACE VIEW v AS {query}")
    assert tables(shared, "v") == read | {"main.v"}


def test_sources_of_a_table(con: duckdb.DuckDBPyConnection) -> None:
    assert tables(con, "t") == {"main.t"}


def test_sources_that_cannot_be_told_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    for query in ("SELECT * FROM query_table('t')", "SELECT * FROM query('SELECT * FROM t')"):
        con.execute(f"CREATE OR REPLACE VIEW v AS {query}")
        with pytest.raises(TableError, match=r"^catalog: view \('v'\) calls query.*, so that what it reads cannot be told. Hint: name its tables"):
            tables(con, "v")


def test_names_quote_themselves() -> None:
    name = Name("my db", 'a"b', "select")
    assert name.quoted() == '"my db"."a""b"."select"'
    assert str(name.beside("x.y")) == 'my db.a"b.x.y'
