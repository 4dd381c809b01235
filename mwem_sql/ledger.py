"""Caps and spending: who asked what of a private table, and what is left.

The ledger lives beside the private table; for a database attached READ_ONLY, in the connection's default database.
A debit is committed before the first private row is read and is never undone. Entries are added and ended, never changed
otherwise; the journal has all of that a second time.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any, TypeVar

import duckdb
from sqlglot import exp

from mwem_sql import catalog, journal
from mwem_sql.budget import Budget
from mwem_sql.caps import Cap, Charge, pure_rho
from mwem_sql.catalog import Name, Place
from mwem_sql.compiler.dialect import fold
from mwem_sql.errors import BudgetError, MwemError, legible, refuse
from mwem_sql.mechanisms import zcdp_rho
from mwem_sql.resources import read_sql
from mwem_sql.session import lock, transaction, use

SCHEMA = "mwem"  # of what is kept here, in every database
_RETRIES = 30
_PAUSE = 0.05  # seconds at most between two of them

Row = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Balance:
    """What a table's releases have taken together, and its cap. Without a cap epsilons and deltas are added up."""

    cap: Cap | None
    spent: Fraction
    delta: Fraction

    @property
    def epsilon_spent(self) -> float:
        return float(self.spent) if self.cap is None else self.cap.epsilon(self.spent)

    @property
    def epsilon_left(self) -> float | None:
        return None if self.cap is None else self.cap.epsilon(max(self.cap.limit - self.spent, Fraction(0)))


