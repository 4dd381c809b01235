"""Levels: tables that keys join to a tree, and the rows of each with what is above and below them.

    root     the one table that leads to none of the others; each of its rows is a unit
    parent   the table that a FOREIGN KEY leads to
    level    a row for each row of a table: its columns, those of all tables above it as "table.column", and for each
             table below it how many rows lead to it, under that table's name and no more than are used of a unit

A table may be a row-wise view of one: its rows are some of that table's, and lead where they lead. Rows that lead to no
row of the parent are in no level. Keys are compared as values and not by a collation, so that a row has one parent.
Decided by the catalog, never by text; reads no row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import duckdb
from sqlglot import exp

from mwem_sql.boundary.keys import ForeignKey, Keys, declaration, has_plain_type, same_columns
from mwem_sql.boundary.members import KeyColumns, Member, members_of, refused
from mwem_sql.boundary.relations import Relation
from mwem_sql.boundary.sources import Describes
from mwem_sql.errors import RELEASE, MwemError, OptionError, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.language.ticks import cast, scale_of
from mwem_sql.platform.catalog import Column, Name, Place

NUMBER_TYPE = "INTEGER"
"""Of the number of rows below a row."""
LONGEST_NAME = 63
"""Bytes of a name that PostgreSQL tells from others: it cuts off the rest."""
Text: TypeAlias = Callable[[exp.Expr, str], exp.Expr]
"""Writes a text, and a type, as what is compared by its bytes."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A table among others. The columns `foreign` lead to `parent`, to its columns `refers_to`.

    `base` is the table whose rows they are: the table itself, or that below a view. `parent` is a place among the
    levels, the root's None. `keys` has the columns of each key, the PRIMARY KEY first. Synthetic rows have numbers in
    those that are `needed`, whatever is asked about: they are of one column, or a table of the tree refers to them.
    `declared` are the columns of a key that `mwem_keys` alone speaks of: a row is used if no other has its values.
    """

    table: Relation
    base: Name
    keys: tuple[KeyColumns, ...]
    needed: tuple[KeyColumns, ...]
    declared: KeyColumns = ()
    parent: int | None = None
    foreign: KeyColumns = ()
    refers_to: KeyColumns = ()

    @property
    def name(self) -> str:
        return self.table.name.table

    def rows(self, text: Text) -> exp.Expr:
        """What a scan reads of the table: none of the rows that have one declared key."""
        if not self.declared:
            return self.table.tree()
        tree = exp.select("*").from_(self.table.tree()).subquery("__mwem_once")
        columns = [exp.column(column.name, table="__mwem_once", quoted=True) for column in self.table.columns]
        single = [
            exp.alias_(exp.Anonymous(this="any_value", expressions=[column]), column.name, quoted=True)
            for column in columns
        ]
        keys = [_value(column, text, "once") for column in self.declared]
        present = [exp.Not(this=exp.Is(this=key.copy(), expression=exp.null())) for key in keys]
        once = exp.EQ(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
        return exp.select(*single).from_(tree).where(*present).group_by(*keys).having(once).subquery("__mwem_single")

    @property
    def joining(self) -> tuple[str, ...]:
        """The columns of keys that nobody can ask about: synthetic rows have numbers there."""
        return tuple(dict.fromkeys(each.name for key in (*self.needed, self.foreign) for each in key))

    @property
    def is_single(self) -> bool:
        """Whether one row at most leads to a row of the parent: a key has no other column than those that lead."""
        return any(set(key) <= set(self.foreign) for key in self.keys)

    def keeping(self, read: Collection[str]) -> Level:
        """Without keys of columns that are asked about: those columns have values and no numbers."""
        values = set(read) - set(self.joining)
        kept = tuple(key for key in self.keys if key in self.needed or values.isdisjoint(each.name for each in key))
        return replace(self, keys=kept, needed=kept)


def read_levels(
    con: duckdb.DuckDBPyConnection, texts: Sequence[str], place: Place, within: Describes | None = None
) -> tuple[Level, ...]:
    """The levels of some tables, the root first and each after its parent; refused if keys do not make them a tree.

    Those of a source are described by its engine, or `within` a snapshot.
    """
    members, keys = members_of(con, texts, place, within)
    names = [member.base for member in members]
    shown = [fold(member.name) for member in members]
    twice = next((k for k, name in enumerate(names) if name in names[:k] or shown[k] in shown[:k]), None)
    if twice is not None:
        what = f"tables ({', '.join(map(literal, texts))}) has {texts[twice]!r} twice"
        raise refused(what, "name each table once, or one view of it")
    public = next((member.name for member in members if keys.is_public(member.base)), None)
    if public is not None:
        what = f"table ({public!r}) is public by the curator's word, so that no key leads to it"
        raise refused(what, "leave it out: its rows need no protection")
    leads = [[key for key in keys.foreign(name) if key.refers_to in names] for name in names]
    for member, each in zip(members, leads, strict=True):
        _check_keys(member.name, each)
    roots = [member for member, each in zip(members, leads, strict=True) if not each]
    if len(roots) != 1:
        raise _no_root(keys, roots)
    order = [names.index(roots[0].base)]
    for place_ in order:
        order += [k for k, each in enumerate(leads) if each and each[0].refers_to == names[place_] and k not in order]
    if len(order) < len(names):
        lost = next(member.name for k, member in enumerate(members) if k not in order)
        raise refused(f"table ({lost!r}) leads to itself along keys", "leave one of the tables out")
    for k in order[1:]:
        _check_path(keys, members[k], roots[0])
    ordered = [members[k] for k in order]
    referred = [_ordered(keys, key) for each in leads for key in each]
    levels = tuple(_level(keys, members[k], leads[k], referred, ordered) for k in order)
    if not levels[0].keys:
        root = levels[0]
        what = f"table ({root.name!r}) has no PRIMARY KEY or UNIQUE by which a row could be told from others"
        raise refused(what, f"declare one: ALTER TABLE {root.base.table} ADD PRIMARY KEY (id)")
    return levels


def _check_keys(table: str, leads: Sequence[ForeignKey]) -> None:
    """At most one key, not to the table itself, and of different columns."""
    for key in leads:
        columns = ", ".join(key.columns)
        if key.refers_to == key.table:
            what = f"table ({table!r}) leads to itself by its key ({columns}), so that rows of it have no one unit"
            raise refused(what, f"release a copy without that key: CREATE TABLE {table}_copy AS FROM {table}")
        if len(set(map(fold, key.columns))) < len(key.columns):
            what = f"table ({table!r}) leads to {key.refers_to.table} by a key that has a column twice ({columns})"
            raise refused(what, "declare a key of different columns")
    if len(leads) > 1:
        ways = " and ".join(f"{key.refers_to.table} by {', '.join(key.columns)}" for key in leads[:2])
        what = f"table ({table!r}) leads to {ways}, so that a row of it has two paths to its unit"
        raise refused(what, "leave one of the tables out; or release a copy without one of the keys")


def _check_path(keys: Keys, member: Member, root: Member) -> None:
    """Refuse a table whose rows may be of two units, also by tables that are not named."""
    if member.table.dialect == "postgres" and keys.single_path(member.base, root.base) is None:
        what = f"table ({member.name!r}) has several paths of keys to {root.name}, so that a row of it is of two units"
        copy = f"CREATE TABLE {member.name}_copy AS TABLE {member.name}"
        raise refused(what, f"release a copy of it in the source, with one of the keys: {copy}")
    keys.path(member.base, root.base, RELEASE)


def _no_root(keys: Keys, roots: Sequence[Member]) -> MwemError:
    if not roots:
        return refused("tables lead to one another along keys in a circle", "leave one of the tables out")
    names = ", ".join(literal(root.name) for root in roots)
    what = f"tables ({names}) lead to none of the others, and one table may: its rows are units"
    for root, other in itertools.permutations(roots, 2):
        path = keys.single_path(root.base, other.base)
        if path:
            between = ", ".join(literal(key.refers_to.table) for key in path[:-1])
            what = f"table ({root.name!r}) leads to {other.name} by tables that are not named"
            return refused(what, f"name them, too: {between}")
    first, second = (root.base for root in roots[:2])
    cure = declaration(second, first, keys.unique(first))
    if roots[0].table.dialect == "postgres":
        key = ", ".join(next(iter(keys.unique(first)), ("id",)))
        cure = f"ALTER TABLE {second.table} ADD FOREIGN KEY ({key}) REFERENCES {first.table} ({key})"
    return refused(what, f"leave one of them out; or declare the FOREIGN KEY: {cure}")


def _level(
    keys: Keys, member: Member, leads: Sequence[ForeignKey], referred: Sequence[ForeignKey], order: Sequence[Member]
) -> Level:
    """A table with its keys, and the key that leads to its parent. `order` has all tables as the levels have them."""
    parent, foreign, refers_to = None, KeyColumns(), KeyColumns()
    if leads:
        key = _ordered(keys, leads[0])
        parent = next(k for k, other in enumerate(order) if other.base == key.refers_to)
        foreign, refers_to = _shown(member, key.columns), _shown(order[parent], key.refers_columns)
        for one, two in zip(foreign, refers_to, strict=True):
            if not has_plain_type(one) or not _is_same_type(one.type, two.type):
                what = f"table ({member.name!r}) leads to {order[parent].name} by {one.name} ({one.type})"
                cure = "columns of a key are of one type, a number, text, date or UUID: change one of them"
                raise refused(f"{what} and {two.name} ({two.type})", cure)
    listed, needed, declared = list[KeyColumns](), list[KeyColumns](), KeyColumns()
    to_it = [key.refers_columns for key in referred if key.refers_to == member.base]
    unique = keys.unique_keys.get(member.base, ())
    others = list(dict.fromkeys(names for names in to_it if not any(same_columns(names, each) for each in unique)))
    for names in (*unique, *others):
        is_referred = any(same_columns(names, each) for each in to_it)
        columns = _shown(member, names) if is_referred else member.columns(names)
        if columns is None:
            continue
        if set(columns) < set(foreign):  # numbers of a part of what leads to the parent may occur twice
            if not is_referred:
                continue
            what = f"table ({member.name!r}) is referred to by ({', '.join(names)}), a part of the key to its parent"
            raise refused(what, f"refer to another key of {member.name}, with a column of its own")
        odd = next((column for column in columns if not has_plain_type(column)), None)
        if odd is not None and len(columns) > 1:
            continue
        if odd is not None:
            what = f"table ({member.name!r}) has the key {odd.name} of type {odd.type}"
            raise refused(what, "identify rows by a number, text, date or UUID")
        if names in others:
            _check_declared(member, columns, foreign, others)
            declared = columns
        listed.append(columns)
        if is_referred or len(columns) == 1:
            needed.append(columns)
    return Level(
        table=member.table, base=member.base, keys=tuple(listed), needed=tuple(needed), declared=declared,
        parent=parent, foreign=foreign, refers_to=refers_to,
    )  # fmt: skip


def _check_declared(member: Member, columns: KeyColumns, foreign: KeyColumns, others: Sequence[Sequence[str]]) -> None:
    """A key that nothing keeps unique may be declared where rows that have it in common are of one unit.

    So they are in the root, and where the key has all columns that lead to the parent. PostgreSQL keeps its own keys.
    """
    listed = ", ".join(column.name for column in columns)
    if member.table.dialect == "postgres":
        what = f"table ({member.name!r}) is referred to by ({listed}), which is not kept unique in it and its children"
        raise refused(what, f"make children partitions; or copy the rows: CREATE TABLE t AS TABLE {member.base.table}")
    if len(others) > 1:
        ways = " and ".join(f"({', '.join(names)})" for names in others)
        what = f"table ({member.name!r}) is referred to by {ways}, and nothing keeps either unique"
        raise refused(what, "refer to one of them; or declare the other as UNIQUE")
    if not set(foreign) <= set(columns):
        leading = ", ".join(column.name for column in foreign)
        what = f"table ({member.name!r}) is referred to by ({listed}), which is not kept unique, so that a row may be"
        hint = f"ALTER TABLE {member.base.table} ADD PRIMARY KEY ({listed}), of a table; or let the key have {leading}"
        raise refused(f"{what} of several units", f"{hint}, too, in it and in what refers to it")


def _ordered(keys: Keys, key: ForeignKey) -> ForeignKey:
    """A key with its columns in the order of those that it refers to."""
    names = next(
        (each for each in keys.unique(key.refers_to) if same_columns(each, key.refers_columns)), key.refers_columns
    )
    leading = {fold(other): one for one, other in zip(key.columns, key.refers_columns, strict=True)}
    return replace(key, columns=tuple(leading[fold(name)] for name in names), refers_columns=names)


def _shown(member: Member, names: Sequence[str]) -> KeyColumns:
    """The columns of a key that is needed."""
    columns = member.columns(names)
    if columns is None:
        listed = ", ".join(names)
        what = f"view ({member.name!r}) does not show ({listed}) of {member.base.table} unchanged, a key that joins it"
        raise refused(what, f"SELECT {listed} in it, too")
    return columns


def _is_same_type(one: str, other: str) -> bool:
    """Whether values of two types are equal only if they are the same: whole numbers of any width are."""
    scales = [scale_of(one), scale_of(other)]
    return one == other or all(scale is not None and scale.family == "integer" for scale in scales)


def above(levels: Sequence[Level], place: int) -> list[int]:
    """The tables above one, the nearest first."""
    parent = levels[place].parent
    return [] if parent is None else [parent, *above(levels, parent)]


def below(levels: Sequence[Level], place: int) -> list[int]:
    """The tables right below one."""
    return [k for k, level in enumerate(levels) if level.parent == place]


def column_above(level: Level, column: str) -> str:
    """What a column is called in the levels below its table."""
    return f"{level.name}.{column}"


def level_rows(levels: Sequence[Level], place: int, most: Mapping[str, int], text: Text) -> Relation:
    """A level as a private relation. `most` has for each table below it how many rows are counted.

    `text` writes a column of texts so that they are compared by their bytes.
    """
    level = levels[place]
    select = exp.select(*(_column(column, 0, column.name) for column in level.table.columns)).from_(
        _aliased(level.rows(text), "__mwem_0")
    )
    columns = list(level.table.columns)
    child, child_alias = level, 0
    for number, other in enumerate(above(levels, place), start=1):
        parent = levels[other]
        equal = [
            exp.EQ(this=_value(one, text, child_alias), expression=_value(two, text, number))
            for one, two in zip(child.foreign, child.refers_to, strict=True)
        ]
        select = select.join(_aliased(parent.rows(text), f"__mwem_{number}"), on=exp.and_(*equal), join_type="inner")
        for column in parent.table.columns:
            name = column_above(parent, column.name)
            select = select.select(_column(column, number, name))
            columns.append(Column(name, column.type, column.nullable))
        child, child_alias = parent, number
    for number, other in enumerate(below(levels, place)):
        alias, counted = f"__mwem_n{number}", levels[other]
        leading = [_value(column, text) for column in counted.foreign]
        named = [f"__mwem_k{k}" for k in range(len(leading))]
        rows = exp.select(*map(exp.alias_, leading, named), exp.alias_(exp.Count(this=exp.Star()), "__mwem_count"))
        rows = rows.from_(_aliased(counted.rows(text), "__mwem_rows")).group_by(*(value.copy() for value in leading))
        equal = [
            exp.EQ(this=_value(column, text, 0), expression=exp.column(key, table=alias))
            for column, key in zip(counted.refers_to, named, strict=True)
        ]
        select = select.join(rows.subquery(alias), on=exp.and_(*equal), join_type="left")
        none = exp.Coalesce(this=exp.column("__mwem_count", table=alias), expressions=[exp.Literal.number(0)])
        least = exp.Least(this=none, expressions=[exp.Literal.number(most[counted.name])])
        select = select.select(exp.alias_(cast(least, NUMBER_TYPE), counted.name, quoted=True))
        columns.append(Column(counted.name, NUMBER_TYPE, nullable=False))
    _check_names(level, columns)
    return replace(level.table, columns=tuple(columns), rows=select.subquery("__mwem_level"))


def unit_columns(levels: Sequence[Level], place: int) -> KeyColumns:
    """The columns of a level below the root that identify a unit: those of the root's key that it leads to."""
    steps = [levels[other] for other in (place, *above(levels, place))]
    top = next(step for step in steps if step.parent == 0)
    return tuple(replace(column, name=column_above(levels[0], column.name)) for column in top.refers_to)


