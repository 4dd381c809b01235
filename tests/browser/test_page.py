"""The report in a real browser, as its readers meet it: `pytest -m browser`. Drives Debian's chromium; where that is
missing, these tests are skipped.

`MWEM_SCREENSHOTS=folder pytest -m browser -n0` keeps pictures of every page, for somebody to look at.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import PEOPLE, Connection

import mwem_sql
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.reporting import charts
from mwem_sql.reporting import page as report_page

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
MISSING = "apt-get install chromium, and pip install '.[browser]': this test looks at the report in a real browser"
# Root has no sandbox; a browser that looks for updates of its own would be one that asks the network for something.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE, DESK = 360, 1280
A4 = 794
"""Its width in pixels of a style sheet."""

NASTY = """<script>document.title = 'broken'</script>"&lt;"""
RIGHT_TO_LEFT = "\u202eاسم العميل"  # noqa: RUF001
LONG = "a_very_long_name_" * 7 + "end"
CHINESE = "客户所在的城市和地区"

Open = Callable[..., Any]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def plain(con: Connection) -> tuple[str, str]:
    con.execute(PEOPLE)
    return "people", "FROM workload"


def hostile(con: Connection) -> tuple[str, str]:
    """Names and values that are HTML, run from right to left, are wide or do not end."""
    lists = {
        NASTY: ["<b>x</b>", '"&lt;'],
        RIGHT_TO_LEFT: ["ألف", "باء"],
        LONG: ["W" * 60, "ordinary words without an end " * 3, "ORDINARY CAPITALS " * 4],
        CHINESE: ["上海", "北京", "新疆维吾尔自治区" * 4],
    }
    con.execute(f"CREATE TABLE {quoted(NASTY)} ({', '.join(f'{quoted(name)} VARCHAR' for name in lists)})")
    for k in range(300):
        con.execute(
            f"INSERT INTO {quoted(NASTY)} VALUES (?, ?, ?, ?)", [values[k % len(values)] for values in lists.values()]
        )
    con.execute('CREATE TABLE d (attribute VARCHAR, "values" VARCHAR[])')
    con.executemany("INSERT INTO d VALUES (?, ?)", [[name, values] for name, values in lists.items()])
    return NASTY, "FROM mwem_marginals('" + NASTY.replace("'", "''") + "', 2, domain := 'd')"


def many(con: Connection) -> tuple[str, str]:
    """300 questions, one of them as long as a query gets."""
    con.execute(PEOPLE)
    some = "SELECT 'age >= ' || i % 100 || ' AND age < ' || i % 100 + 7 + i // 100 AS predicate FROM range(299) t(i)"
    return "people", some + " UNION ALL SELECT 'age IN (' || string_agg(i * 2, ', ') || ')' FROM range(40) t(i)"


def wide(con: Connection) -> tuple[str, str]:
    columns = [f"column_number_{k}" for k in range(30)]
    checks = [f"{name} INTEGER NOT NULL CHECK ({name} BETWEEN 0 AND {1 + 9 * k})" for k, name in enumerate(columns)]
    con.execute(f"CREATE TABLE wide ({', '.join(checks)})")
    con.execute(f"INSERT INTO wide SELECT {', '.join(f'i % {2 + 9 * k}' for k in range(30))} FROM range(300) t(i)")
    return "wide", "FROM mwem_marginals('wide', 1)"


