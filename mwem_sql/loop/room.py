"""How many cells a model takes that has room for some sets of attributes, or for some queries. Public all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.partition import Partition
from mwem_sql.model.partitions import Partitions
from mwem_sql.model.state import State


def model_cells(sets: Sequence[frozenset[str]], sizes: Mapping[str, int], max_cells: int) -> int:
    """The cells of a model of all these sets; or of the first so many that are more than the limit."""
    state = State.uniform({name: np.ones(size) for name, size in sizes.items()}, 1.0)
    for names in sets:
        cells = state.cells_with(sorted(names))
        if cells > max_cells:
            return cells
        state.join(sorted(names))
    return state.cells


def cells_with(queries: Sequence[LinearQuery], sizes: Mapping[str, int], max_cells: int) -> int:
    """The same of a model that tells apart what these queries do."""
    partitions = Partitions({name: Partition.single(np.ones(size)) for name, size in sizes.items()})
    for block in dict.fromkeys(block for query in queries for block in query.blocks):
        for axis, name in enumerate(block.attributes):
            partitions[name] = partitions.refined(name, block, axis)
    groups = {name: partition.count for name, partition in partitions.items()}
    return model_cells(list(dict.fromkeys(frozenset(query.attributes) for query in queries)), groups, max_cells)
