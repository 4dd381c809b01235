"""How a column of a release is cut: what its values are, which of them the release tells apart, and what becomes of values off the domain.

For cards and comments, as data and in words. From the public domain and the classes that are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes

SHOWN = 12
"""Values, or beginnings of cells, that a card lists in words."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The cells of a column. `begins` are where neighbouring cells of a range begin, as text, those beyond its bounds aside; of a list, `groups` says how many are told apart."""

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
        return cls(
            attribute=attribute,
            begins=begins,
            groups=len(first),
            draws=bool((lows != ends).any()),
        )

    def as_json(self) -> dict[str, Any]:
        """What a program needs of it, beside name and type."""
        own = self.attribute
        values: dict[str, Any] = {"values": list(own.values)} if own.values is not None else {}
        if own.low is not None and own.high is not None and own.values is None:
            values = {"low": own.text(own.low), "high": own.text(own.high), "cells_begin_at": list(self.begins)}
        return {
            "nullable": own.nullable,
            **values,
            "cells": self.groups,
            "values_inside_a_cell": "drawn" if self.draws else "single",
            "off_the_domain": None if not own.open else "NULL" if own.values is not None else "shown as the bound",
            "in_words": self.words(SHOWN),
        }

    def words(self, most: int) -> str:
        """The same in a sentence, with at most so many values or beginnings of cells."""
        return "; ".join(filter(None, [self._values(most), self._cells(most), self._off()]))

    def _values(self, most: int) -> str:
        own = self.attribute
        null = " or NULL" if own.nullable else ""
        if own.values is None:
            assert own.low is not None and own.high is not None
            return f"from {own.text(own.low)} to {own.text(own.high)}{null}"
        return "one of " + _listed([_quoted(value) for value in own.values], most) + null

    def _cells(self, most: int) -> str:
        own = self.attribute
        if not self.draws:
            return ""
        if own.values is not None:
            apart = "are not told apart" if self.groups == 1 else f"are told apart in {self.groups:,} groups"
            return f"its values {apart}, and those inside a group are drawn"
        if self.groups == 1:
            return "in one cell, inside which values are drawn"
        return f"in {self.groups:,} cells that begin at {_listed(self.begins, most)}; values inside a cell are drawn"

    def _off(self) -> str:
        own = self.attribute
        if not own.open:
            return ""
        if own.values is not None:
            return f"values off the list count as {_quoted(own.other_label)}, and are NULL in the rows"
        if not own.outer:
            return "values beyond the bounds count as the bound"
        assert own.low is not None and own.high is not None
        beyond = [f"'below {own.text(own.low)}'"] * (own.least != own.low) + [f"'above {own.text(own.high)}'"] * (own.most != own.high)  # fmt: skip
        return f"values beyond count as {' or '.join(beyond)}, and are shown as the bound in the rows"


def _listed(items: tuple[str, ...] | list[str], most: int) -> str:
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def _quoted(text: str) -> str:
    """As SQL writes a text, so that it is seen where it ends."""
    return exp.Literal.string(text).sql("duckdb")
