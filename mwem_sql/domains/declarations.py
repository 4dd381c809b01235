"""What a schema or a domain table declares of a column, as attributes. Reads the catalog and public rows only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.boundary.relations import Relation
from mwem_sql.domains.attribute import Attribute
from mwem_sql.errors import did_you_mean, literal, refuse_domain
from mwem_sql.language import dialect
from mwem_sql.language.conditions import columns_of, comparison, conjuncts
from mwem_sql.language.dialect import fold
from mwem_sql.language.predicate import is_deterministic
from mwem_sql.language.ticks import Scale, Tick, as_text, cast, is_finite, scale_of, try_cast
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.sandbox import Sandbox

_DOMAIN_COLUMNS = ("attribute", "values", "low", "high", "step", "bins", "edges", "nullable", "open", "discover")
_COMPARE = {">": exp.GT, ">=": exp.GTE, "<": exp.LT, "<=": exp.LTE}
_LOWER = {">", ">="}
_PAST = {">": 1, ">=": 0, "<": -1, "<=": 0}
"""Of a whole number, how far past it the outermost one is that satisfies the bound."""


def from_schema(relation: Relation, sandbox: Sandbox) -> dict[str, Attribute]:
    tables = [(each, [part for text in each.checks for part in check_conditions(text)]) for each in relation.tables]
    out: dict[str, Attribute] = {}
    for column in relation.columns:
        checks = next((parts for each, parts in tables if column.name in each.declared), tables[0][1])
        origin = _origin(relation, column)
        about = [part for part in checks if {fold(name) for name in columns_of(part)} == {fold(origin.name)}]
        made = _listed(column, origin, about, sandbox) or _bounded(column, origin, about, sandbox)
        if made is not None:
            out[column.name] = made
    return out


def _origin(relation: Relation, column: Column) -> Column:
    """The table's column that a column of the relation shows; itself, maybe NULL, where nothing is declared of it."""
    shown = (each.declared[column.name] for each in relation.tables if column.name in each.declared)
    return next(shown, Column(column.name, column.type, nullable=True))


def check_conditions(check: str) -> list[exp.Expr]:
    """What a CHECK asks for, one condition each; nothing if it cannot be read or does not always say the same."""
    try:
        statements = dialect.parse(check)
    except (SqlglotError, RecursionError):
        return []
    return [part for tree in statements if tree is not None and is_deterministic(tree) for part in conjuncts(tree)]


def _listed(column: Column, origin: Column, checks: Sequence[exp.Expr], sandbox: Sandbox) -> Attribute | None:
    """The values of an ENUM, a BOOLEAN, or an IN list or equation of a CHECK, less those that a CHECK rules out."""
    source = "CHECK"
    values: list[str] | None = None
    if column.type.startswith("ENUM("):
        source = "ENUM"
        values = [item.name for item in exp.DataType.build(column.type, dialect="duckdb").expressions]
    elif column.type == "BOOLEAN":
        source = "BOOLEAN"
        values = ["false", "true"]
    else:
        lists = [constants for operator, constants in filter(None, map(comparison, checks)) if operator in {"=", "in"}]
        for constants in lists[:1]:
            row = sandbox.tried([as_text(try_cast(constant, column.type), column.type) for constant in constants])
            values = list(dict.fromkeys(str(value) for value in row if value is not None))
    if not values:
        return None
    kept = values
    for check in checks:
        kept = _satisfying(check, origin, kept, sandbox)
    if not kept:
        return None
    return Attribute(
        column.name, column.type, origin.nullable, values=tuple(kept), source=source if kept == values else "CHECK"
    )


def _satisfying(check: exp.Expr, origin: Column, values: Sequence[str], sandbox: Sandbox) -> list[str]:
    """The values that a CHECK lets in: all but those for which it is false."""
    sandbox.load("listed", {origin.name: (origin.type, pa.array(values, pa.string()))})
    try:
        (truth,) = sandbox.evaluate("listed", [dialect.sql(cast(check.copy(), "BOOLEAN"))])
    except duckdb.Error:
        return list(values)
    return [value for value, holds in zip(values, truth.to_pylist(), strict=True) if holds is not False]


