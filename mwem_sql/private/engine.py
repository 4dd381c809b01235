"""Runs the scans of the private table. Sees private facts, as only the other modules of this folder do.

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

from mwem_sql.compiler.codes import Reading
from mwem_sql.compiler.pushdown import Pushdown
from mwem_sql.compiler.scans import Aggregates, GroupBy, Product
from mwem_sql.errors import EngineError
from mwem_sql.private.pair_counts import Pairs
from mwem_sql.queries.answers import answer_all
from mwem_sql.queries.arrays import Integers
from mwem_sql.queries.linear import LinearQuery
from mwem_sql.queries.marginals import marginals

GROUPS = 2**18  # groups that are read at a time

_FIXED = (
    "the private table could not be read. Hint: the cause is withheld because it may quote a private value; "
    "ask the table's owner to run a plain SELECT count(*) on it"
)
_CHANGED = "the private table or its files were replaced or written to while they were read. Hint: release when nobody writes; give a new version := '...'"

State = Callable[[], object]
Held = Callable[[duckdb.DuckDBPyConnection], State]


class ChangedError(Exception):
    """What is to be read is no longer what was planned and charged."""


def true_answers(con: duckdb.DuckDBPyConnection, pushdown: Pushdown, held: Held = lambda _: lambda: None) -> Integers:
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


def _run(con: duckdb.DuckDBPyConnection, pushdown: Pushdown, held: Held) -> Integers | str:
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


def _grouped(con: duckdb.DuckDBPyConnection, part: GroupBy, pushdown: Pushdown, out: Integers) -> None:
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


def _aggregated(con: duckdb.DuckDBPyConnection, part: Aggregates, out: Integers) -> None:
    for statement, places in zip(part.statements, part.places, strict=True):
        for batch in _read(con, statement, 1):
            out[places] = [column[0].as_py() for column in batch.columns]


def _multiplied(con: duckdb.DuckDBPyConnection, part: Product, pushdown: Pushdown, out: Integers) -> None:
    """Count all pairs of classes, and answer from the matrix of them."""
    pairs = Pairs(part.shape)
    for batch in _read(con, part.statement, pairs.rows):
        pairs.add([_codes(batch, column, reading) for column, reading in enumerate(part.readings)])
    pairs.finish()
    pairs.copy_marginals(part.plain, pushdown.starts, out)
    rank = {name: place for place, name in enumerate(part.attributes)}
    for names, numbers in part.asked.items():
        _answer(pushdown, numbers, pairs.marginal([rank[name] for name in names]), out)


def _answer(pushdown: Pushdown, numbers: Sequence[int], marginal: Integers, out: Integers) -> None:
    """Write the answers of queries over the marginal's attributes."""
    queries = [pushdown.queries[number] for number in numbers]
    rows = float(marginal.sum())
    for number, query, answer in zip(numbers, queries, answer_all(queries, marginal), strict=True):
        start = pushdown.starts[number]
        fits = rows * query.bound < 2.0**62
        out[start : start + query.cells] = answer if fits else _saturated(query, marginal, answer)


def _saturated(query: LinearQuery, marginal: Integers, answer: Integers) -> Integers:
    """An answer whose sums may have wrapped around in int64, with those that do not fit at its ends.

    Privacy:
        The kernel brings everything beyond 2^61 to one value, so that it does not matter where around 2^62 this begins.
    """
    about = query.answer(marginal.astype(np.float64))
    return np.where(np.abs(about) < 2.0**62, answer, np.copysign(2.0**62, about).astype(np.int64))
