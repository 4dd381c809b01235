"""Runs SQL against the private table; with the kernel the only module that sees a private fact.

Nothing here may raise with a text of DuckDB's: its errors quote values. Callers get true answers and hand them to a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.boundary.relations import Relation
from mwem_sql.compiler.codes import Reading
from mwem_sql.compiler.pushdown import Aggregates, GroupBy, Product, Pushdown
from mwem_sql.database.ticks import cast, scale_of
from mwem_sql.errors import EngineError
from mwem_sql.private.pair_counts import Pairs
from mwem_sql.queries.answers import answer_all
from mwem_sql.queries.linear import LinearQuery
from mwem_sql.queries.marginals import marginals

SUGGESTED_VALUES = 100  # of a column without an order; a text column with more gets an open list of the most frequent
GROUPS = 2**18  # groups that are read at a time
Counts = npt.NDArray[np.int64]

_FIXED = (
    "the private table could not be read. Hint: the cause is withheld because it may quote a private value; "
    "ask the table's owner to run a plain SELECT count(*) on it"
)
_CHANGED = "the private table or its files were replaced or written to while they were read. Hint: release when nobody writes; give a new version := '...'"

State = Callable[[], object]
Held = Callable[[duckdb.DuckDBPyConnection], State]


class ChangedError(Exception):
    """What is to be read is no longer what was planned and charged."""


def true_answers(con: duckdb.DuckDBPyConnection, pushdown: Pushdown, held: Held = lambda _: lambda: None) -> Counts:
    """The exact answers of all queries, over all public cells, from one snapshot of the table: one vector.

    `held` is asked within the snapshot: it raises a ChangedError if the rows are no longer those that were charged, and says how to ask for
    the state of what is in no snapshot, files, which must be the same before and after all scans.

    Privacy:
        Returns private facts. They may go into a `Kernel` and, where a function is documented as not private, to the curator.
    """
    answers = _run(con, pushdown, held)
    if isinstance(answers, str):
        raise EngineError(f"engine: {answers}")
    return answers


def _run(con: duckdb.DuckDBPyConnection, pushdown: Pushdown, held: Held) -> Counts | str:
    """All answers; one of two fixed texts when anything failed, with nothing of why."""
    try:
        out = np.zeros(int(pushdown.cells.sum()), dtype=np.int64)
        con.execute("BEGIN TRANSACTION")
        try:
            state = held(con)
            before = state()
            for part in pushdown.parts:
                if isinstance(part, GroupBy):
                    _grouped(con, part, pushdown, out)
                elif isinstance(part, Product):
                    _multiplied(con, part, pushdown, out)
                else:
                    _aggregated(con, part, out)
            if state() != before:
                return _CHANGED
        finally:
            con.execute("ROLLBACK")
    except ChangedError:
        return _CHANGED
    except Exception:  # noqa: BLE001  whatever it is, it may quote a private value
        return _FIXED
    return out


def _read(con: duckdb.DuckDBPyConnection, statement: exp.Select, rows: int) -> Iterator[pa.RecordBatch]:
    """The result in batches: neither DuckDB nor Python holds all of it."""
    relation = con.sql(statement.sql("duckdb"))
    # DuckDB 1.4 has the older name only, and later ones warn of it.
    reader = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_record_batch
    yield from reader(rows)


def _codes(batch: pa.RecordBatch, column: int, reading: Reading) -> npt.NDArray[Any]:
    found = batch.column(column)
    if reading.starts is None or reading.codes is None:
        return np.asarray(
            (found.fill_null(reading.missing) if found.null_count else found).to_numpy(zero_copy_only=False)
        )
    ticks = found.fill_null(reading.starts[0].item()).to_numpy(zero_copy_only=False)
    codes = reading.codes[np.searchsorted(reading.starts, ticks, side="right") - 1]
    return (
        np.where(found.is_null().to_numpy(zero_copy_only=False), reading.missing, codes) if found.null_count else codes
    )


def _grouped(con: duckdb.DuckDBPyConnection, part: GroupBy, pushdown: Pushdown, out: Counts) -> None:
    """Add every group to the histograms, and answer from their marginals."""
    counts = [np.zeros(histogram.cells, dtype=np.int64) for histogram in part.histograms]
    places = [[part.attributes.index(name) for name in histogram.attributes] for histogram in part.histograms]
    for batch in _read(con, part.statement, GROUPS):
        codes = [_codes(batch, column, reading) for column, reading in enumerate(part.readings)]
        rows = batch.column(len(codes)).to_numpy()
        for histogram, own, cells in zip(part.histograms, places, counts, strict=True):
            index = np.zeros(len(rows), dtype=np.int64)
            for place, size in zip(own, histogram.shape, strict=True):
                index *= size
                index += codes[place]
            np.add.at(cells, index, rows)
    for histogram, cells in zip(part.histograms, counts, strict=True):
        found = marginals(cells, histogram.attributes, histogram.shape, histogram.asked)
        for names, numbers in histogram.asked.items():
            _answer(pushdown, numbers, found[names], out)


def _aggregated(con: duckdb.DuckDBPyConnection, part: Aggregates, out: Counts) -> None:
    for statement, places in zip(part.statements, part.places, strict=True):
        for batch in _read(con, statement, 1):
            out[places] = [column[0].as_py() for column in batch.columns]


def _multiplied(con: duckdb.DuckDBPyConnection, part: Product, pushdown: Pushdown, out: Counts) -> None:
    """Count all pairs of classes, and answer from the matrix of them."""
    pairs = Pairs(part.shape)
    for batch in _read(con, part.statement, pairs.rows):
        pairs.add([_codes(batch, column, reading) for column, reading in enumerate(part.readings)])
    pairs.finish()
    pairs.copy_marginals(part.plain, pushdown.starts, out)
    rank = {name: place for place, name in enumerate(part.attributes)}
    for names, numbers in part.asked.items():
        _answer(pushdown, numbers, pairs.marginal([rank[name] for name in names]), out)


def _answer(pushdown: Pushdown, numbers: Sequence[int], marginal: Counts, out: Counts) -> None:
    """Write the answers of queries over the marginal's attributes."""
    queries = [pushdown.queries[number] for number in numbers]
    rows = float(marginal.sum())
    for number, query, answer in zip(numbers, queries, answer_all(queries, marginal), strict=True):
        start = pushdown.starts[number]
        fits = rows * query.bound < 2.0**62
        out[start : start + query.cells] = answer if fits else _saturated(query, marginal, answer)


