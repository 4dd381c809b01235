"""Members: the tables and views that a call names together, whose rows they are, and the keys that join them.

They are where keys are kept or declared: in one schema of DuckDB, in one database of a source, or views of files. Reads
the catalog, `mwem_keys` and the schemas of files, never a private row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeAlias

import duckdb

from mwem_sql.boundary import relations, sources
from mwem_sql.boundary.files import FileName
from mwem_sql.boundary.keys import KEY_TABLE, Keys
from mwem_sql.boundary.relations import Relation
from mwem_sql.boundary.sources import Describes, Linked, Source
from mwem_sql.errors import RELEASE, MwemError, TableError, literal, refuse
from mwem_sql.language.dialect import fold
from mwem_sql.platform.catalog import Column, Name, Place

KeyColumns: TypeAlias = tuple[Column, ...]
"""The columns of one key of a table, as its level calls them."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A table as a call names it, and the table whose rows and keys are its own: below a view another one."""

    text: str
    table: Relation
    base: Name

    @property
    def name(self) -> str:
        return self.table.name.table

    def columns(self, names: Sequence[str]) -> KeyColumns | None:
        """The columns that show those of `base` unchanged; None if one is not shown."""
        types = {column.name: column for column in self.table.columns}
        origins = {name: below.name for name, below in self.table.declared.items()}
        if self.table.files is not None:  # keys are declared of the view itself
            origins = {name: name for name in types}
        shown = {fold(below): types[name] for name, below in origins.items() if name in types}
        columns = [shown.get(fold(name)) for name in names]
        return tuple(column for column in columns if column is not None) if None not in columns else None


def members_of(
    con: duckdb.DuckDBPyConnection, texts: Sequence[str], place: Place, within: Describes | None
) -> tuple[list[Member], Keys]:
    """Tables and views that may be released together, and the keys of their tables."""
    elsewhere = [sources.named(con, text) for text in texts]
    source = None if elsewhere[0] is None else elsewhere[0][0]
    other = next((k for k, each in enumerate(elsewhere) if (None if each is None else each[0]) is not source), None)
    if other is not None:
        what = f"table ({texts[other]!r}) is not where {texts[0]!r} is, and no key leads from one place to another"
        raise refused(what, "copy them into one database, with their keys; or release each alone")
    if source is not None:
        linked = (within or source.engine).describe_all([each[1] for each in elsewhere if each], RELEASE)
        keys = _keys_of_source(con, source, linked, place)
        return _of_source(source, texts, linked, keys, is_planned=within is None), keys
    members = []
    for text in texts:
        table = relations.describe(con, text, place, RELEASE)
        members.append(Member(text=text, table=table, base=table.charged if table.files is None else table.name))
        _check_table(members[-1], members[0])
    return members, Keys.of(con, members[0].base, RELEASE)


def _keys_of_source(con: duckdb.DuckDBPyConnection, source: Source, linked: Linked, place: Place) -> Keys:
    """The engine's own, or where it keeps none those that `mwem_keys` in the current schema declares of one schema."""
    path = next((facts.table for facts in linked.facts if not facts.base), None)
    if path is not None:
        what = f"files ({path!r}) are named by their path, and keys are declared between tables"
        raise refused(what, "declare them as a table there: CREATE TABLE ... USING parquet LOCATION ...")
    if linked.constraints is not None:
        return Keys.of_source(source.alias, linked.constraints)
    first, *others = (Name(source.alias, *facts.base) for facts in linked.facts)
    far = next((name for name in others if name.schema != first.schema), None)
    if far is not None:
        what = f"table ({far}) is in another schema than {first}, and {KEY_TABLE} is about tables beside one another"
        raise refused(what, "name tables of one schema")
    return Keys.declared(con, place, first, RELEASE)


def _of_source(source: Source, texts: Sequence[str], linked: Linked, keys: Keys, *, is_planned: bool) -> list[Member]:
    """Tables of a source. The ledger keys of each are those of all tables that lead to it, too.

    Where `mwem_keys` declares keys, those of all tables that they connect: looked up as it `is_planned`, and not again.
    """
    members = []
    ids = {Name(source.alias, *table): key for table, key in linked.ids.items()}
    tables = [relations.of_source(source, facts) for facts in linked.facts]
    described = {table.base: table for table in tables if table.base is not None}
    for text, table in zip(texts, tables, strict=True):
        assert table.base is not None  # of an engine that has keys
        if not source.engine.keeps_keys:
            beside = relations.beside_of_source(source, table.base, keys, described, RELEASE) if is_planned else ()
            members.append(Member(text=text, table=replace(table, beside=beside), base=table.base))
            continue
        leading = keys.leading(table.base)
        read = [each.keys for each in tables if each.base in leading]
        tiers = [dict.fromkeys(key for keys in tier for key in keys) for tier in zip_longest(*read, fillvalue=())]
        tiers[0] |= dict.fromkeys(ids[name] for name in leading if name in ids)
        members.append(
            Member(text=text, table=replace(table, keys=tuple(map(tuple, tiers))), base=table.base)
        )  # fmt: skip
    return members


def _check_table(member: Member, first: Member) -> None:
    """A table, or a view of one or of files that joins nothing: keys are declared between such."""
    table, text = member.table, member.text
    if isinstance(table.name, FileName):
        what = f"table ({text!r}) is a file, and keys are declared between tables and views"
        cure = f"CREATE VIEW {table.name.stem} AS FROM {literal(table.name.table)}, and declare its keys in {KEY_TABLE}"
        raise refused(what, cure)
    if (table.files is None) != (first.table.files is None):
        what = f"tables ({first.text!r}, {text!r}) are of files and of DuckDB, whose rows no account has in common"
        raise refused(what, "CREATE TABLE ... AS FROM the view of the files; or release each alone")
    if table.joined:
        what = f"view ({text!r}) joins {table.joined[0].name.table}, and rows of a release of several tables are of one"
        raise refused(what, "leave the join out of the view: columns of tables above can be asked about without it")
    if member.base.beside("") != first.base.beside(""):
        what = f"table ({text!r}) is in another schema than {first.base}, and no key leads from one to the other"
        raise refused(what, "keep tables that are released together in one schema")


def refused(what: str, hint: str) -> MwemError:
    """A refusal of tables that cannot be released together."""
    return refuse(TableError, RELEASE, what, hint)
