"""Execution: runs the scans of a pushdown on whatever engine has the private rows, and returns exact counts.

Sees private facts, as only the other modules of this folder do. Nothing here may raise with a text of the engine's: its
errors quote values. Callers hand true answers to a kernel.
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

from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.table import Table
from mwem_sql.boundary.relations import Relation
from mwem_sql.errors import EngineError
from mwem_sql.scan.dialects.dialect import ColumnReading
from mwem_sql.scan.engines.duckdb import SameInstance, as_engine
from mwem_sql.scan.engines.protocol import ChangedError, RowEngine, Snapshot
from mwem_sql.scan.parts import Aggregates, GroupBy, Product
from mwem_sql.scan.pushdown import Pushdown

__all__ = [
    "ChangedError",
    "Check",
    "Fingerprint",
    "all_answers",
    "as_described",
    "engine_of",
    "true_answers",
    "value_counts",
]

GROUPS = 2**18
"""Groups that are read at a time. Memory grows with it; with fewer, the fixed cost of a batch is paid more often."""
BLOCK_ROWS = 2**16
"""Most rows of a block of the pairwise product: below 2^24, where float32 stops counting. A block has at most 2^25
numbers (128 MB), and fewer rows where classes are many: memory grows with both."""
COPIED_CELLS = 2**20
"""Cells of whole marginals that are copied at a time. Memory for their indexes grows with it."""

Fingerprint = Callable[[], object]
"""Returns what must be the same before and after all scans."""
Check = Callable[[Snapshot], Fingerprint]
"""Raises a ChangedError if a snapshot has other rows than those that were charged."""


def engine_of(con: duckdb.DuckDBPyConnection, relation: Relation) -> RowEngine | duckdb.DuckDBPyConnection:
    """Where the rows of a relation are: its source's engine, or a connection of the caller's instance."""
    return con if relation.source is None else cast(RowEngine, relation.source.engine)


def as_described(relation: Relation, function: str) -> Check:
    """For calls that are not charged: the snapshot must have the relation as it was described."""

    def check(snapshot: Snapshot) -> Fingerprint:
        if relation.source is not None:
            facts = snapshot.describe((relation.name.schema, relation.name.table), function)
            if facts.definition != relation.definition:
                raise ChangedError
        return lambda: None

    return check


def true_answers(
    rows: RowEngine | duckdb.DuckDBPyConnection, pushdown: Pushdown, check: Check = lambda _: lambda: None
) -> Integers:
    """What `all_answers` gives for a single pushdown."""
    return all_answers(rows, [pushdown], check)[0]


def all_answers(
    rows: RowEngine | duckdb.DuckDBPyConnection, pushdowns: Sequence[Pushdown], check: Check = lambda _: lambda: None
) -> list[Integers]:
    """Of each pushdown the exact answers of all queries, over all public cells, and the counts of units, as one vector.

    All of it is from one snapshot. `rows` says where the tables are: an engine, or a connection of the instance that
    has them. `check` runs within the snapshot. The fingerprint that it returns is for what no snapshot
    covers, files: it is compared before and after all scans.

    Privacy:
        Returns private facts. They may go into a `Kernel` and, where a function is documented as not private, to the
        curator.
    """
    answers = [np.zeros(pushdown.size, dtype=np.int64) for pushdown in pushdowns]

    def read(snapshot: Snapshot) -> None:
        for pushdown, out in zip(pushdowns, answers, strict=True):
            for part in pushdown.parts:
                if isinstance(part, GroupBy):
                    _run_groups(snapshot, part, pushdown, out)
                elif isinstance(part, Product):
                    _run_product(snapshot, part, pushdown, out)
                else:
                    _run_aggregates(snapshot, part, pushdown, out)

    _read(rows, read, check)
    return answers


def value_counts(
    rows: RowEngine | duckdb.DuckDBPyConnection, statements: Sequence[str], check: Check = lambda _: lambda: None
) -> list[list[pa.RecordBatch]]:
    """Of each statement, texts and how many units have each: of columns whose values nobody listed.

    Privacy:
        Returns private facts, the texts among them. They may go into `kernel.thresholds.frequent_values`.
    """
    out: list[list[pa.RecordBatch]] = []

    def read(snapshot: Snapshot) -> None:
        out.extend(list(snapshot.run(statement, GROUPS)) for statement in statements)

    _read(rows, read, check)
    return out


def _read(rows: RowEngine | duckdb.DuckDBPyConnection, read: Callable[[Snapshot], None], check: Check) -> None:
    """Read what is to be read in one snapshot."""
    failure = _run(as_engine(rows), read, check)
    if failure is not None:  # raised out here, where the cause is no longer its context
        raise EngineError(f"engine: {failure}")


def _run(engine: RowEngine | SameInstance, read: Callable[[Snapshot], None], check: Check) -> str | None:
    """One of two fixed texts when anything failed, with nothing of why."""
    changed = (
        "the private table or its files were replaced or written to while they were read. "
        "Hint: call again when nobody writes: what was charged is not charged again"
    )
    try:
        with engine.snapshot() as snapshot, _limited(snapshot, engine.timeout):
            fingerprint = check(snapshot)
            before = fingerprint(), snapshot.state()
            read(snapshot)
            if (fingerprint(), snapshot.state()) != before:
                return changed
    except ChangedError:
        return changed
    except Exception:  # noqa: BLE001  whatever it is, it may quote a private value
        return (
            "the private table could not be read. Hint: the cause is withheld because it may quote a private value; "
            "ask the table's owner to run a plain SELECT count(*) on it"
        )
    return None


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


def _codes(batch: pa.RecordBatch, column: int, reading: ColumnReading) -> npt.NDArray[Any]:
    values = batch.column(column)
    if reading.starts is None or reading.codes is None:
        values = values.fill_null(reading.missing) if values.null_count else values
        return np.asarray(values.to_numpy(zero_copy_only=False))
    ticks = values.fill_null(reading.starts[0].item()).to_numpy(zero_copy_only=False)
    codes: npt.NDArray[np.int32] = reading.codes[np.searchsorted(reading.starts, ticks, side="right") - 1]
    if values.null_count:
        codes[values.is_null().to_numpy(zero_copy_only=False)] = reading.missing
    return codes


def _run_groups(snapshot: Snapshot, part: GroupBy, pushdown: Pushdown, out: Integers) -> None:
    """Add every group to the histograms, and answer from their marginals."""
    counts = [np.zeros(histogram.cells, dtype=np.int64) for histogram in part.histograms]
    columns = [[part.attributes.index(name) for name in histogram.attributes] for histogram in part.histograms]
    for batch in snapshot.run(pushdown.dialect.sql(part.statement), GROUPS):
        codes = [_codes(batch, column, reading) for column, reading in enumerate(part.readings)]
        rows = batch.column(len(codes)).to_numpy()
        for histogram, numbers, cells in zip(part.histograms, columns, counts, strict=True):
            index = np.zeros(len(rows), dtype=np.int64)
            for number, size in zip(numbers, histogram.shape, strict=True):
                index *= size
                index += codes[number]
            np.add.at(cells, index, rows)
    for histogram, cells in zip(part.histograms, counts, strict=True):
        marginals = Table(histogram.attributes, cells.reshape(histogram.shape)).projections(histogram.queries)
        for names, numbers in histogram.queries.items():
            _answer(pushdown, numbers, marginals[names].cells, out)


def _run_aggregates(snapshot: Snapshot, part: Aggregates, pushdown: Pushdown, out: Integers) -> None:
    for statement, cells in zip(part.statements, part.cells, strict=True):
        for batch in snapshot.run(pushdown.dialect.sql(statement), 1):
            out[cells] = [column[0].as_py() for column in batch.columns]


def _run_product(snapshot: Snapshot, part: Product, pushdown: Pushdown, out: Integers) -> None:
    """Count all pairs of classes, and answer from the matrix of them."""
    pairs = PairCounts(part.shape)
    for batch in snapshot.run(pushdown.dialect.sql(part.statement), pairs.rows):
        pairs.add([_codes(batch, column, reading) for column, reading in enumerate(part.readings)])
    pairs.finish()
    pairs.copy_marginals(part.marginals, pushdown.starts, out)
    for names, numbers in part.queries.items():
        _answer(pushdown, numbers, pairs.marginal([part.attributes.index(name) for name in names]), out)


def _answer(pushdown: Pushdown, numbers: Sequence[int], marginal: Integers, out: Integers) -> None:
    """Write the answers of queries over the marginal's attributes."""
    queries = pushdown.queries.take(numbers)
    rows = float(marginal.sum())
    for number, query, answer in zip(numbers, queries, queries.answers(marginal), strict=True):
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


