"""Synthetic rows of tables whose keys join: table after table, each after the one that its rows lead to.

A parent has as many rows below it as it says. Each is drawn from its table's state given the rows above it, and keys
are new numbers. From states and released rows only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.partition import Partition
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain, Link
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.parents import Parents
from mwem_sql.model.start import Codes
from mwem_sql.model.state import State
from mwem_sql.platform.session import Session
from mwem_sql.releases.rows import row_rules
from mwem_sql.releases.start import codes_of
from mwem_sql.synthesis.values import Given, SyntheticRows, TableKey, draw_below, draw_rows

NUMBER: Final = "BIGINT"
"""The type of synthetic keys."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """The synthetic rows of a table: values of its attributes, what its keys have, and the row that each leads to."""

    values: pa.Table
    keys: Mapping[str, Integers]
    parents: Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class Above:
    """Of each row that a table is to have: the row that it leads to, and the classes of all rows above it."""

    rows: Integers
    parents: Parents


class Drawing:
    """Rows that were drawn so far, by their table's name, and what draws more."""

    def __init__(self, session: Session, seed: int | None) -> None:
        self._session, self._generator = session, np.random.default_rng(seed)
        self._drawn: dict[str, Drawn] = {}

    def parents(self, domain: Domain) -> Integers:
        """For each row that a table is to have, the row that it leads to: each as often as it says."""
        parent = link_of(domain).parent
        assert parent is not None
        numbers = self._drawn[parent].values.column(domain.table).to_numpy()
        return np.repeat(np.arange(len(numbers)), numbers.astype(np.int64))

    def above(self, compiled: Compiled) -> Above:
        """What the rows drawn so far say of a table below them."""
        domain = compiled.published
        rows = self.parents(domain)
        return Above(rows=rows, parents=Parents(len(rows), self.codes(domain, compiled.classes, rows)))

    def codes(self, domain: Domain, classes: Mapping[str, Classes], parents: Integers) -> dict[str, Codes]:
        """For each row of a table, the class of the row above it in each attribute of tables above."""
        rows_of, rows = dict[str, Integers](), parents
        for table in reversed(domain.above):
            rows_of[table] = rows
            rows = self._drawn[table].parents[rows]
        return {
            name: self._codes_of(*column, each)[rows_of[column[0]]]
            for name, each in classes.items()
            if (column := domain.column_above(name)) is not None
        }

    def _codes_of(self, table: str, column: str, classes: Classes) -> Codes:
        """The class of each row of a table."""
        con = self._session.cursor()
        con.register("__mwem_above", self._drawn[table].values)
        codes = codes_of(con, exp.table_("__mwem_above"), exp.column(column, quoted=True), classes, 1)
        # A value off a list is NULL in the rows.
        off = len(classes.attribute.values or ()) if classes.attribute.open else 0
        return np.where(codes >= 0, codes, classes.codes[off])

    def draw_root(self, domain: Domain, state: State | Mixture, classes: Mapping[str, Classes], rows: int) -> None:
        """Draw the rows of the root from its state."""
        drawn = draw_rows(state, classes, rows, self._generator, row_rules(domain, self._session.settings))
        values = drawn.reader.read_all().rename_columns(list(drawn.types))
        self._keep(domain, values, np.zeros(rows, dtype=np.int64), {})

    def draw(
        self,
        domain: Domain,
        state: State,
        classes: Mapping[str, Classes],
        codes: Mapping[str, Codes],
        parents: Integers,
    ) -> None:
        """Draw the rows of a table below from its state, given the classes of the rows above them."""
        rules = row_rules(domain, self._session.settings)
        values = draw_below(state, classes, Given(codes, len(parents)), self._generator, rules)
        link = link_of(domain)
        assert link.parent is not None
        above = self._drawn[link.parent].keys
        foreign = {one: above[other][parents] for one, other in zip(link.foreign, link.refers_to, strict=True)}
        self._keep(domain, values, parents, foreign)

    def _keep(self, domain: Domain, values: pa.Table, parents: Integers, foreign: Mapping[str, Integers]) -> None:
        """Rows with their keys: of `parents`, which are in order, those that lead there have one number after another.

        A column that stands beside all that leads to the parent in each of its keys counts the rows of one parent;
        another one all rows. So no key occurs twice: what leads to a parent tells it from others, by its own key.
        """
        link = link_of(domain)
        rows = np.arange(1, len(parents) + 1)
        of_parent = rows - np.searchsorted(parents, parents)
        keys = {
            column: foreign[column] if column in foreign else of_parent if link.is_beside(column) else rows
            for column in link.columns
        }
        self._drawn[domain.table] = Drawn(values=values, keys=keys, parents=parents)

    def rows(self, domain: Domain) -> SyntheticRows:
        """Rows as they are written: columns of keys first, then the table's own attributes."""
        link, drawn = link_of(domain), self._drawn[domain.table]
        names = [name for name in domain.own if name in drawn.values.column_names]
        computed = {each.name: each.type for each in domain.computed}
        types = dict.fromkeys(drawn.keys, NUMBER) | {name: computed.get(name) or domain[name].type for name in names}
        columns = [*map(pa.array, drawn.keys.values()), *map(drawn.values.column, names)]
        table = pa.table(columns, names=[f"c{number}" for number in range(len(columns))])
        return SyntheticRows(types, table.to_reader(), table_keys(link))


def link_of(domain: Domain) -> Link:
    """How the table of a release of several is joined to the others."""
    assert domain.link is not None
    return domain.link


def table_keys(link: Link) -> tuple[TableKey, ...]:
    """What is declared of the columns of keys."""
    out = [TableKey("UNIQUE" if number else "PRIMARY KEY", columns) for number, columns in enumerate(link.keys)]
    if link.parent is not None:
        out.append(TableKey("FOREIGN KEY", link.foreign, (f"{link.parent}_synthetic", link.refers_to)))
    return tuple(out)


def grouped(codes: Mapping[str, Codes], partitions: Mapping[str, Partition]) -> dict[str, Codes]:
    """Classes as the classes that a release has stored for them."""
    return {name: partitions[name].codes[of_rows] for name, of_rows in codes.items()}
