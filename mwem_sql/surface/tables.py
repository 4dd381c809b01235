"""The SQL functions in Python: `mwem_sql.plan` is `mwem_plan`, and so on, with the same arguments, columns and sentences.

Owns their signatures. Must not do anything itself: each calls the body of its SQL function (`functions.FUNCTIONS`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import OptionError, refuse
from mwem_sql.language.ticks import cast
from mwem_sql.platform import calls
from mwem_sql.platform.session import Session
from mwem_sql.releases import answer as stored
from mwem_sql.releases.quantile import OF_ITS_TYPE, QUANTILE
from mwem_sql.surface import questions
from mwem_sql.surface.arguments import name_list
from mwem_sql.surface.frames import WorkloadLike, read_workload
from mwem_sql.surface.functions import FUNCTIONS
from mwem_sql.surface.register import schema_of
from mwem_sql.workload import Workload

_FUNCTIONS = {function.name: function for function in FUNCTIONS}
_ARRIVED = "__mwem_arrived"  # a name that no table of the user has


def plan(con: object, table: str, workload: WorkloadLike, epsilon: object, **options: Any) -> pa.Table:
    """What a release would run and cost: item, value. Takes the options of `release`. Reads no private row."""
    name = table_name("mwem_plan", table)
    return _table("mwem_plan", con, workload, private_table=name, epsilon=epsilon, options=options)


def domain(con: object, table: str, *, domain: str | None = None) -> pa.Table:
    """Each attribute of a table, its values or bounds, and where they are declared. Reads no private row."""
    return _table("mwem_domain", con, private_table=table_name("mwem_domain", table), domain=domain)


def suggest_domain(con: object, table: str) -> pa.Table:
    """A domain read off the data, the DDL to declare it and, in the first row, a whole script, for a person to review.

    Privacy:
        None: this reads private rows, and the ledger notes it.
    """
    return _table("mwem_suggest_domain", con, private_table=table_name("mwem_suggest_domain", table))


def marginals(con: object, table: str, k: int, *, domain: str | None = None) -> pa.Table:
    """A workload of all k-way marginals of a table's attributes. Reads no private row."""
    return _table("mwem_marginals", con, private_table=table_name("mwem_marginals", table), k=k, domain=domain)


def ranges(
    con: object, table: str, columns: str | Sequence[str], count: int, *, seed: int | None = None, domain: str | None = None,
) -> pa.Table:  # fmt: skip
    """A workload of `count` random ranges over a column or several. Reads no private row."""
    name = table_name("mwem_ranges", table)
    return _table("mwem_ranges", con, private_table=name, columns=_listed(columns), count=count, seed=seed, domain=domain)  # fmt: skip


def parities(
    con: object, table: str, k: int, *, columns: str | Sequence[str] | None = None, domain: str | None = None
) -> pa.Table:
    """A workload of the parities of one to k attributes that have two values each. Reads no private row."""
    name = table_name("mwem_parities", table)
    return _table("mwem_parities", con, private_table=name, k=k, columns=_listed(columns), domain=domain)


def answer(con: object, output: str, workload: WorkloadLike, *, confidence: object = 0.95) -> pa.Table:
    """Answers of a stored release to any workload, in its order, and how far off they may be, at no privacy cost."""
    return _table("mwem_answer", con, workload, output=table_name("mwem_answer", output), confidence=confidence)


def quality(
    con: object, output: str, *, confidence: object = 0.95, summary: bool = False, compare: str | None = None, target: str | None = None,
) -> pa.Table:  # fmt: skip
    """Of each query that a release was made for: whether it was measured, in which round, with how much noise. Or, with `summary`, scores of all of it.

    Privacy:
        With `compare`, the name of the private table, none: it reads private rows, and the ledger notes it.
    """
    name = table_name("mwem_quality", output)
    return _table("mwem_quality", con, output=name, confidence=confidence, summary=summary, compare=compare, target=target)  # fmt: skip


