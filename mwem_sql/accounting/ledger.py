"""The ledger of one private relation: debits, notes and caps, each in one transaction with the journal.

The ledger lives beside the private table; for a database attached READ_ONLY, in the connection's default database.
A debit is committed before the first private row is read and is never undone. Entries are added and ended, never changed
otherwise; the journal has all of that a second time, and where the two differ nothing is debited.
Owns what is written to `mwem.ledger` and `mwem.budgets`. Must not decide which relation is charged (`accounts.py`) or what fits a cap (`caps.py`).
"""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from fractions import Fraction

import duckdb

from mwem_sql.accounting import integrity, journal
from mwem_sql.accounting.balance import (
    Balance,
    added_up,
    balance_of,
    cap_of_account,
    charges_of,
    is_charge,
    rows_of,
)
from mwem_sql.accounting.caps import Cap, Charge, seed_refused
from mwem_sql.accounting.names import (
    NAME,
    Identity,
    account_of_rows,
    confirm_paths,
    give_keys,
    is_known_by_name_only,
    named_accounts,
    open_account,
    unit_key,
)
from mwem_sql.accounting.policy import requires_caps, set_policy
from mwem_sql.errors import RELEASE, BudgetError, TableError, legible, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import metadata
from mwem_sql.platform.catalog import Name, Place, is_read_only
from mwem_sql.platform.metadata import SCHEMA, Key, Row, damaged, holders, insert, key, key_of, read_rows
from mwem_sql.platform.session import transaction, use


