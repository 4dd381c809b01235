"""Functions whose columns depend on their arguments: a SELECT is made when DuckDB binds a call, rows when it runs.

Owns these statements, and how rows of any type come from Python: as text that the statement casts. Must not work
anything out itself: rooms below do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import MwemError
from mwem_sql.language.ticks import cast
from mwem_sql.platform import calls
from mwem_sql.platform.session import Session
from mwem_sql.releases.sample import as_texts
from mwem_sql.surface import calling
from mwem_sql.surface.bodies import Typed
from mwem_sql.surface.calling import Arguments, Cursor
from mwem_sql.surface.function import Function

_ARRIVED = "__mwem_arrived"  # a name that no table of the user has


def select_sql(function: Function, cursor: Cursor, text: str) -> str:
    """The SELECT of a call; one that raises the refusal if there is none."""
    names: Sequence[str] = ()
    try:
        call = Arguments.of_sql(function.name, cursor, text)
        names = _names(function, call)
        typed: Typed = calls.run(function.name, lambda: function.body(call))
        return _select(function, typed.types, text).sql("duckdb")
    except Exception as error:  # noqa: BLE001
        return _raising(calling.sentence(function.name, error), names).sql("duckdb")


def _names(function: Function, call: Arguments) -> Sequence[str]:
    """The columns that a call has, as far as they are known before it is read.

    Where DuckDB misses a column, it says so in the place of our refusal.
    """
    names = [column.name for column in function.columns]
    if names == ["<column>"]:  # all of the release
        with suppress(MwemError):
            return list(call.answerer().stored.classes)
    return () if any(name.startswith("<") for name in names) else names


def _raising(sentence: str, names: Sequence[str]) -> exp.Select:
    """Raises whatever the outer query filters or projects: in a list, before there are rows.

    Without names, DuckDB shows the sentence as the nearest to a column that it misses.
    """
    error = _call("unnest", exp.Array(expressions=[_call("error", exp.Literal.string(sentence))]))
    source = exp.select(exp.alias_(error, "r")).subquery("e")
    return exp.select(*(exp.alias_(exp.column("r"), name, quoted=True) for name in names or (sentence,))).from_(source)


def _select(function: Function, types: Sequence[tuple[str, str]], text: str) -> exp.Select:
    """A list of values for each column, side by side."""
    call = exp.select(exp.alias_(_call(f"_{function.name}", exp.Literal.string(text)), "r"))
    # What is not refused when it is bound may be when it runs.
    failed = exp.Not(this=exp.Is(this=_field("err"), expression=exp.null()))
    lists = exp.Case(ifs=[exp.If(this=failed, true=_call("error", _field("err")))], default=_field("lists"))
    source = exp.select(exp.alias_(lists, "v")).from_(call.subquery("c")).subquery("s")
    items = [
        _call("unnest", exp.Bracket(this=exp.column("v"), expressions=[exp.Literal.number(k)], offset=1))
        for k in range(1, len(types) + 1)
    ]
    return exp.select(*_cast(items, types)).from_(source)


def _cast(values: Sequence[exp.Expr], types: Sequence[tuple[str, str]]) -> list[exp.Expr]:
    return [exp.alias_(cast(value, kind), name, quoted=True) for value, (name, kind) in zip(values, types, strict=True)]


def _call(function: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=function, expressions=list(arguments))


def _field(name: str) -> exp.Dot:
    return exp.Dot(this=exp.column("r"), expression=exp.to_identifier(name))


def lists(function: Function, cursor: Cursor, texts: list[str]) -> pa.Array:
    """Of each call a struct with its refusal, or with a list of values for each column."""
    results = [_columns(function, cursor, text) for text in texts]
    columns = [column for _, each in results for column in each]
    inner = pa.ListArray.from_arrays(
        _offsets([len(column) for column in columns]), pa.concat_arrays([pa.array([], pa.string()), *columns])
    )
    outer = pa.ListArray.from_arrays(_offsets([len(each) for _, each in results]), inner)
    return pa.StructArray.from_arrays([pa.array([error for error, _ in results], pa.string()), outer], ["err", "lists"])


def _columns(function: Function, cursor: Cursor, text: str) -> tuple[str | None, list[pa.Array]]:
    try:
        call = Arguments.of_sql(function.name, cursor, text)
        return None, calls.run(function.name, lambda: as_texts(function.body(call).rows()))
    except Exception as error:  # noqa: BLE001
        return calling.sentence(function.name, error), []


def _offsets(lengths: list[int]) -> pa.Array:
    return pa.array(np.cumsum([0, *lengths]), pa.int32())


def table(session: Session, typed: Typed) -> pa.Table:
    """The same for Python, where nothing need be registered: rows in the types that SQL gives them."""
    names = [f"c{k}" for k in range(len(typed.types))]
    cursor = session.cursor()
    cursor.register(_ARRIVED, typed.rows().rename_columns(names))
    columns = _cast([exp.column(name) for name in names], typed.types)
    return cursor.sql(exp.select(*columns).from_(exp.table_(_ARRIVED)).sql("duckdb")).to_arrow_table()
