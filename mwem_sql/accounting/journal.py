"""The journal: every event of a database's ledger, one line each, in one chain of checksums.

Owns `mwem.journal`, of which `mwem.ledger` and `mwem.budgets` are views, what its lines say together, and the rows of
`mwem_ledger` that the curator reads. Must not judge what fits a cap. A chain without a key shows a changed, missing or
added line; whoever can write to the file can also forge all of it, unless somebody has noted a checksum elsewhere.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import duckdb
from sqlglot import exp

from mwem_sql.accounting.caps import Balance, Cap, Charge, PartitionColumn
from mwem_sql.boundary.scope import Scope
from mwem_sql.errors import RELEASE, BudgetError, MwemError, legible, refuse
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA, Key, Row, check_types, created, declared, holders, insert, tables
from mwem_sql.platform.session import lock, transaction

NAME = ("database_name", "schema_name", "table_name")
"""The columns that a Key is stored in."""

_RETRIES = 30
_PAUSE = 0.05  # seconds at most between two of them

Result = TypeVar("Result")


def now() -> datetime:
    return datetime.now(timezone.utc).replace(tzinfo=None)


@dataclass(frozen=True)
class Journal:
    """A journal as it was read. `fault` is the first line that is not as it was written; None where the chain holds.

    `moment` is when it was read: which window of a cap that renews is open is the same for all who look at it.
    """

    home: str
    lines: Sequence[Row]
    fault: int | None
    moment: datetime = field(default_factory=now)

    @cached_property
    def entries(self) -> dict[str, Row]:
        """All entries, by their id, with status, start and end."""
        out: dict[str, Row] = {}
        for line in self.lines:
            if line["event"] == "entry":
                out[line["entry"]] = {**line, "status": "open", "started": line["moment"], "finished": None}
            elif line["event"] == "end" and line["entry"] in out:
                entry = out[line["entry"]]
                entry.update(status=line["status"], finished=line["moment"])
                entry["rho_exact"] = line["rho_exact"] or entry["rho_exact"]
            elif line["event"] == "resume" and line["entry"] in out:
                out[line["entry"]].update(status="open", finished=None)
        return out

    @cached_property
    def caps(self) -> dict[str, list[Row]]:
        """All caps of tables that were ever set, by account, the last one in force."""
        return {account: lines for (account, user), lines in self.all_caps.items() if user is None and account}

    @cached_property
    def all_caps(self) -> dict[tuple[str | None, str | None], list[Row]]:
        """The same by account and user: of a user there may be one for an account, and one for all together."""
        out: dict[tuple[str | None, str | None], list[Row]] = {}
        for line in self._of("cap"):
            out.setdefault((line["account"], line["user_name"]), []).append(line)
        return out

    @cached_property
    def keys(self) -> dict[Key, str]:
        """The account of every key."""
        return {key_of(line): line["account"] for line in self._of("key")}

    @cached_property
    def public(self) -> set[str]:
        """The marks of all tables that the curator has said are public."""
        return {line["entry"] for line in self._of("public")}

    @property
    def partitions(self) -> list[Row]:
        return list(self._of("partition"))

    @property
    def policies(self) -> list[Row]:
        return list(self._of("policy"))

    @property
    def requires_caps(self) -> bool:
        """Whether releases need a cap by the policy of the database; where nobody set one, they do not."""
        return any(line["require_caps"] for line in self.policies[-1:])

    def cap(self, account: str | None, user: str | None = None) -> Cap | None:
        """The cap of an account, as it is at this moment; of a `user`, theirs of it, or of all accounts together."""
        if account is None and user is None:
            return None
        cap = self.cap_as_written(account, user)
        return None if cap is None else cap.renewed(self.moment, len(self.lines))

    def cap_as_written(self, account: str | None, user: str | None = None) -> Cap | None:
        """The same, in the window of its line."""
        with legible(damaged(self.home)):
            for line in self.all_caps.get((account, user), [])[-1:]:
                return Cap(
                    _budget(line), line["unit"], line["rows_per_unit"], line["unit_id"], user=line["user_name"],
                    every=line["every"], opened=line["opened"], since=line["since"] or 0,
                )  # fmt: skip
        return None

    def partition(self, account: str | None) -> PartitionColumn | None:
        """The column that was declared last for an account; None where there is none, or it was taken back."""
        lines = [line for line in self.partitions if account is not None and line["account"] == account]
        with legible(damaged(self.home)):
            for line in lines[-1:]:
                if line["partition_by"] is not None:
                    return PartitionColumn(
                        number=line["number"],
                        name=line["partition_by"],
                        id=line["partition_id"],
                        type=line["partition_type"],
                    )
        return None

    def charge_rows(self, account: str | None) -> list[Row]:
        """The entries that took something of an account's budget. Seeded releases and notes take nothing."""
        return [row for row in self._entries_of(account) if row["private"] and Fraction(row["epsilon_exact"]) > 0]

    def charges(self, account: str | None) -> list[Charge]:
        """What counts under the account's cap, or what was charged where there is none."""
        cap, partition = self.cap(account), self.partition(account)
        since = 0 if cap is None else cap.since
        with legible(damaged(self.home)):
            return [_charge(row, partition) for row in self.charge_rows(account) if row["number"] > since]

    def charges_of(self, account: str | None, cap: Cap, *, with_approved: bool = False) -> list[Charge]:
        """What counts under a user's cap: what they asked, of an account or, for None, of all.

        What the curator approved is beside it; `with_approved` has that, too.
        """
        with legible(damaged(self.home)):
            accounts = {row["account"] for row in self.entries.values()} if account is None else {account}
            return [
                _charge(row, self.partition(account))
                for each in accounts
                for row in self.charge_rows(each)
                if row["user_name"] == cap.user and row["number"] > cap.since
                if with_approved or row["approval"] is None
            ]

    def charge_of(self, row: Row) -> Charge:
        """The charge of an entry, as it counts now."""
        with legible(damaged(self.home)):
            return _charge(row, self.partition(row["account"]))

    def balance(self, account: str | None) -> Balance:
        """What all private entries of an account add up to, whatever became of them."""
        seeded = sum(not row["private"] and row["action"] == RELEASE for row in self._entries_of(account))
        return Balance.of(self.cap(account), self.charges(account), seeded)

    def _entries_of(self, account: str | None) -> Iterable[Row]:
        return (row for row in self.entries.values() if account is not None and row["account"] == account)

    def _of(self, event: str) -> Iterable[Row]:
        return (line for line in self.lines if line["event"] == event)


