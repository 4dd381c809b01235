"""Neighbours of trees of tables: what a call shows before its debit is the same, and true answers of every level move
by no more than the noise of its kernel is made for, whichever unit is taken out of all tables. Some move by all of it.

`pytest -m campaign -n0 -s tests/boundary/test_tree_neighbours.py` asks 20,000 pairs; `tests/tree_worlds.py` says of
what.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import pytest
from chance import sampled
from neighbours import Seen, check_caught, moves
from sqlglot import exp
from tree_worlds import TreeWorld, answered, instance, neighbours, planned, random_rows, world

from mwem_sql.boundary import levels
from mwem_sql.boundary.keys import Keys
from mwem_sql.boundary.levels import Level
from mwem_sql.platform.catalog import Column
from mwem_sql.releases import levels as plans
from mwem_sql.releases.levels import TreePlan
from mwem_sql.scan.dialects.dialect import Unit


@dataclass
class Campaign:
    """How many pairs were met, and how far answers moved at most, by a level's depth and what was asked of it."""

    met: Counter[str] = field(default_factory=Counter)
    reached: dict[tuple[int, str], float] = field(default_factory=dict)

    def ask(self, con: duckdb.DuckDBPyConnection, seed: int, draws: int, each: int) -> tuple[TreeWorld, bool]:
        """Compare a world's neighbours; the world, and whether it was refused.

        The first neighbour is planned anew. What a call shows is the same, and so all others are read by that plan.
        """
        chance = random.Random(seed)
        made = world(chance)
        public, tree = None, None
        for draw in range(draws):
            rows = random_rows(chance, made)
            made.build(con, rows)
            if not draw:
                public, tree = planned(con, made)
            whole = [] if tree is None else answered(con, tree)
            for number, fewer in enumerate(neighbours(chance, made, rows, each)):
                made.build(con, fewer)
                if not draw and not number:
                    assert planned(con, made)[0] == public, (seed, made)
                if tree is None:
                    self.met["refused"] += 1
                    return made, True
                self.met["released"] += 1
                self._compare(made, tree, whole, answered(con, tree))
        return made, False

    def _compare(self, made: TreeWorld, tree: TreePlan, whole: list[Seen], part: list[Seen]) -> None:
        """Each level's answers, against what its kernel takes for the sensitivity."""
        for one, before, after in zip(tree.levels, whole, part, strict=True):
            depth, below = len(made.tables[one.level.name].above) + 1, set(made.below(one.level.name))
            parts = moves(before, after, one.request.rows_per_unit, (one.level.name, made))
            for query, moved in zip(one.plan.problem.kernel_queries, parts[:-1], strict=True):
                key = depth, "numbers" if below.intersection(query.attributes) else "columns"
                self.reached[key] = max(self.reached.get(key, 0.0), moved)


@pytest.mark.parametrize(
    ("worlds", "draws", "each"),
    [
        (9, 1, 3),
        pytest.param(100, 2, 6, marks=pytest.mark.thorough),
        pytest.param(680, 6, 12, marks=pytest.mark.campaign),
    ],
)
def test_neighbours_of_trees(worlds: int, draws: int, each: int) -> None:
    asked = Campaign()
    for start in range(0, worlds, 50):  # an instance does not get any faster with age
        with instance() as con:
            for seed in range(start, min(start + 50, worlds)):
                made, is_refused = asked.ask(con, seed, draws, each)
                assert is_refused or not made.wrong, (seed, made)
        print(f"\n{seed + 1} trees: {dict(asked.met)}", end="", flush=True)
    met, pairs = asked.met, asked.met.total()
    moved = {f"{what} at depth {depth}": round(part, 3) for (depth, what), part in sorted(asked.reached.items())}
    print(f"\n{worlds} trees, {pairs} pairs: {dict(met)}; answers move by at most {moved} of what is allowed")
    assert met["released"] > pairs / 2
    assert met["refused"] > worlds / 10
    # No bound is idle: those of the root and of what is below it, and of how many rows lead to a row.
    full = {key for key, part in asked.reached.items() if part == 1}
    assert full >= {(1, "columns"), (1, "numbers"), (2, "columns"), (2, "numbers"), (3, "columns")}


def _by_collation(column: Column, _: object, alias: int | str | None = None) -> exp.Expr:
    return exp.column(column.name, table=None if alias is None else f"__mwem_{alias}", quoted=True)


def _more_rows(*arguments: object) -> Unit:
    unit = UNIT(*arguments)  # type: ignore[arg-type]
    return replace(unit, rows=unit.rows + 1)


def _parent_as_unit(tree: Sequence[Level], place: int, most: dict[str, int]) -> Unit:
    """The unit would be a row of the parent."""
    parent = tree[tree[place].parent or 0]
    key = parent.keys[0][0]
    return Unit(levels.column_above(parent, key.name), most[tree[place].name], key.type)


UNIT = plans._unit
BROKEN: dict[str, tuple[Callable[[TreeWorld], bool], Callable[[pytest.MonkeyPatch], None]]] = {
    "collations": (
        lambda made: any("NOCASE" in table.kind and made.below(table.name) for table in made.tables.values()),
        lambda patch: patch.setattr(levels, "_value", _by_collation),
    ),
    "more rows than are said": (
        lambda made: not made.wrong,
        lambda patch: patch.setattr(plans, "_unit", _more_rows),
    ),
    "a unit one step too low": (
        lambda made: not made.wrong and any(len(table.above) == 2 for table in made.tables.values()),
        lambda patch: patch.setattr(plans, "_unit", _parent_as_unit),
    ),
    "two paths": (
        lambda made: made.wrong == "two paths",
        lambda patch: patch.setattr(Keys, "path", lambda *_: ()),
    ),
}


@pytest.mark.parametrize("broken", sampled(BROKEN, 2))
def test_a_broken_rule_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of the rules, some pair of neighbours is told apart; looked for in worlds that it is about."""
    is_about, patch = BROKEN[broken]
    patch(monkeypatch)
    seeds = [seed for seed in range(1000) if is_about(world(random.Random(seed)))]
    with instance() as con:
        check_caught(broken, seeds[:40], lambda seed: Campaign().ask(con, seed, 2, 6))