def _saturated(query: LinearQuery, marginal: Counts, answer: Counts) -> Counts:
    """An answer whose sums may have wrapped around in int64, with those that do not fit at its ends.

    Privacy:
        The kernel brings everything beyond 2^61 to one value, so that it does not matter where around 2^62 this begins.
    """
    about = query.answer(marginal.astype(np.float64))
    return np.where(np.abs(about) < 2.0**62, answer, np.copysign(2.0**62, about).astype(np.int64))


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
            row["low"], row["high"] = con.execute(exp.select(*ends).from_(relation.tree()).sql("duckdb")).fetchall()[0]
            if row["low"] is None:
                continue
        else:
            listed = (
                exp.select(cast(name.copy(), "VARCHAR")).distinct().from_(relation.tree())
                .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null()))).order_by(exp.Literal.number(1))
                .limit(SUGGESTED_VALUES + 1)
            )  # fmt: skip
            values = [value for (value,) in con.execute(listed.sql("duckdb")).fetchall()]
            if len(values) > SUGGESTED_VALUES and column.type == "VARCHAR":
                row["open"] = True
                # Not those seen once: names and keys are no categories.
                frequent = (
                    exp.select(name.copy()).from_(relation.tree())
                    .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null()))).group_by(name.copy())
                    .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
                    .order_by(exp.Count(this=exp.Star()).desc(), name.copy()).limit(SUGGESTED_VALUES)
                )  # fmt: skip
                values = [value for (value,) in con.execute(frequent.sql("duckdb")).fetchall()]
            if not 0 < len(values) <= SUGGESTED_VALUES:
                continue
            row["values"] = values
        nulls = (
            exp.select(exp.Count(this=exp.Star()))
            .from_(relation.tree())
            .where(exp.Is(this=name.copy(), expression=exp.null()))
        )
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
