"""Parse and check one SQL expression of a workload. Reads no table and evaluates nothing; `conditions` takes it apart.

The check is an allow-list on the syntax tree: columns of the private table, literals, operators and listed
functions. Whatever is not on it is refused with the reason a person would give.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from mwem_sql.errors import MwemError, PredicateError, did_you_mean, literal, refuse
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold, function_name
from mwem_sql.language.functions import ALLOWED_FUNCTIONS

MAX_TEXT = 100_000  # characters of one expression
MAX_DEPTH = 200  # levels of nesting: deeper trees exhaust a recursive parser
# The schema that a column's table may be qualified with; there is one such table where texts are evaluated.
_SCHEMA = "main"

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PLAIN_NODES = (
    *COMPARISONS, exp.And, exp.Or, exp.Not, exp.Paren,
    exp.Column, exp.Identifier, exp.Literal, exp.RawString, exp.ByteString, exp.Boolean, exp.Null,
    exp.Between, exp.In, exp.Is, exp.Tuple, exp.Like, exp.ILike, exp.SimilarTo, exp.Escape, exp.Glob,
    exp.RegexpLike, exp.RegexpFullMatch, exp.StartsWith, exp.Collate,
    exp.Neg, exp.Abs, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Pow, exp.Concat,
    exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift,
    exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.IntervalSpan, exp.Var,
    exp.Extract, exp.AtTimeZone, exp.StrPosition, exp.Substring, exp.Trim, exp.Overlay, exp.Bracket, exp.Slice,
)  # fmt: skip
_AGGREGATES = {name.lower() for name, kind in exp.FUNCTION_BY_NAME.items() if issubclass(kind, exp.AggFunc)}
_WRITE = {
    "predicate": "write what would follow WHERE",
    "rule": "write a condition, as in CHECK (...), or column = expression",
    "total": "write what would follow WHERE",
    "group_by": "write what would follow GROUP BY: sex, date_trunc('month', d)",
    "measure": "write a number of each row, or sum(...) or avg(...) of it: avg(age); leave measure out for a count",
}
_CURE = "use a deterministic scalar expression over the table's own columns"
# Everything but a quote or comment that is never closed.
_CLOSED = re.compile(r"""(?:'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(?!/\*)[^'"])*""", re.DOTALL)


# Comments, and the keyword that a clause pasted with them begins with.
_WHERE = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*where\b", re.IGNORECASE | re.DOTALL)


def bare(clause: str) -> str:
    """The expression of a WHERE clause as it is pasted: without the keyword before it and one semicolon behind it."""
    where = _WHERE.match(clause)
    clause = clause[where.end() :] if where else clause
    ended = clause.rstrip()
    return ended[:-1] if ended.endswith(";") and ended[:-1].strip() else clause


@dataclass(frozen=True)
class _Text:
    """A text of the workload, and what it serves as, for messages."""

    text: str
    role: str

    def __str__(self) -> str:
        flat = " ".join(self.text.split())
        return f"{self.role} ({flat if len(flat) <= 120 else f'{flat[:117]}...'!r})"

    @property
    def where(self) -> str:
        """What it is part of."""
        return {"rule": "rules", "total": "known"}.get(self.role, "workload")

    @property
    def cure(self) -> str:
        return _WRITE.get(self.role, _WRITE["predicate"])

    def no(self, reason: str, hint: str = _CURE) -> MwemError:
        return refuse(PredicateError, self.where, f"{self} {reason}", hint)


