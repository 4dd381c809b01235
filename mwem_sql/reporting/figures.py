"""What was measured for a release, in words and numbers.

By purpose, and how well the released state fits each measurement. Sees stored, released values only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import log, pi, sqrt

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

PURPOSES = {
    "total": "how many rows there are", "histogram": "a histogram to start from", "first": "each attribute by itself",
    "round": "what rounds measured", "again": "what was measured again",
    "detail": "values inside the workload's classes", "always": "what the workload always wants",
}  # fmt: skip
"""In the reader's words. A purpose that is not here is shown by its own name."""


@dataclass(frozen=True)
class PurposeNoise:
    """All measurements of one purpose: how many, their cells, and by how many rows a cell is off by noise.

    On average, and 95 times in 100 at most.
    """

    purpose: str
    count: int
    cells: int
    typical: float
    most: float


def kinds(measurements: Sequence[Measurement]) -> list[PurposeNoise]:
    """By purpose, in the order in which they were measured first. The noise is the mean over them."""
    grouped: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        grouped.setdefault(measurement.purpose, []).append(measurement)
    out = []
    for purpose, several in grouped.items():
        most = [each.scale * each.query.unit * _DEVIATIONS[each.kind][1] for each in several]
        cells = sum(len(each.values) for each in several)
        words = PURPOSES.get(purpose, purpose)
        out.append(
            PurposeNoise(
                words, len(several), cells, float(np.mean([typical(each) for each in several])), float(np.mean(most))
            )
        )
    return out


_DEVIATIONS = {"pure": (1.0, log(20)), "zcdp": (sqrt(2 / pi), 1.96)}
"""Of noise with scale 1: its mean absolute value, and what it exceeds 5 times in 100."""


def typical(measurement: Measurement) -> float:
    """By how much noise puts a value off on average, in rows or in the measure's own unit."""
    return float(measurement.scale * measurement.query.unit * _DEVIATIONS[measurement.kind][0])


def misfit(state: State | Mixture, measurement: Measurement) -> float:
    """How far the state is from what was measured, over what noise explains: about 1 or less is a fit."""
    query = measurement.query
    off = measurement.values - query.answer(state.marginal(query.attributes).astype(np.float64)).ravel()
    return float(np.sqrt(np.mean(off**2) / measurement.variance))


def of_classes(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The measurements about the state's classes: not those of values inside them."""
    return [each for each in measurements if each.purpose != "detail"]


def pairs(measurements: Sequence[Measurement], most: int) -> list[tuple[str, str]]:
    """Attributes that were measured together, the most often first."""
    counted = Counter(chain.from_iterable(combinations(each.query.attributes, 2) for each in of_classes(measurements)))
    return sorted(counted, key=lambda pair: -counted[pair])[:most]


def fits(state: State | Mixture, measurements: Sequence[Measurement]) -> tuple[list[str], Floats]:
    """The names of what was measured, and how well the state fits each."""
    several = of_classes(measurements)
    return [each.name for each in several], np.array([misfit(state, each) for each in several])
