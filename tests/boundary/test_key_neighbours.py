"""Neighbours of tables that keys connect: what a call shows before its debit is the same, and true answers move by no
more than the noise is made for, whichever unit is taken out of all tables.

`pytest -m campaign -n0 -s tests/boundary/test_key_neighbours.py` asks 20,000 pairs; `tests/key_worlds.py` says of what.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import duckdb
import pytest
from key_worlds import KeyWorld, instance, neighbours, random_rows, world
from neighbours import check_caught, compared, look

from mwem_sql.boundary import relations, views
from mwem_sql.boundary.keys import ForeignKey, Keys
from mwem_sql.boundary.relations import Relation
from mwem_sql.platform.catalog import Name


@pytest.mark.parametrize(
    ("worlds", "each"),
    [(24, 2), pytest.param(300, 3, marks=pytest.mark.thorough), pytest.param(5000, 5, marks=pytest.mark.campaign)],
)
def test_neighbours_of_tables_that_keys_connect(worlds: int, each: int) -> None:
    met: Counter[str] = Counter()
    reached = 0.0
    for start in range(0, worlds, 100):
        with instance() as con:
            for seed in range(start, min(start + 100, worlds)):
                reached = max(reached, _world(con, seed, each, met))
    pairs = met["released"] + met["refused"]
    print(f"\n{worlds} schemas, {pairs} pairs: {dict(met)}; answers move by at most {reached:.3f} of what is allowed")
    assert met["released"] > pairs / 4
    assert met["refused"] > pairs / 6
    assert reached > 0.99  # the bounds are not idle


def _first_path(self: Keys, table: Name, unit: Name, *_: object) -> tuple[ForeignKey, ...]:
    return next(iter(self._paths(table, unit)))


def _lower(con: duckdb.DuckDBPyConnection, table: Relation, unit: Name, keys: Keys, function: str) -> Relation:
    """The unit would be a row of the first table, whatever table is named."""
    lower = WITH_UNIT(con, table, table.name, keys, function)
    assert lower.unit is not None
    return replace(lower, unit=replace(lower.unit, table=unit))


EQUATION, WITH_UNIT = views.equation, relations.with_unit
BROKEN: dict[str, tuple[Callable[[KeyWorld], bool], Callable[[pytest.MonkeyPatch], None]]] = {
    "a part of a key": (
        lambda made: made.unit is None and "icd.other" in made.view and "person" not in made.view,
        lambda patch: patch.setattr(Keys, "is_unique", lambda *_, **__: True),
    ),
    "collations": (
        lambda made: (
            bool(made.collation) and not made.is_composite and made.unit is not None and "person ON" in made.view
        ),
        lambda patch: patch.setattr(
            views, "equation", lambda one, other, *, is_text: EQUATION(one, other, is_text=is_text and False)
        ),
    ),
    "two paths": (
        lambda made: made.extra == "two paths" and "doctor" in made.view and made.unit in {"person", "pid"},
        lambda patch: (patch.setattr(Keys, "single_path", _first_path), patch.setattr(Keys, "path", _first_path))[0],
    ),
    "a unit one step too low": (
        lambda made: made.unit in {"person", "household"} and made.base in {"visit", "rx"},
        lambda patch: patch.setattr(relations, "with_unit", _lower),
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rule_is_caught(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of the rules, some pair of neighbours is told apart; looked for in worlds that it is about."""
    is_about, patch = BROKEN[broken]
    patch(monkeypatch)
    seeds = [seed for seed in range(20_000) if is_about(world(random.Random(seed)))]
    with instance() as con:
        check_caught(broken, seeds[:40], lambda seed: _world(con, seed, 3, Counter()))


def _world(con: duckdb.DuckDBPyConnection, seed: int, each: int, met: Counter[str]) -> float:
    chance = random.Random(seed)
    made = world(chance)
    rows, reached = random_rows(chance, made), 0.0
    try:
        made.build(con, rows)
    except duckdb.Error:  # not a view that DuckDB knows
        met["not SQL"] += 1
        return reached
    whole = look(con, made)
    for fewer in neighbours(chance, made, rows, each):
        made.build(con, fewer)
        reached = max(reached, compared(whole, look(con, made), made.rows_per_unit, met, (seed, made)))
    return reached
