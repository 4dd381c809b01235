"""What is measured, in which shares and for how many rounds: the one table of regimes. Public all of it.

| regime | when | what is measured | selecting takes | rounds |
|---|---|---|---|---|
| averaged | `average := true` | the workload's own queries, as the theorem has it | half of a round | given, or by attributes |
| parities | a plain call, parities only, over a small domain | one histogram of the domain | nothing | one |
| sets | a plain call about few sets of attributes | the joint distribution of each, refined | nothing | those of refining |
| rounds | all others | the workload's queries and what they add up to; in a plain call after each attribute's own distribution | 3/20 of a round | given, or by attributes |

Queries that are to be measured `always` come ahead of all this. Among averaged rounds and rounds each takes what a round takes, on average, and none of it for selecting; beside sets they have
parts as these have, by cells; a histogram of the domain tells all of them anyway. Among themselves they have parts by cells.

In the last row a histogram of a small domain may take the place of the rounds, once n is known (`joint`). In a plain call (neither rounds nor average are given) a share of the budget goes to what attributes are inside the workload's classes. What each
rule gains, and the commands that measured it, are in docs/how-it-chooses.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.kernel.split import PAPER_SHARE, TOTAL_SHARE
from mwem_sql.loop.refinement import rounds_of
from mwem_sql.loop.strategy import (
    Always,
    Strategy,
    are_parities,
    cells_with,
    extend,
    is_cuboid,
    is_told_at_once,
    part_of,
    together,
    whole_domain,
)

SELECT_SHARE: Final = Fraction(3, 20)
"""Of a round: what selecting takes. Larger: the worst query is found more often, and known less well. `python benchmarks/adult.py --data DIR`"""
FIRST_SHARE: Final = Fraction(3, 20)
"""Of the budget: what the distributions of single attributes take ahead of the rounds, unless n says more or less (`Pace.spare`). Larger: less is left for how attributes go together.
`python benchmarks/adult.py --data DIR`"""
DETAIL_SHARE: Final = Fraction(1, 20)
"""Of the budget: what attributes are inside the workload's classes, all of them together. Larger: values are closer to the true ones, and there is more
noise on the workload's answers. `python benchmarks/ordinary.py`"""
ALWAYS_ROUNDS: Final = Fraction(1)
"""Rounds: what a query that is always measured takes, on average. Larger: it is known better, all others worse. `python benchmarks/always.py --data DIR`"""
FEWEST_ROUNDS: Final = 4
"""Unless there are fewer queries."""
ROUNDS_PER_ATTRIBUTE: Final = 2
"""More: a larger average error over the cuboids of Adult; fewer: a larger maximum. `python benchmarks/adult.py --data DIR`"""
NOTHING: Final = Fraction(0)


@dataclass(frozen=True, eq=False)
class Asked:
    """What the choice depends on: the workload's queries, the classes of its attributes, and the call's options."""

    queries: Sequence[LinearQuery]
    weights: Floats
    shape: Mapping[str, int]
    max_cells: int
    rounds: int | None = None
    average: bool = False
    is_total_public: bool = False
    start: str = "uniform"
    fit: str = "mirror"
    always: Sequence[int] = ()

    @property
    def is_plain(self) -> bool:
        """Whether what is measured is ours to choose."""
        return self.rounds is None and not self.average

    @property
    def expected_rounds(self) -> int:
        return self.rounds or default_rounds(len(self.queries) - len(self.always), len(self.shape))

    @property
    def always_share(self) -> Fraction:
        """What queries that are always measured take of what they and the rounds have: each as much as a round."""
        taken = ALWAYS_ROUNDS * len(self.always)
        return taken / (taken + self.expected_rounds)


@dataclass(frozen=True, eq=False)
class Regime:
    """A row of the table: what is measured, and what it takes of the budget.

    `selecting` is of a round, `first` and `detail` of everything, `always` of what others leave for rounds. `at_once`: the only query is the histogram of the whole domain. Without a loop
    (`whole`) n needs no share of its own; if it is `growing`, later rounds may take more than the first. `joint`: a histogram of the whole domain may take the place of all rounds, once n is known.
    """

    strategy: Strategy
    rounds: int
    selecting: Fraction
    first: Fraction = NOTHING
    detail: Fraction = NOTHING
    always: Fraction = NOTHING
    at_once: bool = False
    whole: bool = False
    growing: bool = False
    joint: bool = False


