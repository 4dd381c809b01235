"""One tree of errors. Every message reads `<function>: <what> (<value>) <rule>. Hint: <cure>`.

A message never quotes a value of a private row; after the budget is debited only `EngineError` with its
fixed text may come from the private side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

import duckdb

RELEASE = "mwem_release"
"""The function that the refusal of a release names."""


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


class WithheldError(OutputError):
    """The release was made and is not published: it does not meet its own condition."""


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


def literal(text: str) -> str:
    """A text as SQL writes it, so that it can be pasted."""
    return "'" + text.replace("'", "''") + "'"


def did_you_mean(
    name: object, names: Collection[str], similarity: float = 0.7, shown: Callable[[str], str] = literal
) -> str:
    """The start of a hint: the nearest of some public names, `shown` so that it can be pasted; nothing if none is near.

    `similarity` is from 0 to 1: 0.7 is a letter more, less or swapped; below, "Bern" would be meant as "member". Not
    for long names, nor among more than 10,000, each of which takes some 20 microseconds.
    """
    if not isinstance(name, str) or len(name) > 200 or len(names) > 10_000:
        return ""
    spelled = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), spelled, n=1, cutoff=similarity)
    return f"did you mean {shown(spelled[near[0]])}? " if near else ""


@contextmanager
def spoken_by(function: str, instead_of: str = RELEASE) -> Iterator[None]:
    """Let refusals name the function that was called, where it does what another one does."""
    try:
        yield
    except MwemError as error:
        text = str(error)
        if not text.startswith(f"{instead_of}: "):
            raise
        raise type(error)(function + text.removeprefix(instead_of)) from None


@contextmanager
def legible(otherwise: MwemError) -> Iterator[None]:
    """Raise `otherwise`, without the cause, where rows of the schema mwem cannot be read: their owner may edit them."""
    import pyarrow as pa  # noqa: PLC0415  (who only catches errors need not wait for it)

    try:
        yield
    except (duckdb.Error, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
        pass
    else:
        return
    # Not in the handler: a generator would raise inside the one that threw into it, with the cause as its context.
    raise otherwise from None
