"""Attribute and Domain: the public grid, from the schema or from a domain table, never from data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from mwem_sql import catalog
from mwem_sql.catalog import Column, Place, Relation
from mwem_sql.compiler.sandbox import Sandbox
from mwem_sql.errors import DomainError, TableError, refuse
from mwem_sql.ticks import Scale, Tick, cast, scale_of

_DOMAIN_COLUMNS = ("attribute", "values", "low", "high", "step", "bins", "nullable")
_BOUNDS = (exp.GT, exp.GTE, exp.LT, exp.LTE)
_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}
_CURE = (
    "declare it in the schema (an ENUM or BOOLEAN type, or CHECK (x BETWEEN 0 AND 9)), or in a table <name>_domain with the "
    "columns attribute, values, low, high; mwem_suggest_domain prints one to review"
)


@dataclass(frozen=True)
class Attribute:
    """A column and every value it may take: either a closed list, or all values from `low` to `high`.

    `values` are texts as DuckDB prints them. `low`, `high` and `step` are ticks of the type. `bins` cuts a continuous
    range into equal parts. A NULL is one more value where `nullable`.
    """

    name: str
    type: str
    nullable: bool
    values: tuple[str, ...] | None = None
    low: Tick | None = None
    high: Tick | None = None
    step: Tick | None = None
    bins: int | None = None
    source: str = "declared"

    def __post_init__(self) -> None:
        def no(what: str, hint: str) -> Exception:
            return refuse(DomainError, "domain", f"attribute {self.name} {what}", hint)

        if self.values is not None:
            if not self.values:
                raise no("has an empty list of values", "list at least one")
            if len(set(self.values)) < len(self.values):
                twice = next(value for value in self.values if self.values.count(value) > 1)
                raise no(f"lists the value {twice!r} twice", "list every value once")
            return
        if self.scale is None:
            raise no(f"has the type {self.type}, which has no bounds", "give it a list of values")
        if self.low is None or self.high is None:
            raise no("has neither a list of values nor both bounds", _CURE)
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise no("has a bound that is not finite", "give finite bounds")
        if self.low > self.high:
            raise no(f"has low ({self.text(self.low)}) above high ({self.text(self.high)})", "swap them")
        if abs(self.low) >= 2**62 or abs(self.high) >= 2**62:
            raise no("has bounds beyond 2^62 steps of its type", "give narrower bounds")
        if self.step is not None and self.bins is not None:
            raise no("has both step and bins", "give one of them")
        if self.step is not None and not 0 < self.step < math.inf:
            raise no(f"has step ({self.step}), which must be positive", "leave it out or give a positive number")
        if self.bins is not None and self.bins < 1:
            raise no(f"has bins ({self.bins}), which must be at least 1", "leave it out or give a whole number")

    @property
    def scale(self) -> Scale | None:
        return scale_of(self.type)

    @property
    def ordered(self) -> Scale:
        """The scale of an attribute with bounds."""
        scale = self.scale
        if scale is None or self.values is not None:
            raise TypeError(f"{self.name} has a list of values, not bounds")
        return scale

    def text(self, tick: Tick) -> str:
        scale = self.scale
        return scale.text(tick) if scale else str(tick)

    @property
    def cells(self) -> int | None:
        """How many values it has, NULL included; None for a continuous range without a grid."""
        extra = int(self.nullable)
        if self.values is not None:
            return len(self.values) + extra
        assert self.low is not None and self.high is not None
        if self.bins is not None:
            return self.bins + extra
        if self.step is not None:
            return math.floor((self.high - self.low) / self.step * (1 + 1e-12)) + 1 + extra
        return int(self.high - self.low) + 1 + extra if self.ordered.discrete else None


@dataclass(frozen=True)
class Domain:
    """The public domain of one table. Columns without a declaration are in `columns` only."""

    table: str
    columns: tuple[str, ...]
    attributes: tuple[Attribute, ...]

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise refuse(DomainError, "domain", f"column {name} of {self.table} has no public domain, so it cannot be queried", _CURE)

    @property
    def spelling(self) -> dict[str, str]:
        """Casefolded column names to the table's own spelling."""
        return {name.casefold(): name for name in self.columns}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Domain:
        attributes = tuple(
            Attribute(**{**item, "values": None if item["values"] is None else tuple(item["values"])})
            for item in stored["attributes"]
        )
        return cls(stored["table"], tuple(stored["columns"]), attributes)

    @classmethod
    def from_schema(cls, con: duckdb.DuckDBPyConnection, table: str, domain: str | None = None) -> Domain:
        """The domain of a table or row-wise view; `domain` names a domain table (default: `<table>_domain` if there is one)."""
        place = Place.of(con)
        cursor = con.cursor()
        with Sandbox() as sandbox:
            return read_domain(cursor, catalog.describe(cursor, table, place, "domain"), domain, place, sandbox)


