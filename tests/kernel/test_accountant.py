"""The accountant: a debit before a cost, no overdraft by an ulp, and nothing left over at the end."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from operator import add

import pytest
from loops import schedule

from mwem_sql.errors import BudgetError
from mwem_sql.kernel.accountant import Accountant, AccountingError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import noise_scale, selection_scale, zcdp_rho


def test_three_tenths_over_ten_rounds_is_three_tenths() -> None:
    assert reduce(add, [0.03] * 10) > 0.3  # In floats ten shares exceed the budget.
    plan = schedule(Budget.parse(0.3), 10)
    account = plan.composition.accountant()
    for _ in range(10):
        for calibrated in (selection_scale(plan.select, 1, "pure"), noise_scale(plan.measure, 1, "pure")):
            account.debit(plan.select)
            account.record(calibrated.map, plan.select)
    account.settle()
    assert account.spent == Fraction(3, 10)
    assert account.mapped <= Fraction(3, 10)


def test_an_overdraft_is_refused_and_nothing_is_charged() -> None:
    account = Accountant("pure", Fraction(1))
    account.debit(Fraction(3, 4))
    with pytest.raises(BudgetError) as refusal:
        account.debit(Fraction(1, 2))
    assert str(refusal.value) == (
        "mwem_release: the next share (0.5) must fit what is left of epsilon (0.25 of 1). "
        "Hint: raise epsilon or use fewer rounds"
    )
    with pytest.raises(BudgetError):
        account.debit(Fraction(1, 4) + Fraction(1, 10**30))
    assert (account.spent, account.remaining) == (Fraction(3, 4), Fraction(1, 4))
    account.debit(Fraction(1, 4))


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2)])
def test_a_debit_cannot_be_a_credit(share: Fraction) -> None:
    account = Accountant("pure", Fraction(1))
    with pytest.raises(AccountingError, match=r"a share \(.*\) must be positive"):
        account.debit(share)
    assert account.spent == 0


@pytest.mark.parametrize("cost", [math.nextafter(0.5, 1), 0.6, -0.1, math.inf, math.nan])
def test_a_cost_above_its_share_is_refused_by_an_ulp(cost: float) -> None:
    account = Accountant("pure", Fraction(1))
    account.debit(Fraction(1, 2))
    with pytest.raises(AccountingError, match=r"the cost of a mechanism \(.*\) must not exceed its share \(0\.5\)"):
        account.record(cost, Fraction(1, 2))
    account.record(0.5, Fraction(1, 2))
    assert account.mapped == Fraction(1, 2)


def test_a_cost_without_a_debit_is_refused() -> None:
    account = Accountant("pure", Fraction(1))
    with pytest.raises(AccountingError, match=r"a recorded share \(0\.5\) must have been debited first"):
        account.record(0.5, Fraction(1, 2))


def test_an_account_beyond_the_budget_is_not_opened() -> None:
    budget = Budget.parse(1, "1e-9")
    rho = zcdp_rho(budget.epsilon, budget.delta)
    Accountant("zcdp", rho, budget).settle()
    for kind, limit in (("zcdp", rho * Fraction(1001, 1000)), ("pure", Fraction(1001, 1000))):
        with pytest.raises(AccountingError, match=r"the limit \(1\.00.*\) must not exceed epsilon \(1\)"):
            Accountant(kind, limit, budget)  # type: ignore[arg-type]
    with pytest.raises(AccountingError, match="must name the budget"):
        Accountant("zcdp", rho)


def test_settle_sees_what_a_faulty_record_would_leave_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Accountant("pure", Fraction(1))
    account.debit(Fraction(1))
    account.record(1.0, Fraction(1))
    monkeypatch.setattr(account, "_mapped", 1 + Fraction(1, 10**30))
    with pytest.raises(AccountingError, match="must not exceed the limit"):
        account.settle()
