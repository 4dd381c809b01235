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

import numpy as np

from mwem_sql.algebra.measurement import KINDS, Kind, Purpose
from mwem_sql.kernel.accountant import fault
from mwem_sql.kernel.budget import Budget, shown
from mwem_sql.kernel.composition import Composition, compositions
from mwem_sql.kernel.scales import pure_rho

How: TypeAlias = Literal["as it is", "refined", "by cells", "single cells", "start", "with prior"]
"""`refined`: by partitions that follow the data, for ranges; `by cells`: the same where only cuboids are asked for;
`single cells`: the last of these partitions alone. `start`: a histogram of the domain whose cells above noise keep
their count; `with prior`: one that is shrunk towards the even distribution, and is all there is."""

FIGURE: Final = Fraction(1, 50)
"""Of the budget: a figure by itself, which is no answer. Larger: it is known better, answers have more noise.
`python benchmarks/coverage.py --shares`, `python benchmarks/past.py`"""
SHARES: Final[dict[str, Fraction]] = {
    "total": FIGURE, "certify": FIGURE, "units": FIGURE, "start": FIGURE,
    "histogram": Fraction(1, 4), "detail": Fraction(1, 20),
    "select": Fraction(3, 20), "paper": Fraction(1, 2), "always": Fraction(1),
}  # fmt: skip
"""What is no matter of importance and cells: of the budget, but for the last three.

| share | of | larger | measured by |
|---|---|---|---|
| total | the budget | n is known better, all else worse | `python benchmarks/known_total.py` |
| histogram | the budget | a better start, less for rounds | `python benchmarks/listing.py` |
| detail | the budget: distributions inside classes | values nearer to the true ones, more noise | `ordinary.py` |
| certify | the budget | the error is known better, answers have more noise | `coverage.py --shares` |
| units | the budget; a unit counts once there, however many rows it has | the same for left-out rows | `coverage.py` |
| start | the budget: whether a start is better than none | a wrong one is noticed more often | `past.py` |
| select | a round | the worst query is selected more often, and known less well | `benchmarks/adult.py` |
| paper | a round of the paper's figure, whose theorem is about it | the same | the theorem |
| always | a round: what a query measured in any case takes on average | others are known worse | `always.py` |
"""
SIGNAL: Final = 0.15
"""What distributions of single attributes leave to learn: the error of a question, as a share of n. Larger: more
rounds, each with more noise. `python benchmarks/floors.py`."""
OCCUPIED: Final = 0.75
"""The power of a question's cells that keep their noise: of many cells, most are empty, and stay so. Larger: fewer
rounds where questions have many cells. `python benchmarks/floors.py`."""


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


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """What may be measured once n is known, in the place of distributions of single attributes and of rounds.

    With the numbers of the workload that an error is predicted from.
    """

    questions: int
    attributes: int
    cells: float
    """Of what a round measures that keep their noise: the geometric mean. Of a cuboid, one of its pairs."""
    marginals: float = 1.0
    """What a round measures has the attributes of a question once in so many."""
    at_once: tuple[Planned, ...] = ()
    """All questions as they are; none where the model has no room for them."""
    histogram: Planned | None = None
    """Of the whole domain. Its importance is the square root of the cells of the largest query that it is added up
    to."""


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
    alternatives: Alternatives | None = None
    """If n decides: as many rounds as there is to learn, or something else in their place."""
    in_rho: Schedule | None = None
    """The same in rho, with Gaussian noise, if n decides that, too. What the total takes is the same."""

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

    def with_lines(self, lines: Sequence[Planned]) -> Schedule:
        """These lines in the place of all others that tell of the queries, and of rounds."""
        share = self.share("first", "always", "start") + self.left
        shares = divided(share, [part_of(line.importance, line.cells, self.kind) for line in lines])
        others = [line for line in self.lines if line.purpose not in {"first", "always", "start"}]
        place = sum(line.purpose == "total" for line in others)
        planned = [replace(line, share=share) for line, share in zip(lines, shares, strict=True)]
        return replace(
            self, lines=(*others[:place], *planned, *others[place:]), left=Fraction(0), alternatives=None, in_rho=None
        )

    def with_first(self, share: Fraction) -> Schedule:
        """With so much for what comes first; rounds have the rest."""
        first = self.share("first")
        lines = [
            replace(line, share=line.share / first * share) if line.purpose == "first" else line for line in self.lines
        ]
        return replace(self, lines=tuple(lines), left=self.left + first - share)

    def with_rounds(self, rounds: int) -> Schedule:
        """With so many rounds, all alike; without any, what comes first has everything."""
        first = self.share("first") + (Fraction(0) if rounds else self.left)
        planned = self.with_first(first) if self.of("first") else self
        return replace(planned, step=planned.left / max(1, rounds), rounds=rounds, alternatives=None, in_rho=None)

    def noise(self, share: Fraction) -> float:
        """The noise that a share leaves on a cell of a count: its absolute value, on average."""
        return self.composition.mean_noise(share)


def occupied(cells: float) -> float:
    """Of so many cells, those that keep their noise."""
    return float(cells**OCCUPIED)


