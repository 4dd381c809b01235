"""What a request already has: the names it speaks of, a hash that tells it from others, and the release stored for it.

Owns whether a stored release is returned. Must decide that on the request alone: it never depends on the private table.
"""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from sqlglot import exp

from mwem_sql.accounting.caps import seed_refused
from mwem_sql.accounting.ledger import Ledger, read_ledger
from mwem_sql.boundary import files, relations, sources
from mwem_sql.boundary.public import check_public, domain_table
from mwem_sql.errors import RELEASE, BudgetError, OutputError, TableError, refuse
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name, Place, is_read_only
from mwem_sql.platform.garbage import uncollected
from mwem_sql.platform.session import Session, lock, transaction
from mwem_sql.releases import beyond, store
from mwem_sql.releases.changes import changes, in_short
from mwem_sql.releases.request import OPTIONS, Request
from mwem_sql.synthesis.values import draw_rows


def names(con: duckdb.DuckDBPyConnection, session: Session, request: Request) -> tuple[Name, Name]:
    """The private table and the output in full. The table need not exist any more: a stored release is still returned."""
    here = Name(session.place.database, session.place.schema, "")
    elsewhere = sources.named(con, request.table)
    if elsewhere is not None:
        foreign = elsewhere[0].name(elsewhere[1])
        output = request.output or quoted(f"{foreign.table}_synthetic")
        return foreign, store.output_name(con, output, here.beside(f"{foreign.table}_synthetic"), RELEASE)
    relation = catalog.find(con, request.table, session.place)
    private = relation[0] if relation else _file_name(request.table, session.place)
    private = private or store.locate(con, catalog.split_name(request.table), here)
    if private is None:
        private = relations.describe(con, request.table, session.place, RELEASE).name  # refuses, and says why
    home = (here if is_read_only(con, private.database) else private).beside(f"{private.stem}_synthetic")
    return private, home if request.output is None else store.output_name(con, request.output, home, RELEASE)


def _file_name(text: str, place: Place) -> Name | None:
    with suppress(files.NotAllowedError):  # describing it says why
        named = files.named(text, place)
        return named[0] if named else None
    return None


def output_lock(con: duckdb.DuckDBPyConnection, output: Name) -> threading.Lock:
    """One call at a time under an output name: of two identical ones the second finds what the first has stored."""
    rows = con.execute(
        "SELECT path, database_oid FROM duckdb_databases() WHERE database_name = ?", [output.database]
    ).fetchall()
    return lock(f"{rows}.{output}")


@dataclass(frozen=True)
class Fingerprint:
    """A hash of a request, and what it asks in short, as JSON."""

    hash: str
    asked: str


@uncollected()
def fingerprint(
    con: duckdb.DuckDBPyConnection, session: Session, request: Request, private: Name, output: Name
) -> Fingerprint:
    """Of the request alone, domain table included; never of the private table's content or state.

    Options at their default are left out, and so is an `always` that is false, so that a later version with more options still knows the request; so is the
    database, if it is the output's: the file may be renamed.
    """
    options = {name: getattr(request, name) for name in OPTIONS if name not in {"delta", "output"}}
    asked = {name: value for name, value in options.items() if value != OPTIONS[name]}
    elsewhere = fold(private.database) if private.database != output.database else ""
    source = sources.named(con, request.table)
    if source is not None:  # whatever it is attached as
        elsewhere = source[0].engine.identity
    asked |= {
        "table": [elsewhere, *private.identity], "epsilon": str(request.budget.epsilon), "delta": str(request.budget.delta),
        "workload": [[q.predicate, q.measure, q.group_by, q.verbatim, q.name, float(q.weight), *[True] * q.always] for q in request.workload],
        "declared": _declared(con, session, request, private), "settings": dict(session.settings),
    }  # fmt: skip
    return Fingerprint(hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest(), in_short(asked))


def _declared(con: duckdb.DuckDBPyConnection, session: Session, request: Request, private: Name) -> list[str] | None:
    """The rows of the domain table. It is public: anything but a plain table is refused before it is read."""
    relation = catalog.find(con, request.domain or domain_table(con, private), session.place)
    if relation is None:
        return None
    check_public(con, relation, (private,), "domain table", RELEASE)
    return sorted(map(repr, con.execute(exp.select("*").from_(relation[0].tree()).sql("duckdb")).fetchall()))


def stored_release(
    con: duckdb.DuckDBPyConnection, output: Name, asked: Fingerprint, request: Request
) -> dict[str, Any] | None:
    """The stored release of this very request; an OutputError if the name is taken by anything else."""
    releases = store.releases_of(con, output)
    for facts in releases:
        if facts["request"] == asked.hash:
            store.check_standing(con, output, facts, RELEASE)
            return facts
    if releases:
        if request.version is not None and all(facts["version"] != request.version for facts in releases):
            return None
        raise refuse(
            OutputError,
            RELEASE,
            f"output ({output}) holds a release of another request",
            "choose another output, or give a new version := '...' to make and charge a new release under this name"
            + changes(releases[0].get("asked"), asked.asked, request.workload.queries),
        )
    if catalog.find(con, output.quoted(), catalog.Place(output.database, output.schema)) is not None:
        raise refuse(
            OutputError,
            RELEASE,
            f"output ({output}) exists and is not a release",
            "choose another name with output := '...', or drop it first",
        )
    return None


def check_seed(con: duckdb.DuckDBPyConnection, session: Session, request: Request, private: Name) -> None:
    """A stored release that was made with a seed is not returned once the table has a cap: what the cap counts does not cover it."""
    if request.seed is None:
        return
    try:
        relation = relations.describe(con, request.table, session.place, RELEASE)
        cap = read_ledger(con, relation, session.place, RELEASE).cap
    except TableError:  # there is no such table any more: its name answers
        if sources.named(con, request.table) is not None:
            raise
        cap = Ledger.of_table(private.database, private).at(con).cap
    if cap is not None:
        raise seed_refused(private.table)


def restore_table(session: Session, request: Request, output: Name) -> None:
    """A stored release whose table was dropped is drawn again from its state, at no cost."""
    con = session.cursor()
    if catalog.find(con, output.quoted(), session.place) is None:
        stored = store.load(con, output.quoted(), session.place, RELEASE)
        state = stored.state()
        columns = draw_rows(state, stored.classes, stored.facts["rows"], np.random.default_rng(request.seed))
        writing = session.cursor()
        with transaction(writing):
            store.write_table(writing, output, stored.facts, columns, beyond.sentences(state, stored.classes))


def check_unfinished(ledger: Ledger, request_hash: str, output: Name) -> None:
    """A request that was charged and did not come to its end is not charged again: nothing of it was kept."""
    lost = ledger.unfinished(request_hash, output)
    if lost is not None:
        raise refuse(
            BudgetError,
            RELEASE,
            f"this request was charged on {lost['started']:%Y-%m-%d %H:%M:%S} UTC (epsilon {lost['epsilon']:g}) and did not come to its end "
            f"({lost['status']}); nothing of it is left to resume, and the budget is spent",
            "give a new version := '...' to charge it anew",
        )
