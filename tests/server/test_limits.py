"""Limits of a server: what one takes keeps others working."""

from __future__ import annotations

import threading

import pytest

from mwem_sql.errors import BudgetError, OptionError
from mwem_sql.server.limits import ServerLimits, Slots


def test_who_finds_no_place_is_refused_and_a_place_is_given_back() -> None:
    slots, full = Slots(2), BudgetError("full")
    with slots.one(full), slots.one(full):
        with pytest.raises(BudgetError, match="full"), slots.one(full):
            pass
        assert slots.wait_until_free(0) is False
    with pytest.raises(ZeroDivisionError), slots.one(full):
        raise ZeroDivisionError
    with slots.one(full), slots.one(full):
        pass
    assert slots.wait_until_free(0) is True


def test_a_place_that_gets_free_is_noticed() -> None:
    slots, inside, go_on = Slots(1), threading.Event(), threading.Event()

    def work() -> None:
        with slots.one(BudgetError("full")):
            inside.set()
            go_on.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60) and not slots.wait_until_free(0)
    go_on.set()
    assert slots.wait_until_free(60)
    thread.join()


@pytest.mark.parametrize("limits", [{"statement_seconds": 0}, {"threads": -1}, {"workload_rows": float("nan")}])
def test_a_limit_that_is_none_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=r"must be above 0\. Hint: leave it out for "):
        ServerLimits(**limits)  # type: ignore[arg-type]
