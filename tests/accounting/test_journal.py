"""The journal: one chain of checksums, in which whatever is changed by hand is seen and nothing is debited on top of
it; views of it; and attempts that are made again."""

from __future__ import annotations

import duckdb
import pytest
from chance import sampled
from conftest import Connection, steps
from ledgers import cap, charge, debit, marked

from mwem_sql.accounting import journal
from mwem_sql.accounting.journal import statement
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.errors import BudgetError
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import prepare

BY_HAND = {
    "UPDATE mwem.journal SET partition_exact = '[[1, 2]]' WHERE number = 3": 3,
    "UPDATE mwem.journal SET epsilon_exact = '1/1000', epsilon = 0.001 WHERE epsilon = 1": 6,
    "UPDATE mwem.journal SET status = 'failed' WHERE event = 'end'": 4,
    "UPDATE mwem.journal SET table_name = 'other' WHERE event = 'entry'": 3,
    "UPDATE mwem.journal SET who = 'somebody else' WHERE number = 7": 7,
    "UPDATE mwem.journal SET private = false WHERE event = 'entry'": 3,
    "UPDATE mwem.journal SET account = 'ffff' WHERE event = 'key'": 1,
    "UPDATE mwem.journal SET moment = moment - INTERVAL 1 MICROSECOND WHERE number = 6": 6,
    "UPDATE mwem.journal SET epsilon_exact = '1000' WHERE event = 'cap'": 2,
    "UPDATE mwem.journal SET number = number + 1 WHERE number = 7": 7,
    "UPDATE mwem.journal SET checksum = 'x' WHERE number = 5": 5,
    "DELETE FROM mwem.journal WHERE number = 2": 2,
    "DELETE FROM mwem.journal WHERE number = 7": 7,
    "DELETE FROM mwem.journal WHERE number >= 3": 3,
    "DELETE FROM mwem.journal": 1,
    "DELETE FROM mwem.journal_head": 8,
    "UPDATE mwem.journal_head SET number = 6": 8,
    "INSERT INTO mwem.journal SELECT * REPLACE (number + 1 AS number) FROM mwem.journal "
    "ORDER BY number DESC LIMIT 1": 8,
    "INSERT INTO mwem.journal_head FROM mwem.journal_head": 2,
}
"""Changes of the journal that `written` makes, and the first line that is not as it was written."""
DAMAGE = [
    "UPDATE mwem.journal SET epsilon_exact = 'abc' WHERE event = 'entry'",
    "ALTER TABLE mwem.journal DROP COLUMN epsilon_exact",
    "UPDATE mwem.journal SET epsilon_exact = '1/0' WHERE event = 'cap'",
    "ALTER TABLE mwem.journal ALTER COLUMN moment TYPE VARCHAR",
    "ALTER TABLE mwem.journal ALTER COLUMN epsilon TYPE VARCHAR",
    "ALTER TABLE mwem.journal ALTER COLUMN private TYPE INTEGER",
    "ALTER TABLE mwem.journal ALTER COLUMN output TYPE VARCHAR[] USING [output]",
    "ALTER TABLE mwem.journal DROP COLUMN checksum",
    "DROP TABLE mwem.journal", "DROP TABLE mwem.journal_head",
]  # fmt: skip


@pytest.fixture
def written(plain: Connection, ledger: Ledger) -> Connection:
    """A journal of seven lines: a key, a cap, and two entries with their ends; and one more entry, in between, that is
    open."""
    ledger.set_cap(plain.cursor(), cap("3"))
    ledger.close(plain.cursor(), debit(plain, ledger, "1/2"), "done")
    debit(plain, ledger, "1/4")
    ledger.close(plain.cursor(), debit(plain, ledger, "1"), "done")
    return plain


def test_one_line_for_each_event(written: Connection) -> None:
    assert written.execute("SELECT number, event FROM mwem.journal ORDER BY 1").fetchall() == list(
        enumerate(["key", "cap", "entry", "end", "entry", "entry", "end"], start=1)
    )
    assert journal.read(written, "memory").fault is None
    assert all(row["intact"] for row in statement(written.cursor()))


