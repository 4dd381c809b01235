"""Questions to a stored release, at no privacy cost; and the curator's comparison with the truth, which is not private."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.answers import answer_all
from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.table import shares_within, spread
from mwem_sql.compile.compiled import Compiled, CompiledQuery
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.compile.sense import check_constants
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import (
    MwemError,
    OptionError,
    PredicateError,
    WorkloadError,
    did_you_mean,
    literal,
    refuse,
)
from mwem_sql.judge.certificate import Assured
from mwem_sql.judge.intervals import Intervals, Judge
from mwem_sql.judge.known import Known
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold
from mwem_sql.language.measures import is_aggregate
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases import beyond, left_out, store
from mwem_sql.releases.store import Stored
from mwem_sql.workload import Query, Workload

CONFIDENCE = 0.95
MAX_WEIGHTS = 5_000_000


class Answerer:
    """A stored release made ready for questions. Queries may split its classes: in proportion to what was measured of their pieces, or evenly."""

    def __init__(self, session: Session, stored: Stored) -> None:
        self._session = session
        self.stored = stored
        self._state: State | Mixture = stored.state()

    def sandbox(self) -> Sandbox:
        """Where expressions mean what they mean to the caller."""
        return Sandbox(self._session.settings)

    def asked(self, workload: Workload) -> Compiled:
        """What a person asks. Refuses what a release would refuse, too: a value that is on no list has a known answer, and was hardly meant."""
        with self.sandbox() as sandbox:
            compiled = self._compiled(workload, sandbox)
            check_constants(compiled, sandbox)
            return compiled

    def compile(self, workload: Workload) -> Compiled:
        """What a release asked."""
        with self.sandbox() as sandbox:
            return self._compiled(workload, sandbox)

    def _compiled(self, workload: Workload, sandbox: Sandbox) -> Compiled:
        try:
            return compile_workload(self.stored.domain, workload, sandbox, finer_than=self.stored.classes)
        except PredicateError as error:
            if not error.column:
                raise
            why = f"{error.reader} reads {error.column}, and "
            raise self.without(error.column, why, in_list=error.reader == "group_by") from None

    def without(self, column: str, why: str = "", function: str = "workload", *, in_list: bool = True) -> MwemError:
        """A refusal of a column that the release does not have, and perhaps no table ever had. `in_list`: names are text there."""
        known, shown = self.stored.domain.columns, literal if in_list else dialect.name
        near = did_you_mean(column, known, shown=shown)
        text = "" if in_list else f"; if it is text, write {literal(column)}"
        return refuse(
            WorkloadError,
            function,
            f"{why}{self.stored.name.table} was made without {column}",
            f"{near}it has {', '.join(map(shown, known))}; to have {column}, release under another output with a row about it in the workload{text}",
        )

    def workload(self) -> Workload:
        """What the release was made for."""
        return store.workload_of(self._session.cursor(), self.stored)

    def answers(self, compiled: Compiled) -> list[Floats]:
        """One vector per query, its cells in order; NaN for the average of nothing."""
        return [divided(*pair) for pair in self._sums(compiled)]

    def judged(self, compiled: Compiled, confidence: float) -> list[tuple[Floats, Intervals]]:
        """The same with how far each answer may be off."""
        con = self._session.cursor()
        known = store.bounds_of(con, self.stored)
        miss, total = 1 - confidence, float(self.stored.facts["total"])
        assured = Assured(*known, miss, total)
        asked, bounded = compiled, assured.bounded()
        if bounded:
            # On classes that both the questions and these tell apart.
            asked = self.compile(Workload(tuple([query.source for query in compiled.queries]) + tuple(bounded)))
        sums, count = self._sums(asked), len(compiled.queries)
        judge = Judge(
            self.known(asked),
            miss,
            total,
            [
                (query.linear, own, bounded[query.source])
                for query, (own, _) in zip(asked.queries[count:], sums[count:], strict=True)
            ],
        )
        within = [assured.within(query) for query in asked.queries[:count]]
        intervals = judge.intervals(asked.queries[:count], sums[:count], within)
        return [
            (divided(*pair), self._with_ends(query, own))
            for query, pair, own in zip(compiled.queries, sums[:count], intervals, strict=True)
        ]

    def _with_ends(self, query: CompiledQuery, found: Intervals) -> Intervals:
        """The same, without ends where a query sums up a column of which many rows are beyond a bound."""
        clamped = self._clamped(query)
        return found.without_ends() if clamped and clamped & self._far_off else found

    def _clamped(self, query: CompiledQuery) -> set[str]:
        """The columns that a query sums up whose values beyond a bound are counted as the bound."""
        summed = [block.attributes for block in query.linear.blocks if block.values is not None]
        return {name for names in summed for name in names if self.stored.domain[name].has_outer}

    @cached_property
    def _far_off(self) -> set[str]:
        """The columns of which many rows are beyond a bound, by what was released: nobody knows how far."""
        return {name for name, _, share in beyond.shares(self._state, self.stored.classes) if share >= beyond.FEWEST}

    def _note(self, query: CompiledQuery) -> str | None:
        """What is to be known of an answer: which rows are counted, and which values are summed up as another."""
        own = [self.stored.domain[name] for name in sorted(self._clamped(query))]
        limits = [
            f"a {attribute.name} beyond {attribute.text(attribute.low)} to {attribute.text(attribute.high)} counts as the bound"
            for attribute in own
            if attribute.low is not None and attribute.high is not None
        ]
        return "; ".join(filter(None, [left_out.sentence(self.stored.facts), *limits])) or None

    def known(self, compiled: Compiled) -> Known:
        """What was measured, for questions that were compiled against the release."""
        return Known(self.stored.classes, store.read_measurements(self._session.cursor(), self.stored), compiled)

    def _sums(self, compiled: Compiled) -> list[tuple[Floats, Floats | None]]:
        """Of each query its sums, in what they stand for, and the counts that they are divided by if it is an average."""
        alike: dict[tuple[str, ...], list[LinearQuery]] = {}
        for query in compiled.queries:
            for part in (query,) if query.over is None else (query, query.over):
                alike.setdefault(part.linear.attributes, []).append(part.linear)
        found: dict[LinearQuery, Floats] = {}
        for queries in alike.values():
            answers = answer_all(queries, self._marginal(queries[0].attributes, compiled))
            found.update(zip(queries, answers, strict=True))
        return [
            (found[query.linear] * query.linear.unit, None if query.over is None else found[query.over.linear])
            for query in compiled.queries
        ]

    def _marginal(self, attributes: Sequence[str], compiled: Compiled) -> Floats:
        """The marginal over the queries' own, finer classes."""
        out = self._state.marginal(attributes)
        for axis, name in enumerate(attributes):
            finer, own = compiled.classes[name], self.stored.classes[name]
            parents = own.holding(finer.pieces)[finer.representatives]
            out = spread(out, axis, parents, shares_within(parents, finer.shares_of(own)))
        return out

    def counts(self, predicates: Sequence[str]) -> list[float]:
        return [float(values[0]) for values in self.answers(self.asked(Workload.from_predicates(predicates)))]

    def rows(self, workload: Workload, confidence: float = CONFIDENCE) -> Iterator[dict[str, Any]]:
        compiled = self.asked(workload)
        for query, (values, intervals) in zip(compiled.queries, self.judged(compiled, confidence), strict=True):
            note = self._note(query)
            for cell, value, judged in zip(query.cells(), values.tolist(), intervals.rows(), strict=True):
                yield {
                    "query": query.number,
                    "name": query.label,
                    "cell": cell,
                    "answer": or_null(value),
                    **judged,
                    "note": note,
                }


