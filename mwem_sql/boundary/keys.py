"""The keys of the tables of a schema, and what leads where by them: decided by the catalog, never by text.

    unique     a PRIMARY KEY or UNIQUE constraint: at most one row has the same values in all of its columns
    foreign    a FOREIGN KEY constraint, or a row of the table `mwem_keys` beside the tables, which the curator writes
               where an engine has no constraints: (table_name, columns, refers_to, refers_columns)
    public     a table that the curator has said is public (`mwem_public`): keys that refer to it lead nowhere
    leads      a table leads to another by a foreign key, or to one that leads there

A unit may be a row of a table and all rows that lead to it. There must be one path to it, without a cycle. Reads the
catalog and `mwem_keys`, never a private row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from mwem_sql.boundary.public import check_public
from mwem_sql.boundary.sources import Constraint
from mwem_sql.errors import TableError, did_you_mean, refuse
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column, Name, Place

KEY_TABLE = "mwem_keys"
"""Where a curator declares foreign keys, beside the tables."""
KEY_COLUMNS = {"table_name": "VARCHAR", "columns": "VARCHAR[]", "refers_to": "VARCHAR", "refers_columns": "VARCHAR[]"}
# Of these types equal values are the same value: no collation (it is taken off), no -0.0, no NaN, no time zone.
_TYPES = (
    "VARCHAR", "UUID", "BLOB", "BOOLEAN", "DATE", "TIMESTAMP", "ENUM(", "DECIMAL(", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """A key that refers to a key of another table; `refers_columns` are in the order of `columns`."""

    table: Name
    columns: tuple[str, ...]
    refers_to: Name
    refers_columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of a schema, by tables. `marks` has for each public table what its comment says."""

    unique_keys: Mapping[Name, tuple[tuple[str, ...], ...]]
    foreign_keys: tuple[ForeignKey, ...]
    marks: Mapping[Name, str]

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection, name: Name, function: str) -> Keys:
        """The keys of the schema that a relation is in. No constraint of DuckDB's leaves it."""
        unique: dict[Name, list[tuple[str, ...]]] = {}
        foreign = []
        for table, kind, columns, refers_to, refers_columns in catalog.constraints(con, name):
            if refers_to is not None:
                key = ForeignKey(table=table, columns=columns, refers_to=refers_to, refers_columns=refers_columns)
                foreign.append(key)
            else:
                listed = unique.setdefault(table, [])
                listed.insert(0 if kind == "PRIMARY KEY" else len(listed), columns)
        return cls(
            unique_keys={table: tuple(listed) for table, listed in unique.items()},
            foreign_keys=(*foreign, *_declared(con, name, function)),
            marks=catalog.public_marks(con, name),
        )

    @classmethod
    def of_source(cls, alias: str, constraints: Sequence[Constraint]) -> Keys:
        """The keys of a database of a source, as its engine has them. No table of it is public."""
        unique: dict[Name, list[tuple[str, ...]]] = {}
        foreign = []
        for each in constraints:
            table = Name(alias, *each.table)
            if each.refers_to:
                refers_to = Name(alias, *each.refers_to)
                foreign.append(
                    ForeignKey(
                        table=table, columns=each.columns, refers_to=refers_to, refers_columns=each.refers_columns
                    )
                )
            else:
                listed = unique.setdefault(table, [])
                listed.insert(0 if each.is_primary else len(listed), each.columns)
        listed_keys = {table: tuple(listed) for table, listed in unique.items()}
        return cls(unique_keys=listed_keys, foreign_keys=tuple(foreign), marks={})

    @classmethod
    def declared(cls, con: duckdb.DuckDBPyConnection, place: Place, beside: Name, function: str) -> Keys:
        """Those that `mwem_keys` in a place declares of tables elsewhere, which are beside one another."""
        rows = _key_rows(con, place, (), function)
        foreign = tuple(
            ForeignKey(
                table=beside.beside(fold(table)),
                columns=tuple(columns),
                refers_to=beside.beside(fold(refers_to)),
                refers_columns=tuple(refers_columns),
            )
            for table, columns, refers_to, refers_columns in rows
        )
        return cls(unique_keys={}, foreign_keys=foreign, marks={})

    def unique(self, table: Name) -> tuple[tuple[str, ...], ...]:
        """The columns of each key of a table: those of its PRIMARY KEY first, those that `mwem_keys` refers to last."""
        referred = (each.refers_columns for each in self.foreign_keys if each.refers_to == table)
        return tuple(dict.fromkeys((*self.unique_keys.get(table, ()), *referred)))

    def is_unique(self, table: Name, columns: Sequence[str], *, enforced: bool = False) -> bool:
        """Whether these are all columns of one key; `enforced`: of one that the engine itself keeps."""
        listed = self.unique_keys.get(table, ()) if enforced else self.unique(table)
        return any(same_columns(columns, each) for each in listed)

    def is_public(self, table: Name) -> bool:
        return table in self.marks

    def foreign(self, table: Name) -> tuple[ForeignKey, ...]:
        """The foreign keys of a table, but for those that refer to public tables."""
        return tuple(each for each in self.foreign_keys if each.table == table and not self.is_public(each.refers_to))

    def children(self, table: Name) -> tuple[ForeignKey, ...]:
        """The foreign keys that refer to a table."""
        return tuple(each for each in self.foreign_keys if each.refers_to == table and not self.is_public(each.table))

    def above(self, table: Name) -> tuple[Name, ...]:
        """A private table and all that it leads to, the nearest first."""
        out = [table]
        for each in out:
            out += [key.refers_to for key in self.foreign(each) if key.refers_to not in out]
        return tuple(dict.fromkeys(out))

    def leading(self, table: Name) -> tuple[Name, ...]:
        """A private table and all that lead to it, the nearest first."""
        out = [table]
        for each in out:
            out += [key.table for key in self.children(each) if key.table not in out]
        return tuple(dict.fromkeys(out))

    def tree(self, table: Name) -> tuple[Name, ...]:
        """All private tables that keys connect with one, itself first: they have one account."""
        out = [table]
        for each in out:
            near = [key.refers_to for key in self.foreign(each)] + [key.table for key in self.children(each)]
            out += [name for name in dict.fromkeys(near) if name not in out]
        return tuple(out)

    def public_near(self, tables: Sequence[Name]) -> tuple[str, ...]:
        """The marks of other public tables that keys of some tables refer to, or the other way round.

        Not of these themselves: one that is charged is public no more, and the release is of it all the same.
        """
        near = {key.refers_to for key in self.foreign_keys if key.table in tables}
        near |= {key.table for key in self.foreign_keys if key.refers_to in tables}
        return tuple(sorted(self.marks[table] for table in near.difference(tables) if table in self.marks))

    def named(self, table: Name, columns: Sequence[str]) -> dict[Name, tuple[str, ...]]:
        """Of which tables some columns name at most one row, and by which of their columns, in the same order.

        Of the table itself where they are a key of it; of those that a foreign key of exactly these columns refers to.
        """
        out = {table: tuple(columns)} if self.is_unique(table, columns) else {}
        for key in self.foreign(table):
            if same_columns(columns, key.columns):
                referred = {fold(one): other for one, other in zip(key.columns, key.refers_columns, strict=True)}
                out[key.refers_to] = tuple(referred[fold(column)] for column in columns)
        return out

    def path(self, table: Name, unit: Name, function: str) -> tuple[ForeignKey, ...]:
        """The foreign keys from a table to the unit that its rows are of; none from the unit's own table."""
        around = next((each for each in self.above(table) if unit in self.above(each) and self._circles(each)), None)
        if around is not None:
            what = f"unit ({unit.table!r}) cannot be told of rows of {table.table}: the keys of {around.table} lead to"
            cure = f"release from a copy without that key: CREATE TABLE {around.table}_copy AS FROM {around.table}"
            raise refuse(
                TableError, function, f"{what} {around.table} again", f"{cure}, with the others in {KEY_TABLE}"
            )
        paths = list(self._paths(table, unit))
        if len(paths) == 1:
            return paths[0]
        if not paths:
            what = f"unit ({unit.table!r}) is a table that no FOREIGN KEY of {table.table} leads to"
            raise refuse(TableError, function, what, f"declare the key: {declaration(table, unit, self.unique(unit))}")
        ways = " and ".join(" -> ".join([table.table, *(key.refers_to.table for key in path)]) for path in paths[:2])
        by = " and by ".join(", ".join(path[0].columns) for path in paths[:2])
        what = f"unit ({unit.table!r}) has {len(paths)} paths from {table.table} ({ways}; by {by}), so that a row"
        cure = f"release from a copy of {table.table} with one of the keys: CREATE TABLE {table.table}_copy AS FROM"
        raise refuse(
            TableError,
            function,
            f"{what} is of two units",
            f"{cure} {table.table}, and declare that one in {KEY_TABLE}",
        )

    def single_path(self, table: Name, unit: Name) -> tuple[ForeignKey, ...] | None:
        """The one path to a unit; None where there is none, or rows could be of several units."""
        if any(unit in self.above(each) and self._circles(each) for each in self.above(table)):
            return None
        paths = list(self._paths(table, unit))
        return paths[0] if len(paths) == 1 else None

    def _paths(self, table: Name, unit: Name) -> Iterator[tuple[ForeignKey, ...]]:
        if table == unit:
            yield ()
            return
        for key in self.foreign(table):
            if unit in self.above(key.refers_to):
                for rest in self._paths(key.refers_to, unit):
                    yield (key, *rest)

    def _circles(self, table: Name) -> bool:
        return any(table in self.above(key.refers_to) for key in self.foreign(table))


