"""One tree of errors. Every message reads `<function>: <what> (<value>) <rule>. Hint: <cure>`.

A message never quotes a value of a private row; after the budget is debited only `EngineError` with its
fixed text may come from the private side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

import duckdb
import pyarrow as pa

RELEASE = "mwem_release"
"""The function that a refusal names when a release was asked for."""
MOST_NAMES = 10_000
"""Names that are gone through to find the nearest one; each takes some 20 microseconds."""


class MwemError(Exception):
    """Base of everything mwem_sql raises on purpose."""


class OptionError(MwemError):
    """An option or argument has a value that the call does not take."""


class TableError(MwemError):
    """A table or view cannot serve in the role it was named for."""


class DomainError(MwemError):
    """An attribute has no public domain, or a declaration of one is wrong."""


class WorkloadError(MwemError):
    """A row of the workload cannot be read or compiled."""


class PredicateError(WorkloadError):
    """An SQL expression of the workload is not a deterministic scalar expression over the table's columns.

    If it reads a column that is not there, `column` is its name, and `reader` what reads it, as messages show it.
    """

    column = ""
    reader = ""


class CellsError(WorkloadError):
    """A query needs more cells than the state may hold."""


class OutputError(MwemError):
    """The output cannot be written under that name."""


class BudgetError(MwemError):
    """The request does not fit the privacy budget."""


class EngineError(MwemError):
    """The private table could not be read. The message is fixed: a cause could quote a private value."""


class CancelledError(MwemError):
    """The call was stopped by Ctrl-C or by `mwem_sql.cancel`."""


def refuse(kind: type[MwemError], function: str, what: str, hint: str) -> MwemError:
    """Build an error in the house form; `what` names the value and the rule."""
    return kind(f"{function}: {what}. Hint: {hint}")


def refuse_query(what: str, hint: str, kind: type[WorkloadError] = WorkloadError) -> MwemError:
    """A refusal of what a workload says, whichever function it was given to."""
    return refuse(kind, "workload", what, hint)


def refuse_domain(what: str, hint: str) -> MwemError:
    """A refusal of what a schema or a domain table declares, whichever function needs it."""
    return refuse(DomainError, "domain", what, hint)


LONGEST_NAME = 200
CLOSE = 0.7
"""How alike two names must be, from 0 to 1: a letter more, less or swapped. Below, "Bern" would be meant as "member"."""


def literal(text: str) -> str:
    """A text as SQL writes it, so that it can be pasted."""
    return "'" + text.replace("'", "''") + "'"


def nearest_name(name: object, known: Collection[str], close: float = CLOSE) -> str | None:
    """The public name that is nearest to one that is not known; None if none is near."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME or len(known) > MOST_NAMES:
        return None
    spelled = {own.lower(): own for own in known}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=close)
    return spelled[near[0]] if near else None


def did_you_mean(
    name: object, known: Collection[str], close: float = CLOSE, shown: Callable[[str], str] = literal
) -> str:
    """The start of a hint: the nearest name, `shown` so that it can be pasted; nothing if none is near."""
    near = nearest_name(name, known, close)
    return "" if near is None else f"did you mean {shown(near)}? "


@contextmanager
def spoken_by(function: str, instead_of: str = RELEASE) -> Iterator[None]:
    """Let refusals of what a function does in the way of another one speak in its own name."""
    try:
        yield
    except MwemError as error:
        text = str(error)
        if not text.startswith(f"{instead_of}: "):
            raise
        raise type(error)(function + text.removeprefix(instead_of)) from None


@contextmanager
def legible(otherwise: MwemError) -> Iterator[None]:
    """What is in the schema mwem is for its owner to change, but then it may not be what it was; said without the cause."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        pass
    else:
        return
    raise otherwise from None  # the cause would be its context: a generator raises inside the handler that threw into it
