"""The card's text: one line for a query, short lists, and no cell that breaks a table."""

from __future__ import annotations

import pytest

from mwem_sql.reporting import card


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ({"predicate": None, "group_by": ["sex", "age"]}, "count(*) GROUP BY sex, age"),
        (
            {"predicate": "a\n  > 1", "measure": "sum(pay)", "group_by": "sex, age // 10"},
            "sum(pay) WHERE a > 1 GROUP BY sex, age // 10",
        ),
        ({"predicate": "true"}, "count(*) WHERE true"),
    ],
)
def test_a_query_on_one_line(query: dict[str, object], line: str) -> None:
    assert card._asked(query) == line


def test_bars_are_quoted() -> None:
    assert card._cell("a|b\nc") == "a\\|b c"


def test_rows_off_the_domain_are_said() -> None:
    assert card._off([]) == []
    said = card._off([{"attribute": "cut", "where": "that is not on its list", "share": 0.1123}])
    assert "- `cut` that is not on its list: about 11%" in said
