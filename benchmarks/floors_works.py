"""The works of floors.py: a table, what is asked of it, and how far a release is off.

A work of marginals is judged by the mean over marginals of the L1 error, of the rows; one of predicates by the mean
error in rows; sums and averages by the mean error of a cell, in parts of the measure's bound. Each has the two methods
of a textbook that there are for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import duckdb
import made
import numpy as np
import tables
from made import NUMBERS
from regret_marginals import mean_l1
from textbook import laplace
from textbook.oneways import marginal, oneways

import mwem_sql
from mwem_sql.workload import Query, Workload

QUESTIONS = 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """A release that is made several times, always of the same table and for the same questions."""

    name: str
    table: str
    """The variant of the generated table."""
    epsilon: float
    delta: float = 0.0
    unit: ClassVar[str]

    @property
    def questions(self) -> int:
        raise NotImplementedError

    @property
    def asked(self) -> Workload:
        raise NotImplementedError

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        raise NotImplementedError

    def error(self, released: mwem_sql.Release) -> float:
        raise NotImplementedError

    def textbook(self, generator: np.random.Generator) -> Iterator[tuple[str, float]]:
        """Each method's name and its error in one run."""
        raise NotImplementedError

    def released(self, seed: int, **options: Any) -> AbstractContextManager[tuple[mwem_sql.Release, float]]:
        """One call, and its seconds of processor time."""
        return tables.released(
            self.con, self.asked, self.epsilon, delta=self.delta, rows=1, seed=seed, progress=False, **options
        )

    def run(self, seed: int, **options: Any) -> tuple[float, mwem_sql.Release, float]:
        """The error of one call, what it released, and its seconds of processor time."""
        with self.released(seed, **options) as (released, seconds):
            return self.error(released), released, seconds


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginals(Work):
    """All marginals of so many attributes, judged by pairs."""

    make: Callable[[str], tables.Table]
    ways: int = 2
    unit = "L1 of n"

    @cached_property
    def data(self) -> tables.Table:
        return self.make(self.table)

    @cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        return self.data.connect()

    @property
    def pairs(self) -> list[tuple[str, ...]]:
        return list(itertools.combinations(self.data.sizes, 2))

    @cached_property
    def asked(self) -> Workload:
        return Workload.from_rows(
            {"group_by": list(names)} for names in itertools.combinations(self.data.sizes, self.ways)
        )

    @property
    def questions(self) -> int:
        return len(self.asked)

    def error(self, released: mwem_sql.Release) -> float:
        return mean_l1(self.data, self.pairs, self.data.state(self.con, released.output))

    def textbook(self, generator: np.random.Generator) -> Iterator[tuple[str, float]]:
        truth = [self.data.histogram(names=names) for names in self.pairs]
        noisy = laplace.each(truth, [1.0] * len(truth), self.epsilon, generator, self.delta)
        yield (
            "noise on each",
            float(np.mean([np.abs(own - exact).sum() for own, exact in zip(noisy, truth, strict=True)]))
            / self.data.rows,
        )
        estimates = oneways([self.data.histogram(names=[name]) for name in self.data.sizes], self.epsilon, generator)
        places = {name: place for place, name in enumerate(self.data.sizes)}
        yield (
            "one-ways",
            mean_l1(self.data, self.pairs, lambda names: marginal(estimates, [places[name] for name in names])),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions(Work):
    """Predicates, sums and averages on the generated loans. Answers are those of `mwem_compare`."""

    queries: tuple[Query, ...]
    bounds: tuple[float, ...] = ()
    """Of the measures, 1 of a count; an error counts in parts of its bound."""
    judged: Callable[[Query], bool] = field(default=lambda _: True)
    unit = "rows"

    @cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        return made.connect_loans(self.table)

    @property
    def asked(self) -> Workload:
        return Workload(self.queries)

    @property
    def questions(self) -> int:
        return len(self.queries)

    @property
    def scales(self) -> np.ndarray:
        return np.array(self.bounds or [1.0] * len(self.queries))

    @cached_property
    def chosen(self) -> np.ndarray:
        return np.array([self.judged(query) for query in self.queries])

    def mean(self, queries: np.ndarray, errors: np.ndarray) -> float:
        """Over the questions that are judged, of the mean over their cells."""
        scaled = errors / self.scales[queries]
        known = ~np.isnan(scaled)
        sums, cells = (np.bincount(queries[known], weights, len(self.queries)) for weights in (scaled[known], None))
        return float((sums / np.maximum(cells, 1))[self.chosen].mean())

    def compared(self, output: str, questions: Workload | None = None) -> dict[str, np.ndarray]:
        """Answers beside true ones and their intervals; of what was asked, or of other questions."""
        found = mwem_sql.compare(self.con, "private", output, questions or self.asked)
        return {
            name: np.array(found[name].to_pylist(), dtype=np.float64)
            for name in ("query", "true_answer", "answer", "low", "high")
        }

    def error(self, released: mwem_sql.Release) -> float:
        rows = self.compared(released.output)
        return self.mean(rows["query"].astype(int) - 1, np.abs(rows["answer"] - rows["true_answer"]))

    def textbook(self, generator: np.random.Generator) -> Iterator[tuple[str, float]]:
        """Noise on each question; an average is a sum and a count, with half of its share each."""
        queries, errors = [], []
        for number, (query, bound) in enumerate(zip(self.queries, self.scales, strict=True)):
            truth = self.truth[number]
            share = self.epsilon / self.questions
            if query.measure is not None and query.measure.startswith("avg"):
                sums, counts = (
                    own + generator.laplace(size=len(own)) * scale * 2 / share
                    for own, scale in ((truth[:, 0], bound), (truth[:, 1], 1.0))
                )
                off = np.clip(sums / np.maximum(counts, 1), 0, bound) - truth[:, 0] / truth[:, 1]
            else:
                noise, kind = laplace.deviation(self.questions, self.epsilon, self.delta)
                draws = generator.laplace(size=len(truth)) / np.sqrt(2)
                off = noise * bound * (draws if kind == "laplace" else generator.normal(size=len(truth)))
            queries += [number] * len(off)
            errors += np.abs(off).tolist()
        yield "noise on each", self.mean(np.array(queries), np.array(errors))

    @cached_property
    def truth(self) -> list[np.ndarray]:
        """Of each question its cells: the sum of the measure, and the rows that have one."""
        out = []
        for query in self.queries:
            value = "1" if query.measure is None else query.measure.removeprefix("avg(").removesuffix(")")
            groups = query.group_text
            rows = self.con.execute(
                f"SELECT coalesce(sum({value}), 0), count({value}) FROM private"
                f" WHERE {query.predicate or 'true'} {f'GROUP BY {groups}' if groups else ''}"
            ).fetchall()
            out.append(np.array(rows, dtype=np.float64))
        return out


def one_column(generator: np.random.Generator) -> Iterator[str]:
    """Thresholds and ranges where people ask, and values of a category."""
    yield from ("BAD = 1", "JOB = 'Mgr'", "JOB IN ('Office', 'Self')", "REASON = 'HomeImp'")
    for name in itertools.cycle(NUMBERS):
        yield _condition(name, generator)


def conjunctions(generator: np.random.Generator) -> Iterator[str]:
    """Two or three conditions on columns of their own."""
    words = ("BAD = 1", "JOB = 'ProfExe'", "JOB = 'Other'", "REASON = 'DebtCon'", "BAD = 0")
    while True:
        size = int(generator.integers(2, 4))
        names = generator.choice(list(NUMBERS), size, replace=False)
        parts = [_condition(name, generator) for name in names]
        if generator.random() < 0.5:
            parts[0] = str(generator.choice(words))
        yield " AND ".join(parts)


def two_columns(_: np.random.Generator) -> Iterator[str]:
    """One column beside another, or a part of it."""
    for small, large, factors in (
        ("MORTDUE", "VALUE", (1, 0.8, 0.6)), ("LOAN", "MORTDUE", (0.2, 0.4, 1)), ("LOAN", "VALUE", (0.1, 0.2, 0.3)),
        ("DELINQ", "DEROG", (1, 2, 3)), ("NINQ", "DELINQ", (1, 2, 3)), ("YOJ", "CLNO", (1, 0.5, 0.25)),
        ("CLNO", "NINQ", (5, 10, 20)), ("DEBTINC", "CLNO", (1, 2, 3)), ("CLAGE", "YOJ", (12, 24, 48)),
        ("DEROG", "NINQ", (1, 0.5, 2)),
    ):  # fmt: skip
        for factor in factors:
            yield f"{small} > {large}" if factor == 1 else f"{small} > {factor:g} * {large}"


def _condition(name: str, generator: np.random.Generator) -> str:
    number = NUMBERS[name]
    low, high = np.sort(generator.integers(*number.usual, 2, endpoint=True)).tolist()
    if generator.random() < 0.4 and high > low:
        return f"{name} BETWEEN {low} AND {high}"
    return f"{name} {'>' if generator.random() < 0.5 else '<='} {low}"


KINDS: dict[str, Callable[[np.random.Generator], Iterator[str]]] = {
    "one column": one_column, "two columns": two_columns, "conjunctions": conjunctions,
}  # fmt: skip


def predicates(kind: str, variant: str) -> tuple[Query, ...]:
    """So many distinct ones, others for every variant of the table."""
    seed = [len(kind), *variant.encode()]
    found = dict.fromkeys(itertools.islice(KINDS[kind](np.random.default_rng(seed)), 2 * QUESTIONS))
    return tuple(Query(text) for text in itertools.islice(found, QUESTIONS))


SUMS = (
    ("YOJ", "JOB", "avg"), ("VALUE", "JOB", "avg"), ("DEBTINC", "REASON", "avg"), ("CLAGE", "BAD", "avg"),
    ("LOAN", "JOB", "avg"), ("VALUE", "BAD", "sum"), ("MORTDUE", "JOB", "sum"), ("LOAN", "REASON", "sum"),
    ("CLNO", "JOB", "sum"), ("DELINQ", "BAD", "sum"),
)  # fmt: skip
ODD = {
    "NULLs of DEBTINC": ("DEBTINC IS NULL", made.MISSING_DEBTINC),
    "a rare category": (f"JOB = '{made.RARE_JOB}'", made.RARE_JOB_ROWS),
    "a long tail": (f"VALUE > {made.DEAR}", made.DEAR_ROWS),
    "two columns": ("MORTDUE > VALUE", made.UNDER_WATER),
}
"""The rows that a mean over questions hides, and how many there are in every variant."""


def works(variants: Sequence[str]) -> Iterator[Work]:
    """Of a half, the binary tables of all its variants, and the others of the first."""
    for variant in variants:
        for epsilon, delta in ((10.0, 0.0), (1.0, 1e-9), (1.0, 0.0)):
            yield Marginals(name="binary", table=variant, make=made.disability, epsilon=epsilon, delta=delta)
        yield Marginals(name="binary, triples", table=variant, make=made.disability, epsilon=1.0, ways=3)
    variant = variants[0]
    for kind in KINDS:
        for epsilon in (1.0, 10.0):
            yield Questions(
                name=f"predicates, {kind}", table=variant, epsilon=epsilon, queries=predicates(kind, variant)
            )
    sums = tuple(
        Query(measure=f"avg({name})" if kind == "avg" else name, group_by=(group,)) for name, group, kind in SUMS
    )
    bounds = tuple(NUMBERS[name].high for name, _, _ in SUMS)
    for name, wanted in (("averages", True), ("sums", False)):
        yield Questions(
            name=name, table=variant, epsilon=1.0, queries=sums, bounds=bounds,
            judged=lambda query, wanted=wanted: query.measure.startswith("avg") is wanted,
        )  # fmt: skip
    yield Marginals(name="mixed", table=variant, make=made.loan_codes, epsilon=1.0)
    for delta in (1e-9, 0.0):
        yield Marginals(name="salaries", table=variant, make=made.salaries, epsilon=1.0, delta=delta)
