"""The plan of a run: a list of what is measured, in order, and one rule for the shares. Public all of it.

Owns `Planned`, a line of the plan, and the one table of shares. Lines of one purpose divide what that purpose has in
proportion to (importance^2 x cells)^(1/3), which makes the sum of importance^2 x cells / share^2 smallest: the noise,
under pure epsilon, of all of them together. Under Gaussian noise it is the square root, for importance^2 x cells /
share. What is left is for rounds that select. Shares add up to the limit exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from mwem_sql.algebra.measurement import KINDS, Kind, Purpose
from mwem_sql.kernel.accountant import fault
from mwem_sql.kernel.budget import Budget, shown
from mwem_sql.kernel.composition import Composition, compose

How: TypeAlias = Literal["as it is", "refined", "by cells", "single cells", "start", "with prior"]
"""`refined`: by partitions that follow the data, for ranges; `by cells`: the same where only cuboids are asked for;
`single cells`: the last of these partitions alone. `start`: a histogram of the domain whose cells above noise keep
their count; `with prior`: one that is shrunk towards the even distribution, and is all there is."""

SHARES: Final[dict[str, Fraction]] = {
    "total": Fraction(1, 20), "glance": Fraction(1, 50), "histogram": Fraction(1, 4), "first": Fraction(3, 20),
    "detail": Fraction(1, 20), "certify": Fraction(1, 50), "units": Fraction(1, 50), "start": Fraction(1, 50),
    "select": Fraction(3, 20), "paper": Fraction(1, 2), "always": Fraction(1),
}  # fmt: skip
"""What is no matter of importance and cells: of the budget, but for the last three.

| share | of | larger | measured by |
|---|---|---|---|
| total | the budget | n is known better, all else worse | `python benchmarks/known_total.py` |
| glance | the budget, in the place of `total` where distributions come first | the same | the same |
| histogram | the budget | a better start, less for rounds | `python benchmarks/listing.py` |
| first | the budget: distributions of single attributes | less for how attributes go together | `benchmarks/adult.py` |
| detail | the budget: distributions inside classes | values nearer to the true ones, more noise | `ordinary.py` |
| certify | the budget | the error is known better, answers have more noise | `coverage.py --shares` |
| units | the budget; a unit counts once there, however many rows it has | the same for left-out rows | `coverage.py` |
| start | the budget: whether a start is better than none | a wrong one is noticed more often | `past.py` |
| select | a round | the worst query is selected more often, and known less well | `benchmarks/adult.py` |
| paper | a round of the paper's figure, whose theorem is about it | the same | the theorem |
| always | a round: what a query measured in any case takes on average | others are known worse | `always.py` |
"""
CERTAIN: Final = 0.13
"""Noise on distributions of single attributes, as a share of n, above which they take more than `first`.
Larger: more is left for how attributes go together. `python benchmarks/regret.py --half choose --parts tables`."""
MOST_FIRST: Final = Fraction(9, 10)
"""Of what they and the rounds have: the most that they take."""
HISTOGRAM_NOISE: Final = 1 / 3
"""Noise on the cells of a cuboid, added up, as a share of n: with less, a histogram of a small domain takes everything.
Larger: it does so where noise hides how attributes go together. `python benchmarks/regret.py --parts tables`."""
CELLS_GROWTH: Final = 4.0
"""Of the shares of a refinement's partitions where only cuboids are asked for, each over the one before, at most.
Larger: cells are known well, where to split is not. `python benchmarks/regret.py --parts tables`."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A line of the plan: what is measured, how much it matters, and its share."""

    purpose: Purpose
    number: int = -1
    """Of its query, among the problem's; -1 of what is no query: the certificate and units."""
    importance: float = 1.0
    cells: int = 1
    how: How = "as it is"
    steps: int = 1
    """Measurements at most: partitions of what is refined."""
    workload: int | None = None
    """The workload's distinct query that it is, if it is one that is always measured."""
    share: Fraction = Fraction(0)
    """In epsilon or rho; 0 until it is given one."""

    @property
    def is_refined(self) -> bool:
        return self.how in {"refined", "by cells", "single cells"}


