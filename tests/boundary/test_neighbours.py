"""Neighbours of files and DDL: what a call shows before its debit is the same, and true answers move by no more than
the noise is made for.

`pytest -m campaign -n0 -s tests/boundary/test_neighbours.py` asks 20,000 pairs in the instance and 20,000 of a file
that is attached; `tests/neighbours.py` says what they are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from neighbours import Here, There, compared, instance, neighbours, random_rows, world
from sqlglot import exp

from mwem_sql.boundary import files, relations, views
from mwem_sql.platform import catalog
from mwem_sql.scan.dialects.duckdb import DuckDBDialect


@pytest.mark.parametrize(
    ("where", "worlds", "each"),
    [
        ("here", 12, 2),
        ("there", 6, 2),
        pytest.param("here", 40, 2, marks=pytest.mark.thorough),
        pytest.param("there", 12, 2, marks=pytest.mark.thorough),  # each is a file that is written, closed and attached
        pytest.param("here", 2800, 8, marks=pytest.mark.campaign),
        pytest.param("there", 2800, 8, marks=pytest.mark.campaign),
    ],
)
def test_neighbours_of_files_and_ddl(where: str, worlds: int, each: int, tmp_path: Path) -> None:
    met: Counter[str] = Counter()
    reached = 0.0
    for start in range(0, worlds, 50):  # an instance does not get any faster with age
        with _place(where, tmp_path) as place:
            for seed in range(start, min(start + 50, worlds)):
                reached = max(reached, _world(place, seed, each, tmp_path / "files", met))
    pairs = met["released"] + met["refused"]
    print(
        f"\n{where}: {worlds} sources, {pairs} pairs of neighbours: {dict(met)}; answers move by at most "
        f"{reached:.3f} of what the noise is made for"
    )
    assert met["released"] > pairs / 6
    assert met["refused"] > pairs / 6
    assert reached > 0.99  # the bounds are not idle


@contextmanager
def _place(where: str, folder: Path) -> Iterator[Here | There]:
    (folder / "files").mkdir(exist_ok=True)
    with instance() as con:
        yield Here(con) if where == "here" else There(con, folder)


def _only_tried(tree: exp.Expr) -> exp.Expr:
    return tree if isinstance(tree, exp.Column) else views.tried(tree)


def _in_branches(tree: exp.Expr) -> exp.Expr:
    """Without the TRY of columns: their statistics reach functions."""
    column = next((node for node in tree.walk(prune=views._is_leaf) if views._is_leaf(node)), None)
    if isinstance(tree, exp.Column) or column is None:
        return _only_tried(tree)
    test = exp.Is(this=views.tried(column.copy()), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=test, true=views.tried(tree))], default=views.tried(tree.copy()))


BROKEN: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "row positions": ("file_row_number",
    lambda patch: patch.setitem(files.READERS, "read_parquet", files.READERS["read_parquet"] | {"file_row_number"})),
    "collations": ("unit='id'",
    lambda patch: patch.setattr(DuckDBDialect, "source", lambda self, table, columns,
    unit: SOURCE(self, table, columns, replace(unit, type="BIGINT") if unit else None))),
    "macros": ("MACRO", lambda patch: patch.setattr(catalog, "check_functions", lambda *_: None)),
    "files read twice": ("read_parquet([",
    lambda patch: patch.setattr(files, "_paths", lambda con, patterns: tuple(files._matches(con, patterns)))),
    "files of other types": ("mixed=True",
    lambda patch: patch.setattr(files, "_check_same_types", lambda *_, **__: None)),
    "statistics without NaN": ("parquet", lambda patch: patch.setitem(files.ARGUMENTS, "can_have_nan", exp.false())),
    "expressions that fail": ("::INTEGER", lambda patch: patch.setattr(views, "_total", lambda tree: tree)),
    "common parts": ("b::INTEGER", lambda patch: patch.setattr(views, "_total", _only_tried)),
    "statistics in functions": ("s.t", lambda patch: patch.setattr(views, "_total", _in_branches)),
    "errors that TRY lets through": ("ESCAPE 'x'", lambda patch: patch.setattr(views, "_condition", lambda _: None)),
    "calls of other types": ("week(", lambda patch: patch.setattr(relations, "_check_call", lambda *_: None)),
    "functions of other rows": ("OVER", lambda patch: patch.setattr(views, "_objection", lambda _: None)),
    "rows by place": ("rowid", lambda patch: patch.setattr(views._Scope, "resolved", lambda _, column: column.copy())),
}  # fmt: skip
SOURCE = DuckDBDialect.source


@pytest.mark.campaign
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_boundary_is_caught(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its rules, some pair of neighbours is told apart; looked for in worlds that have what the rule is
    about."""
    feature, patch = BROKEN[broken]
    patch(monkeypatch)
    seeds = [seed for seed in range(10_000) if feature in repr(world(random.Random(seed)))]
    for start in range(0, min(len(seeds), 500), 50):
        with _place("here", tmp_path) as place:
            for seed in seeds[start : start + 50]:
                try:
                    _world(place, seed, 4, tmp_path / "files", Counter())
                except AssertionError:
                    print(f"\n{broken}: caught at source {seeds.index(seed) + 1}")
                    return
    pytest.fail(f"{broken}: not caught")


def _world(place: Here | There, seed: int, each: int, folder: Path, met: Counter[str]) -> float:
    chance = random.Random(seed)
    made, rows, reached = world(chance), random_rows(chance), 0.0
    try:
        whole = place.see(made, rows, folder)
    except duckdb.Error:  # not a source that DuckDB knows
        met["not SQL"] += 1
        return reached
    for fewer in neighbours(chance, made, rows, each):
        try:
            part = place.see(made, fewer, folder)
        except duckdb.Error:  # the curator's own CREATE VIEW sniffed something else
            met["not made"] += 1
            continue
        reached = max(reached, compared(whole, part, made.rows_per_unit, met, (seed, made)))
    return reached
