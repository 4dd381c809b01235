"""Measurements made by hand, for tests of what is read off them."""

from __future__ import annotations

import math

import numpy as np

from mwem_sql.algebra.arrays import Numbers
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.measurement import Measurement, Purpose


def measurement(
    query: LinearQuery, values: Numbers, variance: float, purpose: Purpose = "round", *, gaussian: bool = False
) -> Measurement:
    """Values with noise of this variance. Laplace noise has a fourth cumulant of three times its square."""
    scale = math.sqrt(variance if gaussian else variance / 2)
    return Measurement(
        values=np.asarray(values),
        kind="zcdp" if gaussian else "pure",
        scale=scale,
        variance=variance,
        query=query,
        purpose=purpose,
        name="made by hand",
    )
