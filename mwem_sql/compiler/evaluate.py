"""Values of the workload's expressions on the public grid: which pieces there are, and what DuckDB makes of each leaf there.

Reads no private row. Comparisons with constants need the pieces between the constants only; anything else is evaluated value by
value, within stated bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from mwem_sql.compiler import dialect
from mwem_sql.compiler.classes import MAX_VALUES, Classes, Pieces, cut_pieces, value_pieces
from mwem_sql.compiler.measures import LARGEST
from mwem_sql.compiler.predicate import Leaf
from mwem_sql.compiler.sandbox import Sandbox
from mwem_sql.domain import Domain
from mwem_sql.errors import CellsError, MwemError, PredicateError, WorkloadError, refuse
from mwem_sql.ticks import Scale, Tick, is_finite, try_cast

MAX_JOINT = 1_000_000  # value combinations on which one expression over several columns is evaluated
TRUE = 2  # three-valued logic in one byte: false 0, NULL 1, true 2, so that AND is min, OR is max, NOT is 2 - x

_OPERATORS = {"=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}

Terms = Mapping[tuple[str, str], Leaf]  # (role, SQL) to leaf; a role is truth, group or factor


@dataclass(eq=False)
class Values:
    """A leaf's values on the grid of its columns: truth bytes, group numbers, or numbers with NaN for NULL."""

    columns: tuple[str, ...]
    array: npt.NDArray[Any]
    labels: list[str | None] = field(default_factory=list)


def cut(
    domain: Domain, used: Sequence[str], terms: Terms, sandbox: Sandbox,
    finer_than: Mapping[str, Classes] | None,
) -> dict[str, Pieces]:  # fmt: skip
    """Each used column's pieces: its values where they can or must be listed, else what lies between constants."""
    constants: dict[str, list[str]] = {name: [] for name in used}
    must_list: set[str] = set()
    for leaf in terms.values():
        if leaf.compared is None:
            must_list.update(leaf.columns)
        else:
            constants[leaf.columns[0]].extend(leaf.compared)
    out = {}
    for name in used:
        attribute = domain[name]
        listable = attribute.cells is not None and (attribute.cells <= MAX_VALUES or name in must_list)
        if attribute.values is not None or attribute.step is not None or (listable and attribute.bins is None):
            out[name] = value_pieces(attribute)
            continue
        cuts = _ticks(attribute.ordered, constants[name], sandbox)
        if finer_than is not None and name in finer_than:
            cuts += finer_than[name].pieces.lows.tolist()
        out[name] = value_pieces(attribute, cuts) if name in must_list else cut_pieces(attribute, cuts)
    return out


def _ticks(scale: Scale, constants: Sequence[str], sandbox: Sandbox) -> list[Tick]:
    """Where constants lie among the type's values. One that lies nowhere, or cannot be evaluated, cuts nothing."""
    trees: list[exp.Expr] = [dialect.expression(text) for text in dict.fromkeys(constants)]
    found = sandbox.tried([scale.measure(try_cast(tree, scale.type)) for tree in trees])
    return [tick for tick in found if is_finite(tick)]


def evaluate(
    terms: Terms, pieces: Mapping[str, Pieces], sandbox: Sandbox
) -> dict[tuple[str, str], Values]:
    by_columns: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for key, leaf in terms.items():
        by_columns.setdefault(leaf.columns, []).append(key)
    out = {}
    for columns, keys in by_columns.items():
        shape = tuple(len(pieces[name]) for name in columns)
        if len(columns) > 1 and prod(shape) > MAX_JOINT:
            raise refuse(
                CellsError, "workload",
                f"{terms[keys[0]].sql!r} joins {', '.join(columns)} value by value, {prod(shape):,} combinations, more than {MAX_JOINT:,}",
                "declare step or bins in a domain table, or compare each column with constants",
            )
        asked = []
        for key in keys:
            known = _without_asking(key[0], terms[key], pieces[columns[0]], sandbox) if len(columns) == 1 else None
            if known is None:
                asked.append(key)
            else:
                out[key] = known
        if asked:
            _load_grid(sandbox, columns, shape, pieces)
            arrays = run(sandbox, "grid", [(sql, _typed(role, sql)) for role, sql in asked])
            for key, array in zip(asked, arrays, strict=True):
                out[key] = _read(key[0], columns, shape, array, key[1])
    return out


