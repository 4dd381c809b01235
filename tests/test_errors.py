"""Errors: one tree, one form, and a cause that stays inside."""

from __future__ import annotations

import inspect
import traceback

import pytest

from mwem_sql import errors
from mwem_sql.errors import BudgetError, MwemError, TableError, legible, refuse

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_ours_and_says_what_it_is_for(kind: type[Exception]) -> None:
    assert issubclass(kind, MwemError)
    assert kind.__doc__


def test_a_refusal_has_the_house_form() -> None:
    error = refuse(BudgetError, "mwem_release", "epsilon (7) must be at most 3", "ask for less")
    assert type(error) is BudgetError
    assert str(error) == "mwem_release: epsilon (7) must be at most 3. Hint: ask for less"


@pytest.mark.parametrize("cause", [ValueError("Smith"), KeyError("Smith"), ZeroDivisionError("Smith")])
def test_what_cannot_be_read_is_said_without_its_cause(cause: Exception) -> None:
    """Not in the message, and not printed above it."""
    with pytest.raises(TableError, match="damaged") as caught, legible(TableError("damaged")):
        raise cause
    assert "Smith" not in "".join(traceback.format_exception(caught.value))


def test_what_can_be_read_and_our_own_errors_pass() -> None:
    with legible(TableError("damaged")):
        pass
    with pytest.raises(BudgetError), legible(TableError("damaged")):
        raise BudgetError
