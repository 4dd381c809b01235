"""How an expression is taken apart, and which constants a leaf compares its column with."""

from __future__ import annotations

import pytest
from sqlglot import exp

from mwem_sql.language import dialect, predicate
from mwem_sql.language.conditions import Compound, Leaf, comparison, condition, conjuncts, leaf, leaves

COLUMNS = predicate.Columns(("Age", "hours", "sex", "b"))


def parse(text: str) -> exp.Expr:
    return predicate.parse(text, COLUMNS, "predicate", "adult")


def test_conjuncts_and_conditions() -> None:
    parts = list(conjuncts(parse("(age > 1 AND (hours < 2 AND (sex = 'F' OR b)))")))
    assert [dialect.sql(part) for part in parts] == ['"Age" > 1', '"hours" < 2', '"sex" = \'F\' OR "b"']
    joined = condition(parts[2])
    assert isinstance(joined, Compound)
    assert (joined.connective, joined.columns) == ("or", ("sex", "b"))
    assert [leaf.sql for leaf in leaves(joined)] == ["\"sex\" = 'F'", '"b"']
    one_column = condition(parse("NOT (age > 1 OR (age < 0 AND age <> -5))"))
    assert isinstance(one_column, Leaf)
    assert one_column.columns == ("Age",)
    together = condition(parse("hours > age"))
    assert isinstance(together, Leaf)
    assert together.columns == ("hours", "Age")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("age > 3", ["3"]),
        ("3 > age", ["3"]),
        ("age BETWEEN 1 + 1 AND 5", ["1 + 1", "5"]),
        ("age IN (1, 2)", ["1", "2"]),
        ("age IS NULL", []),
        ("age IS NOT NULL OR NOT (age) < 4", ["4"]),
        ("age = age", []),
        ("age IS DISTINCT FROM 3", ["3"]),
        ("true", None),
        ("age > 1 AND age < 5", ["1", "5"]),
        ("age + 1 > 3", None),
        ("abs(age) > 3", None),
        ("age % 2 = 0", None),
        ("age > 3 OR age % 2 = 0", None),
        ("b", None),
        ("NOT b", None),
        ("(age > 3) = true", ["3"]),
        ("CASE WHEN age > 3 THEN 'x' WHEN age IS NULL THEN 'y' ELSE 'z' END = 'x'", ["3"]),
        ("(age > 3)::INTEGER + if(age IN (4, 5), 1, 0) = 1", ["3", "4", "5"]),
        ("coalesce(age > 3, age < 2)", ["3", "2"]),
        ("CASE WHEN age > 3 THEN age END = 4", None),
        ("CASE age WHEN 3 THEN true END", None),
        ("age LIKE '3%'", None),
        ("age::VARCHAR > '3'", None),
        ("age IN (hours, 1)", None),
        ("age IS TRUE", None),
        ("(age, hours) = (1, 2)", None),
    ],
)
def test_constants(text: str, found: list[str] | None) -> None:
    listed = leaf(parse(text)).compared
    assert listed == (None if found is None else tuple(found))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("age > 3", (">", ["3"])),
        ("3 > age", ("<", ["3"])),
        ("3 < age", (">", ["3"])),
        ("3 >= age", ("<=", ["3"])),
        ("3 = age", ("=", ["3"])),
        ("4 <= (age)", (">=", ["4"])),
        ("age <> 1 + 1", ("<>", ["1 + 1"])),
        ("age BETWEEN 1 AND 5", ("between", ["1", "5"])),
        ("age IN (1, 2)", ("in", ["1", "2"])),
        ("sex = 'F'", ("=", ["'F'"])),
        ("age IN (hours)", None),
        ("age = hours", None),
        ("age + 1 > 3", None),
        ("age IS DISTINCT FROM 3", None),
        ("b", None),
    ],
)
def test_one_comparison_has_its_column_on_the_left(text: str, found: tuple[str, list[str]] | None) -> None:
    compared = comparison(parse(text))
    assert (compared and (compared[0], [dialect.sql(constant) for constant in compared[1]])) == found