def choose(asked: Asked) -> Regime:
    """The first row of the table that applies."""
    regime = _averaged(asked) or _parities(asked) or _sets(asked) or _rounds(asked)
    return replace(regime, detail=DETAIL_SHARE) if asked.is_plain else regime


def _averaged(asked: Asked) -> Regime | None:
    if not asked.average:
        return None
    # The theorem wants each known as well as a round's query.
    always = [Always(number, 1.0, number) for number in asked.always]
    strategy = Strategy(Queries.of(asked.queries), asked.weights, [], always=always)
    return Regime(strategy, asked.expected_rounds, PAPER_SHARE, always=asked.always_share)


def _parities(asked: Asked) -> Regime | None:
    """Where the noise of a round would be more than that of the whole domain's histogram, added up."""
    if not (_is_open(asked) and are_parities(asked.queries)):
        return None
    cells = prod(asked.shape.values())
    measured = asked.expected_rounds + len(asked.always)
    share = (1 - SELECT_SHARE) * (1 if asked.is_total_public else 1 - TOTAL_SHARE) / measured
    if cells > asked.max_cells or not is_told_at_once(cells, float(share)):
        return None
    return Regime(
        Strategy(Queries.of([whole_domain(asked.shape)]), np.ones(1), []), 1, NOTHING, at_once=True, whole=True
    )


def _sets(asked: Asked) -> Regime | None:
    if not _is_open(asked) or are_parities(asked.queries):
        return None
    strategy = together(asked.queries, asked.weights, asked.shape, asked.max_cells, asked.always)
    if strategy is None:
        return None
    rounds = sum(rounds_of(strategy.queries[first.query].shape, first.by_cells) for first in strategy.first)
    always = sum((Fraction(own.part) for own in strategy.always), NOTHING)
    sets = sum((Fraction(first.part) for first in strategy.first), NOTHING)
    return Regime(strategy, max(1, rounds), NOTHING, always=always / (always + sets), whole=True)


def _rounds(asked: Asked) -> Regime:
    # Parts follow from the cells that were asked for: a count's partition tells the others, too, but nobody must have them.
    always = [
        Always(number, part_of(float(asked.weights[number]), asked.queries[number].cells), number)
        for number in asked.always
    ]
    strategy = replace(extend(asked.queries, asked.weights, asked.shape, asked.rounds), always=always)
    ahead = [strategy.queries[first.query] for first in strategy.first]
    cells = sum(query.cells for query in ahead)
    if strategy.always:
        ahead += [strategy.queries[own.query] for own in strategy.always]
        cells = cells_with(ahead, asked.shape, asked.max_cells)
    if cells > asked.max_cells:
        # The model has no room for them.
        strategy = replace(strategy, first=[])
    first = FIRST_SHARE if strategy.first else NOTHING
    joint = _is_open(asked) and bool(strategy.first) and not asked.always and _is_small(asked)
    return Regime(
        strategy,
        asked.expected_rounds,
        SELECT_SHARE,
        first,
        always=asked.always_share,
        growing=asked.is_plain,
        joint=joint,
    )


def _is_small(asked: Asked) -> bool:
    """Whether only cuboids are asked for, and the histogram of the whole domain, added up to the cells of one, has less noise than it would have in a round."""
    cells = prod(asked.shape.values())
    if cells > asked.max_cells or not all(map(is_cuboid, asked.queries)):
        return False
    return cells <= float(np.mean([query.cells for query in asked.queries])) * asked.expected_rounds**2


def _is_open(asked: Asked) -> bool:
    """Whether there may be no loop: nothing was said of rounds, start or fit."""
    return asked.is_plain and (asked.start, asked.fit) == ("uniform", "mirror")


def default_rounds(queries: int, attributes: int) -> int:
    """`rounds := NULL`: how many rounds there are unless steps grow; public numbers only. At most one per distinct query."""
    return max(1, min(queries, max(FEWEST_ROUNDS, ROUNDS_PER_ATTRIBUTE * attributes)))
