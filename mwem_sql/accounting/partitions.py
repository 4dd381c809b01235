"""For which values of the column that its account is partitioned by a release counts, and why it counts for all.

Owns the conditions under which charges do not add up: the account has such a column (`mwem_partition`), it is a plain
column of the protected table itself, of a type whose values are compared by themselves, each row is protected by
itself, and the conditions of the view say which values its rows can have. Where one of these does not hold, a release
counts for all values. Reads the catalog and the journal. Must not write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import duckdb

from mwem_sql.accounting.accounts import TableCarrier
from mwem_sql.accounting.caps import Balance, PartitionColumn
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.boundary.relations import Relation
from mwem_sql.boundary.scope import EVERYTHING, Scope, is_comparable, scope_of
from mwem_sql.errors import OptionError, did_you_mean, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.metadata import Row

Settings = Mapping[str, object]


@dataclass(frozen=True)
class Extent:
    """For which values of a partition column a release counts: `scope`; None for all, and `reason` says why.

    `is_whole`: because all rows of the table are released.
    """

    partition: PartitionColumn | None = None
    scope: Scope | None = None
    reason: str = ""
    is_whole: bool = False

    @property
    def words(self) -> str | None:
        """For people; None where nothing is partitioned."""
        if self.partition is None:
            return None
        if self.scope is not None:
            return f"{self.partition.name} {self.scope.words(self.partition.type)}"
        return f"every {self.partition.name}: {self.reason}"

    @property
    def warning(self) -> str | None:
        """Where releases add up, in words; that those of the whole table do is no surprise."""
        if self.partition is None or self.scope is not None or self.is_whole:
            return None
        return f"this release counts for every {self.partition.name}, because {self.reason}"


def extent_of(
    con: duckdb.DuckDBPyConnection, ledger: Ledger, relation: Relation, unit: str | None, settings: Settings
) -> Extent:
    """For which values a release of a relation counts. `con` sees the table as the scans will."""
    partition = ledger.partition
    if partition is None:
        return Extent()
    if unit is not None:
        why = f"all rows of one {unit} are protected together, and they may have any"
        return Extent(partition, None, f"{why} {partition.name}")
    column = _column_of(con, ledger, partition)
    if column is None:
        return Extent(partition, None, "that column is gone: mwem_partition declares another")
    if not partition.has_kind(column.type) or _objection(con, relation, column, settings) is not None:
        return Extent(partition, None, f"that column is no longer what was declared ({partition.type})")
    scope = scope_of(relation.conditions, column.name, column.type, settings)
    if scope not in {EVERYTHING, Scope()}:
        return Extent(partition, scope)
    if not relation.conditions:
        return Extent(partition, None, "it is of the whole table", is_whole=True)
    return Extent(
        partition, None, f"the conditions of {relation.name.table} do not say which {partition.name} its rows have"
    )


def partition_column(
    con: duckdb.DuckDBPyConnection, ledger: Ledger, relation: Relation, name: str, *, settings: Settings, function: str
) -> Column:
    """The column of the protected table that `mwem_partition` declares; refused where scopes could not be told."""
    table = relation.charged
    if not isinstance(ledger.identity.carrier, TableCarrier):
        what = f"table ({relation.name.table!r}) is not a DuckDB table that can be written, so that a column of it"
        cure = "files and tables that are released by themselves have accounts of their own; or load it into a table"
        raise refuse(OptionError, function, f"{what} cannot be marked", cure)
    columns = {fold(column.name): column for column in catalog.columns(con, table)}
    shown = {fold(column) for column in (each.name for each in relation.columns)}
    origin = next((each.name for key, each in relation.declared.items() if fold(key) == fold(name)), None)
    column = columns.get(fold(origin if origin is not None else name))
    if column is None or (origin is None and fold(name) in shown):
        names = [each.name for each in columns.values()]
        is_computed = fold(name) in shown
        what = f"column ({name!r}) is {'computed by a view' if is_computed else f'not a column of {table.table}'}"
        near = did_you_mean(name, names)
        hint = f"{near}name a column of {table.table} itself: {', '.join(map(literal, names))}"
        raise refuse(OptionError, function, what, hint)
    objection = _objection(con, relation, column, settings)
    if objection is not None:
        raise refuse(OptionError, function, f"column ({name!r}) {objection[0]}", objection[1])
    cap = ledger.cap
    if cap is not None and cap.unit is not None:
        what = f"column ({name!r}) cannot make charges of {table.table} add up by value: its cap is for {cap.protects}"
        cure = f"a {cap.unit} may have rows with any {column.name}; leave it, or set a cap for single rows"
        raise refuse(OptionError, function, what, cure)
    return column


def balance_rows(ledger: Ledger) -> Iterator[Row]:
    """What is spent and left at each value that has charges of its own; then at all other values."""
    partition, charges = ledger.partition, ledger.charges
    charged = reduce(Scope.__or__, (each.scope for each in charges if each.scope is not None), Scope())
    others = None
    for scope, balance in Balance.by_value(ledger.cap, charges):
        if partition is None or scope.is_disjoint(charged):
            others = balance
        else:
            yield _balance_row(partition, scope.words(partition.type), balance)
    if others is not None:
        yield _balance_row(partition, None, others)


def _balance_row(partition: PartitionColumn | None, words: str | None, balance: Balance) -> Row:
    return {
        "partition_by": None if partition is None else partition.name, "partition": words,
        "epsilon_spent": balance.epsilon_spent, "epsilon_left": balance.epsilon_left,
    }  # fmt: skip


def _column_of(con: duckdb.DuckDBPyConnection, ledger: Ledger, partition: PartitionColumn) -> Column | None:
    """The column that was declared, however it is called now; of a table that was replaced, the one of its name."""
    if not isinstance(ledger.identity.carrier, TableCarrier):
        return None
    by_name = ledger.books.is_known_by_name_only(ledger.home, ledger.identity)
    for column in catalog.columns(con, ledger.identity.carrier.table):
        if column.id == partition.id or (by_name and fold(column.name) == fold(partition.name)):
            return column
    return None


def _objection(
    con: duckdb.DuckDBPyConnection, relation: Relation, column: Column, settings: Settings
) -> tuple[str, str] | None:
    """Why a column cannot partition a table, and what to do."""
    table = relation.charged
    if column.name in catalog.generated_columns(con, table):
        return "is computed from others, which may change", "name a plain column"
    if not is_comparable(column.type):
        rule = "whose values cannot be told apart by conditions"
        return f"is of type {column.type}, {rule}", "take a text, a whole number, a date, a timestamp, ENUM or BOOLEAN"
    (session,) = con.execute("SELECT current_setting('default_collation')").fetchall()
    if column.type != "VARCHAR" and not column.type.startswith("ENUM("):
        return None
    if column.name in catalog.collated_columns(con, table) or session[0] or settings.get("default_collation"):
        return (
            "is compared under a collation, so that different texts may be equal",
            f"take it off: ALTER TABLE {table.table} ALTER {column.name} TYPE VARCHAR; or RESET default_collation",
        )
    return None
