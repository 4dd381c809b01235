"""Private views: what a row-wise one inherits, how it is written out, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from chance import sampled
from conftest import SCHEMA

from mwem_sql.boundary.relations import Relation, describe
from mwem_sql.errors import OptionError, TableError
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


KEYED = """
CREATE TABLE household (hid INTEGER PRIMARY KEY, town VARCHAR);
CREATE TABLE person (
    pid INTEGER, cc VARCHAR, hid INTEGER REFERENCES household, sex VARCHAR CHECK (sex IN ('F', 'M')) NOT NULL,
    low INTEGER, high INTEGER, ssn VARCHAR UNIQUE, twice AS (low * 2), CHECK (low <= high OR low IS NULL),
    PRIMARY KEY (pid, cc)
);
CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER, c VARCHAR, code INTEGER, ssn VARCHAR, low INTEGER,
    FOREIGN KEY (pid, c) REFERENCES person (pid, cc));
CREATE TABLE passport (pid INTEGER, cc VARCHAR, issued DATE, UNIQUE (pid, cc),
    FOREIGN KEY (pid, cc) REFERENCES person (pid, cc));
CREATE TABLE icd (code INTEGER PRIMARY KEY, chapter VARCHAR);
CREATE TABLE numbers (n DOUBLE PRIMARY KEY, code BIGINT UNIQUE);
CREATE VIEW people AS FROM person;
CREATE MACRO visits() AS TABLE FROM visit;
INSERT INTO household VALUES (1, 'a'), (2, 'b');
INSERT INTO person VALUES (1, 'x', 1, 'F', 1, 2, 's'), (1, 'y', NULL, 'M', 3, 4, NULL), (2, 'x', 2, 'F', NULL, 1, NULL);
INSERT INTO visit VALUES (1, 1, 'x', 7, 's', 5), (2, 1, 'y', 8, NULL, 6), (3, NULL, 'x', 7, NULL, 7),
    (4, 1, 'x', 9, 's', 8);
