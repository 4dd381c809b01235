"""What a session may release: private relations on its private side, and of a server's those that have a cap.

A server's analyst names tables, views and tables of sources that the curator has put there. A name that is none of them
is not looked for among the files of the server's machine. Reads the catalog and the journal, never a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mwem_sql.accounting.ledger import Ledger, read_ledger
from mwem_sql.boundary import relations, sources
from mwem_sql.boundary.relations import Relation
from mwem_sql.errors import BudgetError, TableError, literal, refuse
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Database
from mwem_sql.platform.session import Session


def describe(session: Session, text: str, function: str, *, unit: str | None = None) -> Relation:
    """The private relation under a name (`relations.describe`); of a server, one that it serves."""
    inside = session.private
    con = inside.cursor()
    if inside is session:
        return relations.describe(con, text, session.place, function, unit=unit)
    if sources.named(con, text) is None and catalog.find(con, text, inside.place) is None:
        what = f"table ({text!r}) is not a private table of this server"
        hint = f"{catalog.nearest(con, text, inside.place)}ask the curator which tables there are"
        raise refuse(TableError, function, what, hint)
    relation = relations.describe(con, text, inside.place, function, unit=unit)
    check_served(session, read_ledger(con, relation, inside.place, function), text, function)
    return relation


def ledger_beside(session: Session, relation: Relation, function: str) -> Ledger:
    """The ledger that answers for a relation, to be read only."""
    inside = session.private
    return read_ledger(inside.cursor(), relation, inside.place, function)


def check_writable(session: Session, ledger: Ledger, databases: Mapping[str, Database], function: str) -> None:
    """Refuse a ledger that cannot be written. `databases` are those of the session's own side."""
    inside = session.private
    there = databases if inside is session else catalog.databases(inside.cursor())
    ledger.check_writable(there, inside.place, function)


def check_served(session: Session, ledger: Ledger, text: str, function: str) -> None:
    """Refuse a table without a cap to a server's analyst: what has none was not meant to be released by others."""
    if session.inside is not None and ledger.cap is None:
        what = f"table ({text!r}) has no cap, and a server releases only tables that have one"
        hint = f"have the curator decide: CALL mwem_budget({literal(text)}, epsilon)"
        raise refuse(BudgetError, function, what, hint)


def check_all_served(session: Session, texts: Sequence[str], function: str) -> None:
    """The same of several tables; nothing where the session is no server's."""
    if session.inside is not None:
        for text in texts:
            describe(session, text, function)
