"""The k-marginal score of NIST's Collaborative Research Cycle, its pMSE, and the score of models that have no noise.

Columns become codes: numbers are cut at the twentieths of the true rows' ranks, with NULL and 501 alone, densities at
12 logarithmic ends; all else by value. For every pair of columns together with the area, the L1 distance of the two
tables' shares: the score is (2 - mean) x 500, from 0 to 1000.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import numpy as np
from nist_table import AREA, DENSITY

CUT = ("AGEP", "POVPIP", "PINCP", "PWGTP", "WGTP")
ALONE = {"POVPIP": 501}
PARTS = 20
DENSITIES = np.geomspace(16.3, 52864.7, 12)  # the dictionary's range
DEPTH = 6  # of the tree that tells true rows from synthetic ones, as NIST's own
LARGEST = 2**31


@dataclass(frozen=True, eq=False)
class Coded:
    """Codes of a table's rows, and how many there are of each column."""

    sizes: dict[str, int]
    codes: dict[str, np.ndarray]

    @property
    def others(self) -> list[str]:
        return [name for name in self.sizes if name != AREA]

    def shares(self, *names: str) -> np.ndarray:
        """Of the rows, for every combination of some columns."""
        shape = [self.sizes[name] for name in names]
        cells = np.ravel_multi_index([self.codes[name] for name in names], shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) / len(cells)


class Codes:
    """The codes of an excerpt, made from its true rows."""

    def __init__(self, con: duckdb.DuckDBPyConnection, table: str = "private") -> None:
        self._con = con
        true = self._columns(table)
        self._ends = {name: _ends(true[name], ALONE.get(name)) for name in CUT if name in true}
        self._values = {name: sorted(set(own), key=str) for name, own in true.items() if name not in self._ends}
        self.true = self.of(table)

    def _columns(self, table: str) -> dict[str, list[object]]:
        found = self._con.sql(f"FROM {table}").to_arrow_table()
        return {name: found[name].to_pylist() for name in found.column_names}

    def of(self, table: str) -> Coded:
        """Of another table of these columns. A value that no true row has is one more code."""
        sizes, codes = {}, {}
        for name, own in self._columns(table).items():
            if name in self._ends:
                numbers = np.array([np.nan if one is None else one for one in own], dtype=np.float64)
                found = np.searchsorted(self._ends[name], np.nan_to_num(numbers, nan=LARGEST), side="right")
                sizes[name], codes[name] = len(self._ends[name]) + 1, found
            elif name == DENSITY:
                codes[name] = np.searchsorted(DENSITIES, np.array(own, dtype=np.float64))
                sizes[name] = len(DENSITIES) + 1
            else:
                places = {value: place for place, value in enumerate(self._values[name])}
                codes[name] = np.array([places.get(value, len(places)) for value in own])
                sizes[name] = len(places) + 1
        return Coded(sizes, codes)

    def score(self, shares: Callable[[str, str, str], np.ndarray]) -> float:
        """Of shares of an area and two columns, however they were made."""
        pairs = list(itertools.combinations(self.true.others, 2))
        off = [np.abs(shares(AREA, *pair) - self.true.shares(AREA, *pair)).sum() for pair in pairs]
        return float((2 - np.mean(off)) * 500)

    def pmse(self, table: str) -> float:
        """How far a tree's chance that a row is synthetic is from what it is for all, squared: 0 to 0.25."""
        from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415  not among this project's requirements

        both = [self.true.codes, self.of(table).codes]
        rows = np.concatenate([np.stack(list(one.values()), axis=1) for one in both])
        is_synthetic = np.repeat([0, 1], [len(one[AREA]) for one in both])
        tree = DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(rows, is_synthetic)
        return float(((tree.predict_proba(rows)[:, 1] - is_synthetic.mean()) ** 2).mean())


def _ends(values: list[object], alone: int | None) -> np.ndarray:
    """Where codes begin: at the twentieths of the ranks, at what stands alone, and at what is missing."""
    numbers = np.sort(np.array([one for one in values if one is not None and one != alone], dtype=np.float64))
    inner = numbers[np.arange(1, PARTS) * len(numbers) // PARTS]
    return np.unique([*inner, *([] if alone is None else [alone]), LARGEST])


def star(true: Coded) -> Callable[[str, str, str], np.ndarray]:
    """Every column follows the area, and nothing else does: true shares, without noise."""
    alone = {name: true.shares(AREA, name) for name in true.others}
    areas = np.maximum(true.shares(AREA), np.finfo(float).tiny)
    return lambda _, one, other: alone[one][:, :, None] * alone[other][:, None, :] / areas[:, None, None]


def tree(true: Coded) -> Callable[[str, str, str], np.ndarray]:
    """The tree over the columns that tells most, in every area with shares of its own: true shares, without noise."""
    pairs = {pair: true.shares(AREA, *pair) for pair in itertools.combinations(true.others, 2)}
    apart = star(true)
    told = {pair: _divergence(joint, apart(AREA, *pair)) for pair, joint in pairs.items()}
    group = {name: name for name in true.others}
    near: dict[str, dict[str, np.ndarray]] = {name: {} for name in true.others}
    for one, other in sorted(told, key=told.__getitem__, reverse=True):
        if group[one] != group[other]:
            near[one][other], near[other][one] = pairs[one, other], pairs[one, other].transpose(0, 2, 1)
            old, new = group[one], group[other]
            group = {name: new if own == old else own for name, own in group.items()}

    def joints(name: str) -> dict[str, np.ndarray]:
        """Shares of an area, this column and each other, along the tree."""
        shares = true.shares(AREA, name)
        found = {name: shares[:, :, None] * np.eye(shares.shape[1])}
        for middle in (queue := [name]):
            for other in near[middle].keys() - found.keys():
                joint = near[middle][other]
                given = joint / np.maximum(joint.sum(axis=2, keepdims=True), np.finfo(float).tiny)
                found[other] = found[middle] @ given
                queue.append(other)
        return found

    every = {name: joints(name) for name in true.others}
    return lambda _, one, other: every[one][other]


def _divergence(joint: np.ndarray, apart: np.ndarray) -> float:
    some = joint > 0
    return float((joint[some] * np.log(joint[some] / apart[some])).sum())
