"""How far an answer may be off: an interval for each, and whether it was measured. From released values only, so that it costs no privacy.

A cell that is a sum of measured ones has an estimate without bias, whose noise has a known distribution: the interval lies around that. Any other lies between bounds: sums of measured
cells that it is part of or has as parts, the total, and what was certified. docs/intervals.md says which chance of failure goes where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats
from mwem_sql.algebra.counts import Counts
from mwem_sql.algebra.families import MOST_ASKED, Asked, Family
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.nested import Noisy, Sums
from mwem_sql.compile.compiled import CompiledQuery
from mwem_sql.judge.known import Known
from mwem_sql.kernel.tails import Spread, half_widths

Measured: TypeAlias = Literal["directly", "in part", "never", "unknown"]

JOINED_PART: Final = 0.75
"""Of the chance to fail: what goes to the noise of a measured cell that several measurements tell, which were chosen by what was released before. The rest is kept for
that choice. Where one measurement tells it, its noise is exactly what it says, and takes all."""
MEASURED_SUM_PART: Final = 0.75
"""Of the chance to fail: what goes to the noise of a sum that was measured. The noise is in proportion to the most that a record may add, and bounds, which have the rest, may say more."""
BOUNDS_PART: Final = 0.1
"""Of the chance to fail: what goes to the bounds of a cell that was not measured, all of them together, where the certificate or selections tell of it, too. Where they do not, bounds take all."""

REACH_PART: Final = 0.1
"""Of the chance to fail: what goes to how many records a sum over bins has in each bin, which says how far they may be from the bins' means."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Of each cell of a query: from where to where, and whether the noise on a measurement decides."""

    low: Floats
    high: Floats
    is_direct: Flags
    measured: list[Measured]

    def at(self, begin: int, end: int) -> Intervals:
        """Of some cells."""
        return Intervals(self.low[begin:end], self.high[begin:end], self.is_direct[begin:end], self.measured[begin:end])

    def without_ends(self) -> Intervals:
        """The same where nothing bounds the values that are summed up."""
        nowhere = np.full_like(self.low, np.inf)
        measured: list[Measured] = ["in part" if own == "directly" else own for own in self.measured]
        return Intervals(-nowhere, nowhere, np.zeros_like(self.is_direct), measured)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Of each cell the columns low, high and measured; NULL where there is no bound."""
        for low, high, measured in zip(self.low.tolist(), self.high.tolist(), self.measured, strict=True):
            yield {
                "low": low if isfinite(low) else None,
                "high": high if isfinite(high) else None,
                "measured": measured,
            }


class Judge:
    """Gives intervals. `miss` is the chance that an interval fails; `total` the number of rows if nothing measured tells it."""

    def __init__(
        self,
        known: Known,
        miss: float,
        total: float,
        bounded: Sequence[tuple[LinearQuery, Floats, float]] = (),
    ) -> None:
        """`bounded` are counts of the workload, what the state answers to them, and how far all their cells are off together at most, by what selections tell."""
        self._known = known
        self._miss = miss
        self._bounded = [
            (Family([Noisy(known.question(query), answers, 0.0, 0.0)]), bound) for query, answers, bound in bounded
        ]
        # By the block that they are about, which is kept so that no other gets its place in memory.
        self._alone: dict[int, tuple[Block, Floats, Floats]] = {}
        self._counts: dict[int, tuple[Block, Block]] = {}
        self._rows = self._total(total)

    def intervals(
        self,
        queries: Sequence[CompiledQuery],
        answers: Sequence[tuple[Floats, Floats | None]],
        within: Sequence[tuple[float, float]],
    ) -> list[Intervals]:
        """Of the cells of each query with these sums, over these counts if it is an average; each is in its interval.

        `within`: how far sums and counts of each that were not measured are off at most.
        """
        found: dict[int, Intervals] = {}
        plain = [number for number, query in enumerate(queries) if query.over is None]
        for places, asked in self._known.questions([queries[number].linear for number in plain]):
            numbers = [plain[place] for place in places]
            sums = np.concatenate([answers[number][0] for number in numbers])
            most = np.array([within[number][0] for number in numbers])
            # Sums are asked one by one.
            reach = queries[numbers[0]].reach if len(numbers) == 1 else None
            own = self._around(self._sums(asked, self._left(self._miss, reach), most), sums, most)
            own = self._reached(own, reach, self._miss)
            cells = asked.cells // len(numbers)
            found.update((number, own.at(k * cells, (k + 1) * cells)) for k, number in enumerate(numbers))
        for number, (query, (sums, counts)) in enumerate(zip(queries, answers, strict=True)):
            if query.over is not None and counts is not None:
                off, miss = within[number], self._miss / 2
                total, count = self._known.question(query.linear), self._known.question(query.over.linear)
                own = self._around(self._sums(total, self._left(miss, query.reach), off[0]), sums, off[0])
                over = self._around(self._sums(count, miss, off[1]), counts, off[1])
                found[number] = self._averages(query, self._reached(own, query.reach, miss), over)
            if query.hull is not None:
                found[number] = self._hulled(query, found[number])
        return [found[number] for number in range(len(queries))]

    def _hulled(self, query: CompiledQuery, found: Intervals) -> Intervals:
        """A question with a condition in doubt: from what it is if that is false of values off the domain to what it is if it is true."""
        assert query.hull is not None
        if query.over is not None:
            least, most = _ends(self._known.question(query.linear))
            low, high = np.minimum(least, 0), np.maximum(most, 0)
        else:
            ends = [self._sums(self._known.question(part), self._miss, np.inf) for part in query.hull]
            low, high = (np.min([own.low for own in ends], axis=0), np.max([own.high for own in ends], axis=0))
        measured: list[Measured] = ["in part" if own == "directly" else own for own in found.measured]
        return Intervals(
            np.minimum(found.low, low), np.maximum(found.high, high), np.zeros_like(found.is_direct), measured
        )

    @staticmethod
    def _left(miss: float, reach: LinearQuery | None) -> float:
        return miss if reach is None else (1 - REACH_PART) * miss

    def _reached(self, found: Intervals, reach: LinearQuery | None, miss: float) -> Intervals:
        """Sums over bins: from the lower ends of the bins to their upper ones, so that they are measured in part at most."""
        if reach is None:
            return found
        far = np.maximum(self._sums(self._known.question(reach), REACH_PART * miss, np.inf).high, 0)
        is_far = far > 0
        measured: list[Measured] = [
            "in part" if far_off and own == "directly" else own
            for far_off, own in zip(is_far.tolist(), found.measured, strict=True)
        ]
        return Intervals(found.low - far, found.high + far, found.is_direct & ~is_far, measured)

    @staticmethod
    def _around(found: Intervals, answers: Floats, within: Floats | float) -> Intervals:
        low = np.where(found.is_direct, found.low, np.maximum(found.low, answers - within))
        high = np.where(found.is_direct, found.high, np.minimum(found.high, answers + within))
        return replace(found, low=np.minimum(low, answers), high=np.maximum(high, answers))

    def _sums(self, asked: Asked, miss: float, within: Floats | float) -> Intervals:
        is_count = isinstance(asked, Counts) or all(block.values is None for block in asked.blocks)
        exact = self._known.families.exact(asked)
        is_exact, low, high = exact.is_exact, exact.sums.values, exact.sums.values
        if is_exact.any():
            spread = Spread(exact.sums.variances, exact.sums.fourths)
            own = miss if is_count else MEASURED_SUM_PART * miss
            width = np.where(exact.is_joined, half_widths(spread, JOINED_PART * own), half_widths(spread, own))
            low, high = low - width, high + width
        if not is_exact.all() or not is_count:
            is_told = bool(np.isfinite(within).any()) or any(self._about(asked))
            left = 1 - MEASURED_SUM_PART if is_exact.any() and not is_count else 1.0
            least, most = self._bounds(asked, miss * min(left, BOUNDS_PART if is_told else 1.0))
            low = np.where(is_exact, low if is_count else np.maximum(low, least), least)
            high = np.where(is_exact, high if is_count else np.minimum(high, most), most)
        if is_count:
            # A count is not negative, whatever noise says.
            low, high = np.maximum(low, 0), np.maximum(high, 0)
        status = self._status(asked)
        return Intervals(low, high, is_exact, ["directly" if own else status for own in is_exact.tolist()])

    def _status(self, asked: Asked) -> Measured:
        """Of what was not measured: whether some of its attributes were, together; of a single one, whether it was."""
        names = [name for name in asked.attributes if self._known.sizes[name] > 1]
        return "in part" if names and self._known.families.sharing(names, min(2, len(names))) else "never"

    def _averages(self, query: CompiledQuery, sums: Intervals, counts: Intervals) -> Intervals:
        """Sums over counts; never beyond what a record can have."""
        least, most = _ends(self._known.question(query.linear))
        if query.reach is not None:
            far = _ends(self._known.question(query.reach))[1]
            least, most = least - far, most + far
        if _has_zeros(query):
            least, most = np.minimum(least, 0), np.maximum(most, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = np.stack([ends / own for ends in (sums.low, sums.high) for own in (counts.low, counts.high)])
        some = counts.low > 0
        low = np.where(some, np.maximum(corners.min(axis=0), least), least)
        high = np.where(some, np.minimum(corners.max(axis=0), most), most)
        rank: Mapping[Measured, int] = {"directly": 0, "in part": 1, "never": 2, "unknown": 3}
        worse = [max(pair, key=rank.__getitem__) for pair in zip(sums.measured, counts.measured, strict=True)]
        return Intervals(low, high, sums.is_direct & counts.is_direct, worse)

    def _bounds(self, asked: Asked, miss: float) -> tuple[Floats, Floats]:
        """Between what a cell certainly is, but for a chance of `miss`, which is shared evenly among all that is used."""
        if isinstance(asked, Counts):
            return self._count_bounds(asked, [self._by_itself(own) for own in asked.alone()], miss)
        counted = LinearQuery(tuple(map(self._counted, asked.blocks)))
        each = [self._block_by_itself(block) for block in counted.blocks]
        cells = [np.indices(counted.shape)[axis].reshape(-1) for axis in range(len(each))]
        conditions = [(low[own], high[own]) for (low, high), own in zip(each, cells, strict=True)]
        is_count = all(block.values is None for block in asked.blocks)
        low, high = self._count_bounds(counted, conditions, miss if is_count else miss / 2)
        if is_count:
            return low, high
        least, most = _ends(asked)
        ends = np.stack([least * low, least * high, most * low, most * high])
        low, high = ends.min(axis=0), ends.max(axis=0)
        more = self._by_families(asked, miss / 2)
        return np.maximum(low, more[0]), np.minimum(high, more[1])

    def _count_bounds(
        self, asked: Asked, conditions: Sequence[tuple[Floats, Floats]], miss: float
    ) -> tuple[Floats, Floats]:
        """`conditions`: of each cell the bounds of its conditions, each by itself."""
        # The rows, and each condition by itself, have a sixteenth each.
        low, high = self._by_families(asked, miss * 15 / 16 if len(conditions) < 2 else miss / 2)
        low, high = np.maximum(low, 0), np.minimum(high, self._rows[1])
        if len(conditions) > 1:
            # As many as the rarest of its conditions; and at least what their sum exceeds the rows by, for each condition but one (Frechet).
            high = np.minimum(high, np.min([most for _, most in conditions], axis=0))
            least = np.sum([own for own, _ in conditions], axis=0) - (len(conditions) - 1) * self._rows[1]
            low = np.maximum(low, least)
        for own in self._by_selections(asked):
            low, high = np.maximum(low, own[0]), np.minimum(high, own[1])
        return low, np.maximum(high, 0)

    def _by_selections(self, asked: Asked) -> Iterator[tuple[Floats, Floats]]:
        """Between which sums of the cells of a bounded count each cell is: the state's own answers, and its bound."""
        for family, bound in self._about(asked):
            told = family.told(asked, self._known.sizes)
            if told is not None:
                yield told.low.values - bound, np.where(told.is_open, np.inf, told.high.values + bound)

    def _about(self, asked: Asked) -> Iterator[tuple[Family, float]]:
        """The bounded counts that have an attribute of a question."""
        return (own for own in self._bounded if not own[0].attributes.isdisjoint(asked.attributes))

    def _counted(self, block: Block) -> Block:
        """The records that a block sums up, counted."""
        if block.values is None:
            return block
        known = self._counts.get(id(block))
        if known is None:
            known = self._counts[id(block)] = (block, Block(block.attributes, block.labels, block.size))
        return known[1]

    def _block_by_itself(self, block: Block) -> tuple[Floats, Floats]:
        """The same of a condition by itself, for all questions that have it."""
        known = self._alone.get(id(block))
        if known is None:
            known = self._alone[id(block)] = (block, *self._by_itself(LinearQuery((block,))))
        return known[1], known[2]

    def _by_itself(self, asked: Asked) -> tuple[Floats, Floats]:
        miss = BOUNDS_PART * self._miss / 16
        exact = self._known.families.exact(asked)
        low, high = _end(exact.sums, -1, miss), _end(exact.sums, 1, miss)
        if not exact.is_exact.all():
            least, most = self._by_families(asked, miss)
            low, high = np.where(exact.is_exact, low, least), np.where(exact.is_exact, high, most)
        return np.maximum(low, 0), np.clip(high, 0, self._rows[1])

    def _by_families(self, asked: Asked, miss: float) -> tuple[Floats, Floats]:
        """Between which sums of measured cells each cell is, by any family that has some of its attributes together."""
        low, high = np.full(asked.cells, -np.inf), np.full(asked.cells, np.inf)
        families = self._known.families.sharing(asked.attributes, min(2, len(asked.attributes)))[:MOST_ASKED]
        for family in families:
            own = self._of_family(family, asked, miss / len(families))
            if own is not None:
                low, high = np.maximum(low, own[0]), np.minimum(high, own[1])
        return low, high

    def _of_family(self, family: Family, asked: Asked, miss: float) -> tuple[Floats, Floats] | None:
        told = family.told(asked, self._known.sizes)
        if told is None or not told.is_bounded:
            return None
        low = _end(told.low, -1, miss)
        return low, np.where(told.is_open, np.inf, _end(told.high, 1, miss))

    def _total(self, public: float) -> tuple[float, float]:
        """The number of rows, from all that counts every record; the constant that was given where nothing does."""
        exact = self._known.families.exact(LinearQuery(()))
        if not exact.is_exact.all():
            return public, public
        low, high = (_end(exact.sums, sign, BOUNDS_PART * self._miss / 16) for sign in (-1, 1))
        return max(0.0, float(low[0])), max(0.0, float(high[0]))


