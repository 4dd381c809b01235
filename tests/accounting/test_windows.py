"""Caps of a server's users, and caps that renew: each window is a new cap by the curator's word, in the journal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction

import duckdb
import pytest
from conftest import Connection

from mwem_sql.accounting import journal
from mwem_sql.accounting.caps import Cap, Charge, read_every
from mwem_sql.accounting.ledger import Ledger, read_ledger
from mwem_sql.boundary import relations
from mwem_sql.errors import BudgetError, OptionError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import pure_rho
from mwem_sql.platform.session import Session

START = datetime(2026, 1, 1, 12)  # noqa: DTZ001  as in the journal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """What time it is, as a distance from the start."""
    moment = [START]
    monkeypatch.setattr(journal, "now", lambda: moment[0])

    def set_to(passed: timedelta) -> None:
        moment[0] = START + passed

    return set_to


def ledger(con: Connection, table: str = "people") -> Ledger:
    session = Session.of(con)
    cursor = session.cursor()
    relation = relations.describe(cursor, table, session.place, "f")
    return read_ledger(cursor, relation, session.place, "f")


def charge(con: Connection, epsilon: str, user: str | None = None, table: str = "people") -> None:
    budget = Budget(Fraction(epsilon), Fraction(0))
    ledger(con, table).debit(con.cursor(), Charge(budget=budget, rho=pure_rho(budget.epsilon)), "o", user_name=user)


def spent(con: Connection, call: str) -> tuple[float, float]:
    """What a call of mwem_budget says is spent and left."""
    (row,) = con.execute(f"SELECT epsilon_spent, epsilon_left FROM {call}").fetchall()
    return row


def test_a_users_cap_holds_beside_the_tables(con: Connection) -> None:
    con.execute("CALL mwem_budget('people', 3); CALL mwem_budget('people', 1, user := 'anna')")
    charge(con, "0.75", "anna")
    with pytest.raises(BudgetError, match=r"does not fit the cap on people for anna: 0.25 of 1 is left"):
        charge(con, "0.5", "anna")
    charge(con, "2", "bert")
    charge(con, "0.25", "anna")
    with pytest.raises(BudgetError, match=r"does not fit the cap on people: 0 of 3 is left"):
        charge(con, "0.25", "bert")
    assert spent(con, "mwem_budget('people', 1, user := 'anna')") == (1.0, 0.0)
    assert spent(con, "mwem_budget('people', 3)") == (3.0, 0.0)


def test_a_users_cap_on_all_tables_counts_each_of_them(con: Connection) -> None:
    con.execute("CREATE TABLE others AS FROM people; CALL mwem_budget('people', 9); CALL mwem_budget('others', 9)")
    con.execute("CALL mwem_budget(NULL, 1, user := 'anna')")
    charge(con, "0.5", "anna")
    charge(con, "0.5", "anna", "others")
    charge(con, "5", "bert")
    with pytest.raises(BudgetError, match=r"does not fit the cap on all tables for anna: 0 of 1 is left"):
        charge(con, "0.1", "anna")
    assert spent(con, "mwem_budget(NULL, 2, user := 'anna')") == (1.0, 1.0)
    charge(con, "0.5", "anna")


def test_a_users_cap_gives_the_table_none(con: Connection) -> None:
    con.execute("CREATE TABLE others AS FROM people; CALL mwem_budget('others', 1)")
    con.execute("CALL mwem_budget('people', 1, user := 'anna')")
    with pytest.raises(BudgetError, match="has no cap"):
        charge(con, "0.5", "anna")


def test_a_cap_renews_and_the_journal_says_so(con: Connection, clock: Callable[[timedelta], None]) -> None:
    con.execute("CALL mwem_budget('people', 1, every := '30 days')")
    charge(con, "1")
    clock(timedelta(days=29, hours=23))
    with pytest.raises(BudgetError, match="0 of 1 is left"):
        charge(con, "0.5")
    clock(timedelta(days=30))
    assert ledger(con).balance.epsilon_left == 1.0
    charge(con, "0.75")
    with pytest.raises(BudgetError, match=r"0.25 of 1 is left"):
        charge(con, "0.5")
    clock(timedelta(days=95))  # two windows without a release
    charge(con, "1")
    with pytest.raises(BudgetError, match="0 of 1 is left"):
        charge(con, "0.1")
    caps = con.execute("SELECT opened, since FROM mwem.journal WHERE event = 'cap' ORDER BY number").fetchall()
    entries = con.execute("SELECT number FROM mwem.journal WHERE event = 'entry' ORDER BY number").fetchall()
    assert [opened - START for opened, _ in caps] == [timedelta(0), timedelta(days=30), timedelta(days=90)]
    assert [sum(number > since for (number,) in entries) for _, since in caps] == [3, 2, 1]
    words = [
        row[0] for row in con.execute("SELECT action FROM mwem_ledger() WHERE action LIKE 'mwem_budget%'").fetchall()
    ]
    assert words[-1] == "mwem_budget: epsilon 1.0 to 1.0 every 30 days, from 2026-04-01 12:00 on"


def test_a_renewed_cap_that_is_set_again_keeps_its_window(con: Connection, clock: Callable[[timedelta], None]) -> None:
    """To call mwem_budget once more, as a setup that is run at each start does, gives nothing back."""
    call = "CALL mwem_budget('people', 1, every := '7 days')"
    con.execute(call)
    charge(con, "1")
    clock(timedelta(days=3))
    con.execute(call)
    with pytest.raises(BudgetError, match="0 of 1 is left"):
        charge(con, "0.5")
    clock(timedelta(days=8))
    con.execute(call)
    charge(con, "1")
    con.execute(call)
    with pytest.raises(BudgetError, match="0 of 1 is left"):
        charge(con, "0.5")
    con.execute("CALL mwem_budget('people', 3)")  # for good again: all that was ever charged counts
    assert ledger(con).balance.epsilon_left == 1.0


def test_a_users_window_is_theirs(con: Connection, clock: Callable[[timedelta], None]) -> None:
    con.execute("CALL mwem_budget('people', 10); CALL mwem_budget('people', 1, user := 'anna', every := '1 day')")
    con.execute("CALL mwem_budget('people', 1, user := 'bert')")
    for user in ("anna", "bert"):
        charge(con, "1", user)
    clock(timedelta(days=1))
    charge(con, "1", "anna")
    with pytest.raises(BudgetError, match="the cap on people for bert: 0 of 1 is left"):
        charge(con, "1", "bert")
    assert ledger(con).balance.epsilon_left == 7.0


def test_what_is_charged_while_a_window_passes_counts_in_one(
    con: Connection, clock: Callable[[timedelta], None]
) -> None:
    """A journal is read at one moment: a charge is under the cap that it was checked against, and in its window."""
    con.execute("CALL mwem_budget('people', 1, every := '1 hour')")
    for hour in range(6):
        clock(timedelta(hours=hour, minutes=59))
        charge(con, "0.5")
        clock(timedelta(hours=hour + 1))
        assert ledger(con).balance.epsilon_left == 1.0
        charge(con, "0.5")
        assert ledger(con).balance.epsilon_left == 0.5


@pytest.mark.parametrize(
    "text", ["", "month", "30", "0 days", "-1 days", "1.5 days", "30 days or so", 7, "100000 days"]
)
def test_a_time_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(OptionError, match="must be a number of hours, days or weeks"):
        read_every(text)


@pytest.mark.parametrize(("text", "hours"), [("1 hour", 1), ("12 hours", 12), ("30 days", 720), (" 2  weeks ", 336)])
def test_times(text: str, hours: int) -> None:
    assert read_every(text) == timedelta(hours=hours)


def test_a_users_cap_takes_no_unit(con: Connection) -> None:
    with pytest.raises(duckdb.Error, match=r"unit \('age'\) is for the cap on a table, and this one is for what anna"):
        con.execute("CALL mwem_budget('people', 1, user := 'anna', unit := 'age')")


def test_a_window_never_reaches_back() -> None:
    cap = Cap(Budget(Fraction(1), Fraction(0)), every="1 day", opened=START, since=4)
    for passed in (timedelta(days=-5), timedelta(0), timedelta(hours=23)):
        assert cap.renewed(START + passed, 99) is cap
    later = cap.renewed(START + timedelta(days=3, hours=5), 99)
    assert (later.opened, later.since) == (START + timedelta(days=3), 99)
