"""`mwem_sql.release` and the Release it returns.

Owns what a release offers in Python. Must not do more than SQL does: both call `run_release`. The other functions are in `tables.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import RELEASE
from mwem_sql.platform import calls
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.answer import ANSWER, CONFIDENCE, Answerer, read_confidence
from mwem_sql.releases.request import Request
from mwem_sql.releases.run import run_release
from mwem_sql.releases.summary import Summary
from mwem_sql.surface.attaching import attach_source, detach_source
from mwem_sql.surface.display import release_html
from mwem_sql.surface.frames import WorkloadLike, read_workload
from mwem_sql.surface.progress_line import shown
from mwem_sql.surface.register import register
from mwem_sql.surface.tables import table_name
from mwem_sql.workload import Workload


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

    def to_arrow(self) -> pa.Table:
        """The synthetic rows, as the table in DuckDB has them; `.to_pandas()` or `polars.from_arrow(...)` go on from here."""
        cursor = self._session.cursor()  # by a name: DuckDB 1.4 closes it while its relation is still to be read
        return cursor.sql(exp.select("*").from_(self._stored.name.tree()).sql("duckdb")).to_arrow_table()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return release_html(self)

    @property
    def workload(self) -> Workload:
        """What was asked, as it is stored."""
        return store.workload_of(self._session.cursor(), self._stored)

    def answer(self, workload: WorkloadLike, confidence: object = CONFIDENCE) -> pa.Table:
        """Answers to any workload over the release's attributes: query, name, cell, answer; how far off they may be: low, high, measured."""
        sure = read_confidence(confidence, "mwem_answer")
        store.check_standing(self._session.cursor(), self._stored.name, self._stored.facts, "mwem_answer")
        asked = read_workload(self._session, workload, None, "mwem_answer")
        return pa.Table.from_pylist(list(Answerer(self._session, self._stored).rows(asked, sure)), schema=ANSWER)


def release(
    con: object,
    table: str,
    workload: WorkloadLike,
    epsilon: object,
    *,
    progress: bool | None = None,
    **options: Any,
) -> Release:
    """Release a table with the options of `CALL mwem_release`; the same request returns the stored release.

    `con` is a connection of DuckDB, or of SQLAlchemy, Ibis, dbt or jupysql on DuckDB; `table` is the name of a table, or the path of a file;
    `workload` is the name of a table, a Workload, or a frame of pandas, Polars or Arrow.
    `progress` shows a line about how far it is: True always, False never, None on a terminal and in a notebook.

    Privacy:
        (epsilon, delta)-differential privacy, per row or per `unit`; debited in the ledger before a private row is read.
    """
    name, session = table_name(RELEASE, table), Session.of(con)

    def work() -> Release:
        asked = read_workload(session, workload, name, RELEASE)
        output, summary = run_release(session, Request.parse(name, asked, epsilon, options))
        con = session.cursor()
        facts = next(facts for facts in store.releases_of(con, output) if facts["release"] == summary["release"])
        return Release(**summary, _session=session, _stored=store.stored(con, output, facts))

    with shown(progress):
        return calls.run(RELEASE, work, from_python=True)


def attach(
    con: object,
    alias: str,
    source: object,
    *,
    ledger: str | None = None,
    timeout: float | None = None,
) -> None:
    """Let `alias` stand for another engine's database: `alias.schema.table` is then a private table of every function.

    `source` is an ADBC connection to PostgreSQL, a SparkSession, or what `mwem_attach` takes as text; here a URI may have a password in it, which
    is kept in memory only. `ledger` names the attached DuckDB database that keeps the accounts of its tables: by default the current one.
    `timeout` is in seconds, for all scans of one call together.
    """
    session = Session.of(register(con))
    calls.run("mwem_attach", lambda: attach_source(session, alias, source, ledger, timeout), from_python=True)


def detach(con: object, alias: str) -> None:
    """Take an alias back. Accounts, caps and releases stay."""
    detach_source(Session.of(con), alias)
