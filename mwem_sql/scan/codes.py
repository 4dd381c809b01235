"""The class of a row as SQL: total functions of one column, as sqlglot trees. Runs nothing.

Unknown and NULL values have a class too, and so have numbers outside the bounds; nothing can raise. A code is NULL where
the value is missing; whoever reads codes puts `missing` there. Codes are unsigned and as narrow as they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.language.ticks import Tick, as_text, cast

MAX_TREE = 512  # boundaries that SQL tells apart by comparisons at all: of 10,000 they take 9 microseconds a row, and of 64 a twentieth of one
_MAX_CUTS = 64  # boundaries that are told apart by comparisons; beyond it a listed range is counted from its low end


class Rows(Protocol):
    """What a scan reads: a table, or a private relation written out."""

    def tree(self) -> exp.Expr: ...


@dataclass(frozen=True)
class Unit:
    """Whose rows are protected together, and how many of them are read."""

    column: str
    rows: int
    type: str = "BIGINT"

    @property
    def is_text(self) -> bool:
        return self.type.startswith("VARCHAR")


def source(table: Rows, attributes: Sequence[Attribute], unit: Unit | None) -> exp.Expr:
    """The private table, or at most `unit.rows` rows of each unit.

    A unit's rows are ranked by a hash of what the release reads of them, so that every scan keeps the same ones and
    no unit's choice depends on another's. Rows without a unit are left out.
    """
    if unit is None:
        return table.tree()
    column, key = exp.column(unit.column, quoted=True), unit_key(unit)
    read = [_exact(attribute) for attribute in attributes]
    rank = exp.Window(
        this=exp.RowNumber(),
        partition_by=[key.copy()],
        order=exp.Order(
            expressions=[
                exp.Ordered(this=exp.Anonymous(this="hash", expressions=[key.copy(), *read])),
                *(part.copy() for part in read),
            ]
        ),
    )
    picked = (
        exp.select("*").from_(table.tree())
        .where(exp.Not(this=exp.Is(this=column.copy(), expression=exp.null())))
        .qualify(exp.LTE(this=rank, expression=exp.Literal.number(unit.rows)))
    )  # fmt: skip
    return picked.subquery("__bounded")


def unit_key(unit: Unit) -> exp.Expr:
    """What tells units apart: the bytes of a text. Under a collation 'aB3' and 'Ab3' are equal, but not one unit."""
    column = exp.column(unit.column, quoted=True)
    return exp.Anonymous(this="encode", expressions=[column]) if unit.is_text else column


def missing(classes: Classes) -> int:
    """The class of NULL: that of the NULL piece. Where no NULL can be, that of values off the list, or else of the first ones."""
    return int(classes.codes[-1]) if classes.attribute.nullable else other(classes)


def other(classes: Classes) -> int:
    """The class of values off a list: that of their piece. Where none can be, that of NULL, or else of the first values."""
    attribute = classes.attribute
    if attribute.values is None or not attribute.open:
        return int(classes.codes[-1 if attribute.nullable else 0])
    return int(classes.codes[len(attribute.values)])


def is_text(classes: Classes) -> bool:
    """Whether a code is looked up by the value's text, which is better done once for each group than for each row."""
    attribute = classes.attribute
    return attribute.values is not None and _type_values(attribute) is None


@dataclass(frozen=True, eq=False)
class Reading:
    """How a column of a result is read: NULL is the class `missing`, anything else a code.

    Of a column that is cut too often for SQL it is a tick instead, and has the class `codes[i]` of the last run that begins, at
    `starts[i]`, no later.
    """

    missing: int
    starts: npt.NDArray[Any] | None = None
    codes: npt.NDArray[np.int32] | None = None


def reading(classes: Classes) -> Reading:
    if not is_wide(classes):
        return Reading(missing(classes))
    runs = first_of_runs(classes)
    return Reading(missing(classes), classes.pieces.lows[runs], classes.codes[runs])


