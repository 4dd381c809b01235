"""DuckDB's dialect: codes by enum_code, lists and comparisons, groups by GROUP BY ALL. Runs nothing.

A code is NULL where the value is missing; whoever reads codes puts `missing` there. Codes are unsigned and as narrow
as they come.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.language.ticks import Scale, as_text, cast
from mwem_sql.scan.dialects.dialect import (
    COUNT,
    LARGEST_SUM,
    ColumnReading,
    Dialect,
    PrivateRows,
    Unit,
    choose,
    first_of_runs,
    is_null,
    missing,
    other,
    search,
)

MAX_TREE = 512
"""Runs of values that SQL distinguishes at all; with more, codes are made from ticks outside of SQL. Time per row grows
with it: a tree of 10,000 comparisons takes 9 microseconds, one of 64 a twentieth of one."""


class DuckDBDialect(Dialect):
    """DuckDB: in the caller's instance, or in another one in the same process."""

    name = "duckdb"
    streams = True
    most_groups = None

    def __init__(self, max_tree: int = MAX_TREE) -> None:
        self._max_tree = max_tree

    def is_text(self, classes: Classes) -> bool:
        """Whether a code is looked up by the value's text, which is better done for each group than for each row."""
        attribute = classes.attribute
        return attribute.values is not None and _type_values(attribute) is None

    def is_wide(self, classes: Classes) -> bool:
        """Whether a column has so many cuts that codes are made outside of SQL."""
        if classes.attribute.values is not None or _is_counted(classes):
            return False
        return len(first_of_runs(classes)) > self._max_tree

    def reading(self, classes: Classes) -> ColumnReading:
        if not self.is_wide(classes):
            return super().reading(classes)
        runs = first_of_runs(classes)
        return ColumnReading(missing(classes), classes.pieces.lows[runs], classes.codes[runs])

    def source(self, table: PrivateRows, columns: Sequence[Classes], unit: Unit | None) -> exp.Expr:
        """The private table, or at most `unit.rows` rows of each unit.

        A unit's rows are ranked by a hash of what the release reads of them, so that every scan keeps the same ones and
        no unit's choice depends on another's. Rows without a unit are left out.
        """
        if unit is None:
            return table.tree()
        key = self.unit_key(unit)
        values = [_exact(attribute) for attribute in dict.fromkeys(classes.attribute for classes in columns)]
        hashed = [*(column.copy() for column in key), *values]
        order = [exp.Anonymous(this="hash", expressions=hashed), *(value.copy() for value in values)]
        ordered = exp.Order(expressions=[exp.Ordered(this=item) for item in order])
        rank = exp.Window(this=exp.RowNumber(), partition_by=key, order=ordered)
        bounded = (
            exp.select("*").from_(table.tree()).where(unit.known)
            .qualify(exp.LTE(this=rank, expression=exp.Literal.number(unit.rows)))
        )  # fmt: skip
        return bounded.subquery("__bounded")

    def text(self, value: exp.Expr, type_text: str) -> exp.Expr:
        """A text that is compared by its bytes, whatever the collation of its column."""
        return exp.Collate(this=as_text(value, type_text), expression=exp.to_identifier("C", quoted=True))

    def _unit_column(self, name: str, kind: str) -> exp.Expr:
        """What distinguishes units: the bytes of a text. A collation takes 'aB3' for 'Ab3', which is another unit."""
        column = exp.column(name, quoted=True)
        return exp.Anonymous(this="encode", expressions=[column]) if kind.startswith("VARCHAR") else column

    def grouped(self, source: exp.Expr, columns: Sequence[Classes]) -> exp.Select:
        """Group by codes; where one is looked up by text, by the text, and then turn the groups into codes."""
        # Not copied: a column with ten thousand cuts is a large tree.
        keys = [exp.alias_(self._group_key(classes), f"c{k}", copy=False) for k, classes in enumerate(columns)]
        count = exp.alias_(exp.Count(this=exp.Star()), COUNT)
        query = exp.select(*keys, count, copy=False).from_(source.copy(), copy=False)
        # GROUP BY ALL and not by name: the table may have a column of the same name, which would come first.
        query.set("group", exp.Group(all=True))
        if any(map(self.is_text, columns)):
            codes = [
                exp.alias_(self._group_code(classes, exp.column(f"c{k}", table="__groups")), f"c{k}")
                for k, classes in enumerate(columns)
            ]
            total = exp.alias_(cast(exp.Sum(this=exp.column(COUNT, table="__groups")), "BIGINT"), COUNT)
            query = exp.select(*codes, total).from_(query.subquery("__groups"))
            query.set("group", exp.Group(all=True))
        return query

    def coded(self, source: exp.Expr, columns: Sequence[Classes]) -> exp.Select:
        """The codes of every row, or the ticks of a wide column."""
        codes = [self._group_code(classes, self._group_key(classes)) for classes in columns]
        named = [exp.alias_(code, f"c{k}", copy=False) for k, code in enumerate(codes)]
        return exp.select(*named, copy=False).from_(source.copy(), copy=False)

    def whole_code(self, classes: Classes) -> exp.Expr:
        """The code of a row, never NULL; whatever the number of cuts."""
        is_text = self.is_text(classes)
        code = self._group_code(classes, self._group_key(classes)) if is_text else _direct(classes)
        return exp.Coalesce(this=code, expressions=[exp.Literal.number(missing(classes))])

    def _group_key(self, classes: Classes) -> exp.Expr:
        """What to group rows by so that a group has one code: the code, or the text or tick that it is looked up by."""
        attribute = classes.attribute
        if self.is_wide(classes):
            return attribute.ordered.measure(_clamped(attribute, exp.column(attribute.name, quoted=True)))
        return _exact(attribute) if self.is_text(classes) else _direct(classes)

    def _group_code(self, classes: Classes, key: exp.Expr) -> exp.Expr:
        """The code of a group from its key, or the key where it is looked up outside of SQL."""
        if not self.is_text(classes):
            return key
        attribute = classes.attribute
        values = attribute.values or ()
        if not values:  # an open list of nothing
            return cast(choose(is_null(key), None, other(classes)), _integer_type(classes.count))
        # A listed value as an ENUM in the order of the list; NULL for anything else.
        kind = exp.DataType(this=exp.DataType.Type.ENUM, expressions=[exp.Literal.string(text) for text in values])
        text = as_text(key, attribute.type) if _compares_exactly(attribute) else key
        position = exp.Anonymous(this="enum_code", expressions=[exp.TryCast(this=text, to=kind)])
        code = _mapped(position, classes.codes[: len(values)])
        if other(classes) == missing(classes):
            return code
        # NULL stays NULL; any other text without a position is off the list.
        listed = exp.Coalesce(this=code, expressions=[exp.Literal.number(other(classes))])
        return cast(choose(is_null(key), None, listed), _integer_type(classes.count))

    def lookup(self, table: Sequence[int], index: exp.Expr, kind: str) -> exp.Expr:
        """`table[index]`, counted from 0; NULL for NULL.

        As a constant list: a few ns, where a CASE of 16 branches takes 16.
        """
        listed = cast(exp.Literal.string("[" + ",".join(map(str, table)) + "]"), f"{kind}[]")
        # BIGINT because 255 + 1 would raise as a UTINYINT.
        after = exp.Add(this=cast(index, "BIGINT"), expression=exp.Literal.number(1))
        return exp.Anonymous(this="list_extract", expressions=[listed, after])

    def count(self, test: exp.Expr | None) -> exp.Expr:
        if test is None:
            return exp.Count(this=exp.Star())
        return cast(_or_zero(exp.Anonymous(this="count_if", expressions=[test])), "BIGINT")

    def total(self, amount: exp.Expr) -> exp.Expr:
        """A sum that saturates at what an int64 holds: SUM of BIGINT is a HUGEINT."""
        most, least = exp.Literal.number(LARGEST_SUM), exp.Literal.number(-LARGEST_SUM)
        capped = exp.Anonymous(this="least", expressions=[_or_zero(exp.Sum(this=amount)), most])
        return cast(exp.Anonymous(this="greatest", expressions=[capped, least]), "BIGINT")

    def finite(self, value: exp.Expr, scale: Scale) -> exp.Expr | None:
        """Whether a value is neither infinite nor NaN; None where the type has no such values."""
        if scale.family in {"integer", "decimal"}:
            return None
        return exp.Anonymous(this="isfinite", expressions=[value])

    def constant(self, text: str, type_text: str) -> exp.Expr:
        """A value as a typed constant."""
        return cast(exp.Literal.string(text), type_text)


