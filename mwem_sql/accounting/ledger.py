"""The ledger of one private relation: debits, notes and caps, each written to the journal in one transaction.

The ledger lives beside the private table; for a database attached READ_ONLY, in the connection's default database.
A debit is committed before the first private row is read and is never undone. Lines of the journal are added and never
changed; where its chain does not hold nothing is debited.
Owns what is written to the journal. Must not decide which account rows have (`accounts`) or what fits a cap (`caps`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction

import duckdb

from mwem_sql.accounting import accounts, draws, journal
from mwem_sql.accounting.accounts import Books, FilesUnit, Identity, identity_of, moved_keys
from mwem_sql.accounting.caps import Balance, Cap, Charge, PartitionColumn, seed_refused
from mwem_sql.accounting.decisions import approval_of
from mwem_sql.accounting.journal import Journal
from mwem_sql.boundary.relations import Relation
from mwem_sql.errors import RELEASE, BudgetError, MwemError, OutputError, TableError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog, metadata
from mwem_sql.platform.catalog import Column, Database, Name, Place
from mwem_sql.platform.metadata import Key, Row, key


@dataclass(frozen=True)
class Receipt:
    """A committed debit: its entry, the account, the charge as it was written, and the balance after it."""

    entry: str
    account: str
    charge: Charge
    balance: Balance


@dataclass(frozen=True)
class Ledger:
    """The ledger of one private relation, in the database `home`. `books` are as they were read; `at` reads again."""

    home: str
    identity: Identity
    books: Books = field(default=Books({}), compare=False)

    @classmethod
    def of_table(cls, home: str, table: Name) -> Ledger:
        """By its name alone, without a mark."""
        name = key("" if home == table.database else table.database, table.schema, table.table)
        return cls(home, Identity(table=table, names=((name,),), first_keys=(name,)))

    @classmethod
    def of_entry(cls, con: duckdb.DuckDBPyConnection, entry: str) -> tuple[Ledger, str | None] | None:
        """The ledger that has an entry, and the entry's account; None where no database that can be written has it."""
        for home, lines in journal.read_all(con).items():
            row = lines.entries.get(entry)
            if row is not None and not catalog.is_read_only(con, home):
                table = Name(row["database_name"] or home, row["schema_name"], row["table_name"])
                return cls(home, Identity(table=table)), row["account"]
        return None

    def at(self, con: duckdb.DuckDBPyConnection) -> Ledger:
        """The ledger as it is now."""
        return replace(self, books=_read(con, self.identity))

    @property
    def journal(self) -> Journal:
        return self.books.journals.get(self.home) or Journal(self.home, (), None)

    @property
    def account(self) -> str | None:
        """The account that answers for these rows."""
        return self.books.account(self.home, self.identity)

    @property
    def cap(self) -> Cap | None:
        return self.journal.cap(self.account)

    @property
    def partition(self) -> PartitionColumn | None:
        return self.journal.partition(self.account)

    @property
    def charges(self) -> list[Charge]:
        return self.journal.charges(self.account)

    @property
    def balance(self) -> Balance:
        return self.journal.balance(self.account)

    @property
    def other_names(self) -> str | None:
        """Under which other names the same rows were charged, and the epsilon of each, in words; None if under none."""
        out: dict[str, Fraction] = {}
        for row in self.journal.charge_rows(self.account):
            name = journal.key_of(row)
            if key(*name) != key(*self._name):
                text = ".".join(filter(None, name))
                out[text] = out.get(text, Fraction(0)) + Fraction(row["epsilon_exact"])
        return ", ".join(f"{name} (epsilon {float(spent):g})" for name, spent in out.items()) or None

    def check_writable(self, databases: Mapping[str, Database], place: Place, function: str) -> None:
        if databases[self.home].read_only:
            what = f"default database ({place.database}) cannot be written"
            what += f", and neither can {self.identity.table.database}"
            hint = "USE a writable database: the ledger of a READ_ONLY table is kept in the default one"
            raise refuse(OutputError, function, what, hint)

    def debit(
        self,
        con: duckdb.DuckDBPyConnection,
        charge: Charge,
        output: str | None,
        *,
        private: bool = True,
        **facts: str | None,
    ) -> Receipt:
        """Commit an open entry; a BudgetError if it does not fit the cap, and nothing is written.

        `facts` are what else the entry says of the request: action, request, version, workload.
        """
        self._prepare(con)
        try:
            return journal.committed(con, lambda: self.at(con).enter(con, charge, output, private=private, **facts))
        except duckdb.TransactionException:
            what = f"table ({self.identity.table}) is being changed by a transaction that is still open"
            hint = 'COMMIT first; in dbt, give the hook "transaction": false'
            raise refuse(TableError, RELEASE, f"{what}, so nothing was charged or read", hint) from None

    def enter(
        self, con: duckdb.DuckDBPyConnection, charge: Charge, output: str | None, *, private: bool, **facts: str | None
    ) -> Receipt:
        """Write what `debit` commits: to be called in its transaction, on a ledger that was read in it."""
        self.check_whole()
        charge = self.marked(con, charge)
        if charge.partition is not None and self.books.is_known_by_name_only(self.home, self.identity):
            self._unit_id(con, charge.partition.name)  # the table was replaced: its column is marked again
        user = facts.get("user_name")
        if self._renew(con, user):
            return self.at(con).enter(con, charge, output, private=private, **facts)
        self.check_cap(charge, private=private)
        approval = approval_of(self.journal, user, facts.get("request"), self.account, charge)
        if approval is None:
            self.check_caps_of(user, charge)
        account = self._open_account(con)
        entry = self.open_entry(con, account, charge, output, private=private, approval=approval, **facts)
        charges = [*self.journal.charges(account), *([charge] if private else [])]
        return Receipt(entry, account, charge, Balance.of(self.journal.cap(account), charges))

    def close(self, con: duckdb.DuckDBPyConnection, entry: str, status: str, rho: Fraction | None = None) -> None:
        """Mark an entry done or failed. `rho` is what it took in the end, which may be less than what was debited.

        Whether a release counts in epsilon or rho is decided after its debit, which is for the more costly of both.
        What a release has drawn is needed no more once it is done.
        """
        line: Row = {"event": "end", "entry": entry, "status": status}
        if rho is not None:
            line["rho_exact"] = str(rho)

        def write() -> None:
            journal.append(con, self.home, line)
            if status == "done":
                draws.drop(con, self.home, entry)

        journal.committed(con, write)

    @contextmanager
    def note(
        self, cursor: Callable[[], duckdb.DuckDBPyConnection], output: str | None, action: str, *,
        account: str | None = None, **facts: object,
    ) -> Iterator[None]:  # fmt: skip
        """Write down that something is done, and how it ended. It spends no budget: none covers what is not private.

        `account` is whose it is, where another entry tells; `facts` are what else the entry says.
        """
        con, facts = cursor(), {"action": action, "private": False, **facts}
        self._prepare(con)
        entry = journal.committed(
            con, lambda: self.open_entry(con, account or self.at(con).account, None, output, **facts)
        )
        status = "failed"
        try:
            yield
            status = "done"
        finally:
            self.close(cursor(), entry, status)

    def set_cap(self, con: duckdb.DuckDBPyConnection, cap: Cap) -> Ledger:
        """Set or replace the cap; the ledger as it is then. What was spent before stays spent.

        Refused where it could not be kept (`Cap.check_replaces`).
        """

        def write() -> None:
            self.at(con).confirm_files(con)
            self.at(con).enter_cap(con, cap)

        self._prepare(con)
        journal.committed(con, write)
        return self.at(con)

    def confirm_files(self, con: duckdb.DuckDBPyConnection) -> None:
        """The curator's word for files that were replaced: to be called in a transaction, as `enter`."""
        self.check_whole()
        self._give_keys(con, moved_keys(self.journal, self.identity))

    def enter_cap(self, con: duckdb.DuckDBPyConnection, cap: Cap) -> None:
        """Write what `set_cap` commits: to be called in a transaction, as `enter`."""
        cap = cap.following(self.journal.cap(self.account, cap.user) if self.account else None, self.journal.moment)
        if cap.unit is not None:
            cap = replace(cap, unit_id=self._unit_id(con, cap.unit, is_table=cap.rows_per_unit is None))
            if not cap.unit_id:  # nothing but a name tells, which anybody may change
                why = f"because the table ({self.identity.table}) cannot be written"
                hint = "ATTACH its file writable and set the cap there, so that the column can be marked"
                raise refuse(BudgetError, "mwem_budget", f"unit ({cap.unit!r}) is known by its name alone, {why}", hint)
        if cap.user is None:
            cap.check_replaces(self.identity.table.table, self.cap, self.charges)
        account = self._open_account(con)
        journal.append(con, self.home, journal.cap_line(cap, account, self._first_name(account)))

    def set_partition(self, con: duckdb.DuckDBPyConnection, column: Column | None) -> Ledger:
        """Declare the column that the account is partitioned by, or take that back; the ledger as it is then.

        What is declared already is not declared anew: charges before a declaration count for all values.
        """
        self._prepare(con)
        journal.committed(con, lambda: self.at(con).enter_partition(con, column))
        return self.at(con)

    def enter_partition(self, con: duckdb.DuckDBPyConnection, column: Column | None) -> None:
        """Write what `set_partition` commits: to be called in a transaction, as `enter`."""
        self.check_whole()
        line: Row = {"event": "partition"}
        if column is not None:
            line |= {"partition_by": column.name, "partition_type": column.type}
            line["partition_id"] = column_id = self._unit_id(con, column.name)
            before = self.partition
            if before is not None and before.id == column_id and before.has_kind(column.type):
                return
        elif self.partition is None:
            return
        account = self._open_account(con)
        journal.append(con, self.home, line | {"account": account, **journal.columns_of_key(self._first_name(account))})

    def marked(self, con: duckdb.DuckDBPyConnection, charge: Charge) -> Charge:
        """A charge with what its unit is known by, and a scope of the column that is declared now: in a transaction."""
        if charge.unit is not None and not charge.computed:
            charge = replace(charge, unit_id=self._unit_id(con, charge.unit, is_table=charge.rows_per_unit is None))
        if charge.partition != self.partition:  # declared or taken back since the charge was worked out
            charge = replace(charge, scope=None, partition=None)
        return charge

    def check_whole(self) -> None:
        """Nothing is written to a journal whose chain does not hold."""
        if self.journal.fault is not None:
            raise refuse(
                BudgetError,
                "ledger",
                f"the journal in the schema mwem of database ({self.home}) "
                f"was changed by hand at line {self.journal.fault}, so nothing is debited",
                "restore the schema mwem from a backup; mwem_ledger() shows what is left, with intact = false",
            )

    def check_cap(self, charge: Charge, *, private: bool) -> None:
        """Refuse what the caps of all attached databases, and their policies, do not allow."""
        journals, cap, table = self.books.journals, self.cap, self.identity.table
        caps = [home for home, lines in journals.items() for _ in lines.caps]
        if cap is None:
            strict = [home for home, lines in journals.items() if lines.requires_caps]
            decide = f"have the curator decide: CALL mwem_budget('{table.table}', epsilon)"
            if caps:
                what = f"has no cap, and database {caps[0]} has tables with one, whose rows it may hold"
                raise self._refused(what, f"{decide} gives it an account of its own")
            if strict:
                what = f"has no cap, and the policy of database {strict[0]} requires one"
                raise self._refused(what, f"{decide} sets it")
            return
        if len(caps) > 1 and self.books.is_known_by_name_only(self.home, self.identity):
            raise self._refused(
                f"was replaced, and {len(caps)} tables have caps, so that its rows may be another's",
                f"have the curator confirm: CALL mwem_budget('{table.table}', {float(cap.budget.epsilon):g}) charges "
                "them to the account of this name; TRUNCATE and INSERT keep it",
            )
        twins = [home for home, lines in journals.items() if home != self.home and self.account in lines.keys.values()]
        if twins:
            raise self._refused(
                f"has its account in database {twins[0]}, too: one file is a copy of the other",
                "DETACH the copy, and release from one file only: each counts what it was asked itself",
            )
        if not private:
            raise seed_refused(table.table)
        cap.check(table.table, charge, self.charges)

    def _caps_of(self, user: str | None) -> list[tuple[str | None, str, Cap]]:
        """The caps of a user, on this table and on all together: whose account, what it is called, and the cap."""
        name = self.identity.table.table
        scopes = [] if user is None else [(self.account, f"{name} for {user}"), (None, f"all tables for {user}")]
        caps = [(account, text, self.journal.cap(account, user)) for account, text in dict.fromkeys(scopes)]
        return [(account, text, cap) for account, text, cap in caps if cap is not None]

    def check_caps_of(self, user: str | None, charge: Charge) -> None:
        """Refuse what a user's caps do not allow."""
        for account, text, cap in self._caps_of(user):
            cap.check(text, charge, self.journal.charges_of(account, cap))

    def _renew(self, con: duckdb.DuckDBPyConnection, user: str | None) -> bool:
        """Write down the caps whose window has passed as new ones; whether there were any."""
        caps = [(self.account, self.cap), *((account, cap) for account, _, cap in self._caps_of(user))]
        lines = [
            journal.cap_line(cap, account, ("", "", "") if account is None else self._first_name(account))
            for account, cap in caps
            if cap is not None and cap != self.journal.cap_as_written(account, cap.user)
        ]
        journal.append(con, self.home, *lines)
        return bool(lines)

    def balance_under(self, cap: Cap) -> Balance:
        """What the cap of a user on this table leaves them."""
        present = self.journal.cap(self.account, cap.user)
        assert present is not None
        return Balance.of(present, self.journal.charges_of(self.account, present))

    def _refused(self, what: str, hint: str) -> MwemError:
        return refuse(BudgetError, RELEASE, f"table ({self.identity.table}) {what}", hint)

    def _unit_id(self, con: duckdb.DuckDBPyConnection, column: str, *, is_table: bool = False) -> str:
        """What a unit's column, or table, is known by however it is renamed; it carries that from now on if it can."""
        carrier, account = self.identity.unit if is_table else self.identity.carrier, self.account
        if carrier is None:
            return ""
        present = self.books.unit(con, self.home, self.identity, carrier, column)
        if account is not None:
            same = self.journal.keys.get(accounts.unit_key(account, present))
            if same is not None:
                return same
            # Of a table that was replaced its name decides, and so do those of its columns: the cap's comes first.
            units = [*self.journal.charges(account), self.journal.cap(account)]
            ids = {fold(each.unit): each.unit_id for each in units if each and each.unit}
            if self.partition is not None:
                ids[fold(self.partition.name)] = self.partition.id
            before = ids.get(fold(column))
            if before and self.books.is_known_by_name_only(self.home, self.identity):
                if not self._carry_unit(con, carrier, column, before):
                    self._give_keys(con, {accounts.unit_key(account, present): before})
                return before
        unit, has_files = present or uuid.uuid4().hex[:8], isinstance(carrier, FilesUnit)  # files may have been added
        return unit if (present and not has_files) or self._carry_unit(con, carrier, column, unit) else ""

    def unit_of_table(self, con: duckdb.DuckDBPyConnection) -> str:
        """What the table that is the unit is known by; empty if nothing says it yet."""
        unit = self.identity.unit
        return "" if unit is None else self.books.unit(con, self.home, self.identity, unit, "")

    def _carry_unit(self, con: duckdb.DuckDBPyConnection, carrier: accounts.Carrier, column: str, unit: str) -> bool:
        """Let a unit be known by `unit` from now on; false where that cannot be."""
        files = carrier.keys if isinstance(carrier, FilesUnit) else ()
        self._give_keys(con, {each: unit for each in files if each not in self.journal.keys})
        return carrier.carry_unit(con, column, unit)

    def _open_account(self, con: duckdb.DuckDBPyConnection) -> str:
        """The account, opened if there is none, with the keys that are new to it; what can carry it does."""
        account = self.account or uuid.uuid4().hex[:16]
        fresh = [each for each in self.identity.first_keys if each not in self.journal.keys]
        self._give_keys(con, dict.fromkeys(fresh, account))
        for carrier in self.identity.carriers:
            if carrier.account(con) is None:
                carrier.carry(con, account)
        return account

    def _give_keys(self, con: duckdb.DuckDBPyConnection, accounts: dict[Key, str]) -> None:
        """Let keys belong to an account, or to a unit of one, from now on."""
        lines = [
            {"event": "key", "account": account, **journal.columns_of_key(each)} for each, account in accounts.items()
        ]
        if lines:
            journal.append(con, self.home, *lines)

    def _first_name(self, account: str) -> Key:
        """A name that is this account's and no other's, and always the same one: that of its cap."""
        of_caps = [journal.key_of(line) for line in self.journal.caps.get(account, [])]
        of_keys = [each for each, holder in self.journal.keys.items() if holder == account]
        return (*of_caps, *of_keys, *self.identity.first_keys)[0]

    def open_entry(
        self, con: duckdb.DuckDBPyConnection, account: str | None, charge: Charge | None, output: str | None,
        **facts: object,
    ) -> str:  # fmt: skip
        """Write an entry, and return its id. A note has no charge."""
        entry = uuid.uuid4().hex
        line: Row = {
            "event": "entry",
            "entry": entry,
            **journal.columns_of_key(self._name),
            "account": account,
            "output": output,
        }
        if charge is None:
            line |= journal.numbers(Fraction(0), Fraction(0))
            line |= {"rho_exact": "0", "failure_exact": "0", "rows_per_unit": 1, "unit_is_computed": False}
        else:
            line |= journal.numbers(charge.budget.epsilon, charge.budget.delta)
            line |= {
                "rho_exact": str(charge.rho), "failure_exact": str(charge.failure), "unit": charge.unit,
                "rows_per_unit": charge.rows_per_unit, "unit_is_computed": charge.computed, "unit_id": charge.unit_id,
            }  # fmt: skip
            if charge.scope is not None and charge.partition is not None:
                by = charge.partition
                line |= {
                    "partition_by": by.name, "partition_id": by.id, "partition_type": by.type,
                    "partition": charge.scope.words(by.type), "partition_exact": charge.scope.exact(),
                }  # fmt: skip
        journal.append(con, self.home, line | {"request": ""} | facts)
        return entry

    @property
    def _name(self) -> Key:
        """How the table is shown."""
        table = self.identity.table
        return "" if self.home == table.database else table.database, table.schema, table.table

    def _prepare(self, con: duckdb.DuckDBPyConnection) -> None:
        metadata.prepare(con, self.home, "ledger.sql")


