"""The page: complete by itself, quoting what people named, in plain words."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import Connection
from measurements import measurement

import mwem_sql
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement, Purpose
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.reporting import card, charts, page

NASTY = "</script><script>alert(1)</script>"


class Reader(HTMLParser):
    """Every tag is closed in its turn; nothing is loaded from anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "link", "input", "br", "line"}:
            self.open.append(tag)
        for name, value in attributes:
            assert name not in {"src", "href"} or value == "data:," or (value or "").startswith("#")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(con: Connection, rows: list[dict[str, object]], compared: str | None = None) -> str:
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 2, rows := 30)")
    stored = store.load(con.cursor(), "people_synthetic", Session.of(con).place, "test")
    measurements = store.read_measurements(con.cursor(), stored)
    answers = pa.Table.from_pylist(rows)
    return page.make(stored, measurements, answers, compared, pictures=charts.one_way(stored), ends={})


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
    text = made(
        con, [{"query": 1, "name": NASTY, "cell": [NASTY, None], "answer": None, "measured": "never"}], compared=NASTY
    )
    assert NASTY not in text
    rows = data_of(text)["rows"]
    assert rows == [[1, NASTY, f"{NASTY}, NULL", None, "never", None]]


def test_the_worst_is_on_top_of_a_comparison(con: Connection) -> None:
    text = made(
        con,
        [{"query": 1, "name": "a", "cell": None, "answer": 1.0, "true_answer": 3.0, "error": 2.0, "measured": "never"}],
        compared="people",
    )
    columns: Any = data_of(text)["columns"]
    assert [column["name"] for column in columns if column["first"]] == ["error"]


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
            "At most 3 rows of each person were used, and all counts are of these rows: ",
        ),
        ({"epsilon": 1000.0}, "promises next to nothing"),
        ({"total_is_public": True}, "The number of rows was given as a public number."),
        ({"domain": '{"totals": [{"text": "a = 1", "rows": 2}]}'}, "1 public total was given, and the release agrees"),
    ],
)
def test_what_is_promised(facts: dict[str, object], said: str) -> None:
    plain = {"epsilon": 0.5, "delta": 0.0, "unit": None, "rows_per_unit": 1, "total_is_public": False}
    assert said in " ".join(card.promise(plain | facts))


@pytest.mark.parametrize(
    ("mean_error", "said"),
    [
        (None, None),
        (0.0, "on average: not known better than 1% of the rows."),
        (0.1234, "on average: 12% ± 1% of the rows."),
    ],
)
def test_the_certificate_is_told(mean_error: float | None, said: str | None) -> None:
    row = {"query": 1, "name": "a", "answer": 1.0, "low": 0.0, "high": 2.0, "measured": "never"}
    facts = {"mean_error": mean_error, "mean_error_within": None if mean_error is None else 0.01}
    text = " ".join(page._about(pa.Table.from_pylist([row, row | {"measured": "directly"}]), facts))
    assert ("A check at the end" in text) == (said is not None)
    assert (said or "") in text
    assert "'never' (1): a guess" in text and "'directly' (1): it was measured" in text and "in part" not in text


def test_a_seed_is_shouted(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5, rounds := 1, rows := 30, output := 'seeded', seed := 1)")
    stored = store.load(con.cursor(), "seeded", Session.of(con).place, "test")
    assert "it protects nobody" in page.make(stored, [], pa.table({}), None, pictures={}, ends={})


def test_how_far_off_questions_are_is_said_with_how_sure_that_is(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5, output := 'certified')")
    stored = store.load(con.cursor(), "certified", Session.of(con).place, "test")
    measurements = store.read_measurements(con.cursor(), stored)
    text = page.make(stored, measurements, pa.table({}), None, pictures=charts.one_way(stored), ends={})
    assert re.search(
        r"<dt>in wrong cells, for a question</dt><dd>(not known better than )?[\d.]+%( ± [\d.]+%)? of the rows</dd>",
        text,
    )
    assert 'id="score"' in text and "mwem_quality(&#x27;memory.main.certified&#x27;, summary := true" in text
    plain = made(con, [])
    assert "in wrong cells, for a question" not in plain and 'id="score"' not in plain


def test_the_first_screen_says_what_may_be_quoted(con: Connection) -> None:
    rows = [
        {"query": k, "name": f"question <{k}>", "cell": None, "answer": 100.0, "low": 100.0 - 9 * k,
            "high": 100.0 + 9 * k, "measured": "directly"}
        for k in range(1, 9)
    ]  # fmt: skip
    text = made(con, rows)
    first = text[text.index('id="verdict"') : text.index('id="attributes"')]
    word = re.search(r'<p class="word (good|fair|poor)"><strong>\1</strong>', first)
    assert word
    assert "Of its 8 questions, 1 may be quoted" in first and "4 as a rough figure" in first and "and 3 not." in first
    assert re.findall(r"question &lt;(\d)&gt;", first) == ["1", "2", "3", "8", "7", "6"]
    assert "a factor of at most 1.65" in first
    rows: Any = data_of(text)["rows"]
    assert [row[-1] for row in rows] == ["yes"] + ["roughly"] * 4 + ["no"] * 3
    # The order of the page: word, attributes, pairs, then the table.
    places = [
        text.index(f'id="{name}"') for name in ("verdict", "attributes", "pairs", "workload", "measured", "promise")
    ]
    assert places == sorted(places)


