"""Draws: noise and private selection, by OpenDP's samplers or by a seeded stand-in for experiments.

Owns the two ways in which anything leaves the kernel. It must not know about queries, rounds or budgets:
what a scale costs is in kernel/scales.py.
"""

from __future__ import annotations

import itertools
import math
from typing import ClassVar, Final, Protocol

import numpy as np

from mwem_sql.algebra.arrays import Integers
from mwem_sql.kernel.exponential import Scores
from mwem_sql.kernel.scales import SATURATION, Kind, make_noise, make_selection, make_threshold

# The seeded samplers count in int64; OpenDP's count in big integers and need no such bound.
_SEEDED_SCALE: Final = 1e17
# Cells that get noise in one call into OpenDP: it takes ten microseconds for each, and no call can be stopped.
_CHUNK_CELLS: Final = 2**14


class Noise(Protocol):
    """Where randomness comes from. Scores and values are int64; `scale` is in their unit."""

    @property
    def private(self) -> bool:
        """False if anyone who knows the seed can take the noise off again."""

    def select(self, scores: Integers, scale: float, kind: Kind, /) -> int:
        """Give the position of a high score."""

    def select_many(self, scores: Scores, scale: float, /) -> int:
        """Give the position of a high score that is open, each with probability in proportion to exp(score / scale)."""

    def add_noise(self, values: Integers, scale: float, kind: Kind, /) -> Integers:
        """Give the values, each with independent noise, saturated."""

    def above(self, values: Integers, scale: float, least: int, kind: Kind, /) -> dict[int, int]:
        """Give the positions of values that with independent noise are `least` or more, and those noisy values."""


class OpenDPNoise:
    """OpenDP's samplers: exact arithmetic, the operating system's randomness, no seed.

    Privacy:
        The costs are those of `selection_scale` and `noise_scale`. Inputs are saturated first, which moves neighbouring
        inputs no further apart, so that no input makes OpenDP raise. The running time of a selection does depend
        on the scores: whoever can time single rounds is outside the guarantee.
    """

    private: ClassVar[bool] = True

    def select(self, scores: Integers, scale: float, kind: Kind) -> int:
        """Select by permute-and-flip (pure) or by Gumbel noisy max (zcdp)."""
        return int(make_selection(scale, kind)(saturate(scores)))

    def select_many(self, scores: Scores, scale: float) -> int:
        """Select by the exponential mechanism."""
        return scores.draw(scale)

    def add_noise(self, values: Integers, scale: float, kind: Kind) -> Integers:
        """Add discrete Laplace (pure) or discrete Gaussian (zcdp) noise."""
        noise = make_noise(scale, kind)
        parts = [noise(saturate(values[start : start + _CHUNK_CELLS])) for start in range(0, values.size, _CHUNK_CELLS)]
        return np.array(list(itertools.chain.from_iterable(parts)), dtype=np.int64)

    def above(self, values: Integers, scale: float, least: int, kind: Kind) -> dict[int, int]:
        """Add discrete Laplace (pure) or discrete Gaussian (zcdp) noise, and leave out what is below."""
        threshold, bounded = make_threshold(scale, least, kind), saturate(values).tolist()
        above: dict[int, int] = {}
        for start in range(0, len(bounded), _CHUNK_CELLS):
            above |= threshold(dict(enumerate(bounded[start : start + _CHUNK_CELLS], start)))
        return above


class SeededNoise:
    """The same distributions from a seeded numpy generator, for experiments that must repeat.

    Privacy:
        None: the seed takes the noise off, and floating-point samplers leak low bits. `private` is false, and a release
        made with it says so.
    """

    private: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        """Start the generator; the same seed and the same calls give the same draws."""
        self._generator = np.random.default_rng(seed)

    def select(self, scores: Integers, scale: float, kind: Kind) -> int:
        """Select by permute-and-flip (pure) or by Gumbel noisy max (zcdp)."""
        bounded = saturate(scores)
        logits = (bounded - bounded.max()) / scale
        if kind == "zcdp":
            return int(np.argmax(logits + self._generator.gumbel(size=logits.size)))
        # The flips do not depend on the order: the first head of a random order is a uniform choice of the heads.
        heads = np.flatnonzero(self._generator.random(logits.size) < np.exp(logits))
        return int(self._generator.choice(heads))

    def select_many(self, scores: Scores, scale: float) -> int:
        """Select by the exponential mechanism: Gumbel noise on each."""
        places = np.flatnonzero(scores.is_open)
        return int(places[self.select(scores.values[places], scale, "zcdp")])

    def add_noise(self, values: Integers, scale: float, kind: Kind) -> Integers:
        """Add discrete Laplace (pure) or discrete Gaussian (zcdp) noise."""
        sample = self._laplace if kind == "pure" else self._gaussian
        return saturate(values) + saturate(sample(values.size, min(scale, _SEEDED_SCALE)))

    def above(self, values: Integers, scale: float, least: int, kind: Kind) -> dict[int, int]:
        """Add discrete Laplace (pure) or discrete Gaussian (zcdp) noise, and leave out what is below."""
        noisy = self.add_noise(values, scale, kind)
        return {place: int(noisy[place]) for place in np.flatnonzero(noisy >= least).tolist()}

    def _laplace(self, size: int, scale: float) -> Integers:
        success = -math.expm1(-1 / scale)
        return self._generator.geometric(success, size) - self._generator.geometric(success, size)

    def _gaussian(self, size: int, sigma: float) -> Integers:
        # Canonne, Kamath and Steinke (2020), algorithm 3: discrete Laplace proposals, accepted with a Gaussian ratio.
        width = float(math.floor(sigma) + 1)
        sample = np.empty(0, dtype=np.int64)
        while sample.size < size:
            proposal = self._laplace(2 * (size - sample.size) + 16, width)
            ratio = np.exp(-((np.abs(proposal) / sigma - sigma / width) ** 2) / 2)
            sample = np.concatenate([sample, proposal[self._generator.random(proposal.size) < ratio]])
        return sample[:size]


def saturate(values: Integers) -> Integers:
    """Copy `values` into the int64 range whose differences are int64 too.

    A copy also because OpenDP refuses read-only arrays, and would do so after the debit.

    Privacy:
        Clipping is a contraction: neighbouring vectors come no further apart in any cell.
    """
    return np.clip(values, -SATURATION, SATURATION)
