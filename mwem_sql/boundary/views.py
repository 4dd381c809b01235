"""The grammar of a private view: each row is made of one row of its source, and of one at most of what it joins.

    view    SELECT item, ... FROM source [join ...] [WHERE expression] [ORDER BY ...]
    source  a table, a view or a file, with or without an alias
    join    [INNER | LEFT] JOIN table [AS alias] USING (column, ...), or ON equation [AND equation ...]
    equation
            a column of the table = a column of what stands before it; a key's columns, all of them (`relations`)
    item    * [EXCLUDE (...)] [REPLACE (...)], or an expression with or without a name
    expression
            what a predicate may say (`predicate.objection`: columns, constants, operators, the functions of
            `ALLOWED_FUNCTIONS`), and fields of STRUCT columns. Every column must be one of the source: `rowid`,
            `file_row_number` and the like are not among them, nor is another item's name.

An allow-list: what is not named here is refused. An expansion is total: an expression that fails on a row is NULL
there, so that no row can fail a scan (`_total`). Syntax only; looks nothing up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from mwem_sql.boundary.sides import (
    ROW_ALIAS,
    Join,
    NotRowWiseError,
    Pairs,
    Side,
    SideNames,
    Sides,
    equation,
    flat,
    join_of,
    only,
)
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold, function_name
from mwem_sql.language.functions import CALENDAR, ESCAPING, SPECIFIED
from mwem_sql.language.growth import characters
from mwem_sql.language.predicate import name_collation, objection
from mwem_sql.language.ticks import cast
from mwem_sql.platform.catalog import Column

MOST_GROWTH = 1000
"""Characters that an expression may make of one character of its row. Larger: a text may fill memory, which TRY does
not cover."""
_LONG = 10**6  # characters of a text for which growth is computed


@dataclass(frozen=True, eq=False, kw_only=True)
class Expansion:
    """A view's SELECT over its sides. `origins` has for each of its columns a side's, if it is shown unchanged.

    `read` are all columns that it reads. `calls` are those of `CALENDAR`: whether DuckDB has one depends on the types
    of its arguments. A side is a number: 0 is the source, the others are what is joined. `pairs` are what each join
    equates.
    """

    select: exp.Select
    origins: list[tuple[int, str] | None]
    read: set[tuple[int, str]]
    calls: tuple[exp.Func, ...] = ()
    pairs: tuple[Pairs, ...] = ()


@dataclass(frozen=True, eq=False)
class View:
    """A definition whose clauses are in the grammar; `expand` checks its expressions, given its sides' columns."""

    select: exp.Select
    source: exp.Table
    joins: tuple[Join, ...] = ()

    @classmethod
    def of(cls, query: exp.Expr) -> View:
        if not isinstance(query, exp.Select):
            raise NotRowWiseError("is not a plain SELECT")
        origin = query.args.get("from_")
        if origin is None:
            raise NotRowWiseError("reads no table")
        only(query, {"expressions", "from_", "where", "order", "joins"})
        table, joins = flat(origin.this)
        return cls(query, table, tuple(map(join_of, [*joins, *(query.args.get("joins") or ())])))

    def expand(self, *sides: Side) -> Expansion:
        """The view's SELECT over its sides, its expressions checked.

        What is checked is what will run: columns are listed and quoted, and sides are the given ones, whatever a name
        may mean later.
        """
        scope = _Scope(
            [
                SideNames(side.columns, table.alias_column_names, [table.alias] if table.alias else side.full)
                for side, table in zip(sides, (self.source, *(join.table for join in self.joins)), strict=True)
            ]
        )
        for side, names in zip(sides, scope.names.sides, strict=True):
            lengths = list(_lengths(side.tree, [*side.columns, *side.hidden]).values())
            scope.lengths |= dict(zip(map(fold, names.unique), lengths, strict=False))
        places = {
            unique: (number, column)
            for number, (side, names) in enumerate(zip(sides, scope.names.sides, strict=True))
            for unique, column in zip(names.unique, side.columns, strict=True)
        }
        joined = [scope.names.equated(number, join) for number, join in enumerate(self.joins, start=1)]
        pairs = [[(places[one], places[other][1]) for one, other in equal] for equal in joined]
        items: list[exp.Expr] = []
        origins: list[str | None] = []
        for item in self.select.expressions:
            for made, origin in _items(item, scope):
                items.append(made)
                origins.append(origin)
        hidden = [name for side in sides for name in side.hidden]
        items += [exp.column(name, quoted=True) for name in hidden]
        where = self.select.args.get("where")
        rows = exp.select(*items).from_(_aliased(sides[0].tree, [*scope.names.sides[0].unique, *sides[0].hidden]))
        for number, (join, equal) in enumerate(zip(self.joins, joined, strict=True), start=1):
            texts = sides[number].texts
            equations = [equation(one, other, is_text=places[other][1] in texts) for one, other in equal]
            rows = rows.join(
                _aliased(sides[number].tree, scope.names.sides[number].unique, number),
                on=exp.and_(*equations),
                join_type="left" if join.is_left else "inner",
                copy=False,
            )
        if where is not None:
            # The cast is DuckDB's own, which it would put around the whole, where TRY does not reach.
            rows = rows.where(_total(cast(scope.checked(where.this), "BOOLEAN")))
        _check_order(self.select.args.get("order"))
        shown = [places.get(origin) if origin is not None else None for origin in origins]
        return Expansion(
            select=rows,
            origins=shown,
            read={places[name] for name in scope.read},
            calls=tuple(scope.calls),
            pairs=tuple(pairs),
        )


