"""Charges, caps and debits for the tests of accounting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from duckdb import DuckDBPyConnection as Connection

from mwem_sql.accounting.accounts import TableCarrier
from mwem_sql.accounting.caps import Cap, Charge
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import pure_rho, zcdp_rho
from mwem_sql.platform.catalog import Name

TABLE = Name("memory", "main", "t")


def marked(con: Connection, table: Name = TABLE) -> Ledger:
    """The ledger of a table that is there, and carries its marks."""
    con.execute(f"CREATE SCHEMA IF NOT EXISTS {table.database}.{table.schema}")
    con.execute(f"CREATE TABLE {table.quoted()} (person INTEGER, household INTEGER)")
    names = Ledger.of_table(table.database, table).identity
    return Ledger(table.database, replace(names, carrier=TableCarrier(table)))


def charge(epsilon: str | Fraction, delta: str = "0", unit: str | None = None, rows_per_unit: int = 1) -> Charge:
    """As Laplace noise costs, or with delta as Gaussian noise does."""
    budget = Budget(Fraction(epsilon), Fraction(delta))
    rho = zcdp_rho(budget.epsilon, budget.delta) if budget.delta else pure_rho(budget.epsilon)
    return Charge(budget=budget, rho=rho, unit=unit, rows_per_unit=rows_per_unit)


def cap(epsilon: str | Fraction, delta: str = "0", unit: str | None = None, rows_per_unit: int = 1) -> Cap:
    return Cap(Budget(Fraction(epsilon), Fraction(delta)), unit, rows_per_unit)


def debit(
    con: Connection, ledger: Ledger, epsilon: str, delta: str = "0", unit: tuple[str | None, int] = (None, 1)
) -> str:
    return ledger.debit(con.cursor(), charge(epsilon, delta, *unit), "memory.main.o", action="mwem_release").entry


def at_once(count: int, act: Callable[[int], object]) -> list[Exception]:
    errors: list[Exception] = []
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        ready.wait()
        try:
            act(number)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