def declaration(table: Name, refers_to: Name, keys: Sequence[Sequence[str]], columns: Sequence[str] = ()) -> str:
    """Statements that declare a foreign key; they can be pasted once the columns are right."""
    key = keys[0] if keys else columns or (f"{refers_to.table}_id",)
    row = [exp.convert(table.table), _list(columns or key), exp.convert(refers_to.table), _list(key)]
    insert = exp.insert(exp.Values(expressions=[exp.Tuple(expressions=row)]), KEY_TABLE)
    return f"{_created()}; {insert.sql('duckdb')}"


def has_plain_type(column: Column) -> bool:
    """Whether equal values of a column are the same value, so that a key may be of it."""
    return column.type.startswith(_TYPES) and not column.type.endswith("]")


def _declared(con: duckdb.DuckDBPyConnection, name: Name, function: str) -> Iterator[ForeignKey]:
    """The rows of `mwem_keys` beside a relation, each checked against the catalog."""
    rows = _key_rows(con, Place(name.database, name.schema), (name,), function)
    if not rows:
        return
    tables, views = (catalog.schema_columns(con, name, views=views) for views in (False, True))
    named = {fold(text) for row in rows for text in (row[0], row[2])}
    beside = tables | {
        table: columns
        for table, columns in views.items()
        if table not in tables and fold(table) in named and _reads_files(con, name.beside(table))
    }
    for child, columns, parent, refers_columns in rows:
        pairs = [(child, columns), (parent, refers_columns)]
        (here, ours), (there, theirs) = (_found(beside, text, listed, function) for text, listed in pairs)
        for text, listed in ((here, ours), (there, theirs)):
            generated = catalog.generated_columns(con, name.beside(text))
            if odd := [column.name for column in listed if column.name in generated]:
                what = f"key table ({KEY_TABLE!r}) names the column {odd[0]!r} of {text}, which is generated"
                raise refuse(TableError, function, what, "make it a plain column")
        for one, two in zip(ours, theirs, strict=True):
            if one.type != two.type or not has_plain_type(one):
                what = f"key table ({KEY_TABLE!r}) has {child}.{one.name} ({one.type}) refer to {parent}.{two.name}"
                cure = "columns of a key are of one type, a number, text, date or UUID: change one of them"
                raise refuse(TableError, function, f"{what} ({two.type})", cure)
        yield ForeignKey(
            table=name.beside(here),
            columns=tuple(column.name for column in ours),
            refers_to=name.beside(there),
            refers_columns=tuple(column.name for column in theirs),
        )