def mixed(con: Connection) -> tuple[str, str]:
    """Moments, days, amounts below zero, and NULLs; and an average."""
    con.execute("""
        CREATE TABLE sales (sold_at TIMESTAMP NOT NULL CHECK (sold_at BETWEEN
            TIMESTAMP '2024-01-01' AND TIMESTAMP '2025-12-31'), amount DOUBLE, day DATE, paid BOOLEAN);
        INSERT INTO sales
        SELECT TIMESTAMP '2024-01-01' + to_hours(i::INTEGER * 3), i % 700 - 200.5,
            DATE '2024-01-01' + (i % 600)::INTEGER, [true, NULL][1 + i % 2] FROM range(3000) t(i);
        CREATE TABLE sales_domain (attribute VARCHAR, low VARCHAR, high VARCHAR, bins INTEGER);
        INSERT INTO sales_domain VALUES ('amount', '-500', '1500', 40), ('day', '2024-01-01', '2025-12-31', 40),
            ('sold_at', '2024-01-01', '2025-12-31', 20)""")
    return (
        "sales",
        (
            "SELECT 'avg(amount)' AS measure, ['paid'] AS group_by UNION ALL SELECT NULL, unnest([['paid', 'day'], "
            "['paid', 'sold_at'], ['amount']])"
        ),
    )


def one(con: Connection) -> tuple[str, str]:
    con.execute("CREATE TABLE votes (yes BOOLEAN); INSERT INTO votes SELECT i % 3 = 0 FROM range(100) t(i)")
    return "votes", "SELECT 'yes' AS predicate"


KINDS = {made.__name__: made for made in (plain, hostile, many, wide, mixed, one)}
JOINED = {"joined": "person", "deep": "ward", "broad": "owner"}
"""Pages of tables of releases of several: persons, visits and drugs; five in a row; twelve of one parent."""
PAGES = [*KINDS, *JOINED, "compare", "seeded", "empty"]


def joined(con: Connection) -> list[str]:
    con.execute("""
        CREATE TABLE person (pid INTEGER PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL,
            age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99));
        CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), home BOOLEAN NOT NULL);
        CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), days INTEGER CHECK (days BETWEEN 1 AND 9));
        INSERT INTO person SELECT i, if(i % 3 = 0, 'F', 'M'), i % 100 FROM range(3000) t(i);
        INSERT INTO visit SELECT row_number() OVER (), pid, i = 0 FROM person, range(6) t(i) WHERE i < pid % 7;
        INSERT INTO drug SELECT vid, 1 + vid % 9 FROM visit, range(2) t(i) WHERE i <= vid % 2""")
    return ["person", "visit", "drug"]


def deep(con: Connection) -> list[str]:
    """Five tables in a row, with names that are long or odd."""
    names = ["region", "hospital_of_the_region_with_a_long_name", CHINESE, "ward", "bed<b>"]
    for k, name in enumerate(names):
        key = f"k{k} INTEGER PRIMARY KEY, x{k} BOOLEAN NOT NULL"
        leads = f", k{k - 1} INTEGER REFERENCES {quoted(names[k - 1])} (k{k - 1})" if k else ""
        con.execute(f"CREATE TABLE {quoted(name)} ({key}{leads})")
        rows = ", i // 2" if k else ""
        con.execute(f"INSERT INTO {quoted(name)} SELECT i, i % 2 = 0{rows} FROM range({20 * 2**k}) t(i)")
    return names


