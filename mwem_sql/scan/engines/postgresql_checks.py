"""CHECK constraints as PostgreSQL prints them, in DuckDB's words: what they declare of a column's domain. Public; no row depends on them."""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.language.ticks import scale_of

_TEXT = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)


def condition(check: str, types: Mapping[str, str], value: str | None = None) -> str | None:
    """A CHECK as PostgreSQL prints it, in DuckDB's words; None if it cannot be read. `value` is the column that VALUE stands for."""
    tree = _parsed(check.strip().removeprefix("CHECK").strip())
    if tree is None:
        return None
    tree = tree.unnest() if isinstance(tree, exp.Paren) else tree
    return tree.transform(lambda node: _translated(node, types, value)).sql("duckdb")


def _parsed(text: str) -> exp.Expr | None:
    try:
        return sqlglot.parse_one(text, dialect="postgres")
    except (SqlglotError, RecursionError):
        return None


def _translated(node: exp.Expr, types: Mapping[str, str], value: str | None) -> exp.Expr:
    if isinstance(node, exp.Column):
        if value is not None and node.name.upper() == "VALUE" and not node.this.quoted:
            return exp.column(value, quoted=True)
        return exp.column(node.name, quoted=True)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        listed = node.expression.this.unnest()
        while isinstance(listed, exp.Cast):
            listed = listed.this.unnest()
        if isinstance(listed, exp.Array):
            column = _translated(_plain(node.this, types, value), types, value)
            return exp.In(
                this=column, expressions=[_translated(item.copy(), types, value) for item in listed.expressions]
            )
    if isinstance(node, exp.Cast):
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal) and node.to.this in (
            *_TEXT,
            exp.DataType.Type.CHAR,
            exp.DataType.Type.BPCHAR,
        ):
            return inner
        if isinstance(inner, exp.Literal) and node.to.this == exp.DataType.Type.USERDEFINED:  # a label of an ENUM
            return inner
        return _plain(node, types, value)
    return node


def _plain(node: exp.Expr, types: Mapping[str, str], value: str | None) -> exp.Expr:
    """A column without a cast that changes none of its values: PostgreSQL compares in a wider type."""
    inner = node.unnest()
    if not isinstance(inner, exp.Cast) or not isinstance(inner.this.unnest(), exp.Column):
        return inner
    column = inner.this.unnest()
    name = value if value is not None and column.name.upper() == "VALUE" else column.name
    own = types.get(name, "")
    scale = scale_of(own)
    to = inner.to
    wider = to.this in _TEXT and own == "VARCHAR"
    if scale is not None and not to.expressions:
        wide = {exp.DataType.Type.BIGINT, exp.DataType.Type.DECIMAL, exp.DataType.Type.DOUBLE}
        wider = {
            "integer": to.this in wide or (to.this == exp.DataType.Type.INT and own == "SMALLINT"),
            "decimal": to.this == exp.DataType.Type.DECIMAL,
            "real": to.this == exp.DataType.Type.DOUBLE,
        }.get(scale.family, False)
    return exp.column(name, quoted=True) if wider else inner