DUCKDB = DuckDBDialect()


def _or_zero(aggregate: exp.Expr) -> exp.Expr:
    """Of no rows at all SUM is NULL, and so is DuckDB's count_if."""
    return exp.Coalesce(this=aggregate, expressions=[exp.Literal.number(0)])


def _integer_type(count: int) -> str:
    """The narrowest type of codes below `count`."""
    return "UTINYINT" if count <= 2**8 else "USMALLINT" if count <= 2**16 else "UINTEGER"


def _direct(classes: Classes) -> exp.Expr:
    """The code of a value between bounds, or of a type that has a code for each of its values."""
    attribute = classes.attribute
    column = exp.column(attribute.name, quoted=True)
    listed = _type_values(attribute)
    if attribute.values is None or listed is None:
        return _bounded(classes, column)
    code_of = dict(zip(attribute.values, classes.codes.tolist(), strict=False))
    codes = np.array([code_of.get(value, other(classes)) for value in listed])
    if attribute.type == "BOOLEAN":
        return _mapped(cast(column, "UTINYINT"), codes)
    return _mapped(exp.Anonymous(this="enum_code", expressions=[column]), codes)


def _type_values(attribute: Attribute) -> list[str] | None:
    """All values of a type that has a code for each of them."""
    if attribute.type == "BOOLEAN":
        return ["false", "true"]
    if attribute.type.startswith("ENUM("):
        return [item.name for item in exp.DataType.build(attribute.type, dialect="duckdb").expressions]
    return None


