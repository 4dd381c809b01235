"""What is public of how many rows there are: a table of counts that somebody else has published, such as a census.

Reads the catalog and public rows only, and evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from mwem_sql.boundary.relations import Relation
from mwem_sql.errors import DomainError, MwemError, did_you_mean, refuse
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold
from mwem_sql.language.predicate import Columns, parse
from mwem_sql.language.ticks import cast, try_cast
from mwem_sql.platform import catalog

ROWS_COLUMN, PREDICATE_COLUMN = "rows", "predicate"
"""Of a table of public totals: the count of each row, and a condition. All others are columns of the private table."""
MOST_COUNTED = 2**53
"""Beyond, a DOUBLE is not every whole number."""
_CURE = (
    "it has the column rows with a count in each row, and which rows are counted in columns of the private table, or in"
    " predicate VARCHAR; a row with neither counts all rows"
)


@dataclass(frozen=True)
class PublicTotal:
    """How many rows meet a condition; None for all rows."""

    text: str | None
    rows: int

    @property
    def words(self) -> str:
        return "all rows" if self.text is None else repr(self.text)


def totals_of_table(con: duckdb.DuckDBPyConnection, relation: Relation, table: catalog.Name) -> list[PublicTotal]:
    """What a table of public totals declares. A column that is NULL does not limit what its row counts."""
    present = {fold(column.name): column.name for column in catalog.columns(con, table)}
    types = {fold(column.name): column for column in relation.columns}
    if ROWS_COLUMN not in present:
        near = next(filter(None, (did_you_mean(name, [ROWS_COLUMN], shown=str) for name in present.values())), "")
        raise _no(table, f"has the columns {', '.join(present.values())}, and none is called rows", near)
    limiting = [name for name in present if name not in {ROWS_COLUMN, PREDICATE_COLUMN}]
    for name in limiting:
        if name not in types:
            near = did_you_mean(present[name], [column.name for column in types.values()], shown=str)
            raise _no(table, f"has the column {present[name]}, which {relation.name.stem} does not have", near)
    names = Columns([column.name for column in relation.columns])
    columns = [_read(present, name, "VARCHAR") for name in (PREDICATE_COLUMN, *limiting)]
    rows = [try_cast(exp.column(present[ROWS_COLUMN], quoted=True), "DOUBLE"), _read(present, ROWS_COLUMN, "VARCHAR")]
    read = exp.select(*rows, *columns).from_(table.tree())
    out = []
    for number, shown, text, *values in con.execute(read.sql("duckdb")).fetchall():
        given = {types[name].name: value for name, value in zip(limiting, values, strict=True) if value is not None}
        parts = [_equal(relation, name, value) for name, value in given.items()]
        if text is not None:
            parts.append(parse(text, names, "total", relation.name.stem))
        total = dialect.sql(exp.and_(*parts)) if parts else None
        if number is None or number < 0 or number > MOST_COUNTED or number % 1:
            where = PublicTotal(total, 0).words
            what = f"counts {'NULL' if shown is None else shown} rows of {where}, which is not a whole number from 0"
            raise _no(table, what, "correct it, or delete the row", cure="")
        out.append(PublicTotal(total, int(number)))
    return out


def _read(present: Mapping[str, str], name: str, type_text: str) -> exp.Expr:
    return cast(exp.column(present[name], quoted=True), type_text) if name in present else exp.null()


def _equal(relation: Relation, name: str, value: str) -> exp.Expr:
    """A column and its value, as the column's type writes it."""
    (type_text,) = [column.type for column in relation.columns if column.name == name]
    constant = exp.Literal.string(value)
    is_text = type_text == "VARCHAR" or type_text.startswith("ENUM(")
    return exp.EQ(this=exp.column(name, quoted=True), expression=constant if is_text else cast(constant, type_text))


def _no(table: catalog.Name, what: str, hint: str, *, cure: str = _CURE) -> MwemError:
    return refuse(DomainError, "known", f"table of public totals ({table.table!r}) {what}", f"{hint}{cure}")
