"""How far an answer may be off: an interval for each, and whether it was measured.

From released values only, so that it costs no privacy. A cell that is a sum of measured ones has an estimate without
bias, whose noise has a known distribution: the interval lies around that. Any other lies between bounds: sums of
measured cells that it is part of or has as parts, the total, and what was certified. docs/intervals.md says which
chance of failure goes where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats
from mwem_sql.algebra.chance import BOUNDS, CONDITION, JOINED, MEASURED_SUM, REACH, SELECTIONS, Chance
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.nested import Estimates
from mwem_sql.compile.compiled import CompiledQuery
from mwem_sql.judge.containment import CountBatch, Cuboids
from mwem_sql.judge.evidence import Evidence, ExactSums, Family, Question
from mwem_sql.kernel.tails import half_widths

Status: TypeAlias = Literal["directly", "in part", "never"]
RANK: Final[Mapping[Status, int]] = {"directly": 0, "in part": 1, "never": 2}
"""The best first."""
WIDE: Final = 0.02
"""Of all rows: the width of a count's interval by noise from which on what it is part of is looked up. Larger: quicker,
and an interval that such a bound would narrow is missed."""
LowHigh: TypeAlias = tuple[Floats, Floats]
"""Of each cell, at least and at most."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Of each cell of a query: from where to where, and whether the noise on a measurement decides."""

    low: Floats
    high: Floats
    is_direct: Flags
    measured: list[Status]

    @property
    def is_certain(self) -> Flags:
        """Whether there is no noise on what decides."""
        return np.asarray(self.is_direct & (self.low == self.high))

    def settled(self, answers: Floats) -> Floats:
        """The answers, those that are certain to the last digit; the average of nothing stays one."""
        return np.where(self.is_certain & ~np.isnan(answers), self.low, answers)

    def at(self, begin: int, end: int) -> Intervals:
        """Of some cells."""
        return Intervals(self.low[begin:end], self.high[begin:end], self.is_direct[begin:end], self.measured[begin:end])

    def widened(self, low: Floats, high: Floats, cells: Flags | None = None) -> Intervals:
        """With other ends than those of a measurement's noise: these cells, or all, are measured in part at most."""
        is_direct = self.is_direct & (False if cells is None else ~cells)
        measured: list[Status] = [
            "in part" if status == "directly" and not direct else status
            for status, direct in zip(self.measured, is_direct.tolist(), strict=True)
        ]
        return Intervals(low, high, is_direct, measured)

    def without_ends(self) -> Intervals:
        """The same where nothing bounds the values that are summed up."""
        nowhere = np.full_like(self.low, np.inf)
        return self.widened(-nowhere, nowhere)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Of each cell the columns low, high and measured; NULL where there is no bound."""
        for low, high, measured in zip(self.low.tolist(), self.high.tolist(), self.measured, strict=True):
            yield {
                "low": low if isfinite(low) else None,
                "high": high if isfinite(high) else None,
                "measured": measured,
            }


class Judge:
    """Gives intervals: each fails with chance `miss`. `total` is the number of rows if no measurement has it."""

    def __init__(
        self,
        evidence: Evidence,
        miss: float,
        total: float,
        bounded: Sequence[tuple[LinearQuery, Floats, float]] = (),
    ) -> None:
        """`bounded` are counts of the workload, the state's answers to them, and bounds by selections."""
        self._evidence = evidence
        self._miss = miss
        self._of_condition = CONDITION * BOUNDS * miss
        self._bounded = [
            (_without_noise(evidence.question(query), answers), bound) for query, answers, bound in bounded
        ]
        self._beside = {name for family, _ in self._bounded for name in family.attributes}
        self._alone: dict[Block, LowHigh] = {}
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
        out: dict[int, Intervals] = {}
        # Counts in one batch have one chance: those that the certificate says something of are apart from the others.
        for is_certified in (False, True):
            plain = [
                number
                for number, (query, most) in enumerate(zip(queries, within, strict=True))
                if query.over is None and isfinite(most[0]) == is_certified
            ]
            linear = [queries[number].linear for number in plain]
            for places, question in self._evidence.questions(linear, self._beside):
                numbers = [plain[k] for k in places]
                sums = np.concatenate([answers[number][0] for number in numbers])
                cells = question.cells // len(numbers)
                most_off = np.repeat([within[number][0] for number in numbers], cells)
                # Sums are questions one by one.
                reach = queries[numbers[0]].reach if len(numbers) == 1 else None
                together = self._interval(question, Chance(self._miss), sums, most_off, reach)
                out.update((number, together.at(k * cells, (k + 1) * cells)) for k, number in enumerate(numbers))
        for number, (query, (sums, counts)) in enumerate(zip(queries, answers, strict=True)):
            if query.over is not None and counts is not None:
                chance, off = Chance(self._miss), within[number]
                total, count = self._evidence.question(query.linear), self._evidence.question(query.over.linear)
                above = self._interval(total, chance.part("sum", 1 / 2), sums, off[0], query.reach)
                below = self._interval(count, chance.part("count", 1 / 2), counts, off[1])
                out[number] = self._averages(query, above, below)
            if query.hull is not None:
                out[number] = self._hulled(query, out[number])
        return [out[number] for number in range(len(queries))]

    def _interval(
        self,
        question: Question,
        chance: Chance,
        answers: Floats,
        within: Floats | float,
        reach: LinearQuery | None = None,
    ) -> Intervals:
        """Around the answers. `reach`: of a sum over bins, how far its records may be from the bins' means."""
        of_reach = 0.0 if reach is None else chance.take("reach", REACH)
        sums = self._sums(question, chance.rest("sums"), within)
        low = np.where(sums.is_direct, sums.low, np.maximum(sums.low, answers - within))
        high = np.where(sums.is_direct, sums.high, np.minimum(sums.high, answers + within))
        # What is certain is so to the last digit, which the fit of a state is not.
        low = np.where(sums.is_certain, sums.low, np.minimum(low, answers))
        high = np.where(sums.is_certain, sums.high, np.maximum(high, answers))
        sums = replace(sums, low=low, high=high)
        return sums if reach is None else self._reached(sums, reach, of_reach)

    def _hulled(self, query: CompiledQuery, interval: Intervals) -> Intervals:
        """A question with a condition in doubt.

        From what it is if that is false of values off the domain to what it is if it is true.
        Each end is that of another interval, and fails on one side only: together no more often than one.
        """
        assert query.hull is not None
        if query.over is not None:
            least, most = _ends(self._evidence.question(query.linear))
            low, high = np.minimum(least, 0), np.maximum(most, 0)
        else:
            ends = [self._sums(self._evidence.question(part), self._miss, np.inf) for part in query.hull]
            low, high = (np.min([end.low for end in ends], axis=0), np.max([end.high for end in ends], axis=0))
        return interval.widened(np.minimum(interval.low, low), np.maximum(interval.high, high))

    def _reached(self, sums: Intervals, reach: LinearQuery, miss: float) -> Intervals:
        """Sums over bins, from the lower ends of the bins to the upper ones: measured in part at most."""
        far = np.maximum(self._sums(self._evidence.question(reach), miss, np.inf).high, 0)
        return sums.widened(sums.low - far, sums.high + far, far > 0)

    def _sums(self, question: Question, miss: float, within: Floats | float) -> Intervals:
        """By noise where a cell was measured, and by bounds, which are all there is elsewhere.

        `miss` is the chance of each cell.
        """
        is_count = not isinstance(question, LinearQuery) or question.is_count
        exact = self._evidence.families.exact(question)
        is_exact = exact.is_exact
        low = high = exact.estimates.values
        if is_exact.any():
            measured = self._measured_count if is_count else self._measured_sum
            low, high = measured(question, exact, miss)
        if not is_exact.all():
            least, most = self._bounds(question, Chance(miss), miss, within)
            low, high = np.where(is_exact, low, least), np.where(is_exact, high, most)
        if is_count:
            # A count is not negative, whatever noise says, and not what a rule or a public total forbids.
            least, most = self._by_what_is_public(question)
            low, high = np.clip(low, least, most), np.clip(high, least, most)
        status = self._status(question)
        return Intervals(low, high, is_exact, ["directly" if cell else status for cell in is_exact.tolist()])

    def _measured_count(self, question: Question, exact: ExactSums, miss: float) -> LowHigh:
        """No more than the rows, and than what it is part of, either of which may have less noise."""
        chance = Chance(miss)
        chance.take("rows", self._of_condition / miss)
        of_whole = chance.take("what it is part of", self._of_condition / miss)
        low, high = _by_noise(exact, chance.rest("noise"))
        is_wide = exact.is_exact & (high - low > WIDE * self._rows[1])
        if is_wide.any():
            least, most = self._by_families(question, of_whole, one_by_one=True)
            low = np.where(is_wide, np.maximum(low, least), low)
            high = np.where(is_wide, np.minimum(high, np.minimum(most, self._rows[1])), high)
        return low, high

    def _measured_sum(self, question: Question, exact: ExactSums, miss: float) -> LowHigh:
        chance = Chance(miss)
        low, high = _by_noise(exact, chance.take("noise", MEASURED_SUM))
        least, most = self._bounds(question, chance.remaining("bounds"), miss, np.inf)
        return np.maximum(low, least), np.minimum(high, most)

    def _status(self, question: Question) -> Status:
        """Of what was not measured: whether some of its attributes were, together; of a single one, whether it was."""
        names = [name for name in question.attributes if self._evidence.sizes[name] > 1]
        return "in part" if names and self._evidence.families.sharing(names, min(2, len(names))) else "never"

    def _averages(self, query: CompiledQuery, sums: Intervals, counts: Intervals) -> Intervals:
        """Sums over counts; never beyond what a record can have."""
        least, most = _ends(self._evidence.question(query.linear))
        if query.reach is not None:
            far = _ends(self._evidence.question(query.reach))[1]
            least, most = least - far, most + far
        if _has_zeros(query):
            least, most = np.minimum(least, 0), np.maximum(most, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = np.stack(
                [ends / divisor for ends in (sums.low, sums.high) for divisor in (counts.low, counts.high)]
            )
        some = counts.low > 0
        low = np.where(some, np.maximum(corners.min(axis=0), least), least)
        high = np.where(some, np.minimum(corners.max(axis=0), most), most)
        worse = [max(pair, key=RANK.__getitem__) for pair in zip(sums.measured, counts.measured, strict=True)]
        return Intervals(low, high, sums.is_direct & counts.is_direct, worse)

    def _bounds(self, question: Question, chance: Chance, whole: float, within: Floats | float) -> LowHigh:
        """Between what a cell certainly is, but for the chance.

        `whole` is that of the interval; `within` is what the certificate says of it, at a further chance.
        """
        of_bounds = BOUNDS * whole
        selected = [each for each in self._bounded if not each[0].attributes.isdisjoint(question.attributes)]
        # Not for a small part of an interval, where the number of rows would have to do without its chance.
        if of_bounds < 2 * self._of_condition or not chance.allows((of_bounds + SELECTIONS) / chance.whole):
            selected = []
        if selected:
            chance.take("selections", SELECTIONS / chance.whole)
        has_more = bool(selected) or bool(np.isfinite(within).any())
        bounds = chance.part("bounds", of_bounds / chance.whole) if has_more else chance.remaining("bounds")
        if isinstance(question, CountBatch):
            conditions = [self._by_itself(group) for group in question.alone()] if len(question.groups) > 1 else []
            return self._count_bounds(question, conditions, bounds, selected, of_families=1)
        if isinstance(question, Cuboids):
            return self._count_bounds(question, self._by_conditions(question.blocks), bounds, selected, of_families=1)
        counted = LinearQuery(tuple(map(_counted, question.blocks)))
        conditions = self._by_conditions([question.blocks])
        if question.is_count:
            return self._count_bounds(counted, conditions, bounds, selected, of_families=1)
        low, high = self._count_bounds(counted, conditions, bounds, selected, of_families=1 / 2)
        least, most = _ends(question)
        ends = np.stack([least * low, least * high, most * low, most * high])
        low, high = ends.min(axis=0), ends.max(axis=0)
        more = self._by_families(question, bounds.rest("families of the sum"))
        return np.maximum(low, more[0]), np.minimum(high, more[1])

    def _count_bounds(
        self,
        question: Question,
        conditions: Sequence[LowHigh],
        chance: Chance,
        selected: Sequence[tuple[Family, float]],
        of_families: float,
    ) -> LowHigh:
        """`conditions`: bounds of each condition by itself; `of_families`: their part of the chance that is left."""
        of_each = self._of_condition / chance.whole
        chance.take("rows", of_each)
        # Rows and conditions take no more than half; where there are more conditions, the first ones bound a count from
        # above.
        used = min(len(conditions), round(1 / 2 / of_each) - 1)
        chance.take("conditions by themselves", used * of_each)
        low, high = self._by_families(question, chance.take("families", of_families * chance.left / chance.whole))
        low, high = np.maximum(low, 0), np.minimum(high, self._rows[1])
        if used:
            # As many as the rarest of its conditions.
            high = np.minimum(high, np.min([most for _, most in conditions[:used]], axis=0))
        if 0 < used == len(conditions):
            # At least what their sum exceeds the rows by, for each condition but one (Frechet).
            least = np.sum([fewest for fewest, _ in conditions], axis=0) - (len(conditions) - 1) * self._rows[1]
            low = np.maximum(low, least)
        for family, bound in selected:
            enclosure = family.enclosure(question, self._evidence.sizes)
            if enclosure is not None:
                low = np.maximum(low, enclosure.low.values - bound)
                high = np.minimum(high, np.where(enclosure.is_open, np.inf, enclosure.high.values + bound))
        return low, np.maximum(high, 0)

    def _by_conditions(self, queries: Sequence[Sequence[Block]]) -> list[LowHigh]:
        """Of each cell of some queries of the same shape, the bounds of each of its conditions by itself."""
        shape = [block.size for block in queries[0]]
        if len(shape) < 2:
            return []
        places = np.unravel_index(np.arange(prod(shape)), shape)
        ends = [np.array([self._block_by_itself(block) for block in blocks]) for blocks in zip(*queries, strict=True)]
        # Queries, then the two ends, then cells.
        return [
            (each[:, 0, place].reshape(-1), each[:, 1, place].reshape(-1))
            for each, place in zip(ends, places, strict=True)
        ]

    def _block_by_itself(self, block: Block) -> LowHigh:
        """The bounds of a condition by itself, for all questions that have it."""
        if block not in self._alone:
            self._alone[block] = self._by_itself(LinearQuery((_counted(block),)))
        return self._alone[block]

    def _by_itself(self, question: Question) -> LowHigh:
        exact = self._evidence.families.exact(question)
        low = high = exact.estimates.values
        if exact.is_exact.any():
            low, high = (_end(exact.estimates, sign, self._of_condition) for sign in (-1, 1))
        if not exact.is_exact.all():
            least, most = self._by_families(question, self._of_condition)
            low, high = np.where(exact.is_exact, low, least), np.where(exact.is_exact, high, most)
        return np.maximum(low, 0), np.clip(high, 0, self._rows[1])

    def _by_families(self, question: Question, miss: float, *, one_by_one: bool = False) -> LowHigh:
        """Between which sums of measured cells each cell is, by any family that has some of its attributes together.

        `one_by_one`: by each of their measurements, so that a cell of one lies in a coarser cell of another.
        """
        low, high = np.full(question.cells, -np.inf), np.full(question.cells, np.inf)
        families = self._evidence.families.sharing(question.attributes, min(2, len(question.attributes)))
        if one_by_one:
            families = [each for family in families for each in family.one_by_one]
        for family in families:
            enclosure = family.enclosure(question, self._evidence.sizes)
            if enclosure is not None and enclosure.is_bounded:
                most = np.where(enclosure.is_open, np.inf, _end(enclosure.high, 1, miss / len(families)))
                low = np.maximum(low, _end(enclosure.low, -1, miss / len(families)))
                high = np.minimum(high, most)
        return low, high

    def _by_what_is_public(self, question: Question) -> LowHigh:
        """Between what each count is by rules and public totals alone, for sure."""
        low, high = np.zeros(question.cells), np.full(question.cells, np.inf)
        for family in self._evidence.families.without_noise(question.attributes):
            enclosure = family.enclosure(question, self._evidence.sizes)
            if enclosure is not None and enclosure.is_bounded:
                low = np.maximum(low, enclosure.low.values)
                high = np.minimum(high, np.where(enclosure.is_open, np.inf, enclosure.high.values))
        return low, high

    def _total(self, public: float) -> tuple[float, float]:
        """The number of rows, from all that counts every record; the constant that was given where nothing does."""
        exact = self._evidence.families.exact(LinearQuery(()))
        if not exact.is_exact.all():
            return public, public
        low, high = (_end(exact.estimates, sign, self._of_condition) for sign in (-1, 1))
        return max(0.0, float(low[0])), max(0.0, float(high[0]))


def _counted(block: Block) -> Block:
    """The records that a block sums up, counted."""
    return block if block.values is None else Block(block.attributes, block.encoding, block.size)


def _without_noise(query: LinearQuery, answers: Floats) -> Family:
    """The state's answers, as if they had been measured."""
    return Family([Measurement(values=answers, kind="pure", scale=0.0, variance=0.0, query=query, purpose="round")])


def _by_noise(exact: ExactSums, miss: float) -> LowHigh:
    """By the noise of the estimates; where these join several measurements, their choice takes a part of `miss`."""
    several = Chance(miss)
    several.take("choice", 1 - JOINED)
    low, high = (_end(exact.estimates, sign, miss) for sign in (-1, 1))
    if exact.is_joined.any():
        of_noise = several.rest("noise")
        least, most = (_end(exact.estimates, sign, of_noise) for sign in (-1, 1))
        low, high = np.where(exact.is_joined, least, low), np.where(exact.is_joined, most, high)
    return low, high


def _end(estimates: Estimates, sign: int, miss: float) -> Floats:
    """An end of an interval that fails, at either end, with this chance."""
    return np.asarray(estimates.values + sign * half_widths(estimates.variances, estimates.fourths, miss))


def _ends(question: LinearQuery) -> tuple[Floats, Floats]:
    """Of each cell, the least and the most that a record in it adds."""
    low, high = np.ones(1), np.ones(1)
    for block in question.blocks:
        least, most = _block_ends(block)
        corners = np.stack(
            [np.multiply.outer(one, other).reshape(-1) for one in (low, high) for other in (least, most)]
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
    labels, values = block.labels.reshape(-1), block.values.reshape(-1) * block.unit
    counted = labels >= 0
    low, high = np.full(block.size, np.inf), np.full(block.size, -np.inf)
    np.minimum.at(low, labels[counted], values[counted])
    np.maximum.at(high, labels[counted], values[counted])
    return np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)


def noise_alone(evidence: Evidence, query: LinearQuery, miss: float) -> tuple[float, float]:
    """Between what a sum of measured cells is, by its noise and nothing else; endless if it is no such sum."""
    exact = evidence.families.exact(evidence.question(query))
    if not exact.is_exact.all():
        return -np.inf, np.inf
    low, high = _by_noise(exact, miss)
    return float(low[0]), float(high[0])
