"""The journal: one chain of checksums, a file from before it, and attempts that are made again."""

from __future__ import annotations

import duckdb
import pytest
from conftest import Connection
from ledgers import debit

from mwem_sql.accounting import journal
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.statement import entries
from mwem_sql.errors import BudgetError


def test_a_file_from_before_the_journal(plain: Connection, ledger: Ledger) -> None:
    plain.execute(
        """CREATE SCHEMA mwem;
           CREATE TABLE mwem.ledger (entry VARCHAR PRIMARY KEY, database_name VARCHAR NOT NULL, schema_name VARCHAR NOT NULL, table_name VARCHAR NOT NULL,
               output VARCHAR, epsilon DOUBLE NOT NULL, delta DOUBLE NOT NULL, epsilon_exact VARCHAR NOT NULL, delta_exact VARCHAR NOT NULL,
               private BOOLEAN NOT NULL, action VARCHAR NOT NULL, status VARCHAR NOT NULL, started TIMESTAMP NOT NULL, finished TIMESTAMP);
           CREATE TABLE mwem.budgets (database_name VARCHAR NOT NULL, schema_name VARCHAR NOT NULL, table_name VARCHAR NOT NULL, epsilon DOUBLE NOT NULL,
               delta DOUBLE NOT NULL, epsilon_exact VARCHAR NOT NULL, delta_exact VARCHAR NOT NULL, debits BIGINT NOT NULL,
               PRIMARY KEY (schema_name, table_name, database_name));
           INSERT INTO mwem.ledger VALUES ('old', '', 'main', 't', 'o', 1, 0, '1', '0', true, 'mwem_release', 'done', '2026-01-01', '2026-01-01');
           INSERT INTO mwem.budgets VALUES ('', 'main', 't', 2, 0, '2', '0', 1)"""
    )
    (row,) = entries(plain.cursor())
    assert (row["epsilon_left"], row["intact"]) == (1.0, None)
    with pytest.raises(BudgetError, match="1 of 2 is left"):
        debit(plain, ledger, "3/2")
    debit(plain, ledger, "1")
    assert [row["intact"] for row in entries(plain.cursor())] == [None, True]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE mwem.journal SET event = replace(event, '1/10', '1/20') WHERE number = 2",
        "DELETE FROM mwem.journal WHERE number = 1",
        "UPDATE mwem.journal SET event = 'no JSON' WHERE number = 3",
        "INSERT INTO mwem.journal SELECT number + 1, event, checksum FROM mwem.journal ORDER BY number DESC LIMIT 1",
    ],
)
def test_a_chain_shows_what_was_changed_missing_or_added(plain: Connection, ledger: Ledger, change: str) -> None:
    for _ in range(3):
        debit(plain, ledger, "1/10")
    events, whole = journal.read(plain.cursor(), "memory")
    assert whole
    assert len(events) >= 3
    plain.execute(change)
    assert not journal.read(plain.cursor(), "memory")[1]


def test_the_loser_of_a_conflict_tries_again_and_other_failures_are_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "_PAUSE", 0)
    left = [duckdb.TransactionException(""), duckdb.ConstraintException(""), None, ValueError()]

    def attempt() -> int:
        if failure := left.pop(0):
            raise failure
        return len(left)

    assert journal.retried(attempt) == 1
    with pytest.raises(ValueError):
        journal.retried(attempt)
    left[:] = [duckdb.TransactionException("")] * 100
    with pytest.raises(duckdb.TransactionException):
        journal.retried(attempt)
    assert left
