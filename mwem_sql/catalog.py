"""Names, columns and views: what DuckDB's catalog says about a relation. Reads no row of it.

`estimated_size` and every other statistic stay untouched: they are exact, and so private.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql import views
from mwem_sql.compiler import dialect
from mwem_sql.compiler.dialect import fold
from mwem_sql.compiler.functions import ALLOWED_FUNCTIONS
from mwem_sql.errors import MwemError, OptionError, TableError, refuse

_PART = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')
_FILE = re.compile(r"[./\\*]")  # what a file's name has and a table's seldom


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
        return self.tree().sql("duckdb")

    def beside(self, table: str) -> Name:
        return Name(self.database, self.schema, table)


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
    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Relation:
    """A table or view as the catalog describes it. `below` is what a row-wise view reads: views, and last a table.

    `declared` maps its columns to the table's, where they are the same values, so that `checks` speak of them too.
    """

    name: Name
    columns: tuple[Column, ...]
    checks: tuple[str, ...] = ()
    below: tuple[Name, ...] = ()
    declared: dict[str, Column] = field(default_factory=dict)

    @property
    def charged(self) -> Name:
        """The relation whose rows are protected: the table under a view."""
        return self.names[-1]

    @property
    def names(self) -> tuple[Name, ...]:
        """All names under which its rows are asked for: its own, and those below."""
        return (self.name, *self.below)

    def column(self, unit: str, function: str) -> Column:
        """The column that identifies a unit."""
        for own in self.columns:
            if fold(own.name) == fold(unit):
                return own
        raise refuse(
            OptionError, function, f"unit ({unit!r}) is not a column of {self.name.table}",
            f"its columns are {', '.join(own.name for own in self.columns)}",
        )

    def origin(self, unit: str, function: str) -> str:
        """The protected table's name for that column; one that a view computes is named after the view."""
        name = self.column(unit, function).name
        if not self.below:
            return name
        return self.declared[name].name if name in self.declared else f"{self.name.table}.{name}"


def split_name(text: str) -> list[str]:
    """`a."b.c"` to its parts; a text that is not dotted identifiers is one part."""
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
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


def find(con: duckdb.DuckDBPyConnection, text: str, place: Place) -> tuple[Name, bool] | None:
    """The relation that exists under a text, in the catalog's own spelling, and whether it is a view."""
    # Names are compared here and not in SQL, where a macro of the user's may be called lower.
    rows = con.execute(
        """SELECT database_name, schema_name, table_name, false FROM duckdb_tables()
           UNION ALL SELECT database_name, schema_name, view_name, true FROM duckdb_views() WHERE NOT internal"""
    ).fetchall()
    known = {tuple(map(fold, row[:3])): row for row in rows}
    for name in candidates(text, place):
        row = known.get((fold(name.database), fold(name.schema), fold(name.table)))
        if row is not None:
            return Name(*row[:3]), row[3]
    return None


def describe(con: duckdb.DuckDBPyConnection, text: str, place: Place, function: str) -> Relation:
    """The private table or row-wise view under a name; a TableError says why another cannot serve."""
    found = find(con, text, place)
    if found is None:
        raise refuse(
            TableError, function, f"table ({text!r}) does not exist for this call",
            "name a table of an attached database in full; a temporary table, one registered from Python or one whose "
            "transaction is still open cannot be seen here: create it as a table and COMMIT",
        )
    return _describe(con, *found, function)


def _describe(con: duckdb.DuckDBPyConnection, name: Name, is_view: bool, function: str) -> Relation:
    own = columns(con, name)
    if is_view:
        return _trace(con, name, own, function)
    return Relation(name, own, _checks(con, name), declared={column.name: column for column in own})


def sources(con: duckdb.DuckDBPyConnection, name: Name, is_view: bool) -> set[Name]:
    """The relation itself and every table and view that it reads, through any number of views and macros."""
    out = {name}
    waiting = [(_view_query(con, name), Place(name.database, name.schema))] if is_view else []
    macros = _macros(con) if is_view else {}
    while waiting:
        query, place = waiting.pop()
        for table in views.tables_read(query):
            inner = find(con, _dotted(table), place)
            if inner is not None and inner[0] not in out:
                out.add(inner[0])
                if inner[1]:
                    waiting.append((_view_query(con, inner[0]), Place(inner[0].database, inner[0].schema)))
        called = views.functions_called(query)
        for hidden in sorted(called & {"query", "query_table"}):
            raise refuse(
                TableError, "catalog", f"view ({name.table!r}) calls {hidden}, so that what it reads cannot be told",
                "name its tables in plain SQL, or write its rows out in a table",
            )
        for macro in called & set(macros):
            waiting += [(_parsed(text, f"macro ({macro!r})"), place) for text in macros.pop(macro)]
    return out


def check_public(con: duckdb.DuckDBPyConnection, found: tuple[Name, bool], private: Name, what: str, function: str) -> None:
    """Refuse a domain table or workload that reads the private table, or is it, before a row of it is read."""
    protected = find(con, private.quoted(), Place(private.database, private.schema))
    if protected is not None and sources(con, *protected) & sources(con, *found):
        raise refuse(
            TableError, function, f"{what} ({found[0].table!r}) reads the private table {private.table}",
            f"a {what.split(maxsplit=1)[0]} must be public: write its rows out in a table",
        )


