"""Reuse: the names that a request speaks of, a hash that tells it from others, and the release stored for it.

Owns whether a stored release is returned, and what is stored of a request beside its hash, so that a person who meets a
taken name reads in what the requests differ. Must decide on the request alone: never on the private table.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Any, Final

import duckdb
import numpy as np
from sqlglot import exp

from mwem_sql.accounting.caps import seed_refused
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.accounting.subjects import describe, ledger_beside
from mwem_sql.boundary import files, sources
from mwem_sql.boundary.public import PUBLIC_TABLES, PublicTables, check_public
from mwem_sql.errors import RELEASE, BudgetError, OutputError, TableError, literal, refuse
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.platform import catalog
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.catalog import Name, Place, is_read_only
from mwem_sql.platform.metadata import SCHEMA
from mwem_sql.platform.session import Session, lock, transaction
from mwem_sql.releases import start, store, summary
from mwem_sql.releases.request import OPTIONS, STARTS, Request
from mwem_sql.releases.rows import row_rules
from mwem_sql.synthesis.values import draw_rows
from mwem_sql.workload import Query

_ENDINGS = ("parquet", "csv", "duckdb", "db", "json", "html")
DECLARED: Final = {"declared": "domain", "rules declared": "rules", "known declared": "known"}
"""What a request is called by in which there is what public tables about the private one say."""
MOST_QUERIES = 10_000
"""Queries of a workload that are hashed one by one. Of a longer one a single hash is stored, and which queries changed
cannot be said; larger: mwem.releases grows by 15 bytes for each."""


def names(con: duckdb.DuckDBPyConnection, session: Session, request: Request) -> tuple[Name, Name]:
    """The private table and the output in full.

    The table need not exist any more: a stored release is still returned.
    """
    here, inside = Name(session.place.database, session.place.schema, ""), session.private
    behind = con if inside is session else inside.cursor()
    elsewhere = sources.named(behind, request.table)
    if elsewhere is not None:
        foreign = elsewhere[0].name(elsewhere[1])
        output = request.output or quoted(f"{foreign.table}_synthetic")
        return foreign, output_name(con, output, here.beside(f"{foreign.table}_synthetic"), RELEASE)
    relation = catalog.find(behind, request.table, inside.place)
    if relation is None and inside is session:
        private = _file_name(request.table, session.place) or locate(con, catalog.split_name(request.table), here)
    else:
        private = relation[0] if relation else None
    if private is None:
        private = describe(session, request.table, RELEASE).name  # refuses, and says why
    is_elsewhere = inside is not session or is_read_only(con, private.database)
    home = (here if is_elsewhere else private).beside(f"{private.stem}_synthetic")
    return private, home if request.output is None else output_name(con, request.output, home, RELEASE)


def output_name(con: duckdb.DuckDBPyConnection, text: str, home: Name, function: str) -> Name:
    """Where an output is to be written: beside `home` unless the text says otherwise; in the catalog's spelling."""
    parts = catalog.split_name(text)
    if _is_path(text, parts):
        between = "\\" if "\\" in text else "/"
        file = text if fold(parts[-1]) in _ENDINGS else f"{text.rstrip(between)}{between}{home.table}.parquet"
        what = f"output ({text!r}) is the path of a file or folder, and an output is a table"
        hint = f"leave output out, and write the file then: CALL mwem_export({literal(home.table)}, {literal(file)})"
        raise refuse(OutputError, function, what, hint)
    if len(parts) > 3:
        what = f"output ({text!r}) has too many parts"
        raise refuse(OutputError, function, what, "write database.schema.table, in double quotes what has a dot")
    name = locate(con, parts, home)
    if name is None:
        what = f"output ({text!r}) names a database or schema that does not exist or does not last"
        raise refuse(OutputError, function, what, "ATTACH the database or CREATE SCHEMA first")
    if fold(name.schema) == SCHEMA:
        what = f"output ({text!r}) is in the schema mwem, which is for what mwem_sql keeps"
        raise refuse(OutputError, function, what, "choose another schema")
    return name


def _is_path(text: str, parts: Sequence[str]) -> bool:
    """Whether a name was meant as that of a file or a folder. In double quotes any name is that of a table."""
    bare = re.sub(r'"(?:[^"]|"")*"', "", text)
    return "/" in bare or "\\" in bare or (len(parts) == 2 and '"' not in text and fold(parts[1]) in _ENDINGS)


