"""Private views: what a row-wise one inherits, how it is written out, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from chance import sampled
from conftest import SCHEMA

from mwem_sql.boundary.relations import Relation, describe
from mwem_sql.errors import TableError
from mwem_sql.platform.catalog import Name, Place

HERE = Place("memory", "main")


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


def view(con: duckdb.DuckDBPyConnection, query: str) -> Relation:
    con.execute(f"CREATE OR REPLACE VIEW v AS {query}")
    return describe(con, "v", HERE, "f")


def inherited(relation: Relation) -> dict[str, str]:
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
        ("SELECT *, year(d) AS y, CASE WHEN age > 3 THEN 1 END AS c FROM t",
        {"age": "age", "sex": "sex", "d": "d", "x": "x"}),
        ("SELECT age AS sex, sex AS age FROM t", {"sex": "age", "age": "sex"}),
        ("SELECT sex FROM t AS y(sex, age)", {"sex": "age"}),
        ("SELECT age FROM t WHERE sex LIKE 'a%' AND sex NOT LIKE 'b%' AND age NOT IN (1, 2) AND d >= DATE '2020-01-01'",
        {"age": "age"}),
        ("SELECT age, extract(year FROM d) AS y, d + INTERVAL 1 DAY AS n, age::BIGINT AS b, coalesce(x, 0) AS z FROM t",
        {"age": "age"}),
        ("SELECT sex ILIKE 'a' AS i, nullif(age, 3) AS f, sex[1] AS c, age FROM t", {"age": "age"}),
        ("SELECT age, age AS again FROM t", {"age": "age", "again": "age"}),
        ('SELECT sex COLLATE NOCASE AS s, "T"."AGE", memory.main.t.x FROM t', {"age": "age", "x": "x"}),
        ("SELECT age AS years FROM t ORDER BY years, sex", {"years": "age"}),
        ("SELECT age FROM t ORDER BY ALL", {"age": "age"}),
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


@pytest.mark.parametrize(
    ("query", "reason"),
    sampled([
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
        ("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT * FROM r",
        "has a WITH clause"),
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
        ("SELECT * FROM t PIVOT (count(*) FOR sex IN ('F', 'M'))",
        "(pivots|is not a plain|selects from something other)"),
        ("SELECT oldest() AS o FROM t", "calls oldest"),
        ("SELECT age + oldest() AS o FROM t", "calls oldest"),
        ("SELECT twice(age) AS o FROM t", "calls twice"),
        ("SELECT nextval('numbers') AS n FROM t", "calls nextval"),
        ("SELECT random() AS r FROM t", "calls random"),
        ("SELECT COLUMNS('a.*') FROM t", "calls columns"),
        ("SELECT rowid AS r FROM t", "reads rowid, which is not a column of what it selects from"),
        ("SELECT age FROM t WHERE rowid < 10", "reads rowid"),
        ("SELECT 1 AS one", "reads no table"),
    ], 16),
)  # fmt: skip
def test_refused_views(shared: duckdb.DuckDBPyConnection, query: str, reason: str) -> None:
    with pytest.raises(
        TableError,
        match=rf"^f: view \('v'\) {reason}.*; a private view must give at most one row per row of one table. Hint: "
        rf"write a plain",
    ):
        view(shared, query)


def test_more_refused_views(con: duckdb.DuckDBPyConnection) -> None:
    con.create_function("stateful", lambda n: n, ["INTEGER"], "INTEGER")
    with pytest.raises(TableError, match="calls stateful"):
        view(con, "SELECT stateful(age) AS age FROM t")
    con.execute("CREATE SCHEMA tools; CREATE MACRO tools.shout(x) AS (SELECT max(sex) FROM t)")
    with pytest.raises(TableError, match="calls shout by a qualified name"):
        view(con, "SELECT tools.shout(sex) AS sex FROM t")
    with pytest.raises(TableError, match="calls current_date, which is not on the list of functions of one row"):
        view(con, "SELECT age FROM t WHERE d > current_date - 30")
    with pytest.raises(TableError, match="calls json_serialize_plan, which is not on the list"):
        view(con, "SELECT json_serialize_plan('SELECT 1', optimize := true) AS p FROM t")
    with pytest.raises(TableError, match="reads years, which is not a column of what it selects from"):
        view(con, "SELECT age AS years, years + 1 AS more FROM t")


def test_fields_of_a_struct_are_computed(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE p (s STRUCT(person_id INTEGER, deep STRUCT(x INTEGER)), person_id INTEGER, q INTEGER)")
    found = view(con, "SELECT s.person_id AS pid, p.s.deep.x AS x, (s).person_id AS y, p.person_id AS own, q FROM p")
    assert inherited(found) == {"own": "person_id", "q": "q"}
    assert [column.type for column in found.columns] == ["INTEGER"] * 5
    assert found.origin("pid", "f") is None
    with pytest.raises(TableError, match=r"has s\.\*, a star of something other than its source"):
        view(con, "SELECT s.* FROM p")
    con.execute("CREATE TABLE s.person (person STRUCT(x INTEGER), x INTEGER)")
    with pytest.raises(TableError, match=r"reads person\.x, where person is both a column and its table"):
        view(con, "SELECT person.x AS x FROM s.person")


def test_a_view_is_written_out_over_what_was_checked(con: duckdb.DuckDBPyConnection) -> None:
    """A name that means another table later changes nothing: the scan has the full one."""
    con.execute(
        "INSERT INTO t VALUES (20, 'f', NULL, 1.5), (30, 'm', NULL, 2.5); CREATE VIEW s.part AS SELECT age, sex AS "
        "what FROM t WHERE age > 25"
    )
    found = view(
        con, "SELECT age + 1 AS more, what, 'a' || what AS text FROM s.part AS p WHERE p.what LIKE 'm%' ORDER BY more"
    )
    con.execute("CREATE TABLE s.t (age INTEGER, sex VARCHAR); INSERT INTO s.t VALUES (50, 'mm')")
    assert con.execute(f"SELECT * FROM {found.tree().sql('duckdb')}").fetchall() == [(31, "m", "am")]
    assert con.execute("FROM v").fetchall() == [(51, "mm", "amm")]  # and DuckDB's own view has changed its meaning


def test_the_columns_of_a_view_are_those_it_has_now(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE VIEW v(first, second) AS SELECT * FROM s.u")
    assert [(column.name, column.type) for column in describe(con, "v", HERE, "f").columns] == [
        ("first", "INTEGER"),
        ("second", "INTEGER"),
    ]
    con.execute("ALTER TABLE s.u ADD COLUMN c INTEGER")
    with pytest.raises(TableError, match="no longer has the columns that it had when it was made"):
        describe(con, "v", HERE, "f")


def test_a_view_survives_reopening(tmp_path: Path) -> None:
    file = str(tmp_path / "kept.duckdb")
    with duckdb.connect(file) as con:
        con.execute("CREATE TABLE t (age INTEGER NOT NULL); CREATE VIEW v AS SELECT age AS years FROM t")
    with duckdb.connect(file) as con:
        found = describe(con, "v", Place.of(con), "f")
    assert inherited(found) == {"years": "age"}
    assert found.charged == Name("kept", "main", "t")
