"""Views along keys: what they show, whose rows are in theirs, and the joins that are refused."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from mwem_sql.boundary.relations import Relation, describe
from mwem_sql.errors import OptionError, TableError
from mwem_sql.platform.catalog import Place

HERE = Place("memory", "main")


def view(con: duckdb.DuckDBPyConnection, query: str) -> Relation:
    con.execute(f"CREATE OR REPLACE VIEW v AS {query}")
    return describe(con, "v", HERE, "f")


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
    assert {name: column.name for name, column in found.declared.items()} == {"low": "low"}
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


def test_a_text_key_is_compared_by_its_bytes() -> None:
    """A key is unique by its bytes; under a collation one row would be joined to several."""
    with duckdb.connect() as con:
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
