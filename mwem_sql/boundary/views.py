"""The grammar of a private view, under which each of its rows is made of one row of its source and nothing else but
at most one row of each table that it joins.

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold, function_name
from mwem_sql.language.functions import CALENDAR, ESCAPING, SPECIFIED
from mwem_sql.language.growth import characters
from mwem_sql.language.predicate import name_collation, objection
from mwem_sql.language.ticks import cast
from mwem_sql.platform.catalog import Column

ROW_ALIAS = "__mwem_rows"  # an alias that no table or column of the user has
MOST_GROWTH = 1000
"""Characters that an expression may make of one character of its row. Larger: a text may fill memory, which TRY does
not cover."""
_LONG = 10**6  # characters of a text for which growth is computed


class NotRowWiseError(Exception):
    """Which part of a definition is not in the grammar; the cure, where there is a better one than to leave it out."""

    def __init__(self, reason: str, cure: str = "") -> None:
        super().__init__(reason)
        self.cure = cure


@dataclass(frozen=True, eq=False)
class Join:
    """A table that a view joins to what stands before it: by `using` columns of both, or else `on` equations."""

    table: exp.Table
    is_left: bool
    on: exp.Expr | None = None
    using: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Side:
    """What a view reads rows of: its source, or a table that it joins. `full` is the name of one that has one, in parts.

    `hidden` are columns that no expression may name, and that the view hands on (`relations.KeyUnit`). `texts` are
    columns that a collation may reach.
    """

    tree: exp.Expr
    columns: Sequence[str]
    full: Sequence[str] = ()
    hidden: Sequence[str] = ()
    texts: Collection[str] = ()


Pairs = list[tuple[tuple[int, str], str]]
"""What a join equates: a side and a column of it, and a column of the joined table."""


@dataclass(frozen=True, eq=False)
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
    """A definition whose clauses are in the grammar; `expand` checks its expressions, given the columns of its sides."""

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
        _only(query, {"expressions", "from_", "where", "order", "joins"})
        table, joins = _flat(origin.this)
        return cls(query, table, tuple(map(_join, [*joins, *(query.args.get("joins") or ())])))

    def expand(self, *sides: Side) -> Expansion:
        """The view's SELECT over its sides, its expressions checked.

        What is checked is what will run: columns are listed and quoted, and sides are the given ones, whatever a name
        may mean later.
        """
        scope = _Scope(
            [
                _Names(side.columns, table.alias_column_names, [table.alias] if table.alias else side.full)
                for side, table in zip(sides, (self.source, *(join.table for join in self.joins)), strict=True)
            ]
        )
        for side, names in zip(sides, scope.sides, strict=True):
            lengths = list(_lengths(side.tree, [*side.columns, *side.hidden]).values())
            scope.lengths |= dict(zip(map(fold, names.unique), lengths, strict=False))
        pairs = [scope.pairs(number, join) for number, join in enumerate(self.joins, start=1)]
        items: list[exp.Expr] = []
        origins: list[str | None] = []
        for item in self.select.expressions:
            for made, origin in _items(item, scope):
                items.append(made)
                origins.append(origin)
        hidden = [name for side in sides for name in side.hidden]
        items += [exp.column(name, quoted=True) for name in hidden]
        where = self.select.args.get("where")
        rows = exp.select(*items).from_(_aliased(sides[0].tree, [*scope.sides[0].unique, *sides[0].hidden]))
        for number, (join, equal) in enumerate(zip(self.joins, pairs, strict=True), start=1):
            equations = [
                equation(scope.unique(*one), scope.unique(number, other), is_text=other in sides[number].texts)
                for one, other in equal
            ]
            rows = rows.join(
                _aliased(sides[number].tree, scope.sides[number].unique, number),
                on=exp.and_(*equations),
                join_type="left" if join.is_left else "inner",
                copy=False,
            )
        if where is not None:
            # The cast is DuckDB's own, which it would put around the whole, where TRY does not reach.
            rows = rows.where(_total(cast(scope.checked(where.this), "BOOLEAN")))
        _check_order(self.select.args.get("order"))
        places = {
            unique: (number, column)
            for number, (side, names) in enumerate(zip(sides, scope.sides, strict=True))
            for unique, column in zip(names.unique, side.columns, strict=True)
        }
        shown = [places.get(origin) if origin is not None else None for origin in origins]
        return Expansion(rows, shown, {places[name] for name in scope.read}, tuple(scope.calls), tuple(pairs))


def _flat(tree: exp.Expr) -> tuple[exp.Table, list[exp.Join]]:
    """What a FROM clause begins with, and the joins that follow; DuckDB prints them with parentheses around each."""
    if isinstance(tree, exp.Subquery) and not tree.alias and isinstance(tree.this, (exp.Table, exp.Subquery)):
        table, joins = _flat(tree.this)
        _only(tree, {"this", "joins"})
        return table, [*joins, *(tree.args.get("joins") or ())]
    if not isinstance(tree, exp.Table):
        raise NotRowWiseError("selects from something other than a table or file")
    _only(tree, {"this", "db", "catalog", "alias", "joins"})
    joins = tree.args.get("joins") or []
    table = tree.copy()
    table.set("joins", None)
    return table, joins


def _join(join: exp.Join) -> Join:
    """A join of the grammar."""
    kind = " ".join(filter(None, (str(join.args.get(part) or "") for part in ("method", "side", "kind")))).upper()
    on, using = join.args.get("on"), join.args.get("using") or ()
    shown = f"{kind or 'CROSS'} JOIN" if on is None and not using and kind in {"", "INNER"} else f"{kind} JOIN".strip()
    if kind not in {"", "INNER", "LEFT", "LEFT OUTER"} or (on is None and not using):
        raise NotRowWiseError(f"has a {shown}", "join by JOIN or LEFT JOIN, ON all columns of a key of the other table")
    for key, value in join.args.items():
        if value and key not in {"this", "side", "kind", "on", "using"}:
            raise NotRowWiseError(f"has a join with a clause ({key}) that a join along a key has not")
    table, inner = _flat(join.this)
    if inner or not isinstance(join.this, exp.Table):
        raise NotRowWiseError("has a join within a join", "write joins one after the other, without parentheses")
    is_left = kind.startswith("LEFT")
    return Join(table, is_left, on=on, using=tuple(column.name for column in using))


def equation(one: str, other: str, *, is_text: bool) -> exp.Expr:
    """Whether two columns have the same value. Texts are compared by their bytes: a collation would join several."""
    sides: list[exp.Expr] = [exp.column(name, quoted=True) for name in (one, other)]
    if is_text:
        sides = [exp.Collate(this=side, expression=exp.to_identifier("C", quoted=True)) for side in sides]
    return exp.EQ(this=sides[0], expression=sides[1])


class _Names:
    """The columns of a side, and the qualifiers that they may have; `unique` are their names among all sides."""

    def __init__(self, columns: Sequence[str], renamed: Sequence[str], name: Sequence[str]) -> None:
        self.columns = [*renamed, *columns[len(renamed) :]]  # FROM t AS x(a, b): by position, the rest keep their names
        self.unique = self.columns
        self.by_folded_name = dict(zip(map(fold, self.columns), self.unique, strict=True))
        # t.a, main.t.a, census.main.t.a
        self.qualifiers = [[fold(part) for part in name[start:]] for start in range(len(name))]
        self.merged: set[str] = set()
        """Columns, folded, that USING has made one with those of a side before."""

    def spelled(self, name: str) -> str:
        return next(column for column in self.columns if fold(column) == fold(name))

    def rename(self, taken: set[str]) -> None:
        """Give names of their own to columns that another side has, too."""
        self.unique = list(self.columns)
        for place, name in enumerate(self.columns):
            while fold(self.unique[place]) in taken:
                self.unique[place] += ":"
            taken.add(fold(self.unique[place]))
        self.by_folded_name = dict(zip(map(fold, self.columns), self.unique, strict=True))


class _Scope:
    """The columns that a view's expressions may name, by its sides."""

    def __init__(self, sides: Sequence[_Names]) -> None:
        self.sides = sides
        taken: set[str] = set()
        for side in sides:
            side.rename(taken)
        self.read: set[str] = set()
        self.calls: list[exp.Func] = []
        self.lengths = {fold(name): float(_LONG) for side in sides for name in side.unique}

    def unique(self, side: int, column: str) -> str:
        return self.sides[side].by_folded_name[fold(column)]

    def pairs(self, number: int, join: Join) -> Pairs:
        """What a join equates: columns of sides before it with columns of the joined one."""
        side = self.sides[number]
        if join.using:
            equal = [(self._before(number, name), name) for name in join.using]
            for _, name in equal:
                if fold(name) not in side.by_folded_name:
                    raise NotRowWiseError(f"joins USING ({name}), which {join.table.name} has not")
            side.merged = {fold(name) for _, name in equal}
            return [(one, side.spelled(name)) for one, name in equal]
        assert join.on is not None
        out: Pairs = []
        for part in join.on.flatten() if isinstance(join.on.unnest(), exp.And) else [join.on]:
            out += self._equal(number, part.unnest(), join)
        return out

    def _equal(self, number: int, tree: exp.Expr, join: Join) -> Pairs:
        if isinstance(tree, exp.And):
            return [pair for part in (tree.this, tree.expression) for pair in self._equal(number, part.unnest(), join)]
        sides = (tree.this.unnest(), tree.expression.unnest()) if isinstance(tree, exp.EQ) else ()
        if not sides or not all(isinstance(side, exp.Column) for side in sides):
            raise NotRowWiseError(
                f"joins {join.table.name} ON {tree.sql('duckdb')}, which is no equation of two columns",
                "join ON columns alone, and put other conditions into WHERE",
            )
        places = [self._place(side) for side in sides]
        inside = [place for place in places if place[0] == number]
        before = [place for place in places if place[0] < number]
        if len(inside) != 1 or len(before) != 1:
            raise NotRowWiseError(
                f"joins {join.table.name} ON {tree.sql('duckdb')}, which is no equation of a column of its own with "
                "one of what stands before it"
            )
        return [(before[0], self.sides[number].spelled(inside[0][1]))]

    def _before(self, number: int, name: str) -> tuple[int, str]:
        """The column of a side before one that USING names."""
        having = [
            k for k, side in enumerate(self.sides[:number])
            if fold(name) in side.by_folded_name and fold(name) not in side.merged
        ]  # fmt: skip
        if len(having) != 1:
            raise NotRowWiseError(f"joins USING ({name}), which {len(having) or 'none'} of what stands before has")
        return having[0], self.sides[having[0]].spelled(name)

    def _place(self, column: exp.Column) -> tuple[int, str]:
        """The side and the column of a name without fields."""
        number, rest = self._side(column)
        if len(rest) != 1:
            raise NotRowWiseError(f"joins by {column.sql('duckdb')}, which is a field and no column")
        return number, self.sides[number].spelled(rest[0].name)

    def _side(self, column: exp.Column) -> tuple[int, list[exp.Expr]]:
        """The side that a name is of, and the name without a qualifier: a column, and perhaps fields of it."""
        parts = [fold(part.name) for part in column.parts]
        matches = [
            (number, len(each))
            for number, side in enumerate(self.sides)
            for each in side.qualifiers
            if parts[: len(each)] == each and len(parts) > len(each)
        ]
        if matches and any(parts[0] in side.by_folded_name for side in self.sides):
            raise NotRowWiseError(
                f"reads {column.sql('duckdb')}, where {column.parts[0].name} is both a column and its table"
            )
        length = max((length for _, length in matches), default=0)
        rest = list(column.parts[length:])
        name = fold(rest[0].name)
        numbers = {number for number, each in matches if each == length} if matches else set(range(len(self.sides)))
        having = [
            number
            for number in sorted(numbers)
            if name in self.sides[number].by_folded_name and (matches or name not in self.sides[number].merged)
        ]
        if len(having) > 1:
            raise NotRowWiseError(f"reads {column.sql('duckdb')}, which is a column of several tables")
        if not having:
            raise NotRowWiseError(
                f"reads {'.'.join(part.name for part in column.parts)}, which is not a column of what it selects from"
            )
        return having[0], rest

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
        number, rest = self._side(column)
        tree: exp.Expr = self.column(self.unique(number, rest[0].name))
        for field in rest[1:]:
            tree = exp.Dot(this=exp.paren(tree), expression=exp.to_identifier(field.name, quoted=True))
        return tree

    def column(self, name: str) -> exp.Column:
        self.read.add(name)
        return exp.column(name, quoted=True)

    def starred(self, star: exp.Column | None) -> list[tuple[str, str]]:
        """What a star stands for: the names of columns, and their unique names."""
        if star is None:
            return [
                (name, unique)
                for side in self.sides
                for name, unique in zip(side.columns, side.unique, strict=True)
                if fold(name) not in side.merged
            ]
        parts = [fold(part.name) for part in star.parts[:-1]]
        having = [side for side in self.sides if parts in side.qualifiers]
        if len(having) != 1 or any(parts[0] in side.by_folded_name for side in self.sides):
            raise NotRowWiseError(f"has {star.sql('duckdb')}, a star of something other than its source")
        return list(zip(having[0].columns, having[0].unique, strict=True))


def _only(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse a node that has another clause than those."""
    reasons = {
        "with_": "has a WITH clause", "joins": "joins", "laterals": "joins", "group": "aggregates",
        "having": "aggregates", "distinct": "drops duplicates", "windows": "uses windows", "qualify": "uses windows",
        "limit": "limits its rows", "offset": "limits its rows", "sample": "samples", "pivots": "pivots",
    }  # fmt: skip
    for key, value in node.args.items():
        if value and key not in allowed:
            raise NotRowWiseError(reasons.get(key, f"has a clause ({key}) that a row-wise view has not"))


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
        columns = scope.starred(inner if isinstance(inner, exp.Column) else None)
        _only(star, {"except_", "replace"})
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
    scope = _Scope([_Names(names, (), ())])
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
    expansion = Expansion(exp.select(*items).from_(table.copy()), plain, read, tuple(scope.calls))
    return expansion, odd, {name: tree for name, tree in trees.items() if name not in odd}
