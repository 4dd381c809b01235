"""Attributes check themselves, and come back from JSON as they were."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, MwemError
from mwem_sql.language.ticks import Tick


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
            lambda edges: Attribute("a", "BIGINT", nullable=True, low=min(edges), high=max(edges), edges=tuple(edges)),
            st.lists(st.integers(-(2**60), 2**60), min_size=1, unique=True).map(sorted),
        ),
        st.builds(
            lambda edges: Attribute("a", "DOUBLE", nullable=False, low=-1e300, high=1e300, edges=tuple(edges)),
            st.lists(st.floats(-1e300, 1e300), min_size=1, unique=True).map(sorted),
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
    del stored["attributes"][0]["edges"]
    assert Domain.from_json(stored) == domain


@pytest.mark.parametrize(
    ("kind", "listed", "other"),
    [
        ("VARCHAR", ("x", "y"), "(other)"),
        ("VARCHAR", ("(other)", "y"), "((other))"),
        ("INTEGER", ("3", "-1"), "4"),
        ("TINYINT", ("127",), "-128"),
        ("DECIMAL(5,2)", ("1.50", "2.00"), "2.01"),
        ("BOOLEAN", ("true",), "false"),
        ("ENUM('a', 'b', 'c')", ("a", "c"), "b"),
        ("UUID", ("x",), None),
    ],
)
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


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"edges": ()}, "an empty list of edges. Hint: list where its bins begin, or leave it out"),
        (
            {"edges": (3, 9, 9)},
            "the edge 9 after 9, and edges must ascend. Hint: list each beginning of a bin once, the least first",
        ),
        ({"edges": (9, 3)}, "the edge 3 after 9, and edges must ascend"),
        ({"edges": (-1, 3)}, "the edge -1, which is not from 0 to 99. Hint: give edges between low and high"),
        ({"edges": (3, 100)}, "the edge 100, which is not from 0 to 99"),
        ({"edges": (3,), "bins": 4}, "both bins and edges. Hint: give one of them"),
    ],
)
def test_edges_check_themselves(more: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=re.escape(f"domain: attribute a has {message}")):
        Attribute("a", "INTEGER", nullable=True, low=0, high=99, **more)


@pytest.mark.parametrize(
    ("attribute", "cells", "words"),
    [
        (
            Attribute("a", "INTEGER", nullable=True, low=0, high=99, edges=(10, 50)),
            4,
            "in bins that begin at 0, 10, 50",
        ),
        (
            Attribute("a", "INTEGER", nullable=False, low=0, high=99, edges=(0, 10, 50)),
            3,
            "in bins that begin at 0, 10, 50",
        ),
        (Attribute("a", "INTEGER", nullable=False, low=0, high=99, edges=(0,)), 1, "in one bin"),
        (
            Attribute("a", "DATE", nullable=False, low=0, high=99, edges=(31,)),
            2,
            "in bins that begin at 1970-01-01, 1970-02-01",
        ),
        (
            Attribute("a", "DOUBLE", nullable=False, low=0.0, high=9.0, edges=(0.5,)),
            2,
            "in bins that begin at 0.0, 0.5",
        ),
        (Attribute("a", "INTEGER", nullable=False, low=0, high=99, bins=10), 10, "in 10 equal bins"),
        (Attribute("a", "DECIMAL(5,2)", nullable=False, low=0, high=100, step=5), 21, "in steps of 0.05"),
        (Attribute("a", "TIMESTAMP", nullable=False, low=0, high=10**10, step=3_600_000_000), 3, "in steps of 3600"),
        (
            Attribute("a", "INTEGER", nullable=False, low=0, high=99, edges=(50,), step=5),
            2,
            "in bins that begin at 0, 50, in steps of 5",
        ),
        (Attribute("a", "INTEGER", nullable=False, low=0, high=99), 100, ""),
    ],
)
def test_how_a_range_is_cut_is_said(attribute: Attribute, cells: int, words: str) -> None:
    assert (attribute.cells, attribute.cut) == (cells, words)
    assert attribute.has_bins == bool(words)


def test_a_list_has_no_scale() -> None:
    with pytest.raises(TypeError, match="a has a list of values, not bounds"):
        _ = Attribute("a", "INTEGER", nullable=True, values=("1",)).ordered
