"""A state that agrees with public counts: proportional fitting to partitions whose cells are known exactly.

Of all distributions that agree with the counts, proportional fitting finds the one nearest to the state in relative
entropy (Csiszar). The private rows are one of them, so that no step takes the state further from these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mwem_sql.algebra.totals import CountedPartition
from mwem_sql.model.state import State

PROJECTIONS = 100
"""Through all partitions, at most."""
CHECKED = 400
"""The same, where it is to be seen whether any distribution agrees with all counts. More: fewer that are at the edge
are taken for contradictions."""
MET = 1e-12
"""Of the total: a cell that is off by less is as it should be."""
LEAST_FALL = 0.999
"""A sweep that leaves more than this of the largest difference was of no use."""


STAYING = 0.8
"""Of a difference: what is left of one that stays after another half of these sweeps."""
MISTAKE = 0.5
"""Rows: a difference that stays, and is not of rounding."""


def project(state: State, partitions: Sequence[CountedPartition], sweeps: int = PROJECTIONS) -> float:
    """Give the cells of all partitions their rows, as a table of the state's total has them.

    The largest difference that is left, in rows.
    """
    wanted = [(partition.query, partition.values(state.total)) for partition in partitions]
    most, state.partitions.most = state.partitions.most, None  # what is public is no share of a group
    for query, _ in wanted:
        state.refine(query)
    state.partitions.most = most
    before = np.inf
    for sweep in range(sweeps + 1):
        answers = state.group_answers([state.partitions.exact(query) for query, _ in wanted])
        gaps = [float(np.abs(answer - rows).max()) for answer, (_, rows) in zip(answers, wanted, strict=True)]
        worst = max(gaps, default=0.0)
        if worst <= MET * state.total or sweep == sweeps or (sweep > 1 and worst > LEAST_FALL * before):
            break
        before = worst
        for query, rows in wanted:
            state.match(query, rows)
    return worst


def can_agree(state: State, partitions: Sequence[CountedPartition]) -> bool:
    """Whether some distribution agrees with all counts; the state is projected.

    Where counts can be met at the edge only, a difference goes to 0 slowly; where they cannot, it stays.
    """
    before, after = (project(state, partitions, sweeps=CHECKED // 2) for _ in range(2))
    return after <= MISTAKE or after < STAYING * before
