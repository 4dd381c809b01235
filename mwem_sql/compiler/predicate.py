"""Parse, check and take apart one SQL expression of a workload. Reads no table and evaluates nothing.

The check is an allow-list on the syntax tree: columns of the private table, literals, operators and listed
functions. Whatever is not on it is refused with the reason a person would give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.compiler.functions import ALLOWED_FUNCTIONS, function_name
from mwem_sql.errors import PredicateError, refuse

MAX_TEXT = 100_000  # characters of one expression
MAX_DEPTH = 200  # levels of nesting: deeper trees exhaust a recursive parser

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_CONNECTIVES = (exp.And, exp.Or, exp.Not, exp.Paren)
_PLAIN_NODES = (
    *_COMPARISONS, *_CONNECTIVES,
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Between, exp.In, exp.Is, exp.Tuple,
    exp.Like, exp.ILike, exp.SimilarTo, exp.Escape, exp.Glob, exp.RegexpLike, exp.RegexpFullMatch, exp.Collate,
    exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Pow,
    exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift,
    exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.IntervalSpan, exp.Var,
    exp.Extract, exp.Coalesce, exp.AtTimeZone, exp.WeekStart,
)  # fmt: skip


@dataclass(frozen=True)
class Leaf:
    """A maximal part of an expression that AND, OR and NOT need not take apart."""

    sql: str
    columns: tuple[str, ...]
    tree: exp.Expr


def parse(text: str, columns: Mapping[str, str], role: str, table: str) -> exp.Expr:
    """The checked tree of one expression, its columns in the table's own spelling and quoted.

    `columns` maps casefolded names to the table's; `role` is what the text serves as, for messages.
    """
    if len(text) > MAX_TEXT:
        raise refuse(
            PredicateError, "workload", f"{role} of {len(text):,} characters is longer than {MAX_TEXT:,}",
            "split it into several rows, or use an IN list over a class of its own column",
        )
    try:
        statements = sqlglot.parse(text, dialect="duckdb")
    except SqlglotError as error:
        raise _syntax(text, role, error) from None
    except RecursionError:
        raise _too_deep(text, role) from None
    if len(statements) != 1 or statements[0] is None:
        raise refuse(
            PredicateError, "workload", f"{role} ({_short(text)}) is not one SQL expression",
            "write what would follow WHERE, one expression without a semicolon",
        )
    tree = statements[0]
    _check(tree, text, columns, role, table)
    for column in tree.find_all(exp.Column):
        column.set("table", None)
        column.set("this", exp.to_identifier(columns[column.name.casefold()], quoted=True))
    for node in tree.walk():
        node.pop_comments()
    return tree


def columns_of(tree: exp.Expr) -> tuple[str, ...]:
    """Names of the columns an expression reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column)))


def conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The parts that a top-level AND joins; each must be true for the whole to be true."""
    inner = tree.unnest()
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.this)
        yield from conjuncts(inner.expression)
    else:
        yield inner


def leaf(tree: exp.Expr) -> Leaf:
    return Leaf(tree.sql("duckdb"), columns_of(tree), tree)


def leaves(tree: exp.Expr) -> Iterator[Leaf]:
    """The leaves below AND, OR and NOT: parts over one column, or that join several in another way."""
    if len(columns_of(tree)) <= 1 or not isinstance(tree, _CONNECTIVES):
        yield leaf(tree)
        return
    for part in (tree.this, tree.args.get("expression")):
        if part is not None:
            yield from leaves(part)


def constants(tree: exp.Expr) -> list[exp.Expr] | None:
    """The constants a one-column expression compares its column with, or None if it does anything else.

    Between two neighbouring constants such an expression has one truth value, so the column's values need not be listed.
    """
    inner = tree.unnest()
    if isinstance(inner, (exp.And, exp.Or)):
        left, right = constants(inner.this), constants(inner.expression)
        return None if left is None or right is None else left + right
    if isinstance(inner, exp.Not):
        return constants(inner.this)
    if not columns_of(inner):
        return []
    if isinstance(inner, exp.Is) and _is_column(inner.this) and isinstance(inner.expression, exp.Null):
        return []
    compared: list[exp.Expr]
    if isinstance(inner, _COMPARISONS):
        sides = [inner.this, inner.expression]
        if not any(_is_column(side) for side in sides):
            return None
        compared = [side for side in sides if not _is_column(side)]
    elif isinstance(inner, exp.Between) and _is_column(inner.this):
        compared = [inner.args["low"], inner.args["high"]]
    elif isinstance(inner, exp.In) and _is_column(inner.this) and not inner.args.get("query"):
        compared = list(inner.expressions)
    else:
        return None
    return None if any(columns_of(side) for side in compared) else compared


def _is_column(tree: exp.Expr) -> bool:
    return isinstance(tree.unnest(), exp.Column)


def _check(tree: exp.Expr, text: str, columns: Mapping[str, str], role: str, table: str) -> None:
    def no(reason: str, hint: str) -> PredicateError:
        error = refuse(PredicateError, "workload", f"{role} ({_short(text)}) {reason}", hint)
        assert isinstance(error, PredicateError)
        return error

    plain = "use a deterministic scalar expression over the table's own columns"
    depth = 0
    level = [tree]
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep(text, role)
        level = [child for node in level for child in node.iter_expressions()]
    for node in tree.walk():
        if isinstance(node, (exp.Query, exp.Subquery, exp.Exists, exp.Any, exp.All)):
            raise no("has a subquery; only the row's own columns may be read", plain)
        if isinstance(node, exp.Window):
            raise no("has a window function; a predicate is asked of one row at a time", plain)
        if isinstance(node, exp.AggFunc):
            raise no(f"has the aggregate {function_name(node)}; a predicate is asked of one row at a time", plain)
        if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
            raise no("has a parameter", "write the value into the text")
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise no("has a star", "name the columns")
        if isinstance(node, exp.Column):
            _check_column(node, columns, table, no)
        elif isinstance(node, exp.In) and (node.args.get("query") or node.args.get("unnest") or node.args.get("field")):
            raise no("tests IN something other than a list", "write the list out: x IN (1, 2, 3)")
        elif isinstance(node, exp.Func) and not isinstance(node, _PLAIN_NODES):
            if function_name(node) not in ALLOWED_FUNCTIONS:
                raise no(f"calls {function_name(node)}, which is not on the list of deterministic scalar functions", plain)
        elif not isinstance(node, (exp.Func, *_PLAIN_NODES)):
            raise no(f"has a part that is not a scalar expression ({type(node).__name__})", plain)


def _check_column(node: exp.Column, columns: Mapping[str, str], table: str, no: object) -> None:
    assert callable(no)
    if node.args.get("db") or (node.table and node.table.casefold() != table.casefold()):
        raise no(f"reads {node.sql('duckdb')}, which is not a column of {table}", "name the table's own columns")
    if node.name.casefold() not in columns:
        raise no(
            f"reads the unknown column {node.name}",
            f"{table} has the columns {', '.join(columns.values())}; a string takes single quotes",
        )


def _short(text: str, width: int = 120) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= width else flat[: width - 3] + "...")


def _too_deep(text: str, role: str) -> PredicateError:
    return PredicateError(
        f"workload: {role} ({_short(text)}) is nested more than {MAX_DEPTH} levels deep. Hint: use IN lists, or more rows"
    )


def _syntax(text: str, role: str, error: SqlglotError) -> PredicateError:
    """A syntax error with the line and a caret under the place."""
    details = getattr(error, "errors", None) or [{}]
    line = int(details[0].get("line") or 1)
    column = int(details[0].get("col") or len(text))
    reason = str(details[0].get("description") or error).split("\n", 1)[0]
    lines = text.splitlines() or [""]
    shown = lines[min(line, len(lines)) - 1]
    start = max(0, column - 60)
    caret = " " * max(0, column - 1 - start) + "^"
    if "<class" in reason or "Required keyword" in reason:
        reason = "something is missing here"
    return PredicateError(
        f"workload: {role} ({_short(text)}) is not valid SQL: {reason.rstrip('.')}.\n"
        f"  {shown[start : start + 76]}\n  {caret}\nHint: write what would follow WHERE"
    )
