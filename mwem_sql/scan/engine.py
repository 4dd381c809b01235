"""Runs the scans of the private table, on whatever engine has it. Sees private facts, as only the other modules of this folder do.

Nothing here may raise with a text of the engine's: its errors quote values. Callers get true answers and hand them to a kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.algebra.answers import answer_all
from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.table import Table
from mwem_sql.boundary.relations import Relation
from mwem_sql.errors import EngineError
from mwem_sql.scan.codes import Reading
from mwem_sql.scan.engines.instance import SameInstance, as_engine
from mwem_sql.scan.engines.protocol import ChangedError, Engine, Snapshot
from mwem_sql.scan.pair_counts import Pairs
from mwem_sql.scan.pushdown import Pushdown
from mwem_sql.scan.scans import Aggregates, GroupBy, Product

__all__ = ["ChangedError", "Held", "State", "as_described", "engine_of", "true_answers"]

GROUPS = 2**18  # groups that are read at a time

_FIXED = (
    "the private table could not be read. Hint: the cause is withheld because it may quote a private value; "
    "ask the table's owner to run a plain SELECT count(*) on it"
)
_CHANGED = "the private table or its files were replaced or written to while they were read. Hint: release when nobody writes; give a new version := '...'"

State = Callable[[], object]
Held = Callable[[Snapshot], State]


def engine_of(con: duckdb.DuckDBPyConnection, relation: Relation) -> Engine | duckdb.DuckDBPyConnection:
    """Where the rows of a relation are: its source's engine, or a connection of the caller's own instance."""
    return con if relation.source is None else cast(Engine, relation.source.engine)


def as_described(relation: Relation, function: str) -> Held:
    """For calls that are not charged: the snapshot must have the relation as it was described. In this instance nothing needs to be asked."""

    def held(snapshot: Snapshot) -> State:
        if relation.source is not None:
            facts = snapshot.describe((relation.name.schema, relation.name.table), function)
            if facts.definition != relation.definition:
                raise ChangedError
        return lambda: None

    return held


def true_answers(
    rows: Engine | duckdb.DuckDBPyConnection, pushdown: Pushdown, held: Held = lambda _: lambda: None
) -> Integers:
    """The exact answers of all queries, over all public cells, and the counts of units, from one snapshot of the table: one vector.

    `rows` says where the table is: an engine, or a connection of the instance that has it.

    `held` is asked within the snapshot: it raises a ChangedError if the rows are no longer those that were charged, and says how to ask for
    the state of what is in no snapshot, files, which must be the same before and after all scans.

    Privacy:
        Returns private facts. They may go into a `Kernel` and, where a function is documented as not private, to the curator.
    """
    answers = _run(as_engine(rows), pushdown, held)
    if isinstance(answers, str):
        raise EngineError(f"engine: {answers}")
    return answers


def _run(engine: Engine | SameInstance, pushdown: Pushdown, held: Held) -> Integers | str:
    """All answers; one of two fixed texts when anything failed, with nothing of why."""
    try:
        out = np.zeros(pushdown.size, dtype=np.int64)
        with engine.snapshot() as snapshot, _limited(snapshot, engine.timeout):
            state = held(snapshot)
            before = state(), snapshot.state()
            for part in pushdown.parts:
                if isinstance(part, GroupBy):
                    _grouped(snapshot, part, pushdown, out)
                elif isinstance(part, Product):
                    _multiplied(snapshot, part, pushdown, out)
                else:
                    _aggregated(snapshot, part, pushdown, out)
            if (state(), snapshot.state()) != before:
                return _CHANGED
    except ChangedError:
        return _CHANGED
    except Exception:  # noqa: BLE001  whatever it is, it may quote a private value
        return _FIXED
    return out


@contextmanager
def _limited(snapshot: Snapshot, seconds: float | None) -> Iterator[None]:
    """Stop the scans when their time is over."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, snapshot.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read(snapshot: Snapshot, pushdown: Pushdown, statement: exp.Select, rows: int) -> Iterator[pa.RecordBatch]:
    return snapshot.run(pushdown.dialect.sql(statement), rows)


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


def _grouped(snapshot: Snapshot, part: GroupBy, pushdown: Pushdown, out: Integers) -> None:
    """Add every group to the histograms, and answer from their marginals."""
    counts = [np.zeros(histogram.cells, dtype=np.int64) for histogram in part.histograms]
    places = [[part.attributes.index(name) for name in histogram.attributes] for histogram in part.histograms]
    for batch in _read(snapshot, pushdown, part.statement, GROUPS):
        codes = [_codes(batch, column, reading) for column, reading in enumerate(part.readings)]
        rows = batch.column(len(codes)).to_numpy()
        for histogram, own, cells in zip(part.histograms, places, counts, strict=True):
            index = np.zeros(len(rows), dtype=np.int64)
            for place, size in zip(own, histogram.shape, strict=True):
                index *= size
                index += codes[place]
            np.add.at(cells, index, rows)
    for histogram, cells in zip(part.histograms, counts, strict=True):
        found = Table(tuple(histogram.attributes), cells.reshape(histogram.shape)).projections(histogram.asked)
        for names, numbers in histogram.asked.items():
            _answer(pushdown, numbers, found[names].cells, out)


def _aggregated(snapshot: Snapshot, part: Aggregates, pushdown: Pushdown, out: Integers) -> None:
    for statement, places in zip(part.statements, part.places, strict=True):
        for batch in _read(snapshot, pushdown, statement, 1):
            out[places] = [column[0].as_py() for column in batch.columns]


def _multiplied(snapshot: Snapshot, part: Product, pushdown: Pushdown, out: Integers) -> None:
    """Count all pairs of classes, and answer from the matrix of them."""
    pairs = Pairs(part.shape)
    for batch in _read(snapshot, pushdown, part.statement, pairs.rows):
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