def read_domain(
    con: duckdb.DuckDBPyConnection, relation: Relation, domain: str | None, place: Place, sandbox: Sandbox
) -> Domain:
    """Declarations of the schema, with those of the domain table in their place where it has any."""
    declared = _from_schema(relation, sandbox)
    table = _domain_table(con, relation, domain, place)
    if table is not None:
        declared |= _from_table(con, relation, table, sandbox)
    names = tuple(column.name for column in relation.columns)
    return Domain(relation.name.table, names, tuple(declared[name] for name in names if name in declared))


def _from_schema(relation: Relation, sandbox: Sandbox) -> dict[str, Attribute]:
    out: dict[str, Attribute] = {}
    for column in relation.columns:
        origin = relation.declared.get(column.name, Column(column.name, column.type, nullable=True))
        made = Attribute(column.name, column.type, origin.nullable, values=("?",), source="schema")
        kind = exp.DataType.build(column.type, dialect="duckdb") if column.type.startswith("ENUM(") else None
        if kind is not None:
            made = replace(made, values=tuple(item.name for item in kind.expressions), source="ENUM")
        elif column.type == "BOOLEAN":
            made = replace(made, values=("false", "true"), source="BOOLEAN")
        checked = _from_checks(made, origin.name, relation.checks, sandbox)
        if checked is not None:
            out[column.name] = checked
        elif made.source != "schema":
            out[column.name] = made
    return out


def _from_checks(made: Attribute, column: str, checks: tuple[str, ...], sandbox: Sandbox) -> Attribute | None:
    """Bounds or a list from the CHECKs that speak of this column alone."""
    low: Tick | None = None
    high: Tick | None = None
    listed: list[str] | None = None
    for text in checks:
        for part in _conjuncts(sqlglot.parse_one(text, dialect="duckdb")):
            names = {found.name.casefold() for found in part.find_all(exp.Column)}
            if names != {column.casefold()}:
                continue
            if isinstance(part, exp.In) and isinstance(part.this, exp.Column) and not part.args.get("query"):
                values = _texts(sandbox, made, list(part.expressions))
                listed = values if listed is None else [value for value in listed if value in values]
            for bound in _bounds(part):
                tick = _limit(sandbox, made.scale, bound)
                if tick is None:
                    continue
                if isinstance(bound, (exp.GT, exp.GTE)):
                    low = tick if low is None else max(low, tick)
                else:
                    high = tick if high is None else min(high, tick)
    if listed:
        return replace(made, values=tuple(dict.fromkeys(listed)), source="CHECK")
    if low is None or high is None or low > high:
        return None
    return replace(made, values=None, low=low, high=high, source="CHECK")


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    inner = tree.unnest()
    if isinstance(inner, exp.And):
        yield from _conjuncts(inner.this)
        yield from _conjuncts(inner.expression)
    else:
        yield inner


def _bounds(part: exp.Expr) -> Iterator[exp.Expr]:
    """Comparisons `column <op> constant` that a CHECK part stands for."""
    if isinstance(part, exp.Between) and isinstance(part.this, exp.Column):
        yield exp.GTE(this=part.this.copy(), expression=part.args["low"].copy())
        yield exp.LTE(this=part.this.copy(), expression=part.args["high"].copy())
    elif isinstance(part, exp.EQ) and isinstance(part.this, exp.Column):
        yield exp.GTE(this=part.this.copy(), expression=part.expression.copy())
        yield exp.LTE(this=part.this.copy(), expression=part.expression.copy())
    elif isinstance(part, _BOUNDS):
        if isinstance(part.this.unnest(), exp.Column) and not part.expression.find(exp.Column):
            yield part
        elif isinstance(part.expression.unnest(), exp.Column) and not part.this.find(exp.Column):
            yield _MIRRORED[type(part)](this=part.expression.copy(), expression=part.this.copy())


def _limit(sandbox: Sandbox, scale: Scale | None, bound: exp.Expr) -> Tick | None:
    """The outermost value of the type that still satisfies the comparison; None if the constant is outside the type."""
    if scale is None:
        return None
    constant = bound.expression
    tried = exp.TryCast(this=constant.copy(), to=exp.DataType.build(scale.type, dialect="duckdb"))
    try:
        (near,) = sandbox.row([scale.measure(tried)])
    except duckdb.Error:
        return None
    if not isinstance(near, (int, float)) or not math.isfinite(near):
        return None
    around = [scale.before(near), near, scale.after(near)]
    holds = sandbox.row([type(bound)(this=scale.literal(tick), expression=constant.copy()) for tick in around])
    kept = [tick for tick, held in zip(around, holds, strict=True) if held]
    if not kept:
        return None
    return min(kept) if isinstance(bound, (exp.GT, exp.GTE)) else max(kept)