def _without_asking(role: str, leaf: Leaf, own: Pieces, sandbox: Sandbox) -> Values | None:
    """The values of a leaf whose meaning leaves no doubt: a column by itself, integers compared, listed texts."""
    attribute = own.attribute
    if role == "group" and leaf.is_column:
        first = np.unique(own.bins, return_index=True)[1]
        return Values(leaf.columns, own.bins, [own.label(int(piece)) for piece in first])
    if role != "truth" or leaf.test is None:
        return None
    operator, constants = leaf.test
    if attribute.values is None:
        plain = all(text.removeprefix("-").isdecimal() and len(text) <= 18 for text in constants)
        if attribute.ordered.family != "integer" or not plain:
            return None
        truth = _compare(own.points, operator, list(map(int, constants)))
    else:
        texts = [text[1:-1].replace("''", "'") for text in constants if text[0] == "'"]
        plain = attribute.type == "VARCHAR" or attribute.type.startswith("ENUM(")
        known = len(texts) == len(constants) and all(text in attribute.values for text in texts)
        if operator not in {"=", "<>", "in"} or not plain or sandbox.collates or not known:
            return None
        truth = _compare(np.arange(own.known), operator, list(map(attribute.values.index, texts)))
    values = np.where(truth, TRUE, 0).astype(np.int8)
    return Values(leaf.columns, np.append(values, np.int8(1)) if attribute.nullable else values)


def _compare(points: npt.NDArray[Any], operator: str, constants: Sequence[int]) -> npt.NDArray[np.bool_]:
    if operator == "in":
        return np.isin(points, constants)
    if operator == "between":
        return (points >= constants[0]) & (points <= constants[1])
    return np.asarray(_OPERATORS[operator](points, constants[0]))


def _load_grid(sandbox: Sandbox, columns: Sequence[str], shape: tuple[int, ...], pieces: Mapping[str, Pieces]) -> None:
    """All combinations of the columns' pieces as the table `grid`, the last column running fastest."""
    loaded: dict[str, tuple[str, pa.Array]] = {"__one": ("INTEGER", pa.array([0] * prod(shape)))}
    for name, index in zip(columns, np.indices(shape), strict=True):
        attribute = pieces[name].attribute
        loaded[name] = (attribute.type, pieces[name].values().take(pa.array(index.ravel())))
    sandbox.load("grid", loaded)


def run(sandbox: Sandbox, table: str, texts: Sequence[tuple[str, str]]) -> list[pa.ChunkedArray]:
    """Expressions over the rows of a table; each comes after the text that a refusal of it shows."""
    try:
        return sandbox.evaluate(table, [expression for _, expression in texts])
    except duckdb.Error as error:
        if len(texts) == 1:
            raise evaluation_error(texts[0][0], error) from None
        # One by one: that finds the one to blame, or none (DuckDB reads an odd space otherwise if a text before it has a quote in a comment).
        return [array for one in texts for array in run(sandbox, table, [one])]


def _typed(role: str, text: str) -> str:
    kind = {"truth": "BOOLEAN", "group": "VARCHAR", "factor": "DOUBLE"}[role]
    return f"CAST(({text}) AS {kind})"


def evaluation_error(text: str, error: duckdb.Error) -> MwemError:
    syntax = isinstance(error, duckdb.ParserException)
    return refuse(
        PredicateError, "workload",
        f"expression ({text!r}) cannot be evaluated on the public domain: {str(error).splitlines()[0].rstrip('.')}",
        "write what would follow WHERE" if syntax else "it must be a scalar for every declared value; TRY_CAST and CASE help",
    )


def _read(role: str, columns: tuple[str, ...], shape: tuple[int, ...], array: pa.ChunkedArray, text: str) -> Values:
    if role == "truth":
        truth = pc.if_else(array, TRUE, 0).fill_null(1).cast(pa.int8())
        return Values(columns, truth.to_numpy().reshape(shape))
    if role == "group":
        coded = array.combine_chunks().dictionary_encode(null_encoding="encode")
        return Values(columns, coded.indices.to_numpy(zero_copy_only=False).astype(np.int32).reshape(shape), coded.dictionary.to_pylist())
    numbers = array.fill_null(0.0).to_numpy() + 0.0  # no -0.0
    if not (np.abs(numbers) <= LARGEST).all():
        raise refuse(
            WorkloadError, "workload", f"measure ({text!r}) is not a number, or beyond {LARGEST:g}, for some value of the domain",
            "it must be bounded on the whole declared domain: CASE, least and greatest help",
        )
    return Values(columns, np.where(array.is_valid().to_numpy(), numbers, np.nan).reshape(shape))
