"""Names, columns and views: what DuckDB's catalog says about a relation. Reads no row of it.

`estimated_size` and every other statistic stay untouched: they are exact, and so private.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.compiler.functions import ALLOWED_FUNCTIONS, function_name
from mwem_sql.errors import TableError, refuse

_PART = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')
_FILE_READERS = (exp.ReadCSV, exp.ReadParquet)
_FILE_FUNCTIONS = {"read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_json", "read_json_auto", "read_ndjson"}


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
    """A table or view as the catalog describes it. `base` is the table that a row-wise view reads.

    `declared` maps its columns to the table's, where they are the same values, so that `checks` speak of them too.
    """

    name: Name
    columns: tuple[Column, ...]
    checks: tuple[str, ...] = ()
    base: Name | None = None
    declared: dict[str, Column] = field(default_factory=dict)

    @property
    def charged(self) -> Name:
        """The relation whose rows are protected: the table under a view."""
        return self.base or self.name


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
    yield Name(place.database, place.schema, text)
    parts = split_name(text)
    if len(parts) == 1:
        yield Name(place.database, place.schema, parts[0])
        yield Name(place.database, "main", parts[0])
    elif len(parts) == 2:
        yield Name(place.database, *parts)
        yield Name(parts[0], "main", parts[1])
    elif len(parts) == 3:
        yield Name(*parts)


def find(con: duckdb.DuckDBPyConnection, text: str, place: Place) -> tuple[Name, bool] | None:
    """The relation that exists under a text, in the catalog's own spelling, and whether it is a view."""
    for name in candidates(text, place):
        rows = con.execute(
            """SELECT database_name, schema_name, table_name, false FROM duckdb_tables()
               WHERE lower(database_name) = lower(?) AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)
               UNION ALL
               SELECT database_name, schema_name, view_name, true FROM duckdb_views()
               WHERE lower(database_name) = lower(?) AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)""",
            [name.database, name.schema, name.table] * 2,
        ).fetchall()
        if rows:
            return Name(*rows[0][:3]), bool(rows[0][3])
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
    name, is_view = found
    columns = _columns(con, name)
    if not is_view:
        return Relation(name, columns, _checks(con, name), declared={column.name: column for column in columns})
    return _trace(con, name, columns, function)


def sources(con: duckdb.DuckDBPyConnection, name: Name, is_view: bool) -> set[Name]:
    """Every table that a relation reads, through any number of views."""
    if not is_view:
        return {name}
    out: set[Name] = set()
    for table in _view_query(con, name).find_all(exp.Table):
        inner = find(con, _dotted(table), Place(name.database, name.schema))
        if inner is not None and inner[0] != name:
            out |= sources(con, *inner)
    return out


def _columns(con: duckdb.DuckDBPyConnection, name: Name) -> tuple[Column, ...]:
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


def _view_query(con: duckdb.DuckDBPyConnection, name: Name) -> exp.Expr:
    rows = con.execute(
        "SELECT sql FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?",
        [name.database, name.schema, name.table],
    ).fetchall()
    try:
        created = sqlglot.parse_one(rows[0][0], dialect="duckdb")
    except SqlglotError:
        created = None
    query = created.args.get("expression") if created is not None else None
    if not isinstance(query, exp.Expr):
        raise refuse(
            TableError, "catalog", f"view ({name.table!r}) has a definition that cannot be read",
            "use the table under it, or a plain SELECT of columns FROM one table",
        )
    return query