def part_of(importance: float, cells: float, kind: Kind) -> Fraction:
    """The one rule: what a line takes, in proportion."""
    return Fraction(float((importance**2 * cells) ** (1 / 3 if kind == "pure" else 1 / 2)))


def divided(share: Fraction, parts: Sequence[float | Fraction]) -> list[Fraction]:
    """A share in proportion to some numbers, exactly."""
    exact = [Fraction(part) for part in parts]
    return [share * part / sum(exact) for part in exact]


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """All lines with their shares, and what is left for rounds.

    A round takes `step`, of which `selecting` is for the selection. What would not make two more rounds goes to the
    last.
    """

    composition: Composition
    lines: tuple[Planned, ...]
    left: Fraction
    """For all rounds together."""
    step: Fraction
    selecting: Fraction
    typical: Fraction
    """What measuring takes in a round or, without rounds, a partition of what is refined, on average."""
    rounds: int
    """That were planned: of selecting, or of refining."""
    by_n: bool = False
    """Whether distributions that come first take more where n turns out to be small."""
    instead: Planned | None = None
    """What takes the place of them and of rounds where n is large enough: one histogram of the whole domain. Its
    importance is the square root of the cells of the largest query that it is added up to."""

    def __post_init__(self) -> None:
        """Refuse shares that do not add up."""
        shares = [*(line.share for line in self.lines), self.left]
        whole = sum(shares, Fraction(0))
        if whole != self.limit or min(*shares, self.step) < 0:
            raise fault(f"the shares ({shown(whole)}) must add up to the limit ({shown(self.limit)})")

    @property
    def kind(self) -> Kind:
        return self.composition.kind

    @property
    def limit(self) -> Fraction:
        return self.composition.limit

    @property
    def selects(self) -> bool:
        """Whether there are rounds."""
        return self.step > 0

    @property
    def select(self) -> Fraction:
        """What selecting takes in a round."""
        return self.selecting * self.step

    @property
    def measure(self) -> Fraction:
        """What measuring takes in a round."""
        return self.step - self.select

    def of(self, *purposes: Purpose) -> list[Planned]:
        """The lines with one of these purposes."""
        return [line for line in self.lines if line.purpose in purposes]

    def share(self, *purposes: Purpose) -> Fraction:
        """What they take together."""
        return sum((line.share for line in self.of(*purposes)), Fraction(0))

    def steps(self) -> Iterator[tuple[Fraction, Fraction, int]]:
        """The shares of one round after the other, for selecting and measuring, and how many rounds are then left."""
        left = self.left
        while left:
            step = self.step if left >= 2 * self.step else left
            left -= step
            yield self.selecting * step, (1 - self.selecting) * step, int(left / self.step)

    @property
    def first_noise(self) -> float:
        """Of distributions that come first: the noise on all cells of one, added up, in rows, on average."""
        first = self.of("first")
        return sum(line.cells * self.composition.scale(line.share) for line in first) / len(first)

    @property
    def histogram_from(self) -> float:
        """The n from which on one histogram takes everything: its noise, added up to a cuboid, is small beside n."""
        if self.instead is None:
            return math.inf
        noise = self.composition.scale(self.share("first") + self.left)
        return noise * self.instead.importance * math.sqrt(self.instead.cells) / HISTOGRAM_NOISE

    def with_histogram(self) -> Schedule:
        """One histogram of the whole domain in the place of what comes first and of rounds."""
        assert self.instead is not None
        histogram = replace(self.instead, share=self.share("first", "start") + self.left)
        others = [line for line in self.lines if line.purpose not in {"first", "start"}]
        place = sum(line.purpose == "total" for line in others)
        return replace(self, lines=(*others[:place], histogram, *others[place:]), left=Fraction(0), instead=None)

    def with_more_first(self, n: float) -> Schedule:
        """With as much for what comes first as brings its noise down to `CERTAIN` of n: there are fewer rounds then.

        Rounds measure how attributes go together. As long as noise hides how each is by itself, they measure noise.
        """
        first = self.share("first")
        excess = max(self.first_noise / n / CERTAIN, 1.0)
        wanted = min(first * Fraction(excess) ** (2 if self.kind == "zcdp" else 1), (first + self.left) * MOST_FIRST)
        lines = [
            replace(line, share=line.share / first * wanted) if line.purpose == "first" else line for line in self.lines
        ]
        return replace(self, lines=tuple(lines), left=self.left + first - wanted)


