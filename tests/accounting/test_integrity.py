"""The ledger beside the journal: what is changed by hand is seen, and nothing is debited on top of it."""

from __future__ import annotations

import duckdb
import pytest
from chance import sampled
from conftest import Connection
from ledgers import cap, debit

from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.statement import entries


@pytest.mark.parametrize(
    "change",
    sampled([
        "UPDATE mwem.ledger SET epsilon_exact = '1/1000', epsilon = 0.001 WHERE epsilon = 1", "UPDATE mwem.ledger SET status = 'failed'",
        "UPDATE mwem.ledger SET table_name = 'other'", "DELETE FROM mwem.ledger WHERE epsilon = 1", "DELETE FROM mwem.ledger",
        "DELETE FROM mwem.journal WHERE number = 2", "UPDATE mwem.budgets SET epsilon_exact = '1000'", "DELETE FROM mwem.budgets",
        "UPDATE mwem.journal SET event = replace(event, '1/2', '1/9') WHERE number = 3", "UPDATE mwem.journal SET number = number + 1 WHERE number = 6",
        "UPDATE mwem.ledger SET who = 'somebody else'", "UPDATE mwem.ledger SET private = false", "DELETE FROM mwem.journal", "DROP TABLE mwem.journal",
        "INSERT INTO mwem.ledger SELECT * REPLACE ('forged' AS entry) FROM mwem.ledger LIMIT 1",
    ], 5),
)  # fmt: skip
def test_what_is_changed_by_hand_is_seen(plain: Connection, ledger: Ledger, change: str) -> None:
    ledger.set_cap(plain.cursor(), cap("3"))
    ledger.close(plain.cursor(), debit(plain, ledger, "1/2"), "done")
    ledger.close(plain.cursor(), debit(plain, ledger, "1"), "done")
    assert all(row["intact"] for row in entries(plain.cursor()))
    plain.execute(change)
    assert not all(row["intact"] for row in entries(plain.cursor()))


def test_nothing_on_the_surface_changes_what_was_written(con: Connection) -> None:
    """Append-only: of an entry, only its status changes, from open, once."""
    before: list[dict[str, object]] = []
    for call in (
        "CALL mwem_release('people', workload, 1, rounds := 1)", "CALL mwem_budget('people', 2)", "CALL mwem_budget('people', 3)",
        "CALL mwem_release('people', workload, 1, rounds := 1)", "CALL mwem_release('people', workload, 1, rounds := 1, version := '2')",
        "FROM mwem_compare('people', 'people_synthetic', workload)", "FROM mwem_suggest_domain('people')", "DROP TABLE people",
    ):  # fmt: skip
        con.execute(call).fetchall()
        rows = entries(con.cursor())
        assert all(row["intact"] for row in rows)
        fixed = [
            {name: row[name] for name in ("entry", "table_name", "epsilon", "action", "status", "started")}
            for row in rows
        ]
        assert fixed[: len(before)] == before
        before = fixed
    assert len(before) == 5


@pytest.mark.parametrize(
    "change",
    sampled([
        "DELETE FROM mwem.ledger", "DELETE FROM mwem.ledger WHERE epsilon = 0.5", "DELETE FROM mwem.budgets", "UPDATE mwem.budgets SET epsilon_exact = '100'",
        "UPDATE mwem.ledger SET epsilon_exact = '1/100'", "DELETE FROM mwem.names", "UPDATE mwem.names SET account = 'ffff'", "DELETE FROM mwem.journal",
        "INSERT INTO mwem.names VALUES ('', 'main', 'another', 'ffff')", "UPDATE mwem.ledger SET account = 'ffff'", "DROP TABLE mwem.journal",
    ], 4),
)  # fmt: skip
def test_where_ledger_and_journal_differ_nothing_is_debited(con: Connection, change: str) -> None:
    con.execute("CALL mwem_budget('people', 1)").fetchall()
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 1)").fetchall()
    con.execute("COMMENT ON TABLE people IS NULL")
    con.execute(change)
    with pytest.raises(
        duckdb.Error,
        match=r"ledger: ledger and journal in the schema mwem of database \(memory\) differ, so nothing is debited\. Hint: rows with intact = false",
    ):
        con.execute("CALL mwem_release('people', workload, 0.1, rounds := 1, output := 'o')")
    with pytest.raises(duckdb.Error, match="differ, so nothing is debited"):
        con.execute("CALL mwem_budget('people', 9)")


@pytest.mark.parametrize(
    "change",
    sampled([
        "UPDATE mwem.ledger SET epsilon_exact = 'abc'", "ALTER TABLE mwem.ledger DROP COLUMN epsilon_exact", "UPDATE mwem.budgets SET epsilon_exact = '1/0'",
        "ALTER TABLE mwem.ledger ALTER COLUMN started TYPE VARCHAR", "ALTER TABLE mwem.ledger ALTER COLUMN epsilon TYPE VARCHAR",
        "ALTER TABLE mwem.ledger ALTER COLUMN private TYPE INTEGER", "ALTER TABLE mwem.ledger ALTER COLUMN who TYPE VARCHAR[] USING [who]",
        "ALTER TABLE mwem.journal DROP COLUMN checksum",
    ], 3),
)  # fmt: skip
def test_a_damaged_ledger_is_said_to_be_damaged(con: Connection, ledger: Ledger, change: str) -> None:
    ledger.set_cap(con.cursor(), cap("3"))
    debit(con, ledger, "1")
    con.execute(change)
    with pytest.raises(
        duckdb.Error,
        match=r"ledger: the tables ledger, budgets, names and journal .* \(memory\) cannot be read\. Hint: they were changed by hand",
    ):
        con.execute("FROM mwem_ledger()")
