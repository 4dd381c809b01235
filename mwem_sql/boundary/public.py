"""What a public input may be: the one place that says so.

Domains, rules, public totals and workloads are public by assumption. Wherever one has a name, that must be a plain
table's: a view could read the private rows at every look, and so could a generated column. Whoever stores rows in a
table answers for them.
"""

from __future__ import annotations

from typing import Final

import duckdb

from mwem_sql.boundary import sources
from mwem_sql.errors import TableError, refuse
from mwem_sql.language.dialect import quoted
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session

PUBLIC_TABLES: Final = {"domain": "domain table", "rules": "rules table", "known": "table of public totals"}
"""What is declared of a private table in a table beside it, `<table>_domain` and so on: what each is called."""


def public_table(con: duckdb.DuckDBPyConnection, private: Name, kind: str) -> str:
    """The name of a private table's domain table or the like: `<table>_domain` beside it; of a source, where we are."""
    table = f"{private.stem}_{kind}"
    if sources.named(con, private.quoted()) is not None:
        return quoted(table)
    return private.beside(table).quoted()


class PublicTables:
    """Finds the public tables about a private one: by a name among the caller's tables, or beside the private one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sides: dict[bool, tuple[duckdb.DuckDBPyConnection, catalog.Relations]] = {}

    def find(
        self, private: Name, kind: str, name: str | None
    ) -> tuple[Session, duckdb.DuckDBPyConnection, tuple[Name, bool] | None]:
        """Where a table is looked up, a connection that reads it, and what is there; nothing is checked."""
        side = self._session.side_of(name)
        is_callers = side is self._session
        if is_callers not in self._sides:
            con = side.cursor()
            self._sides[is_callers] = con, catalog.relations(con)
        con, among = self._sides[is_callers]
        text = public_table(con, private, kind) if name is None else name
        return side, con, catalog.find(con, text, side.place, among)


def check_public(
    con: duckdb.DuckDBPyConnection, relation: tuple[Name, bool], private: tuple[Name, ...], what: str, function: str
) -> None:
    """Refuse a domain table or workload that is not a plain table beside the private one, before a row is read."""
    name, is_view = relation
    if is_view:
        reason = "is a view, and what a view reads may be private"
        cure = f"write its rows out: CREATE TABLE ... AS FROM {name.table}, and look at them"
    elif name in private:
        reason, cure = "is the private table itself", f"a {what.split(maxsplit=1)[0]} must be public"
    else:
        generated = catalog.generated_columns(con, name)
        kind = catalog.databases(con)[name.database].type
        if kind == "duckdb" and not generated:
            return
        computed = (
            f"has the generated column {next(iter(generated))}" if generated else f"is in a database of type {kind}"
        )
        reason, cure = f"{computed}, so that its rows are computed", "write them out in a plain table"
    raise refuse(TableError, function, f"{what} ({name.table!r}) {reason}", cure)