def is_wide(classes: Classes) -> bool:
    """Whether a column is cut so often that codes are found outside of SQL."""
    return classes.attribute.values is None and not _is_counted(classes) and len(first_of_runs(classes)) > MAX_TREE


def group_key(classes: Classes) -> exp.Expr:
    """What to group rows by so that a group has one code: the code itself, unless it is looked up by text, or outside of SQL."""
    if is_wide(classes):
        column = exp.column(classes.attribute.name, quoted=True)
        return classes.attribute.ordered.measure(_clamped(classes.attribute, column))
    return _exact(classes.attribute) if is_text(classes) else _direct(classes)


def group_code(classes: Classes, key: exp.Expr) -> exp.Expr:
    """The code of a group from its key, or the key where it is looked up outside of SQL."""
    if not is_text(classes):
        return key
    attribute = classes.attribute
    # A listed value as an ENUM in the order of the list; NULL for anything else.
    kind = exp.DataType(
        this=exp.DataType.Type.ENUM, expressions=[exp.Literal.string(text) for text in attribute.values or ()]
    )
    text = as_text(key, attribute.type) if _compares_exactly(attribute) else key
    place = exp.Anonymous(this="enum_code", expressions=[exp.TryCast(this=text, to=kind)])
    assert attribute.values is not None
    code = _mapped(place, classes.codes[: len(attribute.values)])
    if other(classes) == missing(classes):
        return code
    # NULL stays NULL; what else is on no place is off the list.
    listed = exp.Coalesce(this=code, expressions=[exp.Literal.number(other(classes))])
    return cast(_or_null(key, listed), integer_type(classes.count))


def row_code(classes: Classes) -> exp.Expr:
    """The code of a row, or what it is looked up by."""
    return group_code(classes, group_key(classes))


def whole_code(classes: Classes) -> exp.Expr:
    """The code of a row, never NULL; whatever the number of cuts."""
    code = row_code(classes) if is_text(classes) else _direct(classes)
    return exp.Coalesce(this=code, expressions=[exp.Literal.number(missing(classes))])


def lookup(table: Sequence[int], place: exp.Expr, kind: str) -> exp.Expr:
    """`table[place]`, counted from 0; NULL for NULL. As a constant list: a few ns, where a CASE of 16 branches takes 16."""
    listed = cast(exp.Literal.string("[" + ",".join(map(str, table)) + "]"), f"{kind}[]")
    # BIGINT because 255 + 1 would raise as a UTINYINT.
    after = exp.Add(this=cast(place, "BIGINT"), expression=exp.Literal.number(1))
    return exp.Anonymous(this="list_extract", expressions=[listed, after])


def integer_type(count: int) -> str:
    """The narrowest type of codes below `count`."""
    return "UTINYINT" if count <= 2**8 else "USMALLINT" if count <= 2**16 else "UINTEGER"


def _direct(classes: Classes) -> exp.Expr:
    attribute = classes.attribute
    column = exp.column(attribute.name, quoted=True)
    if attribute.values is None:
        return _bounded(classes, column)
    listed = _type_values(attribute)
    assert listed is not None
    known = dict(zip(attribute.values, classes.codes.tolist(), strict=False))
    codes = np.array([known.get(value, other(classes)) for value in listed])
    place = (
        cast(column, "UTINYINT")
        if attribute.type == "BOOLEAN"
        else exp.Anonymous(this="enum_code", expressions=[column])
    )
    return _mapped(place, codes)


def _type_values(attribute: Attribute) -> list[str] | None:
    """All values of a type that has a code for each of them."""
    if attribute.type == "BOOLEAN":
        return ["false", "true"]
    if attribute.type.startswith("ENUM("):
        return [item.name for item in exp.DataType.build(attribute.type, dialect="duckdb").expressions]
    return None


def _mapped(place: exp.Expr, codes: npt.NDArray[np.signedinteger]) -> exp.Expr:
    """The code at a place; the place itself where it is the same."""
    if (codes == np.arange(len(codes))).all():
        return place
    return lookup(codes.tolist(), place, integer_type(int(codes.max()) + 1))


