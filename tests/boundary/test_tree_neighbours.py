"""Neighbours of trees of tables: what a call shows before its debit is the same, and true answers of every level move
by no more than the noise of its kernel is made for, whichever unit is taken out of all tables. Some move by all of it.

`pytest -m campaign -n0 -s tests/boundary/test_tree_neighbours.py` asks 20,000 pairs; `tests/tree_worlds.py` says of
what.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import duckdb
import pytest
from neighbours import compared, moves
from tree_worlds import TreeWorld, answered, instance, neighbours, planned, random_rows, world

from mwem_sql.boundary import levels
from mwem_sql.boundary.keys import ForeignKey, Keys
from mwem_sql.platform.catalog import Name

Moves = dict[tuple[int, str], float]
"""How far answers moved at most as a part of what noise covers, by a level's depth and what was asked."""


@pytest.mark.parametrize(
    ("worlds", "each"),
    [(24, 2), pytest.param(300, 3, marks=pytest.mark.thorough), pytest.param(2500, 8, marks=pytest.mark.campaign)],
)
def test_neighbours_of_trees(worlds: int, each: int) -> None:
    met: Counter[str] = Counter()
    reached: Moves = {}
    for start in range(0, worlds, 100):
        with instance() as con:
            for seed in range(start, min(start + 100, worlds)):
                _world(con, seed, each, met, reached)
    pairs = met["released"] + met["refused"]
    moved = {f"{what} at depth {depth}": round(part, 3) for (depth, what), part in sorted(reached.items())}
    print(f"\n{worlds} trees, {pairs} pairs: {dict(met)}; answers move by at most {moved} of what is allowed")
    assert met["released"] > pairs / 2
    assert met["refused"] > pairs / 10
    # No bound is idle: the root's, those below it, and how many rows lead to a row.
    assert {key for key, part in reached.items() if part == 1} >= {
        (1, "columns"), (1, "numbers"), (2, "columns"), (2, "numbers"), (3, "columns"),
    }  # fmt: skip


def _world(con: duckdb.DuckDBPyConnection, seed: int, each: int, met: Counter[str], reached: Moves) -> None:
    """The first neighbour is planned anew; what a call shows does not change, so others are read by the same plan."""
    chance = random.Random(seed)
    made = world(chance)
    rows = random_rows(chance, made)
    made.build(con, rows)
    public, tree = planned(con, made)
    assert (tree is None) >= bool(made.wrong), (seed, made)
    whole = [] if tree is None else answered(con, tree)
    for number, fewer in enumerate(neighbours(chance, made, rows, each)):
        made.build(con, fewer)
        if not number:
            assert planned(con, made)[0] == public, (seed, made)
        if tree is None:
            met["refused"] += 1
            continue
        met["released"] += 1
        for one, before, after in zip(tree.levels, whole, answered(con, tree), strict=True):
            queries, depth = one.plan.problem.kernel_queries, len(made.tables[one.level.name].above) + 1
            below = set(made.below(one.level.name))
            parts = moves(before, after, one.request.rows_per_unit, (seed, one.level.name, made))
            for query, part in zip(queries, parts[:-1], strict=True):
                what = "numbers" if below.intersection(query.attributes) else "columns"
                reached[depth, what] = max(reached.get((depth, what), 0.0), part)
