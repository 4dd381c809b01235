"""What DuckDB runs when an SQL function is called: arguments in as JSON, rows out as Arrow, refusals as sentences.

Owns how the results of a body get into DuckDB. Must not know what a function does: that is in `spec.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from mwem_sql.errors import MwemError
from mwem_sql.platform import calls
from mwem_sql.releases.sample import as_texts
from mwem_sql.surface.bodies import Arguments, Rows, Typed, sentence
from mwem_sql.surface.declaration import Home, SqlFunction

Result = TypeVar("Result")


def rows(function: SqlFunction, home: Home, arguments: pa.Array, queries: pa.Array) -> pa.Array:
    """The rows of each call; or one with the refusal, which the macro raises as an error of DuckDB's."""
    out = []
    for text, texts in zip(arguments.to_pylist(), queries.to_pylist(), strict=True):
        try:
            call = Arguments.of_sql(function.name, home, text, texts)
            out.append(_run(function, call, lambda rows: _structs(function, rows)))
        except Exception as error:  # noqa: BLE001
            out.append(pa.array([{"err": sentence(function.name, error)}], _row(function)))
    return pa.ListArray.from_arrays(_offsets(out), pa.concat_arrays([pa.array([], _row(function)), *out]))


def _structs(function: SqlFunction, rows: Rows | pa.Table) -> pa.StructArray:
    """The rows that a body gives, none of them with a refusal."""
    if not isinstance(rows, pa.Table):
        return pa.array(list(rows), _row(function))
    columns = [column.combine_chunks() for column in rows.cast(function.schema).columns]
    return pa.StructArray.from_arrays([pa.nulls(len(rows), pa.string()), *columns], fields=list(_row(function)))


def _run(function: SqlFunction, call: Arguments, read: Callable[[Any], Result]) -> Result:
    """What a body gives, read to its end before the call ends."""

    def work() -> Result:
        with call.permitted():
            return read(function.body(call))

    return calls.run(function.name, work)


def values(function: SqlFunction, home: Home, arguments: pa.Array) -> pa.Array:
    """One value per row. All predicates that are asked of one release are compiled together."""
    try:
        requests = [Arguments.of_sql(function.name, home, text) for text in arguments.to_pylist()]
    except MwemError as error:
        return pa.array([{"err": sentence(function.name, error)}] * len(arguments), type=_row(function))
    out: list[dict[str, Any]] = [{} for _ in requests]
    groups: dict[str, list[int]] = {}
    for row, call in enumerate(requests):
        same = {name: value for name, value in call.values.items() if name != "predicate"}
        groups.setdefault(repr((call.session.place, call.session.settings, same)), []).append(row)
    for rows in groups.values():
        try:
            with requests[rows[0]].permitted():
                values = function.body([requests[row] for row in rows])
            for row, value in zip(rows, values, strict=True):
                out[row] = value
        except Exception as error:  # noqa: BLE001
            out[rows[0]] = {"err": sentence(function.name, error)}
    return pa.array(out, type=_row(function))


def _row(function: SqlFunction) -> pa.DataType:
    return pa.struct([pa.field("err", pa.string()), *function.schema])


def selects(function: SqlFunction, home: Home, arguments: pa.Array) -> pa.Array:
    """For functions whose columns depend on their arguments: the SELECT of each call, made when DuckDB binds it."""
    return pa.array([_select(function, home, text) for text in arguments.to_pylist()])


def _select(function: SqlFunction, home: Home, text: str) -> str:
    """A list of values for each column, side by side; or what raises the refusal."""
    names: Sequence[str] = ()
    try:
        call = Arguments.of_sql(function.name, home, text)
        names = _names(function, call)
        typed: Typed = _run(function, call, lambda typed: typed)
    except Exception as error:  # noqa: BLE001
        return _raising(sentence(function.name, error), names).sql("duckdb")
    rows = exp.select(exp.alias_(exp.Anonymous(this=f"_{function.name}", expressions=[exp.Literal.string(text)]), "r"))
    # What is not refused when it is bound may be when it runs.
    lists = "CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r.lists END AS v"
    source = exp.select(lists, dialect="duckdb").from_(rows.subquery("c")).subquery("s")
    items = [sqlglot.parse_one(f"unnest(v[{k}])", read="duckdb") for k in range(1, len(typed.types) + 1)]
    return exp.select(*typed.cast(items)).from_(source).sql("duckdb")


def _names(function: SqlFunction, call: Arguments) -> Sequence[str]:
    """The columns that a call has, as far as they are known before it is read.

    Where DuckDB misses a column, it says so in the place of our refusal.
    """
    names = [column.name for column in function.columns]
    if names == ["<column>"]:  # all of the release
        with contextlib.suppress(MwemError):
            return list(call.answerer().stored.classes)
    return () if any(name.startswith("<") for name in names) else names


def _raising(refusal: str, names: Sequence[str]) -> exp.Select:
    """Raises whatever the outer query filters or projects: in a list, before there are rows.

    Without names, DuckDB shows the refusal as the nearest to a column that it misses.
    """
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string(refusal)])
    source = exp.select(exp.alias_(exp.Unnest(expressions=[exp.Array(expressions=[error])]), "r")).subquery("e")
    return exp.select(*(exp.alias_(exp.column("r"), name, quoted=True) for name in names or (refusal,))).from_(source)


def lists(function: SqlFunction, home: Home, arguments: pa.Array) -> pa.Array:
    """Of each call a struct with its refusal, or with a list of values for each column, as text."""
    refusals: list[str | None] = []
    results: list[list[pa.Array]] = []
    for text in arguments.to_pylist():
        try:
            call = Arguments.of_sql(function.name, home, text)
            results.append(_run(function, call, lambda typed: as_texts(typed.rows())))
            refusals.append(None)
        except Exception as error:  # noqa: BLE001
            results.append([])
            refusals.append(sentence(function.name, error))
    columns = [column for each in results for column in each]
    values = pa.concat_arrays([pa.array([], pa.string()), *columns])
    inner = pa.ListArray.from_arrays(_offsets(columns), values)
    outer = pa.ListArray.from_arrays(_offsets(results), inner)
    return pa.StructArray.from_arrays([pa.array(refusals, pa.string()), outer], ["err", "lists"])


def _offsets(lists: Sequence[Sized]) -> pa.Array:
    return pa.array(np.cumsum([0, *map(len, lists)]), pa.int32())


ENTRIES: Mapping[str, Callable[[SqlFunction, Home, pa.Array], pa.Array]] = {
    "values": values, "selects": selects, "lists": lists,
}  # fmt: skip
"""Those without a workload, by the name that `register` knows them by."""