class Columns(dict[str, str]):
    """The columns of a table, folded names to the table's own; and the expressions of those that are computed.

    Columns of the tables `above` it, which its keys lead to, are called table.column, and column alone where only one
    is called so.
    """

    def __init__(
        self, names: Collection[str], computed: Mapping[str, exp.Expr] | None = None, above: Iterable[str] = ()
    ) -> None:
        super().__init__((fold(name), name) for name in names)
        self._computed = computed or {}
        self._above = frozenset(map(fold, above))
        shorter: dict[str, list[str]] = {}
        for name in names:
            table, dot, column = name.partition(".")
            if dot and fold(table) in self._above:
                shorter.setdefault(fold(column), []).append(name)
        for column, among in shorter.items():
            if len(among) == 1:
                self.setdefault(column, among[0])

    def key(self, parts: Sequence[str], table: str) -> str | None:
        """What a column is looked up by, given its name behind what qualifies it; None if it is of another table."""
        *qualified, name = map(fold, parts)
        if len(qualified) == 1 and qualified[0] in self._above:
            return f"{qualified[0]}.{name}"
        return name if qualified in ([], [fold(table)], [_SCHEMA, fold(table)]) else None

    def tree(self, name: str) -> exp.Expr:
        """A column by its name; what it is computed by, if it is."""
        return self.written_out(exp.column(self[fold(name)], quoted=True))

    def written_out(self, tree: exp.Expr) -> exp.Expr:
        """A checked tree with the expressions of computed columns in their place."""
        if not self._computed:
            return tree
        return tree.transform(
            lambda node: (
                exp.Paren(this=self._computed[node.name].copy())
                if isinstance(node, exp.Column) and node.name in self._computed
                else node
            )
        )


def parse(text: str, columns: Columns, role: str, table: str) -> exp.Expr:
    """The checked tree of one expression, its columns in the table's own spelling and quoted.

    `role` is what the text serves as, for messages.
    """
    source = _Text(text, role)
    return columns.written_out(_checked(_statement(source), source, columns, table))


def parse_list(text: str, columns: Columns, role: str, table: str) -> list[exp.Expr]:
    """The checked trees of expressions separated by commas."""
    source = _Text(text, role)
    selected = _statement(source, before="SELECT\n")
    if not isinstance(selected, exp.Select) or [key for key, value in selected.args.items() if value] != [
        "expressions"
    ]:
        raise source.no("is not a list of SQL expressions", source.cure)
    return [columns.written_out(_checked(tree, source, columns, table)) for tree in selected.expressions]


def is_deterministic(tree: exp.Expr) -> bool:
    """Whether an expression says the same whenever it is asked, and of one row only."""
    return not any(objection(node) for node in tree.walk())


def _statement(source: _Text, before: str = "") -> exp.Expr:
    """The one statement that a text is, with `before` in front of it on lines of its own."""
    if len(source.text) > MAX_TEXT:
        raise source.no(f"has {len(source.text):,} characters, more than {MAX_TEXT:,}", "split it into several rows")
    try:
        statements = dialect.parse(before + source.text)
    except SqlglotError as error:
        raise _syntax(source, error, before.count("\n")) from None
    except RecursionError:
        raise _too_deep(source) from None
    text = source.text.strip()
    if len(statements) != 1 or statements[0] is None or not text or text.endswith(";"):
        one = "one expression " if source.role == "predicate" else ""
        raise source.no("is not one SQL expression", f"{source.cure}, {one}without a semicolon")
    return statements[0]


def _checked(tree: exp.Expr, source: _Text, columns: Columns, table: str) -> exp.Expr:
    depth = 0
    level = [tree]
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep(source)
        level = [child for node in level for child in node.iter_expressions()]
    for node in tree.walk():
        refused = objection(node)
        if refused is not None:
            reason, hint = refused
            raise source.no(
                reason, source.cure if source.role == "measure" and reason.startswith("has the aggregate") else hint
            )
        node.pop_comments()
        name_collation(node)
    for column in tree.find_all(exp.Column):
        key = columns.key([part.name for part in column.parts], table)
        if key is None:
            raise source.no(
                f"reads {dialect.sql(column)}, which is not a column of {table}", "name the table's own columns"
            )
        if key not in columns:
            raise _unknown(source, column.name, columns, table)
        for qualifier in ("table", "db"):
            column.set(qualifier, None)
        column.set("this", exp.to_identifier(columns[key], quoted=True))
    return tree


