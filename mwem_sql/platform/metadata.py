"""The schema `mwem` that each database may have: which of its tables are there, their rows, and how they are made and upgraded.

`sql/metadata.sql` and `sql/ledger.sql` declare its tables; what is read back is checked against them. Must not judge what a row means.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from types import NoneType
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from mwem_sql.errors import BudgetError, MwemError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.resources import read_sql
from mwem_sql.platform.session import lock, transaction, use

SCHEMA = "mwem"
NEWEST = ("ledger", "reason")
"""The table and column that sql/ledger.sql added last."""

Row = dict[str, Any]
Key = tuple[str, str, str]

# sqlglot's spelling of the types that are checked, and what DuckDB returns for them.
_PYTHON: dict[str, type] = {
    "INT": int, "BIGINT": int, "DOUBLE": float, "TEXT": str, "JSON": str, "BOOLEAN": bool, "TIMESTAMP": datetime,
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column as a script declares it. `later`: added to tables that were there before, so that older files may lack it."""

    type: str
    nullable: bool
    later: bool


def key(database: str, schema: str, table: str) -> Key:
    """A table's name as a ledger knows it: DuckDB ignores case. The ledger's own database is the empty one, whatever it is attached as."""
    return fold(database), fold(schema), fold(table)


def key_of(row: Row) -> Key:
    """The name of a row as it was stored: what has an account was stored as a key, and a path keeps its case."""
    parts = row["database_name"], row["schema_name"], row["table_name"]
    return parts if row.get("account") else key(*parts)


def account_of(row: Row) -> str:
    """The account of a row of the ledger or of budgets; of one that is older than accounts, one that follows from its table's name."""
    return str(row.get("account") or hashlib.sha256("\n".join(key_of(row)).encode()).hexdigest()[:16])


def holders(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """The attached databases that have a table of the schema mwem."""
    rows = con.execute("SELECT database_name, schema_name, table_name FROM duckdb_tables()").fetchall()
    # Sorted here: DuckDB takes longer to sort a few rows than to list them, and a release asks dozens of times.
    return sorted(row[0] for row in rows if [fold(part) for part in row[1:]] == [SCHEMA, table])


def damaged(home: str) -> MwemError:
    """Nothing can be counted any more."""
    return refuse(
        BudgetError,
        "ledger",
        f"the tables ledger, budgets, names and journal in the schema mwem of database ({home}) cannot be read",
        "they were changed by hand: restore them from a backup",
    )


def prepare(con: duckdb.DuckDBPyConnection, database: str, script: str, newest: tuple[str, str] | None = None) -> None:
    """Make the schema mwem of `database` the current one of this cursor, with the tables of a script in it.

    The script is not run if its `newest` column, of a table, is there. Current, so that its tables need no prefix: that of the schema
    alone would be ambiguous where a database is called mwem, too.
    """
    if newest is None or not _has(con, Name(database, SCHEMA, newest[0]), newest[1]):
        with lock(SCHEMA), transaction(con):  # the lock: two that make the same tables at once would conflict
            schema = exp.Table(db=exp.to_identifier(SCHEMA), catalog=exp.to_identifier(database, quoted=True))
            con.execute(exp.Create(this=schema, kind="SCHEMA", exists=True).sql("duckdb"))
            use(con, Place(database, SCHEMA))
            con.execute(read_sql(script))
    use(con, Place(database, SCHEMA))


def _has(con: duckdb.DuckDBPyConnection, table: Name, column: str) -> bool:
    try:
        con.execute(exp.select(exp.column(column, quoted=True)).from_(table.tree()).limit(0).sql("duckdb"))
    except duckdb.Error:
        return False
    return True


def read_rows(con: duckdb.DuckDBPyConnection, home: str, table: str) -> list[Row]:
    """All rows of a table of the schema mwem; none where there is no such table."""
    if home not in holders(con, table):
        return []
    rows = con.execute(_all_of(Name(home, SCHEMA, table)))
    names = [column[0] for column in rows.description or ()]
    return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


@lru_cache(maxsize=256)
def _all_of(table: Name) -> str:
    """Kept: to write it takes as long as to run it, and a release reads these tables dozens of times."""
    return exp.select("*").from_(table.tree()).sql("duckdb")


@cache
def declared(script: str, table: str) -> dict[str, Column]:
    """The columns of a table of the schema mwem, from its CREATE TABLE and its ALTER TABLE ... ADD COLUMN."""
    columns: dict[str, Column] = {}
    for statement in sqlglot.parse(read_sql(script), read="duckdb"):
        later = isinstance(statement, exp.Alter)
        target = statement.find(exp.Table) if isinstance(statement, (exp.Create, exp.Alter)) else None
        if statement is None or target is None or target.name != table:
            continue
        for column in statement.args["actions"] if later else statement.this.expressions:
            if isinstance(column, exp.ColumnDef) and column.kind is not None:
                required = column.find(exp.NotNullColumnConstraint, exp.PrimaryKeyColumnConstraint) is not None
                columns[column.name] = Column(column.kind.sql("duckdb"), nullable=not required, later=later)
    return columns


def check_types(row: Row, script: str, table: str) -> None:
    """A LookupError or TypeError if a row has not the columns that a script declares for its table: somebody changed it by hand."""
    for name, column in declared(script, table).items():
        python = _PYTHON[column.type]
        value = row.get(name) if column.later else row[name]
        if not isinstance(value, (python, NoneType) if column.nullable else python):
            raise TypeError("a value of another type")


def insert(con: duckdb.DuckDBPyConnection, table: str, row: Row) -> None:
    """One row, its columns by name: older files have them in another order."""
    columns = [exp.to_identifier(name, quoted=True) for name in row]
    values = exp.Values(expressions=[exp.Tuple(expressions=[exp.Placeholder() for _ in row])])
    target = exp.Schema(this=exp.table_(table), expressions=columns)
    con.execute(exp.Insert(this=target, expression=values).sql("duckdb"), list(row.values()))