@dataclass(frozen=True)
class Ledger:
    """The ledger of one private table. `home` is the database that holds it; `table` is the name that is charged, `renamed` its new one."""

    home: str
    table: Name
    renamed: Name | None = None

    @property
    def _key(self) -> dict[str, str]:
        elsewhere = self.table.database if self.home != self.table.database else ""
        return {"database_name": elsewhere, "schema_name": self.table.schema, "table_name": self.table.table}

    def debit(
        self, con: duckdb.DuckDBPyConnection, charge: Charge, output: str | None, *, action: str, request: str = "", private: bool = True
    ) -> str:  # fmt: skip
        """Commit an open entry and return its number; a BudgetError if it does not fit the cap, and nothing is written."""

        def write() -> str:
            with transaction(con):
                cap = self._cap(con)
                if cap is not None and not private:
                    raise refuse(
                        BudgetError, "mwem_release", f"a seeded release of {self.table.table} is refused, because the table has a cap",
                        "leave seed out; seeded noise is for experiments on tables without a cap",
                    )
                if cap is not None:
                    cap.check(self.table.table, charge, _sum(cap, self._charges(con)))
                return self._open(con, charge, output, {"action": action, "request": request, "private": private, "status": "open"})

        prepare(con, self.home, "ledger.sql", "journal")
        return _retried(write)

    def note(self, con: duckdb.DuckDBPyConnection, output: str | None, action: str) -> None:
        """Write down that something not private was done; it spends no budget, because no budget covers it."""

        def write() -> None:
            with transaction(con):
                self._open(con, None, output, {"action": action, "request": "", "private": False, "status": "done", "finished": _now()})

        prepare(con, self.home, "ledger.sql", "journal")
        _retried(write)

    def _open(self, con: duckdb.DuckDBPyConnection, charge: Charge | None, output: str | None, facts: Row) -> str:
        entry = uuid.uuid4().hex
        epsilon, delta, rho = (charge.budget.epsilon, charge.budget.delta, charge.rho) if charge else (Fraction(0),) * 3
        row = {
            "entry": entry, **self._key, "output": output, **_numbers(epsilon, delta), "rho_exact": str(rho), "unit": charge.unit if charge else None,
            "rows_per_unit": charge.rows_per_unit if charge else 1, "who": _user(), "started": _now(), **facts,
        }  # fmt: skip
        _insert(con, "ledger", row)
        journal.append(con, {"event": "entry", **journal.texts(row)})
        return entry

    def close(self, con: duckdb.DuckDBPyConnection, entry: str, status: str) -> None:
        """Mark an entry done or failed."""

        def write() -> None:
            finished = _now()
            with transaction(con):
                con.execute("UPDATE ledger SET status = ?, finished = ? WHERE entry = ?", [status, finished, entry])
                journal.append(con, {"event": "end", **journal.texts({"entry": entry, "status": status, "finished": finished})})

        use(con, Place(self.home, SCHEMA))
        _retried(write)

    def unfinished(self, con: duckdb.DuckDBPyConnection, request: str, output: Name) -> Row | None:
        """The latest private entry of a request that was charged and did not come to its end."""
        if self.home not in holders(con, "ledger"):
            return None
        place = fold(f".{output.schema}.{output.table}")
        with legible(damaged(self.home)):
            found = [
                row for row in read_rows(con, self.home, "ledger")
                if row.get("request") == request and row["private"] and row["status"] != "done" and fold(row["output"]).endswith(place)
            ]  # fmt: skip
            return max(found, key=lambda row: row["started"], default=None)

    def set_cap(self, con: duckdb.DuckDBPyConnection, cap: Cap) -> Balance:
        """Set or replace the cap; what was spent before stays spent, and is returned.

        Refused where it could not be kept: entries that another accountant or another unit was counted by cannot be added up.
        """

        def write() -> None:
            with transaction(con):
                self._check_change(con, cap)
                row = {
                    **self._key, **_numbers(cap.budget.epsilon, cap.budget.delta), "unit": cap.unit, "rows_per_unit": cap.rows_per_unit,
                    "columns": columns_hash(con, self.renamed or self.table),
                }  # fmt: skip
                _insert(con, "budgets", row, replace=True)
                journal.append(con, {"event": "cap", "who": _user(), "when": str(_now()), **journal.texts(row)})

        prepare(con, self.home, "ledger.sql", "journal")
        _retried(write)
        return self.balance(con)

    def _check_change(self, con: duckdb.DuckDBPyConnection, cap: Cap) -> None:
        function, table, charges = "mwem_budget", self.table.table, self._charges(con)
        before = self._cap(con)
        if charges and before is not None and before.pure != cap.pure:
            raise refuse(
                BudgetError, function, f"delta ({float(cap.budget.delta):g}) cannot be changed to or from 0: {len(charges)} releases of {table} were counted without it"
                if before.pure else f"delta (0) cannot replace {float(before.budget.delta):g}: {len(charges)} releases of {table} were counted with it",
                f"keep delta := {float(before.budget.delta):g}; which way of counting is the tighter one must not be chosen afterwards",
            )  # fmt: skip
        if cap.pure and any(charge.budget.delta for charge in charges):
            raise refuse(
                BudgetError, function, f"delta (0) does not fit {table}: it has releases with delta above 0",
                "give delta := 1e-6, or another small number, so that they can be counted",
            )
        other = {charge.protects for charge in charges if charge.protects.casefold() != cap.protects.casefold()}
        if other:
            raise refuse(
                BudgetError, function, f"a cap for {cap.protects} cannot count releases of {table} that protect {min(other)}",
                "set it with their unit and rows_per_unit",
            )

    def balance(self, con: duckdb.DuckDBPyConnection) -> Balance:
        """What all private entries add up to, whatever became of them."""
        cap, charges = self._cap(con), self._charges(con)
        deltas = sum((charge.budget.delta for charge in charges), Fraction(0))
        if cap is None:
            return Balance(None, sum((charge.budget.epsilon for charge in charges), Fraction(0)), deltas)
        return Balance(cap, _sum(cap, charges), Fraction(0) if cap.pure or not charges else cap.budget.delta)

    def _cap(self, con: duckdb.DuckDBPyConnection) -> Cap | None:
        with legible(damaged(self.home)):
            for row in self._own(con, "budgets"):
                return Cap(_budget(row), row.get("unit"), row.get("rows_per_unit") or 1)
        return None

    def _charges(self, con: duckdb.DuckDBPyConnection) -> list[Charge]:
        with legible(damaged(self.home)):
            return [_charge(row) for row in self._own(con, "ledger") if row["private"]]

    def _own(self, con: duckdb.DuckDBPyConnection, table: str) -> Iterator[Row]:
        """The rows of this table. Names are compared here, as DuckDB compares them: it ignores case."""
        if self.home in holders(con, table):
            key = {name: fold(value) for name, value in self._key.items()}
            yield from (row for row in read_rows(con, self.home, table) if all(fold(row[name]) == value for name, value in key.items()))


