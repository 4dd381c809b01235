"""Ordinary SQL: a view under the name of each private table that answers from its release.

`SELECT city, count(*) FROM census GROUP BY city` counts synthetic rows, so that dashboards and dbt work as they are.
Which release, if a table has several: `<table>_synthetic` if there is one, for that is the output that nobody had to
name; else the oldest, so that what a dashboard shows does not change because somebody made another. Withdrawn ones
answer nothing. Never takes the name of anything that is there. Reads what is published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import duckdb
from sqlglot import exp

from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.metadata import holders, read_rows
from mwem_sql.platform.session import lock, transaction
from mwem_sql.releases import ddl, store

MARK = "mwem_sql: answers from "
"""What the comment of such a view begins with."""


def refresh(con: duckdb.DuckDBPyConnection, database: str) -> None:
    """Make the views of all tables that have a release, and take back those whose release is no more."""
    with lock("mwem.published"):
        wanted = dict(_outputs(con, database))
        present = _views(con, database)
        taken = {name.table for name, _ in catalog.relations(con).values() if name.database == database} - set(present)
        with transaction(con):
            for table in present.keys() - wanted.keys():
                con.execute(ddl.drop(Name(database, "main", table), "VIEW"))
            for table, output in wanted.items():
                if present.get(table) != str(output) and fold(table) not in map(fold, taken):
                    _make(con, Name(database, "main", table), output)


def _make(con: duckdb.DuckDBPyConnection, view: Name, output: Name) -> None:
    select = exp.select("*").from_(output.tree())
    create = exp.Create(this=view.tree(), kind="VIEW", replace=True, expression=select)
    con.execute(create.sql("duckdb"))
    text = exp.Literal.string(f"{MARK}{output}")
    con.execute(exp.Comment(this=view.tree(), kind="VIEW", expression=text).sql("duckdb"))


def _views(con: duckdb.DuckDBPyConnection, database: str) -> dict[str, str]:
    """Our views, and what each answers from."""
    rows = con.execute(
        "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal AND database_name = ? AND schema_name = ?",
        [database, "main"],
    ).fetchall()
    return {name: text.removeprefix(MARK) for name, text in rows if (text or "").startswith(MARK)}


def _outputs(con: duckdb.DuckDBPyConnection, database: str) -> Iterator[tuple[str, Name]]:
    """The tables that have a release, and the output that stands for each."""
    if database not in holders(con, "releases"):
        return
    rows = sorted(read_rows(con, database, "releases"), key=lambda row: int(row["release"]))
    tables: dict[str, list[Name]] = {}
    for row in rows:
        table, name = json.loads(row["domain"])["table"], Name(database, row["schema_name"], row["table_name"])
        newest = store.releases_of(con, name)[0]
        is_there = catalog.find(con, name.quoted(), Place(database, "main")) is not None
        if is_there and store.withdrawal_of(con, name, newest["release"]) is None:
            tables.setdefault(table, []).append(name)
    for table, names in tables.items():
        default = [name for name in names if fold(name.table) == fold(f"{table}_synthetic")]
        yield table, (default or names)[0]
