"""The schema `mwem` that each database may have: its format, which tables are there, their rows, and how they are made.

`sql/metadata.sql` and `sql/ledger.sql` declare its tables; what is read back is checked against them. Must not judge
what a row means. Reads the SQL files that ship with the package, and tells its version.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from importlib.metadata import distributions
from pathlib import Path
from types import NoneType
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from mwem_sql.errors import TableError, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.session import lock, transaction, use

SCHEMA = "mwem"
FORMAT = 8
"""The number of the schema's format, in `mwem.schema_version`. It grows with every change of the two scripts."""

VERSION = next((package.version for package in distributions(name="mwem-sql")), "from source")
"""Of this package."""

Row = dict[str, Any]
Key = tuple[str, str, str]

# sqlglot's spelling of the types that are checked, and what DuckDB returns for them.
_PYTHON: dict[str, type] = {
    "INT": int, "BIGINT": int, "DOUBLE": float, "TEXT": str, "JSON": str, "BOOLEAN": bool, "TIMESTAMP": datetime,
}  # fmt: skip


def read_sql(name: str) -> str:
    """The text of `sql/<name>`: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "sql" / name
    return (inside if inside.exists() else package.parent / "sql" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class ColumnType:
    """A column as a script declares it."""

    type: str
    nullable: bool


def key(database: str, schema: str, table: str) -> Key:
    """A table's name as a journal has it: without case, and with an empty name for the journal's database."""
    return fold(database), fold(schema), fold(table)


def tables(con: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    """The tables of the schema mwem of every attached database that has any, by name. Another format is refused."""
    out: dict[str, set[str]] = {}
    for name, _ in catalog.tables(con):
        if fold(name.schema) == SCHEMA:
            out.setdefault(name.database, set()).add(fold(name.table))
    for database, names in sorted(out.items()):
        _check_format(con, database, names)
    return dict(sorted(out.items()))


def _check_format(con: duckdb.DuckDBPyConnection, database: str, names: set[str]) -> None:
    number = None
    if "schema_version" in names:
        ((number,),) = con.execute(_newest_format(database)).fetchall()
    elif not names & {"ledger", "journal", "releases"}:
        return  # a schema of the user's
    if number != FORMAT:
        kept = next((name for name in ("ledger", "journal", "releases") if name in names), "schema_version")
        copy = f"COPY {Name(database, SCHEMA, kept).quoted()} TO {literal(f'{database}_{kept}.csv')}"
        raise refuse(
            TableError,
            "mwem",
            f"the schema mwem of database ({database}) has format {number or 'none'}, "
            f"and this version of mwem_sql reads and writes format {FORMAT} only",
            f"{copy} exports what it says; go on in a new file, with caps that are lower by what was spent",
        )


@lru_cache(maxsize=256)
def _newest_format(database: str) -> str:
    """Kept: to write it takes as long as to run it."""
    newest = exp.Max(this=exp.column("version"))
    return exp.select(newest).from_(Name(database, SCHEMA, "schema_version").tree()).sql("duckdb")


def holders(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """The attached databases that have a table of the schema mwem."""
    return [database for database, names in tables(con).items() if table in names]


def prepare(con: duckdb.DuckDBPyConnection, database: str, script: str) -> None:
    """Make the schema mwem of `database` the current one of this cursor, with the tables of a script in it.

    Current, so that its tables need no prefix: the schema alone is ambiguous where a database is called mwem, too.
    """
    if not created(script).keys() <= tables(con).get(database, set()):
        with lock(SCHEMA), transaction(con):  # the lock: two that make the same tables at once would conflict
            schema = exp.Table(db=exp.to_identifier(SCHEMA), catalog=exp.to_identifier(database, quoted=True))
            con.execute(exp.Create(this=schema, kind="SCHEMA", exists=True).sql("duckdb"))
            use(con, Place(database, SCHEMA))
            con.execute(f"CREATE TABLE IF NOT EXISTS schema_version AS SELECT {FORMAT} AS version")
            con.execute(read_sql(script))
    use(con, Place(database, SCHEMA))


def read_rows(
    con: duckdb.DuckDBPyConnection, home: str, table: str, columns: tuple[str, ...] = (), where: Row | None = None
) -> list[Row]:
    """Rows of a table of the schema mwem: all of them, or those that have certain values; all columns, or some."""
    rows = con.execute(_select(Name(home, SCHEMA, table), columns, tuple(where or ())), list((where or {}).values()))
    names = [column[0] for column in rows.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def rows_if_any(con: duckdb.DuckDBPyConnection, home: str, table: str, columns: tuple[str, ...] = ()) -> list[Row]:
    """The same; none if there is no such table. Another format is refused.

    It is looked up by its name, which takes as long however many tables there are; who lists them waits for each.
    """
    try:
        rows = read_rows(con, home, table, columns)
        ((number,),) = con.execute(_newest_format(home)).fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        number = None
    if number == FORMAT:
        return rows
    homes = [database for database in holders(con, table) if fold(database) == fold(home)]
    return read_rows(con, home, table, columns) if homes else []


@lru_cache(maxsize=256)
def _select(table: Name, columns: tuple[str, ...], where: tuple[str, ...]) -> str:
    """Kept: to write it takes as long as to run it."""
    items: list[exp.Expr] = [exp.column(name, quoted=True) for name in columns] or [exp.Star()]
    conditions = [exp.column(name, quoted=True).eq(exp.Placeholder()) for name in where]
    return exp.select(*items).from_(table.tree()).where(*conditions).sql("duckdb")


def declared(script: str, table: str) -> dict[str, ColumnType]:
    """The columns of a table of the schema mwem, from its CREATE TABLE."""
    return created(script)[table]


@cache
def created(script: str) -> dict[str, dict[str, ColumnType]]:
    """The tables that a script creates, and their columns."""
    out: dict[str, dict[str, ColumnType]] = {}
    for statement in sqlglot.parse(read_sql(script), read="duckdb"):
        if isinstance(statement, exp.Create) and statement.kind == "TABLE":
            table = statement.this
            out[table.this.name] = {
                column.name: ColumnType(
                    column.kind.sql("duckdb"),
                    nullable=column.find(exp.NotNullColumnConstraint, exp.PrimaryKeyColumnConstraint) is None,
                )
                for column in table.expressions
                if isinstance(column, exp.ColumnDef) and column.kind is not None
            }
    return out


def check_types(row: Row, script: str, table: str) -> None:
    """A LookupError or TypeError if a row has not the columns that a script declares: somebody changed it by hand."""
    for name, column in declared(script, table).items():
        python = _PYTHON[column.type]
        if not isinstance(row[name], (python, NoneType) if column.nullable else python):
            raise TypeError("a value of another type")


def insert(con: duckdb.DuckDBPyConnection, table: Name, row: Row) -> None:
    """One row, its columns by name."""
    con.execute(_insert_into(table, tuple(row)), list(row.values()))


@lru_cache(maxsize=256)
def _insert_into(table: Name, columns: tuple[str, ...]) -> str:
    values = exp.Values(expressions=[exp.Tuple(expressions=[exp.Placeholder() for _ in columns])])
    target = exp.Schema(this=table.tree(), expressions=[exp.to_identifier(name, quoted=True) for name in columns])
    return exp.Insert(this=target, expression=values).sql("duckdb")
