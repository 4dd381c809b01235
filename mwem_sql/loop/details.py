"""The own distribution of an attribute inside the classes that the workload tells apart, by refinement.

Sees released values only, but for the kernel's measure. Inside a class an attribute is independent of all others in the
model, so one distribution for each attribute is enough, beside the state: what rows of a class are given values by. It
moves no weight from class to class, and no answer to the workload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from mwem_sql.algebra.arrays import Floats, Labels
from mwem_sql.algebra.measurement import Measurement, NoisyValues
from mwem_sql.domains.detail import Detail
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.loop.refinement import FLOOR, Leaves, Refinement, partitions_of

SIGNIFICANT = 3.0
"""Counts of values or of NULLs below this many standard deviations are treated as zero. Smaller: values far from all
true ones, and NULLs, out of noise; larger: few rows far from all others, and few NULLs, are lost (`python
benchmarks/ordinary.py`)."""
FEWEST = 8
"""Parts of an attribute, or as many as it has. Otherwise there are as many as an even distribution would fill with one
standard deviation of noise each: with more, noise is spread over the whole domain; with fewer, values are less close
than noise allows."""
LEAST, LEAST_OF_GROUP = 1e-200, 1e-250
"""The least base of a cell, of which none is expected, and the least rows of a group that are divided by: neither
quotient overflows."""


@dataclass(frozen=True, eq=False)
class DetailRows:
    """Rows of each cell of a detail. No measurement distinguishes cells of one label."""

    labels: Labels
    rows: Floats


def refine(
    kernel: Kernel,
    q: int,
    share: Fraction,
    detail: Detail,
    *,
    expected: Floats,
    groups: Labels,
    noise: Callable[[Fraction], float],
) -> tuple[list[Measurement], DetailRows]:
    """Measure a detail, which is query q of the kernel, by partitions that follow the data.

    NULL is a part of each of them: it is no neighbour of any value. `expected` is what each class has by all that was
    measured before: the base that cells share by size. The state holds the classes in `groups`: what is told here stays
    inside one. `noise` is the variance of a measurement.

    Privacy:
        All that decides which parts there are is public or released: the expected, and what was measured of the detail
        before.
    """
    n, cells = float(expected.sum()), detail.count - int(detail.has_null)
    stretches = min(cells, max(FEWEST, int(n / sqrt(noise(share)))))
    # Of each cell its stretch: what is refined is a distribution over stretches.
    stretch = np.arange(cells) * stretches // cells
    sizes, parents = detail.cells.sizes[:cells], detail.parents[:cells]
    base = np.maximum(expected[parents] * sizes / np.bincount(parents, sizes)[parents], LEAST)
    refinement = Refinement((stretches,), np.bincount(stretch, base).astype(np.float64, copy=False))
    taken = list[tuple[Labels, NoisyValues]]()
    measurements = list[Measurement]()

    def measure(labels: Labels, part: Fraction) -> tuple[Floats, float]:
        parts = labels[stretch]
        if detail.has_null:
            parts = np.append(parts, labels.max() + 1).astype(np.int32)
        drawn = kernel.measure(q, part, parts)
        taken.append((labels, drawn))
        measurements.append(Measurement.of(drawn, detail.query, "detail", q, parts))
        return drawn.values[: int(labels.max()) + 1].astype(np.float64), drawn.variance

    refinement.measure(share, [1.0] * partitions_of((stretches,)), measure, noise)
    group_of, due = groups[detail.parents], np.bincount(groups, expected)
    nulls = min(_nulls([drawn for _, drawn in taken]), due[group_of[-1]]) if detail.has_null else 0.0
    leaves = refinement.leaves(max(n - nulls, 1.0))
    values = _without_noise(leaves, taken, is_flat=partitions_of((stretches,)) == 1)
    labels = leaves.labels[stretch]
    rows = (values / np.bincount(labels, base))[labels] * base
    # A group has what the state says: of it, the NULLs are as many as were measured.
    due[group_of[-1]] -= nulls
    rows *= (
        np.maximum(due, FLOOR) / np.maximum(np.bincount(group_of[:cells], rows, minlength=len(due)), LEAST_OF_GROUP)
    )[group_of[:cells]]
    if not detail.has_null:
        return measurements, DetailRows(labels, rows)
    return measurements, DetailRows(np.append(labels, labels.max() + 1), np.append(rows, nulls))


def _nulls(taken: Sequence[NoisyValues]) -> float:
    """The number of NULLs by all measurements; 0 if it is no more than noise explains."""
    precisions = np.array([1 / measured.variance for measured in taken])
    nulls = float(np.average([measured.values[-1] for measured in taken], weights=precisions))
    return nulls if nulls > SIGNIFICANT / np.sqrt(precisions.sum()) else 0.0


def _without_noise(leaves: Leaves, taken: Sequence[tuple[Labels, NoisyValues]], *, is_flat: bool) -> Floats:
    """The leaves' rows, and none where neighbours that were never split have, together, no more than noise explains.

    An estimate is not negative, so noise adds up: over an empty half of a wide domain, to values far from all true
    ones. Of leaves at the finest level, which have few rows each because they are narrow, that would be wrong; unless
    no other was measured.
    """
    starts, lengths = np.unique(leaves.labels, return_index=True)[1], np.bincount(leaves.labels)
    sums, precisions = np.zeros(len(starts)), np.zeros(len(starts))
    for labels, measured in taken:
        # What was a part then, too.
        same = np.bincount(labels)[labels[starts]] == lengths
        sums += same * measured.values[labels[starts]] / measured.variance
        precisions += same / measured.variance
    estimates, variances = sums / precisions, 1 / precisions
    is_small = (estimates < SIGNIFICANT * np.sqrt(variances)) & (is_flat | (lengths > 1))
    order, values = np.argsort(starts), leaves.values.copy()
    ends = np.flatnonzero(np.diff(is_small[order])) + 1
    for run in np.split(order, ends):
        if is_small[run[0]] and estimates[run].sum() < SIGNIFICANT * np.sqrt(variances[run].sum()):
            values[run] = FLOOR * np.sqrt(variances[run])
    return np.asarray(values * (leaves.values.sum() / values.sum()))
