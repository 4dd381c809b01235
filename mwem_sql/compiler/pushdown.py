"""The COUNT aggregates that answer a workload, as sqlglot trees. Chosen from public facts only; runs nothing.

A scan groups the private table by the class codes of some attributes. Codes are total functions of a value: unknown and
NULL values have a code too, numbers outside the bounds are clamped, nothing can raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from sqlglot import exp

from mwem_sql.attribute import Attribute
from mwem_sql.catalog import Name
from mwem_sql.compiler.classes import Classes, Ints
from mwem_sql.ticks import Tick, as_text, cast

MAX_SCAN_CELLS = 2**24  # class combinations that one GROUP BY may return
_MAX_CUTS = 64  # boundaries that are told apart by comparisons; beyond it a listed range is counted from its low end
COUNT = "__count"


@dataclass(frozen=True)
class Unit:
    """Whose rows are protected together, and how many of them are read."""

    column: str
    rows: int


@dataclass(frozen=True, eq=False)
class Scan:
    """One GROUP BY. Its columns are `attributes` in order, then the count; `decode[k]` maps column k to class codes."""

    attributes: tuple[str, ...]
    query: exp.Select
    decode: tuple[Ints, ...]


def plan_scans(
    table: Name, classes: Mapping[str, Classes], sets: Iterable[frozenset[str]], unit: Unit | None = None
) -> list[Scan]:
    """As few scans as fit that cover every attribute set; each set is inside at least one scan."""
    unions: list[set[str]] = []
    for wanted in sorted(set(sets), key=lambda names: (-len(names), sorted(names))):
        for union in unions:
            if prod(classes[name].count for name in union | wanted) <= MAX_SCAN_CELLS:
                union.update(wanted)
                break
        else:
            unions.append(set(wanted))
    source = _source(table, [own.attribute for own in classes.values()], unit)
    return [_scan(source, [name for name in classes if name in union], classes) for union in unions]


def _source(table: Name, attributes: Sequence[Attribute], unit: Unit | None) -> exp.Expr:
    """The private table, or at most `unit.rows` rows of each unit.

    A unit's rows are ranked by a hash of what the release reads of them, so that every scan keeps the same ones and
    no unit's choice depends on another's. Rows without a unit are left out.
    """
    if unit is None:
        return table.tree()
    column = exp.column(unit.column, quoted=True)
    read = [_exact(attribute) for attribute in attributes]
    rank = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column.copy()],
        order=exp.Order(
            expressions=[exp.Ordered(this=exp.Anonymous(this="hash", expressions=[column.copy(), *read])), *(part.copy() for part in read)]
        ),
    )
    picked = (
        exp.select("*").from_(table.tree())
        .where(exp.Not(this=exp.Is(this=column.copy(), expression=exp.null())))
        .qualify(exp.LTE(this=rank, expression=exp.Literal.number(unit.rows)))
    )  # fmt: skip
    return picked.subquery("__bounded")


def _scan(source: exp.Expr, attributes: Sequence[str], classes: Mapping[str, Classes]) -> Scan:
    """Group by raw values where they are few and cheap, by codes otherwise; then turn the groups into codes."""
    inner, outer, decode = [], [], []
    for k, name in enumerate(attributes):
        raw, code, table = _code(classes[name], exp.column(f"v{k}"))
        inner.append(exp.alias_(raw, f"v{k}"))
        outer.append(exp.alias_(code, f"c{k}"))
        decode.append(table)
    counted = exp.select(*inner, exp.alias_(exp.Count(this=exp.Star()), COUNT)).from_(source.copy())
    if not attributes:
        return Scan((), counted, ())
    # GROUP BY ALL and not by name: the table may have a column of the same name, which would come first.
    counted.set("group", exp.Group(all=True))
    total = exp.alias_(cast(exp.Sum(this=exp.column(COUNT)), "BIGINT"), COUNT)
    query = exp.select(*outer, total).from_(counted.subquery("__groups"))
    query.set("group", exp.Group(all=True))
    return Scan(tuple(attributes), query, tuple(decode))


def _code(classes: Classes, group: exp.Expr) -> tuple[exp.Expr, exp.Expr, Ints]:
    """What to group by, the code of a group, and the classes of the codes."""
    attribute = classes.attribute
    column = exp.column(attribute.name, quoted=True)
    # NULL and unknown values: the NULL piece, or the first one of an attribute that has none.
    missing = len(classes.pieces) - 1 if attribute.nullable else 0
    if attribute.values is not None:
        code = exp.Anonymous(this="enum_code", expressions=[_as_enum(attribute, group)])
        return _exact(attribute), _coalesce(cast(code, "BIGINT"), missing), classes.codes
    scale = attribute.ordered
    assert attribute.low is not None and attribute.high is not None
    lows = classes.pieces.lows
    runs = np.flatnonzero(np.diff(classes.codes[: classes.pieces.known], prepend=-1))
    if len(runs) > _MAX_CUTS and scale.discrete and attribute.step is None and classes.pieces.listed:
        low, high = scale.literal(attribute.low), scale.literal(attribute.high)
        clamped = exp.Anonymous(
            this="greatest", expressions=[exp.Anonymous(this="least", expressions=[column, high]), low]
        )
        # least and greatest skip NULLs, so NULL is asked for first.
        offset = exp.Sub(this=scale.measure(clamped), expression=exp.Literal.number(int(attribute.low)))
        raw = exp.Case(ifs=[exp.If(this=exp.Is(this=column.copy(), expression=exp.null()), true=exp.null())], default=offset)
        return raw, _coalesce(group, missing), classes.codes
    table = classes.codes[runs]
    raw = exp.Case(
        ifs=[exp.If(this=exp.Is(this=column, expression=exp.null()), true=exp.Literal.number(len(runs)))],
        default=_search(attribute, lows[runs].tolist(), 0, len(runs) - 1),
    )
    return raw, group, np.append(table, classes.codes[missing]).astype(np.int32)


def _search(attribute: Attribute, starts: Sequence[Tick], first: int, last: int) -> exp.Expr:
    """Which run a value is in: a balanced tree of comparisons with the runs' first values."""
    if first == last:
        return exp.Literal.number(first)
    middle = (first + last + 1) // 2
    column = exp.column(attribute.name, quoted=True)
    test = exp.GTE(this=column, expression=attribute.ordered.literal(starts[middle]))
    return exp.Case(
        ifs=[exp.If(this=test, true=_search(attribute, starts, middle, last))],
        default=_search(attribute, starts, first, middle - 1),
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


def _as_enum(attribute: Attribute, group: exp.Expr) -> exp.Expr:
    """A listed value as an ENUM in the order of the list; NULL for anything else."""
    kind = exp.DataType(
        this=exp.DataType.Type.ENUM, expressions=[exp.Literal.string(text) for text in attribute.values or ()]
    )
    return exp.TryCast(this=as_text(group, attribute.type) if _compares_exactly(attribute) else group, to=kind)


def _coalesce(code: exp.Expr, missing: int) -> exp.Expr:
    return exp.Coalesce(this=code, expressions=[exp.Literal.number(missing)])
