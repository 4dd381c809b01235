"""What counts as spent, and what does not."""

from __future__ import annotations

import pytest
from conftest import Connection
from ledgers import cap, debit

from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.statement import entries
from mwem_sql.errors import BudgetError


def test_failed_and_open_entries_count(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("2"))
    ledger.close(plain.cursor(), debit(plain, ledger, "1"), "failed")
    debit(plain, ledger, "1")
    with pytest.raises(BudgetError):
        debit(plain, ledger, "1/100")


def test_a_note_spends_nothing(plain: Connection, ledger: Ledger) -> None:
    with ledger.noted(plain.cursor, "o", "mwem_compare"):
        (row,) = entries(plain.cursor())
        assert (row["status"], row["finished"]) == ("open", None)
    assert ledger.set_cap(plain.cursor(), cap("1")).spent == 0
    (row,) = entries(plain.cursor())
    assert (row["action"], row["epsilon"], row["private"], row["status"]) == ("mwem_compare", 0.0, False, "done")
    assert row["finished"] >= row["started"]


def test_a_note_of_what_failed_says_so(plain: Connection, ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.noted(plain.cursor, "o", "mwem_compare"):
        raise ZeroDivisionError
    assert [row["status"] for row in entries(plain.cursor())] == ["failed"]
