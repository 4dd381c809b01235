"""Runs of the loop for tests: queries, problems, and scripted noise."""

# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
import oracle
from conftest import flat
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import Floats, domains, queries, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import Noise
from mwem_sql.kernel.scales import Kind
from mwem_sql.loop.loop import mwem
from mwem_sql.loop.plan import SHARES, Alternatives, Planned, Schedule, make_schedule
from mwem_sql.loop.problem import Outcome, Problem
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

Integers = NDArray[np.int64]


PURE = Budget.parse(1)


GAUSSIAN = Budget.parse(1, "1e-6")


MANY = 10**6


class Scripted:
    """Noise by the test's book: picks candidates in the order given, then the best; adds what `noise` gives."""

    private = False

    def __init__(self, picks: Sequence[int] = (), noise: Callable[[int], Integers] | None = None) -> None:
        self.picks = list(picks)
        self.noise = noise
        self.scores: list[Integers] = []

    def select(self, scores: Integers, _scale: float, _kind: Kind) -> int:
        self.scores.append(scores.copy())
        return self.picks.pop(0) % scores.size if self.picks else int(scores.argmax())

    def add_noise(self, values: Integers, _scale: float, _kind: Kind) -> Integers:
        return values + self.noise(values.size) if self.noise else values.copy()


def cuboid(shape: Mapping[str, int], *names: str) -> LinearQuery:
    return whole_domain({name: shape[name] for name in names})


def count(name: str, *counted: int) -> LinearQuery:
    """How many records are in the classes marked 1."""
    return LinearQuery((Block((name,), np.array(counted, np.int32) - 1, 1),))


def parity(shape: Mapping[str, int], *names: str) -> LinearQuery:
    """The sum of the product of signs, -1 for odd classes."""
    signs = {name: np.where(np.arange(shape[name]) % 2, -1, 1).astype(np.int8) for name in names}
    return LinearQuery(tuple(Block((name,), np.zeros(shape[name], np.int32), 1, values=signs[name]) for name in names))


def points(D: int) -> list[LinearQuery]:
    """One count for each element of a domain of one attribute."""
    return [count("x", *row) for row in np.eye(D, dtype=np.int64)]


def ones(shape: Mapping[str, int]) -> dict[str, Floats]:
    return {name: np.ones(size) for name, size in shape.items()}


