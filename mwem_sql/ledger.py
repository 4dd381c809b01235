"""Caps and spending: who asked what of a private table, and what is left.

The ledger lives beside the private table; for a database attached READ_ONLY, in the connection's default database.
A debit is committed before the first private row is read and is never undone.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import duckdb
from sqlglot import exp

from mwem_sql.budget import Budget
from mwem_sql.catalog import Name, Place
from mwem_sql.errors import BudgetError, OutputError, refuse
from mwem_sql.resources import read_sql
from mwem_sql.session import lock, transaction, use

_RETRIES = 100
_PAUSE = 0.01  # seconds

Result = TypeVar("Result")


@dataclass(frozen=True)
class Spent:
    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True)
class Ledger:
    """The ledger of one private table. `home` is the database that holds it."""

    home: str
    table: Name

    @property
    def _key(self) -> list[str]:
        return [self.table.database if self.home != self.table.database else "", self.table.schema, self.table.table]

    def debit(
        self, con: duckdb.DuckDBPyConnection, budget: Budget, output: str | None, *, action: str, private: bool = True
    ) -> str:
        """Commit an open entry and return its number; a BudgetError if it does not fit the cap, and nothing is written."""
        prepare(con, self.home, "ledger.sql")
        return _retried(lambda: self._debit_once(con, budget, output, action, private))

    def _debit_once(
        self, con: duckdb.DuckDBPyConnection, budget: Budget, output: str | None, action: str, private: bool
    ) -> str:
        entry = uuid.uuid4().hex
        with transaction(con):
            cap = self._cap(con)
            if cap is not None:
                self._check(con, cap, budget, private)
                con.execute(
                    "UPDATE mwem.budgets SET debits = debits + 1 WHERE database_name = ? AND schema_name = ? AND table_name = ?",
                    self._key,
                )
            con.execute(
                """INSERT INTO mwem.ledger VALUES
                   (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP), NULL)""",
                [entry, *self._key, output, *_numbers(budget), private, action],
            )
        return entry

    def _check(self, con: duckdb.DuckDBPyConnection, cap: Budget, budget: Budget, private: bool) -> None:
        if not private:
            raise refuse(
                BudgetError, "mwem_release", f"a seeded release of {self.table.table} is refused, because the table has a cap",
                "leave seed out; seeded noise is for experiments on tables without a cap",
            )
        spent = self._spent(con)
        if spent.epsilon + budget.epsilon > cap.epsilon or spent.delta + budget.delta > cap.delta:
            left = cap.epsilon - spent.epsilon
            raise refuse(
                BudgetError, "mwem_release",
                f"epsilon ({float(budget.epsilon):g}, delta {float(budget.delta):g}) does not fit the cap on {self.table.table}: "
                f"{float(left):g} of {float(cap.epsilon):g} is left (delta {float(cap.delta - spent.delta):g})",
                "ask for less, or have the curator raise the cap with mwem_budget",
            )

    def close(self, con: duckdb.DuckDBPyConnection, entry: str, status: str) -> None:
        """Mark an entry done or failed."""
        use(con, Place(self.home, "main"))
        con.execute(
            "UPDATE mwem.ledger SET status = ?, finished = CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP) WHERE entry = ?",
            [status, entry],
        )

    def note(self, con: duckdb.DuckDBPyConnection, output: str | None, action: str) -> None:
        """Write down that something not private was done; it spends no budget, because no budget covers it."""
        prepare(con, self.home, "ledger.sql")
        con.execute(
            """INSERT INTO mwem.ledger VALUES (?, ?, ?, ?, ?, 0, 0, '0', '0', false, ?, 'done',
               CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP), CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP))""",
            [uuid.uuid4().hex, *self._key, output, action],
        )

    def set_cap(self, con: duckdb.DuckDBPyConnection, cap: Budget) -> Spent:
        """Set or replace the cap; what was spent before stays spent, and is returned."""
        prepare(con, self.home, "ledger.sql")
        values = [*self._key, *_numbers(cap)]
        _retried(lambda: con.execute("INSERT OR REPLACE INTO mwem.budgets VALUES (?, ?, ?, ?, ?, ?, ?, 0)", values))
        return self._spent(con)

    def _cap(self, con: duckdb.DuckDBPyConnection) -> Budget | None:
        rows = con.execute(
            """SELECT epsilon_exact, delta_exact FROM mwem.budgets
               WHERE database_name = ? AND schema_name = ? AND table_name = ?""",
            self._key,
        ).fetchall()
        return Budget(Fraction(rows[0][0]), Fraction(rows[0][1])) if rows else None

    def _spent(self, con: duckdb.DuckDBPyConnection) -> Spent:
        """What all private entries add up to, whatever became of them."""
        rows = con.execute(
            """SELECT epsilon_exact, delta_exact FROM mwem.ledger
               WHERE private AND database_name = ? AND schema_name = ? AND table_name = ?""",
            self._key,
        ).fetchall()
        return Spent(sum((Fraction(row[0]) for row in rows), Fraction(0)), sum((Fraction(row[1]) for row in rows), Fraction(0)))


def ledger_of(con: duckdb.DuckDBPyConnection, table: Name, place: Place, function: str) -> Ledger:
    """The ledger that answers for a table; refused where it could not be written or a cap could not be kept."""
    if not is_read_only(con, table.database):
        return Ledger(table.database, table)
    if _has_caps(con, table):
        raise refuse(
            BudgetError, function, f"table ({table}) has a cap in its own file, which is attached READ_ONLY",
            "attach it writable, so that the release can be debited there",
        )
    if is_read_only(con, place.database):
        raise refuse(
            OutputError, function, f"default database ({place.database}) cannot be written, and neither can {table.database}",
            "USE a writable database: the ledger of a READ_ONLY table is kept in the default one",
        )
    return Ledger(place.database, table)


def is_read_only(con: duckdb.DuckDBPyConnection, database: str) -> bool:
    rows = con.execute("SELECT readonly FROM duckdb_databases() WHERE database_name = ?", [database]).fetchall()
    return bool(rows and rows[0][0])


def _has_caps(con: duckdb.DuckDBPyConnection, table: Name) -> bool:
    if table.database not in _holders(con, "budgets"):
        return False
    count = exp.select(exp.Count(this=exp.Star())).from_(Name(table.database, "mwem", "budgets").tree()).where(
        exp.column("schema_name").eq(table.schema), exp.column("table_name").eq(table.table),
        exp.column("database_name").eq(""),
    )  # fmt: skip
    return bool(con.execute(count.sql("duckdb")).fetchall()[0][0])


def _holders(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """The attached databases that have a table of the schema mwem."""
    rows = con.execute(
        "SELECT database_name FROM duckdb_tables() WHERE schema_name = 'mwem' AND table_name = ? ORDER BY 1", [table]
    ).fetchall()
    return [row[0] for row in rows]


def prepare(con: duckdb.DuckDBPyConnection, database: str, script: str) -> None:
    """Make `database` the current one of this cursor, with the tables of a script in it."""
    use(con, Place(database, "main"))
    with lock("mwem"):  # two that make the same tables at once would conflict
        con.execute(read_sql(script))


def _retried(attempt: Callable[[], Result]) -> Result:
    """Run a short transaction that writes to a cap; the loser of a conflict tries again, and sees what the winner wrote."""
    for _ in range(_RETRIES):
        try:
            return attempt()
        except duckdb.TransactionException:
            time.sleep(_PAUSE)
    return attempt()


def entries(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Every ledger row of every attached database, oldest first. A release that exists is done, even if nobody wrote so."""
    stored: set[str] = set()
    for home in _holders(con, "releases"):
        query = exp.select("entry").from_(Name(home, "mwem", "releases").tree())
        stored.update(row[0] for row in con.execute(query.sql("duckdb")).fetchall())
    out: list[dict[str, Any]] = []
    for home in _holders(con, "ledger"):
        found = con.execute(exp.select("*").from_(Name(home, "mwem", "ledger").tree()).sql("duckdb"))
        names = [column[0] for column in found.description or ()]
        for row in found.fetchall():
            entry = dict(zip(names, row, strict=True))
            done = entry["status"] == "open" and entry["entry"] in stored
            out.append({**entry, "database_name": entry["database_name"] or home, "status": "done" if done else entry["status"]})
    return sorted(out, key=lambda entry: (entry["started"], entry["entry"]))


def _numbers(budget: Budget) -> list[object]:
    return [float(budget.epsilon), float(budget.delta), str(budget.epsilon), str(budget.delta)]
