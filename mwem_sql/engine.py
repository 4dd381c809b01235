"""Runs SQL against the private table; with the kernel the only module that sees a private fact.

Nothing here may raise with a text of DuckDB's: its errors quote values. Callers get true answers and hand them to a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.catalog import Relation
from mwem_sql.compiler.linear import LinearQuery
from mwem_sql.compiler.pushdown import COUNT, Scan
from mwem_sql.errors import EngineError
from mwem_sql.ticks import cast, scale_of

SUGGESTED_VALUES = 100  # of a column without an order; a text column with more gets an open list of the most frequent
Counts = npt.NDArray[np.int64]

_FIXED = (
    "the private table could not be read. Hint: the cause is withheld because it may quote a private value; "
    "ask the table's owner to run a plain SELECT count(*) on it"
)


def true_answers(con: duckdb.DuckDBPyConnection, scans: Sequence[Scan], queries: Sequence[LinearQuery]) -> list[Counts]:
    """The exact answers of all queries, over all public cells, from one snapshot of the table.

    Privacy:
        Returns private facts. They may go into a `Kernel` and, where a function is documented as not private, to the curator.
    """
    rows = _run(con, scans)
    if rows is None:
        raise EngineError(f"engine: {_FIXED}")
    histograms: dict[tuple[str, ...], Counts] = {}
    out = []
    for query in queries:
        if query.attributes not in histograms:
            histograms[query.attributes] = _histogram(query, scans, rows)
        out.append(_saturated(query, histograms[query.attributes]))
    return out


def _saturated(query: LinearQuery, histogram: Counts) -> Counts:
    """The sums in int64, those that do not fit at its ends.

    Privacy:
        The kernel brings everything beyond 2^61 to one value, so that it does not matter where around 2^62 this begins.
    """
    exact = query.answer(histogram)
    if float(histogram.sum()) * query.bound < 2.0**62:
        return exact
    about = query.answer(histogram.astype(np.float64))
    return np.where(np.abs(about) < 2.0**62, exact, np.copysign(2.0**62, about).astype(np.int64))


def _run(con: duckdb.DuckDBPyConnection, scans: Sequence[Scan]) -> list[list[npt.NDArray[np.int64]]] | None:
    """Per scan, its class codes and its counts; None when DuckDB failed, with nothing of why."""
    try:
        con.execute("BEGIN TRANSACTION")
        try:
            return [_fetch(con, scan) for scan in scans]
        finally:
            con.execute("ROLLBACK")
    except Exception:  # noqa: BLE001  whatever it is, it may quote a private value
        return None


def _fetch(con: duckdb.DuckDBPyConnection, scan: Scan) -> list[npt.NDArray[np.int64]]:
    columns = con.execute(scan.query.sql("duckdb")).fetchnumpy()
    codes = [
        table[np.ma.getdata(columns[f"c{k}"]).astype(np.int64)].astype(np.int64) for k, table in enumerate(scan.decode)
    ]
    return [*codes, np.ma.getdata(columns[COUNT]).astype(np.int64)]


def _histogram(query: LinearQuery, scans: Sequence[Scan], rows: Sequence[Sequence[npt.NDArray[np.int64]]]) -> Counts:
    """Counts of every class combination of the query's attributes, the empty ones included."""
    scan, columns = min(
        ((scan, own) for scan, own in zip(scans, rows, strict=True) if set(query.attributes) <= set(scan.attributes)),
        key=lambda pair: len(pair[1][-1]),
    )
    shape = [size for block in query.blocks for size in block.labels.shape]
    counts = columns[-1]
    if not shape:
        return np.array(counts.sum(), dtype=np.int64)
    index = np.ravel_multi_index(tuple(columns[scan.attributes.index(name)] for name in query.attributes), shape)
    sums = np.bincount(index, weights=counts.astype(np.float64), minlength=int(np.prod(shape)))
    return np.rint(sums).astype(np.int64).reshape(shape)


def suggest_domain(con: duckdb.DuckDBPyConnection, relation: Relation) -> list[dict[str, object]]:
    """A domain read off the data, for a person to review.

    Privacy:
        None: bounds and values are those of the private rows.
    """
    out: list[dict[str, object]] = []
    for column in relation.columns:
        name = exp.column(column.name, quoted=True)
        row: dict[str, object] = {"attribute": column.name, "values": None, "low": None, "high": None, "open": False}
        scale = scale_of(column.type)
        if scale is not None:
            value: exp.Expr = name.copy()
            if scale.family not in {"integer", "decimal"}:  # NaN and infinity are no bounds
                finite = exp.Anonymous(this="isfinite", expressions=[name.copy()])
                value = exp.Case(ifs=[exp.If(this=finite, true=value)])
            ends = [cast(exp.Min(this=value), "VARCHAR"), cast(exp.Max(this=value.copy()), "VARCHAR")]
            row["low"], row["high"] = con.execute(exp.select(*ends).from_(relation.name.tree()).sql("duckdb")).fetchall()[0]
            if row["low"] is None:
                continue
        else:
            listed = (
                exp.select(cast(name.copy(), "VARCHAR")).distinct().from_(relation.name.tree())
                .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null()))).order_by(exp.Literal.number(1))
                .limit(SUGGESTED_VALUES + 1)
            )  # fmt: skip
            values = [value for (value,) in con.execute(listed.sql("duckdb")).fetchall()]
            if len(values) > SUGGESTED_VALUES and column.type == "VARCHAR":
                row["open"] = True
                # Not those seen once: names and keys are no categories.
                frequent = (
                    exp.select(name.copy()).from_(relation.name.tree())
                    .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null()))).group_by(name.copy())
                    .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
                    .order_by(exp.Count(this=exp.Star()).desc(), name.copy()).limit(SUGGESTED_VALUES)
                )  # fmt: skip
                values = [value for (value,) in con.execute(frequent.sql("duckdb")).fetchall()]
            if not 0 < len(values) <= SUGGESTED_VALUES:
                continue
            row["values"] = values
        nulls = exp.select(exp.Count(this=exp.Star())).from_(relation.name.tree()).where(exp.Is(this=name.copy(), expression=exp.null()))
        row["nullable"] = row["open"] or bool(con.execute(nulls.sql("duckdb")).fetchall()[0][0])
        row["ddl"] = _declaration(relation, row)
        out.append(row)
    return out


def _declaration(relation: Relation, row: dict[str, object]) -> str:
    """The INSERT that would declare a suggested attribute in the domain table, which need not have the column `open`."""
    given = {name: value for name, value in row.items() if name != "open" or value}
    table = relation.name.beside(f"{relation.name.table}_domain").tree()
    columns = [exp.to_identifier(name, quoted=name == "values") for name in given]
    declared = exp.Tuple(expressions=[exp.convert(value) for value in given.values()])
    return exp.Insert(
        this=exp.Schema(this=table, expressions=columns), expression=exp.Values(expressions=[declared])
    ).sql("duckdb")
