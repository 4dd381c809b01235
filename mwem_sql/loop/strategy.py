"""What is measured for a workload, and what may be. Public all of it.

Where a workload asks about few sets of attributes, their joint distributions are what it needs: each is refined
(`together`), and nothing is selected. Otherwise the distribution of each attribute is refined first, and rounds select
among the workload's queries, the marginals that their answers add up to, and partitions in the place of counts
(`extend`): a marginal over fewer attributes costs as much privacy and has less noise; a partition costs as much as a
count and tells more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import prod

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.queries import Queries
from mwem_sql.loop.derived import (
    MOST_ADDED,
    MOST_CELLS,
    MOST_HELD,
    Counts,
    even_block,
    paired_parts,
    sides_of,
    with_marginals,
)
from mwem_sql.loop.plan import SHARES, Alternatives, How, Planned, occupied
from mwem_sql.loop.refinement import partitions_of
from mwem_sql.loop.room import cells_with, model_cells
from mwem_sql.model.partitions import JOINT_GROUPS

ROUNDS_PER_ATTRIBUTE = 2
"""More: a larger average error over the cuboids of Adult; fewer: a larger maximum. `python benchmarks/adult.py --data
DIR`"""
MOST_COMPARED = 1000
"""Different sets of attributes among which those are looked for that are in no other."""
PIECES = 8
"""Of the values that are summed, in a partition beside a sum."""
MOST_SETS = 8
"""Sets of attributes that are all refined; of more, rounds select."""
SMALL = 64
"""Class combinations of partitions among which equal ones are looked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
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
    most_sets: int = MOST_SETS

    @property
    def is_plain(self) -> bool:
        """Whether what is measured is ours to choose."""
        return self.rounds is None and not self.average

    @property
    def may_do_without_rounds(self) -> bool:
        """Whether nothing was said of rounds, a histogram or fit."""
        return self.is_plain and self.start != "histogram" and self.fit == "mirror"

    @property
    def expected_rounds(self) -> int:
        return self.rounds or default_rounds(len(self.queries) - len(self.always), len(self.shape))


@dataclass(frozen=True, eq=False, kw_only=True)
class Strategy:
    """What may be measured, and what is measured without a selection.

    Where rounds select, `queries` begins with those of the workload; the first cell of one that is a partition is the
    count that was asked for. What is added has the largest weight of the queries that it is part of.
    """

    queries: Queries
    weights: Floats
    lines: tuple[Planned, ...] = ()
    """Of the purposes `round`, `first` and `always`, in the order in which they are measured; without shares."""
    rounds: int | None = None
    """Rounds that select; None if there are none."""
    selecting: Fraction = SHARES["select"]
    """Of a round."""
    alternatives: Alternatives | None = None
    """If n decides how many rounds there are, or what takes their place."""
    histogram: bool = False
    """Whether a histogram of the whole domain may take the place of rounds, once n is known."""


def choose(setting: Setting) -> Strategy:
    """The first strategy that applies."""
    return next(strategy for strategy in strategies(setting) if strategy is not None)


def strategies(setting: Setting) -> Iterator[Strategy | None]:
    """The table of docs/how-it-chooses.md, in the order of preference."""
    yield _averaged(setting)
    yield _parities(setting)
    yield _sets(setting)
    yield _rounds(setting)


def _averaged(setting: Setting) -> Strategy | None:
    """The workload's queries as they are, as the theorem has it."""
    if not setting.average:
        return None
    cells = [setting.queries[number].cells for number in setting.always]
    # The theorem wants each known as well as a round's query, whatever its cells.
    always = [
        Planned(purpose="always", number=number, workload=number, importance=size**-0.5, cells=size)
        for number, size in zip(setting.always, cells, strict=True)
    ]
    return Strategy(
        queries=Queries.of(setting.queries),
        weights=setting.weights,
        lines=tuple(always),
        rounds=setting.expected_rounds,
        selecting=SHARES["paper"],
    )


def _parities(setting: Setting) -> Strategy | None:
    """One histogram of the domain, where the noise of a round would be more than that of the histogram, added up."""
    if not (setting.may_do_without_rounds and are_parities(setting.queries)):
        return None
    cells = prod(setting.shape.values())
    measured = setting.expected_rounds + len(setting.always)
    share = (1 - SHARES["select"]) * (1 if setting.is_total_public else 1 - SHARES["total"]) / measured
    if cells > setting.max_cells or not is_better_at_once(cells, float(share)):
        return None
    histogram = Planned(purpose="round", number=0, cells=cells, how="with prior")
    return Strategy(queries=Queries.of([whole_domain(setting.shape)]), weights=np.ones(1), lines=(histogram,))