def report(con: object, output: str, path: str | os.PathLike[str], *, compare: str | None = None) -> pa.Table:
    """One page about a stored release, for people. With `compare`, the name of the private table, it shows true answers.

    Privacy:
        With `compare` none: it reads private rows, and the ledger notes it.
    """
    name = table_name("mwem_report", output)
    return _table("mwem_report", con, output=name, path=_path(path), compare=compare)


def export(con: object, output: str, path: str | os.PathLike[str]) -> pa.Table:
    """A stored release as files to publish, with a data card: .parquet, .csv or .duckdb."""
    return _table("mwem_export", con, output=table_name("mwem_export", output), path=_path(path))


def _path(given: object) -> object:
    """Whatever it is: the function says what it should be."""
    return os.fspath(given) if isinstance(given, os.PathLike) else given


def withdraw(con: object, output: str, reason: str) -> pa.Table:
    """Take a release back: nothing is answered from it any more. Nothing is charged, and nothing is given back."""
    return _table("mwem_withdraw", con, output=table_name("mwem_withdraw", output), reason=reason)


def count(con: object, output: str, predicate: str) -> float:
    """One answer of a stored release, at no privacy cost."""
    name = table_name("mwem_count", output)
    return calls.run(
        "mwem_count",
        lambda: stored.answerer(Session.of(con), name, "mwem_count").counts([predicate])[0],
        from_python=True,
    )


def count_interval(con: object, output: str, predicate: str, *, confidence: object = 0.95) -> dict[str, Any]:
    """The same with its interval: answer, low, high, measured."""
    name = table_name("mwem_count_interval", output)
    sure = stored.read_confidence(confidence, "mwem_count_interval")

    def work() -> dict[str, Any]:
        ready = stored.answerer(Session.of(con), name, "mwem_count_interval")
        (row,) = ready.rows(Workload.from_predicates([predicate]), sure)
        return {field: row[field] for field in ("answer", "low", "high", "measured")}

    return calls.run("mwem_count_interval", work, from_python=True)


def average(
    con: object, output: str, measure: str, *, given: str | None = None, confidence: object = 0.95
) -> dict[str, Any]:
    """The average of a column or an expression with its interval: answer, low, high, measured. At no privacy cost."""
    name = table_name("mwem_average", output)
    (row,) = _table("mwem_average", con, output=name, measure=measure, given=given, confidence=confidence).to_pylist()
    return dict(row)


def quantile(
    con: object, output: str, attribute: str, share: float | Sequence[float], *, given: str | None = None, confidence: object = 0.95,
) -> pa.Table:  # fmt: skip
    """The median (share 0.5), or other quantiles, of a column with their intervals: a row for each share, values in the column's own type. At no privacy cost."""
    asked = {
        "output": table_name("mwem_quantile", output), "attribute": attribute, "share": share if isinstance(share, (str, float, int)) else list(share),
        "given": given, "confidence": confidence,
    }  # fmt: skip
    session = Session.of(con)

    def work() -> pa.Table:
        kind, rows = questions.quantiles_of(session, asked)
        arrived = pa.Table.from_pylist(rows, schema=schema_of(_FUNCTIONS["mwem_quantile"]))
        return _cast(session, arrived, {name: kind if name in OF_ITS_TYPE else own for name, own in QUANTILE.items()})

    return calls.run("mwem_quantile", work, from_python=True)


def sample(
    con: object, output: str, *, rows: int | None = None, given: str | None = None, seed: int | None = None
) -> pa.Table:
    """Rows from a stored release, as many as you like, or those for which a condition is true. At no privacy cost."""
    session, asked = Session.of(con), {"output": table_name("mwem_sample", output), "rows": rows, "given": given, "seed": seed}  # fmt: skip

    def work() -> pa.Table:
        sampler = questions.sampler_of(session, asked)
        return _cast(session, sampler.draw(), sampler.types)

    return calls.run("mwem_sample", work, from_python=True)