def shape_of(problem: Problem) -> dict[str, int]:
    return {name: len(size) for name, size in problem.sizes.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedProblem(Problem):
    """A problem with what its schedule needs to know: lines ahead of rounds, and rows of a unit."""

    ahead: Sequence[Planned] = ()
    sensitivity: int = 1


def schedule(
    budget: Budget,
    rounds: int | None,
    *,
    total: bool = False,
    histogram: bool = False,
    first: Sequence[int] = (),
    selecting: Fraction = SHARES["paper"],
    alternatives: Alternatives | None = None,
    sensitivity: int = 1,
) -> Schedule:
    """Shares without a problem: `total` and `histogram` say what is measured ahead of rounds, `first` has cells."""
    lines = [
        *([Planned(purpose="total", number=0)] if total else []),
        *([Planned(purpose="histogram", number=0, how="start")] if histogram else []),
        *(Planned(purpose="first", number=number, cells=cells, how="refined") for number, cells in enumerate(first)),
    ]
    return make_schedule(budget, lines, rounds, selecting=selecting, alternatives=alternatives, sensitivity=sensitivity)


def shares(
    problem: Problem,
    rounds: int | None,
    budget: Budget = PURE,
    *,
    selecting: Fraction = SHARES["paper"],
    alternatives: Alternatives | None = None,
) -> Schedule:
    """The schedule of a problem; its histogram is a start, unless n decides."""
    own = problem if isinstance(problem, PlannedProblem) else None
    start = [problem.histogram_line(is_start=True)] if problem.histogram is not None and alternatives is None else []
    return make_schedule(
        budget,
        problem.lines([*start, *(own.ahead if own else ())], selects=rounds is not None),
        rounds,
        selecting=selecting,
        alternatives=alternatives,
        sensitivity=own.sensitivity if own else 1,
    )


def run(
    problem: Problem, B: NDArray[np.int64], rounds: int, noise: Noise, budget: Budget = PURE
) -> tuple[Outcome, Accountant]:
    """A run on the dense data B, one entry per element of the domain."""
    shape = shape_of(problem)
    answers = [(oracle.dense_query(query, shape) @ B).astype(np.int64) for query in problem.kernel_queries]
    how = shares(problem, rounds, budget)
    accountant = how.composition.accountant()
    outcome = mwem(Kernel(*flat(answers), accountant, Draws(noise), how.composition.sensitivity), problem, how)
    accountant.settle()
    return outcome, accountant


def iterates(outcome: Outcome) -> list[State]:
    """The states that an average is of; or the one that there is."""
    return list(outcome.state.states) if isinstance(outcome.state, Mixture) else [outcome.state]


def numbers(outcome: Outcome, *purposes: str) -> list[int]:
    return [step.number for step in outcome.measurements if step.purpose in purposes]


def purposes(outcome: Outcome) -> list[str]:
    return [step.purpose for step in outcome.measurements]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, Integers, int, Scripted, Budget]:
    """A problem, its data, rounds, and a script whose noise adds up to a quarter of the data.

    Far beyond, steps overshoot.
    """
    sizes = draw(domains(3))
    shape = {name: len(size) for name, size in sizes.items()}
    generator = np.random.default_rng(draw(seeds))
    n = draw(st.sampled_from([20, 1000, 10**6]))
    B = generator.multinomial(n, generator.dirichlet(np.full(prod(shape.values()), 0.3)))
    workload = draw(st.lists(queries(shape), min_size=1, max_size=4))
    problem = PlannedProblem(
        queries=workload,
        weights=np.ones(len(workload)),
        sizes=sizes,
        max_cells=MANY,
        total=draw(st.sampled_from([None, float(n)])),
        histogram=whole_domain(shape) if draw(st.booleans()) else None,
        average=draw(st.booleans()),
        sensitivity=draw(st.sampled_from([1, 3])),
        fit="replay",
    )
    script = Scripted(
        draw(st.lists(st.integers(0, 9), min_size=6, max_size=6)),
        lambda size: generator.integers(-n // (4 * size), n // (4 * size), size, endpoint=True),
    )
    return problem, B, draw(st.integers(1, 6)), script, draw(st.sampled_from([PURE, GAUSSIAN]))


def first_of(
    shape: Mapping[str, int], workload: Sequence[LinearQuery], total: float | None = None, **options: object
) -> PlannedProblem:
    """One-way marginals ahead of the rounds, behind the queries of the workload."""
    ahead = [cuboid(shape, name) for name in shape]
    first = [
        Planned(purpose="first", number=number, cells=query.cells, how="refined")
        for number, query in enumerate(ahead, start=len(workload))
    ]
    return PlannedProblem(
        queries=[*workload, *ahead],
        weights=np.ones(len(workload) + len(ahead)),
        sizes=ones(shape),
        max_cells=MANY,
        total=total,
        ahead=first,
        **options,
    )


def planned(
    problem: Problem,
    B: Integers,
    rounds: int,
    noise: Noise,
    budget: Budget = PURE,
    *,
    selecting: Fraction = Fraction(1, 10),
    first: Fraction | None = None,
) -> tuple[Outcome, Accountant, Schedule]:
    """A run of a plain call with so many rounds, and so much for what comes first."""
    how = shares(problem, rounds, budget, selecting=selecting)
    if first is not None:
        how = how.with_first(first).with_rounds(rounds)
    answers = [(oracle.dense_query(query, shape_of(problem)) @ B).astype(np.int64) for query in problem.kernel_queries]
    accountant = how.composition.accountant()
    outcome = mwem(Kernel(*flat(answers), accountant, Draws(noise), how.composition.sensitivity), problem, how)
    accountant.settle()
    return outcome, accountant, how
