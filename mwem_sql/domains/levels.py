"""The domains of several tables that keys join: what can be asked of the rows of each, by the names that it has there.

Of a level that is its own columns, those of the tables above it, and how many rows of the tables below lead to a row.
Columns of keys have no domain. Reads no private row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from mwem_sql.boundary import levels as tables
from mwem_sql.boundary.levels import NUMBER_TYPE, Level, column_above
from mwem_sql.boundary.public import PUBLIC_TABLES
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain, Link, read_domain
from mwem_sql.errors import RELEASE, DomainError, OptionError, did_you_mean, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform.catalog import Column
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session

NamedTables: TypeAlias = Mapping[str, Mapping[str, str]]
"""By kind (domain, rules, known) and folded name of a private table, the public table that a call names for it."""


def domains_alone(session: Session, levels: Sequence[Level], sandbox: Sandbox, given: NamedTables) -> list[Domain]:
    """The domain of each table by itself. `given` are the public tables that a call names, by kind and table."""
    names = {fold(level.name): level.name for level in levels}
    for kind, tables_named in given.items():
        for table in tables_named:
            if table not in names:
                what = f"{kind} names {table!r}, which is not a table of this call"
                hint = f"{did_you_mean(table, list(names.values()))}the tables are {', '.join(names.values())}"
                raise refuse(OptionError, RELEASE, what, hint)
    domains = []
    for level in levels:
        named, rules, totals = (given.get(kind, {}).get(fold(level.name)) for kind in PUBLIC_TABLES)
        domains.append(read_domain(session, level.table, sandbox, domain=named, rules=rules, totals=totals))
    for level, domain in zip(levels, domains, strict=True):
        _check_alone(level, domain)
    return domains


def level_domains(levels: Sequence[Level], alone: Sequence[Domain], numbers: Mapping[str, int]) -> list[Domain]:
    """The domain of each level. `numbers` has how many rows of a table may lead to a row, where that is known."""
    return [_domain(levels, place, alone, numbers) for place in range(len(levels))]


def _check_alone(level: Level, domain: Domain) -> None:
    """Refuse what a release of one table has, and several do not."""
    column = next((each.name for each in domain if each.discover), None)
    if column is not None:
        what = f"column {column} of {level.name} has values to discover, which is for a release of one table"
        raise refuse(DomainError, RELEASE, what, "list its values in the domain table")


def _domain(levels: Sequence[Level], place: int, alone: Sequence[Domain], numbers: Mapping[str, int]) -> Domain:
    """The domain of a level: its table's, those above under their names there, and the numbers of rows below."""
    level, domain = levels[place], alone[place]
    others = list(reversed(tables.above(levels, place)))
    below = [levels[other].name for other in tables.below(levels, place)]
    joining = {level.name: set(level.joining) for level in levels}
    attributes = [each for each in domain if each.name not in joining[level.name]]
    attributes += [
        replace(each, name=column_above(levels[other], each.name))
        for other in others
        for each in alone[other]
        if each.name not in joining[levels[other].name]
    ]
    attributes += [
        Attribute(name, NUMBER_TYPE, nullable=False, low=0, high=numbers[name], source=f"rows of {name}")
        for name in below
        if name in numbers
    ]
    names = [
        *domain.columns,
        *(column_above(levels[other], column) for other in others for column in alone[other].columns),
        *below,
    ]
    parent = None if level.parent is None else levels[level.parent]
    link = Link(
        keys=tuple(_names(key) for key in level.keys),
        parent=None if parent is None else parent.name,
        foreign=_names(level.foreign),
        refers_to=_names(level.refers_to),
        below=tuple(below),
    )
    return replace(
        domain,
        table=level.name,
        columns=tuple(names),
        attributes=tuple(attributes),
        above=tuple(levels[other].name for other in others),
        link=link,
    )


def _names(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)
