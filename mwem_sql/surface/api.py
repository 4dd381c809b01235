"""The SQL functions in Python: `mwem_sql.plan` is `mwem_plan`, and so on, with the same arguments and columns.

Owns their signatures, and what a release offers in Python: the Release that `mwem_sql.release` returns, and how a
notebook shows it. Must not do more than SQL does: both call the body that the function has in `spec.py`, whose words
are the documentation here, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias, TypeVar, overload

import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import OptionError
from mwem_sql.errors import refuse as refused
from mwem_sql.judge import grade
from mwem_sql.platform import calls
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.answer import CONFIDENCE, Answerer, read_confidence
from mwem_sql.releases.columns import SUMMARY_TYPES, Summary
from mwem_sql.releases.levels import TablesRequest
from mwem_sql.releases.run import run_release
from mwem_sql.releases.tables import run_tables
from mwem_sql.surface import attachments, bodies, spec
from mwem_sql.surface.bodies import Arguments
from mwem_sql.surface.frames import WorkloadLike, read_workload
from mwem_sql.surface.progress_line import shown
from mwem_sql.surface.register import register
from mwem_sql.workload import Workload

Result = TypeVar("Result")
PublicTable: TypeAlias = str | Mapping[str, str] | None
"""The name of a public table; of several tables one by the name of a private one."""


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
        """The synthetic rows, as the table in DuckDB has them; `.to_pandas()` or `polars.from_arrow(...)` take them."""
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
        """Answers to any workload over the release's attributes, as `mwem_sql.answer` gives them."""
        function = "mwem_answer"
        level = read_confidence(confidence, function)
        store.check_standing(self._session.cursor(), self._stored.name, self._stored.facts, function)
        workload = read_workload(self._session, workload, None, function)
        return Answerer(self._session, self._stored).table(workload, level).cast(spec.FUNCTIONS[function].schema)


@overload
def release(
    con: object, table: str, workload: WorkloadLike, epsilon: object, *, progress: bool | None = ..., **options: Any
) -> Release: ...


@overload
def release(
    con: object, table: Sequence[str], workload: WorkloadLike, epsilon: object, *, progress: bool | None = ...,
    **options: Any,
) -> tuple[Release, ...]: ...  # fmt: skip


def release(
    con: object, table: str | Sequence[str], workload: WorkloadLike, epsilon: object, *, progress: bool | None = None,
    **options: Any,
) -> Release | tuple[Release, ...]:  # fmt: skip
    """`con` is a connection of DuckDB, or of SQLAlchemy, Ibis, dbt or jupysql on DuckDB; `table` is the name of a
    table, or the path of a file, or a list of tables: then a release of each comes back. `workload` is the name of a
    table, a Workload, or a frame of pandas, Polars or Arrow. `progress` shows a line about how far it is: True
    always, False never, None on a terminal and in a notebook.

    Privacy:
        (epsilon, delta)-differential privacy, per row or per `unit`; debited before a private row is read.
    """  # noqa: D205

    def of(call: Arguments, output: Name, summary: dict[str, Any]) -> Release:
        cursor = call.session.cursor()
        facts = next(facts for facts in store.releases_of(cursor, output) if facts["release"] == summary["release"])
        return Release(**summary, _session=call.session, _stored=store.stored(cursor, output, facts))

    def work(call: Arguments) -> Release | tuple[Release, ...]:
        whole = bodies.request(call)
        if isinstance(whole, TablesRequest):
            return tuple([of(call, *each) for each in run_tables(call.session, whole).each])
        return of(call, *run_release(call.session, whole))

    given = {"con": con, "table": table, "workload": workload, "epsilon": epsilon, "options": options}
    with shown(progress):
        return _run("mwem_release", given, work)


def plan(con: object, table: str | Sequence[str], workload: WorkloadLike, epsilon: object, **options: Any) -> pa.Table:
    return _table("mwem_plan", locals())


def domain(con: object, table: str | Sequence[str], *, domain: PublicTable = None) -> pa.Table:
    return _table("mwem_domain", locals())


def known(
    con: object, table: str | Sequence[str], *, domain: PublicTable = None, known: PublicTable = None
) -> pa.Table:
    return _table("mwem_known", locals())


def rules(
    con: object, table: str | Sequence[str], *, domain: PublicTable = None, rules: PublicTable = None
) -> pa.Table:
    return _table("mwem_rules", locals())


def suggest_domain(con: object, table: str) -> pa.Table:
    return _table("mwem_suggest_domain", locals())


def marginals(con: object, table: str | Sequence[str], k: int, *, domain: PublicTable = None) -> pa.Table:
    return _table("mwem_marginals", locals())