@pytest.mark.parametrize("change", sampled(list(BY_HAND), 6))
def test_what_is_changed_by_hand_is_seen(written: Connection, ledger: Ledger, change: str) -> None:
    written.execute(change)
    line = BY_HAND[change]
    assert journal.read(written, "memory").fault == line
    rows = statement(written.cursor())
    assert rows and not any(row["intact"] for row in rows)
    assert f"mwem_ledger: the journal was changed by hand at line {line}" in [row["action"] for row in rows]
    before = written.execute("FROM mwem.journal ORDER BY number").fetchall()
    for act in (
        lambda: ledger.debit(written.cursor(), charge("1/100"), "o", action="mwem_release"),
        lambda: ledger.set_cap(written.cursor(), cap("9")),
    ):
        with pytest.raises(
            BudgetError,
            match=rf"ledger: the journal in the schema mwem of database \(memory\) was changed by hand at line "
            rf"{line}, so nothing is debited\. Hint",
        ):
            act()
    assert written.execute("FROM mwem.journal ORDER BY number").fetchall() == before


@pytest.mark.parametrize("change", sampled(DAMAGE, 4))
def test_a_damaged_journal_is_said_to_be_damaged(con: Connection, ledger: Ledger, change: str) -> None:
    ledger.set_cap(con.cursor(), cap("3"))
    debit(con, ledger, "1")
    con.execute(change)
    with pytest.raises(
        duckdb.Error,
        match=r"ledger: the tables journal and journal_head .* \(memory\) cannot be read\. Hint: they were changed by "
        r"hand",
    ):
        con.execute("FROM mwem_ledger()")


@pytest.mark.parametrize(("table", "line"), [("journal", 1), ("journal_head", 8)])
def test_a_journal_that_was_dropped_is_not_begun_anew(
    written: Connection, ledger: Ledger, table: str, line: int
) -> None:
    written.execute(f"DROP TABLE mwem.{table}")
    with pytest.raises(BudgetError, match=f"was changed by hand at line {line}, so nothing is debited"):
        debit(written, ledger, "1/100")


@pytest.mark.parametrize("view", ["ledger", "budgets"])
def test_nobody_writes_to_a_view(written: Connection, view: str) -> None:
    rows = written.execute(f"FROM mwem.{view}").fetchall()
    for change in (
        f"DELETE FROM mwem.{view}",
        f"UPDATE mwem.{view} SET epsilon = 0",
        f"INSERT INTO mwem.{view} FROM mwem.{view}",
    ):
        with pytest.raises(duckdb.Error):
            written.execute(change)
    assert written.execute(f"FROM mwem.{view}").fetchall() == rows


def test_views_show_entries_and_caps(written: Connection, ledger: Ledger) -> None:
    query = (
        "SELECT table_name, output, epsilon, delta, epsilon_exact, private, action, status, finished >= started FROM "
        "mwem.ledger"
    )
    same = ("memory.main.o", 0.0, True, "mwem_release")
    assert written.execute(query).fetchall() == [
        ("t", same[0], epsilon, same[1], exact, *same[2:], status, True if status == "done" else None)
        for epsilon, exact, status in ((0.5, "1/2", "done"), (0.25, "1/4", "open"), (1.0, "1", "done"))
    ]
    caps = (
        "SELECT database_name, schema_name, table_name, epsilon, epsilon_exact, delta, unit, rows_per_unit FROM "
        "mwem.budgets"
    )
    assert written.execute(caps).fetchall() == [("", "main", "t", 3.0, "3", 0.0, None, 1)]
    ledger.set_cap(written.cursor(), cap("7/2"))
    assert written.execute(caps).fetchall() == [("", "main", "t", 3.5, "7/2", 0.0, None, 1)]


def test_what_is_read_of_a_view_is_not_what_is_counted(written: Connection, ledger: Ledger) -> None:
    """Whoever replaces a view replaces what is shown to them."""
    written.execute("CREATE OR REPLACE VIEW mwem.ledger AS SELECT 1 AS nothing; DROP VIEW mwem.budgets")
    with pytest.raises(BudgetError, match=r"1\.25 of 3 is left"):
        debit(written, ledger, "2")


def test_nothing_on_the_surface_changes_what_was_written(con: Connection) -> None:
    """Append-only: of an entry, only its status changes, from open, once."""
    before: list[tuple[object, ...]] = []
    for call in (
        "CALL mwem_release('people', workload, 1, rounds := 1)", "CALL mwem_budget('people', 2)",
        "CALL mwem_budget('people', 3)",
        "CALL mwem_release('people', workload, 1, rounds := 1)",
        "CALL mwem_release('people', workload, 1, rounds := 1, version := '2')",
        "FROM mwem_compare('people', 'people_synthetic', workload)", "FROM mwem_suggest_domain('people')",
        "DROP TABLE people",
    ):  # fmt: skip
        con.execute(call).fetchall()
        lines = con.execute("FROM mwem.journal ORDER BY number").fetchall()
        assert lines[: len(before)] == before
        before = lines
    rows = statement(con.cursor())
    assert all(row["intact"] for row in rows)
    assert len(rows) == 5
    assert [line[1] for line in before] == ["key", "entry", "end", "cap", "cap", *["entry", "end"] * 3]