def _value(column: Column, text: Text, alias: int | str | None = None) -> exp.Expr:
    """What is compared of a key: of a text its bytes, which no collation reaches."""
    named = exp.column(column.name, table=None if alias is None else f"__mwem_{alias}", quoted=True)
    return text(named, column.type) if column.type == "VARCHAR" else named


def _column(column: Column, alias: int, name: str) -> exp.Expr:
    return exp.alias_(exp.column(column.name, table=f"__mwem_{alias}", quoted=True), name, quoted=True)


def _aliased(tree: exp.Expr, alias: str) -> exp.Expr:
    return exp.select("*").from_(tree).subquery(alias)


def _check_names(level: Level, columns: Sequence[Column]) -> None:
    """A level has each column once, by names that the engine does not cut off."""
    seen = set[str]()
    for column in columns:
        if fold(column.name) in seen:
            what = f"table ({level.name!r}) has a column {column.name}, which is the name of a table below it, too"
            raise refuse(OptionError, RELEASE, what, f"ALTER TABLE {level.name} RENAME COLUMN {column.name} TO ...")
        if level.table.dialect == "postgres" and len(column.name.encode()) > LONGEST_NAME:
            what = f"table ({level.name!r}) sees {column.name}, a name of more than {LONGEST_NAME} bytes"
            raise refuse(OptionError, RELEASE, what, "release a view with a shorter name, or with shorter columns")
        seen.add(fold(column.name))
