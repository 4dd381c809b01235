"""What an account may spend and has spent: its cap and its charges, read from `mwem.budgets` and `mwem.ledger`, and their sum.

Owns what a stored row means in exact numbers, those of older files included. Must not write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import duckdb

from mwem_sql.accounting.caps import Cap, Charge, pure_rho
from mwem_sql.errors import RELEASE, legible
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import zcdp_rho
from mwem_sql.platform.metadata import Row, account_of, damaged, read_rows


@dataclass(frozen=True)
class Balance:
    """What an account's releases have taken together, and its cap. Without a cap epsilons and deltas are added up.

    `seeded` releases were made with a known seed before there was a cap: no budget covers them.
    """

    cap: Cap | None
    spent: Fraction
    delta: Fraction
    seeded: int = 0

    @property
    def epsilon_spent(self) -> float:
        return float(self.spent) if self.cap is None else self.cap.epsilon(self.spent)

    @property
    def epsilon_left(self) -> float | None:
        return None if self.cap is None else self.cap.epsilon(max(self.cap.limit - self.spent, Fraction(0)))


def balance_of(con: duckdb.DuckDBPyConnection, home: str, account: str | None) -> Balance:
    """What all private entries of an account add up to, whatever became of them."""
    cap = cap_of_account(con, home, account)
    with legible(damaged(home)):
        rows = list(rows_of(con, home, "ledger", account))
        charges = [_charge(row) for row in rows if is_charge(row)]
        seeded = sum(not row["private"] and row["action"] == RELEASE for row in rows)
    deltas = sum((charge.budget.delta for charge in charges), Fraction(0))
    if cap is None:
        return Balance(None, sum((charge.budget.epsilon for charge in charges), Fraction(0)), deltas, seeded)
    return Balance(cap, added_up(cap, charges), Fraction(0) if cap.pure or not charges else cap.budget.delta, seeded)


def cap_of_account(con: duckdb.DuckDBPyConnection, home: str, account: str | None) -> Cap | None:
    with legible(damaged(home)):
        for row in rows_of(con, home, "budgets", account):
            return Cap(_budget(row), row.get("unit"), row.get("rows_per_unit") or 1, row.get("unit_id") or "")
    return None


def charges_of(con: duckdb.DuckDBPyConnection, home: str, account: str | None) -> list[Charge]:
    with legible(damaged(home)):
        return [_charge(row) for row in rows_of(con, home, "ledger", account) if is_charge(row)]


def rows_of(con: duckdb.DuckDBPyConnection, home: str, table: str, account: str | None) -> Iterator[Row]:
    return (row for row in read_rows(con, home, table) if account is not None and account_of(row) == account)


def is_charge(row: Row) -> bool:
    """Whether a row of the ledger took anything of a budget. What is not private is only noted, and so is what costs nothing."""
    return bool(row["private"]) and Fraction(row["epsilon_exact"]) > 0


def _budget(row: Row) -> Budget:
    return Budget(Fraction(row["epsilon_exact"]), Fraction(row["delta_exact"]))


def _charge(row: Row) -> Charge:
    budget = _budget(row)
    if row.get("rho_exact") is None:  # written before rho was: the dearer of the two plans that it may have been
        rho = max(pure_rho(budget.epsilon), zcdp_rho(budget.epsilon, budget.delta) if budget.delta else Fraction(0))
    else:
        rho = Fraction(row["rho_exact"])
    unit = row.get("unit")
    # Before this was written down, a computed unit had the view's name before it.
    computed = "." in (unit or "") if row.get("unit_is_computed") is None else bool(row["unit_is_computed"])
    return Charge(budget, rho, unit, row.get("rows_per_unit") or 1, computed, row.get("unit_id") or "")


def added_up(cap: Cap, charges: list[Charge]) -> Fraction:
    """What charges cost together, as the cap counts: in epsilon or in rho."""
    return sum((cap.cost(charge) for charge in charges), Fraction(0))
