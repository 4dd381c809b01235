"""What rules ask of rows: those that break one are drawn again, and computed columns follow from others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, value_pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.rules import Computed, PublicRule
from mwem_sql.model.state import State
from mwem_sql.releases.rows import row_rules
from mwem_sql.synthesis.values import draw_rows

A = Attribute("a", "INTEGER", nullable=False, low=0, high=99, bins=2)
B = Attribute("b", "INTEGER", nullable=True, low=0, high=99, bins=1)
TWICE = Computed("c", "VARCHAR", "CAST(100 // (a - 7) AS VARCHAR)", "rules table")


def drawn(*rules: str, computed: tuple[Computed, ...] = ()) -> dict[str, np.ndarray]:
    columns = ("a", "b", *(each.name for each in computed))
    texts = tuple(PublicRule(text, "rules table") for text in rules)
    domain = Domain("t", columns, (A, B), rules=texts, computed=computed)
    classes = {each.name: Classes(pieces := value_pieces(each), pieces.bins) for each in (A, B)}
    state = State.uniform({name: each.sizes for name, each in classes.items()}, 4000.0)
    made = draw_rows(state, classes, 4000, np.random.default_rng(0), row_rules(domain, {}))
    table = made.reader.read_all().rename_columns(list(made.types))
    return {name: table[name].to_numpy() for name in table.column_names}


def test_a_row_that_breaks_a_rule_is_drawn_again_inside_its_classes() -> None:
    """So the rows of a class stay about as many as they are."""
    rows, free = drawn("a <= b OR a < 20"), drawn()
    assert ((rows["a"] <= rows["b"]) | (rows["a"] < 20) | np.isnan(rows["b"])).all()
    for name, edge in (("a", 50), ("b", 100)):
        # But for the few that no draw mends, where next to no b will do.
        assert abs((rows[name] < edge).sum() - (free[name] < edge).sum()) <= 20
    assert row_rules(Domain("t", ("a", "b"), (A, B)), {}) is None


def test_another_row_takes_the_place_of_one_that_no_draw_mends() -> None:
    rows = drawn("a < 50 OR b IS NULL")
    assert ((rows["a"] < 50) | np.isnan(rows["b"])).all()
    assert len(rows["a"]) == 4000
    assert (rows["a"] >= 50).any()


def test_what_cannot_be_evaluated_breaks_no_rule_and_is_null_where_it_is_computed() -> None:
    rows = drawn("CAST(repeat('9', a) AS INTEGER) > 5 OR a = 0", computed=(TWICE,))
    assert rows["a"].max() > 50  # no INTEGER has so many digits
    assert rows["c"].tolist() == [None if a == 7 else str(100 // (a - 7) if a > 7 else -(100 // (7 - a)))
                                  for a in rows["a"].tolist()]  # fmt: skip


@pytest.mark.parametrize("rules", [("a < 0",), ("a > 98", "a < 1")])
def test_rules_that_no_row_meets_leave_rows_as_they_are(rules: tuple[str, ...]) -> None:
    """They are refused before anything is charged where the domain shows it; here nothing is left to do."""
    assert len(drawn(*rules)["a"]) == 4000


def test_all_rows_have_the_columns_order_and_types_of_the_domain() -> None:
    domain = Domain("t", ("c", "a"), (A,), computed=(TWICE,))
    pieces = value_pieces(A)
    state = State.uniform({"a": np.ones(2)}, 10.0)
    made = draw_rows(state, {"a": Classes(pieces, pieces.bins)}, 10, np.random.default_rng(0), row_rules(domain, {}))
    assert dict(made.types) == {"c": "VARCHAR", "a": "INTEGER"}
    assert made.reader.schema.types[0] == pa.string()
