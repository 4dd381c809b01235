"""The Python surface: `release` and the Release it returns.

Owns the forms that a workload may have in Python. Must not do more than SQL does: both call `run_release`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.boundary.public import check_public
from mwem_sql.database import calls, catalog
from mwem_sql.database.session import Session
from mwem_sql.errors import RELEASE, OptionError, TableError, refuse
from mwem_sql.releases import store
from mwem_sql.releases.answer import ANSWER, Answerer
from mwem_sql.releases.request import Request
from mwem_sql.releases.run import run_release
from mwem_sql.releases.summary import Summary
from mwem_sql.surface.display import shown
from mwem_sql.workload import Workload

WorkloadLike: TypeAlias = str | Workload | pa.Table


@dataclass(frozen=True, eq=False, kw_only=True)
class Release(Summary):
    """A stored release. Its summary's columns are attributes: `r.output`, `r.rows`, `r.rounds`, `r.reused`, ..."""

    _session: Session = field(repr=False)
    _stored: store.Stored = field(repr=False)

    @property
    def factors(self) -> pa.Table:
        """The state: factor, attributes, shape, weights (and state first, for an average)."""
        return self._stored.state().table()

    @property
    def measurements(self) -> pa.Table:
        """What was measured, in the order of the rounds."""
        return store.measurements_of(self._session.cursor(), self._stored)

    def answer(self, workload: WorkloadLike) -> pa.Table:
        """Answers to any workload over the release's attributes: query, name, cell, answer."""
        asked = read_workload(self._session, workload, None)
        return pa.Table.from_pylist(list(Answerer(self._session, self._stored).rows(asked)), schema=ANSWER)


def release(
    con: duckdb.DuckDBPyConnection,
    table: str,
    workload: WorkloadLike,
    epsilon: object,
    *,
    progress: bool | None = None,
    **options: Any,
) -> Release:
    """Release a table with the options of `CALL mwem_release`; the same request returns the stored release.

    `progress` shows a line about how far it is: True always, False never, None on a terminal and in a notebook.

    Privacy:
        (epsilon, delta)-differential privacy, per row or per `unit`; debited in the ledger before a private row is read.
    """
    session = Session.of(con)

    def work() -> Release:
        asked = read_workload(session, workload, table)
        output, summary = run_release(session, Request.parse(table, asked, epsilon, options))
        con = session.cursor()
        facts = next(facts for facts in store.releases_of(con, output) if facts["release"] == summary["release"])
        return Release(**summary, _session=session, _stored=store.stored(con, output, facts))

    with shown(progress):
        return calls.run(RELEASE, work, from_python=True)


def read_workload(session: Session, workload: object, private: str | None) -> Workload:
    """A workload from any of its forms. Beside a private table, a name must be that of a plain table."""
    if isinstance(workload, Workload):
        return workload
    if isinstance(workload, pa.Table):
        return Workload.from_arrow(workload)
    if not isinstance(workload, str):
        raise refuse(
            OptionError,
            RELEASE,
            f"workload ({type(workload).__name__}) must be a table name, a Workload or an Arrow table",
            "Workload.from_predicates([...]) makes one from texts",
        )
    con = session.cursor()
    relation = catalog.find(con, workload, session.place)
    if relation is None:
        raise refuse(
            TableError,
            RELEASE,
            f"workload ({workload!r}) does not exist for this call",
            "create it as a table and COMMIT, or pass a Workload",
        )
    if private is not None:
        protected = catalog.find(con, private, session.place)
        check_public(con, relation, (protected[0],) if protected else (), "workload", RELEASE)
    return Workload.from_arrow(con.sql(exp.select("*").from_(relation[0].tree()).sql("duckdb")).to_arrow_table())
