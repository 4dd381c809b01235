"""What was measured for a release, in words and numbers: by purpose, and how well the released state fits each measurement. Sees stored, released values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import log, pi, prod, sqrt
from typing import Any

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State

PURPOSES = {
    "total": "how many rows there are", "histogram": "a histogram to start from", "first": "each attribute by itself", "round": "what rounds measured",
    "again": "what was measured again", "detail": "values inside the workload's classes", "always": "what the workload always wants",
}  # fmt: skip
"""In the reader's words. A purpose that is not here is shown by its own name."""


@dataclass(frozen=True)
class Kind:
    """All measurements of one purpose: how many, their cells, and by how many rows a cell is off by noise: on average, and 95 times in 100 at most."""

    purpose: str
    count: int
    cells: int
    typical: float
    most: float


def kinds(measurements: Sequence[Mapping[str, Any]]) -> list[Kind]:
    """By purpose, in the order in which they were measured first. The noise is the mean over them."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in measurements:
        grouped.setdefault(row["purpose"], []).append(row)
    out = []
    for purpose, rows in grouped.items():
        scales = [typical(row) for row in rows]
        most = [row["scale"] * row["resolution"] * _SPREAD[row["noise"]][1] for row in rows]
        cells = sum(len(row["values"]) for row in rows)
        out.append(Kind(PURPOSES.get(purpose, purpose), len(rows), cells, float(np.mean(scales)), float(np.mean(most))))
    return out


_SPREAD = {"laplace": (1.0, log(20)), "gaussian": (sqrt(2 / pi), 1.96)}
"""Of noise with scale 1: its mean absolute value, and what it exceeds 5 times in 100."""


def typical(row: Mapping[str, Any]) -> float:
    """By how much noise puts a value off on average, in rows or in the measure's own unit."""
    return float(row["scale"] * row["resolution"] * _SPREAD[row["noise"]][0])


def misfit(state: State | Mixture, row: Mapping[str, Any]) -> float:
    """How far the state is from what was measured, over what noise explains: about 1 or less is a fit."""
    query = LinearQuery(tuple(map(_block, row["blocks"] or ())))
    answer = query.answer(state.marginal(query.attributes)) if query.blocks else np.array([state.marginal([]).sum()])
    off = np.asarray(row["values"], dtype=np.float64) - np.asarray(answer, dtype=np.float64).ravel()
    variance = 2 * row["scale"] ** 2 if row["noise"] == "laplace" else row["scale"] ** 2
    return float(np.sqrt(np.mean(off**2) / variance))


def _block(block: Mapping[str, Any]) -> Block:
    """A block as it is stored, by stretches, as one over all class combinations."""
    shape = tuple(block["shape"])
    lengths = np.diff([*block["begins"], prod(shape)])
    labels = np.repeat(np.asarray(block["cells"], dtype=np.int32), lengths).reshape(shape)
    adds = block["adds"]
    values = None if adds is None else np.repeat(np.asarray(adds, dtype=np.int64), lengths).reshape(shape)
    return Block(tuple(block["attributes"]), labels, block["size"], values)


def told(measurements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The measurements that speak of the state's classes: not those of values inside them, and not those of older files, which do not say what they count."""
    return [row for row in measurements if row["purpose"] != "detail" and row["blocks"] is not None]


def pairs(measurements: Sequence[Mapping[str, Any]], most: int) -> list[tuple[str, str]]:
    """Attributes that were measured together, the most often first."""
    counted: dict[tuple[str, str], int] = {}
    for row in told(measurements):
        names = list(dict.fromkeys(chain.from_iterable(block["attributes"] for block in row["blocks"])))
        for first, second in combinations(names, 2):
            counted[first, second] = counted.get((first, second), 0) + 1
    return sorted(counted, key=lambda pair: -counted[pair])[:most]


def fits(state: State | Mixture, measurements: Sequence[Mapping[str, Any]]) -> tuple[list[str], Floats]:
    """The names of what was measured, and how well the state fits each."""
    rows = told(measurements)
    return [str(row["name"]) for row in rows], np.array([misfit(state, row) for row in rows])