def read(con: duckdb.DuckDBPyConnection, home: str) -> Journal:
    """The journal of a database that has one. Lines and head in one statement: others may write in between."""
    names = list(declared("ledger.sql", "journal"))
    with legible(damaged(home)):
        rows = con.execute(_lines_of(home)).fetchall()
        lines = [row[2:] for row in rows if row[2] is not None]
        journal = Journal(home, [dict(zip(names, line, strict=True)) for line in lines], _fault(lines, rows), now())
        if journal.fault is not None:
            for line in journal.lines:
                check_types(line, "ledger.sql", "journal")
    return journal


@lru_cache(maxsize=256)
def _lines_of(home: str) -> str:
    """Kept: to write it takes as long as to run it."""
    columns = [exp.column(name, table="journal") for name in declared("ledger.sql", "journal")]
    head = [exp.column(name, table="journal_head") for name in ("number", "checksum")]
    query = (
        exp.select(*head, *columns).from_(Name(home, SCHEMA, "journal_head").tree())
        .join(Name(home, SCHEMA, "journal").tree(), join_type="full", on=exp.true())
        .order_by(exp.column("number", table="journal"))
    )  # fmt: skip
    return query.sql("duckdb")


def read_all(con: duckdb.DuckDBPyConnection) -> dict[str, Journal]:
    """The journals of all attached databases that have one; one of which a table was dropped cannot be read."""
    return {home: read(con, home) for home, names in tables(con).items() if names & created("ledger.sql").keys()}


def append(con: duckdb.DuckDBPyConnection, home: str, *events: Row) -> None:
    """Write events in an open transaction. Of two that do so at once one fails, because both want the next number."""
    read_head, write_head = _of_head(home)
    rows = con.execute(read_head).fetchall()
    if len(rows) != 1:
        raise damaged(home)
    ((number, checksum),) = rows
    for event in events:
        number += 1
        line: Row = dict.fromkeys(declared("ledger.sql", "journal"))
        line |= {"number": number, "moment": now(), **who()} | event
        line["checksum"] = checksum = _checksum(checksum, tuple(line.values())[:-1])
        insert(con, Name(home, SCHEMA, "journal"), line)
    con.execute(write_head, [number, checksum])


@lru_cache(maxsize=256)
def _of_head(home: str) -> tuple[str, str]:
    """The statements that read and write the head. Kept, as `_lines_of`."""
    head = Name(home, SCHEMA, "journal_head").tree()
    read_head = exp.select(exp.column("number"), exp.column("checksum")).from_(head)
    write_head = exp.update(head, {"number": exp.Placeholder(), "checksum": exp.Placeholder()})
    return read_head.sql("duckdb"), write_head.sql("duckdb")


