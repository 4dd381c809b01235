"""Joins along keys: of a view, each checked against the catalog; and of a table with those on its path to the unit.

A row that is joined is public, or belongs to the unit that the rest of its row belongs to. Reads the catalog only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import duckdb
from sqlglot import exp

from mwem_sql.boundary.files import Files
from mwem_sql.boundary.keys import Keys, declaration, has_plain_type
from mwem_sql.boundary.relation import UNIT_COLUMN, Joined, KeyUnit, Relation, subquery
from mwem_sql.boundary.sides import ROW_ALIAS, NotRowWiseError, Pairs, equation
from mwem_sql.boundary.views import Expansion, View
from mwem_sql.errors import OptionError, TableError, literal, refuse
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Column, Name


def joined_tables(
    view: View,
    source: Relation | Files,
    right: Sequence[Relation],
    expansion: Expansion,
    keys_of: Mapping[tuple[str, str], Keys],
) -> tuple[Joined, ...]:
    """The tables that are joined in a view and below it. Each that it joins itself is checked.

    `keys_of` are the keys of their schemas. Each is joined on all columns of a key, so that there is one row at most,
    and is public, or its row is of the same unit as the rest.
    """
    if isinstance(source, Files):
        if view.joins:
            raise NotRowWiseError("joins a table to a file", "make the rows of the file a table, with its keys")
        return ()
    out = list(source.joined)
    for number, (join, table, pairs) in enumerate(zip(view.joins, right, expansion.pairs, strict=True), start=1):
        keys = keys_of[table.name.database, table.name.schema]
        _check_key(source, right, pairs, table, keys)
        mark, units = keys.marks.get(table.name), tuple[Name, ...]()
        if mark is None:
            if table.name in [source.charged, *(each.name for each in out if each.mark is None)]:
                cure = f"CALL mwem_public({literal(table.name.table)}) says that it is public, if it is"
                raise NotRowWiseError(f"has rows of {table.name.table} twice, which may be of two units", cure)
            units = _units(source, right, pairs, table, keys)
        declared = {
            column: replace(origin, nullable=origin.nullable or join.is_left)
            for column, origin in table.declared.items()
        }
        computed = {} if join.is_left else table.computed
        out.append(
            Joined(
                name=table.name, optional=join.is_left, units=units, mark=mark, declared=declared,
                checks=table.checks, computed=computed, side=number,
            )
        )  # fmt: skip
    return tuple(out)


def _check_key(
    source: Relation,
    right: Sequence[Relation],
    pairs: Pairs,
    table: Relation,
    keys: Keys,
) -> None:
    """A join is on all columns of a key of its table, and on nothing else, and compares values of one type."""
    columns = [name for _, name in pairs]
    if not keys.is_unique(table.name, columns, enforced=keys.is_public(table.name)):
        listed = " and ".join(f"({', '.join(key)})" for key in keys.unique(table.name))
        has = f"whose keys are {listed}" if listed else "which has no key"
        cure = f"join on all columns of a key; ALTER TABLE {table.name.table} ADD PRIMARY KEY ({', '.join(columns)})"
        raise NotRowWiseError(
            f"joins {table.name.table} on ({', '.join(columns)}), {has}", f"{cure} makes one where values are unique"
        )
    types = {column.name: column.type for column in table.columns}
    for (number, left), name in pairs:
        before = (source, *right)[number]
        (other,) = (column for column in before.columns if column.name == left)
        if other.type != types[name] or not has_plain_type(other):
            what = f"joins {table.name.table} by {left} ({other.type}) and {name} ({types[name]})"
            cure = "columns of a key are of one type, a number, text, date or UUID: change the table of one of them"
            raise NotRowWiseError(f"{what}, which need not be equal where they compare as equal", cure)


def _units(source: Relation, right: Sequence[Relation], pairs: Pairs, table: Relation, keys: Keys) -> tuple[Name, ...]:
    """The tables whose units have both the row of a joined private table and the row that it is joined to.

    Both sides of the join name one row of a table, by a key or a foreign key; its unit is that of both.
    """
    origins = {_origin(source, right, number, left) for (number, left), _ in pairs}
    tables = {origin[0] for origin in origins if origin is not None}
    columns = [name for _, name in pairs]
    left = next(iter(tables), source.charged)
    named: list[str] = []
    if len(tables) == 1 and None not in origins and not keys.is_public(left):
        named = [origin[1] for place, _ in pairs if (origin := _origin(source, right, *place)) is not None]
        ours, theirs = keys.named(left, named), keys.named(table.name, columns)
        common = [each for each, by in ours.items() if theirs.get(each) == by]
        tops = dict.fromkeys(top for each in common for top in keys.above(each))
        units = [
            top
            for top in tops
            if all(keys.single_path(each, top) is not None for each in (source.charged, left, table.name))
        ]
        if units:
            return tuple(units)
        if common:
            what = f"joins {table.name.table} on ({', '.join(columns)}), whose rows lead to no unit on one path alone"
            raise NotRowWiseError(what, "leave the table out: its rows may be of another unit than the rest")
    cure = (
        f"if all of {table.name.table} is public, CALL mwem_public({literal(table.name.table)}); if it is a key that "
        f"leads to the unit, declare it: {declaration(left, table.name, [columns], named)}"
    )
    raise NotRowWiseError(f"joins {table.name.table} on ({', '.join(columns)}), which no FOREIGN KEY leads along", cure)


def _origin(source: Relation, right: Sequence[Relation], number: int, column: str) -> tuple[Name, str] | None:
    """The table and the column of it that a column of a side shows unchanged."""
    if number:
        table = right[number - 1]
        return table.name, table.declared[column].name
    if column in source.declared:
        return source.charged, source.declared[column].name
    return next(((each.name, each.declared[column].name) for each in source.joined if column in each.declared), None)


def with_unit(con: duckdb.DuckDBPyConnection, table: Relation, unit: Name, keys: Keys, function: str) -> Relation:
    """A table with hidden columns that say of which unit a row is; along its path, all tables but the unit's own.

    Rows that lead to no unit are left out where the path has several steps, and otherwise have NULL there.
    """
    path = keys.path(table.name, unit, function)
    types = {column.name: column for column in table.columns}
    columns = next(iter(keys.unique(unit)), ())
    if not path and not columns:
        what = f"unit ({unit.table!r}) is a table without a PRIMARY KEY or UNIQUE constraint, so that its rows"
        cure = f"declare one: ALTER TABLE {unit.quoted()} ADD PRIMARY KEY ({next(iter(types))})"
        raise refuse(TableError, function, f"{what} cannot be told apart", cure)
    rows = _named(table.tree(), [f"0:{name}" for name in types], 0)
    select = exp.select(*(exp.column(f"0:{name}", quoted=True) for name in types)).from_(rows)
    for number, (key, further) in enumerate(pairwise(path)):
        types = {column.name: column for column in catalog.columns(con, key.refers_to)}
        needed = list(dict.fromkeys((*key.refers_columns, *further.columns)))
        equations = [
            equation(f"{number}:{one}", f"{number + 1}:{other}", is_text=types[other].type == "VARCHAR")
            for one, other in zip(key.columns, key.refers_columns, strict=True)
        ]
        # No other column is read: one may be generated.
        rows = exp.select(*(exp.column(name, quoted=True) for name in needed)).from_(key.refers_to.tree()).subquery()
        right = _named(rows, [f"{number + 1}:{name}" for name in needed], number + 1)
        select = select.join(right, on=exp.and_(*equations), join_type="inner", copy=False)
    columns = path[-1].columns if path else columns
    last = max(len(path) - 1, 0)
    hidden = []
    for number, name in enumerate(columns):
        column = types[name]
        if not has_plain_type(column):
            what = f"unit ({unit.table!r}) has a key of type {column.type}, of which equal values need not be the same"
            raise refuse(OptionError, function, what, "identify units by a number, text, date or UUID")
        hidden.append(Column(f"{UNIT_COLUMN}{number}", column.type, nullable=True))
        select = select.select(exp.column(f"{last}:{column.name}", quoted=True), copy=False)
    names = [*(column.name for column in table.columns), *(column.name for column in hidden)]
    key_unit = KeyUnit(
        table=unit,
        columns=tuple(hidden),
        path=(table.name, *(key.refers_to for key in path)),
        id=catalog.table_unit(con, unit),
    )
    return replace(table, rows=subquery(select, names), unit=key_unit)


def _named(tree: exp.Expr, columns: Sequence[str], number: int) -> exp.Expr:
    """A table under an alias and with columns of ours."""
    tree = tree.copy()
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    tree.set("alias", exp.TableAlias(this=exp.to_identifier(f"{ROW_ALIAS}_{number}"), columns=names))
    return tree
