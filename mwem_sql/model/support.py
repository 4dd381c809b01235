"""Where records can be: a state that public counts of 0 leave, before anything is measured.

A record can have a class combination if it has any weight there. What several counts say together is worked out by the
state's own messages. Knows neither rules nor SQL: only counts that are 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, Protocol, TypeVar

import numpy as np

from mwem_sql.algebra.arrays import Flags, Floats, Places
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition
from mwem_sql.algebra.table import Table
from mwem_sql.model.partitions import Partitions

IMPOSSIBLE = 1e-200
"""Of the total: less weight than this is none, where a state says what is possible. Far above `WEIGHT_FLOOR`, far below
a product of shares that attributes have."""


AnyState = TypeVar("AnyState", bound="Distribution")


class Distribution(Protocol):
    """What a state is asked for here; a state knows its support, and so this module does not know states."""

    partitions: Partitions

    @property
    def total(self) -> float: ...
    def copy(self: AnyState) -> AnyState: ...  # noqa: PYI019  Python 3.10 has no Self
    def refine(self, query: LinearQuery) -> set[str]: ...
    def cells_with(self, attributes: Sequence[str]) -> int: ...
    def restrict(self, attributes: Sequence[str], is_kept: Flags) -> float: ...
    def several(self, attributes: Sequence[str]) -> list[str]: ...
    def group_marginal(self, attributes: Sequence[str]) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Support(Generic[AnyState]):
    """A state in which some counts are 0. Its groups are those that the counts distinguish: few."""

    state: AnyState

    @classmethod
    def of(cls, start: AnyState, counts: Sequence[LinearQuery], most_cells: int) -> tuple[Support[AnyState], list[int]]:
        """What counts of one cell that are 0 leave of a state, and the numbers of those that it has room for.

        There is room for a count if the class combinations of its attributes, and the whole state, are not more than
        `most_cells`. A ValueError if they leave no class combination at all.
        """
        state, kept = start, list[int]()
        for number, query in enumerate(counts):
            trial = state.copy()
            trial.refine(query)
            on_groups = trial.partitions.exact(query)
            cells = prod(len(start.partitions[name].codes) for name in query.attributes)
            if max(cells, trial.cells_with(on_groups.attributes)) <= most_cells:
                if trial.restrict(on_groups.attributes, on_groups.spread(np.ones(1)) == 0) <= IMPOSSIBLE:
                    raise ValueError(f"counts that are 0 leave nothing: {number}")
                state = trial
                kept.append(number)
        return cls(state), kept

    def possible(self, names: Sequence[str], partitions: Mapping[str, Partition]) -> Flags | None:
        """Which combinations of groups, parts of these here, a record can have; None for all."""
        limited = tuple(self.state.several(names))
        possible = self.state.group_marginal(limited) > IMPOSSIBLE * self.state.total
        if possible.all():
            return None
        for axis, name in enumerate(limited):
            codes = self.state.partitions[name].codes
            possible = possible.take(codes[partitions[name].representatives], axis=axis)
        shape = [partitions[name].count for name in names]
        return np.asarray(Table(limited, possible).expand(tuple(names), shape))

    def impossible(self, names: Sequence[str], partitions: Partitions) -> Places | None:
        """The places of the others, in row-major order; None for none."""
        possible = self.possible(names, partitions)
        return None if possible is None else np.flatnonzero(~possible)

    def values(self, query: LinearQuery, values: Floats, partitions: Partitions) -> Floats:
        """Values for the cells of a query on groups, 0 for those in which no record can be."""
        possible = self.possible(query.attributes, partitions)
        if possible is None:
            return values
        counted = LinearQuery(tuple(Block(block.attributes, block.encoding, block.size) for block in query.blocks))
        return np.where(counted.answer(possible.astype(np.float64)) > 0, values, 0.0)
