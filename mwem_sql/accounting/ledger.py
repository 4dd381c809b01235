"""Caps and spending: who asked what of a private table, and what is left.

The ledger lives beside the private table; for a database attached READ_ONLY, in the connection's default database.
A debit is committed before the first private row is read and is never undone. Entries are added and ended, never changed
otherwise; the journal has all of that a second time, and where the two differ nothing is debited.
"""

from __future__ import annotations

import getpass
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from typing import TypeVar

import duckdb

from mwem_sql.accounting import integrity, journal
from mwem_sql.accounting.budget import Budget
from mwem_sql.accounting.caps import Cap, Charge, pure_rho
from mwem_sql.accounting.scales import zcdp_rho
from mwem_sql.database import catalog, metadata
from mwem_sql.database.catalog import Name, Place
from mwem_sql.database.dialect import fold
from mwem_sql.database.metadata import SCHEMA, Key, Row, account_of, damaged, holders, insert, key, key_of, read_rows
from mwem_sql.database.session import lock, transaction, use
from mwem_sql.errors import RELEASE, BudgetError, MwemError, legible, refuse

_RETRIES = 30
_PAUSE = 0.05  # seconds at most between two of them
_MARK = re.compile(
    r"\s*\[mwem account ([0-9a-f]+)\]"
)  # in a table's comment, which DuckDB keeps through every ALTER and rename

Result = TypeVar("Result")


@dataclass(frozen=True)
class Source:
    """What the rows of a private relation are known by in a ledger: `table` is how it is shown, `marked` the table that carries the account.

    `keys` are names in tiers: the account of the first tier that has one answers. `own` are the names that an account is opened with.
    """

    table: Name
    keys: tuple[tuple[Key, ...], ...]
    own: tuple[Key, ...]
    marked: Name | None = None


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