def plans(schedule: Schedule, n: float) -> Iterator[Schedule]:
    """The plans for a table of n rows, in the order of preference."""
    if n >= schedule.histogram_from:
        yield schedule.with_histogram()
    if schedule.by_n and schedule.of("first"):
        yield schedule.with_more_first(n)
    yield schedule


def best(schedule: Schedule, n: float) -> Schedule:
    """The plan that is taken once n is known: the first. Predicted errors would be compared here."""
    return next(plans(schedule, n))


def make_schedule(
    budget: Budget,
    lines: Sequence[Planned],
    rounds: int | None = None,
    *,
    selecting: Fraction = SHARES["paper"],
    shares: Mapping[str, Fraction] | None = None,
    by_n: bool = False,
    instead: Planned | None = None,
    sensitivity: int = 1,
    counted_in_rho: bool = False,
) -> Schedule:
    """Give every line its share, and what is left to so many rounds.

    Without rounds, what no line takes by the table (or by `shares`, in its place) is for lines of the purposes `round`
    and `always`. Among rounds, each of the latter has what a round has, on average.
    """
    table = SHARES | dict(shares or {})
    fractions = {kind: _fractions(lines, rounds, table, kind) for kind in KINDS.values()}
    typical = {kind: _typical(lines, *fractions[kind], rounds, selecting) for kind in KINDS.values()}
    composition = compose(budget, typical, sensitivity=sensitivity, counted_in_rho=counted_in_rho)
    each, left = fractions[composition.kind]
    limit = composition.limit
    return Schedule(
        composition=composition,
        lines=tuple(replace(line, share=share * limit) for line, share in zip(lines, each, strict=True)),
        left=left * limit,
        step=left * limit / (rounds or 1),
        selecting=selecting if rounds is not None else Fraction(0),
        typical=typical[composition.kind] * limit,
        rounds=rounds or _refinements(lines),
        by_n=by_n,
        instead=instead,
    )


def _refinements(lines: Sequence[Planned]) -> int:
    return max(1, sum(line.steps for line in lines if line.purpose == "round"))


def _typical(
    lines: Sequence[Planned], each: Sequence[Fraction], left: Fraction, rounds: int | None, selecting: Fraction
) -> Fraction:
    """What measuring takes in a round or, without rounds, a partition of what is refined, on average."""
    if rounds is not None:
        return (1 - selecting) * left / rounds
    refined = sum((share for line, share in zip(lines, each, strict=True) if line.purpose == "round"), Fraction(0))
    always = sum((share for line, share in zip(lines, each, strict=True) if line.purpose == "always"), Fraction(0))
    return refined / _refinements(lines) or always


def _fractions(
    lines: Sequence[Planned], rounds: int | None, table: Mapping[str, Fraction], kind: Kind
) -> tuple[list[Fraction], Fraction]:
    """What each line takes of the whole, and what is left for rounds."""
    purposes = {line.purpose for line in lines}
    has: dict[str, Fraction] = {purpose: table[purpose] for purpose in purposes - {"round", "always"}}
    if "first" in has and "total" in has:
        has["total"] = table["glance"]
    left = 1 - sum(has.values(), Fraction(0))
    keys: list[str] = [line.purpose for line in lines]
    if rounds is None:
        keys = ["rest" if key in {"round", "always"} else key for key in keys]
        has["rest"], left = left, Fraction(0)
    elif "always" in purposes:
        taken = table["always"] * keys.count("always")
        has["always"] = left * taken / (taken + rounds)
        left -= has["always"]
    parts = [part_of(line.importance, line.cells, kind) for line in lines]
    sums = {key: sum(part for other, part in zip(keys, parts, strict=True) if other == key) for key in set(keys)}
    return [has[key] * part / sums[key] for key, part in zip(keys, parts, strict=True)], left