def test_every_attribute_has_error_bars(con: Connection, tmp_path: Path) -> None:
    con.execute("CALL mwem_release('people', workload, 1, output := 'o')")
    mwem_sql.report(con, "o", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    ones = text[text.index('id="attributes"') : text.index('id="pairs"')]
    for name in ("age", "sex", "member", "city"):
        card = ones[ones.index(f"<bdi>{name}</bdi>") :].split("</svg>")[0]
        bars = card.count('<rect class="bar"')
        assert bars > 1 and card.count('<path class="error"') == bars, name
        assert len(re.findall(r"<title>[^<]+ \([\d.,]+ to [\d.,]+\)</title>", card)) == bars


def answer(query: int, value: float | None, low: float | None, high: float | None, **more: object) -> dict[str, Any]:
    return {
        "query": query,
        "name": f"q{query}",
        "cell": None,
        "answer": value,
        "low": low,
        "high": high,
        "measured": "directly",
        **more,
    }


@pytest.mark.parametrize(
    ("value", "low", "high", "use"),
    [
        (100, 90, 105, "yes"), (100, 89.9, 105, "roughly"), (100, 60, 150, "roughly"), (100, 60, 151, "no"),
        (0, 0, 3, "no"), (-100, -105, -95, "yes"),
        (100, None, None, None), (None, 1, 2, None),
    ],
)  # fmt: skip
def test_an_answer_may_be_quoted_by_how_far_it_may_be_off(
    value: float | None, low: float | None, high: float | None, use: str | None
) -> None:
    assert page.uses(pa.Table.from_pylist([answer(1, value, low, high)])) == [use]


def test_a_question_is_as_good_as_its_cells_together() -> None:
    rows = [
        answer(1, 900, 890, 910, cell=["F", None]),
        answer(1, 0, 0, 30, cell=["M", "x"], measured="never"),
        answer(2, 5, None, None, measured="never"),
        answer(3, 0, 0, 9),
    ]
    first, second, third = page.questions(pa.Table.from_pylist(rows))
    assert first.off == pytest.approx(40 / 900) and first.use == "yes"
    assert (first.cells, first.measured, first.example) == (2, "never", "F, NULL: 900 ± 10")
    assert (second.off, second.use, second.measured, second.example) == (None, None, "never", "")
    assert third.use == "no"
    assert page.counted([first, second, third]) == (
        "Of its 2 questions, 1 may be quoted (off by at most 10%, on average over cells, 95 times in 100), 0 as a "
        "rough figure (up to 50%), and 1 not."
    )
    assert page.counted([second]) is None


@pytest.mark.parametrize(
    ("count", "best", "worst"),
    [(0, [], []), (1, [0], []), (2, [0], [1]), (3, [0, 1], [2]), (5, [0, 1, 2], [4, 3]), (9, [0, 1, 2], [8, 7, 6])],
)
def test_the_surest_and_the_least_sure_are_different_questions(count: int, best: list[int], worst: list[int]) -> None:
    rows = [answer(number, 100, 100 - number, 100 + number) for number in range(count)]
    found = page.questions(pa.Table.from_pylist(rows))
    assert tuple([own.query for own in each] for each in page.ranked(found, 3)) == (best, worst)


def measured(
    *attributes: str, scale: float = 10.0, cells: tuple[int, ...] = (0, 1), purpose: Purpose = "round"
) -> Measurement:
    """The last attribute of two classes decides."""
    labels = np.broadcast_to(np.array(cells, dtype=np.int32), [2] * len(attributes))
    query = LinearQuery((Block(attributes, labels, 2),))
    return measurement(query, np.array([1, 2]), 2 * scale**2, purpose)


def test_which_pairs_are_known() -> None:
    rows = [
        measured("a", "b"),
        measured("b", "a", scale=300.0),  # the better one counts
        measured("a", "c", scale=120.0),
        measured("b", "c", scale=900.0),
        measured("c", "d", cells=(-1, 0)),
        measured("a", "d", purpose="detail"),
    ]
    found = page.shades(["a", "b", "c", "d"], rows, 1000.0)
    kinds = {
        (found.names[i], found.names[j]): kind for i in range(4) for j in range(i) for kind, _ in [found.shades[i][j]]
    }
    assert kinds == {
        ("b", "a"): "known-good", ("c", "a"): "known-fair", ("c", "b"): "known-poor", ("d", "c"): "known-part",
        ("d", "a"): "known-none", ("d", "b"): "known-none",
    }  # fmt: skip
    assert found.shades[1][0][1] == "measured, noise puts about 1% of the rows in wrong cells"
    assert found.shades[0][1] == found.shades[1][0]


def test_of_many_attributes_some_are_shown_and_the_others_counted() -> None:
    found = page.shades([f"c{k}" for k in range(100)], [], 1.0)
    assert (len(found.names), found.left_out) == (page.MOST_SHADES, 100 - page.MOST_SHADES)
