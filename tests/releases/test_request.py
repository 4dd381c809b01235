"""Reading the options of a call."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mwem_sql.errors import OptionError
from mwem_sql.releases.request import OPTIONS, Request, read_whole
from mwem_sql.workload import Workload

WORKLOAD = Workload.from_predicates(["x"])


def parse(epsilon: object = 1, **options: Any) -> Request:
    return Request.parse("t", WORKLOAD, epsilon, options)


def test_defaults() -> None:
    request = parse()
    assert request == Request(table="t", workload=WORKLOAD, budget=request.budget)
    assert (request.budget.epsilon, request.budget.delta) == (1, 0)
    assert (request.rounds, request.output, request.rows, request.total, request.domain, request.unit) == (None,) * 6
    assert (request.rows_per_unit, request.start, request.average, request.version, request.seed) == (
        1,
        "uniform",
        False,
        None,
        None,
    )


def test_null_is_the_default() -> None:
    assert parse(**dict.fromkeys(OPTIONS)) == parse()


def test_a_unit_asks_for_its_rows() -> None:
    assert parse(unit="u", rows_per_unit=1).unit == "u"
    with pytest.raises(OptionError, match=r"unit \(u\) needs rows_per_unit, .* Hint: give rows_per_unit := 1 if each"):
        parse(unit="u")


@pytest.mark.parametrize(
    ("option", "given", "read"),
    [
        ("rounds", 3, 3), ("rounds", 3.0, 3), ("rounds", "3", 3), ("rounds", " 1e3 ", 1000), ("rounds", np.int64(3), 3),
        ("rounds", 10**6, 10**6),
        ("rows", 10**9, 10**9), ("rows", np.float64(7), 7), ("seed", 0, 0), ("seed", 2**53, 2**53),
        ("total", 1, 1.0), ("total", "400.5", 400.5), ("total", np.int32(9), 9.0),
        ("output", "a.b", "a.b"), ("domain", "d", "d"), ("version", 20260601, "20260601"), ("version", "x", "x"),
        ("average", True, True), ("start", "histogram", "histogram"),
    ],
)  # fmt: skip
def test_a_value_is_read(option: str, given: object, read: object) -> None:
    found = getattr(parse(**{option: given}), option)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("rounds", 0), ("rounds", -1), ("rounds", 1.5), ("rounds", 10**6 + 1), ("rounds", float("nan")),
        ("rounds", float("inf")),
        ("rounds", "x"), ("rounds", ""), ("rounds", True), ("rounds", [3]), ("rounds", {}), ("rounds", Decimal(3)),
        ("rounds", 10**400),
        ("rows", 0), ("rows", 10**9 + 1), ("rows_per_unit", 0), ("seed", -1), ("seed", 2**53 + 1), ("seed", "abc"),
        ("total", 0), ("total", 0.5), ("total", float("nan")), ("total", float("inf")), ("total", "many"),
        ("total", False), ("total", [1]),
        ("output", ""), ("output", "  "), ("output", ["x"]), ("output", True), ("domain", b"x"), ("unit", ""),
        ("version", {}),
        ("average", 0), ("average", "true"), ("start", ["uniform"]), ("start", 1),
    ],
)  # fmt: skip
def test_a_value_is_refused(option: str, given: object) -> None:
    with pytest.raises(OptionError) as caught:
        parse(**{option: given})
    message = str(caught.value)
    assert message.startswith(f"mwem_release: {option} (")
    assert repr(given)[:20] in message
    assert f"leave {option} out" in message.partition(". Hint: ")[2]


def test_an_unknown_option_lists_the_known() -> None:
    with pytest.raises(
        OptionError,
        match=r"option round is unknown\. Hint: did you mean rounds\? the options are average, certify, delta, domain, "
        r"fit, known, max_cells, output, publish_if, rounds, rows, ",
    ):
        parse(round=3)


@pytest.mark.parametrize("table", ["", "  ", None, 5])
def test_a_table_is_a_name(table: object) -> None:
    with pytest.raises(OptionError, match="must be the name of a table"):
        Request.parse(table, WORKLOAD, 1, {})


def test_rows_per_unit_needs_a_unit() -> None:
    with pytest.raises(OptionError, match=r"rows_per_unit \(2\) needs a unit"):
        parse(rows_per_unit=2)
    assert parse(rows_per_unit=2, unit="u").rows_per_unit == 2
    assert parse(rows_per_unit=1).unit is None


def test_budget_is_exact() -> None:
    request = parse("0.1", delta=1e-9)
    assert (request.budget.epsilon, request.budget.delta) == (Fraction(1, 10), Fraction(1, 10**9))


def test_a_whole_number_names_its_function() -> None:
    with pytest.raises(
        OptionError, match=r"mwem_ranges: count \('x'\) must be a whole number from 0 to 5\. Hint: leave count out"
    ):
        read_whole("mwem_ranges", "count", "x", 0, 5)
