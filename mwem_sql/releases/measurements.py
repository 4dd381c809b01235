"""The rows of mwem.measurements: how measurements are written, and read back.

The one Arrow schema, its encoder and its decoder. A row describes itself by blocks, as a `LinearQuery` has them: the
cells of a block are stretches of its attributes' class combinations, in row-major order, and a value belongs to one
cell of every block. Classes are the stored ones; those that no measurement distinguishes are one. A detail is about one
attribute's pieces instead, which are finer. Sees released values only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Labels, Places
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import KINDS, NOISE, Measurement
from mwem_sql.compile.compiled import CompiledQuery
from mwem_sql.domains.classes import Classes
from mwem_sql.kernel.scales import variance
from mwem_sql.loop.problem import Outcome, Problem

_BLOCK = pa.struct(
    {
        "attributes": pa.list_(pa.string()), "shape": pa.list_(pa.int32()), "size": pa.int32(),
        "begins": pa.large_list(pa.int32()), "cells": pa.large_list(pa.int32()), "adds": pa.large_list(pa.int64()),
    }
)  # fmt: skip
SCHEMA = pa.schema(
    {
        "step": pa.int32(), "purpose": pa.string(), "query": pa.int32(), "name": pa.string(), "noise": pa.string(),
        "scale": pa.float64(), "resolution": pa.float64(), "values": pa.large_list(pa.int64()),
        "blocks": pa.list_(_BLOCK),
    }
)  # fmt: skip

Asked = Callable[[int], CompiledQuery | None]
"""The workload's query that one of the problem's is, by number there, if it is one."""


def table(problem: Problem, asked: Asked, outcome: Outcome, classes: Mapping[str, Classes]) -> pa.Table:
    """A row per measurement; `classes` are those that are stored."""
    # A class of each group stands for all of them.
    firsts = {name: grid.firsts for name, grid in outcome.state.grids.items()}
    details = {detail.name: name for name, detail in problem.details.items()}
    rows = []
    for step, measurement in enumerate(outcome.measurements, start=1):
        query = None
        if measurement.purpose == "detail":
            name = details[measurement.query.attributes[0]]
            stored = _on_pieces(measurement, name, problem.details[name].cells_of(classes[name]))
        else:
            name, stored = measurement.purpose, measurement.on(firsts)
            if measurement.number is not None and name not in {"total", "histogram"}:
                name, query = label(problem, asked, measurement.number), asked(measurement.number - 1)
        rows.append({"step": step, "query": query.number if query else None, **encode(replace(stored, name=name))})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def label(problem: Problem, asked: Asked, q: int) -> str:
    """What the kernel's query q is called: as the workload calls it, or by its attributes."""
    if q == 0:
        return "total"
    query = asked(q - 1)
    # A histogram of the whole domain comes after the queries.
    measured = problem.queries[q - 1] if q <= len(problem.queries) else problem.kernel_queries[q]
    return ", ".join(measured.attributes) if query is None else query.label


def _on_pieces(measurement: Measurement, attribute: str, cells: Places) -> Measurement:
    """A detail on the pieces of its attribute's domain: the cell of each."""
    (block,) = measurement.query.blocks
    return replace(measurement, query=LinearQuery((Block((attribute,), block.labels[cells], block.size),)))


def encode(measurement: Measurement) -> dict[str, Any]:
    """A measurement as a row, but for the number of its step and of the workload's query."""
    return {
        "purpose": measurement.purpose,
        "name": measurement.name,
        "noise": NOISE[measurement.kind],
        "scale": measurement.scale,
        "resolution": measurement.query.unit,
        "values": measurement.values,
        "blocks": list(map(_encoded, measurement.query.blocks)),
    }


def decode(rows: Iterable[Mapping[str, Any]]) -> list[Measurement]:
    """The measurements of a release, from its rows in the order of their steps."""
    return [
        Measurement(
            values=np.array(row["values"], dtype=np.int64),
            kind=KINDS[row["noise"]],
            scale=row["scale"],
            variance=variance(row["scale"], KINDS[row["noise"]]),
            query=LinearQuery(tuple(_decoded(block, row["resolution"]) for block in row["blocks"])),
            purpose=row["purpose"],
            name=row["name"],
        )
        for row in rows
    ]


def _encoded(block: Block) -> dict[str, Any]:
    """A block by stretches: where cells, or what a record adds to them, change, and to which."""
    cells, adds = block.labels.ravel(), None if block.values is None else block.values.ravel()
    if adds is not None:
        cells = np.where(adds != 0, cells, -1)
        adds = np.where(cells >= 0, adds, 0)
    is_changed = np.diff(cells) != 0
    if adds is not None:
        is_changed |= np.diff(adds) != 0
    begins = np.append(0, np.flatnonzero(is_changed) + 1).astype(np.int32)
    return {
        "attributes": list(block.attributes),
        "shape": list(block.shape),
        "size": block.size,
        "begins": begins,
        "cells": cells[begins],
        "adds": None if adds is None else adds[begins],
    }


def _decoded(block: Mapping[str, Any], unit: float) -> Block:
    """`unit` is what an answer of 1 stands for: that of the block whose records add something."""
    shape = tuple(block["shape"])
    lengths = np.diff(np.append(block["begins"], prod(shape)))
    labels: Labels = np.repeat(np.array(block["cells"], dtype=np.int32), lengths).reshape(shape)
    if block["adds"] is None:
        return Block(tuple(block["attributes"]), labels, block["size"])
    adds = np.repeat(np.array(block["adds"], dtype=np.int64), lengths).reshape(shape)
    return Block(tuple(block["attributes"]), labels, block["size"], adds, unit)
