"""Sessions: fresh cursors, the caller's settings and place, one lock per name, transactions that are all or nothing;
and the connection inside a handle. The real packages are in `pytest -m integrations`
(tests/project/test_integrations.py).
"""

from __future__ import annotations

import sqlite3
from typing import Any

import duckdb
import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.errors import OptionError
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session, connection_of, lock, transaction, use


def test_a_session_has_the_place_and_the_settings_of_its_connection(plain: Connection) -> None:
    plain.execute("CREATE SCHEMA s; USE s; SET TimeZone = 'Asia/Tokyo'")
    session = Session.of(plain)
    assert session.place == Place("memory", "s")
    assert session.settings["TimeZone"] == "Asia/Tokyo"


def test_a_cursor_sees_what_is_committed_and_lasting(plain: Connection) -> None:
    session = Session.of(plain)
    plain.execute(
        "CREATE TABLE lasting (x INTEGER); CREATE TEMP TABLE passing (x INTEGER); BEGIN; CREATE TABLE later (x INTEGER)"
    )
    found = session.cursor().execute("SELECT table_name FROM duckdb_tables()").fetchall()
    assert found == [("lasting",)]
    assert session.cursor() is not session.cursor()


def test_names_that_are_one_to_duckdb_have_one_lock() -> None:
    assert lock("Memory.main.T") is lock("memory.MAIN.t")
    assert lock("memory.main.t") is not lock("memory.main.u")


def test_a_place_may_have_an_odd_name(plain: Connection) -> None:
    plain.execute('CREATE SCHEMA "a.b ""c"')
    use(plain, Place("memory", 'a.b "c'))
    assert Place.of(plain) == Place("memory", 'a.b "c')


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_transaction_is_all_or_nothing(plain: Connection, failure: type[BaseException]) -> None:
    plain.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)")

    def fail() -> None:
        with transaction(plain):
            plain.execute("INSERT INTO t VALUES (1)")
            raise failure

    with pytest.raises(failure):
        fail()
    assert plain.execute("FROM t").fetchall() == []
    with transaction(plain):
        plain.execute("INSERT INTO t VALUES (2)")
    assert plain.execute("FROM t").fetchall() == [(2,)]


class Forwarding:
    """As duckdb-engine and dbt-duckdb wrap a connection: what they do not know they hand on."""

    def __init__(self, wrapped: object) -> None:
        self.__wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped, name)


class Holding:
    def __init__(self, name: str, value: object) -> None:
        setattr(self, name, value)


@pytest.mark.parametrize("step", ["con", "connection", "_connection"])
def test_an_attribute(con: Connection, step: str) -> None:
    assert connection_of(Holding(step, con)) is con
    assert connection_of(Holding(step, Forwarding(con))) is con


@pytest.mark.parametrize("step", ["raw_connection", "cursor", "connection"])
def test_what_a_method_gives(con: Connection, step: str) -> None:
    assert connection_of(Holding(step, lambda: Forwarding(Forwarding(con)))) is con


def test_a_connection_or_cursor_is_its_own(con: Connection) -> None:
    cursor = con.cursor()
    assert connection_of(con) is con
    assert connection_of(cursor) is cursor


def test_handles_around_handles(con: Connection) -> None:
    engine = Holding("raw_connection", lambda: Forwarding(con))
    assert connection_of(Holding("_connection", Holding("connection", engine))) is con


def test_every_function_takes_a_handle(con: Connection) -> None:
    handle = Holding("con", con)
    assert mwem_sql.register(handle) is handle
    assert mwem_sql.release(handle, "people", "workload", 1, rounds=1).rows > 0
    assert mwem_sql.Domain.from_schema(handle, "people").table == "people"
    mwem_sql.unregister(handle)
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM mwem_ledger()")


@pytest.mark.parametrize(
    "handle", [None, "census.duckdb", sqlite3, Holding("con", None), Holding("cursor", int.__add__)]
)
def test_anything_else(handle: object) -> None:
    with pytest.raises(OptionError, match=r"must be a connection of DuckDB or hold one\. Hint: pass a DuckDB"):
        mwem_sql.register(handle)


def test_a_connection_to_another_database() -> None:
    other = sqlite3.connect(":memory:")
    try:
        with pytest.raises(OptionError, match=r"connection \(sqlite3\.Connection\)"):
            mwem_sql.register(other)
    finally:
        other.close()


def test_the_module_duckdb_is_its_default_connection() -> None:
    assert connection_of(duckdb) is duckdb.default_connection()
