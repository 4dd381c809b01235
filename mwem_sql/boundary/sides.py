"""What a view reads: its sides, which are its source and the tables that it joins, and how their columns are named.

The grammar of FROM (`views` has it): an allow-list. Syntax only; looks nothing up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from mwem_sql.language.dialect import fold

ROW_ALIAS = "__mwem_rows"  # an alias that no table or column of the user has


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Side:
    """What a view reads rows of: its source, or a table that it joins. `full` is its name, if it has one, in parts.

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


def flat(tree: exp.Expr) -> tuple[exp.Table, list[exp.Join]]:
    """What a FROM clause begins with, and the joins that follow; DuckDB prints them with parentheses around each."""
    if isinstance(tree, exp.Subquery) and not tree.alias and isinstance(tree.this, (exp.Table, exp.Subquery)):
        table, joins = flat(tree.this)
        only(tree, {"this", "joins"})
        return table, [*joins, *(tree.args.get("joins") or ())]
    if not isinstance(tree, exp.Table):
        raise NotRowWiseError("selects from something other than a table or file")
    only(tree, {"this", "db", "catalog", "alias", "joins"})
    joins = tree.args.get("joins") or []
    table = tree.copy()
    table.set("joins", None)
    return table, joins


def join_of(join: exp.Join) -> Join:
    """A join of the grammar."""
    kind = " ".join(filter(None, (str(join.args.get(part) or "") for part in ("method", "side", "kind")))).upper()
    on, using = join.args.get("on"), join.args.get("using") or ()
    shown = f"{kind or 'CROSS'} JOIN" if on is None and not using and kind in {"", "INNER"} else f"{kind} JOIN".strip()
    if kind not in {"", "INNER", "LEFT", "LEFT OUTER"} or (on is None and not using):
        raise NotRowWiseError(f"has a {shown}", "join by JOIN or LEFT JOIN, ON all columns of a key of the other table")
    for key, value in join.args.items():
        if value and key not in {"this", "side", "kind", "on", "using"}:
            raise NotRowWiseError(f"has a join with a clause ({key}) that a join along a key has not")
    table, inner = flat(join.this)
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


def only(node: exp.Expr, allowed: set[str]) -> None:
    """Refuse a node that has another clause than those."""
    reasons = {
        "with_": "has a WITH clause", "joins": "joins", "laterals": "joins", "group": "aggregates",
        "having": "aggregates", "distinct": "drops duplicates", "windows": "uses windows", "qualify": "uses windows",
        "limit": "limits its rows", "offset": "limits its rows", "sample": "samples", "pivots": "pivots",
    }  # fmt: skip
    for key, value in node.args.items():
        if value and key not in allowed:
            raise NotRowWiseError(reasons.get(key, f"has a clause ({key}) that a row-wise view has not"))


class SideNames:
    """The columns of a side, and the qualifiers that they may have; `unique` are their names among all sides."""

    def __init__(self, columns: Sequence[str], renamed: Sequence[str], name: Sequence[str]) -> None:
        self.columns = [*renamed, *columns[len(renamed) :]]  # FROM t AS x(a, b): by position, the rest keep their names
        self.unique = self.columns
        self.by_folded_name = dict(zip(map(fold, self.columns), self.unique, strict=True))
        # t.a, main.t.a, census.main.t.a
        self.qualifiers = [[fold(part) for part in name[start:]] for start in range(len(name))]
        self.merged: set[str] = set()
        """Columns, folded, that USING has made one with those of a side before."""

    def rename(self, taken: set[str]) -> None:
        """Give names of their own to columns that another side has, too."""
        self.unique = list(self.columns)
        for place in range(len(self.columns)):
            while fold(self.unique[place]) in taken:
                self.unique[place] += ":"
            taken.add(fold(self.unique[place]))
        self.by_folded_name = dict(zip(map(fold, self.columns), self.unique, strict=True))


class Sides:
    """The sides of a view, and what a name means among them."""

    def __init__(self, sides: Sequence[SideNames]) -> None:
        self.sides = sides
        taken: set[str] = set()
        for side in sides:
            side.rename(taken)

    def unique(self, side: int, column: str) -> str:
        return self.sides[side].by_folded_name[fold(column)]

    def equated(self, number: int, join: Join) -> list[tuple[str, str]]:
        """What a join equates: columns of sides before it with columns of the joined one, by their unique names."""
        side = self.sides[number]
        if join.on is not None:
            return self._equal(number, join.on.unnest(), join)
        out = []
        for name in join.using:
            having = [
                each.by_folded_name[fold(name)]
                for each in self.sides[:number]
                if fold(name) in each.by_folded_name and fold(name) not in each.merged
            ]
            if len(having) != 1 or fold(name) not in side.by_folded_name:
                raise NotRowWiseError(f"joins USING ({name}), which is not one column on either side")
            out.append((having[0], side.by_folded_name[fold(name)]))
        side.merged = {fold(name) for name in join.using}
        return out

    def _equal(self, number: int, tree: exp.Expr, join: Join) -> list[tuple[str, str]]:
        """The equations of an ON clause."""
        if isinstance(tree, exp.And):
            return [pair for part in (tree.this, tree.expression) for pair in self._equal(number, part.unnest(), join)]
        sides = (tree.this.unnest(), tree.expression.unnest()) if isinstance(tree, exp.EQ) else ()
        if not sides or not all(isinstance(side, exp.Column) for side in sides):
            raise NotRowWiseError(
                f"joins {join.table.name} ON {tree.sql('duckdb')}, which is no equation of two columns",
                "join ON columns alone, and put other conditions into WHERE",
            )
        places = [self.side(side) for side in sides if isinstance(side, exp.Column)]
        if [len(rest) for _, rest in places] != [1, 1] or sum(place == number for place, _ in places) != 1:
            raise NotRowWiseError(
                f"joins {join.table.name} ON {tree.sql('duckdb')}, which is no equation of a column of its own with "
                "one of what stands before it"
            )
        if max(place for place, _ in places) > number:
            raise NotRowWiseError(f"joins {join.table.name} by a column of what stands behind it")
        (_, one), (_, other) = sorted((place, self.unique(place, rest[0].name)) for place, rest in places)
        return [(one, other)]

    def side(self, column: exp.Column) -> tuple[int, list[exp.Expr]]:
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