class _Scope:
    """The columns that a view's expressions may name, and what they read and call."""

    def __init__(self, sides: Sequence[SideNames]) -> None:
        self.names = Sides(sides)
        self.read: set[str] = set()
        self.calls: list[exp.Func] = []
        self.lengths = {fold(name): float(_LONG) for side in sides for name in side.unique}

    def checked(self, tree: exp.Expr) -> exp.Expr:
        """An expression of the grammar, its columns without qualifiers and quoted."""
        tree = tree.copy()
        for node in list(tree.walk()):
            reason = _objection(node)
            if reason is not None:
                raise NotRowWiseError(reason)
            name_collation(node)
            if isinstance(node, exp.Anonymous) and function_name(node) == "strptime":
                # Within TRY they are the same, but for an unknown time zone, whose error TRY does not cover.
                node.set("this", "try_strptime")
        for column in list(tree.find_all(exp.Column)):
            resolved = self.resolved(column)
            if column is tree:
                tree = resolved
            else:
                column.replace(resolved)
        if _made(tree, self.lengths) > MOST_GROWTH * _LONG:
            raise NotRowWiseError(
                f"has a part ({tree.sql('duckdb')}) that may make more than {MOST_GROWTH:,} characters of one; sizes "
                "must be small constants"
            )
        self.calls += [node for node in tree.find_all(exp.Func) if function_name(node) in CALENDAR]
        return tree

    def resolved(self, column: exp.Column) -> exp.Expr:
        """A column of a side, or a field of one."""
        number, rest = self.names.side(column)
        tree: exp.Expr = self.column(self.names.unique(number, rest[0].name))
        for field in rest[1:]:
            tree = exp.Dot(this=exp.paren(tree), expression=exp.to_identifier(field.name, quoted=True))
        return tree

    def column(self, name: str) -> exp.Column:
        self.read.add(name)
        return exp.column(name, quoted=True)


def _check_order(order: exp.Expr | None) -> None:
    """An order is left out, for it changes no row; but an aggregate in it would."""
    for node in order.walk() if order is not None else ():
        is_all = isinstance(node, exp.Anonymous) and function_name(node) == "columns"  # ORDER BY ALL
        is_order = is_all or isinstance(node, (exp.Star, exp.Order, exp.Ordered))
        reason = None if is_order else _objection(node)
        if reason is not None:
            raise NotRowWiseError(reason)


