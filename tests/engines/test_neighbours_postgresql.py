"""Neighbours on a PostgreSQL server: a call shows the same before its debit, and answers move within the sensitivity.

`pytest -m campaign -n0 -s tests/engines/test_neighbours_postgresql.py` asks 20,000 pairs; `neighbours_postgresql.py`
says what they are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from neighbours import largest_move, neighbours
from neighbours_postgresql import Server, random_rows, server, world
from servers import MISSING

pytest.importorskip("adbc_driver_postgresql", reason=MISSING)

import adbc_driver_manager

from mwem_sql.language.ticks import cast
from mwem_sql.scan.dialects.postgresql import PostgreSQLDialect
from mwem_sql.scan.engines import postgresql, postgresql_catalog, postgresql_rules
from mwem_sql.scan.engines.postgresql_catalog import Catalog
from mwem_sql.scan.engines.postgresql_rules import Expressions, Routine


@pytest.mark.parametrize(
    ("worlds", "each"),
    [
        pytest.param(14, 2, marks=pytest.mark.engines),
        pytest.param(40, 2, marks=[pytest.mark.engines, pytest.mark.thorough]),
        pytest.param(2900, 8, marks=pytest.mark.campaign),
    ],
)
def test_neighbours_on_a_server(worlds: int, each: int, postgresql: int) -> None:
    met: Counter[str] = Counter()
    with server(postgresql) as place:
        reached = 0.0
        for seed in range(worlds):
            reached = max(reached, _world(place, seed, each, met))
            if seed % 250 == 249:
                print(f"\n{seed + 1} relations: {dict(met)}; at most {reached:.3f}", flush=True)
    pairs = met["released"] + met["refused"] + met["failed"]
    print(
        f"\n{worlds} relations, {pairs} pairs of neighbours: {dict(met)}; "
        f"answers move by at most {reached:.3f} of what the noise is made for"
    )
    assert met["released"] > pairs / 6
    assert met["refused"] > pairs / 6
    assert met["failed"] == 0  # no row makes a scan fail
    assert reached > 0.99  # the bounds are not idle


def _no_functions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Expressions, "_check_routine", lambda *_: None)


def _any_clause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(postgresql_rules, "_CLAUSES", _Everything())


def _named_citext(patch: pytest.MonkeyPatch) -> None:
    judge = Catalog._type

    def by_name(self: Catalog, kind: Any, modifier: int, *, is_domain: bool) -> str | None:
        return "VARCHAR" if kind["name"] == "citext" else judge(self, kind, modifier, is_domain=is_domain)

    patch.setattr(Catalog, "_type", by_name)


def _other_operators(patch: pytest.MonkeyPatch) -> None:
    operator = Catalog._operator
    equal = Routine("=", "int4eq", shipped=True)
    patch.setattr(Catalog, "_operator", lambda self, number: (operator(self, number)[0], equal))


def _no_policies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(postgresql_catalog, "_check", lambda *_, **__: None)
    patch.delitem(postgresql._SETTINGS, "row_security")


def _row_positions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Expressions, "_check_column", lambda *_: None)
    patch.setattr(postgresql_rules, "_TOTAL", postgresql_rules._TOTAL | {"tideq"})


def _any_set(patch: pytest.MonkeyPatch) -> None:
    _no_functions(patch)
    _any_clause(patch)


def _users_casts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PostgreSQLDialect, "text", lambda _, value, __: cast(value, "VARCHAR"))


class _Everything(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


BROKEN: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], object]]] = {
    "functions of other rows": ("CREATE VIEW", _no_functions),
    "operators behind other words": ("CREATE OPERATOR", _other_operators),
    "functions that fail": ("CREATE VIEW", lambda patch: patch.setattr(Expressions, "_cannot_fail", lambda *_: True)),
    "clauses": ("LIMIT", _any_clause),
    "sets": ("generate_series(1, a % 9)", _any_set),
    "row positions": ("ctid IN", _row_positions),
    "users' casts": ("CREATE CAST (n.letter", _users_casts),
    "types by their name": ("n.citext", _named_citext),
    "foreign tables": ("FOREIGN TABLE", lambda patch: patch.setattr(postgresql_catalog, "_KINDS", {})),
    "policies": ("CREATE POLICY", _no_policies),
    "computed columns": ("n.peek(g)", lambda patch: patch.setattr(Catalog, "_check_generated", lambda *_: None)),
}
"""Ways to take a rule away, and what relations have in their statements that the rule is for."""


@pytest.mark.campaign
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_boundary_is_caught(broken: str, postgresql: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its rules, some pair of neighbours is told apart."""
    needle, take_away = BROKEN[broken]
    take_away(monkeypatch)
    with server(postgresql) as place:
        for seed in range(4000):
            if needle not in ";".join(world(random.Random(seed)).statements):
                continue
            try:
                _world(place, seed, 4, Counter())
            except AssertionError:
                print(f"\n{broken}: caught at relation {seed + 1}")
                return
    pytest.fail(f"{broken}: not caught")


def _world(place: Server, seed: int, each: int, met: Counter[str]) -> float:
    chance = random.Random(seed)
    made, rows, reached = world(chance), random_rows(chance), 0.0
    try:
        place.make(made)
        place.fill(made, rows)
    except adbc_driver_manager.Error:  # not a relation that PostgreSQL knows
        met["not SQL"] += 1
        return reached
    plan = place.plan(made)
    whole = place.look(made, plan)
    for fewer in neighbours(chance, made, rows, each):  # type: ignore[arg-type]
        try:
            place.fill(made, fewer)
        except adbc_driver_manager.Error:  # a materialized view whose expression fails is not made anew
            met["not made"] += 1
            continue
        part = place.look(made, plan)
        assert part.public == whole.public, (seed, made)
        if whole.answers is None or part.answers is None:
            met["refused" if isinstance(plan, str) else "failed"] += 1
            continue
        met["released"] += 1
        reached = max(reached, largest_move(whole, part, made.rows_per_unit, (seed, made)))
    return reached