def _sets(setting: Setting) -> Strategy | None:
    """The joint distribution of each set of attributes that is asked about."""
    if not setting.may_do_without_rounds or are_parities(setting.queries):
        return None
    return together(
        setting.queries, setting.weights, setting.shape, setting.max_cells, setting.always, most=setting.most_sets
    )


def _rounds(setting: Setting) -> Strategy:
    """Rounds; in a plain call after the distribution of each attribute."""
    # Importance and cells are those of what was asked for: a count's partition tells the others, too, but nobody must
    # have them.
    always = [
        Planned(
            purpose="always",
            number=number,
            workload=number,
            importance=float(setting.weights[number]),
            cells=setting.queries[number].cells,
        )
        for number in setting.always
    ]
    strategy = extend(setting.queries, setting.weights, setting.shape, setting.rounds)
    # A distribution that is always measured, cell by cell, is not refined, too.
    first = [line for line in strategy.lines if line.number not in setting.always]
    cells = sum(line.cells for line in first)
    if always:
        ahead = [strategy.queries[line.number] for line in (*first, *always)]
        cells = cells_with(ahead, setting.shape, setting.max_cells)
    if cells > setting.max_cells:
        # The model has no room for them.
        first = []
    return replace(
        strategy,
        lines=(*first, *always),
        rounds=setting.expected_rounds,
        alternatives=_alternatives(setting, strategy, always) if setting.is_plain else None,
        histogram=bool(first) and setting.may_do_without_rounds and not setting.always and _is_small(setting),
    )


def _alternatives(setting: Setting, strategy: Strategy, always: Sequence[Planned]) -> Alternatives:
    """All questions at once, if the model has room for them; and what an error is predicted from."""
    count = len(setting.queries)
    questions = strategy.queries.take(np.arange(count))
    others = [
        Planned(purpose="round", number=number, importance=float(setting.weights[number]), cells=int(cells))
        for number, cells in enumerate(questions.cells if count <= MOST_COMPARED else ())
        if number not in setting.always
    ]
    parts = paired_parts(Queries.of(setting.queries), strategy.queries)
    fits = bool(others) and setting.may_do_without_rounds
    fits = fits and cells_with(list(questions), setting.shape, setting.max_cells) <= setting.max_cells
    return Alternatives(
        questions=count - len(always),
        attributes=len(setting.shape),
        cells=occupied(np.exp((np.log(questions.cells) * parts).mean())),
        marginals=float(np.mean(1 / parts)),
        at_once=(*always, *others) if fits else (),
    )


def _is_small(setting: Setting) -> bool:
    """Whether only cuboids are asked for, and the model has room for a histogram of the domain."""
    return prod(setting.shape.values()) <= setting.max_cells and all(map(is_cuboid, setting.queries))


def default_rounds(queries: int, attributes: int) -> int:
    """`rounds := NULL`: how many rounds there are; public numbers only. At most one per distinct query."""
    return max(1, min(queries, ROUNDS_PER_ATTRIBUTE * attributes))


def are_parities(queries: Sequence[LinearQuery]) -> bool:
    blocks = Queries.of(queries).blocks
    return bool(blocks) and all(map(_is_sign, blocks))


def is_better_at_once(cells: int, share: float) -> bool:
    """Whether one histogram of so many cells answers parities better than rounds that measure with such a share.

    A parity is the sum of all cells, with signs, each with the noise that the whole budget leaves; in a round one has
    the noise of its share.
    """
    return cells * share**2 <= 1


def _is_sign(block: Block) -> bool:
    """Whether every record is counted once, or once less."""
    return (
        block.size == 1 and block.values is not None and bool(((block.labels >= 0) & (np.abs(block.values) == 1)).all())
    )


