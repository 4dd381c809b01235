"""What was measured of a stored release, on the classes of a later question: noisy answers that the question can be looked up in.

Owns the way back from rows of mwem.measurements to queries. A question may cut classes that are stored; what was measured inside classes cuts them otherwise.
Both are told apart here. Sees released values only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Floats, Integers
from mwem_sql.algebra.counts import together
from mwem_sql.algebra.families import Asked, Families, Family
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.nested import Noisy
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.classes import Classes
from mwem_sql.kernel.scales import Kind
from mwem_sql.kernel.tails import cumulants

KINDS: Mapping[str, Kind] = {"laplace": "pure", "gaussian": "zcdp"}


@dataclass(frozen=True, eq=False)
class _Atoms:
    """The finest classes of an attribute: of each, the class that questions ask about, the stored one, and the part in each detail that was measured."""

    asked: Integers
    stored: Integers
    parts: tuple[Integers, ...] = ()


class Known:
    """The measurements of a release, for questions that were compiled against it."""

    def __init__(self, classes: Mapping[str, Classes], measurements: pa.Table, compiled: Compiled) -> None:
        """`classes` are those that are stored."""
        rows = measurements.to_pylist()
        details = {name: list[dict[str, Any]]() for name in classes}
        for row in rows:
            if row["purpose"] == "detail":
                details[row["blocks"][0]["attributes"][0]].append(row)
        self._atoms = {name: _atoms(own, compiled.classes.get(name), details[name]) for name, own in classes.items()}
        self.sizes = {name: len(own.asked) for name, own in self._atoms.items()}
        self._answers: dict[int, Noisy] = {row["step"]: self._answer(row) for row in rows if row["purpose"] != "detail"}
        for name, own in self._atoms.items():
            # What is not asked about is not told apart inside classes.
            for row, part in zip(details[name], own.parts, strict=False):
                block = Block((name,), part.astype(np.int32), row["blocks"][0]["size"])
                self._answers[row["step"]] = _noisy(row, (block,))
        self.families = Families(list(self._answers.values()), self.sizes)
        self._blocks: dict[int, tuple[Block, Block]] = {}

    def question(self, query: LinearQuery) -> LinearQuery:
        """A question on the finest classes, its values in what they stand for."""
        return LinearQuery(tuple(map(self._block, query.blocks)))

    def questions(self, queries: Sequence[LinearQuery]) -> Iterator[tuple[list[int], Asked]]:
        """The same of several: counts that can be asked together, others by themselves; each with its queries' numbers."""
        rest = set(range(len(queries)))
        for numbers, counts in together(queries, {name: own.asked for name, own in self._atoms.items()}):
            rest.difference_update(numbers)
            yield numbers, counts
        for number in sorted(rest):
            yield [number], self.question(queries[number])

    def first_steps(self, asked: Asked, queries: int) -> list[int | None]:
        """Of so many queries asked together, the first measurement that all cells of each are sums of cells of."""
        names = {name for name in asked.attributes if self.sizes[name] > 1}
        found = np.full(queries, -1)
        for step, family in self._by_step.items():
            is_exact = family.is_exact(asked, self.sizes) if names <= family.attributes else None
            if is_exact is not None:
                found[is_exact.reshape(queries, -1).all(axis=1) & (found < 0)] = step
        return [None if step < 0 else step for step in found.tolist()]

    @cached_property
    def _by_step(self) -> dict[int, Family]:
        return {step: Family([answer]) for step, answer in self._answers.items()}

    def _block(self, block: Block) -> Block:
        known = self._blocks.get(id(block))
        if known is None:
            at = np.ix_(*(self._atoms[name].asked for name in block.attributes))
            values = None if block.values is None else block.values[at] * block.unit
            known = self._blocks[id(block)] = (block, Block(block.attributes, block.labels[at], block.size, values))
        return known[1]

    def _answer(self, row: dict[str, Any]) -> Noisy:
        blocks = []
        for block in row["blocks"] or ():
            names, shape = tuple(block["attributes"]), block["shape"]
            at = np.ix_(*(self._atoms[name].stored for name in names))
            lengths = np.diff(np.append(block["begins"], prod(shape)))
            labels = np.repeat(np.array(block["cells"], dtype=np.int32), lengths).reshape(shape)[at]
            values = None
            if block["adds"] is not None:
                values = np.repeat(np.array(block["adds"], dtype=np.float64), lengths).reshape(shape)[at]
            blocks.append(Block(names, labels, block["size"], values))
        valued = next((k for k, block in enumerate(blocks) if block.values is not None), None)
        if valued is not None and row["resolution"] != 1:
            own = blocks[valued]
            assert own.values is not None
            blocks[valued] = Block(own.attributes, own.labels, own.size, own.values * row["resolution"])
        return _noisy(row, tuple(blocks))


def _noisy(row: dict[str, Any], blocks: tuple[Block, ...]) -> Noisy:
    kind, unit = KINDS[row["noise"]], float(row["resolution"] or 1)
    values: Floats = np.array(row["values"], dtype=np.float64) * unit
    own, other = cumulants(row["scale"], kind)
    return Noisy(LinearQuery(blocks), values, own * unit**2, other * unit**4)


def _atoms(own: Classes, asked: Classes | None, details: list[dict[str, Any]]) -> _Atoms:
    if asked is None:
        return _Atoms(np.zeros(own.count, dtype=np.int64), np.arange(own.count))
    if not details:
        stored = own.holding(asked.pieces)[asked.representatives].astype(np.int64)
        return _Atoms(np.arange(asked.count), stored)
    codes, pieces = _on_common_pieces(own, asked)
    parts = []
    for row in details:
        block = row["blocks"][0]
        lengths = np.diff(np.append(block["begins"], block["shape"][0]))
        parts.append(np.repeat(np.array(block["cells"], dtype=np.int64), lengths)[pieces])
    rows = np.stack([codes, *parts], axis=1)
    _, first = np.unique(rows, axis=0, return_index=True)
    first.sort()
    return _Atoms(codes[first], own.codes[pieces][first].astype(np.int64), tuple(part[first] for part in parts))


def _on_common_pieces(own: Classes, asked: Classes) -> tuple[Integers, Integers]:
    """Where either has a piece that begins: the asked class there, and the stored piece."""
    if own.attribute.values is not None:
        return asked.codes.astype(np.int64), np.arange(len(own.pieces))
    lows = np.union1d(own.pieces.lows, asked.pieces.lows)
    codes = asked.codes[np.searchsorted(asked.pieces.lows, lows, side="right") - 1].astype(np.int64)
    pieces = np.searchsorted(own.pieces.lows, lows, side="right") - 1
    if own.attribute.nullable:
        codes, pieces = np.append(codes, asked.codes[-1]), np.append(pieces, own.pieces.known)
    return codes, pieces
