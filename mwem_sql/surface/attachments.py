"""Bodies of the functions about other engines: mwem_attach, mwem_detach, mwem_sources.

Owns the checks of an alias, and of the database that keeps a source's ledger.
"""

from __future__ import annotations

import math
from typing import Any

from mwem_sql.boundary import sources as aliases
from mwem_sql.boundary.sources import Source
from mwem_sql.errors import OptionError, OutputError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.session import Session
from mwem_sql.scan.engines import check_no_secret, open_engine
from mwem_sql.surface.bodies import Arguments, Rows


def attach(call: Arguments) -> Rows:
    source = call["source"]
    if not isinstance(source, str) or not source.strip():
        what = "source must be text"
        hint = "write 'postgresql://user@host/database', 'sc://host:15002' or the path of a DuckDB file"
        raise refuse(OptionError, call.function, what, hint)
    check_no_secret(source)
    return [attach_source(call.session, call["alias"], source, call["ledger"], call["timeout"])]


def detach(call: Arguments) -> Rows:
    source = aliases.remove(call.session.cursor(), str(call["alias"]))
    source.engine.close()
    return [_source_row(source)]


def sources(call: Arguments) -> Rows:
    return [_source_row(source) for source in aliases.attached(call.session.cursor())]


def attach_source(session: Session, alias: object, source: object, ledger: object, timeout: object) -> dict[str, Any]:
    """Open a source and let an alias stand for it; the row that shows it."""
    con = session.cursor()
    if not isinstance(alias, str) or not alias.strip() or "." in alias or '"' in alias:
        what = f"alias ({alias!r}) must be a plain name"
        raise refuse(OptionError, "mwem_attach", what, "write 'warehouse', without dots or quotes")
    home = _home(session, ledger)
    engine = open_engine(source, _seconds(timeout))
    attached = Source(alias, engine, home)
    try:
        _check_one_ledger(aliases.attached(con), attached)
        aliases.add(con, attached)
    except BaseException:
        engine.close()
        raise
    return _source_row(attached)


def _check_one_ledger(others: list[Source], attached: Source) -> None:
    for other in others:
        if other.engine.identity == attached.engine.identity and other.home != attached.home:
            what = f"ledger ({attached.home!r}) is not the one that this source has as {other.alias!r}, {other.home!r}"
            hint = "one source has one ledger: give the same, or detach the other first"
            raise refuse(OptionError, "mwem_attach", what, hint)


def _source_row(source: Source) -> dict[str, Any]:
    engine = source.engine
    timeout = getattr(engine, "timeout", None)
    return {
        "alias": source.alias, "kind": engine.kind, "source": engine.shown, "ledger": source.home, "timeout": timeout,
    }  # fmt: skip


def _home(session: Session, ledger: object) -> str:
    """The attached database that keeps the ledger: by name or by file; the caller's current one where none is given."""
    databases = catalog.databases(session.cursor())
    wanted = session.place.database if ledger is None else str(ledger)
    by_name = {fold(name): name for name in databases}
    by_path = {str(database.path): name for name, database in databases.items() if database.path}
    home = by_name.get(fold(wanted)) or by_path.get(wanted)
    if home is None or databases[home].type != "duckdb" or databases[home].read_only:
        what = f"ledger ({wanted!r}) is not an attached DuckDB database that can be written"
        hint = "ATTACH the curator's file, and give its name: ledger := 'curator'"
        raise refuse(OutputError, "mwem_attach", what, hint)
    return home


def _seconds(timeout: object) -> float | None:
    if timeout is None:
        return None
    try:
        seconds = float(str(timeout))
    except ValueError:
        seconds = 0.0
    if isinstance(timeout, bool) or not 0 < seconds < math.inf:
        what = f"timeout ({timeout!r}) must be a number of seconds above 0"
        raise refuse(OptionError, "mwem_attach", what, "leave it out for no limit")
    return seconds