def _aliased(source: exp.Expr, columns: Sequence[str], number: int = 0) -> exp.Expr:
    """A source under an alias of ours, which no column can be mistaken for."""
    source = source.copy()
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    alias = exp.to_identifier(f"{ROW_ALIAS}_{number}" if number else ROW_ALIAS)
    source.set("alias", exp.TableAlias(this=alias, columns=names))
    return source


def _items(item: exp.Expr, scope: _Scope) -> Iterator[tuple[exp.Expr, str | None]]:
    """What an item stands for: expressions, and the source's column where one is shown unchanged."""
    inner = item.unalias()
    star = inner.this if isinstance(inner, exp.Column) else inner
    if isinstance(star, exp.Star):
        # Of a STRUCT it would stand for its fields.
        columns = scope.names.starred(inner if isinstance(inner, exp.Column) else None)
        only(star, {"except_", "replace"})
        left_out = {fold(column.name) for column in star.args.get("except_") or ()}
        computed = {fold(column.alias_or_name): column.unalias() for column in star.args.get("replace") or ()}
        for name, unique in columns:
            if fold(name) in computed:
                yield _total(scope.checked(computed[fold(name)])), None
            elif fold(name) not in left_out:
                yield scope.column(unique), unique
        return
    made = scope.checked(inner)
    yield _total(made), made.name if isinstance(made, exp.Column) else None


def _total(tree: exp.Expr) -> exp.Expr:
    """An expression that is NULL on the rows that it fails on; a column as it is.

    By DuckDB's TRY, and two things that keep the optimizer from evaluating a part of it elsewhere. Each column goes
    through a TRY, so that no statistic of it reaches a function (date_trunc of the least and the greatest date is
    evaluated when a scan is planned, and raises there). And the whole is in the branches of a CASE, where common parts
    of several expressions are not looked for: they would be evaluated once for all, outside of TRY.
    """
    if isinstance(tree, exp.Column):
        return tree
    if _is_leaf(tree):
        return tried(tree)
    leaves = [node for node in tree.walk(prune=_is_leaf) if _is_leaf(node)]
    first = leaves[0].copy() if leaves else None
    for leaf in leaves:
        leaf.replace(tried(leaf.copy()))
    whole = tried(tree)
    if first is None:
        return whole
    test = exp.Is(this=tried(first), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=test, true=whole)], default=whole.copy())


def tried(tree: exp.Expr) -> exp.Expr:
    """NULL where the tree fails in one of the ways that DuckDB's TRY covers."""
    return exp.Anonymous(this="TRY", expressions=[tree])


