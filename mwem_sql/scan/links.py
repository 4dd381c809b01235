"""Keys read off the private rows of several tables, for a person to review. Not private, on purpose.

    key         a column of numbers, text or UUIDs in which every row has another value, and none has NULL
    reference   a column all of whose values are in a key of another table, and which is called so, or is text

Of each table at most one reference is suggested, such that tables make trees. Owns the SQL of these questions, and what
is suggested of their answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.boundary.keys import has_plain_type
from mwem_sql.boundary.relations import Relation
from mwem_sql.language import dialect
from mwem_sql.language.dialect import fold
from mwem_sql.language.ticks import scale_of
from mwem_sql.platform.catalog import Column
from mwem_sql.scan.engines.duckdb import as_engine
from mwem_sql.scan.engines.protocol import RowEngine, Snapshot
from mwem_sql.scan.suggestion import names_id

LEAST_REFERRED = 1 / 10
"""The share of a key's values that a column of another name must have to refer to it. Smaller: short codes that happen
to be among the values of a key are taken for references."""
MOST_UNITS_CUT = 1 / 100
"""The share of units that have more rows than `rows_per_unit` is suggested to be. Larger: less noise, and more rows are
left out."""


_PLAIN = ("id", "no", "nr", "key")
"""What keys of any table are called."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A column of a table that leads to the key of another; both tables by their place."""

    table: int
    column: str
    parent: int
    key: str
    is_unique: bool
    """Whether each value is there once."""


@dataclass(frozen=True, kw_only=True)
class UnitRows:
    """How many rows of one unit a table has: at most, and of all units but a few."""

    most: int
    common: int


@dataclass(frozen=True, kw_only=True)
class Links:
    """What was seen of some tables, by their place: rows, the key of each, what leads to it, and what could, too."""

    rows: Sequence[int]
    keys: Mapping[int, str]
    references: Mapping[int, Reference]
    others: Sequence[Reference]
    units: Mapping[int, UnitRows]
    """Of each table that leads to another."""

    def order(self) -> list[int]:
        """The tables of a tree one after another, each after the one that it leads to."""
        out: list[int] = []

        def add(table: int) -> None:
            out.append(table)
            for reference in self.references.values():
                if reference.parent == table:
                    add(reference.table)

        for table in range(len(self.rows)):
            if table not in self.references:
                add(table)
        return out

    def trees(self) -> list[list[int]]:
        """The tables that keys join, each tree in that order; a table that is alone is a tree, too."""
        out: list[list[int]] = []
        for table in self.order():
            if table in self.references:
                out[-1].append(table)
            else:
                out.append([table])
        return out


def suggest_links(rows: RowEngine | duckdb.DuckDBPyConnection, relations: Sequence[Relation]) -> Links:
    """The keys of some tables, and what leads to them.

    Privacy:
        None: whether values are unique, and among those of another table, is a fact about the private rows.
    """
    with as_engine(rows).snapshot() as snapshot:
        return _Finder(snapshot, relations).links()