def locate(con: duckdb.DuckDBPyConnection, parts: Sequence[str], home: Name) -> Name | None:
    """A relation that need not exist, in a schema that does: `table`, `schema.table`, `database.table` or all three."""
    schemas = {
        1: [[home.database, home.schema]],
        2: [[home.database, parts[0]], [parts[0], "main"]],
        3: [list(parts[:2])],
    }
    lasting = catalog.databases(con)
    rows = con.execute("SELECT database_name, schema_name FROM duckdb_schemas()").fetchall()
    spellings = {(fold(database), fold(schema)): (database, schema) for database, schema in rows if database in lasting}
    for database, schema in schemas.get(len(parts), []):
        spelling = spellings.get((fold(database), fold(schema)))
        if spelling is not None:
            return Name(*spelling, parts[-1])
    return None


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
class RequestHash:
    """A hash of a request, and its content in short, as JSON."""

    hash: str
    content: str


@uncollected()
def fingerprint(
    con: duckdb.DuckDBPyConnection, session: Session, request: Request, private: Name, output: Name
) -> RequestHash:
    """Of the request alone, the public tables about the private one included; never of what is in that, or its state.

    Options at their default are left out, and so is an `always` that is false, so that a later version with more
    options still knows the request; so is the database, if it is the output's: the file may be renamed.
    """
    options = {name: getattr(request, name) for name in OPTIONS if name not in {"delta", "output"}}
    content = {name: value for name, value in options.items() if value != OPTIONS[name]}
    inside = session.private
    elsewhere = fold(private.database) if inside is not session or private.database != output.database else ""
    server = sources.named(con if inside is session else inside.cursor(), request.table)
    if server is not None:  # whatever it is attached as
        elsewhere = server[0].engine.identity
    read = PublicTables(session)
    content |= {
        "table": [elsewhere, *private.identity],
        "epsilon": str(request.budget.epsilon),
        "delta": str(request.budget.delta),
        "workload": [
            [
                *(q.predicate, q.measure, q.group_by, q.verbatim, q.name, float(q.weight), *[True] * q.always),
                *([] if q.of is None else [q.of]),
            ]
            for q in request.workload
        ],
        "declared": _declared(read, request.domain, private, "domain"),
        "settings": dict(session.settings),
    }
    for kind, name in (("rules", request.rules), ("known", request.known)):
        declared = _declared(read, name, private, kind)
        content |= {} if declared is None else {f"{kind} declared": declared}
    if request.start not in STARTS:
        source = start.find(session, request, _private_names(session, request, private))
        content["start"] = start.identity(session, source)
    return RequestHash(hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(), in_short(content))


def _declared(read: PublicTables, name: str | None, private: Name, kind: str) -> list[str] | None:
    """The rows of the domain table and the like. It is public: all but a plain table is refused before it is read."""
    _, con, relation = read.find(private, kind, name)
    if relation is None:
        return None
    check_public(con, relation, (private,), PUBLIC_TABLES[kind], RELEASE)
    return sorted(map(repr, con.execute(exp.select("*").from_(relation[0].tree()).sql("duckdb")).fetchall()))


def _private_names(session: Session, request: Request, private: Name) -> tuple[Name, ...]:
    """All names of the private rows; the one that was given if there is no such table any more."""
    try:
        return describe(session, request.table, RELEASE).private_names
    except TableError:
        return (private,)


def stored_release(
    con: duckdb.DuckDBPyConnection, output: Name, fingerprint: RequestHash, request: Request, *, named: bool = True
) -> dict[str, Any] | None:
    """The stored release of this very request; an OutputError if the name is taken by anything else.

    `named`: a call may name its output.
    """
    releases = store.releases_of(con, output)
    for facts in releases:
        if facts["request"] == fingerprint.hash:
            store.check_standing(con, output, facts, RELEASE)
            return facts
    if releases:
        if request.version is not None and all(facts["version"] != request.version for facts in releases):
            return None
        raise refuse(
            OutputError,
            RELEASE,
            f"output ({output}) holds a release of another request",
            ("choose another output, or " if named else "")
            + "give a new version := '...' to make and charge a new release under this name"
            + changes(releases[0].get("asked"), fingerprint.content, request.workload.queries),
        )
    if catalog.find(con, output.quoted(), catalog.Place(output.database, output.schema)) is not None:
        what = f"output ({output}) exists and is not a release"
        hint = "choose another name with output := '...', or drop it first"
        raise refuse(OutputError, RELEASE, what, hint if named else "drop it first, or give it another name")
    return None


def check_seed(con: duckdb.DuckDBPyConnection, session: Session, request: Request, private: Name) -> None:
    """A stored release that was made with a seed is not returned once the table has a cap, which does not count it."""
    if request.seed is None:
        return
    con = session.private.cursor()
    try:
        relation = describe(session, request.table, RELEASE)
        cap = ledger_beside(session, relation, RELEASE).cap
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
        generator, rules = np.random.default_rng(request.seed), row_rules(stored.domain, session.settings)
        columns = draw_rows(state, stored.classes, stored.facts["rows"], generator, rules)
        writing = session.cursor()
        with transaction(writing):
            store.write_table(writing, output, stored.facts, columns, summary.off_domain(state, stored.classes))


