"""The script for several tables says what it is, and names what a person has to check."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from conftest import Connection
from sqlglot import exp

import mwem_sql
from mwem_sql.errors import OptionError
from mwem_sql.explain.suggest_tables import TableFile, tables_script
from mwem_sql.platform.session import Session

SETUP = """
    CREATE TABLE person AS SELECT i AS id, ['F', 'M'][1 + i % 2] AS sex, if(i % 9 = 0, 'n/a', (i % 80)::VARCHAR) AS age
    FROM range(300) t(i);
    CREATE TABLE visit AS SELECT (i % 280)::INTEGER AS person_id, i % 5 AS ward FROM range(600) t(i);
    CREATE TABLE codes AS SELECT 'c' || i AS code, i AS n FROM range(120) t(i);
"""


@pytest.fixture
def con() -> Iterator[Connection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def script(con: Connection, *names: str) -> str:
    sources = [TableFile(table=name, file=exp.to_table(f"{name}_file")) for name in names]
    return tables_script(Session.of(con), sources, "test")


def test_it_makes_tables_with_keys_and_releases_them(con: Connection) -> None:
    text = script(con, "visit", "person")
    with mwem_sql.connect() as other:
        other.execute(SETUP)
        for name in ("person", "visit", "codes"):
            other.execute(f"ALTER TABLE {name} RENAME TO {name}_file")
        statements = duckdb.extract_statements(text)
        ((release, output, *_),) = [other.execute(statement).fetchall() for statement in statements][-1]
        assert (release, output) == (1, "memory.main.person_synthetic, memory.main.visit_synthetic")
        # Again: tables that have rows are left as they are, and the same release is found.
        assert [other.execute(statement).fetchall() for statement in statements][-1][0][11] is True
        assert other.execute("SELECT count(*), count(age) FROM person").fetchall() == [(300, 266)]
        types = other.execute(
            "SELECT data_type FROM duckdb_columns() WHERE table_name IN ('person', 'visit')"
            " ORDER BY table_name, data_type"
        ).fetchall()
        # The person's age was text, with a code for a missing one; what refers to a key has its type.
        assert types == [("BIGINT",), ("BIGINT",), ("VARCHAR",), ("BIGINT",), ("BIGINT",)]


def test_every_line_that_a_person_must_check_says_so(con: Connection) -> None:
    lines = script(con, "person", "visit", "codes").splitlines()
    assert lines[0].startswith("-- NOT PRIVATE.")
    said = [line for line in lines if line and not line.startswith(("-- ", "CREATE OR REPLACE TABLE", 'INSERT INTO "'))]
    assert said and all("CHECK" in line for line in said)
    assert any("CHECK id: in 300 rows no value is there twice" in line for line in lines)
    assert any("CHECK person_id: all its values are in person.id" in line for line in lines)
    assert "-- CHECK: no key leads from codes to another table, or back. It is not released here." in lines
    assert not any("codes_domain" in line for line in lines)


def test_the_ledger_notes_that_it_was_done(con: Connection) -> None:
    script(con, "person", "visit")
    rows = con.execute("SELECT table_name, action, private, epsilon FROM mwem_ledger() ORDER BY ALL").fetchall()
    assert rows == [("person", "test", False, 0), ("visit", "test", False, 0)]


def test_tables_that_nothing_joins_are_refused(con: Connection) -> None:
    with pytest.raises(OptionError, match="test: no column of person, codes has the values of a key of another table"):
        script(con, "person", "codes")