def _trace(con: duckdb.DuckDBPyConnection, view: Name, columns: tuple[Column, ...], function: str) -> Relation:
    """A row-wise view with the declarations of the table under it."""

    def no(reason: str) -> TableError:
        return TableError(
            f"{function}: view ({view.table!r}) {reason}; a private view must give at most one row per row of one table. "
            f"Hint: write a plain projection or filter of one table, or make the result a table of its own"
        )

    query = _view_query(con, view)
    source = _row_wise_source(con, query, no)
    kept = _kept_columns(query, [column.name for column in columns])
    if not isinstance(source, exp.Table) or isinstance(source.this, exp.Func):
        return Relation(view, columns)
    found = find(con, _dotted(source), Place(view.database, view.schema))
    if found is None:  # a file: SELECT * FROM 'people.parquet'
        return Relation(view, columns)
    inner = describe(con, found[0].quoted(), Place(view.database, view.schema), function)
    below = {name.casefold(): column for name, column in inner.declared.items()}
    declared = {name: below[origin.casefold()] for name, origin in kept.items() if origin.casefold() in below}
    return Relation(view, columns, inner.checks, inner.charged, declared)


def _row_wise_source(con: duckdb.DuckDBPyConnection, query: exp.Expr, no: Any) -> exp.Expr:
    if isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        raise no("is not a plain SELECT")
    if query.args.get("with_") or query.args.get("with"):
        raise no("has a WITH clause")
    refused = {
        "joins": "joins", "laterals": "joins", "group": "aggregates", "having": "aggregates", "distinct": "drops duplicates",
        "windows": "uses windows", "qualify": "uses windows", "limit": "limits its rows", "offset": "limits its rows",
        "sample": "samples", "pivots": "pivots",
    }  # fmt: skip
    for key, reason in refused.items():
        if query.args.get(key):
            raise no(reason)
    parts = [*query.expressions, *filter(None, [query.args.get("where")])]
    for part in parts:
        for node in part.walk():
            if isinstance(node, (exp.Query, exp.Exists)):
                raise no("has a subquery")
            if isinstance(node, exp.Window):
                raise no("uses windows")
            if isinstance(node, exp.Func) and not _is_scalar(con, node):
                raise no(f"calls {function_name(node)}, which is not a plain function of one row")
    origin = query.args.get("from_") or query.args.get("from")
    if origin is None:
        raise no("reads no table")
    source = origin.this
    if any(table.args.get("joins") for table in source.find_all(exp.Table)):
        raise no("joins")
    if source.args.get("sample") or source.args.get("pivots"):
        raise no("samples or pivots")
    if isinstance(source, exp.Subquery):
        raise no("selects from a subquery")
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Func):
        name = function_name(source.this)
        if not isinstance(source.this, _FILE_READERS) and name not in _FILE_FUNCTIONS:
            raise no(f"reads the table function {name}")
    elif not isinstance(source, exp.Table):
        raise no("does not read one table or file")
    return source


def _is_scalar(con: duckdb.DuckDBPyConnection, node: exp.Func) -> bool:
    """Whether a name can only be a scalar: a macro may hide an aggregate, and DuckDB stores count(*) as count_star()."""
    if isinstance(node, (exp.AggFunc, exp.UDTF)):
        return False
    name = function_name(node)
    if name in ALLOWED_FUNCTIONS or isinstance(node, (exp.Cast, exp.Case, exp.Connector)):
        return True
    rows = con.execute("SELECT DISTINCT function_type FROM duckdb_functions() WHERE function_name = ?", [name]).fetchall()
    return rows == [("scalar",)]


def _kept_columns(query: exp.Expr, names: Sequence[str]) -> dict[str, str]:
    """Which columns of a view are columns of its source, unchanged."""
    kept: dict[str, str] = {}
    computed: set[str] = set()
    starred = False
    for item in query.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            starred = True
            star = inner if isinstance(inner, exp.Star) else inner.this
            for replaced in star.args.get("replace") or star.args.get("replace_") or []:
                computed.add(replaced.alias_or_name.casefold())
        elif isinstance(inner, exp.Column):
            kept[item.alias_or_name.casefold()] = inner.name
        else:
            computed.add(item.alias_or_name.casefold())
    out = {}
    for name in names:
        folded = name.casefold()
        if folded in kept:
            out[name] = kept[folded]
        elif starred and folded not in computed:
            out[name] = name
    return out


def _dotted(table: exp.Table) -> str:
    return ".".join(part.sql("duckdb") if part.args.get("quoted") else part.name for part in table.parts)
