"""Whether a start is kept: the one decision about it that costs budget.

What is measured of single attributes shows how far a start is off there, at no further cost (loop/refinement.py). How
attributes go together it does not show. So two states are compared that know the same of single attributes: one in
which attributes go together as in the start, and one without it. The kernel tells of each, with noise, how far off it
is where the two differ most. Sees released values only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from mwem_sql.loop.problem import Problem
from mwem_sql.loop.transcript import Transcript
from mwem_sql.model.state import State

COMPARED: Final = 0.1
"""Of the workload's queries: those on which two states are compared, which differ most there. Fewer: the difference is
larger beside its noise, and is about less. `python benchmarks/past.py`."""

MOST_NOISE: Final = 0.5
"""Of all rows: the noise on an error (a standard deviation) from which on it would decide alone, so that nothing is
compared and a start tells of single attributes only. Larger: wrong starts are kept at epsilons that tell nothing."""


def settle(problem: Problem, m: Transcript, state: State, refined: Sequence[int], share: Fraction) -> State:
    """The state that a run goes on with: A_0 with a start or without it, given what was refined."""
    assert problem.start is not None
    if refined:
        base = problem.start.base(problem.sizes)
        base |= {
            name: problem.sizes[name]
            for q in refined
            if not m.refined[q].follows_start
            for name in m.queries[q].attributes
        }
        without = State.unsplit(base, m.total(), problem.support)
        m.give(without, refined)
        state = without.copy()
        problem.start.join(state)
    else:
        without = problem.even(m.total())
    m.shrinks = _is_better(problem, m, (state, without), share)
    return state if m.shrinks else without


def _is_better(problem: Problem, m: Transcript, states: tuple[State, State], share: Fraction) -> bool:
    """Whether the first state is nearer to the private rows than the second, as far as noise lets anybody tell.

    Privacy:
        Which queries are compared follows from the two states, which follow from what was released.
    """
    if math.sqrt(m.noise(share / 2)) > MOST_NOISE * m.total():
        return False
    numbers = np.array(list(problem.certified), dtype=np.int64)
    queries = list(problem.certified.values())
    answers = [state.answers([query.shares for query in queries]) for state in states]
    apart = [float(np.abs(one - other).sum()) for one, other in zip(*answers, strict=True)]
    most = np.argsort(apart, kind="stable")[::-1][: max(1, round(COMPARED * len(queries)))].tolist()
    cells = [queries[k].cells for k in most]
    errors = [
        m.kernel.certify(numbers[most], cells, np.concatenate([answer[k] * queries[k].bound for k in most]), share / 2)
        for answer in answers
    ]
    return bool(errors[0].values[0] < errors[1].values[0])
