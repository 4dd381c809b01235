"""A checked expression taken apart: at AND, OR and NOT, down to leaves over one column, or that join several otherwise.

Owns the facts of a leaf: its columns, and the constants that it compares its column with. Syntax only; evaluates
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from mwem_sql.language import dialect
from mwem_sql.language.predicate import COMPARISONS

# The operator of each comparison, with the column on the left and on the right.
_OPERATORS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("<>", "<>"),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}


# What is true or false, whatever the types of columns are.
_CONDITIONS = (*COMPARISONS, exp.And, exp.Or, exp.Not, exp.Is, exp.Between, exp.In)


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A maximal part of an expression that AND, OR and NOT need not take apart.

    `compared` are the constants that a one-column leaf compares its column with, if it does nothing else with it:
    between two neighbouring ones it has one value, so the column's values need not be listed. `test` is an operator and
    its constants where the leaf is one comparison, BETWEEN or IN of the column with plain constants.
    """

    sql: str
    columns: tuple[str, ...]
    compared: tuple[str, ...] | None
    test: tuple[str, tuple[str, ...]] | None
    is_column: bool


@dataclass(frozen=True)
class Compound:
    """An AND, OR or NOT over several columns."""

    connective: str
    parts: tuple[Leaf | Compound, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))


Condition = Leaf | Compound


@dataclass(frozen=True, eq=False)
class Part:
    """What a query asks of a row, by its role.

    "truth": the condition is true. "group": the row is counted by this leaf's value. "factor": the value is
    multiplied by this leaf. "present": this leaf is not NULL. Queries share parts, so a part equals itself only.
    """

    role: str
    what: Condition
    columns: tuple[str, ...]


def columns_of(tree: exp.Expr) -> tuple[str, ...]:
    """Names of the columns an expression reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column, bfs=False)))


def conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The parts that a top-level AND joins; each must be true for the whole to be true."""
    return operands(tree, exp.And)


def operands(tree: exp.Expr, operator: type[exp.Expr]) -> Iterator[exp.Expr]:
    """What a binary operator joins at the top of an expression, from left to right, however it is bracketed."""
    inner = tree.unnest()
    if isinstance(inner, operator):
        yield from operands(inner.this, operator)
        yield from operands(inner.expression, operator)
    else:
        yield inner


def leaf(tree: exp.Expr) -> Leaf:
    columns = columns_of(tree)
    compared = _constants(tree) if len(columns) == 1 else None
    listed = None if compared is None else tuple(map(dialect.sql, compared))
    return Leaf(
        sql=dialect.sql(tree),
        columns=columns,
        compared=listed,
        test=_test(tree.unnest()),
        is_column=is_column(tree),
    )


def condition(tree: exp.Expr) -> Condition:
    """An expression taken apart at AND, OR and NOT down to leaves."""
    inner = _equivalence(tree.unnest())
    if not isinstance(inner, (exp.And, exp.Or, exp.Not)) or len(columns_of(inner)) < 2:
        return leaf(inner)
    below = (inner.this,) if isinstance(inner, exp.Not) else (inner.this, inner.expression)
    return Compound(inner.key, tuple(map(condition, below)))


def _equivalence(tree: exp.Expr) -> exp.Expr:
    """(a) = (b) and (a) <> (b) of conditions on two columns by AND, OR and NOT, with the same truth, NULL included."""
    if not isinstance(tree, (exp.EQ, exp.NEQ)):
        return tree
    one, other = tree.this.unnest(), tree.expression.unnest()
    # Of one column each: what is written twice does not grow with the depth of a text.
    is_short = len(columns_of(one)) == len(columns_of(other)) == 1 < len(columns_of(tree))
    if not is_short or not isinstance(one, _CONDITIONS) or not isinstance(other, _CONDITIONS):
        return tree
    first, second = (other, exp.not_(other)) if isinstance(tree, exp.EQ) else (exp.not_(other), other)
    return exp.or_(exp.and_(one, first), exp.and_(exp.not_(one), second))


def leaves(of: Condition) -> Iterator[Leaf]:
    if isinstance(of, Leaf):
        yield of
    else:
        for part in of.parts:
            yield from leaves(part)


def comparison(tree: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """The operator and constants of one comparison, BETWEEN or IN of a column with constants; None for others.

    The operator is that with the column on the left.
    """
    column, constants = tree.this, list(tree.expressions)
    if type(tree) in _OPERATORS:
        operator, mirrored = _OPERATORS[type(tree)]
        constants = [tree.expression]
        if not is_column(column):
            column, operator, constants = tree.expression, mirrored, [tree.this]
    elif isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        operator, constants = "between", [tree.args["low"], tree.args["high"]]
    elif isinstance(tree, exp.In):
        operator = "in"
    else:
        return None
    is_plain = is_column(column) and constants and not any(columns_of(constant) for constant in constants)
    return (operator, constants) if is_plain else None


def is_column(tree: exp.Expr) -> bool:
    return isinstance(tree.unnest(), exp.Column)


def _test(tree: exp.Expr) -> tuple[str, tuple[str, ...]] | None:
    operator, constants = comparison(tree) or ("", [])
    return (operator, tuple(map(dialect.sql, constants))) if constants and all(map(_is_plain, constants)) else None


def _is_plain(constant: exp.Expr) -> bool:
    if isinstance(constant, exp.Neg):
        return isinstance(constant.this, exp.Literal) and not constant.this.is_string
    return isinstance(constant, exp.Literal)


def _constants(tree: exp.Expr) -> list[exp.Expr] | None:
    """The constants a one-column expression compares its column with, or None if it does anything else with it.

    What is made of the comparisons does not matter: AND and NOT, CASE WHEN x > 3 THEN 'high' END, (x > 3) = (x < 5).
    """
    inner = tree.unnest()
    if is_column(inner):
        return None
    compared = _compared(inner)
    if compared is not None:
        return compared
    constants: list[exp.Expr] = []
    for part in inner.iter_expressions():
        below = _constants(part)
        if below is None:
            return None
        constants += below
    return constants


def _compared(tree: exp.Expr) -> list[exp.Expr] | None:
    """The constants of one comparison of the column, or None if it is something else."""
    if isinstance(tree, exp.Is) and is_column(tree.this) and isinstance(tree.expression, exp.Null):
        return []
    compared: list[exp.Expr]
    if isinstance(tree, COMPARISONS):
        sides = [tree.this, tree.expression]
        if not any(is_column(side) for side in sides):
            return None
        compared = [side for side in sides if not is_column(side)]
    elif isinstance(tree, exp.Between) and is_column(tree.this):
        compared = [tree.args["low"], tree.args["high"]]
    elif isinstance(tree, exp.In) and is_column(tree.this):
        compared = list(tree.expressions)
    else:
        return None
    return None if any(columns_of(side) for side in compared) else compared


def unquoted(constant: str) -> str:
    """A constant of a condition as the value's own text: that of a text without its quotes."""
    return constant[1:-1].replace("''", "'") if constant[:1] == "'" else constant
