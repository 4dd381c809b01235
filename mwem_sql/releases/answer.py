"""Answers from a stored release, with their intervals, at no privacy cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.queries import Queries
from mwem_sql.compile.check import check_constants
from mwem_sql.compile.compiled import Compiled, CompiledQuery, cells_of
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.errors import (
    MwemError,
    OptionError,
    PredicateError,
    WorkloadError,
    did_you_mean,
    legible,
    literal,
    refuse,
)
from mwem_sql.judge.certificate import ErrorBounds
from mwem_sql.judge.evidence import Evidence
from mwem_sql.judge.intervals import Intervals, Judge
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold
from mwem_sql.language.measures import is_aggregate
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.model.support import IMPOSSIBLE
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import SCHEMA
from mwem_sql.platform.sandbox import Sandbox, settings_of
from mwem_sql.platform.session import Session
from mwem_sql.releases import kept, store, summary
from mwem_sql.releases.request import read_number
from mwem_sql.releases.store import Stored
from mwem_sql.workload import Query, Workload, check_of

CONFIDENCE = 0.95
ROW_BYTES = 1000
"""Bytes that a row of a workload is taken for when it is kept. Larger: fewer are."""
_RELEASED = ("measurements", "workloads", "bounds", "certificates")


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """Questions with their answers, a vector of cells each, and how far these may be off.

    `compiled` and `evidence` are on the classes that the questions and the bounded queries of the workload distinguish.
    """

    compiled: Compiled
    evidence: Evidence
    queries: list[CompiledQuery]
    answers: list[Floats]
    intervals: list[Intervals]


@dataclass(frozen=True, eq=False, kw_only=True)
class Released:
    """What was released beside the state, as intervals need it. No other one ever has its number."""

    measurements: Sequence[Measurement]
    workload: Workload
    bounds: pa.Table
    figures: pa.Table
    number: int = field(default_factory=count().__next__)

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection, stored: Stored) -> Released:
        """That of a stored release, as it is now."""

        def made() -> tuple[Released, int]:
            workload, bounds = store.bounds_of(con, stored)
            measurements, figures = store.read_measurements(con, stored), store.figures_of(con, stored)
            out = cls(measurements=measurements, workload=workload, bounds=bounds, figures=figures)
            return out, store.size_of(measurements) + bounds.nbytes + figures.nbytes + ROW_BYTES * len(workload)

        tables = [Name(stored.name.database, SCHEMA, name) for name in _RELEASED]
        digests = [kept.digest(con, table, stored.facts["release"]) for table in tables]
        return kept.KEPT.get(("released", *digests), made)


class Answerer:
    """A stored release made ready for questions.

    Queries may split its classes: in proportion to what was measured of their pieces, or evenly.
    """

    def __init__(self, session: Session, stored: Stored) -> None:
        self._session = session
        self.stored = stored
        self._state: State | Mixture = stored.state()

    @property
    def settings(self) -> Mapping[str, object]:
        """Those of the connection."""
        return self._session.settings

    def sandbox(self) -> Sandbox:
        """Where expressions mean what they mean to the caller."""
        return Sandbox(self.settings)

    def compile(self, workload: Workload, *, is_new: bool = False) -> Compiled:
        """Questions in linear form. Of `is_new` ones those are refused that a release would refuse, too.

        The answer for a value that is on no list is clear without looking, and was hardly meant.
        """
        check_of(workload, self.stored.domain.table, self.stored.name.table)
        with self.sandbox() as sandbox:
            try:
                compiled = compile_workload(
                    self.stored.domain,
                    workload,
                    sandbox,
                    finer_than=self.stored.classes,
                    shapes=self.stored.shapes(sandbox.settings),
                )
            except PredicateError as error:
                if not error.column:
                    raise
                why = f"{error.reader} reads {error.column}, and "
                raise self.without(error.column, why, in_list=error.reader == "group_by") from None
            if is_new:
                check_constants(compiled, sandbox)
            return compiled

    def without(self, column: str, why: str = "", function: str = "workload", *, in_list: bool = True) -> MwemError:
        """A refusal of a column that the release does not have, and perhaps no table ever had.

        `in_list`: names are text there.
        """
        columns, shown = self.stored.domain.columns, literal if in_list else dialect.name
        if self.stored.domain.link is not None and column in self.stored.domain.link.columns:
            what = f"{why}{column} of {self.stored.name.table} is a key, of new numbers"
            return refuse(WorkloadError, function, what, "join the tables by it, and ask about other columns")
        near = did_you_mean(column, columns, shown=shown)
        text = "" if in_list else f"; if it is text, write {literal(column)}"
        return refuse(
            WorkloadError,
            function,
            f"{why}{self.stored.name.table} was made without {column}",
            f"{near}it has {', '.join(map(shown, columns))}; to have {column}, release under another output with a row"
            f" about it in the workload{text}",
        )

    def workload(self) -> Workload:
        """What the release was made for."""
        return store.workload_of(self._session.cursor(), self.stored)

    def answers(self, compiled: Compiled) -> list[Floats]:
        """One vector per query, its cells in order; NaN for the average of nothing."""
        return [divided(*pair) for pair in self._sums(compiled, list(compiled.queries))]

    def judged(self, workload: Workload, confidence: float, *, is_new: bool = False) -> Judged:
        """Answers with how far each may be off. Questions that are `is_new` are checked as a release checks them."""
        return self._judged(workload, confidence, self._released(), is_new=is_new)

    def _released(self) -> Released:
        with legible(store.damaged(self.stored.name)):
            return Released.of(self._session.cursor(), self.stored)

    def _judged(self, workload: Workload, confidence: float, released: Released, *, is_new: bool) -> Judged:
        miss, total = 1 - confidence, float(self.stored.facts["total"])
        bounds = ErrorBounds(released.workload, released.bounds, released.figures, miss, total)
        bounded, count = bounds.bounded(), len(workload)
        # On classes that both the questions and the bounded queries distinguish.
        compiled = self.compile(Workload((*workload, *bounded)), is_new=is_new)
        everything = list(compiled.queries)
        sums, queries = self._sums(compiled, everything), everything[:count]
        context = [
            (query.linear, answer, bound)
            for query, (answer, _), bound in zip(everything[count:], sums[count:], bounded.values(), strict=True)
        ]
        evidence = Evidence(self.stored.classes, released.measurements, compiled)
        judge = Judge(evidence, miss, total, context)
        intervals = judge.intervals(queries, sums[:count], [bounds.within(query) for query in queries])
        answers = [interval.settled(divided(*pair)) for interval, pair in zip(intervals, sums[:count], strict=True)]
        return Judged(
            compiled=compiled,
            evidence=evidence,
            queries=queries,
            answers=answers,
            intervals=[self._with_ends(*pair) for pair in zip(queries, intervals, strict=True)],
        )

    def _with_ends(self, query: CompiledQuery, intervals: Intervals) -> Intervals:
        """The same, without ends where a query sums up a column of which many rows are beyond a bound."""
        clamped = self._clamped(query)
        return intervals.without_ends() if clamped and clamped & self._far_off else intervals

    def _clamped(self, query: CompiledQuery) -> set[str]:
        """The columns that a query sums up whose values beyond a bound are counted as the bound."""
        summed = [block.attributes for block in query.linear.blocks if block.values is not None]
        return {name for names in summed for name in names if self.stored.domain[name].has_outer}

    @cached_property
    def _far_off(self) -> set[str]:
        """The columns of which many rows are beyond a bound, by what was released: nobody knows how far."""
        shares = summary.off_domain_shares(self._state, self.stored.classes)
        return {name for name, _, share in shares if share >= summary.LEAST_SHARE}

    def _note(self, query: CompiledQuery) -> str | None:
        """Which rows an answer counts, and which values it sums up as another."""
        limits = [
            f"a {each.name} beyond {each.text(each.low)} to {each.text(each.high)} counts as the bound"
            for each in map(self.stored.domain.__getitem__, sorted(self._clamped(query)))
            if each.low is not None and each.high is not None
        ]
        return "; ".join(filter(None, [summary.rows_used(self.stored.facts), *limits])) or None

    def _sums(self, compiled: Compiled, queries: Sequence[CompiledQuery]) -> list[tuple[Floats, Floats | None]]:
        """Of each query its sums, in the measure's unit, and for an average the counts that divide them."""
        # Of attributes whose classes are not those that are stored, but parts of them.
        finer = {name: classes.within(self.stored.classes[name]) for name, classes in compiled.classes.items()}
        finer = {name: part for name, part in finer.items() if not np.array_equal(part.codes, np.arange(part.count))}
        by_attributes: dict[tuple[str, ...], list[LinearQuery]] = {}
        for query in queries:
            for part in (query,) if query.over is None else (query, query.over):
                by_attributes.setdefault(part.linear.attributes, []).append(part.linear)
        answers: dict[LinearQuery, Floats] = {}
        for attributes, several in by_attributes.items():
            marginal = self.weights(attributes)
            for axis, name in enumerate(attributes):
                marginal = finer[name].spread(marginal, axis) if name in finer else marginal
            answers.update(zip(several, Queries.of(several).answers(marginal), strict=True))
        return [
            (answers[query.linear] * query.linear.unit, None if query.over is None else answers[query.over.linear])
            for query in queries
        ]

    def weights(self, attributes: Sequence[str]) -> Floats:
        """The marginal over stored classes; what rules leave no weight has none."""
        out = self._state.marginal(attributes)
        return np.where(out > IMPOSSIBLE * self._state.total, out, 0.0)

    def counts(self, predicates: Sequence[str]) -> list[float]:
        compiled = self.compile(Workload.from_predicates(predicates), is_new=True)
        return [float(values[0]) for values in self.answers(compiled)]

    def rows(self, workload: Workload, confidence: float = CONFIDENCE) -> list[dict[str, Any]]:
        """The rows of mwem_answer, a caller's own."""
        rows: list[dict[str, Any]] = self.table(workload, confidence).to_pylist()
        return rows

    def table(self, workload: Workload, confidence: float = CONFIDENCE) -> pa.Table:
        """The rows of mwem_answer as columns. Those of a question that was asked of the same content are kept."""
        released = self._released()

        def made() -> tuple[pa.Table, int]:
            table = self._table(self._judged(workload, confidence, released, is_new=True))
            return table, table.nbytes + ROW_BYTES * len(workload)

        meaning = settings_of(self.settings), confidence
        key = "rows", self.stored.number, released.number, meaning, tuple(workload)
        return kept.KEPT.get(key, made)

    def _table(self, judged: Judged) -> pa.Table:
        rows = pa.array(np.repeat(np.arange(len(judged.queries)), list(map(len, judged.answers))))
        answers, low, high = (
            np.concatenate([np.zeros(0), *each])
            for each in (
                judged.answers,
                (each.low for each in judged.intervals),
                (each.high for each in judged.intervals),
            )
        )
        measured = chain.from_iterable(each.measured for each in judged.intervals)
        return pa.table(
            {
                "query": pa.array([query.row_number for query in judged.queries], pa.int64()).take(rows),
                "name": pa.array([query.label for query in judged.queries], pa.string()).take(rows),
                "cell": cells_of(judged.queries),
                "answer": pa.array(answers, mask=np.isnan(answers)),
                "low": pa.array(low, mask=~np.isfinite(low)),
                "high": pa.array(high, mask=~np.isfinite(high)),
                "measured": pa.array(measured, pa.string()),
                "note": pa.array(map(self._note, judged.queries), pa.string()).take(rows),
            }
        )


