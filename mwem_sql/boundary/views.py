"""The grammar of a private view: what its definition may say, so that each of its rows is made of one row of one source and nothing else.

    view    SELECT item, ... FROM source [WHERE expression] [ORDER BY ...]
    source  a table, a view or a file, with or without an alias
    item    * [EXCLUDE (...)] [REPLACE (...)], or an expression with or without a name
    expression
            what a predicate may say (`predicate.objection`: columns, constants, operators, the functions of `ALLOWED_FUNCTIONS`), and fields of
            STRUCT columns. Every column must be one of the source's own: `rowid`, `file_row_number` and the like are not among them, nor is
            another item's name.

An allow-list: what is not named here is refused. Syntax only; looks nothing up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from mwem_sql.database.dialect import fold, function_name
from mwem_sql.database.predicate import name_collation, objection

ROWS = "__mwem_rows"  # an alias that no table or column of the user has
_CLAUSES = {"expressions", "from_", "where", "order"}
_REASONS = {
    "with_": "has a WITH clause", "joins": "joins", "laterals": "joins", "group": "aggregates", "having": "aggregates",
    "distinct": "drops duplicates", "windows": "uses windows", "qualify": "uses windows", "limit": "limits its rows",
    "offset": "limits its rows", "sample": "samples", "pivots": "pivots",
}  # fmt: skip


class NotRowWiseError(Exception):
    """Which part of a definition is not in the grammar."""


@dataclass(frozen=True, eq=False)
class WrittenOut:
    """A view's SELECT over its source; for each of its columns the one of the source that it shows unchanged; and all that it reads."""

    select: exp.Select
    origins: list[str | None]
    read: set[str]


@dataclass(frozen=True, eq=False)
class View:
    """A definition whose clauses are in the grammar; its expressions are checked when the source's columns are known."""

    select: exp.Select
    source: exp.Table

    @classmethod
    def of(cls, query: exp.Expr) -> View:
        if not isinstance(query, exp.Select):
            raise NotRowWiseError("is not a plain SELECT")
        origin = query.args.get("from_")
        if origin is None:
            raise NotRowWiseError("reads no table")
        _only(query, _CLAUSES)
        table = origin.this
        if table.find(exp.Join):
            raise NotRowWiseError("joins")
        if not isinstance(table, exp.Table):
            raise NotRowWiseError("selects from something other than a table or file")
        _only(table, {"this", "db", "catalog", "alias"})
        return cls(query, table)

    def written_out(self, source: exp.Expr, columns: Sequence[str], full: Sequence[str] = ()) -> WrittenOut:
        """The view's SELECT over a source with these columns, its expressions checked. `full` is the name of a source that has one, in parts.

        What is checked is what will run: columns are written out and quoted, and the source is the given one, whatever a name may mean later.
        """
        scope = _Scope(columns, self.source.alias_column_names, [self.source.alias] if self.source.alias else full)
        items: list[exp.Expr] = []
        origins: list[str | None] = []
        for item in self.select.expressions:
            for made, origin in _items(item, scope):
                items.append(made)
                origins.append(origin)
        where = self.select.args.get("where")
        rows = exp.select(*items).from_(_aliased(source, scope.columns))
        if where is not None:
            rows = rows.where(scope.checked(where.this))
        _check_order(self.select.args.get("order"))
        below = dict(zip(scope.columns, columns, strict=True))
        shown = [below.get(origin) if origin is not None else None for origin in origins]
        return WrittenOut(rows, shown, {below[name] for name in scope.read})


