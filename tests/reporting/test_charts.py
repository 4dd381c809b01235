"""Pictures: they are well-formed, say what they show, and quote what people named."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

import numpy as np
import pytest

import mwem_sql
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, cut_pieces
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.store import Stored
from mwem_sql.reporting import charts

NASTY = 'a <b> & "c"'


@pytest.mark.parametrize(
    "svg",
    [
        charts.bars([NASTY, "x"], np.array([3.0, 1e6]), NASTY),
        charts.columns([NASTY, *"xyz"], np.zeros(4), NASTY),
        charts.bars([NASTY, "x"], np.array([3.0, 1e6]), NASTY, [None, (1e5, 1e9)]),
        charts.columns([NASTY, *"xyz"], np.arange(4.0), NASTY, [(0.0, 2.0)] * 4),
        charts.matrix([NASTY, "x"], [[("known-good", NASTY)] * 2] * 2, NASTY),
        charts.heat([NASTY], [NASTY, "x" * 50], np.array([[0.0, 2.0]]), NASTY),
        charts.dots([0.0, 1.0, 100.0], [NASTY, "x", "y"], 1.0, NASTY, NASTY),
    ],
)
def test_a_picture_is_well_formed_and_says_what_it_shows(svg: str) -> None:
    tree = ET.fromstring(svg)
    assert tree.attrib["aria-label"] == NASTY
    assert not list(tree.iter("b"))


def test_the_longest_bar_is_that_of_the_largest_number() -> None:
    tree = ET.fromstring(charts.bars(["a", "b"], np.array([1.0, 4.0]), "t"))
    short, long = (float(rect.attrib["width"]) for rect in tree.iter("rect"))
    assert long == pytest.approx(4 * short, rel=1e-2)


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.8, "1,234,568"), (9.87654, "9.88"), (0.0, "0"), (1.7e-155, "1.7e-155")]
)
def test_numbers_are_rounded_for_people(value: float, text: str) -> None:
    assert charts.rounded(value) == text


def test_an_error_bar_ends_where_the_interval_does() -> None:
    """And a long one where the picture does."""
    tree = ET.fromstring(charts.bars(["a", "b"], np.array([50.0, 100.0]), "t", [(25.0, 200.0), (0.0, 9e9)]))
    first, second = (path.attrib["d"] for path in tree.iter("path"))
    assert first.startswith(f"M{118 + 165 * 25 / 300:.1f} ") and f"H{118 + 165 * 200 / 300:.1f}M" in first
    assert f"H{118 + 165:.1f}M" in second


@pytest.fixture(scope="module")
def stored() -> Iterator[Stored]:
    with mwem_sql.connect() as con:
        con.execute("""
            CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99),
                pay DOUBLE CHECK (pay >= 0 AND pay < 1e6), sex ENUM ('F', 'M'),
                            born DATE NOT NULL CHECK (born BETWEEN DATE '1900-01-01' AND DATE '2020-12-31'),
                                zip VARCHAR NOT NULL);
            INSERT INTO t SELECT i % 100, i * 100, ['F', 'M', NULL][1 + i % 3], DATE '1950-01-01' + (i % 900)::INTEGER,
                'z' || i % 50 FROM range(3000) t(i)""")
        con.execute(
            "CREATE TABLE t_domain (attribute VARCHAR, \"values\" VARCHAR[]); INSERT INTO t_domain SELECT 'zip', "
            "list('z' || i) FROM range(50) t(i)"
        )
        asked = ["age >= 65 AND sex = 'F'", "pay > 50000", "born > DATE '1960-01-01'", "zip < 'z3'", "age = 7"]
        mwem_sql.release(con, "t", mwem_sql.Workload.from_predicates(asked), 5.0)
        yield store.load(con.cursor(), "t_synthetic", Session.of(con).place, "test")


def test_bars_have_all_rows_of_an_attribute_once(stored: Stored) -> None:
    drawn = charts.one_way(stored)
    assert set(drawn) == {"age", "pay", "sex", "born", "zip"}
    for bars, rows in drawn.values():
        assert bars.shares.sum(axis=0) == pytest.approx(1.0)
        assert rows.sum() == pytest.approx(stored.facts["total"])
        assert len(bars.labels) == len(rows) <= charts.MOST_BARS
    assert drawn["sex"][0].labels == ["F", "M", "NULL"]
    assert drawn["zip"][0].labels[-1] == "20 others"
    assert drawn["age"][0].labels[0] == "0 to 3"
    assert drawn["pay"][0].labels[-1] == "NULL"


def test_a_pair_adds_up_to_its_attributes(stored: Stored) -> None:
    (down, across, rows) = charts.two_way(stored, [("age", "sex")])["age", "sex"]
    assert rows.shape == (len(down.labels), len(across.labels))
    np.testing.assert_allclose(rows.sum(axis=0), charts.one_way(stored)["sex"][1])


def test_dates_are_bars_of_days(stored: Stored) -> None:
    assert charts.one_way(stored)["born"][0].labels[0] == "1900-01-01 on"


@pytest.mark.parametrize(
    ("declared", "labels"),
    [
        (Attribute("x", "DOUBLE", nullable=False, low=0.0, high=200000.0), ("0 to 20,000", "180,000 on")),
        (Attribute("x", "DOUBLE", nullable=False, low=-0.3, high=0.7, bins=4), ("-0.3 to -0.05", "0.45 to 0.7")),
        (Attribute("x", "DOUBLE", nullable=False, low=0.0, high=6e6, bins=1000), ("0 to 500,000", "5,500,000 on")),
        (Attribute("x", "DOUBLE", nullable=False, low=0.0, high=6e6, edges=(10.0, 6e6)), ("0 to 10", "6,000,000")),
        (Attribute("x", "INTEGER", nullable=False, low=0, high=999, edges=(10, 100)), ("0 to 9", "100 to 999")),
        (
            Attribute("x", "TIMESTAMP", nullable=False, low=0, high=14 * 86_400_000_000 - 1),
            ("1970-01-01", "1970-01-14"),
        ),
    ],
)
def test_bars_end_at_round_numbers_and_say_so_briefly(declared: Attribute, labels: tuple[str, str]) -> None:
    classes = Classes(cut_pieces(declared, ()), np.zeros(1, dtype=np.int64))
    drawn = charts.Bars.of(classes, np.ones(1), charts.MOST_SQUARES)
    assert (drawn.labels[0], drawn.labels[-1]) == labels
    assert drawn.shares.sum(axis=0) == pytest.approx(1.0)