@dataclass(frozen=True)
class Ledger:
    """The ledger of one private relation. `home` is the database that holds it."""

    home: str
    identity: Identity

    @classmethod
    def of_table(cls, home: str, table: Name) -> Ledger:
        """By its name alone, without a mark."""
        name = key("" if home == table.database else table.database, table.schema, table.table)
        return cls(home, Identity(table=table, names=((name,),), opened_with=(name,)))

    @classmethod
    def of_entry(cls, con: duckdb.DuckDBPyConnection, entry: str) -> tuple[Ledger, str | None] | None:
        """The ledger that has an entry, and the account that the entry is of; None where no attached database that can be written has it."""
        for home in holders(con, "ledger"):
            with legible(damaged(home)):
                for row in read_rows(con, home, "ledger"):
                    if row["entry"] == entry and not is_read_only(con, home):
                        table = Name(row["database_name"] or home, row["schema_name"], row["table_name"])
                        return cls(home, Identity(table=table)), row.get("account")
        return None

    @property
    def _shown(self) -> dict[str, str]:
        table = self.identity.table
        database = "" if self.home == table.database else table.database
        return dict(zip(NAME, (database, table.schema, table.table), strict=True))

    def account(self, con: duckdb.DuckDBPyConnection) -> str | None:
        """The account that answers for these rows."""
        return account_of_rows(con, self.home, self.identity)

    def debit(
        self,
        con: duckdb.DuckDBPyConnection,
        charge: Charge,
        output: str | None,
        *,
        action: str,
        private: bool = True,
        **facts: str | None,
    ) -> str:
        """Commit an open entry and return its number; a BudgetError if it does not fit the cap, and nothing is written.

        `facts` are what else the entry says of the request: request, version, workload.
        """

        def write() -> str:
            with transaction(con):
                self._check_intact(con)
                account = self.account(con)
                cap = cap_of_account(con, self.home, account)
                counted = self._with_unit(con, charge, account)
                self._check_cap(con, cap, counted, account, private=private)
                opened = open_account(con, self.home, self.identity, account)
                return self._open(con, opened, counted, output, action=action, private=private, **facts)

        self._prepare(con)
        try:
            return journal.retried(write)
        except duckdb.TransactionException:
            raise refuse(
                TableError,
                RELEASE,
                f"table ({self.identity.table}) is being changed by a transaction that is still open, so nothing was charged or read",
                'COMMIT first; in dbt, give the hook "transaction": false',
            ) from None

    def _with_unit(self, con: duckdb.DuckDBPyConnection, charge: Charge, account: str | None) -> Charge:
        """A charge with what its unit's column is known by, however it is renamed; a column that can carry that does from now on."""
        if charge.unit is None or charge.computed:
            return charge
        return replace(charge, unit_id=self._unit_id(con, charge.unit, account))

    def _unit_id(self, con: duckdb.DuckDBPyConnection, column: str, account: str | None) -> str:
        carrier = self.identity.carrier
        if carrier is None:
            return ""
        present = carrier.unit(con, column)
        if account is not None:
            same = named_accounts(con, self.home).get(unit_key(account, present))
            if same is not None:
                return same
            # Of a table that was replaced the name decides, and so do those of its columns.
            before = self._units(con, account).get(fold(column))
            if before and is_known_by_name_only(con, self.home, self.identity):
                if not carrier.carry_unit(con, column, before):
                    give_keys(con, before, [unit_key(account, present)])
                return before
        unit = present or uuid.uuid4().hex[:8]
        return unit if present or carrier.carry_unit(con, column, unit) else ""

    def _units(self, con: duckdb.DuckDBPyConnection, account: str) -> dict[str, str]:
        """What columns were known by when they were units of this account, by their names then; that of its cap comes first."""
        counted = [*charges_of(con, self.home, account), cap_of_account(con, self.home, account)]
        return {fold(each.unit): each.unit_id for each in counted if each is not None and each.unit is not None}

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
        table = self.identity.table.table
        capped = [home for home in holders(con, "budgets") for _ in read_rows(con, home, "budgets")]
        if cap is None:
            if capped:
                raise refuse(
                    BudgetError,
                    RELEASE,
                    f"table ({self.identity.table}) has no cap, and database {capped[0]} has tables with one, whose rows it may hold",
                    f"have the curator decide: CALL mwem_budget('{table}', epsilon) gives it an account of its own",
                )
            strict = [home for home in holders(con, "journal") if requires_caps(con, home)]
            if strict:
                raise refuse(
                    BudgetError,
                    RELEASE,
                    f"table ({self.identity.table}) has no cap, and the policy of database {strict[0]} requires one",
                    f"have the curator decide: CALL mwem_budget('{table}', epsilon) sets it",
                )
            return
        if len(capped) > 1 and is_known_by_name_only(con, self.home, self.identity):
            raise refuse(
                BudgetError,
                RELEASE,
                f"table ({self.identity.table}) was replaced, and {len(capped)} tables have caps, so that its rows may be another's",
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
                f"table ({self.identity.table}) has its account in database {twins[0]}, too: one file is a copy of the other",
                "DETACH the copy, and release from one file only: each counts what it was asked itself",
            )
        if not private:
            raise seed_refused(table)
        cap.check(table, charge, added_up(cap, charges_of(con, self.home, account)))

    @contextmanager
    def noted(
        self,
        cursor: Callable[[], duckdb.DuckDBPyConnection],
        output: str | None,
        action: str,
        *,
        account: str | None = None,
        **facts: object,
    ) -> Iterator[None]:
        """Write down that something is done, and how it ended. It spends no budget: if it is not private, because no budget covers it.

        `account` is whose it is, where another entry tells; `facts` are what else the entry says.
        """

        def write() -> str:
            with transaction(con):
                noted = {"action": action, "private": False, **facts}
                return self._open(con, account or self.account(con), None, output, **noted)

        con = cursor()
        self._prepare(con)
        entry = journal.retried(write)
        status = "failed"
        try:
            yield
            status = "done"
        finally:
            self.close(cursor(), entry, status)

    def _open(
        self, con: duckdb.DuckDBPyConnection, account: str | None, charge: Charge | None, output: str | None, **facts: object
    ) -> str:  # fmt: skip
        entry = uuid.uuid4().hex
        epsilon, delta, rho = (charge.budget.epsilon, charge.budget.delta, charge.rho) if charge else (Fraction(0),) * 3
        row = {
            "entry": entry, **self._shown, "account": account, "output": output, **_numbers(epsilon, delta), "rho_exact": str(rho),
            "unit": charge.unit if charge else None, "rows_per_unit": charge.rows_per_unit if charge else 1,
            "unit_is_computed": charge.computed if charge else False, "unit_id": charge.unit_id if charge else None,
            **_who(), "started": _now(), "status": "open", "request": "", **facts,
        }  # fmt: skip
        insert(con, "ledger", row)
        journal.append(con, {"event": "entry", **journal.texts(row)})
        return entry

    def charged(self, con: duckdb.DuckDBPyConnection, entry: str) -> tuple[str, str]:
        """The account that an entry was charged to, and what its unit's column is known by."""
        (row,) = (row for row in read_rows(con, self.home, "ledger") if row["entry"] == entry)
        return row["account"], row["unit_id"] or ""

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
        journal.retried(write)

    def unfinished(self, con: duckdb.DuckDBPyConnection, request: str, output: Name) -> Row | None:
        """The latest private entry of a request that was charged and did not come to its end."""
        output_name = fold(f".{output.schema}.{output.table}")
        with legible(damaged(self.home)):
            unfinished = [
                row for row in read_rows(con, self.home, "ledger")
                if row.get("request") == request and row["private"] and row["status"] != "done" and fold(row["output"]).endswith(output_name)
            ]  # fmt: skip
            return max(unfinished, key=lambda row: row["started"], default=None)

    def set_cap(self, con: duckdb.DuckDBPyConnection, cap: Cap) -> Balance:
        """Set or replace the cap; what was spent before stays spent, and is returned.

        Refused where it could not be kept (`Cap.check_replaces`).
        """

        def write() -> None:
            with transaction(con):
                self._check_intact(con)
                confirm_paths(con, self.home, self.identity)
                account = self.account(con)
                before = cap_of_account(con, self.home, account)
                counted = self._cap_with_unit(con, cap, account)
                charges = charges_of(con, self.home, account)
                counted.check_replaces(self.identity.table.table, before, charges)
                account = open_account(con, self.home, self.identity, account)
                row = {
                    **dict(zip(NAME, self._first_name(con, account), strict=True)), "account": account,
                    **_numbers(cap.budget.epsilon, cap.budget.delta), "unit": cap.unit, "rows_per_unit": cap.rows_per_unit,
                    "unit_id": counted.unit_id,
                }  # fmt: skip
                for old in rows_of(con, self.home, "budgets", account):
                    con.execute(
                        "DELETE FROM budgets WHERE database_name = ? AND schema_name = ? AND table_name = ?",
                        [old[column] for column in NAME],
                    )
                insert(con, "budgets", row)
                journal.append(con, {"event": "cap", **_who(), "when": str(_now()), **journal.texts(row)})

        self._prepare(con)
        journal.retried(write)
        return self.balance(con)

    def _cap_with_unit(self, con: duckdb.DuckDBPyConnection, cap: Cap, account: str | None) -> Cap:
        """A cap with what its unit's column is known by; refused where nothing but a name tells, which anybody may change."""
        if cap.unit is None:
            return cap
        unit_id = self._unit_id(con, cap.unit, account)
        if not unit_id:
            raise refuse(
                BudgetError,
                "mwem_budget",
                f"unit ({cap.unit!r}) is known by its name alone, because the table ({self.identity.table}) cannot be written",
                "ATTACH its file writable and set the cap there, so that the column can be marked",
            )
        return replace(cap, unit_id=unit_id)

    def other_names(self, con: duckdb.DuckDBPyConnection) -> str | None:
        """Under which other names the same rows were charged, and the epsilon of each, in words; None if under none."""
        account, here = self.account(con), tuple(self._shown.values())
        out: dict[str, Fraction] = {}
        for row in rows_of(con, self.home, "ledger", account):
            name = tuple(row[column] for column in NAME)
            if is_charge(row) and [fold(part) for part in name] != [fold(part) for part in here]:
                shown = ".".join(filter(None, name))
                out[shown] = out.get(shown, Fraction(0)) + Fraction(row["epsilon_exact"])
        return ", ".join(f"{name} (epsilon {float(spent):g})" for name, spent in out.items()) or None

    def _first_name(self, con: duckdb.DuckDBPyConnection, account: str) -> Key:
        """A name that is this account's and no other's, and always the same one: that of its cap."""
        capped = [key_of(row) for row in rows_of(con, self.home, "budgets", account)]
        named = [name for name, holder in named_accounts(con, self.home).items() if holder == account]
        return (capped or named)[0]

    def balance(self, con: duckdb.DuckDBPyConnection) -> Balance:
        return balance_of(con, self.home, self.account(con))

    def _prepare(self, con: duckdb.DuckDBPyConnection) -> None:
        metadata.prepare(con, self.home, "ledger.sql", metadata.NEWEST)


def signature() -> tuple[str, datetime]:
    """Who the process is, and when it is: as an entry has them."""
    return str(_who()["who"]), _now()


def write_policy(con: duckdb.DuckDBPyConnection, home: str, *, require_caps: bool) -> None:
    """Set the policy of a database, in the name of the process's user."""
    set_policy(con, home, require_caps=require_caps, who=str(_who()["who"]), when=str(_now()))


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(tzinfo=None)


def _who() -> Row:
    """Who the system says that it is, by the process's user id; and who the environment says, where that is somebody else."""
    try:
        claimed: str | None = getpass.getuser()
    except (OSError, KeyError):  # a container's number without a name
        claimed = None
    try:
        import pwd  # noqa: PLC0415  Windows has none: there the environment is all that is asked

        who = pwd.getpwuid(os.getuid()).pw_name
    except ImportError:
        who = claimed or "unknown"
    except KeyError:
        who = f"user id {os.getuid()}"
    return {"who": who, "claimed": None if claimed == who else claimed}


def _numbers(epsilon: Fraction, delta: Fraction) -> Row:
    return {"epsilon": float(epsilon), "delta": float(delta), "epsilon_exact": str(epsilon), "delta_exact": str(delta)}
