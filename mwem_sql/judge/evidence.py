"""What measurements say of a question: sums of measured cells and their noise, or bounds. From released values only.

Partitions of the same attributes that are nested are one family, a tree. Every other measurement is a family by itself.
Families have independent noise, so that what several say of a cell is joined by precision. A question is a query, or
many counts at once, which is faster by as much as they are many. A question may cut classes that are stored, and what
was measured inside classes cuts them otherwise: both are on the finest classes here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations_with_replacement
from math import prod
from typing import TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Flags, Integers
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.nested import Estimates, NestedPartitions, is_nested
from mwem_sql.algebra.queries import Queries
from mwem_sql.algebra.sets import distinct
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.classes import Classes
from mwem_sql.judge.containment import (
    MOST_COMBINATIONS,
    Bits,
    CountBatch,
    Cuboids,
    Parts,
    containment,
    count_batches,
    cuboids,
    sum_flagged,
    unpack,
)
from mwem_sql.kernel.scales import MINIMUM_VARIANCE
from mwem_sql.kernel.tails import cumulants

Question: TypeAlias = LinearQuery | CountBatch | Cuboids
"""What both have: `attributes`, and a number of `cells`."""

MOST_FAMILIES = 16
"""Families that a question is looked up in, those with the least noise on all their cells first. More: slower, and a
little less noise where many say the same."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Enclosure:
    """What a family says of the cells of a question; the sums are worked out when somebody reads them."""

    is_exact: Flags
    """Which are sums of what was measured: `low` is the estimate."""
    is_open: Flags
    """Which have records that are in no measured cell: there is no upper bound."""
    is_bounded: bool
    """Whether the other cells are between `low` and `high`."""
    sums: tuple[Callable[[], Estimates], Callable[[], Estimates]]

    @cached_property
    def low(self) -> Estimates:
        return self.sums[0]()

    @cached_property
    def high(self) -> Estimates:
        return self.sums[1]()

    @classmethod
    def joined(cls, several: Sequence[Enclosure]) -> Enclosure:
        """Of several questions, one after the other."""
        return cls(
            is_exact=np.concatenate([each.is_exact for each in several]),
            is_open=np.concatenate([each.is_open for each in several]),
            is_bounded=all(each.is_bounded for each in several),
            sums=(
                lambda: Estimates.joined([each.low for each in several]),
                lambda: Estimates.joined([each.high for each in several]),
            ),
        )


@dataclass(frozen=True, eq=False)
class ExactSums:
    """Which cells of a question are sums of measured ones, which of several measurements, and the estimates."""

    is_exact: Flags
    is_joined: Flags
    estimates: Estimates


