"""The budget: exact reading, exact splitting, and an account that no mechanism can overdraw."""

from __future__ import annotations

import math
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from mwem_sql.errors import BudgetError, OptionError
from mwem_sql.kernel.accountant import Accountant, AccountingError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import zcdp_rho


@pytest.mark.parametrize(
    ("given_epsilon", "exact"),
    [
        ("0.1", Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (Decimal("0.10"), Fraction(1, 10)),
        ("1e-9", Fraction(1, 10**9)),
        (" 5E-1 ", Fraction(1, 2)),
        (3, Fraction(3)),
        (np.int64(3), Fraction(3)),
        (Fraction(1, 3), Fraction(1, 3)),
        ("1e-12", Fraction(1, 10**12)),
        ("1e6", Fraction(10**6)),
    ],
)
def test_epsilon_is_the_exact_rational_of_its_decimal(given_epsilon: object, exact: Fraction) -> None:
    assert Budget.parse(given_epsilon).epsilon == exact
    assert Budget.parse(given_epsilon).delta == 0


NO_NUMBERS = ["abc", "", "nan", "sNaN", "inf", "-Infinity", "1/3", "9" * 1000, None, True, [1], b"1", 1j]


NOT_POSITIVE = ["0", 0, -1, "-0.5", "0e-999999999", math.nan, math.inf, Decimal("NaN")]


@pytest.mark.parametrize("bad", NO_NUMBERS + NOT_POSITIVE)
def test_an_epsilon_that_is_no_positive_finite_number_is_refused(bad: object) -> None:
    with pytest.raises(OptionError) as refusal:
        Budget.parse(bad)
    shown = repr(bad) if len(repr(bad)) < 60 else repr(bad)[:50]
    assert str(refusal.value).startswith(f"mwem_release: epsilon ({shown}")
    assert ") must be a positive finite number. Hint: write a decimal such as 0.5" in str(refusal.value)


@pytest.mark.parametrize(
    "absurd", ["1e999999999", "1e-999999999", "1e7", "1e-13", pytest.param(10**100_000, id="huge"), Decimal("1e99999")]
)
def test_an_absurd_epsilon_is_refused_at_once(absurd: object) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(OptionError, match=r"epsilon \(.*\) must be between 1e-12 and 1e6\. Hint: "):
            Budget.parse(absurd)
        # As a fraction, 1e999999999 would take minutes and a gigabyte.
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bad", ["abc", -1e-9, 1, "1.0", "nan", "inf", None, False, "1e999999999"])
def test_a_delta_outside_zero_to_one_is_refused(bad: object) -> None:
    with pytest.raises(OptionError) as refusal:
        Budget.parse(1, bad, function="mwem_plan")
    assert str(refusal.value).startswith(
        f"mwem_plan: delta ({bad!r}) must be a finite number from 0 to below 1. Hint: "
    )


def test_delta_is_exact_and_tiny_ones_are_refused() -> None:
    assert Budget.parse(1, 1e-9).delta == Fraction(1, 10**9)
    assert Budget.parse(1, "0e-999999999").delta == 0
    for tiny in ("1e-301", "1e-999999999"):
        with pytest.raises(
            OptionError, match=r"delta \('1e-\d+'\) must be 0 or at least 1e-300\. Hint: leave delta out"
        ):
            Budget.parse(1, tiny)


def test_a_budget_checks_itself() -> None:
    for epsilon, delta in ((Fraction(0), Fraction(0)), (Fraction(10**400), Fraction(0)), (Fraction(1), Fraction(1))):
        with pytest.raises(OptionError, match="Budget: "):
            Budget(epsilon, delta)
    with pytest.raises(OptionError, match="must be fractions"):
        Budget(0.1)  # type: ignore[arg-type]


def test_an_account_goes_on_in_rho_with_half_the_square_of_what_was_taken() -> None:
    budget = Budget.parse(1, "1e-9")
    rho, taken = zcdp_rho(budget.epsilon, budget.delta), Fraction(1, 50)
    account = Accountant("pure", budget.epsilon, budget)
    account.debit(taken)
    account.record(0.01, taken)
    account.count_in_rho(rho)
    assert (account.kind, account.limit) == ("zcdp", rho)
    assert (account.spent, account.remaining) == (taken**2 / 2, rho - taken**2 / 2)
    assert account.mapped == Fraction(0.01) ** 2 / 2
    account.debit(account.remaining)
    account.settle()
    with pytest.raises(BudgetError):
        account.debit(Fraction(1, 10**30))


def test_an_account_does_not_go_on_in_rho_without_delta_twice_or_with_too_little_left() -> None:
    tight = Budget.parse(1, "1e-9")
    rho = zcdp_rho(tight.epsilon, tight.delta)
    with pytest.raises(AccountingError, match="must not go on in rho"):
        Accountant("pure", Fraction(1)).count_in_rho(rho)
    account = Accountant("pure", Fraction(1), tight)
    account.count_in_rho(rho)
    with pytest.raises(AccountingError, match="must not go on in rho"):
        account.count_in_rho(rho)
    spent = Accountant("pure", Fraction(1), tight)
    spent.debit(Fraction(1, 2))
    with pytest.raises(AccountingError, match=r"what was taken \(0\.125\) must fit the limit in rho"):
        spent.count_in_rho(rho)
    with pytest.raises(AccountingError, match="must not exceed epsilon"):
        Accountant("pure", Fraction(1), tight).count_in_rho(2 * rho)