def ranges(
    con: object, table: str | Sequence[str], columns: str | Sequence[str], count: int, *, seed: int | None = None,
    domain: PublicTable = None,
) -> pa.Table:  # fmt: skip
    return _table("mwem_ranges", locals())


def parities(
    con: object, table: str | Sequence[str], k: int, *, columns: str | Sequence[str] | None = None,
    domain: PublicTable = None,
) -> pa.Table:  # fmt: skip
    return _table("mwem_parities", locals())


def answer(con: object, output: str, workload: WorkloadLike, *, confidence: object = 0.95) -> pa.Table:
    return _table("mwem_answer", locals())


def count(con: object, output: str, predicate: str) -> float:
    return float(_value("mwem_count", locals())["answer"])


def count_interval(con: object, output: str, predicate: str, *, confidence: object = 0.95) -> dict[str, Any]:
    row = _value("mwem_count_interval", locals())
    return {column.name: row[column.name] for column in spec.FUNCTIONS["mwem_count_interval"].columns}


def average(
    con: object, output: str, measure: str, *, given: str | None = None, confidence: object = 0.95
) -> dict[str, Any]:
    (row,) = _table("mwem_average", locals()).to_pylist()
    return dict(row)


def quantile(
    con: object, output: str, attribute: str, share: float | Sequence[float], *, given: str | None = None,
    confidence: object = 0.95,
) -> pa.Table:  # fmt: skip
    return _table("mwem_quantile", locals())


def quality(
    con: object, output: str, *, confidence: object = 0.95, summary: bool = False, compare: str | None = None,
    target: str | None = None,
) -> pa.Table:  # fmt: skip
    return _table("mwem_quality", locals())


def weights(con: object, output: str, attributes: str | Sequence[str]) -> pa.Table:
    return _table("mwem_weights", locals())


def sample(
    con: object, output: str, *, rows: int | None = None, given: str | None = None, seed: int | None = None
) -> pa.Table:
    return _table("mwem_sample", locals())


def report(con: object, output: str, path: str | os.PathLike[str] | None, *, compare: str | None = None) -> pa.Table:
    return _table("mwem_report", locals())


def export(con: object, output: str, path: str | os.PathLike[str]) -> pa.Table:
    return _table("mwem_export", locals())


def withdraw(con: object, output: str, reason: str) -> pa.Table:
    return _table("mwem_withdraw", locals())


def compare(con: object, table: str, output: str, workload: WorkloadLike, *, confidence: object = 0.95) -> pa.Table:
    return _table("mwem_compare", locals())


def budget(
    con: object, table: str | None, epsilon: object, *, delta: object = 0, unit: str | None = None,
    rows_per_unit: int = 1, user: str | None = None, every: str | None = None,
) -> pa.Table:  # fmt: skip
    return _table("mwem_budget", locals())


def partition(con: object, table: str, by: str | None) -> pa.Table:
    return _table("mwem_partition", locals())


def ledger(con: object) -> pa.Table:
    return _table("mwem_ledger", locals())


def request(
    con: object, table: str | Sequence[str], workload: WorkloadLike, epsilon: object, **options: Any
) -> pa.Table:
    return _table("mwem_request", locals())


def requests(con: object) -> pa.Table:
    return _table("mwem_requests", locals())


def approve(con: object, request: str) -> pa.Table:
    return _table("mwem_approve", locals())


def refuse(con: object, request: str, reason: str) -> pa.Table:
    return _table("mwem_refuse", locals())


def withdraw_request(con: object, request: str) -> pa.Table:
    return _table("mwem_withdraw_request", locals())


def policy(con: object, *, require_caps: bool | None = None) -> pa.Table:
    return _table("mwem_policy", locals())


def public(con: object, public_table: str) -> pa.Table:
    return _table("mwem_public", locals())


def attach(con: object, alias: str, source: object, *, ledger: str | None = None, timeout: float | None = None) -> None:
    """`source` may also be an ADBC connection to PostgreSQL or a SparkSession. A URI may have a password in it here,
    which is kept in memory only.
    """  # noqa: D205
    session = Session.of(register(con))
    calls.run(
        "mwem_attach", lambda: attachments.attach_source(session, alias, source, ledger, timeout), from_python=True
    )


def detach(con: object, alias: str) -> None:
    _table("mwem_detach", locals())


def sources(con: object) -> pa.Table:
    return _table("mwem_sources", locals())


for _function in spec.FUNCTIONS.values():
    _python = globals()[_function.name.removeprefix("mwem_")]
    _python.__doc__ = "\n\n".join(filter(None, (_function.comment, _python.__doc__)))