def committed(con: duckdb.DuckDBPyConnection, write: Callable[[], Result], *, pause: float = _PAUSE) -> Result:
    """Write in a short transaction; the loser of a conflict tries again, and sees what the winner wrote."""

    def attempt() -> Result:
        with lock("mwem.journal"), transaction(con):  # the lock spares the threads of one process most conflicts
            return write()

    for _ in range(_RETRIES):
        # The number was taken at the same time, or just before.
        with suppress(duckdb.TransactionException, duckdb.ConstraintException):
            return attempt()
        time.sleep(random.uniform(0, pause))  # noqa: S311  not for noise
    return attempt()


def damaged(home: str) -> MwemError:
    """Nothing can be counted any more."""
    return refuse(
        BudgetError,
        "ledger",
        f"the tables journal and journal_head in the schema mwem of database ({home}) cannot be read",
        "they were changed by hand: restore them from a backup",
    )


def key_of(line: Row) -> Key:
    """The name or key that a line is about."""
    return line[NAME[0]], line[NAME[1]], line[NAME[2]]


def who() -> Row:
    """Who the system says that it is, by the process's user id; and who the environment says, if somebody else."""
    try:
        claimed: str | None = getpass.getuser()
    except (OSError, KeyError):  # a container's number without a name
        claimed = None
    try:
        import pwd  # noqa: PLC0415  Windows has none: there the environment is all that is asked

        user = pwd.getpwuid(os.getuid()).pw_name
    except ImportError:
        user = claimed or "unknown"
    except KeyError:
        user = f"user id {os.getuid()}"
    return {"who": user, "claimed": None if claimed == user else claimed}


def _fault(lines: Sequence[Sequence[Any]], rows: Sequence[Sequence[Any]]) -> int | None:
    """The first line that does not follow from the one before it; the one after the last where the head has another."""
    checksum = ""
    for number, line in enumerate(lines, start=1):
        if line[0] != number or line[-1] != _checksum(checksum, line[:-1]):
            return number
        checksum = line[-1]
    return None if [row[:2] for row in rows[:1]] == [(len(lines), checksum)] else len(lines) + 1


def _checksum(before: str, line: Sequence[Any]) -> str:
    """Of a line's values in the order of its columns, in ASCII: a value of another type is another text."""
    return hashlib.sha256(f"{before}\n{tuple(line)!a}".encode()).hexdigest()


def _budget(row: Row) -> Budget:
    return Budget(Fraction(row["epsilon_exact"]), Fraction(row["delta_exact"]))


def _is_scoped(row: Row, partition: PartitionColumn | None) -> bool:
    return partition is not None and row["number"] > partition.number and row["partition_exact"] is not None


def _charge(row: Row, partition: PartitionColumn | None) -> Charge:
    """The scope of an entry is of the column that was declared then: under another declaration it counts for all."""
    is_scoped = _is_scoped(row, partition)
    return Charge(
        budget=_budget(row),
        rho=Fraction(row["rho_exact"]),
        unit=row["unit"],
        rows_per_unit=row["rows_per_unit"],
        computed=row["unit_is_computed"],
        unit_id=row["unit_id"] or "",
        failure=Fraction(row["failure_exact"]),
        scope=Scope.read(row["partition_exact"]) if is_scoped else None,
        partition=partition if is_scoped else None,
    )


def statement(
    con: duckdb.DuckDBPyConnection, public: duckdb.DuckDBPyConnection | None = None, user: str | None = None
) -> list[Row]:
    """Every entry of every attached database, oldest first, with what its table has spent and has left.

    A release that exists is done, even if nobody wrote so. A cap that replaced another and a policy are rows, too.
    `intact` is false for all rows of a journal that was changed by hand, and one more row says at which line.
    `public` is a connection that sees the releases, where they are elsewhere. A `user` of a server sees the rows that
    are theirs, with what they have spent and have left.
    """
    stored: set[str] = set()
    public = con if public is None else public
    for home in holders(public, "releases"):
        with suppress(duckdb.Error):  # a damaged one has no say
            query = exp.select("entry").from_(Name(home, SCHEMA, "releases").tree())
            stored.update(row[0] for row in public.execute(query.sql("duckdb")).fetchall())
    out = [row for lines in read_all(con).values() for row in _statement_of(lines, stored, user)]
    return sorted(out, key=lambda row: (row["started"], row["number"]))


