"""The rows of mwem.measurements: each noisy vector, and which class combinations each of its values counts.

A row describes itself by blocks, as a `LinearQuery` has them: the cells of a block are stretches of its attributes' class combinations, in row-major order,
and a value belongs to one cell of every block. Classes are those of the stored grid: what no measurement told apart is one of them. Sees released values only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.algebra.arrays import Labels
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.compile.compiled import CompiledQuery
from mwem_sql.domains.classes import Classes, Ints
from mwem_sql.loop.problem import Outcome, Problem, Step
from mwem_sql.model.grid import Grid

Integers = npt.NDArray[np.int64]

_BLOCK = pa.struct(
    {
        "attributes": pa.list_(pa.string()), "shape": pa.list_(pa.int32()), "size": pa.int32(),
        "begins": pa.large_list(pa.int32()), "cells": pa.large_list(pa.int32()), "adds": pa.large_list(pa.int64()),
    }
)  # fmt: skip
SCHEMA = pa.schema(
    {
        "step": pa.int32(), "purpose": pa.string(), "query": pa.int32(), "name": pa.string(), "noise": pa.string(),
        "scale": pa.float64(), "resolution": pa.float64(), "values": pa.large_list(pa.int64()), "blocks": pa.list_(_BLOCK),
    }
)  # fmt: skip

Asked = Callable[[int], CompiledQuery | None]
"""The workload's query that one of the problem's is, by number there, if it is one."""


def table(problem: Problem, asked: Asked, outcome: Outcome, classes: Mapping[str, Classes]) -> pa.Table:
    """A row per measurement; `classes` are those that are stored."""
    rows, queries = [], problem.kernel_queries
    details = dict(enumerate(problem.details, start=len(queries) - len(problem.details)))
    for number, step in enumerate(outcome.steps, start=1):
        measured = step.measurement
        place = measured.query - 1 if step.purpose not in {"total", "histogram", "detail"} else -1
        query = asked(place)
        if step.purpose == "detail":
            added = details[measured.query]
            values, blocks = _by_pieces(added, problem.details[added].cells_of(classes[added]), step)
        else:
            added = label(problem, lambda _: None, measured.query) if place >= 0 else step.purpose
            values, blocks = _described(queries[measured.query], step, outcome.state.grids)
        rows.append(
            {
                "step": number, "purpose": step.purpose, "query": query.number if query else None,
                "name": query.label if query else added, "noise": "laplace" if measured.kind == "pure" else "gaussian",
                "scale": measured.scale, "resolution": query.linear.unit if query else 1.0, "values": values, "blocks": blocks,
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def label(problem: Problem, asked: Asked, q: int) -> str:
    """What the kernel's query q is called: as the workload calls it, or by its attributes."""
    if q == 0:
        return "total"
    query = asked(q - 1)
    # A histogram of the whole domain comes after the queries.
    measured = problem.queries[q - 1] if q <= len(problem.queries) else problem.kernel_queries[q]
    return ", ".join(measured.attributes) if query is None else query.label


def _described(query: LinearQuery, step: Step, grids: Mapping[str, Grid]) -> tuple[Integers, list[dict[str, Any]]]:
    """The values of a step and the blocks that say what they count. Parts of a partition are in the order of their first class combination."""
    if step.parts is None:
        return step.measurement.values, [_block(block, grids) for block in query.blocks]
    order, labels = _in_order(step.parts)
    return step.measurement.values[order], [
        _block(Block(query.attributes, labels.reshape(query.shape), len(order)), grids)
    ]


def _by_pieces(attribute: str, cells: Ints, step: Step) -> tuple[Integers, list[dict[str, Any]]]:
    """The same of what is inside classes: cells are pieces of the attribute's domain, not classes."""
    assert step.parts is not None
    order, labels = _in_order(step.parts)
    values = step.measurement.values[order]
    return values, [{"attributes": [attribute], "shape": [len(cells)], "size": len(order), **_stretches(labels[cells])}]


def _in_order(parts: Labels) -> tuple[Integers, Labels]:
    """Parts by their first cell, and the place in that order of each cell's part."""
    _, first, which = np.unique(parts, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return order, rank[which.reshape(-1)]


def _stretches(cells: Labels, adds: Integers | None = None) -> dict[str, Any]:
    """Where cells, or what a record adds to them, change, and to which."""
    changed = np.diff(cells) != 0
    if adds is not None:
        changed |= np.diff(adds) != 0
    begins = np.append(0, np.flatnonzero(changed) + 1).astype(np.int32)
    return {"begins": begins, "cells": cells[begins], "adds": None if adds is None else adds[begins]}


def _block(block: Block, grids: Mapping[str, Grid]) -> dict[str, Any]:
    own = [grids[name] for name in block.attributes]
    # A class of each group stands for all of them: nothing that was measured tells them apart.
    stand = np.ix_(*(grid.firsts for grid in own))
    cells = block.labels[stand].ravel()
    adds = None if block.values is None else block.values[stand].ravel()
    if adds is not None:
        cells = np.where(adds != 0, cells, -1)
        adds = np.where(cells >= 0, adds, 0)
    return {
        "attributes": list(block.attributes),
        "shape": [grid.count for grid in own],
        "size": block.size,
        **_stretches(cells, adds),
    }