def _bounded(column: Column, origin: Column, checks: Sequence[exp.Expr], sandbox: Sandbox) -> Attribute | None:
    """All values between the bounds of the CHECKs, if they give both."""
    scale = scale_of(column.type)
    if scale is None:
        return None
    bounds = [(operator, _limit(sandbox, scale, operator, constant)) for operator, constant in _bounds(checks)]
    lows = [tick for operator, tick in bounds if tick is not None and operator in _LOWER]
    highs = [tick for operator, tick in bounds if tick is not None and operator not in _LOWER]
    if not lows or not highs or max(lows) > min(highs):
        return None
    return Attribute(column.name, column.type, origin.nullable, low=max(lows), high=min(highs), source="CHECK")


def _bounds(checks: Sequence[exp.Expr]) -> Iterator[tuple[str, exp.Expr]]:
    """Bounds `column <operator> constant` that CHECKs stand for."""
    for operator, constants in filter(None, map(comparison, checks)):
        if operator == "between":
            yield from zip((">=", "<="), constants, strict=True)
        elif operator in _COMPARE:
            yield operator, constants[0]


def _limit(sandbox: Sandbox, scale: Scale, operator: str, constant: exp.Expr) -> Tick | None:
    """The outermost value of the type that satisfies the bound; None if there is none.

    A constant beyond what a bound can be makes the bound as wide as it can be.
    """
    if scale.family == "integer" and operator in _PAST and isinstance(constant, exp.Literal) and not constant.is_string:
        plain = scale.tick_of(constant.name)
        if plain is not None:  # needs no evaluation: of a thousand columns that takes seconds
            low, high = scale.limits
            tick = plain + _PAST[operator]
            tick = max(low, tick) if operator in _LOWER else min(high, tick)
            return tick if low <= tick <= high else None
    (near,) = sandbox.tried([scale.measure(try_cast(constant.copy(), scale.type))])
    # The constant may be of another type, and between two values of this one.
    around = [scale.before(near), near, scale.after(near)] if is_finite(near) else []
    least, most = scale.limits
    ticks = [tick for tick in (least, *around, most) if least <= tick <= most]
    compare = _COMPARE[operator]
    holds = sandbox.tried([compare(this=scale.literal(tick), expression=constant.copy()) for tick in ticks])
    kept = [tick for tick, is_true in zip(ticks, holds, strict=True) if is_true]
    if not kept:
        return None
    return min(kept) if operator in _LOWER else max(kept)


def from_table(
    con: duckdb.DuckDBPyConnection,
    relation: Relation,
    table: catalog.Name,
    sandbox: Sandbox,
    schema: Mapping[str, Attribute],
) -> dict[str, Attribute]:
    """What a domain table declares. Only a type or a CHECK (`schema`) keeps other values out of the columns."""
    columns = {fold(column.name): column for column in relation.columns}
    out: dict[str, Attribute] = {}
    for attribute, values, low, high, step, bins, edges, nullable, _, discover in _rows(con, table):
        column = columns.get(fold(str(attribute)))
        if column is None or column.name in out:
            what = "which is listed twice" if column else f"which is not a column of {relation.name.table}"
            names = [item.name for item in relation.columns]
            near = "" if column else did_you_mean(attribute, names)
            raise refuse_domain(
                f"domain table ({table.table!r}) names the attribute {attribute!r}, {what}",
                f"{near}one row per column; the columns are {', '.join(map(literal, names))}",
            )
        origin = _origin(relation, column)
        is_nullable = bool(nullable or origin.nullable)
        made = Attribute(column.name, column.type, is_nullable, values=("?",), source=f"table {table.table}")
        if values is not None or discover:
            if any(given is not None for given in (low, high, step, bins, edges)):
                raise made.refused("has a list of values and bounds too", "give either values, or low and high")
            listed = _texts(sandbox, made, [value for value in values or () if value is not None])
            is_open = bool(discover) and column.name not in schema
            made = replace(made, values=listed, open=is_open, discover=bool(discover))
        else:
            made = replace(
                made,
                values=None,
                low=_tick(sandbox, made, low),
                high=_tick(sandbox, made, high),
                step=_step(made, step),
                bins=_bins(made, bins),
                edges=_edges(sandbox, made, edges),
            )
        if not _keeps_within(schema.get(column.name), made):
            made = replace(made, open=True)
        out[column.name] = made
    return out


def _keeps_within(schema: Attribute | None, made: Attribute) -> bool:
    """Whether what a type or a CHECK lets in is all declared."""
    if schema is None or schema.open:
        return False
    if made.values is not None:
        return schema.values is not None and set(schema.values) <= set(made.values)
    assert made.low is not None and made.high is not None
    if schema.low is None or schema.high is None:
        return False
    return made.low <= schema.low and schema.high <= made.high