class Family:
    """Measurements whose noise is looked at together. `blocks` are those of the finest cells."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        """One, or several nested partitions."""
        first, noise = measurements[0], [cumulants(each.scale, each.kind) for each in measurements]
        self.attributes = frozenset(first.query.attributes)
        self._tree = NestedPartitions(measurements, noise) if len(measurements) > 1 else None
        self.blocks = first.query.blocks if self._tree is None else (self._tree.block,)
        unit, (variance, fourth) = first.query.unit, noise[0]
        noise_of_cell = np.array([[variance * unit**2], [fourth * unit**4]])
        self._cells = Estimates(np.vstack([first.values * unit, np.repeat(noise_of_cell, len(first.values), axis=1)]))
        self._last: tuple[Question, Enclosure | None] | None = None
        self._measurements = measurements

    @cached_property
    def one_by_one(self) -> list[Family]:
        """Each of its measurements as a family."""
        return [self] if self._tree is None else [Family([each]) for each in self._measurements]

    @property
    def is_joined(self) -> bool:
        """Whether its estimates are made of several measurements."""
        return self._tree is not None

    @cached_property
    def noise(self) -> float:
        """The variance of all cells together."""
        if self._tree is not None:
            return float(self._tree.estimates(np.ones((self._tree.block.size, 1))).variances[0])
        return float(self._cells.variances.sum())

    def enclosure(self, question: Question, sizes: Mapping[str, int]) -> Enclosure | None:
        """What it says of a question on the same classes; None if that is nothing, or too much to work out."""
        # A question comes twice: for what is exact, and then for the bounds of the rest.
        if self._last is None or self._last[0] is not question:
            self._last = question, self._enclosure(question, sizes)
        return self._last[1]

    def _enclosure(self, question: Question, sizes: Mapping[str, int]) -> Enclosure | None:
        if isinstance(question, Cuboids):
            return None
        if isinstance(question, LinearQuery):
            cells = containment(question.blocks, self.blocks, sizes)
            if cells is None:
                return None
            source = self._cells if self._tree is None else self._tree
            return Enclosure(
                is_exact=cells.is_exact,
                is_open=cells.is_open,
                is_bounded=cells.is_bounded,
                sums=(partial(cells.low, source), partial(cells.high, source)),
            )
        if self._parts is not None:
            parts = self._parts
            return Enclosure.joined([self._by_parts(counts, parts) for counts in question.split(parts.extent)])
        each = [self._enclosure(query, sizes) for query in question.queries()]
        several = [enclosure for enclosure in each if enclosure is not None]
        # All are about the same attributes: all are too much to work out, or none is.
        return Enclosure.joined(several) if len(several) == len(each) else None

    def _by_parts(self, counts: CountBatch, parts: Parts) -> Enclosure:
        full, touched, beyond = parts.made_of(counts)
        cuts = np.bitwise_or.reduce(touched & ~full, axis=0)

        def over(bits: Bits) -> Estimates:
            """Of each count, the sum over the parts that it has."""
            has = unpack(bits, counts.cells)
            if self._tree is not None:
                return self._tree.estimates(has)
            return sum_flagged(has, Estimates(self._cells.moments[:, parts.numbers]))

        return Enclosure(
            is_exact=unpack(~(cuts | beyond), counts.cells),
            is_open=unpack(beyond, counts.cells),
            is_bounded=True,
            sums=(partial(over, full), partial(over, touched)),
        )

    @cached_property
    def _parts(self) -> Parts | None:
        """Its cells as parts, where they are counts of not too many class combinations."""
        is_small = prod(block.extent for block in self.blocks) <= MOST_COMBINATIONS
        return Parts(self.blocks) if is_small and all(block.values is None for block in self.blocks) else None


class Families:
    """All measurements of a release, ready for questions about the same classes."""

    def __init__(self, measurements: Sequence[Measurement], sizes: Mapping[str, int]) -> None:
        """`sizes` has the classes of each attribute."""
        self._sizes = sizes
        self._all = list(_grouped(measurements))
        self._all.sort(key=lambda family: family.noise)
        self._certain = [family for family in self._all if family.noise == 0]
        self._rank = {name: rank for rank, name in enumerate(sizes)}
        # A row for each attribute: which families have it.
        self._has = np.zeros((len(sizes), len(self._all)), dtype=np.bool_)
        for number, family in enumerate(self._all):
            self._has[[self._rank[name] for name in family.attributes], number] = True

    def containing(self, names: Sequence[str]) -> list[Family]:
        """The families that have all these attributes, but for those of one class; the first `MOST_FAMILIES`."""
        needed = [name for name in names if self._sizes[name] > 1]
        return self.sharing(needed, len(needed))

    def sharing(self, names: Sequence[str], count: int) -> list[Family]:
        """The families that have so many of these attributes or more; the first `MOST_FAMILIES`."""
        common = self._has[[self._rank[name] for name in names]].sum(axis=0)
        return [self._all[number] for number in np.flatnonzero(common >= count)[:MOST_FAMILIES].tolist()]

    def without_noise(self, names: Sequence[str]) -> list[Family]:
        """The families that have some of these attributes and no noise: what rules and public totals say."""
        return [family for family in self._certain if not family.attributes.isdisjoint(names)]

    def exact(self, question: Question) -> ExactSums:
        """Which cells are sums of measured ones, and their best estimates: by precision from several families."""
        is_exact, is_joined, is_certain = (np.zeros(question.cells, dtype=np.bool_) for _ in range(3))
        values, precisions, fourths, certain = (np.zeros(question.cells) for _ in range(4))
        for family in self.containing(question.attributes):
            enclosure = family.enclosure(question, self._sizes)
            if enclosure is None:
                continue
            cells, low = enclosure.is_exact, enclosure.low
            if family.noise == 0:
                is_certain |= cells
                certain[cells] = low.values[cells]
            is_joined |= cells & (is_exact | family.is_joined)
            is_exact |= cells
            # What no measured cell is part of has no noise.
            precision = 1 / np.maximum(low.variances[cells], MINIMUM_VARIANCE)
            values[cells] += low.values[cells] * precision
            precisions[cells] += precision
            fourths[cells] += low.fourths[cells] * precision**4
        whole = np.where(is_exact & (precisions > 0), precisions, 1.0)
        # A cell that nothing measured is part of is 0 without noise, and what is public has none.
        has_noise = is_exact & ~is_certain & (precisions < 1 / MINIMUM_VARIANCE)
        means = np.where(is_certain, certain, values / whole)
        estimates = Estimates(np.stack([means, np.where(has_noise, 1 / whole, 0.0), fourths / whole**4]))
        return ExactSums(is_exact, is_joined & ~is_certain, estimates)

    def are_exact(self, queries: Sequence[LinearQuery]) -> Flags:
        """Of each query, whether all of its cells are sums of what was measured."""
        batch = Queries.of(queries)
        possible = np.flatnonzero(self._are_together(batch))
        candidates, out = batch.take(possible), np.zeros(len(batch), dtype=np.bool_)
        counted = np.zeros(len(possible), dtype=np.bool_)
        for numbers, counts in count_batches(candidates):
            counted[numbers] = True
            out[possible[numbers]] = self._is_exact(counts)
        for k in np.flatnonzero(~counted).tolist():
            out[possible[k]] = self._is_exact(candidates[k]).all()
        return out

    def _are_together(self, queries: Queries) -> Flags:
        """Whether every two attributes of a query are in some family together.

        Where they are not, it is no sum of measured cells: of very many queries most are ruled out so.
        """
        has = self._has.astype(np.float32)
        # An attribute of one class is in every family.
        has[[self._rank[name] for name, size in self._sizes.items() if size == 1]] = 1
        return self._of_all_pairs(queries, has @ has.T > 0)

    def are_apart(self, queries: Queries, beside: Collection[str]) -> Flags:
        """Whether a query is about several attributes, and each is of several classes and none of those `beside`.

        And whether no family has two of them together, nor one without noise any of them: nothing is known of such a
        query but what is known of each attribute by itself.
        """
        has = self._has.astype(np.float32)
        are_apart = has @ has.T == 0
        is_free = np.array([size > 1 and name not in beside for name, size in self._sizes.items()], dtype=np.bool_)
        is_free &= ~self._has[:, [family.noise == 0 for family in self._all]].any(axis=1)
        np.fill_diagonal(are_apart, is_free)
        return self._of_all_pairs(queries, are_apart) & (queries.widths > 1)

    def _of_all_pairs(self, queries: Queries, hold: Flags) -> Flags:
        """Whether something holds of every attribute of a query, which the diagonal says, and of every two."""
        ranks, out = queries.attribute_ranks(self._rank), np.ones(len(queries), dtype=np.bool_)
        for width in np.unique(queries.widths).tolist():
            numbers, members = queries.of_width(width, ranks)
            for one, other in combinations_with_replacement(range(width), 2):
                out[numbers] &= hold[members[:, one], members[:, other]]
        return out

    def _is_exact(self, question: Question) -> Flags:
        out = np.zeros(question.cells, dtype=np.bool_)
        for family in self.containing(question.attributes):
            enclosure = family.enclosure(question, self._sizes)
            if enclosure is not None:
                out |= enclosure.is_exact
            if out.all():
                break
        return out


def _grouped(measurements: Sequence[Measurement]) -> Iterator[Family]:
    nested: list[list[Measurement]] = []
    for measurement in measurements:
        is_public = not measurement.scale
        if is_public or not measurement.is_partition or measurement.query.domain_cells > MOST_COMBINATIONS:
            yield Family([measurement])
            continue
        for family in nested:
            if all(is_nested(measurement, other) for other in family):
                family.append(measurement)
                break
        else:
            nested.append([measurement])
    for family in nested:
        yield Family(family)


@dataclass(frozen=True, eq=False)
class _Atoms:
    """The finest classes of an attribute.

    Of each, the class that questions are about, the stored one, and the stored piece, where details are on pieces.
    """

    question: Integers
    stored: Integers
    pieces: Integers | None = None


class Evidence:
    """The measurements of a release, for questions that were compiled against it."""

    def __init__(self, classes: Mapping[str, Classes], measurements: Sequence[Measurement], compiled: Compiled) -> None:
        """`classes` are those that are stored. `measurements` are on these, or on their pieces where they need more."""
        counts = {name: stored.count for name, stored in classes.items()}
        inside = {step for step, each in enumerate(measurements, start=1) if is_inside(each, counts)}
        details = {name: list[Integers]() for name in classes}
        for block in (block for step in inside for block in measurements[step - 1].query.blocks):
            for axis, name in enumerate(block.attributes):
                details[name].append(block.kinds(axis).astype(np.int64))
        atoms = {name: _atoms(stored, compiled.classes.get(name), details[name]) for name, stored in classes.items()}
        stored = {name: atom.stored for name, atom in atoms.items()}
        pieces = {name: atom.pieces for name, atom in atoms.items() if atom.pieces is not None}
        self._question_classes = {name: atom.question for name, atom in atoms.items()}
        self.sizes = {name: len(places) for name, places in self._question_classes.items()}
        # Of an attribute that no question is about, what is inside its classes says nothing.
        self._by_step = {
            step: each.on(pieces if step in inside else stored)
            for step, each in enumerate(measurements, start=1)
            if step not in inside or pieces.keys() >= set(each.query.attributes)
        }
        self.families = Families(list(self._by_step.values()), self.sizes)
        self._blocks: dict[Block, Block] = {}

    def question(self, query: LinearQuery) -> LinearQuery:
        """A question on the finest classes."""
        return LinearQuery(tuple(map(self._block, query.blocks)))

    def questions(
        self, queries: Sequence[LinearQuery], beside: Collection[str] = ()
    ) -> Iterator[tuple[list[int], Question]]:
        """Several questions on the finest classes, counts in batches, each with the numbers of its queries.

        Of attributes `beside`, more is known than the measurements say.
        """
        batch = Queries.of(queries)
        is_left = np.ones(len(batch), dtype=np.bool_)
        for numbers, counts in count_batches(batch, self._question_classes):
            is_left[numbers] = False
            yield numbers.tolist(), counts
        counted = np.array([block.values is None for block in batch.blocks], dtype=np.bool_)
        is_apart = is_left & batch.are_all(counted) & self.families.are_apart(batch, beside)
        for numbers, several in cuboids(batch, is_apart):
            yield numbers.tolist(), Cuboids([list(map(self._block, blocks)) for blocks in several.blocks])
        for number in np.flatnonzero(is_left & ~is_apart).tolist():
            yield [number], self.question(batch[number])

    def first_steps(self, question: Question, queries: int) -> list[int | None]:
        """Of each of so many queries in one question, the first measurement whose cells add up to its cells."""
        names = {name for name in question.attributes if self.sizes[name] > 1}
        steps = np.full(queries, -1)
        for step, family in self._alone.items():
            enclosure = family.enclosure(question, self.sizes) if names <= family.attributes else None
            if enclosure is not None:
                steps[enclosure.is_exact.reshape(queries, -1).all(axis=1) & (steps < 0)] = step
        return [None if step < 0 else step for step in steps.tolist()]

    @cached_property
    def _alone(self) -> dict[int, Family]:
        return {step: Family([measurement]) for step, measurement in self._by_step.items()}

    def _block(self, block: Block) -> Block:
        if block not in self._blocks:
            self._blocks[block] = block.on(self._question_classes)
        return self._blocks[block]


def is_inside(measurement: Measurement, counts: Mapping[str, int]) -> bool:
    """Whether a stored measurement is on pieces, because it distinguishes those of a class."""
    return measurement.purpose == "detail" or not measurement.fits(counts)


def _atoms(stored: Classes, question: Classes | None, details: Sequence[Integers]) -> _Atoms:
    """`details`: of each that was measured, the part of each stored piece."""
    if question is None:
        return _Atoms(np.zeros(stored.count, dtype=np.int64), np.arange(stored.count))
    if not details:
        classes = question.within(stored).codes.astype(np.int64)
        return _Atoms(np.arange(question.count), classes)
    codes, pieces = _on_common_pieces(stored, question)
    rows = np.stack([codes, *(labels[pieces] for labels in details)], axis=1)
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    return _Atoms(codes[first], stored.codes[pieces][first].astype(np.int64), pieces[first])


def _on_common_pieces(stored: Classes, question: Classes) -> tuple[Integers, Integers]:
    """Where either has a piece that begins: the question's class there, and the stored piece."""
    if stored.attribute.values is not None:
        return question.codes.astype(np.int64), np.arange(len(stored.pieces))
    lows = distinct(stored.pieces.lows, question.pieces.lows)
    codes = question.codes[np.searchsorted(question.pieces.lows, lows, side="right") - 1].astype(np.int64)
    pieces = np.searchsorted(stored.pieces.lows, lows, side="right") - 1
    if stored.attribute.nullable:
        codes, pieces = np.append(codes, question.codes[-1]), np.append(pieces, stored.pieces.non_null)
    return codes, pieces
