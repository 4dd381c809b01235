"""The loop: Multiplicative Weights and the Exponential Mechanism, to be read beside the paper's figure.

Sees the private table through the kernel's two methods only; everything else here is public or released. The letters are
the figure's: A is the approximation, n its total, q_i and m_i the query and measurement of round i, T the rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.budget import Split
from mwem_sql.compiler.linear import Block, Floats, LinearQuery
from mwem_sql.fit import Target
from mwem_sql.kernel import Kernel, Measurement
from mwem_sql.mechanisms import noise_scale
from mwem_sql.offers import Offers
from mwem_sql.state import SCHEMA, Mixture, State

PASSES = 100  # over all measurements after each round, as in the paper's listing
# A histogram start keeps at least this share of n for the cells that it cannot tell from noise.
REST_SHARE = 0.05
TOTAL = LinearQuery(())


@dataclass(frozen=True, eq=False)
class Problem:
    """What the loop is given: public all of it.

    Kernel query 0 is the total; `queries` follow from 1; a histogram of the whole domain, if asked for, comes last.
    """

    queries: Sequence[LinearQuery]
    weights: Floats
    sizes: Mapping[str, Floats]
    max_cells: int
    total: float | None = None
    histogram: LinearQuery | None = None
    average: bool = False
    sensitivity: int = 1
    fit: str = "mirror"

    def kernel_queries(self) -> list[LinearQuery]:
        """The queries whose true answers the kernel must hold, in the order of their numbers."""
        return [TOTAL, *self.queries, *([self.histogram] if self.histogram is not None else [])]


@dataclass(frozen=True, eq=False)
class Step:
    """One measurement of a run and what it was for: total, histogram, round or again."""

    purpose: str
    measurement: Measurement


@dataclass(frozen=True, eq=False)
class Outcome:
    state: State | Mixture
    total: float
    steps: tuple[Step, ...]


@dataclass(eq=False)
class _History:
    """What was measured so far: one value per query, the noisier of two measurements counting less."""

    queries: Sequence[LinearQuery]
    values: dict[int, Floats] = field(default_factory=dict)
    variances: dict[int, float] = field(default_factory=dict)
    # The same object as long as nothing new is known of a query: the fit can then tell.
    targets: dict[int, Target] = field(default_factory=dict)

    def add(self, measured: Measurement) -> None:
        q = measured.query
        new, variance = measured.values.astype(np.float64), measured.variance
        if q in self.values:
            old = self.variances[q]
            new = (self.values[q] * variance + new * old) / (old + variance)
            variance = old * variance / (old + variance)
        self.values[q], self.variances[q] = new, variance
        if self.queries[q].blocks:
            self.targets[q] = Target(self.queries[q], new, variance)

    def total(self) -> float:
        """N from all measurements that count every record, weighted by their variance; at least 1."""
        estimates = [
            (values.sum(), 1 / (self.variances[q] * len(values)))
            for q, values in self.values.items()
            if _counts_every_record(self.queries[q])
        ]
        weight = sum(precision for _, precision in estimates)
        return max(1.0, float(sum(value * precision for value, precision in estimates) / weight))

    def measurements(self) -> list[tuple[LinearQuery, Floats]]:
        return [(self.queries[q], values) for q, values in self.values.items() if self.queries[q].blocks]


def mwem(kernel: Kernel, problem: Problem, split: Split, progress: Callable[[int, int], None] | None = None) -> Outcome:
    """Run all rounds. The kernel debits; what is selected and when it ends depends on released values only."""
    T = split.rounds
    queries = problem.kernel_queries()
    history = _History(queries)
    steps: list[Step] = []

    def measure(purpose: str, q: int, share: object) -> Floats:
        m = kernel.measure(q, share)  # type: ignore[arg-type]
        steps.append(Step(purpose, m))
        if purpose != "histogram":
            history.add(m)
        return m.values.astype(np.float64)

    # Let n denote ||B||: a public constant, or measured with a share of the budget.
    if problem.total is None:
        measure("total", 0, split.total)
    n = problem.total or history.total()

    # Let A_0 denote n times the uniform distribution over D, or the noisy histogram.
    A = State.uniform(problem.sizes, n)
    if problem.histogram is not None:
        h = measure("histogram", len(queries) - 1, split.histogram)
        A = _from_histogram(problem.histogram, h, steps[-1].measurement.scale, A)

    penalties = _penalties(problem, split)
    iterates: list[State] = []
    offers = Offers(problem.queries, {name: len(size) for name, size in problem.sizes.items()}, problem.max_cells)

    # For iteration i = 1..T:
    for i in range(1, T + 1):
        if problem.average:
            iterates.append(A.copy())
        fits = offers.fitting(A)
        fits[[q - 1 for q in history.values if q > 0]] = False
        candidates = np.flatnonzero(fits)
        if candidates.size:
            # 1. Exponential Mechanism: q_i with score |q(A_{i-1}) - q(B)|.
            answers = offers.answers(A, candidates)
            q_i = kernel.select(candidates + 1, answers, penalties[candidates], problem.weights[candidates], split.select)
            # 2. Laplace Mechanism: m_i = q_i(B) + Laplace(2T/eps).
            measure("round", q_i, split.measure)
        else:
            # Nothing new can be asked: the whole round goes into what is known least well.
            q_i = max([q for q in history.values if queries[q].blocks] or [0], key=lambda q: history.variances.get(q, 0.0))
            measure("again", q_i, split.select + split.measure)

        if problem.total is None:
            n = history.total()
            A.rescale(n)
        # 3. Multiplicative Weights: A_i(x) proportional to A_{i-1}(x) exp(q_i(x) (m_i - q_i(A_{i-1})) / 2n).
        if problem.average:
            A.update(queries[q_i], history.values[q_i])
        elif problem.fit == "replay":
            A.replay(history.measurements(), passes=PASSES)
        else:
            A.fit(list(history.targets.values()))
        if progress is not None:
            progress(i, T)

    # Output: the average of A_0..A_{T-1}, or the last A.
    return Outcome(Mixture(iterates) if problem.average else A, n, tuple(steps))


def _penalties(problem: Problem, split: Split) -> Floats:
    """The absolute noise a measurement would collect, expected over all cells of each query."""
    scale = noise_scale(split.measure, problem.sensitivity, split.kind).scale
    per_cell = scale if split.kind == "pure" else scale * math.sqrt(2 / math.pi)
    return np.array([query.cells * per_cell for query in problem.queries])


def _counts_every_record(query: LinearQuery) -> bool:
    return all(block.values is None and bool((block.labels >= 0).all()) for block in query.blocks)


def whole_domain(shape: Mapping[str, int]) -> LinearQuery:
    """The histogram over all class combinations, as one query."""
    return LinearQuery(tuple(Block((name,), np.arange(size, dtype=np.int32), size) for name, size in shape.items()))


def _from_histogram(query: LinearQuery, h: npt.NDArray[np.float64], scale: float, uniform: State) -> State:
    """A_0 from a noisy histogram: cells above what noise reaches keep their count, the rest of n is spread over the others."""
    n = uniform.total
    others = uniform.marginal(query.attributes).ravel()
    threshold = scale * math.log(max(h.size, 2))
    frequent = h > threshold
    weights = np.where(frequent, h, 0.0)
    rest = max(n - weights.sum(), REST_SHARE * n)
    spread = np.where(frequent, 0.0, others)
    if spread.sum() > 0:
        weights += spread * (rest / spread.sum())
    weights *= n / weights.sum()
    shape = [block.size for block in query.blocks]
    table = pa.Table.from_pydict(
        {"factor": [0], "attributes": [list(query.attributes)], "shape": [shape], "weights": [weights]}, schema=SCHEMA
    )
    return State.from_table(table, uniform.attributes)