@dataclass(frozen=True)
class Ledger:
    """The ledger of one private relation. `home` is the database that holds it."""

    home: str
    source: Source

    @classmethod
    def of_table(cls, home: str, table: Name) -> Ledger:
        """By its name alone, without a mark."""
        own = key("" if home == table.database else table.database, table.schema, table.table)
        return cls(home, Source(table, ((own,),), (own,)))

    @property
    def _shown(self) -> dict[str, str]:
        table = self.source.table
        return {
            "database_name": "" if self.home == table.database else table.database,
            "schema_name": table.schema,
            "table_name": table.table,
        }

    def account(self, con: duckdb.DuckDBPyConnection) -> str | None:
        """The account that answers for these rows: the one that the table is marked with, or the one that its name belongs to."""
        known = self._known(con)
        marked = mark_of(con, self.source.marked)
        if marked is not None:
            if marked not in known.values():
                raise refuse(
                    BudgetError,
                    "ledger",
                    f"table ({self.source.table}) carries the account {marked}, which the ledger in database ({self.home}) does not know",
                    "restore the schema mwem from a backup; if the rows are new, the curator takes the account off with COMMENT ON TABLE",
                )
            return marked
        for tier in self.source.keys:
            accounts = sorted({known[name] for name in tier if name in known})
            if len(accounts) > 1:
                raise refuse(
                    BudgetError,
                    "ledger",
                    f"view ({self.source.table}) reads files of {len(accounts)} accounts ({', '.join(accounts)})",
                    "release each account's files by themselves: mwem_ledger() shows what was charged where",
                )
            if accounts:
                return str(accounts[0])
        return None

    def _known(self, con: duckdb.DuckDBPyConnection) -> dict[Key, str]:
        """The account of every name."""
        with legible(damaged(self.home)):
            older = {
                key_of(row): account_of(row)
                for table in ("ledger", "budgets")
                for row in read_rows(con, self.home, table)
                if not row.get("account")
            }
            return older | {key_of(row): row["account"] for row in read_rows(con, self.home, "names")}

    def debit(
        self, con: duckdb.DuckDBPyConnection, charge: Charge, output: str | None, *, action: str, request: str = "", private: bool = True
    ) -> str:  # fmt: skip
        """Commit an open entry and return its number; a BudgetError if it does not fit the cap, and nothing is written."""

        def write() -> str:
            with transaction(con):
                self._check_intact(con)
                account = self.account(con)
                self._check_cap(con, _cap(con, self.home, account), charge, account, private=private)
                return self._open(
                    con,
                    self._opened(con, account),
                    charge,
                    output,
                    {"action": action, "request": request, "private": private, "status": "open"},
                )

        self._prepare(con)
        return _retried(write)

    def _check_intact(self, con: duckdb.DuckDBPyConnection) -> None:
        with legible(damaged(self.home)):
            if integrity.is_intact(con, self.home):
                return
        raise refuse(
            BudgetError,
            "ledger",
            f"ledger and journal in the schema mwem of database ({self.home}) differ, so nothing is debited",
            "rows with intact = false in mwem_ledger() were changed, taken out or added by hand: restore the schema from a backup",
        )

    def _check_cap(
        self, con: duckdb.DuckDBPyConnection, cap: Cap | None, charge: Charge, account: str | None, *, private: bool
    ) -> None:
        table = self.source.table.table
        capped = [home for home in holders(con, "budgets") for _ in read_rows(con, home, "budgets")]
        if cap is None:
            if capped:
                raise refuse(
                    BudgetError,
                    RELEASE,
                    f"table ({self.source.table}) has no cap, and database {capped[0]} has tables with one, whose rows it may hold",
                    f"have the curator decide: CALL mwem_budget('{table}', epsilon) gives it an account of its own",
                )
            return
        if len(capped) > 1 and self.source.marked is not None and mark_of(con, self.source.marked) is None:
            raise refuse(
                BudgetError,
                RELEASE,
                f"table ({self.source.table}) was replaced, and {len(capped)} tables have caps, so that its rows may be another's",
                f"have the curator confirm: CALL mwem_budget('{table}', {float(cap.budget.epsilon):g}) charges them to the account of this name; TRUNCATE and INSERT keep it",
            )
        twins = [
            home
            for home in holders(con, "names")
            if home != self.home and any(row["account"] == account for row in read_rows(con, home, "names"))
        ]
        if twins:
            raise refuse(
                BudgetError,
                RELEASE,
                f"table ({self.source.table}) has its account in database {twins[0]}, too: one file is a copy of the other",
                "DETACH the copy, and release from one file only: each counts what it was asked itself",
            )
        if not private:
            raise seed_refused(table)
        cap.check(table, charge, _sum(cap, _charges(con, self.home, account)))

    def note(self, con: duckdb.DuckDBPyConnection, output: str | None, action: str) -> None:
        """Write down that something not private was done; it spends no budget, because no budget covers it."""

        def write() -> None:
            with transaction(con):
                facts = {"action": action, "request": "", "private": False, "status": "done", "finished": _now()}
                self._open(con, self.account(con), None, output, facts)

        self._prepare(con)
        _retried(write)

    def _opened(self, con: duckdb.DuckDBPyConnection, account: str | None) -> str:
        """The account, opened if there is none, with the names that are new to it, and the table marked with it."""
        account = account or uuid.uuid4().hex[:16]
        known = {key_of(row) for row in read_rows(con, self.home, "names")}
        news = [name for name in self.source.own if name not in known]
        for name in news:
            insert(con, "names", {**dict(zip(self._shown, name, strict=True)), "account": account})
        if news:
            journal.append(con, {"event": "names", "account": account, "names": news})
        if self.source.marked is not None and mark_of(con, self.source.marked) is None:
            before = catalog.comment(con, self.source.marked)
            catalog.set_comment(con, self.source.marked, f"{before} [mwem account {account}]".strip())
        return account

    def _open(
        self, con: duckdb.DuckDBPyConnection, account: str | None, charge: Charge | None, output: str | None, facts: Row
    ) -> str:
        entry = uuid.uuid4().hex
        epsilon, delta, rho = (charge.budget.epsilon, charge.budget.delta, charge.rho) if charge else (Fraction(0),) * 3
        row = {
            "entry": entry, **self._shown, "account": account, "output": output, **_numbers(epsilon, delta), "rho_exact": str(rho),
            "unit": charge.unit if charge else None, "rows_per_unit": charge.rows_per_unit if charge else 1,
            "unit_is_computed": charge.computed if charge else False, "who": _user(), "started": _now(), **facts,
        }  # fmt: skip
        insert(con, "ledger", row)
        journal.append(con, {"event": "entry", **journal.texts(row)})
        return entry

    def charged(self, con: duckdb.DuckDBPyConnection, entry: str) -> str | None:
        """The account that an entry was charged to."""
        return next((row["account"] for row in read_rows(con, self.home, "ledger") if row["entry"] == entry), None)

    def close(self, con: duckdb.DuckDBPyConnection, entry: str, status: str) -> None:
        """Mark an entry done or failed."""

        def write() -> None:
            finished = _now()
            with transaction(con):
                con.execute("UPDATE ledger SET status = ?, finished = ? WHERE entry = ?", [status, finished, entry])
                journal.append(
                    con, {"event": "end", **journal.texts({"entry": entry, "status": status, "finished": finished})}
                )

        use(con, Place(self.home, SCHEMA))
        _retried(write)

    def unfinished(self, con: duckdb.DuckDBPyConnection, request: str, output: Name) -> Row | None:
        """The latest private entry of a request that was charged and did not come to its end."""
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
                self._check_intact(con)
                account = self.account(con)
                self._check_change(con, cap, account)
                account = self._opened(con, account)
                row = {
                    **dict(zip(self._shown, self._first_name(con, account), strict=True)), "account": account,
                    **_numbers(cap.budget.epsilon, cap.budget.delta), "unit": cap.unit, "rows_per_unit": cap.rows_per_unit,
                }  # fmt: skip
                for old in _of(con, self.home, "budgets", account):
                    names = [old["database_name"], old["schema_name"], old["table_name"]]
                    con.execute(
                        "DELETE FROM budgets WHERE database_name = ? AND schema_name = ? AND table_name = ?", names
                    )
                insert(con, "budgets", row)
                journal.append(con, {"event": "cap", "who": _user(), "when": str(_now()), **journal.texts(row)})

        self._prepare(con)
        _retried(write)
        return self.balance(con)

    def _first_name(self, con: duckdb.DuckDBPyConnection, account: str) -> Key:
        """A name that is this account's and no other's, and always the same one: that of its cap."""
        capped = [key_of(row) for row in _of(con, self.home, "budgets", account)]
        return (capped or [name for name, own in self._known(con).items() if own == account])[0]

    def _check_change(self, con: duckdb.DuckDBPyConnection, cap: Cap, account: str | None) -> None:
        function, table, charges = "mwem_budget", self.source.table.table, _charges(con, self.home, account)
        before = _cap(con, self.home, account)
        if charges and before is not None and before.pure != cap.pure:
            raise refuse(
                BudgetError, function, f"delta ({float(cap.budget.delta):g}) cannot be changed to or from 0: {len(charges)} releases of {table} were counted without it"
                if before.pure else f"delta (0) cannot replace {float(before.budget.delta):g}: {len(charges)} releases of {table} were counted with it",
                f"keep delta := {float(before.budget.delta):g}; which way of counting is the tighter one must not be chosen afterwards",
            )  # fmt: skip
        if cap.pure and any(charge.budget.delta for charge in charges):
            raise refuse(
                BudgetError,
                function,
                f"delta (0) does not fit {table}: it has releases with delta above 0",
                "give delta := 1e-6, or another small number, so that they can be counted",
            )
        other = {charge.protects for charge in charges if not cap.counts(charge)}
        if other:
            raise refuse(
                BudgetError,
                function,
                f"a cap for {cap.protects} cannot count releases of {table} that protect {min(other)}",
                "set it with their unit and rows_per_unit",
            )

    def balance(self, con: duckdb.DuckDBPyConnection) -> Balance:
        return balance(con, self.home, self.account(con))

    def _prepare(self, con: duckdb.DuckDBPyConnection) -> None:
        metadata.prepare(con, self.home, "ledger.sql", "names")