def _statement_of(lines: Journal, stored: set[str], user: str | None) -> Iterator[Row]:
    rows = [row for row in _events(lines) if user is None or row["user_name"] == user]
    accounts = {row["account"] for row in rows}
    balances = {account: _spent_and_left(lines, account, user) for account in accounts}
    partitions = {account: lines.partition(account) for account in accounts}
    for row in rows:
        spent, left = balances[row["account"]]
        yield {
            **row,
            "database_name": row["database_name"] or lines.home,
            "status": "done" if row["entry"] in stored else row["status"],
            "epsilon_spent": spent,
            "epsilon_left": left,
            "intact": lines.fault is None,
            "partition": row["partition"] if _is_scoped(row, partitions[row["account"]]) else None,
        }


def _spent_and_left(lines: Journal, account: str | None, user: str | None) -> tuple[float, float | None]:
    """What an account's releases have spent and have left; of a user, what theirs have, and what they may still ask."""
    balance = lines.balance(account)
    if user is None:
        return balance.epsilon_spent, balance.epsilon_left
    everything = Cap(Budget(Fraction(1), Fraction(0)), user=user)  # any: what counts is whose charges are asked for
    spent = Balance.of(None, lines.charges_of(account, everything, with_approved=True)).epsilon_spent
    caps = [(each, lines.cap(each, user)) for each in (account, None)]
    left = [Balance.of(cap, lines.charges_of(each, cap)).epsilon_left for each, cap in caps if cap is not None]
    return spent, min((each for each in (balance.epsilon_left, *left) if each is not None), default=None)


def _events(lines: Journal) -> Iterator[Row]:
    """What the curator sees of a journal. Of caps those that replaced another; all of them where there is a fault."""
    yield from lines.entries.values()
    for history in lines.all_caps.values():
        for before, cap in zip([None, *history], history, strict=False):
            if before is not None or lines.fault is not None or cap["user_name"] or cap["every"]:
                yield _note(cap, _words_of_cap(before, cap))
    for partition in lines.partitions:
        yield _note(partition, f"mwem_partition: {partition['partition_by'] or 'none'}")
    for line in lines.lines:
        if line["event"] == "public":
            yield _note(line, "mwem_public: its rows are public")
    for policy in lines.policies:
        yield _note(policy, f"mwem_policy: require_caps {str(policy['require_caps']).lower()}")
    if lines.fault is not None:
        last = lines.lines[-1]["moment"] if lines.lines else datetime.min  # noqa: DTZ901  no time here has a zone
        line = {"number": lines.fault, "account": None, "moment": last, "schema_name": "", "table_name": ""}
        yield _note(line, f"mwem_ledger: the journal was changed by hand at line {lines.fault}")


def _words_of_cap(before: Row | None, cap: Row) -> str:
    """What became of a cap."""
    was = "none" if before is None else before["epsilon"]
    whose = "" if cap["user_name"] is None else f" for {cap['user_name']}"
    often = "" if cap["every"] is None else f" every {cap['every']}, from {cap['opened']:%Y-%m-%d %H:%M} on"
    return f"mwem_budget: epsilon {was} to {cap['epsilon']}{whose}{often}"


def _note(line: Row, action: str) -> Row:
    """A line that is not an entry, as a row that costs nothing."""
    names = {name: line.get(name) or "" for name in NAME}
    absent = (
        "who",
        "claimed",
        "unit",
        "rows_per_unit",
        "version",
        "workload",
        "reason",
        "partition_exact",
        "user_name",
    )
    return {
        **dict.fromkeys((*absent, "user_name")), **line, **names,
        "entry": "", "output": None, "epsilon": 0.0, "delta": 0.0, "private": False, "status": "done", "action": action,
        "started": line["moment"], "finished": line["moment"],
    }  # fmt: skip


def cap_line(cap: Cap, account: str | None, name: Key) -> Row:
    return {
        "event": "cap", "account": account, **columns_of_key(name), **numbers(cap.budget.epsilon, cap.budget.delta),
        "unit": cap.unit, "rows_per_unit": cap.rows_per_unit, "unit_id": cap.unit_id, "user_name": cap.user,
        "every": cap.every, "opened": cap.opened, "since": cap.since,
    }  # fmt: skip


def columns_of_key(name: Key) -> Row:
    return dict(zip(NAME, name, strict=True))


def numbers(epsilon: Fraction, delta: Fraction) -> Row:
    return {"epsilon": float(epsilon), "delta": float(delta), "epsilon_exact": str(epsilon), "delta_exact": str(delta)}