def broad(con: Connection) -> list[str]:
    con.execute("CREATE TABLE owner (id INTEGER PRIMARY KEY, old BOOLEAN NOT NULL)")
    con.execute("INSERT INTO owner SELECT i, i % 3 = 0 FROM range(400) t(i)")
    for k in range(12):
        con.execute(f"CREATE TABLE thing_{k} (owner INTEGER REFERENCES owner (id), big BOOLEAN NOT NULL)")
        con.execute(f"INSERT INTO thing_{k} SELECT id, old FROM owner WHERE id % 12 = {k}")
    return ["owner", *(f"thing_{k}" for k in range(12))]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of all kinds of releases."""
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in PAGES}
    for name, kind in KINDS.items():
        with mwem_sql.connect() as con:
            table, workload = kind(con)
            con.execute("CREATE TABLE asked AS " + workload)
            domain = "d" if kind is hostile else None
            mwem_sql.release(con, table, "asked", 2.0, domain=domain, output="released", rows=20)
            mwem_sql.report(con, "released", made[name])
            if kind is plain:
                mwem_sql.report(con, "released", made["compare"], compare=table)
                mwem_sql.release(con, table, "asked", 2.0, output="seeded", rows=20, seed=1)
                mwem_sql.report(con, "seeded", made["seeded"])
                stored = store.load(con.cursor(), "released", Session.of(con).place, "test")
                nothing = pa.table({"query": pa.array([], pa.int64()), "answer": pa.array([], pa.float64())})
                made["empty"].write_text(
                    report_page.make(stored, [], nothing, None, pictures=charts.one_way(stored), ends={}), "utf-8"
                )
    for name, kind_of_several in {"joined": joined, "deep": deep, "broad": broad}.items():
        with mwem_sql.connect() as con:
            tables = kind_of_several(con)
            pairs = mwem_sql.marginals(con, tables, 2)
            mwem_sql.release(con, tables, pairs, 20.0, rows_per_unit=32 if name == "deep" else 8, seed=1)
            mwem_sql.report(con, f"{JOINED[name]}_synthetic", made[name])
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415
    except ImportError:
        pytest.skip(MISSING)
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, pages: dict[str, Path]) -> Iterator[Open]:
    """Opens a report. Whatever it says to the console or asks for beside itself is an error, until the test ends."""
    said: list[str] = []
    opened: list[Any] = []

    def visit(name: str, width: int = DESK) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800})
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: said.append(f"request: {request.url}") if request.url != address else None)
        address = pages[name].as_uri()
        page.goto(address)
        return page

    yield visit
    for context in opened:
        context.close()
    assert said == []


def keep(page: Any, name: str) -> None:
    if folder := os.environ.get("MWEM_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def test_without_a_browser_one_sentence_says_what_is_missing() -> None:
    assert re.fullmatch(r"apt-get install chromium, and pip install '\.\[browser\]': [^.]+", MISSING)


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_off_the_side(name: str, visit: Open) -> None:
    page = visit(name)
    for width in (PHONE, 390, DESK):
        page.set_viewport_size({"width": width, "height": 800})
        keep(page, f"{name}-{width}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT) == []


# Texts of pictures that are not wholly inside them, by a pixel or more.
CUT = """() => [...document.querySelectorAll("svg text")].filter((text) => {
    const [inner, outer] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
    return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
}).map((text) => text.textContent)"""


@pytest.mark.parametrize("name", ["plain", "compare", "many"])
def test_on_a_phone_all_of_an_answer_is_in_sight(name: str, visit: Open) -> None:
    page = visit(name, PHONE)
    boxes = [cell.bounding_box() for cell in page.locator("#answers tbody tr:first-child td:visible").all()]
    assert len(boxes) >= 5
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= PHONE for box in boxes)
    assert (
        page.locator("#answers tbody tr:first-child .answer").evaluate(
            "cell => getComputedStyle(cell, '::before').content"
        )
        == '"answer"'
    )


def column(page: Any, number: int) -> list[str]:
    return page.locator(f"#answers tbody td:nth-child({number + 1})").all_inner_texts()


def expected(page: Any, number: int, *, falling: bool) -> list[int]:
    """The questions of the rows, in the order that a column of numbers gives them."""
    rows = page.evaluate("JSON.parse(document.getElementById('data').textContent).rows")
    return [row[0] for row in sorted(rows, key=lambda row: -row[number] if falling else row[number])]


@pytest.mark.parametrize("keys", [None, ("Enter", "Space")])
def test_every_column_can_be_sorted(keys: tuple[str, str] | None, visit: Open) -> None:
    page = visit("compare")
    heads = page.locator("#answers th")
    columns = page.evaluate("JSON.parse(document.getElementById('data').textContent).columns")
    assert heads.count() == len(columns) == 10
    for number in range(heads.count()):
        seen = []
        for turn, direction in enumerate(("ascending", "descending")):
            button = heads.nth(number).locator("button")
            button.click() if keys is None else button.press(keys[turn])
            assert heads.evaluate_all("heads => heads.map(head => head.ariaSort)") == [
                direction if k == number else None for k in range(10)
            ]
            seen.append(column(page, number))
            if columns[number]["number"]:
                assert list(map(int, column(page, 0))) == expected(page, number, falling=direction == "descending")
        rising, falling = seen
        assert falling == rising[::-1]
        assert len(set(rising)) == 1 or falling != rising


def test_searching_and_filtering(visit: Open) -> None:
    page = visit("plain")
    count, lines = page.locator("#count"), page.locator("#answers tbody tr")
    assert count.inner_text() == "10 of 10 answers"
    page.get_by_label("Search names and cells").fill("CITY bern")
    assert count.inner_text() == "2 of 10 answers"
    assert all("Bern" in line for line in lines.all_inner_texts())
    page.get_by_label("Search names and cells").fill("no such thing")
    assert count.inner_text() == "0 of 10 answers"
    assert lines.all_inner_texts() == ["Nothing found. Take a word out of the search, or choose 'all' under Measured."]
    page.get_by_label("Search names and cells").fill("")
    kinds = page.locator("#kind option").all_inner_texts()
    assert kinds[0] == "all" and len(kinds) >= 2
    found = []
    for kind in kinds[1:]:
        page.get_by_label("Measured").select_option(kind)
        assert set(column(page, 6)) == {kind}
        found += column(page, 0)
    assert len(found) == 10


def test_many_answers_are_on_pages(visit: Open) -> None:
    page = visit("many")
    count, back, on = page.locator("#count"), page.get_by_text("Previous"), page.get_by_text("Next")
    seen: set[str] = set()
    for number in range(1, 7):
        assert count.inner_text() == f"300 of 300 answers, page {number} of 6"
        assert back.is_disabled() == (number == 1)
        seen |= set(column(page, 0))
        if number < 6:
            on.click()
    assert on.is_disabled() and len(seen) == 300
    page.get_by_label("Search names and cells").fill("38, 40")  # of the last page: it begins anew
    assert count.inner_text() == "1 of 300 answers"


def test_without_answers_it_says_so(visit: Open) -> None:
    page = visit("empty")
    assert page.locator("#answers tbody").inner_text() == "The workload has no answers."


# Texts whose colour is not told apart from what is behind them, by the measure of WCAG 2: at least 4.5 is for
# everybody.
FAINT = """() => {
    const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => parts(colour).slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, k) => sum + part * [0.2126, 0.7152, 0.0722][k], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (parts(colour)[3] !== 0) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), out = [];
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        const at = text.parentElement, style = getComputedStyle(at);
        if (!text.data.trim() || !at.checkVisibility() || at.disabled || at.closest("title, option")) continue;
        const [one, other] = [light(at.closest("svg") ? style.fill : style.color), light(behind(at))];
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (contrast < 4.5) out.push(text.data + ": " + contrast.toFixed(2));
    }
    return out;
}"""


@pytest.mark.parametrize("name", ["compare", "seeded", "mixed", "joined"])
def test_all_text_can_be_read(name: str, visit: Open) -> None:
    page = visit(name)
    for scheme, media in product(("light", "dark"), ("screen", "print")):
        page.emulate_media(color_scheme=scheme, media=media)
        keep(page, f"{name}-{scheme}-{media}")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light" or media == "print")
        assert page.evaluate(FAINT) == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(visit: Open) -> None:
    page = visit("many")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        found = page.evaluate("""() => {
            const at = document.activeElement, style = getComputedStyle(at);
            return at === document.body ? null : [at.getAttribute("aria-label") || at.innerText || at.id,
                style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1];
        }""")
        if found is None:
            break
        name, is_shown = found
        assert is_shown, name
        reached.append(name.split("\n")[0])
    # "Previous" is not among them: on the first page it has nothing to do.
    assert reached == [
        "attributes", "answers", "measured", "promise", "In full", "Search names and cells", "all", "Next", "Answers",
        "query", "question", "cell", "answer", "at least", "at most", "measured", "quote", "Measurements",
    ]  # fmt: skip


def test_links_lead_to_their_sections(visit: Open) -> None:
    page = visit("plain", PHONE)
    for link in page.locator("nav a").all():
        link.click()
        assert page.locator(page.evaluate("location.hash")).count() == 1


@pytest.mark.parametrize("name", ["many", "compare", "hostile"])
def test_on_paper_the_answers_are_all_there_and_whole(name: str, visit: Open) -> None:
    page = visit(name, A4)
    rows = page.evaluate("JSON.parse(document.getElementById('data').textContent).rows.length")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = document.querySelectorAll('#answers tbody "
        "tr').length; })"
    )
    sheets = page.pdf(format="A4", print_background=True)
    if folder := os.environ.get("MWEM_SCREENSHOTS"):
        (Path(folder) / f"{name}.pdf").write_bytes(sheets)
    assert sheets.startswith(b"%PDF-")
    assert page.evaluate("window.printed") == rows
    assert page.locator("#answers tbody tr").count() == min(50, rows)  # as before
    page.emulate_media(media="print")
    assert page.evaluate(
        "[...document.querySelectorAll('.table')].every(table => table.scrollWidth <= table.clientWidth)"
    )
    assert page.locator("#search:visible, #answers th button:visible").count() == 0
    assert page.locator("#count").is_visible()


def test_true_answers_come_with_a_banner_and_the_worst_on_top(visit: Open) -> None:
    page = visit("compare")
    banner = page.get_by_role("alert")
    assert banner.inner_text().startswith("NOT PRIVATE: this page shows true answers of people.")
    assert banner.bounding_box()["y"] < page.locator("h1").bounding_box()["y"]
    page.emulate_media(media="print")
    assert banner.is_visible()
    assert page.locator("#answers th").last.get_attribute("aria-sort") == "descending"
    assert list(map(int, column(page, 0))) == expected(page, 9, falling=True)


def test_a_page_without_true_answers_has_no_banner(visit: Open) -> None:
    assert visit("plain").get_by_role("alert").count() == 0
    assert "protects nobody" in visit("seeded").get_by_role("alert").inner_text()


def test_names_are_shown_and_not_run(visit: Open) -> None:
    page = visit("hostile")
    assert page.title() == "released: what was released, and how sure it is"
    assert page.locator("b").count() == 0
    cards = page.locator(".card h3").all_inner_texts()
    assert {NASTY, RIGHT_TO_LEFT, LONG, CHINESE} <= set(cards)
    page.get_by_label("Search names and cells").fill("<script>")
    assert NASTY in page.locator("#answers td.name").first.inner_text()


def test_null_is_a_value_like_any_other(visit: Open) -> None:
    page = visit("plain")
    city = page.locator(".card", has=page.get_by_role("heading", name="city", exact=True))
    assert city.locator("text", has_text="NULL").count() == 1
    page.get_by_label("Search names and cells").fill("null")
    assert page.locator("#count").inner_text() == "2 of 10 answers"


def test_it_says_what_was_promised_what_it_cost_and_what_to_trust(visit: Open) -> None:
    text = visit("plain").locator("main").inner_text()
    for said in ("almost as likely", "at most 88% sure", ("It cost 2 of the private table's "
                                                         "budget"), "Trust an answer as far as",
                                                         "95 times in 100"):  # fmt: skip
        assert said in text


@pytest.mark.parametrize("name", ["plain", "mixed", "wide"])
def test_the_first_screen_says_whether_it_may_be_used(name: str, visit: Open) -> None:
    page = visit(name)
    word = page.locator("#verdict .word strong")
    assert word.inner_text() in {"good", "fair", "poor"}
    for each in (word, page.get_by_text("The surest questions"), page.get_by_text("The promise: take any one row")):
        box = each.bounding_box()
        assert box["y"] + box["height"] <= 800


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_tiles_fill_their_rows(width: int, visit: Open) -> None:
    page = visit("mixed", width)
    for tiles in (".facts > div", "#attributes .card"):
        boxes = [tile.bounding_box() for tile in page.locator(tiles).all()]
        edge = max(box["x"] + box["width"] for box in boxes)
        for top in {box["y"] for box in boxes}:
            assert max(box["x"] + box["width"] for box in boxes if box["y"] == top) == pytest.approx(edge, abs=1)


def test_the_order_is_explained(visit: Open) -> None:
    page = visit("compare")
    order = page.locator("#order")
    assert order.inner_text().startswith("Sorted by 'off by', the largest first. Press a column's name to sort by it")
    page.locator("#answers th button").first.click()
    assert order.inner_text().startswith("Sorted by 'query', the smallest first.")
    page.locator("#answers th button").nth(1).click()
    assert order.inner_text().startswith("Sorted by 'question', from A to Z.")
    assert visit("plain").locator("#order").inner_text().startswith("In the order of the workload.")


def test_a_table_that_scrolls_says_so_until_its_end(visit: Open) -> None:
    page = visit("plain", 300)
    table, sign = page.get_by_role("region", name="Measurements"), page.locator("#measured .scrolls")
    assert sign.is_visible()
    table.evaluate("table => { table.scrollLeft = table.scrollWidth; }")
    sign.wait_for(state="hidden")
    page.set_viewport_size({"width": DESK, "height": 800})
    assert page.locator(".scrolls:visible").count() == 0


# Texts and boxes of the picture of tables that lie over one another, by a pixel or more.
OVER = """() => {
    const svg = document.querySelector("#tables svg");
    const parts = [...svg.querySelectorAll("text, rect")].map((part) => [part, part.getBoundingClientRect()]);
    const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
    const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1
        && a.bottom <= b.bottom + 1;
    return parts.flatMap(([one, a], k) => parts.slice(k + 1)
        .filter(([other, b]) => over(a, b) && !inside(a, b) && !inside(b, a))
        .map(([other]) => one.textContent + " / " + other.textContent));
}"""


@pytest.mark.parametrize("name", JOINED)
def test_tables_of_a_release_are_drawn_with_their_rows(name: str, visit: Open) -> None:
    """Each has a box, the page's own stands out, and nothing lies over anything else."""
    page = visit(name)
    boxes = page.locator("#tables svg").first.locator("rect")
    assert boxes.count() == {"joined": 3, "deep": 5, "broad": 13}[name]
    own = page.locator("#tables svg").first.locator("rect.this")
    assert own.count() == 1 and own.locator("title").text_content().startswith(f"{JOINED[name]}_synthetic: ")
    for width in (PHONE, DESK):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(OVER) == []
    assert page.locator("#tables b").count() == 0


def test_numbers_of_rows_below_have_a_picture(visit: Open) -> None:
    """With their intervals; a release of many tables has some of them."""
    page = visit("joined")
    heads = page.locator("#tables h3").all_inner_texts()
    assert heads == ["How rows lead to one another", "Rows of visit per person", "Rows of drug per visit"]
    card = page.locator("#tables .card", has=page.get_by_role("heading", name="Rows of visit per person"))
    assert card.locator("rect").count() >= 7 and card.locator(".ends, .end, path, line").count() >= 7
    broad = visit("broad")
    assert len(broad.locator("#tables h3").all_inner_texts()) == 1 + 12
    # What is true of all of them is said once.
    words = broad.locator("#tables > p").all_inner_texts()
    assert sum("stands for 8 or more" in text for text in words) == 1
