"""Neighbours of files and DDL: what a call shows before its debit is the same, and true answers move by no more than the noise is made for.

`pytest -m campaign -n0 -s tests/boundary/test_neighbours.py` asks 20,000 pairs; `tests/neighbours.py` says what they are.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from neighbours import clean, instance, look, neighbours, random_rows, world

from mwem_sql.boundary import files, views
from mwem_sql.compiler import codes
from mwem_sql.database import catalog


@pytest.mark.parametrize(("worlds", "each"), [(60, 2), pytest.param(2800, 8, marks=pytest.mark.campaign)])
def test_neighbours_of_files_and_ddl(worlds: int, each: int, tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    reached = 0.0
    for start in range(0, worlds, 50):  # an instance does not get any faster with age
        with instance() as con:
            for seed in range(start, min(start + 50, worlds)):
                reached = max(reached, _world(con, seed, each, tmp_path, met))
    pairs = met["released"] + met["refused"] + met["failed"]
    print(
        f"\n{worlds} sources, {pairs} pairs of neighbours: {dict(met)}; answers move by at most {reached:.3f} of what the noise is made for"
    )
    assert met["released"] > pairs / 6
    assert met["refused"] > pairs / 6
    assert reached > 0.99  # the bounds are not idle


BROKEN = {
    "row positions": (lambda patch: patch.setitem(files.FUNCTIONS, "read_parquet", files.FUNCTIONS["read_parquet"] | {"file_row_number"})),
    "collations": (lambda patch: patch.setattr(codes, "source", lambda table, attributes, unit: SOURCE(table, attributes, replace(unit, type="BIGINT") if unit else None))),
    "macros": (lambda patch: patch.setattr(catalog, "check_functions", lambda *_: None)),
    "files read twice": (lambda patch: patch.setattr(files, "_paths", lambda con, patterns: tuple(files._matches(con, patterns)))),
    "sniffed types": (lambda patch: patch.setattr(files, "_types", lambda *_: None)),
    "functions of other rows": (lambda patch: patch.setattr(views, "_objection", lambda _: None)),
    "rows by place": (lambda patch: patch.setattr(views._Scope, "resolved", lambda _, column: column.copy())),
}  # fmt: skip
SOURCE = codes.source


@pytest.mark.campaign
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_boundary_is_caught(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its rules, some pair of neighbours is told apart."""
    BROKEN[broken](monkeypatch)
    for start in range(0, 2000, 50):
        with instance() as con:
            for seed in range(start, start + 50):
                try:
                    _world(con, seed, 4, tmp_path, Counter())
                except AssertionError:
                    print(f"\n{broken}: caught at source {seed + 1}")
                    return
    pytest.fail(f"{broken}: not caught")


def _world(con: duckdb.DuckDBPyConnection, seed: int, each: int, folder: Path, met: Counter[str]) -> float:
    chance = random.Random(seed)
    made, rows, reached = world(chance), random_rows(chance), 0.0
    try:
        for setting in made.settings:
            con.execute(setting)
        made.build(con, rows, folder)
    except duckdb.Error:  # not a source that DuckDB knows
        met["not SQL"] += 1
        clean(con, made)
        return reached
    whole = look(con, made)
    for fewer in neighbours(chance, made, rows, each):
        clean(con, made)
        for setting in made.settings:
            con.execute(setting)
        try:
            made.build(con, fewer, folder)
        except duckdb.Error:  # the curator's own CREATE VIEW sniffed something else
            met["not made"] += 1
            continue
        part = look(con, made)
        assert part.public == whole.public, (seed, made)
        if whole.answers is None or part.answers is None:
            met["refused" if isinstance(whole.public, str) else "failed"] += 1
            continue
        met["released"] += 1
        for one, other, bound in zip(whole.answers, part.answers, whole.bounds, strict=True):
            moved = sum(abs(x - y) for x, y in zip(one, other, strict=True))
            allowed = bound * made.rows_per_unit
            assert moved <= allowed, (seed, made, moved, allowed)
            reached = max(reached, moved / allowed)
    clean(con, made)
    return reached