class _Scope:
    """The columns that a view's expressions may name, and the qualifiers that they may have."""

    def __init__(self, columns: Sequence[str], renamed: Sequence[str], name: Sequence[str]) -> None:
        self.columns = [*renamed, *columns[len(renamed) :]]  # FROM t AS x(a, b): by position, the rest keep their names
        self.read: set[str] = set()
        self._known = {fold(name): name for name in self.columns}
        # t.a, main.t.a, census.main.t.a
        self._qualifiers = [[fold(part) for part in name[start:]] for start in range(len(name))]

    def checked(self, tree: exp.Expr) -> exp.Expr:
        """An expression of the grammar, its columns without qualifiers and quoted."""
        tree = tree.copy()
        for node in list(tree.walk()):
            reason = _objection(node)
            if reason is not None:
                raise NotRowWiseError(reason)
            name_collation(node)
        for column in list(tree.find_all(exp.Column)):
            own = self.resolved(column)
            if column is tree:
                tree = own
            else:
                column.replace(own)
        return tree

    def resolved(self, column: exp.Column) -> exp.Expr:
        """A column of the source, or a field of one."""
        parts = [fold(part.name) for part in column.parts]
        lengths = [len(own) for own in self._qualifiers if parts[: len(own)] == own and len(parts) > len(own)]
        if lengths and parts[0] in self._known:
            raise NotRowWiseError(
                f"reads {column.sql('duckdb')}, where {column.parts[0].name} is both a column and its table"
            )
        rest = column.parts[max(lengths, default=0) :]
        name = self._known.get(fold(rest[0].name))
        if name is None:
            raise NotRowWiseError(
                f"reads {'.'.join(part.name for part in column.parts)}, which is not a column of what it selects from"
            )
        tree: exp.Expr = self.column(name)
        for field in rest[1:]:
            tree = exp.Dot(this=exp.paren(tree), expression=exp.to_identifier(field.name, quoted=True))
        return tree

    def column(self, name: str) -> exp.Column:
        self.read.add(name)
        return exp.column(name, quoted=True)

    def check_qualifier(self, star: exp.Column) -> None:
        parts = [fold(part.name) for part in star.parts[:-1]]
        if parts not in self._qualifiers or parts[0] in self._known:
            raise NotRowWiseError(f"has {star.sql('duckdb')}, a star of something other than its source")


def _only(node: exp.Expr, allowed: set[str]) -> None:
    for key, value in node.args.items():
        if value and key not in allowed:
            raise NotRowWiseError(_REASONS.get(key, f"has a clause ({key}) that a row-wise view has not"))


def _check_order(order: exp.Expr | None) -> None:
    """An order is left out, for it changes no row; but an aggregate in it would."""
    for node in order.walk() if order is not None else ():
        is_all = isinstance(node, exp.Anonymous) and function_name(node) == "columns"  # ORDER BY ALL
        is_order = is_all or isinstance(node, (exp.Star, exp.Order, exp.Ordered))
        reason = None if is_order else _objection(node)
        if reason is not None:
            raise NotRowWiseError(reason)


def _aliased(source: exp.Expr, columns: Sequence[str]) -> exp.Expr:
    """A source under an alias of ours, which no column can be mistaken for."""
    source = source.copy()
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    source.set("alias", exp.TableAlias(this=exp.to_identifier(ROWS), columns=names))
    return source


def _items(item: exp.Expr, scope: _Scope) -> Iterator[tuple[exp.Expr, str | None]]:
    """What an item stands for: expressions, and the source's column where one is shown unchanged."""
    inner = item.unalias()
    star = inner.this if isinstance(inner, exp.Column) else inner
    if isinstance(star, exp.Star):
        if isinstance(inner, exp.Column):
            scope.check_qualifier(inner)  # of a STRUCT, it stands for its fields
        _only(star, {"except_", "replace"})
        left_out = {fold(column.name) for column in star.args.get("except_") or ()}
        computed = {fold(column.alias_or_name): column.unalias() for column in star.args.get("replace") or ()}
        for name in scope.columns:
            if fold(name) in computed:
                yield scope.checked(computed[fold(name)]), None
            elif fold(name) not in left_out:
                yield scope.column(name), name
        return
    made = scope.checked(inner)
    yield made, made.name if isinstance(made, exp.Column) else None


def _objection(node: exp.Expr) -> str | None:
    if isinstance(node, (exp.Query, exp.Exists, exp.Any, exp.All)):
        return "has a subquery"
    if isinstance(node, exp.Window):
        return "uses windows"
    if isinstance(node, exp.Dot):
        # A field; not a function of a schema, which may be the user's, nor one that is called on a value.
        is_field = isinstance(node.expression, exp.Identifier)
        return None if is_field else f"calls {function_name(node.expression)} by a qualified name"
    if isinstance(node, exp.Func) and objection(node) is not None:
        return f"calls {function_name(node)}, which is not on the list of functions of one row"
    if objection(node) is not None:
        return f"has a part ({node.sql('duckdb')}) that is not a plain expression of one row"
    return None


def columns_read(tree: exp.Expr, columns: Sequence[str]) -> set[str]:
    """What the expression of a generated column reads of the table's columns; checked as if a view computed it."""
    scope = _Scope(columns, (), ())
    scope.checked(tree)
    return scope.read
