"""PostgreSQL's dialect: binary search by width_bucket, texts under the collation "C". Runs nothing.

What makes it exact, and was checked against DuckDB: float8 and float4 order NaN above all numbers and -0.0 equals 0.0;
numeric is exact; dates and timestamps count days and microseconds and have both infinities; "C" compares bytes,
whatever the column's collation or type (citext, char(n), a domain), after a cast to text.

No user's code runs: operators and functions are looked up in pg_catalog (the engine sets search_path), and values
become text only by casts that PostgreSQL came with (of text, varchar, char(n), name) or by the output function of their
type. A CAST of an enum or a UUID would be anybody's who made one with CREATE CAST.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mwem_sql.language.ticks import Scale, Tick, cast
from mwem_sql.scan.dialects.dialect import Dialect


class PostgreSQLDialect(Dialect):
    name = "postgres"

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:
        output = "enum_out" if type_text.startswith("ENUM(") else "uuid_out" if type_text == "UUID" else None
        printed = value if output is None else exp.Anonymous(this=output, expressions=[value])
        return exp.Collate(this=cast(printed, "VARCHAR"), expression=exp.to_identifier("C", quoted=True))

    def hash(self, values: Sequence[exp.Expr]) -> exp.Expr:
        """MD5 of what concat prints by the output function of each type: the same bytes as in other engines."""
        items = [item for value in values for item in (exp.Literal.string(" "), value.copy())][1:]
        return exp.MD5(this=exp.Anonymous(this="concat", expressions=items))

    def steps(self, value: exp.Expr, scale: Scale, starts: Sequence[Tick], results: Sequence[int]) -> exp.Expr:
        """By width_bucket: how many of the later starts are not above the value."""
        if len(starts) <= 4:  # comparisons are cheaper than a call
            return super().steps(value, scale, starts, results)
        later = _array([scale.text(tick) for tick in starts[1:]], scale.type)
        rank = exp.Anonymous(this="width_bucket", expressions=[value.copy(), later])
        if list(results) == list(range(len(results))):
            return rank
        table = _array([str(result) for result in results], "BIGINT")
        after = exp.Add(this=rank, expression=exp.Literal.number(1))
        return exp.Bracket(this=exp.paren(table), expressions=[after], offset=1)

    def finite(self, value: exp.Expr, scale: Scale) -> exp.Expr | None:
        if scale.family in {"date", "timestamp", "timestamptz"}:
            return exp.Anonymous(this="isfinite", expressions=[value])
        if scale.family == "decimal":
            return exp.NEQ(this=value, expression=cast(exp.Literal.string("NaN"), "DECIMAL"))
        return super().finite(value, scale)


def _array(texts: Sequence[str], type_text: str) -> exp.Expr:
    """An array as one constant, which PostgreSQL reads once and not for each row."""
    listed = "{" + ",".join(f'"{text}"' for text in texts) + "}"
    return cast(exp.Literal.string(listed), f"{type_text}[]")