def check_functions(con: duckdb.DuckDBPyConnection, statements: Iterable[exp.Expr], function: str) -> None:
    """Refuse to run statements that call a function of DuckDB's whose name a macro of the user's has: they would call the macro."""
    suspects = set(_macros(con)) & _functions()
    if not suspects:
        return
    called = {name for statement in statements for name in views.functions_called(statement)} | {"count_star"}  # what count(*) calls
    for name in sorted(suspects & called):
        raise refuse(
            TableError, function, f"macro ({name!r}) has the name of a function of DuckDB's that the private table is read with",
            "drop the macro or give it another name",
        )


def columns(con: duckdb.DuckDBPyConnection, name: Name) -> tuple[Column, ...]:
    rows = con.execute(
        """SELECT column_name, data_type, is_nullable FROM duckdb_columns()
           WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index""",
        [name.database, name.schema, name.table],
    ).fetchall()
    return tuple(Column(*row) for row in rows)


def _checks(con: duckdb.DuckDBPyConnection, name: Name) -> tuple[str, ...]:
    rows = con.execute(
        """SELECT expression FROM duckdb_constraints()
           WHERE database_name = ? AND schema_name = ? AND table_name = ? AND constraint_type = 'CHECK'""",
        [name.database, name.schema, name.table],
    ).fetchall()
    return tuple(row[0] for row in rows)


def _macros(con: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The definitions of the user's macros, by name."""
    out: dict[str, list[str]] = {}
    rows = con.execute(
        "SELECT function_name, macro_definition FROM duckdb_functions() WHERE macro_definition IS NOT NULL AND NOT internal"
    ).fetchall()
    for name, definition in rows:
        out.setdefault(fold(name), []).append(definition)
    return out


def _view_query(con: duckdb.DuckDBPyConnection, name: Name) -> exp.Expr:
    rows = con.execute(
        "SELECT sql FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?",
        [name.database, name.schema, name.table],
    ).fetchall()
    created = _parsed(rows[0][0], f"view ({name.table!r})")
    query = created.args.get("expression")
    return query if isinstance(query, exp.Expr) else created


def _parsed(text: str, what: str) -> exp.Expr:
    try:
        statements = dialect.parse(text)
    except (SqlglotError, RecursionError):
        statements = ()
    if len(statements) != 1 or statements[0] is None:
        raise refuse(
            TableError, "catalog", f"{what} has a definition that cannot be read",
            "use the table under it, or a plain SELECT of columns FROM one table",
        )
    return statements[0]


def _trace(con: duckdb.DuckDBPyConnection, view: Name, own: tuple[Column, ...], function: str) -> Relation:
    """A row-wise view with the declarations of the table under it."""

    def no(reason: str) -> MwemError:
        return refuse(
            TableError, function,
            f"view ({view.table!r}) {reason}; a private view must give at most one row per row of one table",
            "write a plain projection or filter of one table, or make the result a table of its own",
        )

    query = _view_query(con, view)
    macros = _macros(con)
    try:
        source = views.row_wise_source(query, lambda name: name in _plain_functions() and name not in macros)
    except views.NotRowWiseError as reason:
        raise no(str(reason)) from None
    found = None if isinstance(source.this, exp.Func) else find(con, _dotted(source), Place(view.database, view.schema))
    if found is None and not isinstance(source.this, exp.Func) and not _FILE.search(source.name):
        raise no(f"reads {source.name}, which is not a table of an attached database")
    inner = _describe(con, *found, function) if found is not None else Relation(view, ())
    for place in views.row_places(query) - {fold(column.name) for column in inner.columns}:
        raise no(f"reads {place}, which depends on other rows")
    if found is None:
        return Relation(view, own)
    origins = views.passed_on(query, [column.name for column in inner.columns])
    # A view of other columns than its text says has changed under our feet: nothing is inherited.
    paired = zip(own, origins, strict=True) if len(own) == len(origins) else ()
    declared = {column.name: inner.declared[origin] for column, origin in paired if origin in inner.declared}
    return Relation(view, own, inner.checks, inner.names, declared)


@cache
def _plain_functions() -> frozenset[str]:
    """Names that mean a scalar function of one row and nothing else in a DuckDB without any user's functions."""
    other = {name for name, kind, stability in _built_in() if kind != "scalar" or stability == "VOLATILE"}
    return ALLOWED_FUNCTIONS | (_functions() - other)


@cache
def _functions() -> frozenset[str]:
    return frozenset(name for name, _, _ in _built_in())


@cache
def _built_in() -> list[tuple[str, str, str]]:
    with duckdb.connect(":memory:") as con:
        return con.execute("SELECT function_name, function_type, stability FROM duckdb_functions()").fetchall()


def _dotted(table: exp.Table) -> str:
    return ".".join(exp.to_identifier(part.name, quoted=True).sql("duckdb") for part in table.parts)
