"""The plans as text and as DuckDB runs them; codes for any value; bounded units; which plan is chosen.

A file of tests/golden has sections: `-- ddl`, `-- workload` (a query for its rows), `-- unit` (a column and a number,
if any), `-- force` (a plan that would not be chosen for so few queries), a `-- plan` for each part, in words, with a
`-- scan` for each of its statements, and `-- answers`, counted by hand: a line per query, its cells in order.
"""

from __future__ import annotations

import json
import math
import re
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pytest
from conftest import steps
from plans import PLANS, force
from pushdowns import TABLE, answers, grid, planned, whole

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.boundary import relations
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, value_pieces
from mwem_sql.domains.domain import read_domain
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.parts import Aggregates, GroupBy, Product, Units
from mwem_sql.scan.pushdown import MAX_PART_CELLS, Pushdown, plan_pushdown
from mwem_sql.workload import Workload

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.sql"))


HERE = Place("memory", "main")


def sections(file: Path) -> dict[str, list[str]]:
    parts = re.split(r"^-- (ddl|workload|unit|force|plan|scan|answers)\n", file.read_text(), flags=re.MULTILINE)[1:]
    out: dict[str, list[str]] = {}
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        out.setdefault(kind, []).append(body.strip())
    return out


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_golden(plain: duckdb.DuckDBPyConnection, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = sections(file)
    if "force" in given:
        force(monkeypatch, given["force"][0])
    found = planned_from(plain, given)
    assert [part.words for part in found.parts] == given["plan"]
    assert [statement.sql("duckdb", pretty=True) for part in found.parts for statement in part.statements] == given[
        "scan"
    ]
    assert answers(plain, found) == [json.loads(line) for line in given["answers"][0].splitlines()]


def planned_from(con: duckdb.DuckDBPyConnection, given: dict[str, list[str]]) -> Pushdown:
    con.execute(given["ddl"][0])
    relation = relations.describe(con.cursor(), "t", HERE, "f")
    workload = Workload.from_arrow(con.sql(given["workload"][0]).to_arrow_table())
    with Sandbox(Session.of(con).settings) as sandbox:
        compiled = compile_workload(read_domain(Session.of(con), relation, sandbox), workload, sandbox)
    column, rows = given["unit"][0].split() if "unit" in given else ("", "0")
    return planned(compiled, Unit(column, int(rows)) if column else None, relation.name)


def test_there_are_golden_files() -> None:
    words = {word for file in GOLDEN for word in sections(file)["plan"]}
    for start in ("one GROUP BY of all", "a GROUP BY of", "aggregates", "a streamed pairwise product"):
        assert any(word.startswith(start) for word in words)


@pytest.fixture(params=[plan for plan in PLANS if "histograms" not in plan])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    force(monkeypatch, request.param)
    return str(request.param)


def kinds(classes: dict[str, Classes], queries: list[LinearQuery], unit: Unit | None = None) -> list[type]:
    return [type(part) for part in plan_pushdown(TABLE, classes, queries, unit).parts]


def scalars(classes: dict[str, Classes], sets: list[tuple[str, ...]]) -> list[LinearQuery]:
    """One count for each set: rows in the first class of all its attributes."""
    blocks = {
        name: Block((name,), np.where(np.arange(own.count) == 0, 0, -1).astype(np.int32), 1)
        for name, own in classes.items()
    }
    return [LinearQuery(tuple(blocks[name] for name in names)) for names in sets]


def test_overlapping_sets_are_one_group_by() -> None:
    classes = grid(dict.fromkeys("abcdef", 4))
    (part,) = plan_pushdown(TABLE, classes, whole(classes, *combinations("abcdef", 2), "abc", "")).parts
    assert isinstance(part, GroupBy) and part.whole
    assert part.attributes == tuple("abcdef")
    assert [histogram.cells for histogram in part.histograms] == [4**6]


def test_more_cells_than_a_histogram_holds_are_rolled_up_from_the_groups() -> None:
    classes = grid(dict.fromkeys("abcdefghij", 20))
    queries = whole(classes, *map("".join, combinations("abcdefghij", 3)))
    (part,) = plan_pushdown(TABLE, classes, queries).parts
    assert isinstance(part, GroupBy) and part.whole
    assert len(part.histograms) > 1
    asked = [names for histogram in part.histograms for names in histogram.queries]
    assert sorted(asked) == sorted(query.attributes for query in queries)
    assert all(set(names) <= set(histogram.attributes) for histogram in part.histograms for names in histogram.queries)


def test_histograms_that_do_not_fit_together_take_several_scans() -> None:
    classes = grid(dict.fromkeys("abcdefghij", 80))
    queries = whole(classes, *map("".join, combinations("abcdefghij", 3)))
    found = plan_pushdown(TABLE, classes, queries)
    cells = []
    for part in found.parts:
        assert isinstance(part, GroupBy)
        cells.append(sum(histogram.cells for histogram in part.histograms))
    assert len(cells) == math.ceil(sum(cells) / MAX_PART_CELLS) > 1
    assert max(cells) <= MAX_PART_CELLS


def test_sets_with_nothing_in_common_are_grouped_apart() -> None:
    classes = grid(dict.fromkeys("abcd", 300))
    found = plan_pushdown(TABLE, classes, whole(classes, "ab", "cd", ""))
    assert [part.attributes for part in found.parts if isinstance(part, GroupBy)] == [("a", "b"), ("c", "d")]
    assert not any(part.whole for part in found.parts if isinstance(part, GroupBy))


NAMES = [f"a{k}" for k in range(60)]


TRIPLES = [
    tuple(NAMES[k] for k in sorted(np.random.default_rng(seed).choice(60, 3, replace=False))) for seed in range(300)
]


def test_scalar_queries_over_many_sets_are_aggregates() -> None:
    classes = grid(dict.fromkeys(NAMES, 4))
    (part,) = plan_pushdown(TABLE, classes, scalars(classes, TRIPLES)).parts
    assert isinstance(part, Aggregates)
    assert [len(cells) for cells in part.cells] == [256, 44]


def test_very_many_pairs_are_a_product() -> None:
    classes = grid({f"b{k}": 2 for k in range(100)})
    queries = [*whole(classes, *((name,) for name in classes), *combinations(classes, 2), ())]
    (part,) = plan_pushdown(TABLE, classes, queries).parts
    assert isinstance(part, Product)
    assert len(part.marginals) == 100 + 4950
    assert list(part.queries) == [()]


def test_a_mixed_workload_is_split() -> None:
    """Pairs of a hundred columns by the product, a cuboid by a GROUP BY, a condition on five by an aggregate."""
    classes = grid({f"b{k}": 2 for k in range(100)} | dict.fromkeys("xyz", 40) | dict.fromkeys("pqrst", 9))
    queries = [
        *whole(classes, *combinations(list(classes)[:100], 2), ("x", "y", "z")),
        *scalars(classes, [tuple("pqrst")]),
    ]
    assert kinds(classes, queries) == [GroupBy, Product, Aggregates]


def test_wide_attributes_do_not_fit_the_product() -> None:
    classes = grid({f"b{k}": 2 for k in range(100)} | {"x": 5000, "y": 5000})
    queries = whole(classes, *combinations(classes, 2))
    made = plan_pushdown(TABLE, classes, queries).parts
    products = [part for part in made if isinstance(part, Product)]
    assert [len(part.attributes) for part in products] == [100]
    assert any("x" in part.attributes for part in made if isinstance(part, GroupBy))


def test_texts_are_not_looked_up_for_every_row_if_it_can_be_helped() -> None:
    texts = {name: Attribute(name, "VARCHAR", nullable=True, values=("p", "q", "r")) for name in NAMES}
    classes = {name: Classes(value_pieces(item), np.arange(4, dtype=np.int32)) for name, item in texts.items()}
    assert set(kinds(classes, scalars(classes, TRIPLES))) == {GroupBy}


def test_ranking_the_rows_of_units_makes_statements_dear() -> None:
    classes = grid(dict.fromkeys("abcd", 300))
    queries = whole(classes, "ab", "cd")
    assert len(kinds(classes, queries)) == 2
    assert kinds(classes, queries, Unit("person", 1))[1:] == [Units]


def test_planning_many_sets_grows_as_they_do() -> None:
    """All triples of columns; a step that is quadratic in the sets would take minutes for 60 columns."""

    def plan(columns: int) -> Pushdown:
        names = [f"b{k}" for k in range(columns)]
        classes = grid(dict.fromkeys(names, 2))
        return plan_pushdown(TABLE, classes, whole(classes, *combinations(names, 3)))

    # 4,060 sets over 1,140: as often as many, and at the most half of that more for longer lists.
    assert 1 <= steps(lambda: plan(30)) / steps(lambda: plan(20)) / (4060 / 1140) < 1.5
    found = plan(30)
    assert sum(
        len(numbers)
        for part in found.parts
        if isinstance(part, GroupBy)
        for histogram in part.histograms
        for numbers in histogram.queries.values()
    ) == math.comb(30, 3)