class PairCounts:
    """Counts of all pairs of classes of attributes with `shape[k]` classes each, from batches of codes.

    A batch becomes a block of zeros and ones, a row per class, and the block times its transpose counts all pairs of
    classes. float32 has whole numbers below 2^24 exactly, so a block has fewer rows than that and blocks add up in
    int64. The first class of each attribute is left out of the blocks and follows from the others.

    Privacy:
        Has private facts, and stays in this module.
    """

    def __init__(self, shape: Sequence[int], *, most_rows: int = BLOCK_ROWS) -> None:
        # One more attribute, of a single class: a one-way marginal is one with that attribute.
        self._sizes = np.array([*shape, 1], dtype=np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        kept = int((self._sizes - 1).sum())
        self.rows = max(1, min(most_rows, 2**25 // max(1, kept)))
        self._block = np.empty((kept, self.rows), dtype=np.float32)
        self._product = np.zeros((kept, kept), dtype=np.int64)
        self._total = 0

    def add(self, codes: Sequence[npt.NDArray[np.integer]]) -> None:
        """Count a batch: codes of at most `rows` rows for each attribute."""
        block = self._block[:, : len(codes[0])]
        row = 0
        for column, size in zip(codes, self._sizes[:-1].tolist(), strict=True):
            if size == 2:
                block[row] = column
            else:
                np.equal(column, np.arange(1, size, dtype=column.dtype)[:, None], out=block[row : row + size - 1])
            row += size - 1
        self._product += (block @ block.T).astype(np.int64)
        self._total += block.shape[1]

    def finish(self) -> None:
        """Fill in the first classes: a row that is in no other class of an attribute is in its first."""
        first = self._starts
        kept = np.delete(np.arange(self._sizes.sum()), first)
        ends = np.cumsum(self._sizes - 1)

        def others(array: Integers) -> Integers:
            """Sums over the kept classes of each attribute, of which it may have none."""
            sums = np.concatenate([np.zeros_like(array, shape=(1, *array.shape[1:])), np.cumsum(array, axis=0)])
            return np.asarray(sums[ends] - sums[ends - (self._sizes - 1)])

        ones = np.empty(len(kept) + len(first), dtype=np.int64)
        ones[kept] = np.diagonal(self._product)
        ones[first] = self._total - others(ones[kept])
        table = np.empty((ones.size, ones.size), dtype=np.int64)
        table[np.ix_(kept, kept)] = self._product
        table[np.ix_(first, kept)] = ones[kept] - others(self._product)
        table[np.ix_(kept, first)] = table[np.ix_(first, kept)].T
        table[np.ix_(first, first)] = ones[first] - others(table[np.ix_(kept, first)])
        self._table = table

    def marginal(self, attributes: Sequence[int]) -> Integers:
        """The marginal of up to two attributes, in that order."""
        one, other = (self._starts[k] + np.arange(self._sizes[k]) for k in (*attributes, -1, -1)[:2])
        return self._table[np.ix_(one, other)].reshape([self._sizes[k] for k in attributes])

    def copy_marginals(self, wanted: Integers, starts: Integers, out: Integers, *, at_once: int = COPIED_CELLS) -> None:
        """Write whole marginals, those of one shape together; `wanted` has rows (query, attribute, attribute or -1)."""
        base = int(self._sizes.max()) + 1
        shapes = self._sizes[wanted[:, 1]] * base + self._sizes[wanted[:, 2]]
        for shape in np.unique(shapes).tolist():
            rows, columns = divmod(shape, base)
            same = wanted[shapes == shape]
            step = max(1, at_once // (rows * columns))
            for begin in range(0, len(same), step):
                number, one, other = same[begin : begin + step].T
                first = (self._starts[one][:, None] + np.arange(rows))[:, :, None]
                second = (self._starts[other][:, None] + np.arange(columns))[:, None, :]
                cells = starts[number][:, None] + np.arange(rows * columns)
                out[cells] = self._table[first, second].reshape(len(number), -1)
