"""Keys: what leads where, by constraints and by what a curator declares; and the unit that follows."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from mwem_sql.boundary.keys import Keys
from mwem_sql.boundary.relations import Relation, above, describe
from mwem_sql.errors import OptionError, TableError
from mwem_sql.platform.catalog import Name, Place

HERE = Place("memory", "main")
TREE = """
CREATE TABLE Household (Hid INTEGER PRIMARY KEY, town VARCHAR);
CREATE TABLE person (pid INTEGER, cc VARCHAR, hid INTEGER, ssn VARCHAR UNIQUE, PRIMARY KEY (PID, cc),
    FOREIGN KEY (HID) REFERENCES household (HID));
CREATE TABLE visit (vid INTEGER PRIMARY KEY, c VARCHAR, p INTEGER, code INTEGER,
    FOREIGN KEY (P, c) REFERENCES person (pid, cc));
CREATE TABLE rx (rid INTEGER, vid INTEGER REFERENCES visit, drug VARCHAR);
CREATE TABLE icd (code INTEGER PRIMARY KEY);
CREATE TABLE alone (x INTEGER);
"""
DECLARED = "CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, refers_columns VARCHAR[])"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(TREE)
        yield con


def name(table: str) -> Name:
    return Name("memory", "main", table)


def keys(con: duckdb.DuckDBPyConnection) -> Keys:
    return Keys.of(con, name("visit"), "f")


def test_keys_of_constraints(con: duckdb.DuckDBPyConnection) -> None:
    """In the spelling of the tables, whatever that of the constraints."""
    found = keys(con)
    assert found.unique(name("person")) == (("pid", "cc"), ("ssn",))
    (key,) = found.foreign(name("visit"))
    assert (key.columns, key.refers_to, key.refers_columns) == (("p", "c"), name("person"), ("pid", "cc"))
    assert [each.table.table for each in found.children(name("Household"))] == ["person"]
    assert [each.table for each in found.above(name("rx"))] == ["rx", "visit", "person", "Household"]
    assert {each.table for each in found.tree(name("person"))} == {"rx", "visit", "person", "Household"}
    assert found.tree(name("alone")) == (name("alone"),)
    assert found.is_unique(name("person"), ["CC", "pid"]) and not found.is_unique(name("person"), ["pid"])
    assert found.named(name("visit"), ["c", "p"]) == {name("person"): ("cc", "pid")}


def test_keys_that_are_declared(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(DECLARED)
    con.execute("INSERT INTO mwem_keys VALUES ('ALONE', ['X'], 'icd', ['code']), ('visit', ['code'], 'icd', ['code'])")
    found = keys(con)
    assert [key.columns for key in found.foreign(name("alone"))] == [("x",)]
    assert name("alone") in found.tree(name("person"))
    con.execute("COMMENT ON TABLE icd IS '[mwem public 0a]'")  # keys that refer to public tables lead nowhere
    assert keys(con).tree(name("alone")) == (name("alone"),)
    assert keys(con).public_near([name("visit")]) == ("0a",)
    con.execute("COMMENT ON TABLE icd IS '[mwem public 0a] [mwem account 0b]'")  # it was charged since
    assert not keys(con).is_public(name("icd"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            "'visits', ['p'], 'person', ['pid']",
            r"names the table 'visits', which is not beside it.*did you mean 'visit'\?",
        ),
        (
            "'visit', ['q'], 'icd', ['code']",
            "names the column 'q', which visit has not.*its columns are vid, c, p, code",
        ),
        ("'visit', ['p', 'c'], 'icd', ['code']", r"has a row \(visit, \['p', 'c'\], icd, \['code'\]\) that is no key"),
        ("'visit', [], 'icd', []", "that is no key"),
        ("NULL, ['p'], 'icd', ['code']", "that is no key"),
        ("'visit', ['p', NULL], 'person', ['pid', 'cc']", "that is no key"),
        ("'few', ['code'], 'icd', ['code']", "names the table 'few', which is not beside it"),
        ("'made', ['y'], 'icd', ['code']", "names the column 'y' of made, which is generated.*make it a plain column"),
        ("'visit', ['c'], 'icd', ['code']", r"has visit.c \(VARCHAR\) refer to icd.code \(INTEGER\)"),
    ],
)
def test_declarations_that_are_refused(con: duckdb.DuckDBPyConnection, row: str, reason: str) -> None:
    con.execute("CREATE VIEW few AS FROM visit; CREATE TABLE made (x INTEGER, y INTEGER AS (x + 1))")
    con.execute(f"{DECLARED}; INSERT INTO mwem_keys VALUES ({row})")
    with pytest.raises(TableError, match=rf"^f: key table \('mwem_keys'\) .*{reason}"):
        keys(con)


def test_the_key_table_is_a_plain_one(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE VIEW mwem_keys AS SELECT 1 AS table_name")
    with pytest.raises(TableError, match=r"f: key table \('mwem_keys'\) is a view"):
        keys(con)
    con.execute("DROP VIEW mwem_keys; CREATE TABLE mwem_keys (a VARCHAR)")
    with pytest.raises(
        TableError, match=r"key table \('mwem_keys'\) has the columns a. Hint: it has table_name, .*CREATE TABLE"
    ):
        keys(con)


def test_the_path_to_a_unit(con: duckdb.DuckDBPyConnection) -> None:
    found = keys(con)
    assert [key.table.table for key in found.path(name("rx"), name("Household"), "f")] == ["rx", "visit", "person"]
    assert found.path(name("person"), name("person"), "f") == ()
    with pytest.raises(
        TableError, match=r"unit \('rx'\) is a table that no FOREIGN KEY of visit leads to.*INSERT INTO mwem_keys"
    ):
        found.path(name("visit"), name("rx"), "f")


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (
            ["'visit', ['code'], 'Household', ['hid']"],
            r"has 2 paths from visit .*visit -> Household; by p, c and by code",
        ),
        (
            ["'visit', ['p'], 'doctor', ['did']", "'doctor', ['pid', 'cc'], 'person', ['pid', 'cc']"],
            "has 2 paths from visit",
        ),
        (["'person', ['pid'], 'person', ['hid']"], "the keys of person lead to person again"),
        (["'Household', ['hid'], 'visit', ['vid']"], "the keys of visit lead to visit again"),
        (["'visit', ['code'], 'visit', ['vid']"], "the keys of visit lead to visit again"),
    ],
)
def test_units_that_are_not_clear(con: duckdb.DuckDBPyConnection, declared: list[str], reason: str) -> None:
    con.execute(f"{DECLARED}; CREATE TABLE doctor (did INTEGER, pid INTEGER, cc VARCHAR)")
    for row in declared:
        con.execute(f"INSERT INTO mwem_keys VALUES ({row})")
    with pytest.raises(TableError, match=reason):
        describe(con, "visit", HERE, "f", unit="household")
    assert keys(con).single_path(name("visit"), name("Household")) is None


def test_a_cycle_elsewhere_does_not_matter(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"{DECLARED}; CREATE TABLE a (x INTEGER); CREATE TABLE b (x INTEGER)")
    for child, parent in ("ab", "ba"):
        con.execute(f"INSERT INTO mwem_keys VALUES ('{child}', ['x'], '{parent}', ['x'])")
    con.execute("INSERT INTO mwem_keys VALUES ('visit', ['code'], 'a', ['x'])")
    assert len(keys(con).path(name("visit"), name("Household"), "f")) == 2


def rows(con: duckdb.DuckDBPyConnection, relation: Relation) -> list[tuple[object, ...]]:
    hidden = ", ".join(column.name for column in relation.unit.columns) if relation.unit else "NULL"
    found = con.execute(f"SELECT COLUMNS('^[a-z]id$'), {hidden} FROM {relation.tree().sql('duckdb')}").fetchall()
    return sorted(found, key=repr)


def test_the_unit_of_a_row(con: duckdb.DuckDBPyConnection) -> None:
    """Of a key without constraints: NULL is of no unit, and what refers to nothing is of one only one step below."""
    con.execute(f"""
        {DECLARED};
        CREATE TABLE p (pid INTEGER, hid INTEGER);
        CREATE TABLE v (vid INTEGER, pid INTEGER);
        CREATE TABLE x (xid INTEGER, vid INTEGER);
        INSERT INTO mwem_keys VALUES ('v', ['pid'], 'p', ['pid']), ('x', ['vid'], 'v', ['vid']);
        INSERT INTO p VALUES (1, 1), (2, NULL), (NULL, 1);
        INSERT INTO v VALUES (10, 1), (11, 2), (12, 9), (13, NULL), (NULL, 1);
        INSERT INTO x VALUES (100, 10), (101, 12), (102, 13), (103, 99), (104, NULL)
    """)
    assert rows(con, describe(con, "p", HERE, "f", unit="p")) == [(1, 1, 1), (2, None, 2), (None, 1, None)]
    assert rows(con, describe(con, "v", HERE, "f", unit="p")) == [
        (10, 1, 1), (11, 2, 2), (12, 9, 9), (13, None, None), (None, 1, 1)
    ]  # fmt: skip
    assert rows(con, describe(con, "x", HERE, "f", unit="p")) == [(100, 10, 1), (101, 12, 9), (102, 13, None)]
    con.execute("CREATE VIEW few AS SELECT xid FROM x WHERE vid < 13")
    found = describe(con, "few", HERE, "f", unit="p")
    assert rows(con, found) == [(100, 1), (101, 9)]
    assert [column.name for column in found.columns] == ["xid"] and found.unit is not None
    assert [table.table for table in found.unit.path] == ["x", "v", "p"]
    con.execute("CREATE TABLE nokey (a INTEGER)")
    with pytest.raises(TableError, match=r"without a PRIMARY KEY.* ALTER TABLE .*nokey.* ADD PRIMARY KEY"):
        describe(con, "nokey", HERE, "f", unit="nokey")


def test_a_column_comes_before_a_table_of_its_name(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("ALTER TABLE rx RENAME COLUMN drug TO visit")
    assert describe(con, "rx", HERE, "f", unit="visit").unit is None
    found = describe(con, "rx", HERE, "f", unit="main.visit")
    assert found.unit is not None and found.unit.table == name("visit")
    con.execute("CREATE VIEW v AS SELECT rx.*, w.code FROM rx JOIN visit w USING (vid)")
    joined = describe(con, "v", HERE, "f", unit="visit")
    with pytest.raises(OptionError, match=r"give unit := 'main\.visit'"):
        joined.check_unit("visit", "f")
    describe(con, "v", HERE, "f", unit="main.visit").check_unit("main.visit", "f")
    describe(con, "v", HERE, "f", unit="vid").check_unit("vid", "f")  # a column that names the joined row


def test_a_unit_of_a_type_whose_equal_values_differ(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE real (x DOUBLE PRIMARY KEY)")
    with pytest.raises(OptionError, match=r"unit \('real'\) has a key of type DOUBLE"):
        describe(con, "real", HERE, "f", unit="real")


def test_a_table_with_all_above_it(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""
        INSERT INTO household VALUES (1, 'a'); INSERT INTO person VALUES (1, 'x', 1, 's'), (2, 'x', NULL, NULL);
        INSERT INTO visit VALUES (10, 'x', 1, 5), (11, 'x', 2, 6), (12, NULL, 1, 7);
        INSERT INTO rx VALUES (100, 10, 'd'), (101, 11, 'e'), (102, 12, 'f')
    """)
    found = above(con, name("rx"), name("person"), "f")
    assert [column.name for column in found.columns][:8] == [
        "rid", "vid", "drug", "visit.vid", "visit.c", "visit.p", "visit.code", "person.pid"
    ]  # fmt: skip
    asked = 'rid, "visit.code", "person.ssn", __mwem_unit0, __mwem_unit1'
    read = f"SELECT {asked} FROM {found.tree().sql('duckdb')} ORDER BY 1"
    assert con.execute(read).fetchall() == [(100, 5, "s", 1, "x"), (101, 6, None, 2, "x"), (102, 7, None, 1, None)]
    assert found.names == (name("rx"),) and [each.name.table for each in found.joined] == ["visit", "person"]
    found.check_unit("person", "f")
    assert set(found.private_names) >= {name("visit"), name("person"), name("Household")}
