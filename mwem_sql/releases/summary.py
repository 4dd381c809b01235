"""The summary of a release: what it says of itself, in the row that a call returns and in comments on its table.

A `Cut` says of a column, as data and in words, what its values are and which of them the release distinguishes.

Its columns are in `columns.py`. Sentences are about rows off the domain, which have cells
of their own so that nothing is counted as something else, and about rows that were left out because their unit has more
rows than are used. From public inputs and released values only, and without a clock time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from mwem_sql.accounting.caps import nominal, protected
from mwem_sql.algebra import chance
from mwem_sql.algebra.measurement import NoisyValues
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import literal
from mwem_sql.judge import grade
from mwem_sql.kernel.scales import within
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform import catalog
from mwem_sql.platform.catalog import Name
from mwem_sql.releases.columns import SUMMARY_TYPES

LEAST_SHARE = 0.01
"""The share of the rows, or of the units, from which on a summary speaks of them. Smaller: it speaks of noise alone."""
MOST_DOUBT = 0.25
"""A share of the units that may be off by more than this is not given. Larger: shares are given that say little."""
MOST_COLUMNS = 200
"""Columns of a table that has a comment on each. A comment copies the table's entry in the catalog: on 1,000 columns
1.6 s of a processor, on 200 some 0.1 s."""
_OURS = "Synthetic rows by mwem_release"


def row(
    output: Name | str, facts: Mapping[str, Any], seconds: float, warnings: Iterable[str | None], *, reused: bool
) -> dict[str, Any]:
    """The row that a call returns, from the facts of its release."""
    listed = [nominal(facts["epsilon"], facts["delta"], facts["rows"]), grade.warning(facts), *warnings]
    values = {
        **facts,
        "output": str(output),
        "seconds": round(seconds, 3),
        "reused": reused,
        "protects": facts.get("protects") or protected(facts["unit"], facts["rows_per_unit"]),
        "warning": "; ".join(filter(None, listed)) or None,
        "quality": grade.word(facts),
    }
    return {name: values.get(name) for name in SUMMARY_TYPES}


def off_domain(state: State | Mixture, classes: Mapping[str, Classes]) -> list[str]:
    """A sentence for each attribute and side that many rows are off, where these rows have cells of their own."""
    return [
        f"about {100 * share:.0f}% of the rows have a {name} {where}"
        for name, where, share in off_domain_shares(state, classes)
        if share >= LEAST_SHARE
    ]


def off_domain_shares(state: State | Mixture, classes: Mapping[str, Classes]) -> Iterator[tuple[str, str, float]]:
    """The name of an attribute, where values off its domain are, in words, and the share of the rows that have one.

    Of each side with a cell that has these values and no others.
    """
    for name, stored in classes.items():
        pieces = stored.pieces
        if not pieces.is_outer.any():
            continue
        weights = state.marginal([name])
        total = float(weights.sum())
        for piece in np.flatnonzero(pieces.is_outer).tolist():
            code = int(stored.codes[piece])
            if int(np.count_nonzero(stored.codes == code)) == 1:
                where = "that is not on its list" if stored.attribute.values is not None else str(pieces.label(piece))
                yield name, where, float(weights[code]) / total if total > 0 else 0.0


def unit_facts(units: NoisyValues | None) -> dict[str, float | None]:
    """The share of the units of which rows were left out, and how far it is off at most, 95 times in 100."""
    if units is None:
        return {"units_cut": None, "units_cut_within": None}
    # Each of the two counts may fail with half of the chance; the share grows with one and falls with the other.
    off = within(units.scale, units.kind, 1 - chance.Chance(chance.SUMMARY).take("a count", 1 / 2))
    whole, cut = (max(0.0, float(count)) for count in units.values)
    least, share, most = _share(cut - off, whole + off), _share(cut, whole), _share(cut + off, whole - off)
    return {"units_cut": share, "units_cut_within": max(share - least, most - share)}


def _share(cut: float, whole: float) -> float:
    cut, whole = max(0.0, cut), max(0.0, whole)
    return cut / (cut + whole) if cut + whole > 0 else 0.0


def rows_used(facts: Mapping[str, Any]) -> str | None:
    """How many rows of a unit were used, and how many units have more; None where none has more, as its key says."""
    unit, most = facts["unit"], facts["rows_per_unit"]
    share, off = facts.get("units_cut"), facts.get("units_cut_within")
    if unit is None or (most == 1 and share == off == 0):
        return None
    used = f"1 row of each {unit} was used" if most == 1 else f"at most {most:,} rows of each {unit} were used"
    if share is None or off is None:
        more = "others were left out"
    elif share + off < LEAST_SHARE:
        more = "fewer than 1 in 100 have more"
    elif off > MOST_DOUBT:
        more = "the budget was too small to tell how many have more"
    else:
        more = f"about {100 * share:.0f} in 100 have more (within {max(1, round(100 * off))})"
    return f"{used}, and all counts are of these rows: {more}"


def rows_used_warning(facts: Mapping[str, Any]) -> str | None:
    """The same for the summary, unless hardly any unit seems to have more rows than were used."""
    share, off = facts.get("units_cut"), facts.get("units_cut_within") or 0.0
    return rows_used(facts) if share is not None and (share >= LEAST_SHARE or off > MOST_DOUBT) else None


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The cells of a column: what its values are, which of them the release distinguishes, and what is off the domain.

    `begins` are where neighbouring cells of a range begin, as text, without those beyond its bounds; `groups` is the
    number of cells.
    """

    attribute: Attribute
    begins: tuple[str, ...]
    groups: int
    draws: bool
    """Whether a cell has several values, of which one is drawn for each row."""

    @classmethod
    def of(cls, classes: Classes) -> Cut:
        pieces, attribute = classes.pieces, classes.attribute
        inside = np.flatnonzero(~pieces.is_outer)
        codes = classes.codes[inside]
        if attribute.values is not None:
            groups = len(np.unique(codes))
            return cls(attribute=attribute, begins=(), groups=groups, draws=groups < len(inside))
        # Cells are longest stretches of pieces of one class, in which values are equally likely.
        density = (classes.densities / np.where(pieces.sizes > 0, pieces.sizes, 1.0))[inside]
        is_same = (np.diff(codes) == 0) & np.isclose(density[1:], density[:-1], rtol=1e-9, atol=0.0)
        first = np.append(0, np.flatnonzero(~is_same) + 1)
        lows, ends = pieces.lows[inside][first], pieces.highs[inside][np.append(first[1:], len(inside)) - 1]
        begins = tuple(attribute.text(low) for low in lows.tolist())
        return cls(attribute=attribute, begins=begins, groups=len(first), draws=bool((lows != ends).any()))

    def as_json(self) -> dict[str, Any]:
        """What a program needs of it, beside name and type."""
        attribute = self.attribute
        if attribute.values is not None:
            values: dict[str, Any] = {"values": list(attribute.values)}
        else:
            values = dict(zip(("low", "high"), self._bounds, strict=True)) | {"cells_begin_at": list(self.begins)}
        off = "NULL" if attribute.values is not None else "shown as the bound"
        return {
            "nullable": attribute.nullable,
            **values,
            "cells": self.groups,
            "values_inside_a_cell": "drawn" if self.draws else "single",
            "off_the_domain": off if attribute.open else None,
            "in_words": self.words(most=12),
        }

    def words(self, most: int) -> str:
        """The same in a sentence, with at most so many values or beginnings of cells."""
        attribute = self.attribute
        null = " or NULL" if attribute.nullable else ""
        if attribute.values is None:
            low, high = self._bounds
            parts = [f"from {low} to {high}{null}"]
            if self.draws and self.groups == 1:
                parts.append("in one cell, inside which values are drawn")
            elif self.draws:
                begins = _enumerated(self.begins, most)
                parts.append(f"in {self.groups:,} cells that begin at {begins}; values inside a cell are drawn")
        else:
            parts = [f"one of {_enumerated([literal(value) for value in attribute.values], most)}{null}"]
            if self.draws:
                apart = "are not told apart" if self.groups == 1 else f"are told apart in {self.groups:,} groups"
                parts.append(f"its values {apart}, and those inside a group are drawn")
        return "; ".join([*parts, *self._off()])

    def _off(self) -> Iterator[str]:
        """What becomes of values off the domain, where there may be some."""
        attribute = self.attribute
        if not attribute.open:
            return
        if attribute.values is not None:
            yield f"values off the list count as {literal(attribute.other_label)}, and are NULL in the rows"
        elif not attribute.outer:
            yield "values beyond the bounds count as the bound"
        else:
            low, high = self._bounds
            sides = {
                f"'below {low}'": attribute.least != attribute.low,
                f"'above {high}'": attribute.most != attribute.high,
            }
            beyond = " or ".join(side for side, is_there in sides.items() if is_there)
            yield f"values beyond count as {beyond}, and are shown as the bound in the rows"

    @property
    def _bounds(self) -> tuple[str, str]:
        attribute = self.attribute
        assert attribute.low is not None and attribute.high is not None
        return attribute.text(attribute.low), attribute.text(attribute.high)


