"""Measures: what a row of the workload sums up, and the integer grid on which it is summed.

Reads no table and evaluates nothing. Sums of integers have an exact sensitivity, the largest absolute one; sums of
floats have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate
from math import frexp, ldexp

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.errors import PredicateError
from mwem_sql.language import predicate
from mwem_sql.language.conditions import Leaf, leaf, operands
from mwem_sql.language.predicate import Columns

LEVELS = 2**24  # the largest whole number on the grid of a measure
LARGEST_VALUE = 1e30  # a value beyond it is taken for a mistake
_DECIMALS = 9  # digits behind the point up to which decimal fractions stay exact
_WHOLE = 2.0**53  # up to here a float64 tells whole numbers apart
_EXACT = 1e-9  # how close to whole numbers counts as that, relative to the largest
_SMALLEST = -1000  # of the exponents of a unit

_AGGREGATE = re.compile(r"\s*(sum|avg)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """A product of expressions, each over columns of its own where it was written so: their sum, or their average."""

    text: str
    factors: tuple[Leaf, ...]
    is_average: bool


def read_measure(text: str, columns: Columns, table: str) -> Measure:
    """A measure from its text: an expression, `sum(expression)` or `avg(expression)`."""
    aggregate = _AGGREGATE.fullmatch(text)
    if aggregate is not None:
        try:
            return _measure(aggregate[2], columns, table, is_average=aggregate[1].lower() == "avg")
        except PredicateError:
            if _is_closed(aggregate[2]):
                raise
            # sum(a) + sum(b): refused below, in its own words
    return _measure(text, columns, table, is_average=False)


def _is_closed(text: str) -> bool:
    """Whether no parenthesis of a text closes one before it."""
    depths = list(accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in text))
    return min(depths, default=0) >= 0


def _measure(text: str, columns: Columns, table: str, *, is_average: bool) -> Measure:
    tree = predicate.parse(text, columns, "measure", table)
    return Measure(text, tuple(map(leaf, operands(tree, exp.Mul))), is_average)


def is_aggregate(text: str) -> bool:
    """Whether a measure says itself what is made of its values."""
    return _AGGREGATE.fullmatch(text) is not None


def to_grid(numbers: Floats) -> tuple[npt.NDArray[np.int64], float]:
    """Whole numbers up to `LEVELS`, as small as they can be, and the unit that they are multiples of.

    Whole numbers and decimal fractions stay what they are where they fit. Others are rounded to a power of two, less
    than 2^-23 of the largest: nothing beside the noise that the largest one calls for.
    """
    sizes = np.unique(np.abs(numbers[numbers != 0]))
    if not sizes.size:
        return np.zeros(numbers.shape, dtype=np.int64), 1.0
    if sizes.size == 1:
        return np.sign(numbers).astype(np.int64), float(sizes[0])
    return _on_decimals(numbers) or _on_powers(numbers)


def _on_decimals(numbers: Floats) -> tuple[npt.NDArray[np.int64], float] | None:
    """Multiples of the largest decimal fraction, or whole number, that divides all; None if that takes too many."""
    for digits in range(_DECIMALS + 1):
        scaled = numbers * 10.0**digits
        if np.abs(scaled).max() > _WHOLE:
            break
        whole = np.rint(scaled).astype(np.int64)
        if np.abs(scaled - whole).max() <= _EXACT * np.abs(scaled).max():
            divisor = int(np.gcd.reduce(whole, axis=None))
            return (whole // divisor, divisor / 10.0**digits) if np.abs(whole).max() <= LEVELS * divisor else None
    return None


def _on_powers(numbers: Floats) -> tuple[npt.NDArray[np.int64], float]:
    unit = ldexp(1.0, max(frexp(float(np.abs(numbers).max()) / LEVELS)[1], _SMALLEST))
    return np.rint(numbers / unit).astype(np.int64), unit
