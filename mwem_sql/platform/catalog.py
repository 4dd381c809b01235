"""Names, columns, definitions: what DuckDB's catalog says of its tables and views. Reads no row, and judges nothing.

`estimated_size` and every other statistic stay untouched: they are exact, and so private.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, TypeVar

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.errors import TableError, did_you_mean, literal, refuse
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold

Value = TypeVar("Value")

# In a column's comment, which DuckDB keeps through every ALTER and rename.
_UNIT = re.compile(r"\s*\[mwem unit ([0-9a-f]+)\]")
# In a table's comment: the curator's word that it is public.
_PUBLIC = re.compile(r"\s*\[mwem public ([0-9a-f]+)\]")


@dataclass(frozen=True)
class Name:
    """A relation's full name, unquoted."""

    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.schema}.{self.table}"

    def tree(self) -> exp.Table:
        return exp.table_(self.table, db=self.schema, catalog=self.database, quoted=True)

    def quoted(self) -> str:
        return _quoted(self)

    def text(self, place: Place) -> str:
        """What a call from a place may say for it, in quotes where a part has a dot or a quote in it."""
        parts = [self.table] if Place(self.database, self.schema) == place else [self.database, self.schema, self.table]
        return ".".join(f'"{part.replace(chr(34), 2 * chr(34))}"' if set(part) & {".", '"'} else part for part in parts)

    def beside(self, table: str) -> Name:
        return Name(self.database, self.schema, table)

    @property
    def stem(self) -> str:
        """What names are made of that go with this one: `<stem>_synthetic`, `<stem>_domain`."""
        return self.table

    @property
    def identity(self) -> list[str]:
        """What tells it from other names of its database, as DuckDB does."""
        return [fold(self.schema), fold(self.table)]


@lru_cache(maxsize=1024)
def _quoted(name: Name) -> str:
    """Kept: to write it takes as long as to look it up."""
    return name.tree().sql("duckdb")


@dataclass(frozen=True)
class Place:
    """Where an unqualified name is looked up: the caller's current database and schema."""

    database: str
    schema: str

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection) -> Place:
        database, schema = con.execute("SELECT current_database(), current_schema()").fetchall()[0]
        return cls(database, schema)


@dataclass(frozen=True)
class Column:
    """A column. `id` identifies it in its table through every rename; empty where only its name does."""

    name: str
    type: str
    nullable: bool
    id: str = field(default="", compare=False)


def split_name(text: str) -> list[str]:
    """`a."b.c"` to its parts; a text that is not dotted identifiers is one part."""
    parts: list[str] = []
    position = 0
    part = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')
    while True:
        match = part.match(text, position)
        if match is None:
            return [text]
        parts.append(match[1].replace('""', '"') if match[1] is not None else match[2].strip())
        position = match.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            return [text]
        position += 1


def candidates(text: str, place: Place) -> Iterator[Name]:
    """The full names a text may mean, in DuckDB's order of preference."""
    parts = split_name(text)
    if len(parts) == 1:
        yield Name(place.database, place.schema, parts[0])
        yield Name(place.database, "main", parts[0])
    elif len(parts) == 2:
        yield Name(place.database, *parts)
        yield Name(parts[0], "main", parts[1])
    elif len(parts) == 3:
        yield Name(*parts)
    # Last, a name with dots or quotes in it that was written without quotes.
    yield Name(place.database, place.schema, text)


Relations = Mapping[tuple[str, ...], tuple[Name, bool]]
"""All relations by their folded names: in the catalog's own spelling, and whether each is a view."""


_READ: dict[int, dict[str, Any]] = {}
"""What was read of the catalog in a block of `read_once`, by the connection and the list."""


