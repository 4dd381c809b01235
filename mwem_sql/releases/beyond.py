"""What a release says of rows that are not as the domain declares: how many have a value off a list or beyond a bound.

From released values only: these values have cells of their own, so that nothing is counted as something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from mwem_sql.domains.classes import Classes
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

FEWEST: Final = 0.01
"""The share of the rows from which on it is said. Less: noise alone would be."""


def sentences(state: State | Mixture, classes: Mapping[str, Classes]) -> list[str]:
    """One for each attribute and side that many rows are off, where cells tell these rows apart from all others."""
    return [
        f"about {100 * share:.0f}% of the rows have a {name} {where}"
        for name, where, share in shares(state, classes)
        if share >= FEWEST
    ]


def shares(state: State | Mixture, classes: Mapping[str, Classes]) -> Iterator[tuple[str, str, float]]:
    """Of each attribute and side that cells tell apart from all others.

    Its name, where the values are, and the share of the rows that have one.
    """
    for name, stored in classes.items():
        if stored.pieces.is_outer.any():
            weights = state.marginal([name])
            total = float(weights.sum())
            for where, codes in _cells(stored):
                yield name, where, float(weights[codes].sum()) / total if total > 0 else 0.0


def _cells(stored: Classes) -> Iterator[tuple[str, list[int]]]:
    """Where values off the domain are, in words, and the classes that hold these and nothing else."""
    pieces, attribute = stored.pieces, stored.attribute
    for piece in np.flatnonzero(pieces.is_outer).tolist():
        code = int(stored.codes[piece])
        if int(np.count_nonzero(stored.codes == code)) == 1:
            yield "that is not on its list" if attribute.values is not None else str(pieces.label(piece)), [code]
