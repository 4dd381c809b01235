"""Attaching and detaching: what `mwem_attach`, `mwem_detach` and `mwem_sources` do, for SQL and Python alike.

Owns the checks of an alias and of the ledger's home. Must not show a secret, and keeps none: a source's engine has it.
"""

from __future__ import annotations

import math
from typing import Any

from mwem_sql.boundary import sources
from mwem_sql.boundary.sources import Source
from mwem_sql.errors import OptionError, OutputError, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.session import Session
from mwem_sql.scan.engines.opening import open_engine


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
        _check_one_ledger(sources.attached(con), attached)
        sources.add(con, attached)
    except BaseException:
        engine.close()
        raise
    return _row(attached)


def _check_one_ledger(others: list[Source], own: Source) -> None:
    for other in others:
        if other.engine.identity == own.engine.identity and other.home != own.home:
            raise refuse(
                OptionError,
                "mwem_attach",
                f"ledger ({own.home!r}) is not the one that this source has as {other.alias!r}, {other.home!r}",
                "one source has one ledger: give the same, or detach the other first",
            )


def detach_source(session: Session, alias: object) -> dict[str, Any]:
    source = sources.remove(session.cursor(), str(alias))
    source.engine.close()
    return _row(source)


def source_rows(session: Session) -> list[dict[str, Any]]:
    return [_row(source) for source in sources.attached(session.cursor())]


def _row(source: Source) -> dict[str, Any]:
    engine = source.engine
    timeout = getattr(engine, "timeout", None)
    return {
        "alias": source.alias, "kind": engine.kind, "source": engine.shown, "ledger": source.home, "timeout": timeout,
    }  # fmt: skip


def _home(session: Session, ledger: object) -> str:
    """The attached database that keeps the ledger: by name or by file; the caller's current one where none is given."""
    databases = catalog.databases(session.cursor())
    wanted = session.place.database if ledger is None else str(ledger)
    known = {fold(name): name for name in databases} | {
        str(database.path): name for name, database in databases.items() if database.path
    }
    home = known.get(fold(wanted)) or known.get(wanted)
    if home is None or databases[home].type != "duckdb" or databases[home].read_only:
        raise refuse(
            OutputError,
            "mwem_attach",
            f"ledger ({wanted!r}) is not an attached DuckDB database that can be written",
            "ATTACH the curator's file, and give its name: ledger := 'curator'",
        )
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
