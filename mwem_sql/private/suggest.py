"""A domain read off the private rows, for a person to review. Not private, on purpose: only the curator may see it."""

from __future__ import annotations

import duckdb
from sqlglot import exp

from mwem_sql.boundary.relations import Relation
from mwem_sql.database.ticks import cast, scale_of

SUGGESTED_VALUES = 100
"""Values that are listed of a column without an order. A text column with more gets an open list of the most frequent; others get none."""


def suggest_domain(con: duckdb.DuckDBPyConnection, relation: Relation) -> list[dict[str, object]]:
    """A domain read off the data, for a person to review.

    Privacy:
        None: bounds and values are those of the private rows.
    """
    out: list[dict[str, object]] = []
    for column in relation.columns:
        name = exp.column(column.name, quoted=True)
        row: dict[str, object] = {"attribute": column.name, "values": None, "low": None, "high": None, "open": False}
        scale = scale_of(column.type)
        if scale is not None:
            value: exp.Expr = name.copy()
            if scale.family not in {"integer", "decimal"}:  # NaN and infinity are no bounds
                finite = exp.Anonymous(this="isfinite", expressions=[name.copy()])
                value = exp.Case(ifs=[exp.If(this=finite, true=value)])
            ends = [cast(exp.Min(this=value), "VARCHAR"), cast(exp.Max(this=value.copy()), "VARCHAR")]
            row["low"], row["high"] = con.execute(exp.select(*ends).from_(relation.tree()).sql("duckdb")).fetchall()[0]
            if row["low"] is None:
                continue
        else:
            listed = (
                exp.select(cast(name.copy(), "VARCHAR")).distinct().from_(relation.tree())
                .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null()))).order_by(exp.Literal.number(1))
                .limit(SUGGESTED_VALUES + 1)
            )  # fmt: skip
            values = [value for (value,) in con.execute(listed.sql("duckdb")).fetchall()]
            if len(values) > SUGGESTED_VALUES and column.type == "VARCHAR":
                row["open"] = True
                # Not those seen once: names and keys are no categories.
                frequent = (
                    exp.select(name.copy()).from_(relation.tree())
                    .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.null()))).group_by(name.copy())
                    .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
                    .order_by(exp.Count(this=exp.Star()).desc(), name.copy()).limit(SUGGESTED_VALUES)
                )  # fmt: skip
                values = [value for (value,) in con.execute(frequent.sql("duckdb")).fetchall()]
            if not 0 < len(values) <= SUGGESTED_VALUES:
                continue
            row["values"] = values
        nulls = (
            exp.select(exp.Count(this=exp.Star()))
            .from_(relation.tree())
            .where(exp.Is(this=name.copy(), expression=exp.null()))
        )
        row["nullable"] = row["open"] or bool(con.execute(nulls.sql("duckdb")).fetchall()[0][0])
        row["ddl"] = _declaration(relation, row)
        out.append(row)
    return out


def _declaration(relation: Relation, row: dict[str, object]) -> str:
    """The INSERT that would declare a suggested attribute in the domain table, which need not have the column `open`."""
    given = {name: value for name, value in row.items() if name != "open" or value}
    table = relation.name.beside(f"{relation.name.stem}_domain").tree()
    columns = [exp.to_identifier(name, quoted=name == "values") for name in given]
    declared = exp.Tuple(expressions=[exp.convert(value) for value in given.values()])
    return exp.Insert(
        this=exp.Schema(this=table, expressions=columns), expression=exp.Values(expressions=[declared])
    ).sql("duckdb")