def _bounded(classes: Classes, column: exp.Expr) -> exp.Expr:
    """The code of a value between bounds: by comparisons where they are few, by its distance from the low end otherwise."""
    attribute, scale = classes.attribute, classes.attribute.ordered
    assert attribute.low is not None
    codes = classes.codes[: classes.pieces.known]
    if _is_counted(classes):
        low = int(attribute.least)
        offset = scale.measure(_clamped(attribute, column))
        if low:
            offset = exp.Sub(this=offset, expression=exp.Literal.number(low))
        return cast(_mapped(offset, codes), integer_type(classes.count))
    runs = first_of_runs(classes)
    known = _search(attribute, classes.pieces.lows[runs].tolist(), codes[runs].tolist())
    return cast(_or_null(column, known), integer_type(classes.count))


def first_of_runs(classes: Classes) -> npt.NDArray[np.intp]:
    """The first piece of each run of neighbouring pieces in one class, NULL aside."""
    return np.flatnonzero(np.diff(classes.codes[: classes.pieces.known], prepend=-1))


def _is_counted(classes: Classes) -> bool:
    """Whether the code of a value between bounds is found by its distance from the low end."""
    attribute, cuts = classes.attribute, len(first_of_runs(classes))
    is_range = attribute.ordered.discrete and classes.pieces.listed
    is_own_code = attribute.ordered.family == "integer" and 2 < cuts == classes.pieces.known
    return is_range and (is_own_code or cuts > _MAX_CUTS)


def _clamped(attribute: Attribute, column: exp.Expr) -> exp.Expr:
    """What a value counts as: itself within the bounds, else the tick that stands for what is beyond; NULL for NULL.

    By CASE, whose first branch nearly all rows take: with greatest and least, four whole numbers and four texts of 10M rows took 2.1
    times a bare GROUP BY of them, and so 1.3 (`benchmarks/engines.py --engines duckdb --rows 10000000`).
    """
    assert attribute.low is not None and attribute.high is not None
    scale = attribute.ordered
    low, high = scale.literal(attribute.low), scale.literal(attribute.high)
    tests = [
        (exp.Between(this=column, low=low, high=high), column),
        (exp.LT(this=column, expression=low), scale.literal(attribute.least)),
        (exp.GT(this=column, expression=high), scale.literal(attribute.most)),
    ]
    return exp.Case(ifs=[exp.If(this=test.copy(), true=found.copy()) for test, found in tests])


def _or_null(column: exp.Expr, known: exp.Expr) -> exp.Expr:
    """What is made of a column, and NULL for NULL: comparisons, least and greatest do not pass it on, so it is asked for first."""
    return exp.Case(
        ifs=[exp.If(this=exp.Is(this=column.copy(), expression=exp.null()), true=exp.null())], default=known
    )


def _search(attribute: Attribute, starts: Sequence[Tick], codes: Sequence[int]) -> exp.Expr:
    """The code of the run that a value is in: a balanced tree of comparisons with the runs' first values."""
    if len(starts) == 1:
        return exp.Literal.number(codes[0])
    middle = len(starts) // 2
    test = exp.GTE(this=exp.column(attribute.name, quoted=True), expression=attribute.ordered.literal(starts[middle]))
    return exp.Case(
        ifs=[exp.If(this=test, true=_search(attribute, starts[middle:], codes[middle:]))],
        default=_search(attribute, starts[:middle], codes[:middle]),
    )


def _exact(attribute: Attribute) -> exp.Expr:
    """A column so that rows are grouped together only if they have one code.

    Values that compare as equal can print differently ('a' and 'A' under a collation, '1 month' and '30 days'); which of
    them a group shows would depend on the other rows.
    """
    column = exp.column(attribute.name, quoted=True)
    if _compares_exactly(attribute):
        return column
    return exp.Collate(this=as_text(column, attribute.type), expression=exp.to_identifier("C", quoted=True))


def _compares_exactly(attribute: Attribute) -> bool:
    return attribute.scale is not None or attribute.type == "BOOLEAN" or attribute.type.startswith("ENUM(")