def _end(sums: Sums, sign: int, miss: float) -> Floats:
    return np.asarray(sums.values + sign * half_widths(Spread(sums.variances, sums.fourths), miss))


def _ends(asked: LinearQuery) -> tuple[Floats, Floats]:
    """Of each cell, the least and the most that a record in it adds."""
    low, high = np.ones(1), np.ones(1)
    for block in asked.blocks:
        least, most = _block_ends(block)
        corners = np.stack(
            [np.multiply.outer(own, other).reshape(-1) for own in (low, high) for other in (least, most)]
        )
        low, high = corners.min(axis=0), corners.max(axis=0)
    return low, high


def _has_zeros(query: CompiledQuery) -> bool:
    """Whether an average may count records that its sum leaves out because they add 0 to it."""
    counted = {} if query.over is None else {block.attributes: block.labels >= 0 for block in query.over.linear.blocks}
    return any(
        bool((counted.get(block.attributes, np.True_) & (block.labels < 0)).any())
        for block in query.linear.blocks
        if block.values is not None
    )


def _block_ends(block: Block) -> tuple[Floats, Floats]:
    if block.values is None:
        return np.ones(block.size), np.ones(block.size)
    labels, values = block.labels.reshape(-1), block.values.reshape(-1)
    counted = labels >= 0
    low, high = np.full(block.size, np.inf), np.full(block.size, -np.inf)
    np.minimum.at(low, labels[counted], values[counted])
    np.maximum.at(high, labels[counted], values[counted])
    return np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)


def noise_alone(known: Known, query: LinearQuery, miss: float) -> tuple[float, float]:
    """Between what a sum of measured cells is, by its noise and nothing else; endless if it is no such sum."""
    exact = known.families.exact(known.question(query))
    if not exact.is_exact.all():
        return -np.inf, np.inf
    part = JOINED_PART if exact.is_joined.any() else 1.0
    return float(_end(exact.sums, -1, part * miss)[0]), float(_end(exact.sums, 1, part * miss)[0])
