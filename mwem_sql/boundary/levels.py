"""Levels: tables that keys join to a tree, and the rows of each with what is above and below them.

    root     the one table that leads to none of the others; each of its rows is a unit
    parent   the table that a FOREIGN KEY of exactly one column leads to
    level    a row for each row of a table: its columns, those of all tables above it as "table.column", and for each
             table below it how many rows lead to it, under that table's name and no more than are used of a unit

Rows that lead to no row of the parent are in no level. Keys are compared as values and not by a collation, so that a
row has one parent. Decided by the catalog, never by text; reads no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb
from sqlglot import exp

from mwem_sql.boundary import relations
from mwem_sql.boundary.keys import ForeignKey, Keys, declaration, has_plain_type
from mwem_sql.boundary.relations import Relation
from mwem_sql.errors import RELEASE, MwemError, OptionError, TableError, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.language.ticks import cast
from mwem_sql.platform.catalog import Column, Place

NUMBER_TYPE = "INTEGER"
"""Of the number of rows below a row."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """A table among others. `foreign` is the column that leads to `parent`, to its column `refers_to`.

    `parent` is a place among the levels, the root's None. `keys` are the columns that identify a row by themselves,
    the one of the PRIMARY KEY first; nothing leads to a table without any.
    """

    table: Relation
    keys: tuple[Column, ...]
    parent: int | None = None
    foreign: Column | None = None
    refers_to: Column | None = None

    @property
    def name(self) -> str:
        return self.table.name.table

    @property
    def joining(self) -> tuple[str, ...]:
        """The columns of keys: synthetic rows have numbers there."""
        return tuple(dict.fromkeys(each.name for each in (*self.keys, self.foreign) if each is not None))


def read_levels(con: duckdb.DuckDBPyConnection, texts: Sequence[str], place: Place) -> tuple[Level, ...]:
    """The levels of some tables, the root first and each after its parent; refused if keys do not make them a tree."""
    tables = [relations.describe(con, text, place, RELEASE) for text in texts]
    for text, table in zip(texts, tables, strict=True):
        _check_table(text, table, tables[0])
    names = [table.name for table in tables]
    twice = next((text for text, name in zip(texts, names, strict=True) if names.count(name) > 1), None)
    if twice is not None:
        raise _refused(f"tables ({', '.join(map(literal, texts))}) has {twice!r} twice", "name each table once")
    keys = Keys.of(con, names[0], RELEASE)
    public = next((name.table for name in names if keys.is_public(name)), None)
    if public is not None:
        what = f"table ({public!r}) is public by the curator's word, so that no key leads to it"
        raise _refused(what, "leave it out: its rows need no protection")
    leads = [[key for key in keys.foreign(name) if key.refers_to in names] for name in names]
    for name, each in zip(names, leads, strict=True):
        _check_keys(name.table, each)
    roots = [name for name, each in zip(names, leads, strict=True) if not each]
    if len(roots) != 1:
        raise _no_root(keys, [name.table for name in roots], tables)
    order = [names.index(roots[0])]
    for place_ in order:
        order += [k for k, each in enumerate(leads) if each and each[0].refers_to == names[place_] and k not in order]
    if len(order) < len(names):
        lost = next(name.table for k, name in enumerate(names) if k not in order)
        raise _refused(f"table ({lost!r}) leads to itself along keys", "leave one of the tables out")
    for k in order[1:]:
        keys.path(names[k], roots[0], RELEASE)  # refuses a row of two units, also by tables that are not named here
    return tuple(_level(keys, tables[k], leads[k], [tables[other] for other in order]) for k in order)


def _refused(what: str, hint: str) -> MwemError:
    return refuse(TableError, RELEASE, what, hint)


def _check_table(text: str, table: Relation, first: Relation) -> None:
    """A plain table of DuckDB's: keys are declared between such."""
    if table.source is not None or table.files is not None or table.below:
        kind = "a table of a source" if table.source is not None else "a file" if table.files is not None else "a view"
        what = f"table ({text!r}) is {kind}, and tables that are released together are joined by keys of DuckDB's"
        raise _refused(what, f"CREATE TABLE with the key, and INSERT from {text}; or release it alone")
    if table.name.beside("") != first.name.beside(""):
        what = f"table ({text!r}) is in another schema than {first.name}, and no key leads from one to the other"
        raise _refused(what, "keep tables that are released together in one schema")


def _check_keys(table: str, leads: Sequence[ForeignKey]) -> None:
    """At most one key, of one column, and not to the table itself."""
    for key in leads:
        columns = ", ".join(key.columns)
        if key.refers_to == key.table:
            what = f"table ({table!r}) leads to itself by its key ({columns}), so that rows of it have no one unit"
            raise _refused(what, f"release a copy without that key: CREATE TABLE {table}_copy AS FROM {table}")
        if len(key.columns) > 1:
            what = (
                f"table ({table!r}) leads to {key.refers_to.table} by a key of {len(key.columns)} columns ({columns})"
            )
            raise _refused(what, f"give {key.refers_to.table} a key of one column, and let {table} refer to that")
    if len(leads) > 1:
        ways = " and ".join(f"{key.refers_to.table} by {', '.join(key.columns)}" for key in leads[:2])
        what = f"table ({table!r}) leads to {ways}, so that a row of it has two paths to its unit"
        raise _refused(what, "leave one of the tables out; or release a copy without one of the keys")


