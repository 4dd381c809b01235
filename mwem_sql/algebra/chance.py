"""The chance to fail: an object that is debited, as a budget is, and the table of what takes which part of it.

A bound on a probability, no more: an interval is made of statements, each of which may fail, and it holds if all of
them do. So the chance that it fails is at most the sum of theirs (the union bound), and that sum is what is debited
here. The loop takes of it for what selections say, `judge` for intervals, `releases` for quantiles.
"""

from __future__ import annotations

from typing import Final

SUMMARY: Final = 0.05
"""The chance that a figure of the summary is further off than the summary says. Smaller: it says more."""
SELECTIONS: Final = 0.004
"""The chance that any bound of a release which follows from its selections fails, over all rounds. Smaller: these
bounds grow by its logarithm."""
JOINED: Final = 0.75
"""Part for the noise of an estimate from several measurements; the rest is for their choice, which followed from noise.
Larger: narrower, and intervals of small tables fail too often (94.5 of 100 held at 0.9, docs/intervals.md; `python
benchmarks/coverage.py`)."""
MEASURED_SUM: Final = 0.75
"""Part for the noise of a sum that was measured; the rest is for its bounds, which may say more. Larger: sums of
columns with a long tail are wider."""
BOUNDS: Final = 0.1
"""Part for the bounds of a cell that was not measured, where the certificate or selections say something of it, too.
Larger: what these say is wider."""
CONDITION: Final = 1 / 16
"""Part of `BOUNDS` for the number of rows, and for each condition by itself: worked out once, at one chance for all
intervals that use them. A count that was measured takes it twice: for the rows, and for what the count is part of."""
REACH: Final = 0.1
"""Part for the number of records in each bin of a sum over bins: how far these may be from the bins' means. Larger: the
sum itself is wider."""
WINDOW: Final = 0.25
"""Part of a quantile for counts at the ends of stretches; the rest is for their differences. Larger: quantiles of
measured columns are wider."""
_ROUNDING: Final = 1e-9
"""Relative: parts that add up to the whole may exceed it by what floats round."""


class Chance:
    """What is left of the chance that a statement fails.

    Parts are of the whole; what is more than is left is refused.
    """

    def __init__(self, whole: float) -> None:
        self.whole = self.left = whole
        self.taken: list[tuple[str, float]] = []

    def allows(self, part: float) -> bool:
        """Whether so much of the whole is left."""
        return part * self.whole <= self.left + _ROUNDING * self.whole

    def take(self, what: str, part: float) -> float:
        """Debit a part of the whole for what may fail; the chance that it then may fail with."""
        if not self.allows(part):
            raise ValueError(f"{what} takes {part:g} of a chance of which {self.left / self.whole:g} is left")
        taken = part * self.whole
        self.left = max(0.0, self.left - taken)
        self.taken.append((what, taken))
        return taken

    def part(self, what: str, part: float) -> Chance:
        """The same as a chance that others take of."""
        return Chance(self.take(what, part))

    def rest(self, what: str) -> float:
        """Debit all that is left."""
        return self.take(what, self.left / self.whole)

    def remaining(self, what: str) -> Chance:
        """The same as a chance that others take of."""
        return Chance(self.rest(what))
