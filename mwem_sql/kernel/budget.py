"""The privacy budget of a request.

Epsilon and delta, read exactly and within bounds. All of it is public arithmetic.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

import numpy as np

from mwem_sql.errors import RELEASE, OptionError, refuse

# Below, the noise exceeds any table; above, there is no privacy left to speak of. Both keep every scale a plain double.
MINIMUM_EPSILON: Final = Fraction(1, 10**12)
MAXIMUM_EPSILON: Final = Fraction(10**6)
MINIMUM_DELTA: Final = Fraction(1, 10**300)


@dataclass(frozen=True)
class Budget:
    """(epsilon, delta) as exact rationals of the decimals that the user wrote."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse what `parse` would refuse."""
        if not (isinstance(self.epsilon, Fraction) and isinstance(self.delta, Fraction)):
            raise refuse(
                OptionError, "Budget", "epsilon and delta must be fractions", "use Budget.parse(epsilon, delta)"
            )
        _check_epsilon(self.epsilon, self.epsilon, "Budget")
        _check_delta(self.delta, self.delta, "Budget")

    @classmethod
    def parse(cls, epsilon: object, delta: object = 0, function: str = RELEASE) -> Budget:
        """Read both from text or numbers; a float counts as the shortest decimal that prints it (0.1 is 1/10)."""
        exact_epsilon, exact_delta = _rational(epsilon), _rational(delta)
        _check_epsilon(exact_epsilon, epsilon, function)
        _check_delta(exact_delta, delta, function)
        return cls(Fraction(exact_epsilon), Fraction(exact_delta))


def _rational(value: object) -> Fraction | Decimal:
    """Give the exact number, or a NaN for anything that is none; a Decimal may still have an absurd exponent."""
    if isinstance(value, numbers.Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))
    # str of a numpy float is its shortest decimal; repr is "np.float64(0.1)".
    text = str(value).strip() if isinstance(value, (str, float, Decimal, np.floating)) else ""
    try:
        return Decimal(text) if len(text) <= 100 else Decimal("NaN")
    except InvalidOperation:
        return Decimal("NaN")


def _check_epsilon(exact: Fraction | Decimal, given: object, function: str) -> None:
    hint = "write a decimal such as 0.5; smaller is more private"
    if (isinstance(exact, Decimal) and not exact.is_finite()) or exact <= 0:
        raise refuse(OptionError, function, f"epsilon ({quoted(given)}) must be a positive finite number", hint)
    if not _within(exact, MINIMUM_EPSILON, MAXIMUM_EPSILON):
        raise refuse(OptionError, function, f"epsilon ({quoted(given)}) must be between 1e-12 and 1e6", hint)


def _check_delta(exact: Fraction | Decimal, given: object, function: str) -> None:
    hint = "leave delta out for pure epsilon, or write a decimal far below one over the number of rows, such as 1e-9"
    if (isinstance(exact, Decimal) and not exact.is_finite()) or not 0 <= exact < 1:
        raise refuse(OptionError, function, f"delta ({quoted(given)}) must be a finite number from 0 to below 1", hint)
    if exact != 0 and not _within(exact, MINIMUM_DELTA, Fraction(1)):
        raise refuse(OptionError, function, f"delta ({quoted(given)}) must be 0 or at least 1e-300", hint)


def _within(exact: Fraction | Decimal, low: Fraction, high: Fraction) -> bool:
    # The exponent first: as a fraction, 1e999999999 would be a gigabyte of digits.
    if isinstance(exact, Decimal) and not -400 < exact.adjusted() < 400:
        return False
    return low <= Fraction(exact) <= high


def quoted(given: object) -> str:
    if isinstance(given, int) and given.bit_length() > 256:  # Python refuses to print very long integers.
        return f"a whole number of {given.bit_length()} bits"
    if isinstance(given, Fraction):
        return shown(given)
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:56]}..."


def shown(exact: Fraction) -> str:
    try:
        return f"{float(exact):.12g}"
    except OverflowError:
        return "beyond 1e308"
