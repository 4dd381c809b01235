"""A release in a notebook."""

from __future__ import annotations

from dataclasses import fields, replace
from html.parser import HTMLParser

import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.releases.columns import Summary
from mwem_sql.surface.api import release_html, rounded

MADE = Summary(
    release=1, output="memory.main.people_synthetic", rows=32590, epsilon=0.5, delta=0.0, rounds=1, queries=12,
    attributes=4, cells=17_458_967,
    seconds=1.7158967, private=True, reused=False, protects="one row", warning=None, measured=12, mean_error=0.035,
    mean_error_within=0.014,
    quality="good",
)  # fmt: skip


class Reader(HTMLParser):
    """Text, and that every tag is closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> list[str]:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader.text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.0, "3"), (0.5, "0.5"), (1e-9, "1e-09"), (32590, "32,590"), (1234.5678, "1,235"), (3.14159, "3.142"),
    (1.7458967632710487e-155, "1.746e-155")],
)  # fmt: skip
def test_numbers_for_people(value: float, text: str) -> None:
    assert rounded(value) == text


def test_what_it_says() -> None:
    assert read(release_html(MADE)) == [
        "Synthetic table ", "memory.main.people_synthetic", "promise", "ε = 0.5, for one row", "rows", "32,590",
        "asked",
        "12 queries about 4 attributes", "measured in", "1 round", "quality", "good: 12 of 12 questions were measured",
        "in wrong cells", "3.5% ± 1.4% of the rows, for a query", "model", "17,458,967 cells", "this call",
        "made release 1 in 1.716 s",
    ]  # fmt: skip


def test_what_must_not_be_overlooked() -> None:
    shown = " ".join(
        read(release_html(replace(MADE, private=False, reused=True, delta=1e-9, warning="delta is large")))
    )
    for part in ("Not private", "delta is large", "δ = 1e-09", "returned the stored release, at no cost"):
        assert part in shown


def test_names_are_escaped() -> None:
    assert "<script>" not in release_html(replace(MADE, output="<script>", protects="<script>", warning="<script>"))


def test_a_release_shows_itself(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=2, rows=30)
    assert "memory.main.people_synthetic" in read(made._repr_html_())
    summary = Summary(**{field.name: getattr(made, field.name) for field in fields(Summary)})
    assert made._repr_html_() == release_html(summary)


def test_rows_as_arrow(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", 1, rounds=1, rows=30)
    assert made.to_arrow().num_rows == 30
    assert made.to_arrow().schema.names == ["age", "sex", "member", "city"]
