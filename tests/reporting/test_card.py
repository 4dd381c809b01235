"""The card's text: one line for a query, short lists, and no cell that breaks a table."""

from __future__ import annotations

import pytest

from mwem_sql.domains.attribute import Attribute
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


def test_long_lists_are_cut_and_bars_quoted() -> None:
    assert (
        card._values({"values": [str(k) for k in range(40)]}) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (40 in all)"
    )
    assert card._values({"low": "0", "high": "9"}) == "0 to 9"
    edges = Attribute("pay", "INTEGER", nullable=False, low=0, high=99, edges=(10, 50))
    item = card._attribute(edges)
    assert item == {"name": "pay", "type": "INTEGER", "nullable": False, "low": "0", "high": "99", "edges": ["10", "50"], "cut": "in bins that begin at 0, 10, 50"}  # fmt: skip
    assert card._values(item) == "0 to 99, in bins that begin at 0, 10, 50"
    assert card._cell("a|b\nc") == "a\\|b c"
