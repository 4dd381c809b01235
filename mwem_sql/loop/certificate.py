"""The certificate: how far the finished state is off, told with noise by the kernel. Decides what is told, on public and released values alone.

Three figures, over queries of the workload: the mean error of those that were measured, the mean error of the others, and the cell error that most of
the others do not exceed. The last is what intervals of answers that were not measured are made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Final

import numpy as np

from mwem_sql.algebra.families import Families
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.nested import Noisy
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.tails import cumulants
from mwem_sql.loop.problem import Figure, Outcome, Part, Problem, Step

MOST: Final = Fraction(193, 200)
"""Of the queries that were not measured: those whose cells are off by no more than the last figure."""
PARTS: Final[Mapping[Part, int]] = {"directly": 1, "others": 1, "most": 2}
"""What each figure takes of the share, in proportion: intervals are made of the last."""
MOST_QUERIES: Final = 2_000
MOST_CELLS: Final = 2**21
"""Queries that are certified, and their cells together. Of a workload with more, some at even distances stand for all."""


def sampled(queries: Sequence[LinearQuery], most: int = MOST_QUERIES) -> list[int]:
    """The numbers of those that are certified: all, or as many as are allowed, at even distances."""
    count = min(len(queries), most)
    while count:
        numbers = [k * len(queries) // count for k in range(count)]
        if sum(queries[number].cells for number in numbers) <= MOST_CELLS:
            return numbers
        count //= 2
    return []


def certify(kernel: Kernel, problem: Problem, share: Fraction, outcome: Outcome) -> tuple[Figure, ...]:
    """Spend a share on the figures; those that there are queries for.

    Privacy:
        Which queries were measured, and what the state answers, follows from what was released.
    """
    if not share or not problem.certified:
        return ()
    numbers = np.array(list(problem.certified), dtype=np.int64)
    queries = list(problem.certified.values())
    is_measured = np.array(measured(problem, outcome.steps, queries), dtype=np.bool_)
    answers = outcome.state.answers([query.shares for query in queries])
    figures: list[tuple[Part, list[int]]] = [("directly", np.flatnonzero(is_measured).tolist())]
    others = np.flatnonzero(~is_measured).tolist()
    figures += [("others", others), ("most", others)]
    figures = [(part, own) for part, own in figures if own]
    whole = sum(PARTS[part] for part, _ in figures)
    out = []
    for part, own in figures:
        vectors = np.concatenate([answers[place] * queries[place].bound for place in own])
        rank = most_beyond(len(own)) + 1 if part == "most" else None
        leading = [queries[place].cells for place in own]
        taken = share * PARTS[part] / whole
        possible = 1.0 if part == "most" else float(np.mean([most_wrong(queries[place]) for place in own]))
        out.append(Figure(part, len(own), kernel.certify(numbers[own], leading, vectors, taken, rank=rank), possible))
    return tuple(out)


def most_wrong(query: LinearQuery) -> int:
    """The most that the cells of a query can be off together, in parts of all rows: a row in a wrong cell is missing in one and too many in another."""
    return 1 if query.cells == 1 else 2


def most_beyond(queries: int) -> int:
    """How many of so many queries may have cells that are off by more than the last figure."""
    return floor((1 - MOST) * queries)


def measured(problem: Problem, steps: Sequence[Step], queries: Sequence[LinearQuery]) -> list[bool]:
    """Whether each query is a sum of measured cells."""
    return families(problem, steps).are_exact(queries)


def families(problem: Problem, steps: Sequence[Step]) -> Families:
    """All measurements of the workload's classes, ready for its queries."""
    sizes = {name: len(own) for name, own in problem.sizes.items()}
    known = problem.kernel_queries
    answers = [_noisy(known[step.measurement.query], step) for step in steps if step.purpose != "detail"]
    return Families(answers, sizes)


def _noisy(query: LinearQuery, step: Step) -> Noisy:
    own = step.measurement
    if step.parts is not None:
        block = Block(
            query.attributes,
            step.parts.reshape([axis for each in query.blocks for axis in each.shape]),
            own.values.size,
        )
        query = LinearQuery((block,))
    return Noisy(query, own.values.astype(np.float64), *cumulants(own.scale, own.kind))
