"""Entries: opened before, ended after, one winner of a race, and where they are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb
import pytest
from conftest import Connection, Open
from ledgers import at_once, cap, charge, debit, marked

import mwem_sql
from mwem_sql.accounting.accounts import TableCarrier
from mwem_sql.accounting.journal import statement
from mwem_sql.accounting.ledger import Ledger, ledger_of
from mwem_sql.boundary.relations import describe
from mwem_sql.errors import BudgetError, OutputError
from mwem_sql.platform.catalog import Name, Place, is_read_only


def test_an_entry_is_opened_and_closed(plain: Connection, ledger: Ledger) -> None:
    entry = debit(plain, ledger, "1/3")
    (row,) = statement(plain.cursor())
    assert (row["entry"], row["status"], row["finished"]) == (entry, "open", None)
    assert (row["database_name"], row["schema_name"], row["table_name"], row["output"]) == (
        "memory",
        "main",
        "t",
        "memory.main.o",
    )
    assert (row["epsilon"], row["epsilon_exact"], row["private"]) == (1 / 3, "1/3", True)
    ledger.close(plain.cursor(), entry, "failed")
    (row,) = statement(plain.cursor())
    assert row["status"] == "failed"
    assert row["finished"] >= row["started"]


def test_what_is_not_private_is_refused_under_a_cap_and_not_counted_without(plain: Connection, ledger: Ledger) -> None:
    ledger.debit(plain.cursor(), charge("1"), "o", action="mwem_release", private=False)
    assert ledger.set_cap(plain.cursor(), cap("1")).balance.spent == 0
    with pytest.raises(
        BudgetError, match=r"a seeded release of t is refused, because the table has a cap\. Hint: leave seed out"
    ):
        ledger.debit(plain.cursor(), charge("1"), "o", action="mwem_release", private=False)


def test_the_last_share_has_one_winner(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    debit(plain, ledger, "1/2")
    cursors = [plain.cursor() for _ in range(8)]
    errors = at_once(8, lambda k: ledger.debit(cursors[k], charge("1/2"), f"o{k}", action="mwem_release"))
    assert [type(error) for error in errors] == [BudgetError] * 7
    assert len(statement(plain.cursor())) == 2


def test_the_last_share_has_one_winner_in_sql(con: Connection) -> None:
    con.execute("CALL mwem_budget('people', 1)").fetchall()
    cursors = [con.cursor() for _ in range(3)]
    errors = at_once(
        3,
        lambda k: (
            cursors[k].execute(f"CALL mwem_release('people', workload, 0.6, rounds := 1, output := 'o{k}')").fetchall()
        ),
    )
    assert len(errors) == 2
    assert all("0.4 of 1 is left" in str(error) for error in errors)
    assert con.execute("SELECT count(*), sum(epsilon) FROM mwem.ledger").fetchall() == [(1, 0.6)]


def test_first_debits_at_once_make_one_ledger(plain: Connection, ledger: Ledger) -> None:
    cursors = [plain.cursor() for _ in range(8)]
    assert at_once(8, lambda k: ledger.debit(cursors[k], charge("1"), f"o{k}", action="mwem_release")) == []
    assert len(statement(plain.cursor())) == 8
    assert plain.execute("FROM mwem.journal_head").fetchall()[0][0] == 9  # a key, and eight entries


def test_an_account_that_is_opened_while_it_is_looked_up_is_met(plain: Connection, ledger: Ledger) -> None:
    """A first debit may end between two reads: its mark is never seen without its line of the journal."""

    @dataclass(frozen=True)
    class Slow(TableCarrier):
        """A table that is charged for the first time just before its mark is read."""

        def account(self, con: Connection) -> str | None:
            if super().account(con) is None:
                debit(plain, ledger, "1")
            return super().account(con)

    slow = replace(ledger, identity=replace(ledger.identity, carrier=Slow(ledger.identity.table)))
    assert slow.at(plain.cursor()).account == ledger.at(plain.cursor()).account


def test_tables_of_one_name_in_two_schemas_have_their_own_caps(plain: Connection) -> None:
    ledger, other = marked(plain), marked(plain, Name("memory", "s", "t"))
    ledger.set_cap(plain.cursor(), cap("1"))
    debit(plain, ledger, "1")
    other.set_cap(plain.cursor(), cap("1"))
    debit(plain, other, "1")
    with pytest.raises(BudgetError):
        debit(plain, ledger, "1")


def test_an_open_entry_whose_release_exists_is_done(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may have died after storing and before writing so."""
    monkeypatch.setattr(Ledger, "close", lambda *_: None)
    mwem_sql.release(con, "people", "workload", 1, rounds=1)
    mwem_sql.release(con, "people", "workload", 1, rounds=1, output="lost")
    con.execute("DELETE FROM mwem.releases WHERE table_name = 'lost'")
    listed = [("memory.main.people_synthetic", "open"), ("memory.main.lost", "open")]
    assert con.execute("SELECT output, status FROM mwem.ledger").fetchall() == listed
    assert con.execute("SELECT output, status FROM mwem_ledger()").fetchall() == [(listed[0][0], "done"), listed[1]]