def divided(sums: Floats, counts: Floats | None) -> Floats:
    """Sums, or averages if there are counts; NaN for the average of nothing."""
    return sums if counts is None else np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def read_confidence(value: object, function: str) -> float:
    number = CONFIDENCE if value is None else read_number(value)
    if number is None or not 0 < number < 1:
        what = f"confidence ({value!r}) must be between 0 and 1, without these"
        hint = "leave it out for 0.95: 95 of 100 intervals have the true answer in them"
        raise refuse(OptionError, function, what, hint)
    return float(number)


def or_null(value: float) -> float | None:
    return None if math.isnan(value) else value


def answerer(session: Session, output: str, function: str) -> Answerer:
    return Answerer(session, store.load(session.cursor(), output, session.place, function))


def average(
    ready: Answerer, measure: object, given: str | None, confidence: float, function: str
) -> Iterator[dict[str, Any]]:
    """One row: the average of a measure over the rows for which a condition is true, or over all."""
    if not isinstance(measure, str) or not measure.strip() or is_aggregate(measure):
        what = f"measure ({measure!r}) must be what is averaged: a column, or an SQL expression over columns"
        hint = "write 'pay', or 'pay / 12'; mwem_answer takes sums, and averages by groups"
        raise refuse(OptionError, function, what, hint)
    for row in ready.rows(Workload((Query(predicate=given, measure=f"avg({measure}\n)"),)), confidence):
        yield {name: row[name] for name in ("answer", "low", "high", "measured")}


