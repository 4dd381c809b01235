"""From class codes to values: each synthetic row gets a value of its class, as was measured of the class's pieces.

Inside a piece the density rises or falls towards its neighbours'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.domains.classes import Classes
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.synthesis.deal import Codes, draw_codes, stable_order
from mwem_sql.synthesis.rounding import systematic_counts


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Synthetic rows, to be read once: column k of the batches is cast to the k-th of the columns' DuckDB types."""

    types: Mapping[str, str]
    reader: pa.RecordBatchReader


def draw_rows(
    state: State | Mixture, classes: Mapping[str, Classes], rows: int, generator: np.random.Generator
) -> SyntheticRows:
    """Columns in the order of `classes`; all but the first batch are drawn while they are read."""
    batches = _batches(state, classes, rows, generator)
    first = next(batches)
    types = {name: each.attribute.type for name, each in classes.items()}
    return SyntheticRows(types, pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))


def uniform_choice(sizes: Floats, count: int, generator: np.random.Generator) -> Integers:
    """`count` indices in proportion to `sizes`, each to within 1 of its due number; in random order."""
    return generator.permutation(np.repeat(np.arange(len(sizes)), systematic_counts(sizes, count, generator)))


def _batches(
    state: State | Mixture, classes: Mapping[str, Classes], rows: int, generator: np.random.Generator
) -> Iterator[pa.RecordBatch]:
    slopes = {
        name: each.slopes(state.marginal([name])) for name, each in classes.items() if each.attribute.values is None
    }
    for codes in draw_codes(state, rows, generator):
        arrays = [_values(each, codes.pop(name), slopes.get(name), generator) for name, each in classes.items()]
        yield pa.record_batch(arrays, names=[f"c{number}" for number in range(len(arrays))])


def _values(classes: Classes, codes: Codes, slopes: Floats | None, generator: np.random.Generator) -> pa.Array:
    drawn, listed = _pieces(classes, codes, generator), classes.attribute.values
    if listed is None:
        assert slopes is not None
        return classes.pieces.draw(drawn, slopes, generator)
    # NULL, and what is off the list.
    unknown = drawn >= len(listed) if len(listed) < len(classes.pieces) else None
    if classes.attribute.type == "BOOLEAN":
        return pa.array(np.array([*(text == "true" for text in listed), False, False])[drawn], mask=unknown)
    # Each text is sent once and not with every row.
    return pa.DictionaryArray.from_arrays(pa.array(drawn, pa.int32(), mask=unknown), pa.array(listed, pa.string()))


def _pieces(classes: Classes, codes: Codes, generator: np.random.Generator) -> Integers:
    """A piece of its class for every row, in proportion to what was measured of the pieces, or to their sizes."""
    if classes.count == len(classes.codes):
        return classes.representatives[codes]
    out = np.empty(len(codes), dtype=np.int64)
    rows, members = _runs(codes, classes.count), _runs(classes.codes, classes.count)
    for of_class, pieces in zip(rows, members, strict=True):
        sizes = classes.densities[pieces]
        # A class of single points on a continuous range has no length.
        sizes = sizes if sizes.sum() > 0 else np.ones(len(sizes))
        out[of_class] = pieces[uniform_choice(sizes, len(of_class), generator)]
    return out


def _runs(codes: npt.NDArray[np.integer], count: int) -> list[Integers]:
    """Where each code is."""
    return np.split(stable_order(codes, count), np.cumsum(np.bincount(codes, minlength=count))[:-1])
