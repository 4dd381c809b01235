"""The average of several states, for the paper's form of the release. Only reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.model.partitions import Partitions
from mwem_sql.model.state import State


class Mixture:
    """The average of several states over the same attributes: the paper's avg of A_0 .. A_{T-1}. For reading only."""

    def __init__(self, states: Sequence[State]) -> None:
        self.states = tuple(states)
        if not self.states:
            raise ValueError("a mixture has at least one state")
        self.attributes = self.states[0].attributes
        if any(s.attributes != self.attributes or s.shape(s.attributes) != self.shape(self.attributes) for s in states):
            raise ValueError("the states of a mixture have the same attributes and classes")

    @property
    def partitions(self) -> Partitions:
        return self.states[0].partitions

    def copy(self) -> Mixture:
        """Shares the weights with the original until one of the two changes them."""
        return Mixture([state.copy() for state in self.states])

    def merged(self) -> Mixture:
        """One class for each group: merges classes that no measurement distinguishes."""
        return Mixture([state.merged() for state in self.states])

    @property
    def total(self) -> float:
        return sum(state.total for state in self.states) / len(self.states)

    @property
    def cells(self) -> int:
        return sum(state.cells for state in self.states)

    def shape(self, attributes: Sequence[str]) -> tuple[int, ...]:
        return self.states[0].shape(attributes)

    def marginal(self, attributes: Sequence[str]) -> Floats:
        return _mean([state.marginal(attributes) for state in self.states])

    def answer(self, query: LinearQuery) -> Floats:
        return self.answers([query])[0]

    def answers(self, queries: Sequence[LinearQuery]) -> list[Floats]:
        return [_mean(answers) for answers in zip(*(state.answers(queries) for state in self.states), strict=True)]

    def table(self) -> pa.Table:
        """The states' tables one after the other, with the state's number in front."""
        tables = []
        for number, state in enumerate(self.states):
            table = state.table()
            tables.append(table.add_column(0, "state", pa.array([number] * table.num_rows, pa.int32())))
        return pa.concat_tables(tables)

    @classmethod
    def from_table(cls, table: pa.Table, attributes: Sequence[str] | None = None) -> Mixture:
        """`attributes` gives their order; without it, it is that of the first state's rows."""
        import pyarrow.compute as pc  # noqa: PLC0415  takes a tenth of the time of `import mwem_sql`

        states: list[State] = []
        for number in pc.unique(table["state"]).sort():
            states.append(State.from_table(table.filter(pc.equal(table["state"], number)), attributes))
            attributes = states[0].attributes
        return cls(states)


def _mean(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(sum(arrays[1:], start=arrays[0]) / len(arrays))