def _reads_files(con: duckdb.DuckDBPyConnection, view: Name) -> bool:
    """Whether a view reads no table: its keys are then its own. What it may be at all, `relations` says."""
    for table in catalog.view_query(con, view).find_all(exp.Table):
        if not isinstance(table.this, exp.Func):
            dotted = ".".join(quoted(part.name) for part in table.parts)
            below = catalog.find(con, dotted, Place(view.database, view.schema))
            if below is not None and not (below[1] and _reads_files(con, below[0])):
                return False
    return True


def _key_rows(
    con: duckdb.DuckDBPyConnection, place: Place, private: tuple[Name, ...], function: str
) -> list[tuple[str, list[str], str, list[str]]]:
    """The rows of `mwem_keys` in a schema; none where it is not there."""
    relation = catalog.find(con, Name(place.database, place.schema, KEY_TABLE).quoted(), place)
    if relation is None:
        return []
    check_public(con, relation, private, "key table", function)
    present = [fold(column.name) for column in catalog.columns(con, relation[0])]
    if present != list(KEY_COLUMNS):
        what = f"key table ({KEY_TABLE!r}) has the columns {', '.join(present)}"
        raise refuse(TableError, function, what, f"it has {', '.join(KEY_COLUMNS)}: {_created()}")
    read = exp.select(*(exp.column(column, quoted=True) for column in KEY_COLUMNS)).from_(relation[0].tree()).distinct()
    rows = sorted(con.execute(read.sql("duckdb")).fetchall(), key=repr)
    for child, columns, parent, refers_columns in rows:
        is_key = all(text and each and None not in each for text, each in ((child, columns), (parent, refers_columns)))
        if not is_key or len(columns) != len(refers_columns):
            shown = f"({child}, {columns}, {parent}, {refers_columns})"
            what = f"key table ({KEY_TABLE!r}) has a row {shown} that is no key"
            raise refuse(TableError, function, what, "name both tables, and as many columns of each")
    return rows