def together(
    queries: Sequence[LinearQuery],
    weights: Floats,
    sizes: Mapping[str, int],
    max_cells: int,
    always: Sequence[int] = (),
    *,
    most: int = MOST_SETS,
) -> Strategy | None:
    """The joint distributions of all sets of attributes in a workload, if they are few and the model has room.

    A query that is measured `always` has a line beside the sets; a set whose cells it measures is not refined as well.
    So has one that compares columns of many classes: a joint distribution would be for single questions only.
    """
    compared = [number for number in joint(queries) if number not in always]
    by_set: dict[frozenset[str], list[int]] = {}
    for number in np.setdiff1d(np.arange(len(queries)), compared).tolist():
        names = frozenset(name for name in queries[number].attributes if sizes[name] > 1)
        by_set.setdefault(names, []).append(number)
        if len(by_set) > MOST_COMPARED:
            return None
    sets = [names for names in by_set if names and not any(names < other for other in by_set)]
    if not 0 < len(sets) <= most or any(prod(sizes[name] for name in names) > MOST_HELD for names in sets):
        return None
    groups = {name: min(size, JOINT_GROUPS + 2) for name, size in sizes.items()}
    groups |= {name: sizes[name] for names in sets for name in names}
    cliques = [*sets, *(frozenset(queries[number].attributes) for number in compared)]
    room = min(max_cells, MOST_HELD) if compared else max_cells
    if model_cells(cliques, groups, room) > room:
        return None
    cell_by_cell = {frozenset(queries[number].attributes) for number in always if _is_every_cell(queries[number])}
    sets = [names for names in sets if names not in cell_by_cell]
    lines, histograms = list[Planned](), list[LinearQuery]()
    for names in sets:
        inside = [number for other, numbers in by_set.items() if other and other <= names for number in numbers]
        histogram = whole_domain({name: size for name, size in sizes.items() if name in names})
        by_cells = all(is_cuboid(queries[number]) for number in inside)
        lines.append(
            Planned(
                purpose="round",
                number=len(histograms),
                importance=float(weights[inside].max()),
                cells=histogram.cells,
                how="by cells" if by_cells else "refined",
                steps=partitions_of(histogram.shape, by_cells),
            )
        )
        histograms.append(histogram)
    alone = [*always, *compared]
    partitions = dict(Counts([queries[number] for number in alone], weights[alone]).partitions())
    measured = [
        Planned(
            purpose="always" if number in always else "round",
            number=len(histograms) + place,
            workload=number,
            importance=float(weights[number]),
            cells=queries[number].cells,
        )
        for place, number in enumerate(alone)
    ]
    planned = [*histograms, *(partitions.get(place, queries[number]) for place, number in enumerate(alone))]
    # What is always measured comes first: it may tell n. What is compared comes last: the sets are then known.
    lines = [*measured[: len(always)], *lines, *measured[len(always) :]]
    return Strategy(queries=Queries.of(planned), weights=np.ones(len(planned)), lines=tuple(lines))


def joint(queries: Sequence[LinearQuery]) -> list[int]:
    """The queries about columns at once, if one of them distinguishes more classes than the model has groups for."""
    many = any(block.is_joint and max(block.changes) >= JOINT_GROUPS for block in Queries.of(queries).blocks)
    return [number for number, query in enumerate(queries) if query.is_joint] if many else []


def _is_every_cell(query: LinearQuery) -> bool:
    """Whether every class combination of its attributes is a cell of its own."""
    return query.cells == query.domain_cells and query.counts_all


def is_cuboid(query: LinearQuery) -> bool:
    return query.cells > 1 and query.counts_all


def whole_domain(shape: Mapping[str, int]) -> LinearQuery:
    """The histogram over all class combinations, as one query."""
    return LinearQuery(tuple(Block((name,), np.arange(size, dtype=np.int32), size) for name, size in shape.items()))


def extend(
    queries: Sequence[LinearQuery], weights: Floats, sizes: Mapping[str, int], rounds: int | None = None
) -> Strategy:
    """All that may be measured for a workload in rounds, as long as there is room for it.

    If their number is given, nothing comes first.
    """
    workload = Queries.of(queries)
    both, importance = with_marginals(workload, weights)
    candidates = _with_partitions(workload, Strategy(queries=both, weights=importance), rounds)
    return candidates if rounds is not None else _with_first(_with_sums(candidates, workload), workload, sizes)