def _unknown(source: _Text, column: str, columns: Mapping[str, str], table: str) -> MwemError:
    listed = ", ".join(map(dialect.name, dict.fromkeys(columns.values())))
    near = did_you_mean(column, list(columns.values()), shown=dialect.name)
    error = refuse(
        PredicateError,
        source.where,
        f"{source} reads the unknown column {_shown(column)}",
        f"{near}{table} has the columns {listed}; if it is text, write {literal(column)}",
    )
    assert isinstance(error, PredicateError)
    error.reader, error.column = str(source), column
    return error


def name_collation(node: exp.Expr) -> None:
    """What COLLATE names is no column: NOCASE.NOACCENT, collations, one after the other."""
    if isinstance(node, exp.Collate) and isinstance(node.expression, exp.Column):
        node.set("expression", exp.var(".".join(part.sql(dialect.DIALECT) for part in node.expression.parts)))


def objection(node: exp.Expr) -> tuple[str, str] | None:
    """Why a node cannot be part of a deterministic expression over one row, and what to do; None if it can."""
    if isinstance(node, (exp.Query, exp.Exists, exp.Any, exp.All)):
        return "has a subquery; only the row's own columns may be read", _CURE
    if isinstance(node, exp.Window):
        return "has a window function; a query is asked of one row at a time", _CURE
    if isinstance(node, (exp.Placeholder, exp.Parameter, exp.SessionParameter)):
        return "has a parameter", "write the value into the text"
    if isinstance(node, exp.Star):
        return "has a star", "name the columns"
    if isinstance(node, exp.Alias):
        return (
            f"has an alias ({node.alias})",
            "leave it out: an expression has no name of its own; a name with a space in it takes double quotes",
        )
    if isinstance(node, exp.In) and (node.args.get("field") or node.args.get("unnest")):
        return "tests IN something other than a list", "write the list out: x IN (1, 2, 3)"
    if isinstance(node, _PLAIN_NODES):
        return None
    if isinstance(node, exp.Func):
        name = function_name(node)
        if name in ALLOWED_FUNCTIONS:
            return None
        if name in _AGGREGATES:
            return f"has the aggregate {name}; a query is asked of one row at a time", _CURE
        near = did_you_mean(name, ALLOWED_FUNCTIONS, 0.85, str)  # today is not to_days
        return f"calls {name}, which is not on the list of deterministic scalar functions", near + _CURE
    return f"has a part ({dialect.sql(node)}) that is not a scalar expression", _CURE


def _shown(name: str) -> str:
    """A name, with its code points where a look-alike or nothing at all could be seen in its place."""
    return name if name and name.isascii() and name.isprintable() else f"{name} ({name!a})"


def _too_deep(source: _Text) -> MwemError:
    return source.no(
        f"is nested too deeply (at most {MAX_DEPTH} levels, and fewer of parentheses and calls)",
        "use IN lists, or more rows",
    )


def _syntax(source: _Text, error: SqlglotError, lines_before: int) -> MwemError:
    """A syntax error with the line and a caret under the place."""
    details = getattr(error, "errors", None)
    if details:
        number = int(details[0]["line"]) - 1 - lines_before
        column = int(details[0]["col"]) - len(details[0]["highlight"] or "")
        reason = str(details[0]["description"])
        if "<class" in reason:
            reason = "something is missing here"
    else:
        closed = _CLOSED.match(source.text)
        read = source.text[: closed.end()] if closed else ""
        number = read.count("\n")
        column = len(read) - read.rfind("\n") - 1
        reason = "this has no end"
    lines = source.text.split("\n")
    line = lines[max(0, min(number, len(lines) - 1))]
    column = max(0, min(column, len(line)))
    start = max(0, column - 60)
    caret = re.sub(r"[^\t]", " ", line[start:column]) + "^"
    shown = f"  {line[start : start + 76]}\n  {caret}"
    return PredicateError(f"{source.where}: {source} is not valid SQL: {reason}.\n{shown}\nHint: {source.cure}")