def divided(sums: Floats, counts: Floats | None) -> Floats:
    """Sums, or averages if there are counts; NaN for the average of nothing."""
    return sums if counts is None else np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def read_confidence(value: object, function: str) -> float:
    number = CONFIDENCE if value is None else None
    if not isinstance(value, bool) and isinstance(value, (int, float, str)):
        with suppress(ValueError):
            number = float(value)
    if number is None or not 0 < number < 1:
        raise refuse(
            OptionError,
            function,
            f"confidence ({value!r}) must be between 0 and 1, without these",
            "leave it out for 0.95: 95 of 100 intervals have the true answer in them",
        )
    return number


def or_null(value: float) -> float | None:
    return None if math.isnan(value) else value


def answerer(session: Session, output: str, function: str) -> Answerer:
    return Answerer(session, store.load(session.cursor(), output, session.place, function))


def average(
    session: Session, output: str, measure: object, given: str | None, confidence: float
) -> Iterator[dict[str, Any]]:
    """One row: the average of a measure over the rows for which a condition is true, or over all."""
    function = "mwem_average"
    if not isinstance(measure, str) or not measure.strip() or is_aggregate(measure):
        raise refuse(
            OptionError,
            function,
            f"measure ({measure!r}) must be what is averaged: a column, or an SQL expression over columns",
            "write 'pay', or 'pay / 12'; mwem_answer takes sums, and averages by groups",
        )
    ready = answerer(session, output, function)
    for row in ready.rows(Workload((Query(predicate=given, measure=f"avg({measure}\n)"),)), confidence):
        yield {name: row[name] for name in ("answer", "low", "high", "measured")}


