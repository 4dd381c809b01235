"""Stored draws: in their order, of their own entry, and with a sentence where they cannot be stored."""

from __future__ import annotations

import duckdb
import pytest
from conftest import Connection

from mwem_sql.accounting import draws
from mwem_sql.errors import OutputError
from mwem_sql.kernel.draws import Draw
from mwem_sql.platform import metadata

FIRST = Draw(step="ab", values=b"\0\1'\xff")
SECOND = Draw(step="cd", values=b"")


@pytest.fixture
def ledger(con: Connection) -> Connection:
    """A connection whose database has a ledger."""
    metadata.prepare(con, "memory", "ledger.sql")
    return con


def test_draws_come_back_in_their_order(ledger: Connection) -> None:
    store = draws.storing(ledger, "memory", "one", [])
    other = draws.storing(ledger, "memory", "two", [])
    for draw in (FIRST, SECOND):
        store(draw)
        other(SECOND)
    stored = draws.read(ledger, "memory", "one")
    assert [(draw.step, draw.values, draw.made_by) for draw in stored] == [
        ("ab", FIRST.values, draws.MADE_BY),
        ("cd", b"", draws.MADE_BY),
    ]
    draws.storing(ledger, "memory", "one", stored)(FIRST)
    assert [draw.step for draw in draws.read(ledger, "memory", "one")] == ["ab", "cd", "ab"]
    draws.drop(ledger, "memory", "one")
    assert draws.read(ledger, "memory", "one") == []
    assert len(draws.read(ledger, "memory", "two")) == 2


def test_it_lasts_when_it_is_stored(ledger: Connection) -> None:
    """No transaction is left open."""
    draws.storing(ledger.cursor(), "memory", "one", [])(FIRST)
    assert len(draws.read(ledger.cursor(), "memory", "one")) == 1


def test_a_draw_has_one_place(ledger: Connection) -> None:
    """Of two that go on with the same entry, which nothing should let happen, the second one stops."""
    store, twin = (draws.storing(ledger.cursor(), "memory", "one", []) for _ in range(2))
    store(FIRST)
    with pytest.raises(OutputError, match=r"a draw could not be stored in database \(memory\), beside its ledger \("):
        twin(SECOND)
    assert [draw.step for draw in draws.read(ledger, "memory", "one")] == ["ab"]


def test_without_its_table(ledger: Connection) -> None:
    store = draws.storing(ledger.cursor(), "memory", "one", [])
    ledger.execute("DROP TABLE mwem.draws")
    with pytest.raises(OutputError, match=r"Hint: make room or check the database, and call again: .* no further cost"):
        store(FIRST)
    with pytest.raises(duckdb.CatalogException):
        draws.read(ledger, "memory", "one")
