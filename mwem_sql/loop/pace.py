"""How fast a run spends: the shares of one round after the other. Decides on released values only."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from mwem_sql.kernel.split import Split

# Noise on distributions of single attributes, as a share of n, above which they take more than that, and below which less. Larger: more is left for how
# attributes go together. `python benchmarks/regret.py --data DIR --work DIR --half choose --parts tables`, `python benchmarks/adult.py --data DIR`.
CERTAIN: Final = 0.13
ENOUGH: Final = 0.03
# The least that they take, of what they take between these: their noise falls as epsilon grows, too.
LEAST_FIRST: Final = Fraction(1, 3)
# The most that they take, unless even all of the budget leaves so many times as much noise: then a round could only tell noise, and there is none.
MOST_FIRST: Final = Fraction(9, 10)
MUTE: Final = 3
# Rounds in a row that together are heard less than this many times as loud as their noise before steps grow: errors as large as the
# noise would be heard so loud.
PATIENCE: Final = 3
AS_LOUD: Final = math.sqrt(2)
# What a step is multiplied by to halve the noise, in epsilon and in rho.
_HALVED: Final = {"pure": 2, "zcdp": 4}


class Pace:
    """Hands out the shares of one round after the other, until all that a split keeps for rounds is spent.

    All rounds take the same, unless the split is growing and some in a row have heard more noise than errors: the next ones
    then take what halves it. This is the paper's doubling within one run, as AIM does it (McKenna and others 2022), but for
    one selection that went wrong. What would not make two more rounds goes to the last. Decides on released values only.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._step = split.select + split.measure
        self._selecting = split.select / self._step
        self._heard: list[float] = []
        self.left = split.rounds * self._step

    @property
    def rounds(self) -> int:
        """How many more rounds there will be if they all take what the next one takes."""
        return max(1, int(self.left / self._step)) if self.left else 0

    def take(self) -> tuple[Fraction, Fraction]:
        """The shares for selecting and measuring in the next round."""
        if self.left < 2 * self._step:
            self._step = self.left
        self.left -= self._step
        return self._selecting * self._step, (1 - self._selecting) * self._step

    def spare(self, first: Fraction, doubt: float) -> Fraction:
        """Take off the rounds what brings the noise of distributions, which would be `doubt` with a share of `first`, down to `CERTAIN`; up to `MOST_FIRST`, or all.

        Rounds tell how attributes go together. As long as noise hides how each is by itself, they tell noise. There are fewer of them then, not smaller ones.
        Where the noise would be less than `ENOUGH`, what brings it up to that is left to rounds, but for `LEAST_FIRST`.
        """
        power, whole = 1 if self._split.kind == "pure" else 2, self.left + first
        needed = first * max(Fraction(max(doubt / CERTAIN, min(doubt / ENOUGH, 1.0))) ** power, LEAST_FIRST)
        taken = min(needed, whole if needed > whole * MUTE**power else whole * MOST_FIRST) - first
        self.left -= taken
        return taken

    def take_all(self) -> Fraction:
        """What was left for rounds: there are none."""
        left, self.left = self.left, Fraction(0)
        return left

    def hear(self, distance: float, noise: float) -> None:
        """Take note of how far the last measurement was from what was known, and of the noise that it was expected to carry."""
        self._heard.append(distance / noise)
        if self._split.growing and len(self._heard) >= PATIENCE and sum(self._heard[-PATIENCE:]) < AS_LOUD * PATIENCE:
            self._step *= _HALVED[self._split.kind]
            self._heard.clear()