def _mapped(index: exp.Expr, codes: npt.NDArray[np.signedinteger]) -> exp.Expr:
    """The code at an index; the index itself where it is the same."""
    if (codes == np.arange(len(codes))).all():
        return index
    return DUCKDB.lookup(codes.tolist(), index, _integer_type(int(codes.max()) + 1))


def _bounded(classes: Classes, column: exp.Expr) -> exp.Expr:
    """The code of a value between bounds: by comparisons where cuts are few, else by its distance from the low end."""
    attribute = classes.attribute
    codes = classes.codes[: classes.pieces.non_null]
    if _is_counted(classes):
        low = int(attribute.least)
        offset = attribute.ordered.measure(_clamped(attribute, column))
        if low:
            offset = exp.Sub(this=offset, expression=exp.Literal.number(low))
        return cast(_mapped(offset, codes), _integer_type(classes.count))
    runs = first_of_runs(classes)
    starts = [attribute.ordered.literal(tick) for tick in classes.pieces.lows[runs].tolist()]
    code = search(column, starts, [exp.Literal.number(code) for code in codes[runs].tolist()])
    return cast(choose(is_null(column), None, code), _integer_type(classes.count))  # NULL first: no comparison is true


def _is_counted(classes: Classes) -> bool:
    """Whether the code of a value between bounds comes from its distance from the low end.

    Beyond 64 runs that is faster than comparisons.
    """
    attribute, runs = classes.attribute, len(first_of_runs(classes))
    is_range = attribute.ordered.discrete and classes.pieces.listed
    is_value = attribute.ordered.family == "integer" and 2 < runs == classes.pieces.non_null
    return is_range and (is_value or runs > 64)


def _clamped(attribute: Attribute, column: exp.Expr) -> exp.Expr:
    """What a value counts as: itself within the bounds, else the tick that stands for what is beyond; NULL for NULL.

    By CASE, whose first branch nearly all rows take: with greatest and least, four whole numbers and four texts of 10M
    rows took 2.1 times a bare GROUP BY of them, and so 1.3
    (`benchmarks/engines.py --engines duckdb --rows 10000000`).
    """
    assert attribute.low is not None and attribute.high is not None
    scale = attribute.ordered
    low, high = scale.literal(attribute.low), scale.literal(attribute.high)
    cases = [
        (exp.Between(this=column, low=low, high=high), column),
        (exp.LT(this=column, expression=low), scale.literal(attribute.least)),
        (exp.GT(this=column, expression=high), scale.literal(attribute.most)),
    ]
    return exp.Case(ifs=[exp.If(this=test.copy(), true=value.copy()) for test, value in cases])


def _exact(attribute: Attribute) -> exp.Expr:
    """A column so that rows are grouped together only if they have one code.

    Values that compare as equal can print differently ('a' and 'A' under a collation, '1 month' and '30 days'); which
    of them a group shows would depend on the other rows.
    """
    column = exp.column(attribute.name, quoted=True)
    if _compares_exactly(attribute):
        return column
    return DUCKDB.text(column, attribute.type)


def _compares_exactly(attribute: Attribute) -> bool:
    return attribute.scale is not None or attribute.type == "BOOLEAN" or attribute.type.startswith("ENUM(")
