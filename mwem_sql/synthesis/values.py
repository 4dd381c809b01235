"""From class codes to values: each synthetic row gets a value of its class, as was measured of the class's pieces.

Inside a piece the density rises or falls towards its neighbours'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.algebra.arrays import Flags, Floats, Integers, Places
from mwem_sql.domains.classes import Classes
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.synthesis.deal import draw_codes, stable_order
from mwem_sql.synthesis.given import draw_given
from mwem_sql.synthesis.rounding import systematic_counts

TRIES = 20
"""Times that a row which breaks a rule is drawn again inside its classes, before another row takes its place. Larger:
closer to the model where few values of a class meet a rule, in more time."""

Arrays: TypeAlias = dict[str, pa.Array]


KeyKind: TypeAlias = Literal["PRIMARY KEY", "UNIQUE", "FOREIGN KEY"]


@dataclass(frozen=True)
class TableKey:
    """Columns of numbers that join tables. Those of a FOREIGN KEY refer to columns of another table."""

    kind: KeyKind
    columns: tuple[str, ...]
    refers_to: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Synthetic rows, to be read once: column k of the batches is cast to the k-th of the columns' DuckDB types."""

    types: Mapping[str, str]
    reader: pa.RecordBatchReader
    keys: Sequence[TableKey] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class RowRules:
    """What is asked of rows beside the model: that they meet rules, and columns that are computed of others."""

    columns: Sequence[str]
    """Those that rules are about."""
    meets: Callable[[Arrays], Flags]
    """Of each row, whether it meets all rules."""
    computed: Mapping[str, str]
    """Computed columns and their types."""
    compute: Callable[[Arrays], Arrays]
    order: Sequence[str]
    """Of all columns."""


def draw_rows(
    state: State | Mixture,
    classes: Mapping[str, Classes],
    rows: int,
    generator: np.random.Generator,
    rules: RowRules | None = None,
) -> SyntheticRows:
    """Columns in the order of `classes`, or of the rules; all but the first batch are drawn while they are read."""
    batches = _batches(state, classes, rows, generator, rules)
    first = next(batches)
    types = {name: each.attribute.type for name, each in classes.items()}
    if rules is not None:
        types = {name: {**types, **rules.computed}[name] for name in rules.order}
    return SyntheticRows(types, pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))


def uniform_choice(sizes: Floats, count: int, generator: np.random.Generator) -> Integers:
    """`count` indices in proportion to `sizes`, each to within 1 of its due number; in random order."""
    return generator.permutation(np.repeat(np.arange(len(sizes)), systematic_counts(sizes, count, generator)))


def _batches(
    state: State | Mixture,
    classes: Mapping[str, Classes],
    rows: int,
    generator: np.random.Generator,
    rules: RowRules | None,
) -> Iterator[pa.RecordBatch]:
    columns_of = _filled(state, classes, generator, rules)
    for codes in draw_codes(state, rows, generator):
        columns = columns_of(codes)
        yield pa.record_batch(list(columns.values()), names=[f"c{number}" for number in range(len(columns))])


@dataclass(frozen=True, eq=False)
class Given:
    """Rows some of whose classes are given: one for each row, by attribute."""

    codes: Mapping[str, Places]
    rows: int


def draw_below(
    state: State,
    classes: Mapping[str, Classes],
    given: Given,
    generator: np.random.Generator,
    rules: RowRules | None = None,
) -> pa.Table:
    """Columns of the attributes that are not given, as `draw_rows` has them."""
    others = {name: each for name, each in classes.items() if name not in given.codes}
    return pa.table(_filled(state, others, generator, rules)(draw_given(state, given.codes, given.rows, generator)))


def _filled(
    state: State | Mixture, classes: Mapping[str, Classes], generator: np.random.Generator, rules: RowRules | None
) -> Callable[[dict[str, Any]], Arrays]:
    """What gives values to rows of classes: they meet rules, and what is computed is beside them."""
    slopes = {
        name: each.slopes(state.marginal([name])) for name, each in classes.items() if each.attribute.values is None
    }

    def values(name: str, codes: Places) -> pa.Array:
        return _values(classes[name], codes, slopes.get(name), generator)

    def columns_of(codes: dict[str, Any]) -> Arrays:
        kept = {} if rules is None else {name: codes[name] for name in rules.columns}
        columns = {name: values(name, codes.pop(name)) for name in classes}
        if rules is not None:
            columns = _within(rules, columns, kept, values, generator)
            columns |= rules.compute(columns)
            columns = {name: columns[name] for name in rules.order if name in columns}
        return columns

    return columns_of


def _within(
    rules: RowRules,
    columns: Arrays,
    codes: Mapping[str, Places],
    values: Callable[[str, Places], pa.Array],
    generator: np.random.Generator,
) -> Arrays:
    """Rows that meet rules: those that do not are drawn again inside their classes.

    After that another row, drawn at random, takes the place of one that still does not: what is kept is distributed as
    the model is, given the rules.
    """
    if not rules.columns:
        return columns
    wrong = np.flatnonzero(~rules.meets(columns))
    for _ in range(TRIES):
        if not wrong.size:
            return columns
        fresh = {name: values(name, codes[name][wrong]) for name in rules.columns}
        places = np.arange(len(next(iter(columns.values()))))
        places[wrong] = len(places) + np.arange(len(wrong))
        columns |= {name: pa.concat_arrays([columns[name], fresh[name]]).take(pa.array(places)) for name in fresh}
        wrong = wrong[~rules.meets(fresh)]
    right = np.setdiff1d(np.arange(len(next(iter(columns.values())))), wrong)
    if wrong.size and right.size:
        places = np.arange(len(right) + len(wrong))
        places[wrong] = generator.choice(right, len(wrong))
        columns = {name: array.take(pa.array(places)) for name, array in columns.items()}
    return columns


def _values(classes: Classes, codes: Places, slopes: Floats | None, generator: np.random.Generator) -> pa.Array:
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


def _pieces(classes: Classes, codes: Places, generator: np.random.Generator) -> Integers:
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