def _with_sums(strategy: Strategy, queries: Queries) -> Strategy:
    """With a partition beside each sum that joins attributes.

    What is summed in a few even pieces, the rest as it is asked.

    A sum counts in parts of the largest value that a record can have, and what is off by ten times may be a small part
    of that: next to counts it is never the worst. How many records have which values is on the scale of counts.
    """
    added, weights = list[LinearQuery](), list[float]()
    has_values = np.array([block.values is not None for block in queries.blocks], dtype=np.bool_)
    for number in np.flatnonzero(~queries.are_all(~has_values))[:MOST_ADDED].tolist():
        query = queries[number]
        summed = [block for block in query.blocks if block.values is not None and not _is_sign(block)]
        if summed and len(query.attributes) > 1:
            pieces = [
                even_block(name, size, min(PIECES, size))
                for block in summed
                for name, size in zip(block.attributes, block.labels.shape, strict=True)
            ]
            others = [_with_rest(block) for block in query.blocks if block.values is None]
            added.append(LinearQuery((*others, *pieces)))
            weights.append(float(strategy.weights[number]))
    if sum(query.cells for query in added) > MOST_CELLS:
        return strategy
    return replace(
        strategy,
        queries=Queries.joined([strategy.queries, Queries.of(added)]),
        weights=np.concatenate([strategy.weights, weights]),
    )


def _with_rest(block: Block) -> Block:
    """The cells of a block, and one more for the records that it does not count."""
    if block.counts_all:
        return block
    return (
        sides_of(block)
        if block.size == 1
        else Block(block.attributes, np.where(block.labels < 0, np.int32(block.size), block.labels), block.size + 1)
    )


def _with_first(strategy: Strategy, queries: Queries, sizes: Mapping[str, int]) -> Strategy:
    """With the distribution of each attribute that is counted by, refined first.

    Its noise is in the answers to the questions about it: their part of all questions is the square of its importance.
    """
    parts = queries.by_attribute(paired_parts(queries, strategy.queries) / len(queries))
    by_cells, by_ranges = set[str](), set[str]()
    for block in queries.blocks:
        if block.values is None or not _is_sign(block):
            (by_cells if block.size > 1 and block.values is None else by_ranges).update(
                name for name in block.attributes if 1 < sizes[name] <= MOST_HELD
            )
    one_way = np.flatnonzero(strategy.queries.are_marginals & (strategy.queries.counts == 1)).tolist()
    plain = {strategy.queries[number].attributes[0]: number for number in one_way}
    count, added, weights, lines = len(strategy.queries), list[LinearQuery](), [strategy.weights], list[Planned]()
    for name in (name for name in sizes if name in by_cells | by_ranges):
        number = plain.get(name, count + len(added))
        if name not in plain:
            added.append(whole_domain({name: sizes[name]}))
            weights.append(np.ones(1))
        how: How = "refined" if name in by_ranges else "by cells"
        lines.append(Planned(purpose="first", number=number, importance=parts[name] ** 0.5, cells=sizes[name], how=how))
    return replace(
        strategy,
        queries=Queries.joined([strategy.queries, Queries.of(added)]),
        weights=np.concatenate(weights),
        lines=tuple(lines),
    )


def _with_partitions(queries: Queries, strategy: Strategy, rounds: int | None) -> Strategy:
    """Put partitions in the place of a workload's counts.

    Where these are more than the rounds, add grids, and closer looks at what is counted.
    """
    if len(queries) > MOST_ADDED:
        return strategy
    counts = Counts(queries, strategy.weights)
    batch, importance = list(strategy.queries), list[float]()
    partitions = dict(counts.partitions())
    for number, partition in partitions.items():
        batch[number] = partition
    cells = 0
    closer = ((float(strategy.weights[number]), query) for number, query in counts.closer())
    for weight, query in chain(counts.grids(), closer) if rounds is None or len(partitions) > rounds else ():
        cells += query.cells
        if len(importance) == MOST_ADDED or cells > MOST_CELLS:
            break
        batch.append(query)
        importance.append(weight)
    weights = np.concatenate([strategy.weights, importance])
    return _without_equals(Strategy(queries=Queries.of(batch), weights=weights), len(strategy.queries))


def _without_equals(strategy: Strategy, kept: int) -> Strategy:
    """Without what is there before.

    All up to a number stay. Of many classes few partitions are equal, and all are long.
    """
    numbers = np.arange(len(strategy.queries))
    small = np.flatnonzero(strategy.queries.domain_cells <= SMALL)
    equal = small[strategy.queries.take(small).firsts()]
    np.maximum.at(strategy.weights, equal, strategy.weights[small])
    # By number, the one that stays for it.
    stays = numbers.copy()
    stays[small] = np.where(small < kept, small, equal)
    is_new = stays == numbers
    queries = strategy.queries.take(np.flatnonzero(is_new))
    return replace(strategy, queries=queries, weights=strategy.weights[is_new])
