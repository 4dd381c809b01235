"""Pictures: they are well-formed, say what they show, and quote what people named."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

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