def _table(function: str, given: dict[str, Any]) -> pa.Table:
    """The rows of an SQL function, with its columns and types; `given` are the arguments of the Python function."""
    declaration = spec.FUNCTIONS[function]

    def work(call: Arguments) -> pa.Table:
        result = declaration.body(call)
        if isinstance(result, bodies.Typed):
            return result.table(call.session)
        if isinstance(result, pa.Table):
            return result.cast(declaration.schema)
        return pa.Table.from_pylist(list(result), schema=declaration.schema)

    return _run(function, given, work)


def _value(function: str, given: dict[str, Any]) -> dict[str, Any]:
    """The one row of a function that gives a value."""
    row: dict[str, Any] = _run(function, given, lambda call: spec.FUNCTIONS[function].body([call])[0])
    return row


def _run(function: str, given: dict[str, Any], work: Callable[[Arguments], Result]) -> Result:
    session = Session.of(given["con"])
    tables = {"table": "private_table", "output": "output"}  # arguments that name a table, and their names in SQL
    values: dict[str, Any] = {
        name: _plain(value) for name, value in given.items() if name not in {"con", "workload", *tables}
    }
    values |= {name: table_name(function, given[key]) for key, name in tables.items() if key in given}

    def with_workload() -> Result:
        queries = None
        if "workload" in given:
            queries = read_workload(session, given["workload"], values.get("private_table"), function)
        return work(Arguments(function, session, values, queries))

    return calls.run(function, with_workload, from_python=True)


def _plain(value: object) -> object:
    """An argument as it would come from SQL: a path as text, and whatever has items as a list."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)) else value


def table_name(function: str, table: object) -> str | list[str] | None:
    """The name of a table, a path, or a list of them. Anything else is refused unseen: a frame would show its rows."""
    if table is None and function == "mwem_budget":  # of a user, for all tables
        return None
    if isinstance(table, (list, tuple)):
        return [str(table_name(function, each)) for each in table]
    if isinstance(table, os.PathLike):
        return str(os.fspath(table))
    if not isinstance(table, str):
        what = f"table ({type(table).__name__}) must be the name of a table, or the path of a file"
        raise refused(OptionError, function, what, "mwem_sql.load(con, frame, 'name') copies a frame into a table")
    return table


def rounded(value: float) -> str:
    """A number for people: thousands apart, and as many digits as tell something."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def release_html(summary: Summary) -> str:
    """What was released, what it promises and what it cost, in a box that fits a narrow column."""
    box = "max-width:44em;overflow-x:auto;font-family:sans-serif;font-size:90%;line-height:1.4"
    head = "text-align:left;padding:1px 12px 1px 0;font-weight:normal;opacity:.7;white-space:nowrap;vertical-align:top"
    data = "text-align:left;padding:1px 0;overflow-wrap:anywhere"
    aside = "border-left:3px solid #c60;padding:2px 8px;margin:4px 0"
    facts = {
        "promise": f"ε = {rounded(summary.epsilon)}"
        + (f", δ = {rounded(summary.delta)}" if summary.delta else "")
        + f", for {summary.protects}",
        "rows": rounded(summary.rows),
        "asked": f"{_several(summary.queries, 'query', 'queries')} about "
        + _several(summary.attributes, "attribute", "attributes"),
        "measured in": _several(summary.rounds, "round", "rounds"),
        **_errors(summary),
        "model": _several(summary.cells, "cell", "cells"),
        "this call": "returned the stored release, at no cost"
        if summary.reused
        else f"made release {summary.release} in {rounded(summary.seconds)} s",
    }
    notes = (
        []
        if summary.private
        else ["Not private: a seed was given, so the noise can be repeated. For experiments only."]
    )
    notes += [summary.warning] if summary.warning else []
    rows = "".join(
        f'<tr><th style="{head}">{name}</th><td style="{data}">{escape(text)}</td></tr>' for name, text in facts.items()
    )
    said = "".join(f'<div style="{aside}" role="note">{escape(note)}</div>' for note in notes)
    return (
        f'<div style="{box}"><div>Synthetic table <code>{escape(summary.output)}</code></div>{said}'
        f'<table style="border-collapse:collapse">{rows}</table></div>'
    )


def _errors(summary: Summary) -> dict[str, str]:
    """How good it is for its workload, and how far off its answers are, if it was certified."""
    facts = {name: getattr(summary, name) for name in SUMMARY_TYPES}
    word = {} if summary.quality is None else {"quality": f"{summary.quality}: {grade.measured(facts)}"}
    error = grade.mean_error(facts)
    return word if error is None else word | {"in wrong cells": f"{error}, for a query"}


def _several(number: int, one: str, many: str) -> str:
    return f"{rounded(number)} {one if number == 1 else many}"
