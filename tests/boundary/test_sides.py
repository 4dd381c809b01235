"""The sides of a view: FROM clauses as DuckDB prints them, and what names mean among several tables."""

from __future__ import annotations

import pytest
from sqlglot import exp

from mwem_sql.boundary.sides import NotRowWiseError, SideNames, Sides, equation, flat, join_of
from mwem_sql.boundary.views import View
from mwem_sql.language import dialect


def select(text: str) -> exp.Select:
    tree = dialect.expression(text)
    assert isinstance(tree, exp.Select)
    return tree


@pytest.mark.parametrize(
    "text",
    [
        "a JOIN b USING (k) LEFT JOIN c ON b.x = c.y",
        "((a INNER JOIN b USING (k)) LEFT JOIN c ON ((b.x = c.y)))",
        "(a JOIN b USING (k)) LEFT OUTER JOIN c ON b.x = c.y",
    ],
)
def test_joins_are_read_whatever_parentheses_there_are(text: str) -> None:
    view = View.of(select(f"SELECT a.x FROM {text}"))
    assert view.source.name == "a"
    assert [(join.table.name, join.is_left, join.using) for join in view.joins] == [
        ("b", False, ("k",)),
        ("c", True, ()),
    ]
    sides = Sides([SideNames(["k", "x"], (), ["a"]), SideNames(["K", "x"], (), ["b"]), SideNames(["y"], (), ["c"])])
    assert [sides.equated(1, view.joins[0]), sides.equated(2, view.joins[1])] == [[("k", "K:")], [("x:", "y")]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a RIGHT JOIN b USING (k)", "has a RIGHT JOIN"),
        ("a FULL JOIN b USING (k)", "has a FULL JOIN"),
        ("a NATURAL JOIN b", "has a NATURAL JOIN"),
        ("a, b", "has a CROSS JOIN"),
        ("a JOIN (b JOIN c USING (k)) USING (k)", "has a join within a join"),
        ("a JOIN (SELECT 1 AS k) b USING (k)", "selects from something other"),
        ("a JOIN b TABLESAMPLE 10% USING (k)", "samples"),
    ],
)
def test_other_joins_are_refused(text: str, reason: str) -> None:
    with pytest.raises(NotRowWiseError, match=reason):
        View.of(select(f"SELECT a.x FROM {text}"))


def test_what_names_mean() -> None:
    """USING makes one column of two: without a qualifier it is the first."""
    sides = Sides([SideNames(["k", "x"], (), ["db", "main", "a"]), SideNames(["k", "y"], ("k", "z"), ["b"])])
    table, (joined,) = (
        flat(select("SELECT a.x FROM a JOIN b USING (k)").args["from_"].this)[0],
        select("SELECT a.x FROM a JOIN b USING (k)").args["joins"],
    )
    assert table.name == "a"
    with pytest.raises(NotRowWiseError, match="k, which is a column of several tables"):
        sides.side(exp.column("k"))
    assert sides.equated(1, join_of(joined)) == [("k", "k:")]
    assert [sides.side(dialect.expression(text))[0] for text in ("k", "b.k", "main.a.k", "z")] == [0, 1, 0, 1]
    assert sides.starred(None) == [("k", "k"), ("x", "x"), ("z", "z")]
    assert sides.starred(dialect.expression("b.*")) == [("k", "k:"), ("z", "z")]
    for text, reason in (("c.k", "not a column"), ("y", "y, which is not a column"), ("a.q", "a.q, which is not")):
        with pytest.raises(NotRowWiseError, match=reason):
            sides.side(dialect.expression(text))
    with pytest.raises(NotRowWiseError, match="a star of something other"):
        sides.starred(dialect.expression("c.*"))


def test_texts_are_compared_by_their_bytes() -> None:
    assert equation("a", "b", is_text=False).sql("duckdb") == '"a" = "b"'
    assert equation("a", "b", is_text=True).sql("duckdb") == '"a" COLLATE "C" = "b" COLLATE "C"'