def test_where_the_ledger_is(connect: Open, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("ledger") / "a.duckdb"
    con = connect(path, registered=False)
    con.execute("CREATE TABLE t (x INTEGER)")
    con.close()
    con = connect(registered=False)
    con.execute(f"ATTACH '{path}' AS a (READ_ONLY); ATTACH ':memory:' AS b")
    assert is_read_only(con, "a")
    assert not is_read_only(con, "b")
    con.execute("CREATE TABLE b.t (x INTEGER)")
    here = Place("memory", "main")
    first, second = describe(con, "a.t", here, "f"), describe(con, "b.t", here, "f")
    assert ledger_of(con, second, here, "f").home == "b"
    assert ledger_of(con, first, Place("b", "main"), "f").home == "b"
    with pytest.raises(OutputError, match=r"f: default database \(a\) cannot be written, and neither can a"):
        ledger_of(con, first, Place("a", "main"), "f")
    # There the entry names the database, so that tables of the same name are kept apart.
    debit(con, ledger_of(con, first, Place("b", "main"), "f"), "1")
    debit(con, ledger_of(con, second, Place("b", "main"), "f"), "1")
    assert con.execute("SELECT database_name FROM b.mwem.ledger ORDER BY 1").fetchall() == [("",), ("a",)]
    assert [row["database_name"] for row in statement(con)] == ["a", "b"]
    # Its account is that of the file: under another alias, and with another default database, it is the same.
    con.execute(f"DETACH a; ATTACH '{path}' AS other (READ_ONLY)")
    again = ledger_of(con, describe(con, "other.t", here, "f"), here, "f")
    assert (again.home, again.balance.spent) == ("b", 1)


def test_a_table_that_an_open_transaction_replaces_is_not_charged(con: Connection) -> None:
    """As dbt does: a new table takes the name of the old one, and a hook inside that transaction asks for a release."""
    con.execute("BEGIN; ALTER TABLE people RENAME TO before; CREATE TABLE people AS FROM before; DROP TABLE before")
    with pytest.raises(
        duckdb.InvalidInputException, match=r"is being changed by a transaction that is still open.*COMMIT first"
    ):
        con.execute("CALL mwem_release('people', workload, 1, rounds := 1)").fetchall()
    con.execute("ROLLBACK")
    assert list(statement(con.cursor())) == []
    con.execute("CALL mwem_release('people', workload, 1, rounds := 1)").fetchall()
    assert len(list(statement(con.cursor()))) == 1


def test_failed_and_open_entries_count(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("2"))
    ledger.close(plain.cursor(), debit(plain, ledger, "1"), "failed")
    debit(plain, ledger, "1")
    with pytest.raises(BudgetError):
        debit(plain, ledger, "1/100")


def test_a_note_spends_nothing(plain: Connection, ledger: Ledger) -> None:
    with ledger.note(plain.cursor, "o", "mwem_compare"):
        (row,) = statement(plain.cursor())
        assert (row["status"], row["finished"]) == ("open", None)
    assert ledger.set_cap(plain.cursor(), cap("1")).balance.spent == 0
    (row,) = statement(plain.cursor())
    assert (row["action"], row["epsilon"], row["private"], row["status"]) == ("mwem_compare", 0.0, False, "done")
    assert row["finished"] >= row["started"]


def test_a_note_of_what_failed_says_so(plain: Connection, ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.note(plain.cursor, "o", "mwem_compare"):
        raise ZeroDivisionError
    assert [row["status"] for row in statement(plain.cursor())] == ["failed"]


def test_what_a_release_took_in_rho_is_known_in_the_end(connect: Open) -> None:
    """n decides between epsilon and rho after the debit, which is for the more costly of both."""
    con = connect()
    con.execute("CREATE TABLE bits AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b, i % 5 = 0 AS c FROM range(3000) t(i)")
    con.execute("CREATE TABLE few AS FROM bits LIMIT 3")
    con.execute("CREATE TABLE w AS FROM mwem_marginals('bits', 2)")
    for table in ("bits", "few"):
        con.execute(f"CALL mwem_release('{table}', w, 1, delta := 1e-9, fit := 'replay')")
    both = dict(con.execute("SELECT table_name, rho_exact FROM mwem.ledger").fetchall())
    entries = dict(con.execute("SELECT table_name, rho_exact FROM mwem.journal WHERE event = 'entry'").fetchall())
    assert set(entries.values()) == {"1/2"}
    for table in ("bits", "few"):
        query = f"""SELECT bool_and(noise = 'laplace') FROM mwem.measurements JOIN mwem.releases r USING (release)
            WHERE r.output LIKE '%{table}_synthetic'"""
        ((is_pure,),) = con.execute(query).fetchall()
        assert (both[table] == "1/2") == is_pure
