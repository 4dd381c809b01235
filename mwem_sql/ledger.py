"""Caps and spending: who asked what of a private table, and what is left.

The ledger lives beside the private table; for a database attached READ_ONLY, in the connection's default database.
A debit is committed before the first private row is read and is never undone.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.budget import Budget
from mwem_sql.catalog import Name, Place
from mwem_sql.errors import BudgetError, OutputError, refuse
from mwem_sql.resources import read_sql

_RETRIES = 100  # of a debit that met another one; each loser's rival has succeeded


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
        prepare(con, self.home)
        for _ in range(_RETRIES):
            try:
                return self._debit_once(con, budget, output, action, private)
            except duckdb.TransactionException:
                continue
        raise refuse(BudgetError, "ledger", "too many releases at once were debited", "call again")

    def _debit_once(
        self, con: duckdb.DuckDBPyConnection, budget: Budget, output: str | None, action: str, private: bool
    ) -> str:
        entry = uuid.uuid4().hex
        con.execute("BEGIN TRANSACTION")
        try:
            cap = self.cap(con)
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
            con.execute("COMMIT")
        except BaseException:
            rollback(con)
            raise
        return entry

    def _check(self, con: duckdb.DuckDBPyConnection, cap: Budget, budget: Budget, private: bool) -> None:
        if not private:
            raise refuse(
                BudgetError, "mwem_release", f"a seeded release of {self.table.table} is refused, because the table has a cap",
                "leave seed out; seeded noise is for experiments on tables without a cap",
            )
        spent = self.spent(con)
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
        prepare(con, self.home)
        con.execute(
            """INSERT INTO mwem.ledger VALUES (?, ?, ?, ?, ?, 0, 0, '0', '0', false, ?, 'done',
               CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP), CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP))""",
            [uuid.uuid4().hex, *self._key, output, action],
        )

    def cap(self, con: duckdb.DuckDBPyConnection) -> Budget | None:
        rows = con.execute(
            """SELECT epsilon_exact, delta_exact FROM mwem.budgets
               WHERE database_name = ? AND schema_name = ? AND table_name = ?""",
            self._key,
        ).fetchall()
        return Budget(Fraction(rows[0][0]), Fraction(rows[0][1])) if rows else None

    def spent(self, con: duckdb.DuckDBPyConnection) -> _Spent:
        """What all private entries add up to, whatever became of them."""
        rows = con.execute(
            """SELECT epsilon_exact, delta_exact FROM mwem.ledger
               WHERE private AND database_name = ? AND schema_name = ? AND table_name = ?""",
            self._key,
        ).fetchall()
        return _Spent(sum((Fraction(row[0]) for row in rows), Fraction(0)), sum((Fraction(row[1]) for row in rows), Fraction(0)))

    def set_cap(self, con: duckdb.DuckDBPyConnection, cap: Budget) -> _Spent:
        """Set or replace the cap; what was spent before stays spent."""
        prepare(con, self.home)
        con.execute("BEGIN TRANSACTION")
        try:
            con.execute(
                "DELETE FROM mwem.budgets WHERE database_name = ? AND schema_name = ? AND table_name = ?", self._key
            )
            con.execute("INSERT INTO mwem.budgets VALUES (?, ?, ?, ?, ?, ?, ?, 0)", [*self._key, *_numbers(cap)])
            spent = self.spent(con)
            con.execute("COMMIT")
        except BaseException:
            rollback(con)
            raise
        return spent


@dataclass(frozen=True)
class _Spent:
    epsilon: Fraction
    delta: Fraction


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
    budgets = Name(table.database, "mwem", "budgets")
    found = con.execute(
        "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?",
        [budgets.database, budgets.schema, budgets.table],
    ).fetchall()
    if not found:
        return False
    count = exp.select(exp.Count(this=exp.Star())).from_(budgets.tree()).where(
        exp.column("schema_name").eq(table.schema), exp.column("table_name").eq(table.table),
        exp.column("database_name").eq(""),
    )  # fmt: skip
    return bool(con.execute(count.sql("duckdb")).fetchall()[0][0])


def prepare(con: duckdb.DuckDBPyConnection, database: str, script: str = "ledger.sql") -> None:
    """Make `database` the current one of this cursor, with the tables of a script in it."""
    use(con, Place(database, "main"))
    for _ in range(_RETRIES):
        try:
            con.execute(read_sql(script))
        except (duckdb.TransactionException, duckdb.CatalogException) as error:
            last = error  # another call made the same tables at the same time
            continue
        return
    raise last


def use(con: duckdb.DuckDBPyConnection, place: Place) -> None:
    con.execute(exp.Use(this=exp.table_(place.schema, db=place.database, quoted=True)).sql("duckdb"))


def entries(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Every ledger row of every attached database, oldest first."""
    out: list[dict[str, Any]] = []
    homes = con.execute(
        "SELECT database_name FROM duckdb_tables() WHERE schema_name = 'mwem' AND table_name = 'ledger' ORDER BY 1"
    ).fetchall()
    for (home,) in homes:
        cursor = con.cursor()
        use(cursor, Place(home, "main"))
        rows = cursor.execute(
            """SELECT coalesce(nullif(database_name, ''), current_database()) AS database_name, schema_name, table_name, output,
                      epsilon, delta, action, private, status, started, finished FROM mwem.ledger ORDER BY started, entry"""
        )
        names = [column[0] for column in rows.description or ()]
        out.extend(dict(zip(names, row, strict=True)) for row in rows.fetchall())
    return out


def _numbers(budget: Budget) -> list[object]:
    return [float(budget.epsilon), float(budget.delta), str(budget.epsilon), str(budget.delta)]


def rollback(con: duckdb.DuckDBPyConnection) -> None:
    try:
        con.execute("ROLLBACK")
    except duckdb.Error:
        return  # a failed COMMIT has ended the transaction already