def _texts(sandbox: Sandbox, made: Attribute, constants: list[exp.Expr]) -> list[str]:
    """Constants as DuckDB prints them in the attribute's type."""
    try:
        row = sandbox.row([cast(cast(constant.copy(), made.type), "VARCHAR") for constant in constants])
    except duckdb.Error as error:
        raise refuse(
            DomainError, "domain", f"attribute {made.name} lists a value that is not of its type {made.type}",
            str(error).split("\n", 1)[0],
        ) from None
    return [str(value) for value in row if value is not None]


def _domain_table(
    con: duckdb.DuckDBPyConnection, relation: Relation, domain: str | None, place: Place
) -> catalog.Name | None:
    if domain is None:
        found = catalog.find(con, relation.name.beside(f"{relation.name.table}_domain").quoted(), place)
    else:
        found = catalog.find(con, domain, place)
        if found is None:
            raise refuse(
                TableError, "domain", f"domain table ({domain!r}) does not exist for this call",
                "create it with the columns attribute, values, low, high, and COMMIT",
            )
    if found is None:
        return None
    if relation.charged in catalog.sources(con, *found) or relation.name in catalog.sources(con, *found):
        raise refuse(
            TableError, "domain", f"domain table ({found[0].table!r}) reads the private table {relation.name.table}",
            "a domain must be public: write its rows out in a table",
        )
    return found[0]


def _from_table(
    con: duckdb.DuckDBPyConnection, relation: Relation, table: catalog.Name, sandbox: Sandbox
) -> dict[str, Attribute]:
    present = {
        name.casefold(): name
        for (name,) in con.execute(
            "SELECT column_name FROM duckdb_columns() WHERE database_name = ? AND schema_name = ? AND table_name = ?",
            [table.database, table.schema, table.table],
        ).fetchall()
    }
    unknown = sorted(set(present) - set(_DOMAIN_COLUMNS))
    if "attribute" not in present or unknown:
        what = f"has the unknown column {present[unknown[0]]}" if unknown else "has no column attribute"
        raise refuse(
            DomainError, "domain", f"domain table ({table.table!r}) {what}",
            f"its columns are {', '.join(_DOMAIN_COLUMNS)}",
        )
    read = [
        exp.alias_(
            cast(exp.column(present[name], quoted=True), "VARCHAR[]" if name == "values" else "VARCHAR")
            if name in present else exp.null(),
            name, quoted=True,
        )
        for name in _DOMAIN_COLUMNS
    ]  # fmt: skip
    rows = con.execute(exp.select(*read).from_(table.tree()).sql("duckdb")).fetchall()
    columns = {column.name.casefold(): column for column in relation.columns}
    out: dict[str, Attribute] = {}
    for attribute, values, low, high, step, bins, nullable in rows:
        column = columns.get(str(attribute).casefold())
        if column is None or column.name in out:
            what = "which is listed twice" if column else f"which is not a column of {relation.name.table}"
            raise refuse(
                DomainError, "domain", f"domain table ({table.table!r}) names the attribute {attribute!r}, {what}",
                f"one row per column; the columns are {', '.join(item.name for item in relation.columns)}",
            )
        origin = relation.declared.get(column.name, Column(column.name, column.type, nullable=True))
        made = Attribute(
            column.name, column.type, origin.nullable if nullable is None else nullable == "true", values=("?",),
            source=f"table {table.table}",
        )  # fmt: skip
        if values is not None:
            listed = _texts(sandbox, made, [exp.Literal.string(value) for value in values if value is not None])
            out[column.name] = replace(made, values=tuple(listed))
            continue
        scale = made.scale
        ticks = [_tick(sandbox, made, scale, text) for text in (low, high)]
        out[column.name] = replace(
            made, values=None, low=ticks[0], high=ticks[1], step=_step(made, scale, step),
            bins=None if bins is None else int(float(bins)),
        )  # fmt: skip
    return out


def _tick(sandbox: Sandbox, made: Attribute, scale: Scale | None, text: str | None) -> Tick | None:
    if scale is None or text is None:
        return None
    try:
        (tick,) = sandbox.row([scale.measure(cast(exp.Literal.string(text), scale.type))])
    except duckdb.Error:
        raise refuse(
            DomainError, "domain", f"attribute {made.name} has the bound {text!r}, which is not of its type {made.type}",
            "give bounds of the column's type",
        ) from None
    assert tick is None or isinstance(tick, (int, float))
    return tick


def _step(made: Attribute, scale: Scale | None, text: str | None) -> Tick | None:
    """A step in ticks: days for dates, seconds for timestamps, units of the value otherwise."""
    if text is None or scale is None:
        return None
    try:
        number = float(text)
    except ValueError:
        raise refuse(
            DomainError, "domain", f"attribute {made.name} has step {text!r}, which is not a number",
            "days for dates, seconds for timestamps, units of the value otherwise",
        ) from None
    if not scale.discrete:
        return number
    factor = {"decimal": 10**scale.digits, "timestamp": 10**6, "timestamptz": 10**6}.get(scale.family, 1)
    return max(1, round(number * factor)) if math.isfinite(number) and number > 0 else number
