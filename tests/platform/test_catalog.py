"""Names, and what the catalog says of what they mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from conftest import PEOPLE, SCHEMA, Open
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.accounting import journal
from mwem_sql.boundary.relations import describe
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name, Place, find, split_name

HERE = Place("memory", "main")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(SCHEMA)
        yield con


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a", ["a"]), ("a.b", ["a", "b"]), ('a."b.c"', ["a", "b.c"]), ('"a""b"', ['a"b']),
    ('"a"."b"."c"', ["a", "b", "c"]),
     ("my table", ["my table"]), ("a . b", ["a", "b"]), ('"a', ['"a']), ('"a"b', ['"a"b']), ("a.", ["a."]), ("", [""]),
     ("ünï.täble", ["ünï", "täble"])],
)  # fmt: skip
def test_split_name(text: str, parts: list[str]) -> None:
    assert split_name(text) == parts


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8),
        min_size=1,
        max_size=3,
    )
)
def test_quoted_names_split_into_what_was_quoted(parts: list[str]) -> None:
    assert split_name(".".join('"' + part.replace('"', '""') + '"' for part in parts)) == parts


@pytest.mark.parametrize(
    "table", ["two words", 'a "quoted" one', "select", "Größe", "s.u", "a.b.c.d", "'single'", "t;--", "日本"]
)
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
    con.execute("CREATE VIEW v AS SELECT * FROM s.u")
    assert describe(con, "v", HERE, "f").below == (Name("memory", "s", "u"),)


def test_names_ignore_case_as_duckdb_does(con: duckdb.DuckDBPyConnection) -> None:
    assert find(con, "MEMORY.Main.T", HERE) == (Name("memory", "main", "t"), False)
    con.execute('CREATE TABLE "É" (a INTEGER); CREATE TABLE "é" (b INTEGER)')
    assert find(con, "é", HERE) == (Name("memory", "main", "é"), False)
    assert find(con, "É", HERE) == (Name("memory", "main", "É"), False)


def test_order_of_preference(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    con.execute(
        f"ATTACH '{tmp_path / 'other.duckdb'}' AS other; CREATE TABLE other.t (b INTEGER); CREATE TABLE s.t (c INTEGER)"
    )
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


def test_a_list_is_read_once_in_a_block_and_anew_after_it(con: duckdb.DuckDBPyConnection) -> None:
    """By one connection: another one, of this instance or not, reads its own."""
    with duckdb.connect() as elsewhere, catalog.read_once(con), catalog.read_once(con):
        assert find(con, "later", HERE) is None
        con.execute("CREATE TABLE later (a INTEGER); COMMENT ON TABLE later IS 'noted'")
        assert find(con, "later", HERE) is None and not catalog.comment(con, Name("memory", "main", "later"))
        assert find(con.cursor(), "later", HERE) == (Name("memory", "main", "later"), False)
        assert find(elsewhere, "t", HERE) is None
    assert find(con, "later", HERE) == (Name("memory", "main", "later"), False)
    assert catalog.comment(con, Name("memory", "main", "later")) == "noted"
    with pytest.raises(KeyError), catalog.read_once(con):
        raise KeyError
    con.execute("DROP TABLE later")
    assert find(con, "later", HERE) is None


def test_a_macro_cannot_change_what_is_found(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE MACRO lower(x) AS 'same'")
    assert find(con, "nothing", HERE) is None
    assert find(con, "T", HERE) == (Name("memory", "main", "t"), False)


def test_names_quote_themselves() -> None:
    name = Name("my db", 'a"b', "select")
    assert name.quoted() == '"my db"."a""b"."select"'
    assert str(name.beside("x.y")) == 'my db.a"b.x.y'


# The catalog is read once for each purpose, and not once for each question.

CATALOG = Counter(
    {
        # before the plan 3; in it 2, with how the table was made; for its ledger 2; in the debit 3; in the snapshot 2,
        # with how the table was made; to store it 1
        "duckdb_tables": 13,
        "duckdb_views": 4,
        "duckdb_databases": 7,
        "duckdb_columns": 2,
        # those of the table, and the keys of its schema, each before the debit and in the snapshot; the output's
        "duckdb_constraints": 5,
    }
)
"""How often a release reads each list, from a table that has been released before."""


def catalog_statements(con: duckdb.DuckDBPyConnection, version: str) -> Counter[str]:
    con.execute("CALL enable_logging('QueryLog'); CALL truncate_duckdb_logs()")
    con.execute(f"CALL mwem_release('people', workload, 1, rounds := 1, rows := 5, version := '{version}')").fetchall()
    con.execute("CALL disable_logging()")
    logged = con.execute("SELECT message FROM duckdb_logs WHERE type = 'QueryLog'").fetchall()
    lists = [re.search(r"FROM (duckdb_\w+)\(\)", text) for (text,) in logged]
    return Counter(match[1] for match in lists if match)


def test_a_release_reads_the_catalog_once_for_each_purpose(connect: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    con = connect()
    con.execute(PEOPLE)
    con.execute("CALL mwem_release('people', workload, 1, rounds := 1, rows := 5)").fetchall()
    functions, listed = catalog._functions, list[object]()
    monkeypatch.setattr(catalog, "_functions", lambda con: listed.append(con) or functions(con))
    assert catalog_statements(con, "2") == CATALOG
    assert len(listed) == 2  # before the debit, and in the snapshot that is scanned
    read = journal.read_all
    monkeypatch.setattr(journal, "read_all", lambda con: read(con) and read(con))
    assert catalog_statements(con, "3") == CATALOG + Counter(duckdb_tables=2)  # in the snapshot there is one list
