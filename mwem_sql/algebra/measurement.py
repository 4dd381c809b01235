"""A measurement: noisy values and the query that they answer.

It goes from the kernel to the fit, the store, the report and the intervals. The kernel knows queries by number alone,
so that a proof looks at nothing else, and a figure of the certificate has no query: the kernel returns `NoisyValues`.
The caller joins query and purpose to them at once (`Measurement.of`). Nothing here draws noise or sees private data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np

from mwem_sql.algebra.arrays import Floats, Numbers, Places
from mwem_sql.algebra.linear import Block, LinearQuery

Kind: TypeAlias = Literal["pure", "zcdp"]
"""Of a plan, and so of its noise: discrete Laplace noise under pure differential privacy, discrete Gaussian noise under
zCDP."""
KINDS: Final[Mapping[str, Kind]] = {"laplace": "pure", "gaussian": "zcdp"}
NOISE: Final[Mapping[Kind, str]] = {kind: name for name, kind in KINDS.items()}
"""The stored name of each kind's noise."""
Purpose: TypeAlias = Literal[
    "total", "histogram", "always", "first", "round", "again", "detail", "certify", "units", "start", "rule", "known"
]
"""What a share is for. Of these "certify", "units" and "start" have no query, and "rule" and "known" have no share:
what is public is known without noise."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyValues:
    """Values with independent noise on each, all of one kind and scale: safe to publish."""

    values: Numbers
    kind: Kind
    scale: float
    variance: float
    """Of the noise on a value."""
    share: Fraction | None = None
    """What it took of the budget, in epsilon or rho; None of what was read from a file."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement(NoisyValues):
    """Noisy values of the cells of a query, in whole numbers of the query's unit."""

    query: LinearQuery
    """What the values count: a query of the workload or of the plan, or a partition of its cells."""
    purpose: Purpose
    number: int | None = None
    """The kernel's number of the query whose cells were measured; None of what was read from a file."""
    name: str = ""
    """What people call it."""

    @classmethod
    def of(
        cls, drawn: NoisyValues, query: LinearQuery, purpose: Purpose, number: int, parts: Places | None = None
    ) -> Measurement:
        """Join what the kernel returned to the query with that number.

        `parts`: the part of each cell, if parts were measured. Parts are numbered by their first cell from then on, so
        that numbers tell nothing about how a partition was made.
        """
        values = drawn.values
        if parts is not None:
            _, first, part = np.unique(parts, return_index=True, return_inverse=True)
            order = np.argsort(first)
            labels = np.argsort(order)[part.reshape(-1)].astype(np.int32)
            query = LinearQuery((Block(query.attributes, labels.reshape(query.shape), len(order)),))
            values = values[order]
        return cls(**{**vars(drawn), "values": values}, query=query, purpose=purpose, number=number)

    @classmethod
    def public(cls, query: LinearQuery, values: Floats, purpose: Purpose, name: str) -> Measurement:
        """What is public of the cells of a query: it takes nothing of a budget and has no noise."""
        return cls(
            values=values.astype(np.int64),
            kind="pure",
            scale=0.0,
            variance=0.0,
            query=query,
            purpose=purpose,
            name=name,
        )

    @property
    def is_partition(self) -> bool:
        """Whether every record is in one of its cells, which may be any sets of class combinations."""
        return len(self.query.blocks) == 1 and self.query.counts_all

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is on classes of which attributes have so many."""
        shape = [size for block in self.query.blocks for size in block.shape]
        return shape == [sizes[name] for name in self.query.attributes]

    def on(self, places: Mapping[str, Places]) -> Measurement:
        """The same on other classes: by attribute, a class of now for each class of then."""
        return replace(self, query=self.query.on(places))
