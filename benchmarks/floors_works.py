"""The works of floors.py: a table, what is asked of it, and how far a release is off.

A work of marginals is judged by the mean over marginals of the L1 error, of the rows; one of predicates by the mean
error in rows; sums and averages by the mean error of a cell, in parts of the measure's bound. Each has the two methods
of a textbook that there are for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import duckdb
import made
import numpy as np
import pyarrow as pa
import regret_marginals
import tables
from made import NUMBERS
from regret_marginals import mean_l1
from textbook.laplace import Noise
from textbook.oneways import marginal, oneways

import mwem_sql
from mwem_sql.workload import Query, Workload

QUESTIONS = 30
EACH, ONEWAYS = "noise on each", "one-ways"
DRAWS = 20  # of the noise on an average
DEALT = 200_000  # rows of independent columns: what they are off by is far less than noise


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
    """All marginals of so many attributes, judged by those of so many: pairs, whatever is asked."""

    make: Callable[[str], tables.Table]
    ways: int = 2
    judged: int = 2
    unit = "L1 of n"

    @cached_property
    def data(self) -> tables.Table:
        return self.make(self.table)

    @cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        return self.data.connect()

    @property
    def sets(self) -> list[tuple[str, ...]]:
        return list(itertools.combinations(self.data.sizes, self.judged))

    @cached_property
    def asked(self) -> Workload:
        return Workload.from_rows(
            {"group_by": list(names)} for names in itertools.combinations(self.data.sizes, self.ways)
        )

    @property
    def questions(self) -> int:
        return len(self.asked)

    def error(self, released: mwem_sql.Release) -> float:
        return mean_l1(self.data, self.sets, self.data.state(self.con, released.output))

    def textbook(self, generator: np.random.Generator) -> Iterator[tuple[str, float]]:
        cells = np.mean([np.prod([self.data.sizes[name] for name in names]) for names in self.sets])
        yield EACH, float(cells) * Noise.of(len(self.sets), self.epsilon, self.delta).mean / self.data.rows
        estimates = oneways([self.data.histogram(names=[name]) for name in self.data.sizes], self.epsilon, generator)
        places = {name: place for place, name in enumerate(self.data.sizes)}
        yield (
            ONEWAYS,
            mean_l1(self.data, self.sets, lambda names: marginal(estimates, [places[name] for name in names])),
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

    def mean(self, errors: Sequence[np.ndarray]) -> float:
        """Over the questions that are judged, of the mean over their cells."""
        return float(
            np.mean([
                np.nanmean(own) / bound
                for own, bound, chosen in zip(errors, self.scales, map(self.judged, self.queries), strict=True)
                if chosen
            ])
        )  # fmt: skip

    def compared(self, output: str, questions: Workload | None = None) -> dict[str, np.ndarray]:
        """Answers beside true ones and their intervals; of what was asked, or of other questions."""
        found = mwem_sql.compare(self.con, "private", output, questions or self.asked)
        return {
            name: np.array(found[name].to_pylist(), dtype=np.float64)
            for name in ("query", "true_answer", "answer", "low", "high")
        }

    def error(self, released: mwem_sql.Release) -> float:
        rows = self.compared(released.output)
        errors = np.abs(rows["answer"] - rows["true_answer"])
        return self.mean([errors[rows["query"] == number + 1] for number in range(self.questions)])

    def textbook(self, generator: np.random.Generator) -> Iterator[tuple[str, float]]:
        """An average is a sum and a count, with half of its question's share each, and within the measure's bounds."""
        whole, half = (Noise.of(parts * self.questions, self.epsilon, self.delta) for parts in (1, 2))
        off = []
        for query, bound, truth in zip(self.queries, self.scales, self.truth, strict=True):
            if is_average(query):
                sums, counts = (truth + half.draw((DRAWS, *truth.shape), generator) * [bound, 1.0]).transpose(2, 0, 1)
                exact = truth[:, 0] / truth[:, 1]
                off.append(np.abs(np.clip(sums / np.maximum(counts, 1), 0, bound) - exact).mean(axis=0))
            else:
                off.append(np.full(len(truth), whole.mean * bound))
        yield EACH, self.mean(off)
        with self.independent(generator) as scale:
            answers = self.answers("independent")
        yield (
            ONEWAYS,
            self.mean(
                [
                    np.abs(own[:, 0] / np.maximum(own[:, 1], 1) - exact[:, 0] / exact[:, 1])
                    if is_average(query)
                    else np.abs(own[:, 0] * scale - exact[:, 0])
                    for query, own, exact in zip(self.queries, answers, self.truth, strict=True)
                ]
            ),
        )

    @contextmanager
    def independent(self, generator: np.random.Generator) -> Iterator[float]:
        """Many rows of independent columns, each with its noisy distribution, as the table `independent`; how many of
        the private rows there are for one of them.
        """
        names = [name for name, *_ in self.con.execute("DESCRIBE private").fetchall()]
        values = {name: made.values(name) for name in names}
        histograms = []
        for name in names:
            counts = dict(self.con.execute(f"SELECT {name}, count(*) FROM private GROUP BY ALL").fetchall())
            histograms.append(np.array([counts.get(value, 0) for value in values[name]], dtype=np.float64))
        estimates = oneways(histograms, self.epsilon, generator)
        places = (np.arange(DEALT) + 0.5) / DEALT
        columns = {
            name: pa.array(values[name]).take(
                pa.array(generator.permutation(np.searchsorted(np.cumsum(counts) / counts.sum(), places)))
            )
            for (name, counts) in zip(names, estimates, strict=True)
        }
        self.con.register("independent", pa.table(columns))
        yield estimates[0].sum() / DEALT
        self.con.unregister("independent")

    @cached_property
    def truth(self) -> list[np.ndarray]:
        return self.answers("private")

    def answers(self, table: str) -> list[np.ndarray]:
        """Of each question its cells: the sum of the measure, and the rows that have one. Groups that a table may lack
        are those of the private one, in one order.
        """
        out = []
        for query in self.queries:
            value = "1" if query.measure is None else query.measure.removeprefix("avg(").removesuffix(")")
            group = query.group_by[0] if query.group_by else None
            groups = f"(SELECT DISTINCT {group} AS place FROM private)" if group else "(SELECT 1 AS place)"
            own = f"{group}::VARCHAR IS NOT DISTINCT FROM place::VARCHAR" if group else "true"
            rows = self.con.execute(
                f"SELECT coalesce(sum({value}), 0), count({value}) FROM {groups} LEFT JOIN {table}"
                f" ON {own} AND ({query.predicate or 'true'}) GROUP BY place ORDER BY place::VARCHAR"
            ).fetchall()
            out.append(np.array(rows, dtype=np.float64))
        return out


def is_average(query: Query) -> bool:
    return query.measure is not None and query.measure.startswith("avg(")


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
            judged=lambda query, wanted=wanted: is_average(query) is wanted,
        )  # fmt: skip
    yield Marginals(name="mixed", table=variant, make=made.loan_codes, epsilon=1.0)
    for name, make in (("salaries", made.salaries), ("wages", made.wages), ("small", small)):
        for delta in (1e-9, 0.0):
            yield Marginals(name=name, table=variant, make=make, epsilon=1.0, delta=delta)
    for ways in (2, 3):
        yield Marginals(name="heavy", table=variant, make=made.loan_codes, epsilon=10.0, ways=ways, judged=3)


def small(variant: str) -> tables.Table:
    """The small tables of regret_marginals.py, each in its half."""
    return regret_marginals.households() if variant in made.HALVES["choose"] else regret_marginals.visits()