def plans(schedule: Schedule, n: float) -> Iterator[tuple[float, Schedule]]:
    """The plans for a table of n rows, each after its predicted error.

    That is the mean over questions of the sum over their cells, as a share of n, from public numbers and n.
    """
    given = schedule.alternatives
    if given is None:
        yield 0.0, schedule
        return
    if schedule.in_rho is not None:
        yield from plans(schedule.in_rho, n)
    if given.at_once:
        at_once = schedule.with_lines(given.at_once)
        noise = sum(line.cells * schedule.noise(line.share) for line in at_once.of("round", "always"))
        yield noise / len(given.at_once) / n, at_once
    if given.histogram is not None:
        histogram = schedule.with_lines([given.histogram])
        (line,) = histogram.of("round")
        yield schedule.noise(line.share) * line.importance * math.sqrt(line.cells) / n, histogram
    error, rounds = _with_rounds(schedule, given, n)
    yield (given.marginals * error + SIGNAL**2 if given.marginals > 1 else error), rounds


def _with_rounds(schedule: Schedule, given: Alternatives, n: float) -> tuple[float, Schedule]:
    """As many rounds as make the predicted error smallest, and as much for what comes first.

    A round tells one part in as many as there are attributes of what is left to learn. By then so many rounds as there
    are attributes have reached every question, and each has their noise.
    """
    has_first, power = bool(schedule.of("first")), schedule.composition.power / 2
    whole = schedule.share("first") + schedule.left
    rounds = np.arange(0 if has_first else 1, given.questions + 1)
    # The noise of what comes first, and of rounds, if either had everything. Noise falls with this power of a share.
    alone = schedule.with_rounds(0).of("first")
    first = sum(line.importance**2 * occupied(line.cells) * schedule.noise(line.share) for line in alone)
    one = given.cells * schedule.noise((1 - schedule.selecting) * whole)
    later = rounds / given.attributes * one * rounds**power
    # Shares that make the sum of both smallest are in proportion to these.
    parts = (first / n) ** (1 / (1 + power)), (later / n) ** (1 / (1 + power))
    errors = SIGNAL * np.exp(-rounds / given.attributes) + (parts[0] + parts[1]) ** (1 + power)
    fewest = int(errors.argmin())
    rest = schedule.with_first(whole * Fraction(parts[0] / (parts[0] + parts[1][fewest]))) if has_first else schedule
    return float(errors[fewest]), rest.with_rounds(int(rounds[fewest]))


def best(schedule: Schedule, n: float) -> Schedule:
    """The plan with the smallest predicted error, once n is known; the first of equals."""
    return min(plans(schedule, n), key=lambda each: each[0])[1]


def make_schedule(
    budget: Budget,
    lines: Sequence[Planned],
    rounds: int | None = None,
    *,
    selecting: Fraction = SHARES["paper"],
    shares: Mapping[str, Fraction] | None = None,
    alternatives: Alternatives | None = None,
    sensitivity: int = 1,
    counted_in_rho: bool = False,
    part: Fraction = Fraction(1),
) -> Schedule:
    """Give every line its share, and what is left to so many rounds.

    Without rounds, what no line takes by the table (or by `shares`, in its place) is for lines of the purposes `round`
    and `always`. Among rounds, each of the latter has what a round has, on average. Where n decides, it also decides
    between epsilon and rho; otherwise the noise on a typical cell does. `counted_in_rho`: the table's cap adds up rho,
    in which Laplace noise would cost far more; then rho is taken. `part`: of the budget, where others have the rest.
    """
    table = SHARES | dict(shares or {})
    fractions = {kind: _fractions(lines, rounds, table, kind) for kind in KINDS.values()}
    typical = {kind: _typical(lines, *fractions[kind], rounds, selecting) for kind in KINDS.values()}
    kinds = compositions(budget, typical, sensitivity=sensitivity, part=part)

    def of(kind: Kind, each: Sequence[Fraction], left: Fraction) -> Schedule:
        limit = kinds[kind].limit
        return Schedule(
            composition=kinds[kind],
            lines=tuple(replace(line, share=share * limit) for line, share in zip(lines, each, strict=True)),
            left=left * limit,
            step=left * limit / (rounds or 1),
            selecting=selecting if rounds is not None else Fraction(0),
            typical=typical[kind] * limit,
            rounds=rounds or _refinements(lines),
            alternatives=alternatives,
        )

    if "zcdp" in kinds and counted_in_rho:
        return of("zcdp", *fractions["zcdp"])
    if "zcdp" in kinds and alternatives is not None and any(line.purpose == "first" for line in lines):
        # The total has Laplace noise of the same epsilon in either.
        total = pure_rho(table["total"] * budget.epsilon) / kinds["zcdp"].limit
        in_rho = of("zcdp", *_fractions(lines, rounds, table | {"total": total}, "zcdp"))
        return replace(of("pure", *fractions["pure"]), in_rho=in_rho)
    kind = kinds["pure"].predicted.better
    return of(kind, *fractions[kind])


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
    has: dict[str, Fraction] = {purpose: table[purpose] for purpose in purposes - {"round", "always", "first"}}
    left = 1 - sum(has.values(), Fraction(0))
    keys: list[str] = [line.purpose for line in lines]
    if rounds is None:
        keys = ["rest" if key in {"round", "always"} else key for key in keys]
        has["rest"], left = left, Fraction(0)
    elif "always" in purposes:
        taken = table["always"] * keys.count("always")
        has["always"] = left * taken / (taken + rounds)
        left -= has["always"]
    if "first" in purposes:
        # Half of what is left, until n decides.
        has["first"] = left = left / 2
    parts = [part_of(line.importance, line.cells, kind) for line in lines]
    sums = {key: sum(part for other, part in zip(keys, parts, strict=True) if other == key) for key in set(keys)}
    return [has[key] * part / sums[key] for key, part in zip(keys, parts, strict=True)], left
