"""Public totals on classes: DuckDB's own counts are what they say, and each contradiction has its sentence."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.compile.totals import Counted, conditions, total_of_all
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.totals import PublicTotal
from mwem_sql.errors import CellsError, DomainError, PredicateError
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload

A = Attribute("a", "INTEGER", nullable=False, low=0, high=7)
S = Attribute("s", "VARCHAR", nullable=True, values=("x", "y"), open=True)


def domain(*totals: tuple[str | None, int]) -> Domain:
    return Domain("t", ("a", "s", "free"), (A, S), totals=tuple(PublicTotal(*total) for total in totals))


def total(*totals: tuple[str | None, int], given: float | None = None) -> float | None:
    with Sandbox({}) as sandbox:
        return total_of_all(domain(*totals), sandbox, given)


def test_the_number_of_rows_follows_where_nothing_is_left_out() -> None:
    assert total(("a < 3", 4), ("a >= 3", 5)) == 9
    assert total(("a < 3", 4)) is None
    assert total((None, 8), ("a < 3", 4)) == 8
    assert total(("s = 'x'", 1), ("s = 'y'", 2)) is None  # there may be NULL, and values off the list
    assert total(("s = 'x'", 1), ("s = 'y'", 2), ("s IS NULL", 3), ("s NOT IN ('x', 'y')", 4)) == 10
    assert total(("free = 'what has no domain says nothing'", 3), (None, 5)) == 5
    assert total() is None


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        ([("a < 3", 4), ("a < 3 AND s = 'x'", 5)], "(\"a < 3 AND s = 'x'\") is 5, and by the others there are at most"),
        ([("a < 3", 4), ("a >= 3", 5), (None, 8)], "total ('a >= 3') is 5, and by the others there are 4: "),
        ([("a > 7", 1)], "total ('a > 7') is 1, and nothing that it could count is possible"),
        ([("a < 3", 9), ("a >= 3", 5), ("s IS NULL", 2), ("s IS NOT NULL", 2)], "no table has them all"),
        ([("s LIKE 'village%'", 3)], "total (\"s LIKE 'village%'\") may count values off the domain or not. Hint: "),
    ],
)  # fmt: skip
def test_a_contradiction_names_the_total_the_rows_and_the_cure(totals: list[tuple[str, int]], words: str) -> None:
    with pytest.raises(DomainError, match=f"^known: .*{re.escape(words)}"):
        total(*totals)


def test_a_total_that_is_given_twice_has_to_be_the_same() -> None:
    with pytest.raises(DomainError, match="total :="):
        total((None, 8), given=9)
    assert total(("a < 3", 3), given=9) == 9


def test_a_total_that_cannot_be_compiled_is_refused_as_what_it_is() -> None:
    with pytest.raises(PredicateError, match=r"^known: "):
        total(("s > 3 AND s.t = 1", 3))


def test_classes_are_cut_by_totals_and_those_that_join_too_much_are_refused() -> None:
    whole = domain(("a < 2", 3), ("a + 1 < 8 AND s = 'x'", 2), (None, 20))
    with Sandbox({}) as sandbox:
        workload = Workload.from_predicates(["a > 4 AND s = 'y'"])
        compiled = compile_workload(whole, workload, sandbox, cuts=conditions(whole.totals))
    counted = Counted.of(whole.totals, compiled.cuts)
    found = counted.on(compiled.classes)
    assert (found.total, len(compiled.queries)) == (20, 1)
    assert sorted(row for each in found.partitions for row in each.rows) == [2, 3, 17, 18]
    with pytest.raises(CellsError, match=r"joins \d+ values, more than 1\b"):
        counted.on(compiled.classes, max_cells=10)
    assert compiled.published.totals == whole.totals
    assert replace(compiled, classes={"a": compiled.classes["a"]}).published.totals == (
        whole.totals[0],
        whole.totals[2],
    )
