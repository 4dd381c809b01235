"""A domain read off the private rows, for a person to review. Not private, on purpose: only the curator may see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.boundary.relations import Relation
from mwem_sql.compiler.dialects.dialect import Dialect
from mwem_sql.compiler.dialects.known import dialect_of
from mwem_sql.database.catalog import Column, Name
from mwem_sql.database.ticks import cast, scale_of
from mwem_sql.private.engine import as_described
from mwem_sql.private.engines.instance import SameInstance
from mwem_sql.private.engines.protocol import Engine

SUGGESTED_VALUES = 100
"""Values that are listed of a column without an order. A text column with more gets an open list of the most frequent; others get none."""


def suggest_domain(
    rows: Engine | duckdb.DuckDBPyConnection, relation: Relation, declare_in: Name | None = None
) -> list[dict[str, object]]:
    """A domain read off the data, for a person to review. `declare_in` is its domain table, if not the one beside it.

    Privacy:
        None: bounds and values are those of the private rows.
    """
    dialect = dialect_of(relation.dialect)
    engine = SameInstance(rows) if isinstance(rows, duckdb.DuckDBPyConnection) else rows
    with engine.snapshot() as snapshot:
        as_described(relation, "mwem_suggest_domain")(snapshot)

        def ask(query: exp.Select) -> list[tuple[Any, ...]]:
            batches = snapshot.run(dialect.sql(query), SUGGESTED_VALUES)
            return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

        found = [row for column in relation.columns if (row := _suggested(column, relation, dialect, ask)) is not None]
    table = declare_in or relation.name.beside(f"{relation.name.table}_domain")
    return [{**row, "ddl": _declaration(table, row)} for row in found]


def _suggested(
    column: Column, relation: Relation, dialect: Dialect, ask: Callable[[exp.Select], list[tuple[Any, ...]]]
) -> dict[str, object] | None:
    """What one column has; None where there is nothing to list or to bound."""
    name = exp.column(column.name, quoted=True)
    row: dict[str, object] = {"attribute": column.name, "values": None, "low": None, "high": None, "open": False}
    missing = exp.Is(this=name.copy(), expression=exp.null())
    present = exp.Not(this=missing.copy())
    scale = scale_of(column.type)
    if scale is not None:
        value: exp.Expr = name.copy()
        finite = dialect.finite(name.copy(), scale)  # NaN and infinity are no bounds
        if finite is not None:
            value = exp.Case(ifs=[exp.If(this=finite, true=value)])
        ends = [cast(exp.Min(this=value), "VARCHAR"), cast(exp.Max(this=value.copy()), "VARCHAR")]
        shown = [exp.alias_(end, alias) for end, alias in zip(ends, ("low", "high"), strict=True)]
        row["low"], row["high"] = ask(exp.select(*shown).from_(relation.tree()))[0]
        if row["low"] is None:
            return None
    else:
        listed = (
            exp.select(exp.alias_(cast(name.copy(), "VARCHAR"), "v")).distinct().from_(relation.tree())
            .where(present.copy()).order_by(exp.column("v")).limit(SUGGESTED_VALUES + 1)
        )  # fmt: skip
        values = [value for (value,) in ask(listed)]
        if len(values) > SUGGESTED_VALUES and column.type == "VARCHAR":
            row["open"] = True
            # Not those seen once: names and keys are no categories.
            frequent = (
                exp.select(name.copy()).from_(relation.tree()).where(present.copy()).group_by(name.copy())
                .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
                .order_by(exp.Count(this=exp.Star()).desc(), name.copy()).limit(SUGGESTED_VALUES)
            )  # fmt: skip
            values = [value for (value,) in ask(frequent)]
        if not 0 < len(values) <= SUGGESTED_VALUES:
            return None
        row["values"] = values
    nulls = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(relation.tree()).where(missing)
    row["nullable"] = row["open"] or bool(ask(nulls)[0][0])
    return row


def _declaration(table: Name, row: dict[str, object]) -> str:
    """The INSERT that would declare a suggested attribute in the domain table, which need not have the column `open`."""
    given = {name: value for name, value in row.items() if name != "open" or value}
    columns = [exp.to_identifier(name, quoted=name == "values") for name in given]
    declared = exp.Tuple(expressions=[exp.convert(value) for value in given.values()])
    return exp.Insert(
        this=exp.Schema(this=table.tree(), expressions=columns), expression=exp.Values(expressions=[declared])
    ).sql("duckdb")
