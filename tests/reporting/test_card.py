"""The card's text: one line for a query, short lists, and no cell that breaks a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from measurements import measurement

import mwem_sql
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement, Purpose
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain, Link
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
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
    assert card._one_line(query) == line


def test_bars_are_quoted() -> None:
    assert card._cell("a|b\nc") == "a\\|b c"


def test_rows_off_the_domain_are_said() -> None:
    assert card._off([]) == ""
    said = card._off([{"attribute": "cut", "where": "that is not on its list", "share": 0.1123}])
    assert "- `cut` that is not on its list: about 11%" in said


def made(scale: float, purpose: Purpose = "round", *, gaussian: bool = False) -> Measurement:
    """Two values in halves: a sum whose grid has a unit of 2."""
    block = Block(("a",), np.arange(2, dtype=np.int32), 2, values=np.ones(2, dtype=np.int64), unit=2.0)
    variance = scale**2 if gaussian else 2 * scale**2
    return measurement(LinearQuery((block,)), np.array([1, 2]), variance, purpose, gaussian=gaussian)


def test_noise_is_said_as_what_it_does() -> None:
    generator = np.random.default_rng(0)
    for gaussian, draws in (
        (False, generator.laplace(0, 2 * 3.0, 10**6)),
        (True, generator.normal(0, 2 * 3.0, 10**6)),
    ):
        (kind,) = card.purposes([made(3.0, gaussian=gaussian)])
        # Of a million draws the mean and the share beyond are within 0.5%.
        assert np.abs(draws).mean() == pytest.approx(kind.typical, rel=5e-3)
        assert (np.abs(draws) > kind.most).mean() == pytest.approx(0.05, rel=2e-2)


def test_kinds_are_in_the_order_of_the_rounds_and_count_cells() -> None:
    kinds = card.purposes([made(1, "total"), made(1), made(3), made(1, "detail")])
    assert [(kind.purpose, kind.count, kind.cells) for kind in kinds] == [
        ("how many rows there are", 1, 2), ("what rounds measured", 2, 4),
        ("values inside the workload's classes", 1, 2),
    ]  # fmt: skip
    assert kinds[1].typical == pytest.approx(4.0)


def test_a_state_fits_what_was_measured_up_to_noise() -> None:
    with mwem_sql.connect() as con:
        con.execute("CREATE TABLE t (a BOOLEAN NOT NULL, b BOOLEAN NOT NULL, c BOOLEAN NOT NULL)")
        con.execute("INSERT INTO t SELECT i % 2 = 0, i % 3 = 0, i % 5 = 0 FROM range(9000) t(i)")
        con.execute("CREATE TABLE w AS FROM mwem_marginals('t', 2)")
        con.execute("CALL mwem_release('t', w, 1.0, rounds := 6, seed := 1)")
        stored = store.load(con.cursor(), "t_synthetic", Session.of(con).place, "test")
        steps = store.read_measurements(con.cursor(), stored)
    names, fits = card.fits(stored.state(), stored.classes, steps)
    assert len(names) == len(steps)
    assert fits.max() < 5
    wrong = [replace(step, values=step.values + 10_000) for step in steps]
    assert card.fits(stored.state(), stored.classes, wrong)[1].min() > 100
    assert set(card.pairs_by_count(steps)) == {("a", "b"), ("a", "c"), ("b", "c")}


def test_tables_that_are_joined_say_what_is_not_kept() -> None:
    link = Link(keys=(("vid",),), parent="person", foreign=("pid",), refers_to=("pid",), below=("drug", "bill"))
    numbers = tuple(
        Attribute(name, "INTEGER", nullable=False, low=0, high=high) for name, high in (("drug", 3), ("bill", 1))
    )
    words = card.joined(Domain("visit", (), numbers, link=link))
    assert "leads to a row of person_synthetic by pid" in words[0] and "is not kept" in words[0]
    assert words[1:3] == [
        "drug is how many rows of drug lead to a row: 3 stands for 3 or more.",
        "bill is how many rows of bill lead to a row.",
    ]
    assert words[3].startswith("Rows of drug_synthetic and bill_synthetic lead to these rows. How such tables")
    assert card.joined(Domain("visit", (), ())) == []