def check_replaceable(con: duckdb.DuckDBPyConnection, outputs: Sequence[Name], version: str | None) -> None:
    """Outputs of an older version can be dropped: no key of another table refers to one of them."""
    if version is None:  # nothing is replaced
        return
    names = {tuple(name.identity): name for name in outputs}
    for table, _, _, refers_to, _ in catalog.constraints(con, outputs[0]):
        output = None if refers_to is None else names.get(tuple(refers_to.identity))
        if output is not None and tuple(table.identity) not in names:
            what = f"output ({output}) cannot be replaced, because a FOREIGN KEY of {table} refers to it"
            hint = f"DROP TABLE {table.quoted()} first: if it is a release's, that release stays"
            raise refuse(OutputError, RELEASE, what, hint + ("; or choose another output" if len(outputs) == 1 else ""))


def check_theirs(session: Session, ledger: Ledger, outputs: Sequence[Name]) -> None:
    """A user of a server replaces no release of another's, and none of the curator's, by another version."""
    if session.inside is None:
        return
    con = session.cursor()
    for output in outputs:
        for facts in store.releases_of(con, output)[:1]:
            entry = ledger.journal.entries.get(facts["entry"])
            if entry is None or entry["user_name"] != session.user:
                what = f"output ({output}) is a release of another user's, which another version would replace"
                raise refuse(OutputError, RELEASE, what, "choose another name with output := '...'")


def check_unfinished(ledger: Ledger, request_hash: str, output: Name) -> None:
    """A request that was charged and did not come to its end is not charged again: nothing of it was kept."""
    lost = ledger.unfinished(request_hash, output)
    if lost is not None:
        raise refuse(
            BudgetError,
            RELEASE,
            f"this request was charged on {lost['started']:%Y-%m-%d %H:%M:%S} UTC (epsilon {lost['epsilon']:g})"
            f" and did not come to its end ({lost['status']});"
            " nothing of it is left to resume, and the budget is spent",
            "give a new version := '...' to charge it anew",
        )


def in_short(content: Mapping[str, Any]) -> str:
    """A request as JSON: options as they are, a hash for each query and for the domain table. A seed is not in it."""
    short = dict(content)
    if "seed" in short:
        short["seed"] = "given"
    queries = short["workload"]
    short["workload"] = list(map(_hash, queries)) if len(queries) <= MOST_QUERIES else [_hash(queries)]
    short["table"] = _hash(short["table"])  # it may be the path of a private file
    for table in DECLARED:
        if short.get(table) is not None:
            short[table] = _hash(short[table])
    return json.dumps(short, sort_keys=True)


def changes(before: object, now: str, queries: Sequence[Query]) -> str:
    """In what a request differs from a stored one, as a sentence; empty where that is not known."""
    try:
        old, new = json.loads(str(before)), json.loads(now)
        names = sorted((old.keys() | new.keys()) - {"workload"})
        listed = [_option(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
        listed += _queries(old["workload"], new["workload"], queries)
    except (ValueError, LookupError, TypeError, AttributeError):  # changed by hand
        return ""
    return f". What changed: {'; '.join(listed or ['the seed'])}"


def _option(name: str, old: object, new: object) -> str:
    if name in DECLARED:
        return f"the {PUBLIC_TABLES[DECLARED[name]]}"
    if name == "table":
        return "the private table"
    if name == "start" and isinstance(old, list) and isinstance(new, list):
        return "what it starts from"
    if isinstance(old, dict) and isinstance(new, dict):  # settings of the connection
        return "; ".join(
            _option(key, old.get(key), new.get(key)) for key in sorted(old) if old.get(key) != new.get(key)
        )
    return f"{name} ({_shown(name, old)}, now {_shown(name, new)})"


def _shown(name: str, value: object) -> str:
    if value is None:
        return "left out"
    return f"{float(Fraction(str(value))):g}" if name in {"epsilon", "delta"} else str(value)


def _queries(old: Sequence[str], new: Sequence[str], queries: Sequence[Query]) -> list[str]:
    """Which queries are new, by number and text; and how many of the old ones are gone."""
    if old == new:
        return []
    if len(new) != len(queries) or len(new) + len(old) > MOST_QUERIES:
        return [f"the workload, of {len(queries):,} rows now"]
    steps = [step for step in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if step[0] != "equal"]
    fresh = [k for _, _, _, begin, end in steps for k in range(begin, end)]
    gone = sum(end - begin for _, begin, end, _, _ in steps)
    shown = 3
    out = [f"query {k + 1} ({queries[k].label[:80]!r})" for k in fresh[:shown]]
    if len(fresh) > shown:
        out.append(f"{len(fresh) - shown:,} more queries")
    return [*out, *([f"{gone:,} queries of before are not in it"] if gone else [])]


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
