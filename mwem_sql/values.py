"""From class codes to values: each synthetic row gets a value of its class, every value of the class equally likely."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from mwem_sql.compiler.classes import Classes
from mwem_sql.state import Mixture, State
from mwem_sql.synthesize import Codes, Indices, draw_codes, uniform_choice


def draw_rows(
    state: State | Mixture, classes: Mapping[str, Classes], rows: int, generator: np.random.Generator
) -> dict[str, tuple[str, pa.Array]]:
    """Synthetic columns in the order of `classes`, each with the DuckDB type that it is to be cast to."""
    codes = draw_codes(state, rows, generator)
    return {
        name: (own.attribute.type, own.pieces.draw(_pieces(own, codes[name], generator), generator))
        for name, own in classes.items()
    }


def _pieces(classes: Classes, codes: Codes, generator: np.random.Generator) -> Indices:
    """A piece of its class for every row, in proportion to the pieces' sizes."""
    if classes.count == len(classes.codes):
        return classes.representatives[codes]
    out = np.empty(len(codes), dtype=np.int64)
    rows, members = _runs(codes, classes.count), _runs(classes.codes, classes.count)
    for code in np.unique(codes).tolist():
        sizes = classes.pieces.sizes[members[code]]
        # A class of single points on a continuous range has no length.
        chosen = uniform_choice(sizes if sizes.sum() > 0 else np.ones(len(sizes)), len(rows[code]), generator)
        out[rows[code]] = members[code][chosen]
    return out


def _runs(codes: Codes, count: int) -> list[Indices]:
    """Where each code is."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, count)))