def test_a_cap_is_kept_where_a_change_is_found(con: Connection) -> None:
    con.execute("CALL mwem_budget('people', 1)").fetchall()
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 1)").fetchall()
    con.execute("COMMENT ON TABLE people IS NULL; DELETE FROM mwem.journal WHERE event = 'entry'")
    for call in (
        "CALL mwem_release('people', workload, 0.1, rounds := 1, output := 'o')",
        "CALL mwem_budget('people', 9)",
    ):
        with pytest.raises(duckdb.Error, match=r"changed by hand at line 3, so nothing is debited"):
            con.execute(call)


def test_the_loser_of_a_conflict_tries_again_and_other_failures_are_not_repeated(
    plain: Connection,
) -> None:
    left = [duckdb.TransactionException(""), duckdb.ConstraintException(""), None, ValueError()]

    def attempt() -> int:
        if failure := left.pop(0):
            raise failure
        return len(left)

    assert journal.committed(plain, attempt, pause=0) == 1
    with pytest.raises(ValueError):
        journal.committed(plain, attempt, pause=0)
    left[:] = [duckdb.TransactionException("")] * 100
    with pytest.raises(duckdb.TransactionException):
        journal.committed(plain, attempt, pause=0)
    assert left


def test_two_transactions_cannot_both_take_the_next_number(plain: Connection) -> None:
    """Without the lock of the process, which spares most conflicts: DuckDB itself lets one of them through."""
    prepare(plain, "memory", "ledger.sql")
    one, other = plain.cursor(), plain.cursor()
    event = {"event": "policy", "require_caps": True}
    one.execute("BEGIN")
    other.execute("BEGIN")
    journal.append(one, "memory", event)
    with pytest.raises((duckdb.TransactionException, duckdb.ConstraintException)):
        journal.append(other, "memory", event)
    one.execute("COMMIT")
    assert [line["number"] for line in journal.read(plain, "memory").lines] == [1]


def test_reading_takes_as_many_steps_for_each_line(plain: Connection) -> None:
    """A long journal is read in time that grows with its lines, and not with their square."""
    prepare(plain, "memory", "ledger.sql")
    journal.read(plain, "memory")
    counts = []
    for size in (100, 200, 300):
        journal.append(plain, "memory", *[{"event": "key", "account": str(k)} for k in range(100)])
        counts.append(steps(lambda: journal.read(plain, "memory")))
        assert len(journal.read(plain, "memory").lines) == size
    assert counts[2] - counts[1] == pytest.approx(counts[1] - counts[0], rel=0.05)
    assert 100 < counts[1] - counts[0] < 1000


def test_spent_and_left_of_every_table_in_every_database(plain: Connection) -> None:
    plain.execute("ATTACH ':memory:' AS b")
    ledger, other = marked(plain), marked(plain, Name("b", "main", "t"))
    ledger.set_cap(plain.cursor(), cap("3"))
    debit(plain, ledger, "1/2")
    debit(plain, ledger, "1")
    other.set_cap(plain.cursor(), cap("2"))
    debit(plain, other, "2")
    seen = [
        (row["database_name"], row["epsilon"], row["epsilon_spent"], row["epsilon_left"], row["intact"])
        for row in statement(plain.cursor())
    ]
    assert seen == [("memory", 0.5, 1.5, 1.5, True), ("memory", 1.0, 1.5, 1.5, True), ("b", 2.0, 2.0, 0.0, True)]
    assert all(row["who"] for row in statement(plain.cursor()))


def test_a_changed_cap_is_logged(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    assert statement(plain.cursor()) == []
    debit(plain, ledger, "1")
    ledger.set_cap(plain.cursor(), cap("3"))
    first, second = statement(plain.cursor())
    assert first["action"] == "mwem_release"
    assert (second["action"], second["table_name"], second["private"], second["epsilon"]) == (
        "mwem_budget: epsilon 1.0 to 3.0",
        "t",
        False,
        0.0,
    )
    assert second["who"]
    assert second["intact"]
