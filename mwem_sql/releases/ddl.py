"""The statements that make and drop an output whose columns have keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from mwem_sql.platform.catalog import Name
from mwem_sql.synthesis.values import KeyColumn


def drop(name: Name) -> str:
    """Drop an output, if it is there."""
    # Both: sqlglot has called it `tables` since 30.20.
    return exp.Drop(this=name.tree(), tables=[name.tree()], kind="TABLE", exists=True).sql("duckdb")


def create(name: Name, types: Mapping[str, str], keys: Mapping[str, KeyColumn]) -> str:
    """An empty table with columns of some types, and keys: one that is made of a SELECT has no keys.

    To be run with its schema as the current one: DuckDB below 2.0 looks for what a key refers to there.
    """
    columns = [
        exp.ColumnDef(
            this=exp.to_identifier(column, quoted=True),
            kind=exp.DataType.build(kind, dialect="duckdb"),
            constraints=[exp.ColumnConstraint(kind=each) for each in _constraints(keys.get(column))],
        )
        for column, kind in types.items()
    ]
    schema = exp.Schema(this=name.tree(), expressions=columns)
    return exp.Create(this=schema, kind="TABLE").sql("duckdb")


def _constraints(key: KeyColumn | None) -> Iterator[exp.Expr]:
    if key is None:
        return
    yield exp.PrimaryKeyColumnConstraint() if key.kind == "PRIMARY KEY" else exp.NotNullColumnConstraint()
    if key.kind == "UNIQUE":
        yield exp.UniqueColumnConstraint()
    if key.refers_to is not None:
        table, column = key.refers_to
        referred = exp.Schema(
            this=exp.to_identifier(table, quoted=True), expressions=[exp.to_identifier(column, quoted=True)]
        )
        yield exp.Reference(this=referred)