def weights(con: object, output: str, attributes: str | Sequence[str]) -> pa.Table:
    """The weight of every value combination of some attributes of a stored release: a column each, and weight."""
    name, session = table_name("mwem_weights", output), Session.of(con)

    def work() -> pa.Table:
        columns, rows = stored.weights(session, name, name_list(_listed(attributes)) or [])
        cells = pa.array([row["cell"] for row in rows], pa.list_(pa.string()))
        cursor = session.cursor()
        cursor.register(_ARRIVED, pa.table({"cell": cells, "weight": [row["weight"] for row in rows]}))
        typed = [
            exp.alias_(cast(exp.Bracket(this=exp.column("cell"), expressions=[exp.Literal.number(k)], offset=1), kind), own, quoted=True)
            for k, (own, kind) in enumerate(columns, start=1)
        ]  # fmt: skip
        select = exp.select(*typed, exp.column("weight")).from_(exp.table_(_ARRIVED))
        return cursor.sql(select.sql("duckdb")).to_arrow_table()

    return calls.run("mwem_weights", work, from_python=True)


def compare(con: object, table: str, output: str, workload: WorkloadLike, *, confidence: object = 0.95) -> pa.Table:
    """True and released answers side by side, for the curator.

    Privacy:
        None: this shows true answers, and the ledger notes it.
    """
    name = table_name("mwem_compare", table)
    shown = table_name("mwem_compare", output)
    return _table("mwem_compare", con, workload, private_table=name, output=shown, confidence=confidence)


def budget(
    con: object, table: str, epsilon: object, *, delta: object = 0, unit: str | None = None, rows_per_unit: int = 1
) -> pa.Table:
    """Set the cap on what all releases of a table may spend together, how they are counted, and for whom."""
    name = table_name("mwem_budget", table)
    return _table("mwem_budget", con, private_table=name, epsilon=epsilon, delta=delta, unit=unit, rows_per_unit=rows_per_unit)  # fmt: skip


def ledger(con: object) -> pa.Table:
    """What was spent, by whom, when, on what, and what is left, over all attached databases."""
    return _table("mwem_ledger", con)


def policy(con: object, *, require_caps: bool | None = None) -> pa.Table:
    """Whether every private table of the current database needs a cap; None only asks."""
    return _table("mwem_policy", con, require_caps=require_caps)


def sources(con: object) -> pa.Table:
    """The engines that private tables may be read from, by the alias that they were attached as."""
    return _table("mwem_sources", con)


def table_name(function: str, table: object) -> str:
    """The name of a table, or a path. Anything else is refused without being shown: a frame's own text would show its rows."""
    if isinstance(table, os.PathLike):
        return str(os.fspath(table))
    if not isinstance(table, str):
        raise refuse(
            OptionError,
            function,
            f"table ({type(table).__name__}) must be the name of a table, or the path of a file",
            "mwem_sql.load(con, frame, 'name') copies a frame into a table",
        )
    return table


def _table(function: str, con: object, workload: WorkloadLike | None = None, **arguments: Any) -> pa.Table:
    """The rows of an SQL function, with its columns and types."""
    session, own = Session.of(con), _FUNCTIONS[function]

    def work() -> list[dict[str, Any]]:
        private = arguments.get("private_table")
        queries = None if workload is None else read_workload(session, workload, private, function).to_json()
        return list(own.body(session, arguments, queries))

    return pa.Table.from_pylist(calls.run(function, work, from_python=True), schema=schema_of(own))


def _cast(session: Session, arrived: pa.Table, types: Mapping[str, str]) -> pa.Table:
    """Columns in the types that SQL gives them."""
    cursor = session.cursor()
    cursor.register(_ARRIVED, arrived)
    typed = [exp.alias_(cast(exp.column(name, quoted=True), kind), name, quoted=True) for name, kind in types.items()]
    return cursor.sql(exp.select(*typed).from_(exp.table_(_ARRIVED)).sql("duckdb")).to_arrow_table()


def _listed(names: str | Sequence[str] | None) -> Any:
    return names if names is None or isinstance(names, str) else list(names)