def _rows(con: duckdb.DuckDBPyConnection, table: catalog.Name) -> list[tuple[Any, ...]]:
    """The rows of a domain table, with a NULL for every column that it does not have."""
    present = {fold(column.name): column.name for column in catalog.columns(con, table)}
    unknown = [name for folded, name in present.items() if folded not in _DOMAIN_COLUMNS]
    if "attribute" not in present or unknown:
        what = f"has the unknown column {unknown[0]}" if unknown else "has no column attribute"
        near = did_you_mean(unknown[0], _DOMAIN_COLUMNS, shown=str) if unknown else ""
        raise refuse_domain(
            f"domain table ({table.table!r}) {what}", f"{near}its columns are {', '.join(_DOMAIN_COLUMNS)}"
        )
    kinds = dict.fromkeys(("values", "edges"), "VARCHAR[]") | dict.fromkeys(("nullable", "open", "discover"), "BOOLEAN")
    read = [
        cast(exp.column(present[name], quoted=True), kinds.get(name, "VARCHAR")) if name in present else exp.null()
        for name in _DOMAIN_COLUMNS
    ]
    try:
        return con.execute(exp.select(*read).from_(table.tree()).sql("duckdb")).fetchall()
    except duckdb.Error as error:
        raise refuse_domain(
            f"domain table ({table.table!r}) cannot be read: {str(error).splitlines()[0]}",
            "values and edges are lists of text, nullable, open and discover are BOOLEAN, the others text or numbers",
        ) from None


def _texts(sandbox: Sandbox, made: Attribute, values: list[str]) -> tuple[str, ...]:
    """Listed values as DuckDB prints them in the attribute's type."""
    sandbox.load("listed", {"v": ("VARCHAR", pa.array(values, pa.string()))})
    try:
        (printed,) = sandbox.evaluate("listed", [as_text(cast(exp.column("v"), made.type), made.type).sql("duckdb")])
    except duckdb.Error as error:
        raise made.refused(f"lists a value that is not of its type {made.type}", str(error).splitlines()[0]) from None
    return tuple(printed.to_pylist())


def _tick(sandbox: Sandbox, made: Attribute, text: str | None) -> Tick | None:
    if made.scale is None or text is None:
        return None
    (tick,) = _ticks(sandbox, made, made.scale, "bound", [text])
    return tick


def _edges(sandbox: Sandbox, made: Attribute, texts: list[str | None] | None) -> tuple[Tick, ...] | None:
    """Where bins begin, as they are listed."""
    if made.scale is None or texts is None:
        return None
    return tuple(_ticks(sandbox, made, made.scale, "edge", [text for text in texts if text is not None]))


def _ticks(sandbox: Sandbox, made: Attribute, scale: Scale, what: str, texts: Sequence[str]) -> list[Tick]:
    """Values of the attribute's type, read from text; a refusal says `what` they are."""
    sandbox.load("listed", {"v": ("VARCHAR", pa.array(texts, pa.string()))})
    measure = dialect.sql(scale.measure(try_cast(exp.column("v"), made.type)))
    (column,) = sandbox.evaluate("listed", [measure])
    ticks: list[Tick] = []
    for text, tick in zip(texts, column.to_pylist(), strict=True):
        if not is_finite(tick):
            raise made.refused(
                f"has the {what} {text!r}, which is not a finite value of its type {made.type}",
                f"give {what}s of the column's type",
            )
        ticks.append(tick)
    return ticks


def _step(made: Attribute, text: str | None) -> Tick | None:
    """A step in ticks: days for dates, seconds for timestamps, units of the value otherwise."""
    scale = made.scale
    if text is None or scale is None:
        return None
    cure = "days for dates, seconds for timestamps, units of the value otherwise"
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise made.refused(f"has step {text!r}, which is not a number", cure) from None
    if not scale.discrete:
        return float(number)
    ticks = number * {"decimal": 10**scale.digits, "timestamp": 10**6, "timestamptz": 10**6}.get(scale.family, 1)
    if not ticks.is_finite() or ticks != int(ticks):
        raise made.refused(f"has step {text!r}, which is not a whole number of the smallest steps of {made.type}", cure)
    return int(ticks)


def _bins(made: Attribute, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(Decimal(text)) if Decimal(text) == int(Decimal(text)) else int(text)
    except (InvalidOperation, ValueError, OverflowError):
        raise made.refused(
            f"has bins {text!r}, which is not a whole number", "leave it out or give a whole number"
        ) from None