class _Finder:
    """What asks the rows of a snapshot."""

    def __init__(self, snapshot: Snapshot, relations: Sequence[Relation]) -> None:
        self._snapshot, self._relations = snapshot, relations

    def links(self) -> Links:
        counts = [self._unique(relation) for relation in self._relations]
        rows, unique = [one for one, _ in counts], [columns for _, columns in counts]
        fitting = sorted(self._references(unique, rows), key=lambda pair: pair[0])
        chosen, others = dict[int, Reference](), []
        for _, each in fitting:
            if each.table in chosen or each.table in _above(chosen, each.parent):
                others.append(each)
            else:
                chosen[each.table] = each
        keys = {}
        for table, columns in enumerate(unique):
            referred = [each.key for each in chosen.values() if each.parent == table]
            named = [column.name for column in columns if names_id(column.name)]
            names = [*referred, *named, *(column.name for column in columns[:1])]
            if names:
                keys[table] = names[0]
        # A key of one column, that of the PRIMARY KEY: what refers to another unique column is no suggestion.
        kept = {table: each for table, each in chosen.items() if keys[each.parent] == each.key}
        others += [each for table, each in chosen.items() if table not in kept]
        return Links(
            rows=rows,
            keys=keys,
            references=kept,
            others=[each for each in others if each.table not in kept or kept[each.table].column != each.column],
            units={table: self._unit_rows(table, kept) for table in kept},
        )

    def _unique(self, relation: Relation) -> tuple[int, list[Column]]:
        """How many rows there are, and the columns that identify one."""
        columns = [column for column in relation.columns if _kind(column) is not None]
        counted = [exp.Count(this=exp.Star())]
        for column in columns:
            name = exp.column(column.name, quoted=True)
            counted += [exp.Count(this=name), exp.Count(this=exp.Distinct(expressions=[name.copy()]))]
        ((rows, *numbers),) = self._ask(_numbered(counted).from_(relation.tree()))
        pairs = zip(columns, numbers[::2], numbers[1::2], strict=True)
        return rows, [column for column, filled, distinct in pairs if 1 < rows == filled == distinct]

    def _references(
        self, unique: Sequence[Sequence[Column]], rows: Sequence[int]
    ) -> Iterator[tuple[tuple[bool, int, int, int], Reference]]:
        """All columns that refer to a key, with what says which of them are likelier: the least first."""
        for parent, keys in enumerate(unique):
            for key in keys:
                for table, relation in enumerate(self._relations):
                    for place, column in enumerate(relation.columns):
                        if table == parent or _kind(column) != _kind(key) or _kind(key) is None:
                            continue
                        is_named = self._is_named(column.name, key.name, parent)
                        if not is_named and _kind(key) == "integer":
                            continue
                        share = self._referred(table, column, parent, key)
                        if share is None or (not is_named and share < LEAST_REFERRED):
                            continue
                        is_unique = column in unique[table]
                        # The larger table is the nearer one: what has a visit and a person leads to the visit.
                        size = rows[parent] if is_unique else -rows[parent]
                        yield (
                            (not is_named, is_unique, size, place),
                            Reference(
                                table=table, column=column.name, parent=parent, key=key.name, is_unique=is_unique
                            ),
                        )

    def _is_named(self, column: str, key: str, parent: int) -> bool:
        """Whether a column is called as a key is, or after the key's table: `pid`, `person_id`, `person`."""
        plain, table = fold(column).replace("_", ""), fold(self._relations[parent].name.table).replace("_", "")
        singular = table.removesuffix("s")
        after_table = {name + end for name in (table, singular) for end in ("", *_PLAIN, fold(key))}
        return (fold(column) == fold(key) and fold(key) not in _PLAIN) or plain in after_table

    def _referred(self, table: int, column: Column, parent: int, key: Column) -> float | None:
        """The share of a key's values that a column has; None if it has others, too."""
        value, target = exp.column(column.name, "c", quoted=True), exp.column(key.name, "p", quoted=True)
        rows = exp.select(exp.alias_(value, "v"), exp.alias_(target, "k"))
        rows = rows.from_(_aliased(self._relations[table], "c"))
        equal = exp.EQ(this=value.copy(), expression=target.copy())
        rows = rows.join(_aliased(self._relations[parent], "p"), on=equal, join_type="left")
        rows = rows.where(exp.Not(this=exp.Is(this=value.copy(), expression=exp.null())))
        distinct = [exp.Count(this=exp.Distinct(expressions=[exp.column(name)])) for name in ("v", "k")]
        whole = exp.select(exp.Count(this=exp.Star())).from_(self._relations[parent].tree()).subquery()
        ((values, referred, every),) = self._ask(_numbered([*distinct, whole]).from_(rows.subquery("r")))
        return referred / every if values == referred > 0 else None

    def _unit_rows(self, table: int, references: Mapping[int, Reference]) -> UnitRows:
        """How many rows of a table lead to one row of the root."""
        query, alias, root = exp.select().from_(_aliased(self._relations[table], "t0")), 0, table
        column = ""
        while root in references:
            each = references[root]
            root, column = each.parent, each.key
            leading = exp.column(each.column, f"t{alias}", quoted=True)
            equal = exp.EQ(this=leading, expression=exp.column(each.key, f"t{alias + 1}", quoted=True))
            query = query.join(_aliased(self._relations[root], f"t{alias + 1}"), on=equal)
            alias += 1
        unit = exp.column(column, f"t{alias}", quoted=True)
        counts = query.select(exp.alias_(exp.Count(this=exp.Star()), "n")).group_by(unit).subquery("r")
        number, share = exp.column("n"), exp.Literal.number(1 - MOST_UNITS_CUT)
        common = exp.Anonymous(this="quantile_disc", expressions=[number, share])
        ((most, usual),) = self._ask(_numbered([exp.Max(this=number.copy()), common]).from_(counts))
        return UnitRows(most=int(most), common=int(usual))

    def _ask(self, query: exp.Select) -> list[tuple[Any, ...]]:
        batches = self._snapshot.run(dialect.sql(query), 100)
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def _kind(column: Column) -> str | None:
    """What values of keys are; None of other types. Columns of one kind can be compared."""
    scale = scale_of(column.type)
    if not has_plain_type(column) or (scale is not None and scale.family != "integer"):
        return None
    return "integer" if scale is not None else column.type


def _above(references: Mapping[int, Reference], table: int) -> Iterator[int]:
    """A table and those that it leads to."""
    yield table
    while table in references:
        table = references[table].parent
        yield table


def _numbered(columns: Sequence[exp.Expr]) -> exp.Select:
    return exp.select(*(exp.alias_(column, f"v{k}") for k, column in enumerate(columns)))


def _aliased(relation: Relation, alias: str) -> exp.Expr:
    return exp.select("*").from_(relation.tree()).subquery(alias)
