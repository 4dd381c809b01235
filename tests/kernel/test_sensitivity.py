"""Neighbouring tables, through the real planner and engine: scores and answers move no more than the noise covers.

For every kind of query: predicates, ranges, cuboids, expressions, parities, sums and averages of measures, weighted,
for rows and for units. Values off the domain and NULLs are among the rows. `pytest -m campaign` runs many more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from conftest import Connection

from mwem_sql.algebra.arrays import Integers
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.exponential import Scores
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.scales import Kind
from mwem_sql.platform.session import Session
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan import execution
from mwem_sql.workload import Workload

SHARE = Fraction(1)
DOMAIN = [("a", None, "0", "3"), ("b", ["x", "y", "z"], None, None), ("c", None, "-5", "10")]
# predicate, measure, group_by
KINDS: list[tuple[str | None, str | None, str | None]] = [
    ("a > 1", None, None), ("a BETWEEN 1 AND 2 AND d", None, None), ("b = 'x' OR NOT d", None, None),
    ("c > 0.5", None, None), (None, None, "a, b"), (None, None, "d, e"), ("e", None, "a // 2"),
    (None, None, "upper(b::VARCHAR), d IS NULL"), (None, "a", None), ("d", "a * 2 - 3", None), (None, "a - 1", "b"),
    (None, "avg(a)", "e"), (None, "CASE WHEN d AND e OR NOT d AND NOT e THEN 1 ELSE -1 END", None),
    ("e", "-7.25 * a", "d"),
]  # fmt: skip


class Spy:
    """Keeps what it is given, and gives it on."""

    private = False

    def __init__(self) -> None:
        self.scores: list[int] = []
        self.values: list[list[int]] = []
        self.scales: list[float] = []

    def select(self, scores: Integers, scale: float, _kind: Kind) -> int:
        self.scores = [int(score) for score in scores]
        self.scales.append(scale)
        return 0

    def select_many(self, scores: Scores, scale: float) -> int:
        return self.select(scores.values, scale, "zcdp")

    def add_noise(self, values: Integers, scale: float, _kind: Kind) -> Integers:
        self.values.append([int(value) for value in values])
        self.scales.append(scale)
        return values.copy()


def row(chance: random.Random, person: int | None = None) -> tuple[object, ...]:
    """A row, now and then off the domain: a NULL, or a number beyond its bounds in a table that has no CHECK."""
    return (
        chance.choice([None, *range(6)]) if person is None else person, chance.choice([None, -9, 0, 1, 2, 3, 77]),
        chance.choice([None, "x", "y", "z"]), chance.choice([None, float("nan"), -1e300, -5.0, 0.5, 3.25, 10.0, 1e300]),
        chance.choice([None, True, False]), chance.random() < 0.5,
    )  # fmt: skip


def neighbours(chance: random.Random, unit: bool) -> Iterator[tuple[Connection, str]]:
    """Two tables, one with a row more, or with all rows of one person more."""
    rows = [row(chance) for _ in range(chance.randrange(12))]
    more = [row(chance, 99) for _ in range(chance.randrange(1, 6) if unit else 1)]
    both = rows + more
    chance.shuffle(both)
    con = duckdb.connect()
    for name, content in (("without_it", rows), ("with_it", both)):
        con.execute(
            f"CREATE TABLE {name} "
            "(person INTEGER, a INTEGER, b ENUM ('x', 'y', 'z'), c DOUBLE, d BOOLEAN, e BOOLEAN NOT NULL)"
        )
        if content:
            con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?)", content)
        con.execute(f'CREATE TABLE {name}_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR)')
        con.executemany(f"INSERT INTO {name}_domain VALUES (?, ?, ?, ?)", DOMAIN)
        yield con, name
    con.close()


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(100, 500), marks=pytest.mark.campaign)])
def test_neighbours_move_scores_and_answers_by_no_more_than_the_noise_is_made_for(seeds: range) -> None:
    reached = selected = 0.0
    for seed in seeds:
        chance = random.Random(seed)
        asked = chance.sample(KINDS, chance.randrange(1, 7))
        weights = [chance.choice([1.0, 1.0, 0.37, 250.0]) for _ in asked]
        predicates, measures, groups = zip(*asked, strict=True)
        workload = Workload.from_arrow(
            pa.table(
                {
                    "predicate": pa.array(predicates, pa.string()),
                    "measure": pa.array(measures, pa.string()),
                    "group_by": pa.array(groups, pa.string()),
                    "weight": weights,
                }
            )
        )
        unit = chance.choice([None, "person"])
        per_unit = chance.randrange(1, 4) if unit else 1
        rounds = chance.choice([1, None])  # rounds that select, or histograms of sets of attributes, which are refined
        spies = []
        for con, table in neighbours(chance, unit is not None):
            session = Session.of(con)
            request = Request(
                table=table,
                workload=workload,
                budget=Budget(Fraction(1)),
                rounds=rounds,
                unit=unit,
                rows_per_unit=per_unit,
            )
            plan = make_plan(session, request)
            spy = Spy()
            count = len(plan.pushdown.cells)
            kernel = Kernel(
                plan.pushdown.apart(execution.true_answers(con.cursor(), plan.pushdown))[0],
                plan.pushdown.cells,
                Accountant("pure", Fraction(100)),
                Draws(spy),
                per_unit,
                plan.problem.bounds(),
            )
            public = np.random.default_rng(seed)
            guess = public.integers(-30, 30, int(plan.pushdown.cells.sum())) / 2
            kernel.select(
                range(1, count),
                guess[int(plan.pushdown.cells[0]) :],
                public.normal(size=count - 1),
                np.resize(plan.problem.weights, count - 1),
                SHARE,
            )
            for query in range(count):
                kernel.measure(query, SHARE)
                # Any partition of the cells: a record is in one part, too.
                cells = int(plan.pushdown.cells[query])
                kernel.measure(
                    query,
                    SHARE,
                    np.unique(public.integers(0, 1 + public.integers(cells), cells), return_inverse=True)[1].reshape(
                        -1
                    ),
                )
            certified = np.arange(count)
            for rank in (None, 1, count):
                kernel.certify(certified, plan.pushdown.cells, guess, SHARE, rank=rank)
            spies.append(spy)
        first, second = spies
        assert first.scales == second.scales
        moved = max(abs(one - other) for one, other in zip(first.scores, second.scores, strict=True))
        assert 2 * moved <= first.scales[0] * (1 + 1e-12), (seed, asked)
        selected = max(selected, 2 * moved / first.scales[0])
        for scale, one, other in zip(first.scales[1:], first.values, second.values, strict=True):
            apart = sum(abs(x - y) for x, y in zip(one, other, strict=True))
            assert apart <= scale * (1 + 1e-12), (seed, asked)
            reached = max(reached, apart / scale)
    print(
        f"\n{len(seeds)} pairs of neighbours: scores move by at most {selected:.3f} and answers by {reached:.3f} "
        "of what the noise is made for"
    )
    assert min(selected, reached) > 0.99  # the bounds are not idle
