"""DuckDB's own dialect: class codes by `scan/codes.py`, groups by GROUP BY ALL. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mwem_sql.domains.classes import Classes
from mwem_sql.language.ticks import Scale, cast
from mwem_sql.scan import codes
from mwem_sql.scan.codes import Reading, Rows, Unit
from mwem_sql.scan.dialects.dialect import COUNT, MOST


class Native:
    """DuckDB: in the caller's instance, or in one of its own in the same process."""

    name = "duckdb"
    streams = True
    most_groups: int | None = None

    def is_text(self, classes: Classes) -> bool:
        return codes.is_text(classes)

    def is_wide(self, classes: Classes) -> bool:
        return codes.is_wide(classes)

    def reading(self, classes: Classes) -> Reading:
        return codes.reading(classes)

    def source(self, table: Rows, classes: Sequence[Classes], unit: Unit | None) -> exp.Expr:
        return codes.source(table, list(dict.fromkeys(own.attribute for own in classes)), unit)

    def unit_key(self, unit: Unit) -> exp.Expr:
        return codes.unit_key(unit)

    def grouped(self, source: exp.Expr, own: Sequence[Classes]) -> exp.Select:
        """Group by codes; where one is looked up by text, by the text, and then turn the groups into codes."""
        # Not copied: a column that was cut ten thousand times is a large tree.
        keys = [exp.alias_(codes.group_key(item), f"c{k}", copy=False) for k, item in enumerate(own)]
        query = exp.select(*keys, exp.alias_(exp.Count(this=exp.Star()), COUNT), copy=False).from_(
            source.copy(), copy=False
        )
        # GROUP BY ALL and not by name: the table may have a column of the same name, which would come first.
        query.set("group", exp.Group(all=True))
        if any(map(codes.is_text, own)):
            found = [
                exp.alias_(codes.group_code(item, exp.column(f"c{k}", table="__groups")), f"c{k}")
                for k, item in enumerate(own)
            ]
            total = exp.alias_(cast(exp.Sum(this=exp.column(COUNT, table="__groups")), "BIGINT"), COUNT)
            query = exp.select(*found, total).from_(query.subquery("__groups"))
            query.set("group", exp.Group(all=True))
        return query

    def coded(self, source: exp.Expr, own: Sequence[Classes]) -> exp.Select:
        """The codes of every row."""
        read = [exp.alias_(codes.row_code(item), f"c{k}", copy=False) for k, item in enumerate(own)]
        return exp.select(*read, copy=False).from_(source.copy(), copy=False)

    def whole_code(self, classes: Classes) -> exp.Expr:
        return codes.whole_code(classes)

    def lookup(self, table: Sequence[int], place: exp.Expr, kind: str) -> exp.Expr:
        return codes.lookup(table, place, kind)

    def count(self, test: exp.Expr | None) -> exp.Expr:
        if test is None:
            return exp.Count(this=exp.Star())
        return cast(_or_zero(exp.Anonymous(this="count_if", expressions=[test])), "BIGINT")

    def total(self, amount: exp.Expr) -> exp.Expr:
        """A sum that saturates at what an int64 holds: SUM of BIGINT is a HUGEINT."""
        capped = exp.Anonymous(this="least", expressions=[_or_zero(exp.Sum(this=amount)), exp.Literal.number(MOST)])
        return cast(exp.Anonymous(this="greatest", expressions=[capped, exp.Literal.number(-MOST)]), "BIGINT")

    def finite(self, value: exp.Expr, scale: Scale) -> exp.Expr | None:
        """Whether a value is neither infinite nor NaN; None where the type has no such values."""
        if scale.family in {"integer", "decimal"}:
            return None
        return exp.Anonymous(this="isfinite", expressions=[value])

    def constant(self, text: str, type_text: str) -> exp.Expr:
        """A value as a typed constant."""
        return cast(exp.Literal.string(text), type_text)

    def sql(self, tree: exp.Expr, *, pretty: bool = False) -> str:
        return tree.sql("duckdb", pretty=pretty)


def _or_zero(aggregate: exp.Expr) -> exp.Expr:
    """Of no rows at all SUM is NULL, and so is DuckDB's count_if."""
    return exp.Coalesce(this=aggregate, expressions=[exp.Literal.number(0)])