INSERT INTO passport VALUES (1, 'x', DATE '2020-01-01');
INSERT INTO icd VALUES (7, 'g'), (8, 'h');
"""


@pytest.fixture(scope="module")
def keyed() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(KEYED)
        con.execute(
            "COMMENT ON TABLE icd IS 'ICD-10 [mwem public 12ab]'; COMMENT ON TABLE numbers IS '[mwem public 1]'"
        )
        yield con


PERSON = "JOIN person p ON v.pid = p.pid AND v.c = p.cc"
BOTH = ["person", "household"]


@pytest.mark.parametrize(
    ("query", "units"),
    [
        (f"SELECT v.*, p.sex, p.hid FROM visit v {PERSON}", BOTH),
        (f"SELECT v.low, p.low AS least, twice FROM visit AS v LEFT {PERSON}", BOTH),
        ("SELECT * FROM visit JOIN person ON (person.cc = visit.c) AND ((visit.pid = person.pid))", BOTH),
        (f"SELECT * EXCLUDE (town) FROM visit v {PERSON} JOIN household USING (hid)", ["household"]),
        (f"SELECT v.vid, h.* FROM visit v {PERSON} LEFT JOIN household h ON h.hid = p.hid WHERE v.low < p.high",
        ["household"]),
        ("SELECT * FROM person JOIN passport USING (pid, cc)", BOTH),
        ("SELECT p.*, q.issued FROM visit v JOIN passport q ON v.pid = q.pid AND v.c = q.cc " + PERSON, BOTH),
        ("SELECT * FROM visit LEFT JOIN icd USING (code)", None),
        ("SELECT a.chapter, b.chapter AS other FROM visit v JOIN icd a USING (code) LEFT JOIN icd b ON v.low = b.code",
        None),
        ("SELECT low + 1 AS low, chapter || 'x' AS t FROM main.visit v(a, b, c, d) JOIN main.icd i ON d = i.code",
        None),
    ],
)  # fmt: skip
def test_a_view_may_join_along_keys(keyed: duckdb.DuckDBPyConnection, query: str, units: list[str] | None) -> None:
    """It says what DuckDB says, and knows whose rows are in one of its own."""
    found = view(keyed, query)
    private = [each for each in found.joined if each.mark is None]
    shared = (
        [name.table for name in private[0].units if all(name in each.units for each in private)] if private else None
    )
    assert shared == units
    assert [column.name for column in found.columns] == [row[0] for row in keyed.execute("DESCRIBE v").fetchall()]
    assert sorted(keyed.execute(f"SELECT * FROM {found.tree().sql('duckdb')}").fetchall(), key=repr) == sorted(
        keyed.execute("FROM v").fetchall(), key=repr
    )
    for unit in ("visit", None):
        if units is None:
            found.check_unit(None, "f")
        else:
            with pytest.raises(OptionError, match=rf"would not be protected with one .* give unit := '{units[0]}'"):
                found.check_unit(unit and found.columns[0].name, "f")


def test_what_is_declared_of_joined_columns(keyed: duckdb.DuckDBPyConnection) -> None:
    found = view(keyed, f"SELECT v.low, p.low AS least, high, sex, twice FROM visit v LEFT {PERSON}")
    assert inherited(found) == {"low": "low"}
    (person,) = found.joined
    assert {name: column.name for name, column in person.declared.items()} == {
        "least": "low", "high": "high", "sex": "sex", "twice": "twice",
    }  # fmt: skip
    assert person.optional and person.declared["sex"].nullable and not person.computed
    inner = view(
        keyed, f"SELECT sex, twice, low2 FROM (visit v {PERSON.replace('p ON', 'p(pid, cc, hid, sex, low2) ON')})"
    )
    assert not inner.joined[0].declared["sex"].nullable and inner.joined[0].computed.keys() == {"twice"}


def test_a_view_over_a_view_that_joins(keyed: duckdb.DuckDBPyConnection) -> None:
    keyed.execute(f"CREATE OR REPLACE VIEW below AS SELECT v.vid, v.code AS c, p.sex, p.hid FROM visit v {PERSON}")
    found = view(
        keyed, "SELECT b.sex AS s, town, chapter FROM below b JOIN household h USING (hid) JOIN icd ON c = icd.code"
    )
    assert [each.name.table for each in found.joined] == ["person", "household", "icd"]
    assert [list(each.declared) for each in found.joined] == [["s"], ["town"], ["chapter"]]
    assert found.charged.table == "visit" and found.public_marks == ("12ab",)
    assert keyed.execute(f"SELECT * FROM {found.tree().sql('duckdb')}").fetchall() == [("F", "a", "g")]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"SELECT v.* FROM visit v RIGHT {PERSON}", r"has a RIGHT JOIN.* Hint: join by JOIN or LEFT JOIN, ON all"),
        (f"SELECT v.* FROM visit v FULL {PERSON}", "has a FULL JOIN"),
        ("SELECT v.* FROM visit v CROSS JOIN person", "has a CROSS JOIN"),
        ("SELECT v.* FROM visit v, person p WHERE v.pid = p.pid AND v.c = p.cc", "has a CROSS JOIN"),
        ("SELECT v.* FROM visit v NATURAL JOIN icd", "has a NATURAL INNER JOIN"),
        ("SELECT v.* FROM visit v POSITIONAL JOIN icd", "has a POSITIONAL JOIN"),
        ("SELECT v.* FROM visit v ASOF JOIN icd i ON v.code >= i.code", "has a ASOF INNER JOIN"),
        (f"SELECT v.* FROM visit v SEMI {PERSON}", "has a SEMI JOIN"),
        (f"SELECT v.* FROM visit v ANTI {PERSON}", "has a ANTI JOIN"),
        ("SELECT v.* FROM visit v, LATERAL (SELECT v.pid) l", "(has a CROSS JOIN|selects from something other)"),
        ("SELECT v.* FROM visit v JOIN (FROM icd) i USING (code)", "selects from something other"),
        ("SELECT v.* FROM visit v JOIN range(5) r ON v.code = r.range", "joins the table function range"),
        ("SELECT v.* FROM visit v JOIN visits() r ON v.vid = r.vid", "joins the table function visits"),
        ("SELECT v.* FROM visit v JOIN (person p JOIN household h USING (hid)) ON v.pid = p.pid AND v.c = p.cc",
        "has a join within a join"),
        (f"SELECT v.* FROM visit v {PERSON} AND v.low > 1", r"joins person ON .* no equation of two columns"),
        ("SELECT v.* FROM visit v JOIN icd ON v.code + 0 = icd.code", "no equation of two columns"),
        ("SELECT v.* FROM visit v JOIN icd ON v.code IS NOT DISTINCT FROM icd.code", "no equation of two columns"),
        ("SELECT v.* FROM visit v JOIN icd ON v.code = icd.code OR v.low = icd.code", "no equation of two columns"),
        ("SELECT v.* FROM visit v JOIN icd ON v.code = v.low", "one of what stands before it"),
        ("SELECT v.* FROM visit v JOIN icd ON true", "no equation of two columns"),
        ("SELECT v.* FROM visit v JOIN icd ON v.code = 7", "no equation of two columns"),
        ("SELECT v.* FROM visit v JOIN icd ON icd.rowid = v.code", "rowid, which is not a column"),
        ("SELECT v.* FROM visit v JOIN person p ON v.pid = p.pid",
        r"joins person on \(pid\), whose keys are \(pid, cc\) and \(ssn\)"),
        ("SELECT v.* FROM visit v JOIN person p ON v.low = p.high", r"joins person on \(high\), whose keys are"),
        (f"SELECT v.* FROM visit v {PERSON} AND v.low = p.low", r"joins person on \(pid, cc, low\), whose keys are"),
        ("SELECT v.* FROM visit v JOIN person p ON v.ssn = p.ssn",
        r"on \(ssn\), which no FOREIGN KEY leads along.*CALL mwem_public\('person'\).*VALUES \('visit', \['ssn'\]"),
        ("SELECT v.* FROM visit v JOIN person p ON v.pid = p.pid AND v.ssn = p.cc", "which no FOREIGN KEY leads along"),
        ("SELECT p.* FROM person p JOIN visit v ON v.pid = p.pid AND v.c = p.cc",
        r"joins visit on \(pid, c\), whose keys are"),
        ("SELECT v.* FROM visit v JOIN people p ON v.pid = p.pid AND v.c = p.cc",
        "joins people, which is a view and has no key"),
        ("SELECT v.* FROM visit v JOIN visit w ON v.vid = w.vid", "has rows of visit twice, which may be of two units"),
        ("SELECT v.* FROM visit v JOIN numbers m ON v.low = m.n", r"joins numbers by low \(INTEGER\) and n \(DOUBLE\)"),
        ("SELECT v.* FROM visit v JOIN numbers m ON v.code = m.code", r"by code \(INTEGER\) and code \(BIGINT\)"),
        ("SELECT v.* FROM numbers v JOIN numbers m ON v.n = m.n", r"by n \(DOUBLE\) and n \(DOUBLE\)"),
    ],
)  # fmt: skip
def test_joins_that_are_refused(keyed: duckdb.DuckDBPyConnection, query: str, reason: str) -> None:
    with pytest.raises(TableError, match=rf"(?s)^f: view \('v'\) .*{reason}"):
        view(keyed, query)


def test_a_text_key_is_compared_by_its_bytes(con: duckdb.DuckDBPyConnection) -> None:
    """A key is unique by its bytes; under a collation one row would be joined to several."""
    con.execute("""
        CREATE TABLE codes (code VARCHAR COLLATE NOCASE PRIMARY KEY, n INTEGER);
        COMMENT ON TABLE codes IS '[mwem public 1]';
        INSERT INTO codes VALUES ('a', 1), ('A', 2);
        CREATE TABLE notes (code VARCHAR);
        INSERT INTO notes VALUES ('a')
    """)
    found = view(con, "SELECT * FROM notes JOIN codes USING (code)")
    assert len(con.execute("FROM v").fetchall()) == 2
    assert con.execute(f"SELECT * FROM {found.tree().sql('duckdb')}").fetchall() == [("a", 1)]


def test_a_joined_column_that_fails_is_null(keyed: duckdb.DuckDBPyConnection) -> None:
    """And in WHERE it leaves its row out."""
    failing = "SELECT chapter::INTEGER AS n FROM visit v JOIN icd USING (code)"
    rows = view(keyed, failing).tree().sql("duckdb")
    assert keyed.execute(f"SELECT DISTINCT n FROM {rows}").fetchall() == [(None,)]
    none = view(keyed, f"{failing} WHERE chapter::DATE IS NULL").tree().sql("duckdb")
    assert keyed.execute(f"FROM {none}").fetchall() == []


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
