"""Domain: the public grid of one table, from its schema or from a domain table, never from data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from typing import Any

import duckdb
from sqlglot import exp

from mwem_sql.boundary import relations
from mwem_sql.boundary.public import PUBLIC_TABLES, PublicTables, check_public
from mwem_sql.boundary.relations import Relation
from mwem_sql.domains import declarations
from mwem_sql.domains.attribute import CURE, Attribute
from mwem_sql.domains.rules import Computed, PublicRule, computed_of_schema, rules_of_schema, rules_of_table
from mwem_sql.domains.totals import PublicTotal, totals_of_table
from mwem_sql.errors import TableError, refuse, refuse_domain
from mwem_sql.language import conditions, predicate
from mwem_sql.language.predicate import Columns
from mwem_sql.platform import catalog
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session

__all__ = ["Attribute", "Domain", "read_domain"]


@dataclass(frozen=True, kw_only=True)
class Link:
    """How the rows of a table are joined to those of others of its release.

    `keys` has the columns of each key of a row. Those of `foreign` lead to the table `parent`, to its columns
    `refers_to`; the root has none. `below` are attributes that say how many rows of other tables lead to a row.
    """

    keys: tuple[tuple[str, ...], ...]
    parent: str | None = None
    foreign: tuple[str, ...] = ()
    refers_to: tuple[str, ...] = ()
    below: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of keys."""
        return tuple(dict.fromkeys(column for key in (*self.keys, self.foreign) for column in key))

    def is_beside(self, column: str) -> bool:
        """Whether each key that has a column has all that leads to the parent, too."""
        return bool(self.foreign) and all(set(self.foreign) <= set(key) for key in self.keys if column in key)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Link:
        listed = {name: tuple(stored[name]) for name in ("foreign", "refers_to", "below")}
        return cls(keys=tuple(map(tuple, stored["keys"])), parent=stored["parent"], **listed)


@dataclass(frozen=True)
class Domain:
    """The public domain of one table. Columns without a declaration are in `columns` only."""

    table: str
    columns: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    _: KW_ONLY
    rules: tuple[PublicRule, ...] = ()
    computed: tuple[Computed, ...] = ()
    totals: tuple[PublicTotal, ...] = ()
    above: tuple[str, ...] = ()
    """The tables that keys lead to: their columns are called table.column."""
    link: Link | None = None
    """In a release of several tables."""

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
        follows = next((each for each in self.computed if each.name == column), None)
        if follows is not None:
            return next((f"a domain of {read}, to be computed" for read in follows.columns if self.lacks(read)), None)
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

    def columns_of(self, rule: PublicRule) -> tuple[str, ...]:
        """The columns that a rule depends on; none of them is computed."""
        return conditions.columns_of(self.tree_of(rule))

    def tree_of(self, rule: PublicRule) -> exp.Expr:
        """A rule over columns that are not computed."""
        return predicate.parse(rule.text, self.spelling, "rule", self.table)

    @cached_property
    def columns_of_totals(self) -> dict[PublicTotal, tuple[str, ...]]:
        """The columns that each public total depends on; none of them is computed."""
        return {
            total: ()
            if total.text is None
            else conditions.columns_of(predicate.parse(total.text, self.spelling, "total", self.table))
            for total in self.totals
        }

    def totals_about(self, columns: AbstractSet[str]) -> tuple[PublicTotal, ...]:
        """The public totals that depend on no other columns."""
        return tuple(total for total, names in self.columns_of_totals.items() if columns >= set(names))

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def spelling(self) -> Columns:
        """Folded column names to the table's own spelling; and how some are computed."""
        return Columns(self.columns, {each.name: each.tree for each in self.computed}, self.above)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def own(self) -> tuple[str, ...]:
        """The columns of the table itself: not those of tables above, nor what is counted of tables below."""
        below = () if self.link is None else self.link.below
        return tuple(name for name in self.columns if name not in below and self.column_above(name) is None)

    def column_above(self, name: str) -> tuple[str, str] | None:
        """The table above that a column is of, and what it is called there; None for a column of the table itself."""
        for table in self.above:
            if name.startswith(f"{table}."):
                return table, name.removeprefix(f"{table}.")
        return None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Domain:
        attributes = tuple(
            Attribute(
                **{**item, **{name: tuple(item[name]) for name in ("values", "edges") if item.get(name) is not None}}
            )
            for item in stored["attributes"]
        )
        return cls(
            stored["table"],
            tuple(stored["columns"]),
            attributes,
            rules=tuple(PublicRule(**item) for item in stored.get("rules", ())),
            computed=tuple(Computed(**item) for item in stored.get("computed", ())),
            totals=tuple(PublicTotal(**item) for item in stored.get("totals", ())),
            above=tuple(stored.get("above", ())),
            link=Link.from_json(link) if (link := stored.get("link")) else None,
        )

    @classmethod
    def from_schema(
        cls, con: object, table: str, domain: str | None = None, rules: str | None = None, totals: str | None = None
    ) -> Domain:
        """The domain of a table or row-wise view.

        `domain` names a domain table, `<table>_domain` by default; `rules` a rules table, `<table>_rules` by default;
        `totals` a table of public totals, `<table>_known` by default.
        """
        session = Session.of(con)
        relation = relations.describe(session.cursor(), table, session.place, "domain")
        with Sandbox(session.settings) as sandbox:
            return read_domain(session, relation, sandbox, domain=domain, rules=rules, totals=totals)


def read_domain(
    session: Session,
    relation: Relation,
    sandbox: Sandbox,
    *,
    domain: str | None = None,
    rules: str | None = None,
    totals: str | None = None,
) -> Domain:
    """Declarations of the schema, with those of the domain table in their place where it has any.

    And rules of both the schema and the rules table, and public totals.
    """
    declared, read = declarations.from_schema(relation, sandbox), PublicTables(session)
    con, table = _public_table(read, relation, "domain", domain)
    if table is not None:
        declared |= declarations.from_table(con, relation, table, sandbox, declared)
    several, computed = list(rules_of_schema(relation)), list(computed_of_schema(relation, declared))
    con, table = _public_table(read, relation, "rules", rules)
    if table is not None:
        more, others = rules_of_table(con, relation, table, session.side_of(rules).place)
        several += more
        computed = [*(each for each in computed if each.name not in {other.name for other in others}), *others]
    con, table = _public_table(read, relation, "known", totals)
    counts = [] if table is None else totals_of_table(con, relation, table)
    names = tuple(column.name for column in relation.columns)
    follows = {each.name for each in computed}
    attributes = tuple(declared[name] for name in names if name in declared and name not in follows)
    return Domain(
        relation.name.stem,
        names,
        attributes,
        rules=tuple(several),
        computed=tuple(computed),
        totals=tuple(dict.fromkeys(counts)),
    )


def _public_table(
    read: PublicTables, relation: Relation, kind: str, name: str | None
) -> tuple[duckdb.DuckDBPyConnection, catalog.Name | None]:
    """A public table about the private one, the one that is named or the one beside it, and what reads it."""
    side, con, table = read.find(relation.name, kind, name)
    if table is not None:
        check_public(con, table, relation.private_names, PUBLIC_TABLES[kind], kind)
        return con, table[0]
    if name is None:
        return con, None
    columns = {
        "domain": "the columns attribute, values, low, high",
        "rules": "the column rule",
        "known": "the column rows, and columns of the private table or predicate",
    }[kind]
    raise refuse(
        TableError,
        kind,
        f"{PUBLIC_TABLES[kind]} ({name!r}) does not exist for this call",
        f"{catalog.nearest(con, name, side.place)}create it with {columns}, and COMMIT",
    )
