"""The picture of docs/concepts.md is what docs/concepts.py draws, but for what noise and intervals are made of."""

from __future__ import annotations

import sys
from xml.etree import ElementTree as ET

from pages import NOISE, ROOT, Block, is_as_shown

sys.path.append(str(ROOT / "docs"))

import concepts


def test_the_picture_says_what_a_release_says() -> None:
    drawn = (ROOT / "docs" / "concepts.svg").read_text(encoding="utf-8")
    found = concepts.facts()
    assert is_as_shown(concepts.picture(found), Block("text", NOISE, drawn, 1, 0, 0)), "run: python docs/concepts.py"
    texts = [element.text or "" for element in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    for row in found["answers"]:
        assert f"{' '.join(row['cell']):<8} {row['true_answer']:>5,.0f}" in texts
        assert row["measured"] == "directly"
