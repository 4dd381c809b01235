"""Sessions: fresh cursors, the caller's settings and place, one lock per name, and transactions that are all or nothing."""

from __future__ import annotations

import pytest
from conftest import Connection

from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session, lock, transaction, use


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