def read_given(value: object, function: str) -> str | None:
    """A condition that rows have to meet; None for all rows."""
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    what = f"given ({value!r}) must be a condition in SQL, as text"
    raise refuse(OptionError, function, what, "write 'age >= 65', or leave it out for all rows")


def weights(ready: Answerer, attributes: list[str], function: str) -> tuple[list[tuple[str, str]], list[pa.Array]]:
    """The weighting over some attributes: names and types of its columns, and their values, of attributes as text."""
    domain = ready.stored.domain
    names = []
    for name in attributes:
        if fold(name) not in domain.spelling:
            raise ready.without(name, function=function)
        names.append(domain.spelling[fold(name)])
    if not names or len(set(names)) < len(names):
        what = f"attributes ({attributes!r}) must be one or more, each once"
        raise refuse(OptionError, function, what, "write ['sex', 'race']")
    partitions = {name: ready.stored.classes[name] for name in names}
    cells, most = int(np.prod([len(classes.pieces) for classes in partitions.values()])), 5_000_000
    if cells > most:
        what = f"attributes ({attributes!r}) have {cells:,} value combinations, more than {most:,}"
        raise refuse(OptionError, function, what, "name fewer")
    marginal = ready.weights(names)
    for axis, classes in enumerate(partitions.values()):
        marginal = classes.spread(marginal, axis)
    types, columns = [], []
    for (name, classes), pieces in zip(partitions.items(), np.indices(marginal.shape), strict=True):
        labels = [classes.pieces.label_alone(piece) for piece in range(len(classes.pieces))]
        columns.append(pa.array(labels, pa.string()).take(pa.array(pieces.ravel())))
        # Bins, and values off the domain, are words.
        has_values = classes.pieces.listed and not classes.attribute.open
        types.append((name, classes.attribute.type if has_values else "VARCHAR"))
    return [*types, ("weight", "DOUBLE")], [*columns, pa.array(marginal.ravel())]
