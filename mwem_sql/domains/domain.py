"""Domain: the public grid of one table, from its schema or from a domain table, never from data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import duckdb

from mwem_sql.boundary import relations
from mwem_sql.boundary.public import check_public, domain_table
from mwem_sql.boundary.relations import Relation
from mwem_sql.domains import declarations
from mwem_sql.domains.attribute import CURE, Attribute
from mwem_sql.errors import TableError, refuse, refuse_domain
from mwem_sql.language.dialect import fold
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session

__all__ = ["Attribute", "Domain", "read_domain"]


@dataclass(frozen=True)
class Domain:
    """The public domain of one table. Columns without a declaration are in `columns` only."""

    table: str
    columns: tuple[str, ...]
    attributes: tuple[Attribute, ...]

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        attribute = self.attribute(name)
        if attribute is not None:
            return attribute
        raise refuse_domain(f"column {name} of {self.table} has no public domain, so it cannot be queried", CURE)

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of a column; None if it is not declared."""
        return self._by_name.get(name)

    def lacks(self, column: str) -> str | None:
        """What a column would need to be grouped by, in words; None if it needs nothing."""
        attribute = self.attribute(column)
        return "values, or low and high, to be queried at all" if attribute is None else attribute.lacks

    def lacking(self) -> str:
        """All columns that cannot be grouped by and what they lack, in words; empty if there are none."""
        columns: dict[str, list[str]] = {}
        for name in self.columns:
            reason = self.lacks(name)
            if reason is not None:
                columns.setdefault(reason, []).append(name)
        return "; ".join(
            f"{', '.join(names)} {'lacks' if len(names) == 1 else 'lack'} {reason}" for reason, names in columns.items()
        )

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def spelling(self) -> dict[str, str]:
        """Folded column names to the table's own spelling."""
        return {fold(name): name for name in self.columns}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Domain:
        attributes = tuple(
            Attribute(
                **{**item, **{name: tuple(item[name]) for name in ("values", "edges") if item.get(name) is not None}}
            )
            for item in stored["attributes"]
        )
        return cls(stored["table"], tuple(stored["columns"]), attributes)

    @classmethod
    def from_schema(cls, con: object, table: str, domain: str | None = None) -> Domain:
        """The domain of a table or row-wise view; `domain` names a domain table, `<table>_domain` by default."""
        session = Session.of(con)
        cursor = session.cursor()
        relation = relations.describe(cursor, table, session.place, "domain")
        with Sandbox(session.settings) as sandbox:
            return read_domain(cursor, relation, domain, session.place, sandbox)


def read_domain(
    con: duckdb.DuckDBPyConnection, relation: Relation, domain: str | None, place: Place, sandbox: Sandbox
) -> Domain:
    """Declarations of the schema, with those of the domain table in their place where it has any."""
    declared = declarations.from_schema(relation, sandbox)
    table = _domain_table(con, relation, domain, place)
    if table is not None:
        declared |= declarations.from_table(con, relation, table, sandbox, declared)
    names = tuple(column.name for column in relation.columns)
    return Domain(relation.name.stem, names, tuple(declared[name] for name in names if name in declared))


def _domain_table(
    con: duckdb.DuckDBPyConnection, relation: Relation, domain: str | None, place: Place
) -> catalog.Name | None:
    name = domain_table(con, relation.name) if domain is None else domain
    table = catalog.find(con, name, place)
    if table is not None:
        check_public(con, table, relation.names, "domain table", "domain")
        return table[0]
    if domain is None:
        return None
    raise refuse(
        TableError,
        "domain",
        f"domain table ({domain!r}) does not exist for this call",
        f"{catalog.nearest(con, domain, place)}create it with the columns attribute, values, low, high, and COMMIT",
    )
