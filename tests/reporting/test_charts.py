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