def columns_hash(con: duckdb.DuckDBPyConnection, table: Name) -> str:
    """What a renamed table is known by."""
    listed = [[column.name, column.type] for column in catalog.columns(con, table)]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def holders(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """The attached databases that have a table of the schema mwem."""
    rows = con.execute("SELECT database_name, schema_name, table_name FROM duckdb_tables() ORDER BY 1").fetchall()
    return [row[0] for row in rows if [fold(part) for part in row[1:]] == [SCHEMA, table]]


def damaged(home: str) -> MwemError:
    """Nothing can be counted any more."""
    return refuse(
        BudgetError, "ledger", f"the tables ledger, budgets and journal in the schema mwem of database ({home}) cannot be read",
        "they were changed by hand: restore them from a backup",
    )


def prepare(con: duckdb.DuckDBPyConnection, database: str, script: str, newest: str | None = None) -> None:
    """Make the schema mwem of `database` the current one of this cursor, with the tables of a script in it; not run if its `newest` one is there.

    So that its tables need no prefix: that of the schema alone would be ambiguous where a database is called mwem, too.
    """
    if newest is None or database not in holders(con, newest):
        with lock(SCHEMA), transaction(con):  # the lock: two that make the same tables at once would conflict
            create = exp.Create(this=exp.Table(db=exp.to_identifier(SCHEMA), catalog=exp.to_identifier(database, quoted=True)), kind="SCHEMA", exists=True)
            con.execute(create.sql("duckdb"))
            use(con, Place(database, SCHEMA))
            con.execute(read_sql(script))
    use(con, Place(database, SCHEMA))


def _retried(attempt: Callable[[], Result]) -> Result:
    """Run a short transaction that writes to the journal; the loser of a conflict tries again, and sees what the winner wrote."""
    for _ in range(_RETRIES):
        try:
            with lock("mwem.journal"):  # spares the threads of one process most conflicts
                return attempt()
        except (duckdb.TransactionException, duckdb.ConstraintException):  # the number was taken at the same time, or just before
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311  not for noise
    return attempt()


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(tzinfo=None)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's number without a name
        return "unknown"


def read_rows(con: duckdb.DuckDBPyConnection, home: str, table: str) -> list[Row]:
    found = con.execute(exp.select("*").from_(Name(home, SCHEMA, table).tree()).sql("duckdb"))
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _insert(con: duckdb.DuckDBPyConnection, table: str, row: Row, *, replace: bool = False) -> None:
    """One row, its columns by name: older files have them in another order."""
    columns = [exp.to_identifier(name, quoted=True) for name in row]
    values = exp.Values(expressions=[exp.Tuple(expressions=[exp.Placeholder() for _ in row])])
    target = exp.Schema(this=exp.table_(table), expressions=columns)
    insert = exp.Insert(this=target, expression=values, alternative="REPLACE" if replace else None)
    con.execute(insert.sql("duckdb"), list(row.values()))


def _budget(row: Row) -> Budget:
    return Budget(Fraction(row["epsilon_exact"]), Fraction(row["delta_exact"]))


def _charge(row: Row) -> Charge:
    budget = _budget(row)
    if row.get("rho_exact") is None:  # written before rho was: the dearer of the two plans that it may have been
        rho = max(pure_rho(budget.epsilon), zcdp_rho(budget.epsilon, budget.delta) if budget.delta else Fraction(0))
    else:
        rho = Fraction(row["rho_exact"])
    return Charge(budget, rho, row.get("unit"), row.get("rows_per_unit") or 1)


def _sum(cap: Cap, charges: list[Charge]) -> Fraction:
    return sum((cap.cost(charge) for charge in charges), Fraction(0))


def _numbers(epsilon: Fraction, delta: Fraction) -> Row:
    return {"epsilon": float(epsilon), "delta": float(delta), "epsilon_exact": str(epsilon), "delta_exact": str(delta)}
