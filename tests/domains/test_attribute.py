"""Attributes check themselves, and come back from JSON as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.database.ticks import Tick
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import MwemError


@settings(deadline=None, max_examples=100)
@given(
    st.one_of(
        st.builds(
            lambda low, width, nullable: Attribute("a", "BIGINT", nullable, low=low, high=low + width),
            st.integers(-(2**61), 2**61), st.integers(0, 2**60), st.booleans(),
        ),
        st.builds(
            lambda ends, bins: Attribute("a", "DOUBLE", nullable=True, low=min(ends), high=max(ends), bins=bins),
            st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)), st.none() | st.integers(1, 9),
        ),
        st.builds(
            lambda values, others: Attribute('ä "b', "VARCHAR", nullable=others, values=tuple(values), open=others),
            st.lists(st.text(), min_size=1, unique=True), st.booleans(),
        ),
    )
)  # fmt: skip
def test_json_round_trip(attribute: Attribute) -> None:
    domain = Domain("my table", ("x", attribute.name), (attribute,))
    assert Domain.from_json(json.loads(json.dumps(domain.to_json()))) == domain


def test_a_domain_stored_before_there_were_open_lists_is_read() -> None:
    domain = Domain("t", ("s",), (Attribute("s", "VARCHAR", nullable=True, values=("x",)),))
    stored = domain.to_json()
    del stored["attributes"][0]["open"]
    assert Domain.from_json(stored) == domain


@pytest.mark.parametrize(
    ("kind", "listed", "other"),
    [
        ("VARCHAR", ("x", "y"), "(other)"), ("VARCHAR", ("(other)", "y"), "((other))"), ("INTEGER", ("3", "-1"), "4"), ("TINYINT", ("127",), "-128"),
        ("DECIMAL(5,2)", ("1.50", "2.00"), "2.01"), ("BOOLEAN", ("true",), "false"), ("ENUM('a', 'b', 'c')", ("a", "c"), "b"), ("UUID", ("x",), None),
    ],
)  # fmt: skip
def test_an_open_list_has_a_value_that_stands_for_all_others(
    kind: str, listed: tuple[str, ...], other: str | None
) -> None:
    attribute = Attribute("s", kind, nullable=False, values=listed, open=True)
    assert attribute.other == other
    assert attribute.cells == len(listed) + 1


@pytest.mark.parametrize(("low", "high"), [(None, 1), (0, float("nan")), (float("-inf"), 0), (2**62, 2**62), (1, 0)])
def test_attributes_check_themselves(low: Tick | None, high: Tick | None) -> None:
    with pytest.raises(MwemError, match=r"^domain: attribute a has .*Hint: "):
        Attribute("a", "BIGINT", nullable=True, low=low, high=high)


def test_a_list_has_no_scale() -> None:
    with pytest.raises(TypeError, match="a has a list of values, not bounds"):
        _ = Attribute("a", "INTEGER", nullable=True, values=("1",)).ordered
