"""What the curator reads."""

from __future__ import annotations

from conftest import Connection
from ledgers import cap, debit, marked

from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.statement import entries
from mwem_sql.platform.catalog import Name


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
        for row in entries(plain.cursor())
    ]
    assert seen == [("memory", 0.5, 1.5, 1.5, True), ("memory", 1.0, 1.5, 1.5, True), ("b", 2.0, 2.0, 0.0, True)]
    assert all(row["who"] for row in entries(plain.cursor()))


def test_a_changed_cap_is_logged(plain: Connection, ledger: Ledger) -> None:
    ledger.set_cap(plain.cursor(), cap("1"))
    assert entries(plain.cursor()) == []
    debit(plain, ledger, "1")
    ledger.set_cap(plain.cursor(), cap("3"))
    first, second = entries(plain.cursor())
    assert first["action"] == "mwem_release"
    assert (second["action"], second["table_name"], second["private"], second["epsilon"]) == (
        "mwem_budget: epsilon 1.0 to 3.0",
        "t",
        False,
        0.0,
    )
    assert second["who"]
    assert second["intact"]