def _no_root(keys: Keys, roots: Sequence[str], tables: Sequence[Relation]) -> MwemError:
    if not roots:
        return _refused("tables lead to one another along keys in a circle", "leave one of the tables out")
    what = (
        f"tables ({', '.join(map(literal, roots))}) lead to none of the others, and one table may: its rows are units"
    )
    first, other = (next(each.name for each in tables if each.name.table == root) for root in roots[:2])
    hint = f"leave one of them out; or declare the FOREIGN KEY: {declaration(other, first, keys.unique(first))}"
    return _refused(what, hint)


def _level(keys: Keys, table: Relation, leads: Sequence[ForeignKey], tables: Sequence[Relation]) -> Level:
    """A table with its keys. `tables` are all of them, in the order of the levels."""
    order = [each.name for each in tables]
    columns = {fold(column.name): column for column in table.columns}
    single = tuple(columns[fold(each[0])] for each in keys.unique_keys.get(table.name, ()) if len(each) == 1)
    level = Level(table=table, keys=single)
    if not leads and not single:
        what = f"table ({table.name.table!r}) has no PRIMARY KEY or UNIQUE of one column"
        raise _refused(what, f"declare one: ALTER TABLE {table.name.table} ADD PRIMARY KEY (id)")
    if leads:
        (key,) = leads
        if not keys.is_unique(key.refers_to, key.refers_columns, enforced=True):
            what = (
                f"table ({table.name.table!r}) leads to {', '.join(key.refers_columns)} of {key.refers_to.table}, which"
            )
            what += " DuckDB does not keep unique, so that a row may be of several units"
            cure = f"ALTER TABLE {key.refers_to.table} ADD PRIMARY KEY ({', '.join(key.refers_columns)})"
            raise _refused(what, cure)
        place = order.index(key.refers_to)
        referred = next(column for column in tables[place].columns if fold(column.name) == fold(key.refers_columns[0]))
        foreign = columns[fold(key.columns[0])]
        level = Level(table=table, keys=single, parent=place, foreign=foreign, refers_to=referred)
    for column in filter(None, (*level.keys, level.foreign)):
        if not has_plain_type(column):
            what = f"table ({table.name.table!r}) has the key {column.name} of type {column.type}"
            raise _refused(what, "identify rows by a number, text, date or UUID")
    return level


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


def level_rows(levels: Sequence[Level], place: int, most: Mapping[str, int]) -> Relation:
    """A level as a private relation. `most` has for each table below it how many rows are counted."""
    level = levels[place]
    select = exp.select(*(_column(column, 0, column.name) for column in level.table.columns)).from_(
        _aliased(level.table.tree(), "__mwem_0")
    )
    columns = list(level.table.columns)
    child, child_alias = level, 0
    for number, other in enumerate(above(levels, place), start=1):
        parent = levels[other]
        one, two = _joined(child)
        equal = exp.EQ(this=_value(one, child_alias), expression=_value(two, number))
        select = select.join(_aliased(parent.table.tree(), f"__mwem_{number}"), on=equal, join_type="inner")
        for column in parent.table.columns:
            name = column_above(parent, column.name)
            select = select.select(_column(column, number, name))
            columns.append(Column(name, column.type, column.nullable))
        child, child_alias = parent, number
    for number, other in enumerate(below(levels, place)):
        alias, counted = f"__mwem_n{number}", levels[other]
        leading, referred = _joined(counted)
        key = _value(leading)
        rows = exp.select(exp.alias_(key, "k"), exp.alias_(exp.Count(this=exp.Star()), "n"))
        rows = rows.from_(_aliased(counted.table.tree(), "__mwem_rows")).group_by(key.copy())
        equal = exp.EQ(this=_value(referred, 0), expression=exp.column("k", table=alias))
        select = select.join(rows.subquery(alias), on=equal, join_type="left")
        none = exp.Coalesce(this=exp.column("n", table=alias), expressions=[exp.Literal.number(0)])
        least = exp.Least(this=none, expressions=[exp.Literal.number(most[counted.name])])
        select = select.select(exp.alias_(cast(least, NUMBER_TYPE), counted.name, quoted=True))
        columns.append(Column(counted.name, NUMBER_TYPE, nullable=False))
    _check_names(level, columns)
    return replace(level.table, columns=tuple(columns), rows=select.subquery("__mwem_level"))


def unit_column(levels: Sequence[Level]) -> Column:
    """The column of a level below the root that identifies a unit: the root's key."""
    key = levels[0].keys[0]
    return Column(column_above(levels[0], key.name), key.type, key.nullable)


def _joined(child: Level) -> tuple[Column, Column]:
    """The column of a table that leads to its parent, and the parent's that it leads to."""
    assert child.foreign is not None and child.refers_to is not None
    return child.foreign, child.refers_to


def _value(column: Column, alias: int | None = None) -> exp.Expr:
    """What is compared of a key: of a text its bytes, which no collation reaches."""
    named = exp.column(column.name, table=None if alias is None else f"__mwem_{alias}", quoted=True)
    return exp.Anonymous(this="encode", expressions=[named]) if column.type == "VARCHAR" else named


def _column(column: Column, alias: int, name: str) -> exp.Expr:
    return exp.alias_(exp.column(column.name, table=f"__mwem_{alias}", quoted=True), name, quoted=True)


def _aliased(tree: exp.Expr, alias: str) -> exp.Expr:
    return exp.select("*").from_(tree).subquery(alias)


def _check_names(level: Level, columns: Sequence[Column]) -> None:
    """A level has each column once: a table below may be called as a column is."""
    seen = set[str]()
    for column in columns:
        if fold(column.name) in seen:
            what = f"table ({level.name!r}) has a column {column.name}, which is the name of a table below it, too"
            raise refuse(OptionError, RELEASE, what, f"ALTER TABLE {level.name} RENAME COLUMN {column.name} TO ...")
        seen.add(fold(column.name))