def ledger_of(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Ledger:
    """The ledger that answers for a relation; refused where it could not be written."""
    ledger = read_ledger(con, relation, place, function)
    ledger.check_writable(catalog.databases(con), place, function)
    return ledger


def read_ledger(con: duckdb.DuckDBPyConnection, relation: Relation, place: Place, function: str) -> Ledger:
    """The same, to be read only."""
    databases, table = catalog.databases(con), relation.charged
    identity = identity_of(relation, databases)
    books = _read(con, identity)
    if not set(relation.public_marks) <= {mark for lines in books.journals.values() for mark in lines.public}:
        what = f"table ({table}) has to do with a table whose comment says that it is public, and no ledger does"
        cure = "ATTACH the database that has its ledger; or COMMENT ON TABLE ... IS NULL, and then mwem_public says so"
        raise refuse(BudgetError, function, what, cure)
    if relation.source is not None:
        return Ledger(books.home(identity, relation.source.home, function), identity, books)
    read_only = table.database in databases and databases[table.database].read_only
    is_table = relation.files is None
    if is_table and read_only and table.database in books.journals and books.journals[table.database].lines:
        what = f"table ({table}) is in a file that has a ledger of its own, which is attached READ_ONLY"
        raise refuse(BudgetError, function, what, "attach it writable, so that the release can be debited there")
    home = books.home(identity, place.database if read_only else table.database, function)
    if is_table and not read_only and home != table.database:
        return Ledger(home, identity.elsewhere).at(con)
    return Ledger(home, identity, books)


def _read(con: duckdb.DuckDBPyConnection, identity: Identity) -> Books:
    marks = identity.marks(con)  # first: the journals that are read after it have its accounts, whoever opens one now
    return Books(journal.read_all(con), marks)
