"""Request: everything a release depends on besides the private rows, read and checked option by option."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from mwem_sql.accounting.budget import Budget
from mwem_sql.compiler.blocks import MAX_CELLS
from mwem_sql.errors import RELEASE, OptionError, refuse
from mwem_sql.workload import Workload

MAX_ROWS = 10**9


@dataclass(frozen=True)
class Request:
    """A checked request: everything a release depends on besides the private rows."""

    table: str
    workload: Workload
    budget: Budget
    rounds: int | None = None
    output: str | None = None
    rows: int | None = None
    total: float | None = None
    domain: str | None = None
    unit: str | None = None
    rows_per_unit: int = 1
    start: str = "uniform"
    average: bool = False
    fit: str = "mirror"
    max_cells: int = MAX_CELLS
    version: str | None = None
    seed: int | None = None

    @classmethod
    def parse(cls, table: object, workload: Workload, epsilon: object, options: Mapping[str, Any]) -> Request:
        """Read the options of a call; a NULL is the default."""
        known = {field.name for field in fields(cls)} - {"table", "workload", "budget"} | {"delta"}
        for name in options:
            if name not in known:
                raise refuse(
                    OptionError, RELEASE, f"option {name} is unknown", f"the options are {', '.join(sorted(known))}"
                )
        given = {name: value for name, value in options.items() if value is not None}
        budget = Budget.parse(epsilon, given.pop("delta", 0), RELEASE)
        if not isinstance(table, str) or not table.strip():
            raise refuse(
                OptionError,
                RELEASE,
                f"table ({table!r}) must be the name of a table",
                "write 'adult' or 'census.main.adult'",
            )
        request = cls(table, workload, budget, **{name: _READERS[name](name, value) for name, value in given.items()})
        if request.rows_per_unit != 1 and request.unit is None:
            raise refuse(
                OptionError,
                RELEASE,
                f"rows_per_unit ({request.rows_per_unit}) needs a unit",
                "name the column that identifies a unit",
            )
        return request


def read_whole(function: str, name: str, value: object, low: int, high: int) -> int:
    """A whole number, also as text or as 3.0."""
    number = _number(value)
    if number is None or not low <= number <= high or number % 1:
        raise refuse(
            OptionError,
            function,
            f"{name} ({value!r}) must be a whole number from {low:,} to {high:,}",
            f"leave {name} out for the default",
        )
    return int(number)


def _number(value: object) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        return float(value) if isinstance(value, (str, numbers.Real)) else None
    except ValueError:
        return None


def _whole(low: int, high: int) -> Callable[[str, object], int]:
    return lambda name, value: read_whole(RELEASE, name, value, low, high)


def _total(name: str, value: object) -> float:
    number = _number(value)
    if number is None or not 1 <= number < math.inf:
        raise refuse(
            OptionError,
            RELEASE,
            f"{name} ({value!r}) must be a number from 1",
            "leave total out to have it estimated privately",
        )
    return float(number)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not str(value).strip():
        raise refuse(OptionError, RELEASE, f"{name} ({value!r}) must be text", f"leave {name} out for the default")
    return str(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise refuse(OptionError, RELEASE, f"{name} ({value!r}) must be true or false", f"leave {name} out for false")
    return value


def _one_of(*words: str) -> Callable[[str, object], str]:
    def read(name: str, value: object) -> str:
        if value not in words:
            allowed = " or ".join(repr(word) for word in words)
            raise refuse(
                OptionError, RELEASE, f"{name} ({value!r}) must be {allowed}", f"leave {name} out for {words[0]!r}"
            )
        return str(value)

    return read


_READERS: dict[str, Callable[[str, object], Any]] = {
    "rounds": _whole(1, 10**6), "rows": _whole(1, MAX_ROWS), "rows_per_unit": _whole(1, 10**6), "seed": _whole(0, 2**53),
    "output": _text, "domain": _text, "unit": _text, "version": _text, "total": _total, "average": _flag,
    "start": _one_of("uniform", "histogram"), "fit": _one_of("mirror", "replay"), "max_cells": _whole(1, MAX_CELLS),
}  # fmt: skip
