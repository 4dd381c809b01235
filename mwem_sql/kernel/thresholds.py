"""Partition selection: which values of a column enough units have to be published, by noisy counts above a threshold.

Owns the calibration of that threshold and its way out of the private side, `frequent_values`. It must not read a table.

Neighbouring tables differ by one unit (a row, where none is named), which has at most `values` values of a column and
adds 1 to the count of each. A value that the neighbour has not at all is published with a chance of at most `failure`:
no epsilon covers that, so that it is a part of delta (Korolova and others 2009; Rogers 2023 for the proof of OpenDP's).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa

from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.scales import Kind, least_threshold, pure_rho, threshold_scale, zcdp_rho

EPSILON_SHARE: Final = Fraction(1, 10)
"""Of a request's epsilon, for the values of all its columns. More: rarer values are found, and all answers have more
noise."""
DELTA_SHARE: Final = Fraction(1, 2)
"""Of a request's delta. The threshold falls with its logarithm only, and so does the noise of what it leaves."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """How values are found: noise of a kind and scale on the number of units that have each, and the least number.

    `limit` is what all columns take together, in epsilon for the pure kind and in rho for zcdp, within `budget`.
    `failure` is the part of the budget's delta with which a value of a single unit may be published; what is left of
    delta converts rho. Public all of it.
    """

    kind: Kind
    limit: Fraction
    budget: Budget
    failure: Fraction
    columns: int
    scale: float
    least: int
    """The noisy number of units from which on a value is published."""
    cost: float
    """What OpenDP's map says of one column: never above its share of the limit."""

    @property
    def rho(self) -> Fraction:
        return self.limit if self.kind == "zcdp" else pure_rho(self.limit)

    @property
    def share(self) -> Fraction:
        """Of one column."""
        return self.limit / self.columns

    def accountant(self) -> Accountant:
        """Open the account of all columns."""
        return Accountant(self.kind, self.limit, Budget(self.budget.epsilon, self.budget.delta - self.failure))


def discovery_budget(budget: Budget) -> Budget:
    """The part of a request's budget that finds values. Epsilons and deltas of this part and of the rest add up."""
    return Budget(EPSILON_SHARE * budget.epsilon, DELTA_SHARE * budget.delta)


def find_threshold(budget: Budget, columns: int, values: int) -> Threshold:
    """The smaller of the thresholds that Laplace and Gaussian noise need; public numbers decide.

    Gaussian noise grows with the root of the number of counts that a unit is in, Laplace noise with the number.
    """
    pure, zcdp = _threshold("pure", budget, columns, values), _threshold("zcdp", budget, columns, values)
    assert pure is not None  # an epsilon is above 0
    return pure if zcdp is None or pure.least <= zcdp.least else zcdp


def _threshold(kind: Kind, budget: Budget, columns: int, values: int) -> Threshold | None:
    """That of one kind; None for rho if the budget is too small to be converted."""
    # Of delta, one half is for the conversion of rho.
    failure = budget.delta if kind == "pure" else budget.delta / 2
    limit = budget.epsilon if kind == "pure" else zcdp_rho(budget.epsilon, budget.delta - failure)
    if not limit:
        return None
    calibrated = threshold_scale(limit / columns, values, kind)
    return Threshold(
        kind=kind,
        limit=limit,
        budget=budget,
        failure=failure,
        columns=columns,
        scale=calibrated.scale,
        least=least_threshold(calibrated.scale, failure / columns, values, kind),
        cost=calibrated.map,
    )


def frequent_values(
    counts: Iterable[pa.RecordBatch], threshold: Threshold, accountant: Accountant, draws: Draws
) -> dict[str, int]:
    """The values of one column whose noisy count is above the threshold, and that noisy count; in the order of texts.

    `counts` has each value once, as text, and the number of units that have it.

    Privacy:
        A unit is in the counts of at most `values` values, each by 1. Every value has noise of its own, so that they
        may come in any number of batches. Cost: a column's share and its part of `failure`, debited before a count is
        looked at. The order of the values says nothing about rows.
    """
    accountant.debit(threshold.share)

    def draw() -> bytes:
        frequent: dict[bytes, int] = {}
        for batch in counts:
            units = batch.column(1).to_numpy(zero_copy_only=False).astype(np.int64)
            above = draws.noise.above(units, threshold.scale, threshold.least, threshold.kind)
            texts = batch.column(0).take(pa.array(list(above), pa.int64())).cast(pa.binary()).to_pylist()
            frequent |= dict(zip(texts, above.values(), strict=True))
        # In the order of their bytes: that of rows, or of the engine's groups, is nobody's business.
        return json.dumps(
            {text: frequent[raw] for raw in sorted(frequent) if (text := _text(raw)) is not None}
        ).encode()

    frequent: dict[str, int] = json.loads(draws.take(draw, "above", threshold))
    accountant.record(threshold.cost, threshold.share)
    return frequent


def _text(raw: bytes) -> str | None:
    """A text that SQL can write; None for one that it cannot, which counts as one that was not found."""
    with suppress(UnicodeDecodeError):  # Spark has texts that are not UTF-8
        text = raw.decode()
        return None if "\0" in text else text
    return None