@contextmanager
def read_once(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Read no list of tables twice on this connection: what is decided together is decided by one state.

    To list tables takes as long as there are tables. Whoever creates or comments on something in the block does not see
    it there.
    """
    if id(con) in _READ:
        yield
        return
    _READ[id(con)] = {}
    try:
        yield
    finally:
        del _READ[id(con)]


def _once(con: duckdb.DuckDBPyConnection, key: str, read: Callable[[duckdb.DuckDBPyConnection], Value]) -> Value:
    lists = _READ.get(id(con))
    if lists is None:
        return read(con)
    if key not in lists:
        lists[key] = read(con)
    value: Value = lists[key]
    return value


def tables(con: duckdb.DuckDBPyConnection) -> list[tuple[Name, str]]:
    """All tables with what is noted on each."""
    return _once(con, "tables", _tables)


def _tables(con: duckdb.DuckDBPyConnection) -> list[tuple[Name, str]]:
    rows = con.execute("SELECT database_name, schema_name, table_name, comment FROM duckdb_tables()").fetchall()
    return [(Name(*row[:3]), row[3] or "") for row in rows]


def relations(con: duckdb.DuckDBPyConnection) -> Relations:
    """All relations, for several looks at one list."""
    return _once(con, "relations", _relations)


def _relations(con: duckdb.DuckDBPyConnection) -> Relations:
    # Names are compared here and not in SQL, where a macro of the user's may be called lower.
    views = con.execute(
        "SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal"
    ).fetchall()  # fmt: skip
    rows = [(name, False) for name, _ in tables(con)] + [(Name(*row), True) for row in views]
    return {(fold(name.database), fold(name.schema), fold(name.table)): (name, is_view) for name, is_view in rows}


def find(
    con: duckdb.DuckDBPyConnection, text: str, place: Place, among: Relations | None = None
) -> tuple[Name, bool] | None:
    """The relation that exists under a text, in the catalog's own spelling, and whether it is a view."""
    among = relations(con) if among is None else among
    names = ((fold(name.database), fold(name.schema), fold(name.table)) for name in candidates(text, place))
    return next((among[name] for name in names if name in among), None)


def nearest(con: duckdb.DuckDBPyConnection, text: str, place: Place) -> str:
    """The start of a hint: the table or view whose name is nearest to one that is not there. Ours are not for calls."""
    rows = con.execute(
        """SELECT database_name, schema_name, table_name FROM duckdb_tables()
           WHERE schema_name <> 'mwem' AND NOT temporary
           UNION SELECT database_name, schema_name, view_name FROM duckdb_views()
           WHERE NOT internal AND NOT temporary ORDER BY ALL"""
    ).fetchall()
    return nearest_of([Name(*row) for row in rows], text, place)


def nearest_of(names: Iterable[Name], text: str, place: Place) -> str:
    """The same among some names; one that is not in the caller's schema in full."""
    by_table: dict[str, Name] = {}
    for name in names:
        if name.table not in by_table or Place(name.database, name.schema) == place:
            by_table[name.table] = name
    return did_you_mean(split_name(text)[-1], by_table, shown=lambda near: literal(by_table[near].text(place)))


def columns(con: duckdb.DuckDBPyConnection, name: Name) -> tuple[Column, ...]:
    out = []
    for column, kind, nullable, text in _column_rows(con, name):
        mark = _UNIT.search(text or "")
        out.append(Column(column, kind, nullable, id=mark[1] if mark else ""))
    return tuple(out)


def _column_rows(con: duckdb.DuckDBPyConnection, name: Name) -> list[tuple[str, str, bool, str | None]]:
    """Name, type, whether it may be NULL, and comment of each column."""
    return con.execute(
        """SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns()
           WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index""",
        [name.database, name.schema, name.table],
    ).fetchall()


def checks(con: duckdb.DuckDBPyConnection, name: Name) -> tuple[str, ...]:
    rows = con.execute(
        """SELECT expression FROM duckdb_constraints()
           WHERE database_name = ? AND schema_name = ? AND table_name = ? AND constraint_type = 'CHECK'""",
        [name.database, name.schema, name.table],
    ).fetchall()
    return tuple(row[0] for row in rows)


def constraints(
    con: duckdb.DuckDBPyConnection, name: Name
) -> list[tuple[Name, str, tuple[str, ...], Name | None, tuple[str, ...]]]:
    """The keys of all tables of a relation's schema: table, kind, columns, and what a foreign key refers to."""
    rows = con.execute(
        """SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names
           FROM duckdb_constraints() WHERE database_name = ? AND schema_name = ?
           AND constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY') ORDER BY table_name, constraint_index""",
        [name.database, name.schema],
    ).fetchall()
    by_table = schema_columns(con, name) if rows else {}
    tables = {fold(table): name.beside(table) for table in by_table}
    columns = {(table, fold(each.name)): each.name for table, listed in by_table.items() for each in listed}
    out = []
    for table, kind, listed, refers_to, others in rows:
        # DuckDB has names here as the constraint spelled them.
        here = tables[fold(table)]
        other = tables.get(fold(refers_to)) if refers_to else None
        if refers_to and other is None:
            continue  # a table of that name is no more
        spelled = tuple(columns[here.table, fold(column)] for column in listed)
        referred = tuple(columns[other.table, fold(column)] for column in others) if other else ()
        out.append((here, kind, spelled, other, referred))
    return out


def schema_columns(con: duckdb.DuckDBPyConnection, name: Name, *, views: bool = False) -> dict[str, list[Column]]:
    """The columns of all tables of a relation's schema; those of `views` if they are asked for."""
    rows = con.execute(
        """SELECT c.table_name, c.column_name, c.data_type, c.is_nullable FROM duckdb_columns() AS c
           LEFT JOIN duckdb_tables() AS t ON t.table_oid = c.table_oid AND t.database_oid = c.database_oid
           WHERE c.database_name = ? AND c.schema_name = ? AND (? OR t.table_oid IS NOT NULL)
           ORDER BY c.table_name, c.column_index""",
        [name.database, name.schema, views],
    ).fetchall()
    out: dict[str, list[Column]] = {}
    for table, column, kind, nullable in rows:
        out.setdefault(table, []).append(Column(column, kind, nullable))
    return out


def public_marks(con: duckdb.DuckDBPyConnection, name: Name) -> dict[Name, str]:
    """The marks of all tables of a relation's schema that are public by the curator's word.

    None that carries an account: it was charged since.
    """
    marks = (
        (each, _PUBLIC.search(text)) for each, text in tables(con)
        if (each.database, each.schema) == (name.database, name.schema)
    )  # fmt: skip
    return {each: mark[1] for each, mark in marks if mark and "[mwem account " not in mark.string}


def view_query(con: duckdb.DuckDBPyConnection, name: Name) -> exp.Expr:
    """The SELECT of a view."""
    rows = con.execute(
        "SELECT sql FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?",
        [name.database, name.schema, name.table],
    ).fetchall()
    created = _parsed(rows[0][0], f"view ({name.table!r})")
    query = created.args.get("expression")
    return _unqualified(query if isinstance(query, exp.Expr) else created)


def generated_columns(con: duckdb.DuckDBPyConnection, name: Name) -> dict[str, exp.Expr]:
    """The expressions of a table's generated columns, by column."""
    created = _created(con, name)
    # Most tables have none, and the text of a thousand columns takes long to parse. This is how DuckDB prints one.
    if "GENERATED ALWAYS AS" not in created:
        return {}
    return {
        column.name: _unqualified(kind.expression)
        for column in _parsed(created, f"table ({name.table!r})").find_all(exp.ColumnDef)
        for kind in (constraint.args.get("kind") for constraint in column.args.get("constraints") or ())
        if isinstance(kind, exp.GeneratedAsIdentityColumnConstraint)
    }


def collated_columns(con: duckdb.DuckDBPyConnection, name: Name) -> set[str]:
    """The columns of a table that have a collation, under which different texts may be equal."""
    created = _created(con, name)
    if "COLLATE" not in created.upper():
        return set()
    return {
        column.name
        for column in _parsed(created, f"table ({name.table!r})").find_all(exp.ColumnDef)
        if column.find(exp.CollateColumnConstraint, exp.Collate) is not None
    }


def comment(con: duckdb.DuckDBPyConnection, name: Name) -> str:
    """What was noted on a table; nothing if it is not there."""
    return next((text for each, text in tables(con) if each == name), "")


def _created(con: duckdb.DuckDBPyConnection, name: Name) -> str:
    """How a table was created; nothing if it is not there."""
    rows = con.execute(
        "SELECT sql FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?",
        [name.database, name.schema, name.table],
    ).fetchall()
    return str(rows[0][0]) if rows else ""


def set_comment(con: duckdb.DuckDBPyConnection, name: Name, text: str) -> None:
    con.execute(exp.Comment(this=name.tree(), kind="TABLE", expression=exp.Literal.string(text)).sql("duckdb"))


def set_column_comment(con: duckdb.DuckDBPyConnection, name: Name, column: str, text: str) -> None:
    named = exp.column(column, table=name.table, db=name.schema, catalog=name.database, quoted=True)
    con.execute(exp.Comment(this=named, kind="COLUMN", expression=exp.Literal.string(text)).sql("duckdb"))


def mark_column(con: duckdb.DuckDBPyConnection, name: Name, column: str, mark: str) -> None:
    """Write the id of a column into its comment, in place of one that is there."""
    before = {fold(each): text or "" for each, _, _, text in _column_rows(con, name)}[fold(column)]
    set_column_comment(con, name, column, f"{_UNIT.sub('', before)} [mwem unit {mark}]".strip())


def table_unit(con: duckdb.DuckDBPyConnection, name: Name) -> str:
    """What a table is known by as a unit, however it is renamed; empty if nothing was noted."""
    mark = _UNIT.search(comment(con, name))
    return mark[1] if mark else ""


def mark_table(con: duckdb.DuckDBPyConnection, name: Name, mark: str) -> None:
    """Write the id of a table that is a unit into its comment, in place of one that is there."""
    set_comment(con, name, f"{_UNIT.sub('', comment(con, name))} [mwem unit {mark}]".strip())


def mark_public(con: duckdb.DuckDBPyConnection, name: Name, mark: str) -> None:
    """Write into a table's comment that it is public by the curator's word."""
    set_comment(con, name, f"{_PUBLIC.sub('', comment(con, name))} [mwem public {mark}]".strip())


@dataclass(frozen=True)
class Database:
    """An attached database: its file (None in memory), whether it can be written, and what kind of engine holds it."""

    name: str
    path: str | None
    read_only: bool
    type: str


def databases(con: duckdb.DuckDBPyConnection) -> dict[str, Database]:
    """All attached databases but DuckDB's own, by name."""
    rows = con.execute(
        "SELECT database_name, path, readonly, type FROM duckdb_databases() WHERE NOT internal"
    ).fetchall()
    return {row[0]: Database(*row) for row in rows}


def is_read_only(con: duckdb.DuckDBPyConnection, database: str) -> bool:
    attached = databases(con).get(database)
    return attached is not None and attached.read_only


def check_functions(con: duckdb.DuckDBPyConnection, function: str) -> None:
    """Refuse to go on where a name of DuckDB's own functions, operators included, may mean something of the user's.

    A macro comes before the function of its name, and a Python function is added to those that it shares a name with.
    Either would be called in private scans and views, and would see the rows of any table.
    """
    for name, kind, _ in sorted(_functions(con) - _built_in()):
        if fold(name) in _names():
            noun = "macro" if kind.endswith("macro") else "function"
            what = f"{noun} ({name!r}) has the name of a function of DuckDB's that private rows may be read with"
            raise refuse(TableError, function, what, f"drop the {noun} or give it another name")


@cache
def _built_in() -> set[tuple[str, str, str]]:
    with duckdb.connect(":memory:") as con:
        return _functions(con)


@cache
def _names() -> frozenset[str]:
    return frozenset(fold(name) for name, _, _ in _built_in())


def _functions(con: duckdb.DuckDBPyConnection) -> set[tuple[str, str, str]]:
    """All functions by name, kind and parameter types, without calling one that could be the user's."""
    rows = con.execute(
        "SELECT function_name, function_type, parameter_types::VARCHAR FROM system.main.duckdb_functions()"
    ).fetchall()
    return {(name, kind, types or "") for name, kind, types in rows}


def _unqualified(tree: exp.Expr) -> exp.Expr:
    """Older versions of DuckDB print `main.list_value(1)` for `[1]`, and a Boolean as a cast of its first letter."""
    return tree.transform(
        lambda node: (
            node.expression
            if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func) and node.this.sql("duckdb") == "main"
            else exp.Boolean(this=node.this.name == "t")
            if isinstance(node, exp.Cast)
            and node.to.this == exp.DType.BOOLEAN
            and node.this.sql("duckdb") in {"'t'", "'f'"}
            else node
        )
    )


def _parsed(text: str, what: str) -> exp.Expr:
    try:
        statements = dialect.parse(text)
    except (SqlglotError, RecursionError):
        statements = ()
    if len(statements) != 1 or statements[0] is None:
        what = f"{what} has a definition that cannot be read"
        raise refuse(TableError, "catalog", what, "use the table under it, or a plain SELECT of columns FROM one table")
    return statements[0]
