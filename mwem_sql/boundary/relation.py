"""A private relation, as `relations` describes it: its columns, what scans read, and whose rows are in it.

Records only: they look nothing up, and say which unit has all rows that are in one row (`Relation.check_unit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from mwem_sql.boundary.files import FileName, Files
from mwem_sql.boundary.sides import ROW_ALIAS
from mwem_sql.boundary.sources import Source
from mwem_sql.errors import OptionError, did_you_mean, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform.catalog import Column, Name, split_name
from mwem_sql.platform.metadata import Key

UNIT_COLUMN = "__mwem_unit"
"""What hidden columns begin with that say of which unit a row is; no column of the user has such a name."""


@dataclass(frozen=True, kw_only=True)
class KeyUnit:
    """A unit that is a row of a table and all rows that lead to it. `table` is that table.

    `columns` are hidden ones of what a scan reads: the values of a key of `table`, by which a row leads to it. `path`
    are the tables on the way, that of the row first. `id` identifies the table through every rename.
    """

    table: Name
    columns: tuple[Column, ...]
    path: tuple[Name, ...]
    id: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A table of which at most one row is in each row of a view. `optional`: by a LEFT JOIN, so that it may be none.

    `units` are the tables whose units have this row and the rest of the view's row, whatever they are: the nearest
    first; of a public table, none are needed. `mark` says that it is public. `declared`, `checks` and `computed` are as
    those of a `Relation`.
    """

    name: Name
    optional: bool
    units: tuple[Name, ...] = ()
    mark: str | None = None
    declared: dict[str, Column] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    computed: dict[str, str] = field(default_factory=dict)
    side: int = 0  # of the view that joins it; 0 above


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A private relation. `below` is what a view reads: views, and last a table; or `files`.

    `declared` maps its columns to the table's, where they are the same values, so that `checks` and `computed`, which
    speak of the table's columns, speak of them too. `joined` are what its rows have besides. `keyed` has for a column
    of the table the tables of which it names a row. `connected` are the private tables that keys connect with its own,
    and `public_marks` what says that others are public. `conditions` are those of the views, of the table's columns and
    of placeholders for all else.
    """

    name: Name
    columns: tuple[Column, ...]
    rows: exp.Expr
    checks: tuple[str, ...] = ()
    below: tuple[Name, ...] = ()
    declared: dict[str, Column] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)  # what the table's generated columns are computed by
    files: Files | None = None
    conditions: tuple[exp.Expr, ...] = ()
    odd: dict[str, str] = field(default_factory=dict)  # generated columns that may not be read, and why
    source: Source | None = None  # where it is, if not in this instance
    keys: tuple[tuple[Key, ...], ...] = ()  # of its rows, there
    mark: str | None = field(default=None, compare=False)  # the account that it carries there
    definition: object = None
    base: Name | None = None  # the table of a source whose rows they are, where its engine tells, and what that is
    base_id: str = field(default="", compare=False)  # known by through every rename; a mark may be still to come
    beside: tuple[Relation, ...] = field(default=(), compare=False)  # of files, and where an engine keeps no keys: all
    # that keys connect with it
    joined: tuple[Joined, ...] = ()
    unit: KeyUnit | None = None
    keyed: dict[str, tuple[Name, ...]] = field(default_factory=dict)
    connected: tuple[Name, ...] = ()
    public_marks: tuple[str, ...] = ()

    def tree(self) -> exp.Expr:
        """What a scan reads: the table, or the view written out."""
        return self.rows.copy()

    @property
    def tables(self) -> tuple[Relation | Joined, ...]:
        """All tables that its columns are of, with what each declares of its own."""
        return (self, *self.joined)

    @property
    def dialect(self) -> str:
        return "duckdb" if self.source is None else self.source.engine.dialect

    @property
    def charged(self) -> Name:
        """The relation whose rows are protected: the table under a view; of files, the view."""
        return self.names[-1]

    @property
    def names(self) -> tuple[Name, ...]:
        """All names under which its rows are asked for: its own, and those below."""
        return (self.name, *self.below)

    @property
    def private_names(self) -> tuple[Name, ...]:
        """All names of private rows that it has to do with: those, what it joins, and all that keys connect with it."""
        joined = (each.name for each in self.joined if each.mark is None)
        return tuple(dict.fromkeys((*self.names, *joined, *self.connected)))

    @property
    def keeps_keys(self) -> bool:
        """Whether its engine has constraints that say whose rows lead where; else it is `mwem_keys`."""
        return self.files is None and (self.source is None or self.source.engine.keeps_keys)

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.unit.columns) if self.unit is not None else ()

    def of_rows(self, text: str) -> Relation:
        """The same with its own rows as units, and all that leads to them, if a text names it and none of its columns.

        A table of a source, or a view of files: elsewhere a table has them by its constraints.
        """
        table = self.base if self.files is None else self.name
        parts = [fold(part) for part in split_name(text)]
        if table is None or isinstance(table, FileName) or any(fold(each.name) == fold(text) for each in self.columns):
            return self
        if [fold(table.database), *table.identity][-len(parts) :] != parts:
            return self
        return replace(self, unit=KeyUnit(table=table, columns=(), path=(table,), id=self.base_id))

    def check_unit(self, unit: str | None, function: str) -> None:
        """Refuse a unit that does not have all rows of private tables which are in one row of the relation."""
        mine: tuple[Name, ...] = ()
        if self.unit is not None:
            mine = (self.unit.table,)
        elif unit is not None and (origin := self.origin(unit, function)) is not None:
            mine = self.keyed.get(origin.name, ())
        private = [each for each in self.joined if each.mark is None]
        for each in private:
            if set(mine) & set(each.units):
                continue
            covering = [name for name in each.units if all(name in other.units for other in private)]
            whose = "one row" if unit is None else f"one {unit}"
            what = f"view ({self.name.table!r}) joins the private table {each.name.table}, whose rows would not be"
            hidden = any(fold(column.name) == fold(covering[0].table) for column in self.columns)
            table = f"{covering[0].schema}.{covering[0].table}" if hidden else covering[0].table
            cure = f"give unit := {literal(table)}, rows_per_unit := 1 or as many as most of them have"
            public = f"or have the curator say that all of {each.name.table} is public: CALL mwem_public"
            raise refuse(
                OptionError,
                function,
                f"{what} protected with {whose} of {self.charged.table}",
                f"{cure}; {public}({literal(each.name.table)})",
            )

    def column(self, unit: str, function: str) -> Column:
        """The column that identifies a unit."""
        # No collation reaches into values of these types, or it can be taken off (`codes.source`).
        allowed = (
            "VARCHAR", "UUID", "BLOB", "BOOLEAN", "DATE", "TIMESTAMP", "TIME", "ENUM(", "DECIMAL(", "FLOAT", "DOUBLE",
            "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "TINYINT", "SMALLINT", "INTEGER", "BIGINT",
            "HUGEINT",
        )  # fmt: skip
        column = next((column for column in self.columns if fold(column.name) == fold(unit)), None)
        if column is None:
            names = [column.name for column in self.columns]
            what = f"unit ({unit!r}) is not a column of {self.name.table}"
            hint = f"{did_you_mean(unit, names)}its columns are {', '.join(map(literal, names))}"
            raise refuse(OptionError, function, what, hint)
        if not column.type.startswith(allowed) or column.type.endswith("]"):
            what = f"unit ({unit!r}) is of type {column.type}, of which equal values need not be the same"
            raise refuse(OptionError, function, what, "identify units by a number, text, date or UUID")
        return column

    def origin(self, unit: str, function: str) -> Column | None:
        """The column of the protected table itself that identifies a unit; None if a view computes it."""
        return self.declared.get(self.column(unit, function).name)


def subquery(select: exp.Select, columns: Sequence[str]) -> exp.Subquery:
    """A SELECT as what another one reads, its columns under these names."""
    names = [exp.to_identifier(column, quoted=True) for column in columns]
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(ROW_ALIAS), columns=names))
