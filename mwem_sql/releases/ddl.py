"""The statements that make and drop an output whose columns have keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from mwem_sql.platform.catalog import Name
from mwem_sql.synthesis.values import TableKey


def drop(name: Name, kind: str = "TABLE") -> str:
    """Drop an output, or a view, if it is there."""
    # Both: sqlglot has called it `tables` since 30.20.
    return exp.Drop(this=name.tree(), tables=[name.tree()], kind=kind, exists=True).sql("duckdb")


def create(name: Name, types: Mapping[str, str], keys: Sequence[TableKey]) -> str:
    """An empty table with columns of some types, and keys: one that is made of a SELECT has no keys.

    To be run with its schema as the current one: DuckDB below 2.0 looks for what a key refers to there.
    """
    of_keys = {column for key in keys for column in key.columns}
    columns = [
        exp.ColumnDef(
            this=exp.to_identifier(column, quoted=True),
            kind=exp.DataType.build(kind, dialect="duckdb"),
            constraints=[exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())] if column in of_keys else [],
        )
        for column, kind in types.items()
    ]
    schema = exp.Schema(this=name.tree(), expressions=[*columns, *map(_constraint, keys)])
    return exp.Create(this=schema, kind="TABLE").sql("duckdb")


def _constraint(key: TableKey) -> exp.Expr:
    columns = _identifiers(key.columns)
    if key.kind == "PRIMARY KEY":
        return exp.PrimaryKey(expressions=columns)
    if key.refers_to is None:
        return exp.UniqueColumnConstraint(this=exp.Schema(expressions=columns))
    table, others = key.refers_to
    referred = exp.Schema(this=exp.to_identifier(table, quoted=True), expressions=_identifiers(others))
    return exp.ForeignKey(expressions=columns, reference=exp.Reference(this=referred))


def _identifiers(columns: tuple[str, ...]) -> list[exp.Expr]:
    return [exp.to_identifier(column, quoted=True) for column in columns]
