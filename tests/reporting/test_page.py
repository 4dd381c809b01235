"""The page: complete by itself, quoting what people named, in plain words."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from conftest import Connection

from mwem_sql.database.session import Session
from mwem_sql.releases import store
from mwem_sql.reporting import page

NASTY = "</script><script>alert(1)</script>"


class Reader(HTMLParser):
    """Every tag is closed in its turn; nothing is loaded from anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "link", "input", "br", "rect", "line", "circle"}:
            self.open.append(tag)
        for name, value in attributes:
            assert name not in {"src", "href"} or value == "data:," or (value or "").startswith("#")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"rect", "circle"}:
            assert self.open.pop() == tag


def made(con: Connection, rows: list[dict[str, object]], compared: str | None = None) -> str:
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 2, rows := 30)")
    stored = store.load(con.cursor(), "people_synthetic", Session.of(con).place, "test")
    return page.make(stored, store.measurements_of(con.cursor(), stored).to_pylist(), rows, compared)


def data_of(text: str) -> dict[str, object]:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_it_is_well_formed_and_loads_nothing(con: Connection) -> None:
    text = made(
        con,
        [
            {
                "query": 1,
                "name": "age > 40",
                "cell": None,
                "answer": 12.5,
                "low": 3.0,
                "high": 20.0,
                "measured": "directly",
            }
        ],
    )
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert "http" not in text.replace("http-equiv", "")


def test_names_cannot_break_out(con: Connection) -> None:
    text = made(con, [{"query": 1, "name": NASTY, "cell": [NASTY, None], "answer": None}], compared=NASTY)
    assert NASTY not in text
    rows = data_of(text)["rows"]
    assert rows == [[1, NASTY, f"{NASTY}, NULL", None]]


def test_the_worst_is_on_top_of_a_comparison(con: Connection) -> None:
    text = made(
        con,
        [{"query": 1, "name": "a", "cell": None, "answer": 1.0, "true_answer": 3.0, "error": 2.0}],
        compared="people",
    )
    assert [column["name"] for column in data_of(text)["columns"] if column["first"]] == ["error"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "Take any one row out of the private table"),
        ({}, "a factor of at most 1.65 (e to the power of epsilon, 0.5)"),
        ({}, "can be at most 62% sure"),
        ({"delta": 1e-9}, "fail with a probability of at most 1e-09"),
        ({"unit": "person", "rows_per_unit": 3}, "all rows of any one person"),
        (
            {"unit": "person", "rows_per_unit": 3},
            "At most 3 rows of each person were used: all counts are of these rows",
        ),
        ({"epsilon": 1000.0}, "promises next to nothing"),
        ({"total_is_public": True}, "The number of rows was given as a public number."),
    ],
)
def test_what_is_promised(facts: dict[str, object], said: str) -> None:
    plain = {"epsilon": 0.5, "delta": 0.0, "unit": None, "rows_per_unit": 1, "total_is_public": False}
    assert said in " ".join(page.promise(plain | facts))


@pytest.mark.parametrize(
    ("mean_error", "said"),
    [
        (None, None),
        (0.0, "no error that its own noise would not explain"),
        (12.345, "off by 12 rows on average, all its cells together"),
    ],
)
def test_the_certificate_is_told(mean_error: float | None, said: str | None) -> None:
    row = {"query": 1, "name": "a", "answer": 1.0, "low": 0.0, "high": 2.0, "measured": "never"}
    text = " ".join(page._about([row, row | {"measured": "directly"}], {"mean_error": mean_error}))
    assert ("A check at the end" in text) == (said is not None)
    assert (said or "") in text
    assert "'never' (1): a guess" in text and "'directly' (1): it was measured" in text and "in part" not in text


def test_a_seed_is_shouted(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 1, rows := 30, output := 'seeded', seed := 1)")
    stored = store.load(con.cursor(), "seeded", Session.of(con).place, "test")
    assert "it protects nobody" in page.make(stored, [], [], None)


def test_how_far_off_questions_are_is_said_with_how_sure_that_is(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5, output := 'certified')")
    stored = store.load(con.cursor(), "certified", Session.of(con).place, "test")
    text = page.make(stored, store.measurements_of(con.cursor(), stored).to_pylist(), [], None)
    assert re.search(r"<dt>a question is off by</dt><dd>[\d.,]+ ± [\d.,]+ rows</dd>", text)
    assert "off by</dt>" not in made(con, [])