def _is_tried(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and function_name(node) == "try"


def _is_leaf(node: exp.Expr) -> bool:
    """A column, or a field of one."""
    while isinstance(node, (exp.Dot, exp.Paren)):
        node = node.this
    return isinstance(node, exp.Column)


def _lengths(source: exp.Expr, columns: Sequence[str]) -> dict[str, float]:
    """Characters of each column of a source if those of its table have `_LONG`: views below it may make them longer."""
    if not isinstance(source, exp.Subquery):
        return {fold(name): float(_LONG) for name in columns}
    lengths: dict[str, float] = {}
    for below in (source.this.args["from_"].this, *(join.this for join in source.this.args.get("joins") or ())):
        lengths |= _lengths(below, below.alias_column_names)
    return {fold(name): _made(item, lengths) for name, item in zip(columns, source.this.expressions, strict=True)}


def _made(item: exp.Expr, lengths: Mapping[str, float]) -> float:
    """Characters that an item may make: counted where functions lengthen a text, else no more than it reads."""
    if isinstance(item, exp.Case) and _is_tried(item.args.get("default")):  # as `_total` has it: twice the same
        item = item.args["default"]
    read = sum(lengths.get(fold(column.name), _LONG) for column in item.find_all(exp.Column))
    return max(read, *characters([dialect.sql(item)], lengths))


def _objection(node: exp.Expr) -> str | None:
    if isinstance(node, (exp.Query, exp.Exists, exp.Any, exp.All)):
        return "has a subquery"
    if isinstance(node, exp.Window):
        return "uses windows"
    if isinstance(node, exp.Dot):
        # A field; not a function of a schema, which may be the user's, nor one that is called on a value.
        is_field = isinstance(node.expression, exp.Identifier)
        return None if is_field else f"calls {function_name(node.expression)} by a qualified name"
    if isinstance(node, (exp.Func, exp.Escape)):
        reason = _condition(node)
        if reason is not None:
            return reason
    if isinstance(node, exp.Func) and objection(node) is not None:
        return f"calls {function_name(node)}, which is not on the list of functions of one row"
    if objection(node) is not None:
        return f"has a part ({node.sql('duckdb')}) that is not a plain expression of one row"
    return None


def _condition(node: exp.Expr) -> str | None:
    """Why a call may fail a scan in a way that TRY does not cover."""
    name = function_name(node) if isinstance(node, exp.Func) else "LIKE"
    if isinstance(node, exp.Escape) or name in ESCAPING:
        pattern, escape = (
            (node.this.expression, node.expression) if isinstance(node, exp.Escape) else node.expressions[1:]
        )
        if not all(isinstance(part, exp.Literal) and part.is_string for part in (pattern, escape)):
            return f"calls {name} with a pattern or an escape character that is not a constant"
        sign = re.escape(escape.name)
        if len(escape.name) > 1 or (sign and not re.fullmatch(f"(?:(?!{sign}).|{sign}.)*", pattern.name, re.DOTALL)):
            return f"calls {name} with an escape character ({escape.name}) that is not one, or that ends the pattern"
    if name in SPECIFIED:
        first, *rest = node.expressions or [node.this, *node.iter_expressions()]
        if first.find(exp.Column) is not None and (rest or name != "timezone"):
            return f"calls {name} with a first argument that is not a constant"
    return None


def with_generated(
    table: exp.Expr, columns: Sequence[Column], expressions: Mapping[str, exp.Expr]
) -> tuple[Expansion, dict[str, str], dict[str, exp.Expr]]:
    """A table with its generated columns expanded, and why some are not in the grammar: those are NULL in it.

    And what each of the others is computed by, of plain columns.
    """
    names = [column.name for column in columns]
    types = {column.name: column.type for column in columns}
    scope = _Scope([SideNames(names, (), ())])
    trees: dict[str, exp.Expr] = {}
    odd: dict[str, str] = {}

    def inlined(name: str) -> exp.Expr:
        """What a generated column is computed of, down to plain ones: it may read others."""
        if name not in trees:
            tree = cast(scope.checked(expressions[name]), types[name])
            for column in list(tree.find_all(exp.Column)):
                if column.name in expressions:
                    try:
                        column.replace(inlined(column.name).copy())
                    except NotRowWiseError:
                        raise NotRowWiseError(f"reads the generated column {column.name}") from None
            trees[name] = tree
        return trees[name]

    items: list[exp.Expr] = []
    for name in names:
        if name not in expressions:
            items.append(scope.column(name))
            continue
        try:
            items.append(_total(inlined(name).copy()))
        except NotRowWiseError as reason:
            odd[name] = str(reason)
            items.append(cast(exp.null(), types[name]))
    plain = [(0, name) if name not in expressions else None for name in names]
    read = {(0, name) for name in scope.read}
    rows = exp.select(*items).from_(table.copy())
    expansion = Expansion(select=rows, origins=plain, read=read, calls=tuple(scope.calls))
    return expansion, odd, {name: tree for name, tree in trees.items() if name not in odd}
