"""What a view's definition says: whether it is row-wise, which columns it passes on, what it reads. Syntax only; looks nothing up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from mwem_sql.compiler.dialect import fold, function_name

_REASONS = {
    "with_": "has a WITH clause", "joins": "joins", "laterals": "joins", "group": "aggregates", "having": "aggregates",
    "distinct": "drops duplicates", "windows": "uses windows", "qualify": "uses windows", "limit": "limits its rows",
    "offset": "limits its rows", "sample": "samples", "pivots": "pivots",
}  # fmt: skip
# A row's place among the others: it changes when one of those is taken away.
_PLACES = {"rowid", "file_row_number"}
FILE_FUNCTIONS = {"read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_json", "read_json_auto", "read_ndjson"}


class NotRowWiseError(Exception):
    """Why a view may give more or less than one row for a row of one table, or let rows depend on each other."""


def row_wise_source(query: exp.Expr, is_scalar: Callable[[str], bool]) -> exp.Table:
    """The one table or file that a row-wise query reads. `is_scalar` says which functions are functions of one row."""
    if not isinstance(query, exp.Select):
        raise NotRowWiseError("is not a plain SELECT")
    origin = query.args.get("from_")
    if origin is None:
        raise NotRowWiseError("reads no table")
    _only(query, {"expressions", "from_", "where", "order"})
    table = origin.this
    if table.find(exp.Join):
        raise NotRowWiseError("joins")
    if not isinstance(table, exp.Table):
        raise NotRowWiseError("selects from something other than a table or file")
    _only(table, {"this", "db", "catalog", "alias"})
    if isinstance(table.this, exp.Func) and function_name(table.this) not in FILE_FUNCTIONS:
        raise NotRowWiseError(f"reads the table function {function_name(table.this)}")
    for part in (*query.expressions, query.args.get("where"), query.args.get("order")):
        for node in part.walk() if part is not None else ():
            if isinstance(node, (exp.Query, exp.Exists)):
                raise NotRowWiseError("has a subquery")
            if isinstance(node, exp.Window):
                raise NotRowWiseError("uses windows")
            aggregate = isinstance(node, (exp.AggFunc, exp.UDTF))
            if aggregate or (isinstance(node, exp.Anonymous) and not is_scalar(function_name(node))):
                raise NotRowWiseError(f"calls {function_name(node)}, which is not a plain function of one row")
    return table


def _only(node: exp.Expr, allowed: set[str]) -> None:
    for key, value in node.args.items():
        if value and key not in allowed:
            raise NotRowWiseError(_REASONS.get(key, f"has a clause ({key}) that a row-wise view has not"))


def row_places(query: exp.Expr) -> set[str]:
    """The columns of a query that are, unless the table has them, a row's place among the others."""
    return {fold(column.name) for column in query.find_all(exp.Column)} & _PLACES


def passed_on(query: exp.Expr, below: Sequence[str]) -> list[str | None]:
    """For each column of a query, the column of its source that it shows unchanged; `below` are all of those, in order."""
    table = query.args["from_"].this
    if table.alias_column_names:
        below = []  # renamed by position: FROM t AS x(a, b)
    known = {fold(name): name for name in below}
    out: list[str | None] = []
    for item in query.expressions:
        inner = item.unalias()
        star = inner.this if isinstance(inner, exp.Column) else inner
        if isinstance(star, exp.Star):
            left_out = {fold(column.name) for column in star.args.get("except_") or ()}
            computed = {fold(column.alias_or_name) for column in star.args.get("replace") or ()}
            out += [None if fold(name) in computed else name for name in below if fold(name) not in left_out]
        else:
            out.append(known.get(fold(inner.name)) if isinstance(inner, exp.Column) else None)
    return out


def tables_read(query: exp.Expr) -> Iterator[exp.Table]:
    """Every table that is named anywhere in a query, those of its subqueries included."""
    return (table for table in query.find_all(exp.Table) if not isinstance(table.this, exp.Func))


def functions_called(query: exp.Expr) -> set[str]:
    return {function_name(node) for node in query.find_all(exp.Func)}