def _enumerated(items: Sequence[str], most: int) -> str:
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def comment(
    con: duckdb.DuckDBPyConnection,
    name: Name,
    facts: Mapping[str, Any],
    classes: Mapping[str, Classes],
    off: Sequence[str],
    *,
    most_columns: int = MOST_COLUMNS,
) -> None:
    """Say on an output, and on each column, what it is and where to look; `off` is about rows off the domain."""
    budget = f"epsilon {facts['epsilon']:g}, delta {facts['delta']:g}"
    if not facts["private"]:
        budget += ", with a seed: NOT PRIVATE"
    protects = protected(facts["unit"], facts["rows_per_unit"])
    sentences = [f" {text[0].upper()}{text[1:]}." for text in filter(None, [rows_used(facts), *off])]
    catalog.set_comment(
        con,
        name,
        f"{_OURS} ({budget}; protects {protects}). How they were made: release {facts['release']} in mwem.releases,"
        " mwem.measurements and mwem.workloads of this database. Sharper than these rows: mwem_answer and mwem_count."
        " DROP TABLE takes the rows only: the release stays, answers, and is charged. mwem_withdraw takes it back."
        + "".join(sentences),
    )
    for column, stored in classes.items() if len(classes) <= most_columns else ():
        values = Cut.of(stored).words(most=8)
        text = f"Synthetic ({budget}); {values}; release {facts['release']} in mwem.releases"
        catalog.set_column_comment(con, name, column, text)


def is_output(con: duckdb.DuckDBPyConnection, name: Name) -> bool:
    """Whether a table is the output of a release, by the comment on it."""
    return _OURS in catalog.comment(con, name)


def comment_withdrawn(con: duckdb.DuckDBPyConnection, name: Name, withdrawal: object) -> None:
    """Say on an output, if it is still there, that its release was withdrawn."""
    before = catalog.comment(con, name)
    if before.startswith(_OURS):
        catalog.set_comment(con, name, f"WITHDRAWN {withdrawal}. {before}")