def seed_refused(table: str) -> MwemError:
    return refuse(
        BudgetError,
        RELEASE,
        f"a seeded release of {table} is refused, because the table has a cap",
        "leave seed out; seeded noise is for experiments on tables without a cap",
    )


def mark_of(con: duckdb.DuckDBPyConnection, table: Name | None) -> str | None:
    """The account that a table is marked with."""
    found = None if table is None else _MARK.search(catalog.comment(con, table))
    return found[1] if found else None


def balance(con: duckdb.DuckDBPyConnection, home: str, account: str | None) -> Balance:
    """What all private entries of an account add up to, whatever became of them."""
    cap = _cap(con, home, account)
    with legible(damaged(home)):
        rows = list(_of(con, home, "ledger", account))
        charges = [_charge(row) for row in rows if row["private"]]
        seeded = sum(not row["private"] and row["action"] == RELEASE for row in rows)
    deltas = sum((charge.budget.delta for charge in charges), Fraction(0))
    if cap is None:
        return Balance(None, sum((charge.budget.epsilon for charge in charges), Fraction(0)), deltas, seeded)
    return Balance(cap, _sum(cap, charges), Fraction(0) if cap.pure or not charges else cap.budget.delta, seeded)


def _cap(con: duckdb.DuckDBPyConnection, home: str, account: str | None) -> Cap | None:
    with legible(damaged(home)):
        for row in _of(con, home, "budgets", account):
            return Cap(_budget(row), row.get("unit"), row.get("rows_per_unit") or 1)
    return None


def _charges(con: duckdb.DuckDBPyConnection, home: str, account: str | None) -> list[Charge]:
    with legible(damaged(home)):
        return [_charge(row) for row in _of(con, home, "ledger", account) if row["private"]]


def _of(con: duckdb.DuckDBPyConnection, home: str, table: str, account: str | None) -> Iterator[Row]:
    return (row for row in read_rows(con, home, table) if account is not None and account_of(row) == account)


def _retried(attempt: Callable[[], Result]) -> Result:
    """Run a short transaction that writes to the journal; the loser of a conflict tries again, and sees what the winner wrote."""
    for _ in range(_RETRIES):
        try:
            with lock("mwem.journal"):  # spares the threads of one process most conflicts
                return attempt()
        except (
            duckdb.TransactionException,
            duckdb.ConstraintException,
        ):  # the number was taken at the same time, or just before
            time.sleep(random.uniform(0, _PAUSE))  # noqa: S311  not for noise
    return attempt()


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(tzinfo=None)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's number without a name
        return "unknown"


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
    return Charge(budget, rho, unit, row.get("rows_per_unit") or 1, computed)


def _sum(cap: Cap, charges: list[Charge]) -> Fraction:
    return sum((cap.cost(charge) for charge in charges), Fraction(0))


def _numbers(epsilon: Fraction, delta: Fraction) -> Row:
    return {"epsilon": float(epsilon), "delta": float(delta), "epsilon_exact": str(epsilon), "delta_exact": str(delta)}
