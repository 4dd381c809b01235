"""Request: everything a release depends on besides the private rows, read and checked option by option.

Owns the options: their names, defaults and allowed values are the fields of `Request`, and nowhere else in Python. The
macros and the README repeat names and defaults, and a test compares them. Must not look at a database.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from mwem_sql.compile.build import MAX_CELLS
from mwem_sql.errors import RELEASE, OptionError, did_you_mean, refuse
from mwem_sql.kernel.budget import Budget
from mwem_sql.releases.publication import PublicationCondition
from mwem_sql.workload import Workload

MAX_ROWS = 10**9
STARTS = ("uniform", "histogram")
"""What a release starts from unless it names an earlier release or a public table."""


def read_whole(function: str, name: str, value: object, low: int, high: int, *, cure: str = "") -> int:
    """A whole number, also as text or as 3.0."""
    number = read_number(value)
    if number is None or not low <= number <= high or number % 1:
        what = f"{name} ({value!r}) must be a whole number from {low:,} to {high:,}"
        raise refuse(OptionError, function, what, cure or f"leave {name} out for the default")
    return int(number)


def read_number(value: object) -> int | float | None:
    """A number, also as text; None if it is something else."""
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


def _real(low: float, high: float, rule: str, cure: str) -> Callable[[str, object], float]:
    def read(name: str, value: object) -> float:
        number = read_number(value)
        if number is None or not low <= number <= high:
            raise refuse(OptionError, RELEASE, f"{name} ({value!r}) must be {rule}", f"leave {name} out {cure}")
        return float(number)

    return read


def _text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or not str(value).strip():
        raise refuse(
            OptionError, RELEASE, f"{name} ({value!r}) must be text, and not empty", f"leave {name} out for the default"
        )
    return str(value)


def _named(what: str, cure: str) -> Callable[[str, object], str]:
    def read(name: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise refuse(OptionError, RELEASE, f"{name} ({value!r}) must be the name of a {what}, as text", cure)
        return value

    return read


def _start(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        rule = f"{' or '.join(map(repr, STARTS))}, or the name of a release or of a public table, as text"
        raise refuse(OptionError, RELEASE, f"{name} ({value!r}) must be {rule}", f"leave {name} out for {STARTS[0]!r}")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise refuse(OptionError, RELEASE, f"{name} ({value!r}) must be true or false", f"leave {name} out for false")
    return value


def _one_of(*words: str) -> Callable[[str, object], str]:
    def read(name: str, value: object) -> str:
        if value not in words:
            allowed = " or ".join(repr(word) for word in words)
            what = f"{name} ({value!r}) must be {allowed}"
            raise refuse(OptionError, RELEASE, what, f"{did_you_mean(value, words)}leave {name} out for {words[0]!r}")
        return str(value)

    return read


def _condition(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        what = f"{name} ({value!r}) must be a condition in SQL, as text"
        raise refuse(OptionError, RELEASE, what, "write publish_if := 'mean_share < 0.1', or leave it out")
    return PublicationCondition.parse(value.strip()).text


def _option(default: object, read: Callable[[str, object], object]) -> Any:
    """A field that a call may set: `read` checks the name and value that it was given."""
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, kw_only=True)
class Request:
    """A checked request: everything a release depends on besides the private rows."""

    table: str
    workload: Workload
    budget: Budget
    rounds: int | None = _option(None, _whole(1, 10**6))
    output: str | None = _option(
        None, _named("table", "leave output out for <table>_synthetic, or write output := 'census_public'")
    )
    rows: int | None = _option(None, _whole(1, MAX_ROWS))
    total: float | None = _option(
        None, _real(1, sys.float_info.max, "a number from 1", "to have it estimated privately")
    )
    domain: str | None = _option(
        None, _named("table", "leave domain out for <table>_domain, or write domain := 'census_domain'")
    )
    rules: str | None = _option(
        None, _named("table", "leave rules out for <table>_rules, or write rules := 'census_rules'")
    )
    known: str | None = _option(
        None, _named("table", "leave known out for <table>_known, or write known := 'census_known'")
    )
    unit: str | None = _option(
        None, _named("column", "leave unit out to protect one row, or write unit := 'person_id'")
    )
    rows_per_unit: int = _option(1, _whole(1, 10**6))
    start: str = _option(STARTS[0], _start)
    average: bool = _option(False, _flag)
    fit: str = _option("mirror", _one_of("mirror", "replay"))
    max_cells: int = _option(MAX_CELLS, _whole(1, MAX_CELLS))
    certify: float | None = _option(
        None, _real(0, 0.5, "a share of the budget from 0 to 0.5", "for the default, or give 0 to spend nothing on it")
    )
    publish_if: str | None = _option(None, _condition)
    version: str | None = _option(None, _text)
    seed: int | None = _option(None, _whole(0, 2**53))

    @classmethod
    def parse(cls, table: object, workload: Workload, epsilon: object, options: Mapping[str, Any]) -> Request:
        """Read the options of a call; a NULL is the default."""
        for name in options:
            if name not in OPTIONS:
                what = f"option {name} is unknown"
                hint = f"{did_you_mean(name, OPTIONS, shown=str)}the options are {', '.join(sorted(OPTIONS))}"
                raise refuse(OptionError, RELEASE, what, hint)
        given = {name: value for name, value in options.items() if value is not None}
        budget = Budget.parse(epsilon, given.pop("delta", 0), RELEASE)
        if not isinstance(table, str) or not table.strip():
            what = f"table ({table!r}) must be the name of a table"
            raise refuse(OptionError, RELEASE, what, "write 'adult' or 'census.main.adult'")
        readers = {option.name: option.metadata["read"] for option in fields(cls) if option.metadata}
        values = {name: readers[name](name, value) for name, value in given.items()}
        request = cls(table=table, workload=workload, budget=budget, **values)
        if request.unit is not None and "rows_per_unit" not in given:
            raise refuse(
                OptionError,
                RELEASE,
                f"unit ({request.unit}) needs rows_per_unit, the most rows of one {request.unit} that are used",
                "give rows_per_unit := 1 if each has one row, else as many as most of them have: rows beyond are left"
                " out, and noise grows with it",
            )
        if request.rows_per_unit != 1 and request.unit is None:
            what = f"rows_per_unit ({request.rows_per_unit}) needs a unit"
            raise refuse(OptionError, RELEASE, what, "name the column that identifies a unit")
        return request


OPTIONS: dict[str, Any] = {"delta": 0} | {option.name: option.default for option in fields(Request) if option.metadata}
"""Every option of a release with its default, in the order of the macros. `delta` is part of the budget."""