def read_given(value: object, function: str) -> str | None:
    """A condition that rows have to meet; None for all rows."""
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise refuse(
        OptionError,
        function,
        f"given ({value!r}) must be a condition in SQL, as text",
        "write 'age >= 65', or leave it out for all rows",
    )


def weights(session: Session, output: str, attributes: list[str]) -> tuple[list[tuple[str, str]], list[pa.Array]]:
    """The weighting over some attributes: names and types of its columns, and their values, of attributes as text."""
    ready = answerer(session, output, "mwem_weights")
    domain = ready.stored.domain
    names = []
    for name in attributes:
        if fold(name) not in domain.spelling:
            raise ready.without(name, function="mwem_weights")
        names.append(domain.spelling[fold(name)])
    if not names or len(set(names)) < len(names):
        raise refuse(
            OptionError,
            "mwem_weights",
            f"attributes ({attributes!r}) must be one or more, each once",
            "write ['sex', 'race']",
        )
    own = {name: ready.stored.classes[name] for name in names}
    cells = int(np.prod([len(classes.pieces) for classes in own.values()]))
    if cells > MAX_WEIGHTS:
        raise refuse(
            OptionError,
            "mwem_weights",
            f"attributes ({attributes!r}) have {cells:,} value combinations, more than {MAX_WEIGHTS:,}",
            "name fewer",
        )
    found = ready.stored.state().marginal(names)
    for axis, classes in enumerate(own.values()):
        shares = shares_within(classes.codes, np.maximum(classes.densities, 1e-300))
        found = spread(found, axis, classes.codes, shares)
    columns = []
    for classes, places in zip(own.values(), np.indices(found.shape), strict=True):
        labels = [classes.pieces.label_alone(piece) for piece in range(len(classes.pieces))]
        columns.append(pa.array(labels, pa.string()).take(pa.array(places.ravel())))
    types = [(name, _kind(classes)) for name, classes in own.items()]
    return [*types, ("weight", "DOUBLE")], [*columns, pa.array(found.ravel())]


def _kind(classes: Classes) -> str:
    """The type of the values that an attribute's weights are listed by: its own, unless some are bins or values off its domain, in words."""
    return classes.attribute.type if classes.pieces.listed and not classes.attribute.open else "VARCHAR"