def _found(
    beside: Mapping[str, Sequence[Column]], text: str, columns: Sequence[str], function: str
) -> tuple[str, list[Column]]:
    """A table that `mwem_keys` names, and columns of it."""
    tables = {fold(each): each for each in beside}
    table = tables.get(fold(text))
    if table is None:
        what = f"key table ({KEY_TABLE!r}) names the table {text!r}, which is not beside it"
        near = did_you_mean(text, list(beside))
        raise refuse(TableError, function, what, f"{near}correct the row of {KEY_TABLE}, or delete it")
    present = {fold(column.name): column for column in beside[table]}
    for column in columns:
        if fold(column) not in present:
            what = f"key table ({KEY_TABLE!r}) names the column {column!r}, which {text} has not"
            names = [each.name for each in present.values()]
            raise refuse(TableError, function, what, f"{did_you_mean(column, names)}its columns are {', '.join(names)}")
    return table, [present[fold(column)] for column in columns]


def same_columns(columns: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two lists are of the same columns, in whatever order."""
    return sorted(map(fold, columns)) == sorted(map(fold, others))


def _list(columns: Sequence[str]) -> exp.Array:
    return exp.Array(expressions=[exp.convert(column) for column in columns])


def _created() -> str:
    """The statement that creates `mwem_keys`."""
    kinds = [
        exp.ColumnDef(this=exp.to_identifier(name), kind=exp.DataType.build(kind, dialect="duckdb"))
        for name, kind in KEY_COLUMNS.items()
    ]
    made = exp.Schema(this=exp.table_(KEY_TABLE), expressions=kinds)
    return exp.Create(this=made, kind="TABLE", exists=True).sql("duckdb")
