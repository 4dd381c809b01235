"""Every block of SQL, Python and shell in README and docs runs, and prints what the page shows.

The rules are those of `pages.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pages
import pytest
from pages import NOISE, ROOT, RUN, Block, blocks, check, is_as_shown

import mwem_sql

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = {
    path.name if path.parent == ROOT else f"docs/{path.name}": blocks(path.read_text(encoding="utf-8"))
    for path in PAGES
}
FIRST = {"README.md", "docs/quickstart.md", "docs/reading.md"}
"""What is read first is run in every run; the other pages with `-m thorough`."""
APART = {"docs/engines.md": "its SQL needs servers: pytest -m engines"}
NOT_RUN = {
    "README.md": 2,
    "docs/experiments.md": 5,
    "docs/how-it-chooses-tables.md": 1,
    "docs/integrations.md": 1,
    "docs/intervals-tables.md": 4,
    "docs/regret.md": 1,
    "docs/scale.md": 1,
    "docs/scaling.md": 1,
    "docs/server.md": 6,
    "docs/tables.md": 2,
    "docs/testing.md": 1,
}
"""How many blocks of a page say that they are not run. One more has to be written here, too."""
_COMMAND = re.compile(
    r"^    (?:CALL|SELECT|FROM|CREATE|INSERT|mwem-sql|pip|pytest|python3?|apt-get|import) ", re.MULTILINE
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=[pytest.mark.thorough] * (name not in FIRST))
        for name in BLOCKS
        if name not in APART and any(b.language in RUN for b in BLOCKS[name])
    ],
)
def test_a_page_does_what_it_shows(page: str) -> None:
    wrong = check(ROOT / page)
    assert not wrong, "\n\n".join(wrong)


def test_what_is_not_run_says_why_and_is_counted() -> None:
    reasons = {page: [block.reason for block in found if block.reason is not None] for page, found in BLOCKS.items()}
    assert {page: len(said) for page, said in reasons.items() if said} == NOT_RUN
    assert all(len(reason.split()) >= 3 for said in reasons.values() for reason in said)


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    """No output without a block that prints it, no other kind of fence, no command that hides in an indented block."""
    wrong = [
        f"{page}:{block.line}"
        for page, listed in BLOCKS.items()
        for block in listed
        if block.language not in RUN
        or (block.reason is None and block.note)
        or (block.shown is not None and block.shown.note not in {"", NOISE})
    ]
    assert wrong == []
    assert [page for page in BLOCKS if _COMMAND.search((ROOT / page).read_text(encoding="utf-8"))] == []


def anchors(path: Path) -> set[str]:
    """What a link may point to inside a page, as GitHub makes it from headings."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere() -> None:
    wrong = []
    for name in BLOCKS:
        page = ROOT / name
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            there = page.parent / path if path else page
            is_there = there.exists() and (not anchor or anchor in anchors(there))
            if not is_there and not target.startswith(("http:", "https:")):
                wrong.append(f"{name}: {target}")
    assert wrong == []


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in PAGES[1:]} - set(re.findall(r"\]\(([\w-]+\.md)", index)) == {"README.md"}


# The rules themselves.


def test_releases_of_pages_are_repeatable_and_say_private() -> None:
    """The same noise in every run of the test, and the words that a reader gets."""

    def released() -> tuple[list[int], bool]:
        with pages.repeatable(), mwem_sql.connect() as con:
            con.execute("CREATE TABLE t (a BOOLEAN NOT NULL); INSERT INTO t SELECT i % 2 = 0 FROM range(50) t(i)")
            made = mwem_sql.release(con, "t", mwem_sql.Workload.from_predicates(["a"]), 1.0)
            return made.measurements["values"].to_pylist(), made.private

    assert released() == released()
    assert released()[1] is True


SHOWN = "┌───┐\n│ n │\n├───┤\n│ 12 │\n└───┘\nmany words\n"


@pytest.mark.parametrize(
    ("printed", "note", "same"),
    [
        (SHOWN, "", True),
        (SHOWN.replace("───", "─────").replace("│ n │", "│   n   │"), "", True),
        (SHOWN.replace("12", "13"), "", False),
        (SHOWN.replace("12", "1,304"), NOISE, True),
        (SHOWN.replace("12", "-7"), NOISE, True),
        (SHOWN.replace("12", "1.5"), NOISE, False),
        (SHOWN.replace("12", "NULL"), NOISE, False),
        (SHOWN.replace("many", "few"), NOISE, False),
        (SHOWN + "more\n", NOISE, False),
        ("", NOISE, False),
    ],
)
def test_what_counts_as_shown(printed: str, note: str, same: bool) -> None:
    assert is_as_shown(printed, Block("text", note, SHOWN, 1, 0, 0)) is same


@pytest.mark.parametrize(
    ("printed", "same"),
    [
        ("a\nb\nc\nd\ne\n", True),
        ("a\nc\ne\n", True),
        ("a\ne\n", False),
        ("a\nc\nx\n", False),
        ("x\nc\ne\n", False),
        ("a\nd\nc\n", False),
    ],
)
def test_lines_that_are_left_out(printed: str, same: bool) -> None:
    assert is_as_shown(printed, Block("text", "", "a\n...\nc\n...\ne\n", 1, 0, 0)) is same


def test_a_page_that_claims_too_much_fails(tmp_path: Path) -> None:
    """A wrong number, a wrong word, an error that the page does not show, and one that it does not get."""
    page = tmp_path / "page.md"
    page.write_text(
        "```sql\nSELECT 1 AS one;\n```\n\n```text\n2\n```\n\n"
        "```python\nprint('yes', 3)\n```\n\n```text noise\nyes 4\n```\n\n"
        "```sql\nSELECT nothing;\n```\n\n"
        "```sh\ntrue\n```\n\n```text\nan error\n```\n"
    )
    assert [said.split(":")[1] for said in check(page)] == ["1", "17", "21"]
    assert pages.Path.cwd() != tmp_path


def test_a_text_belongs_to_the_block_straight_before_it() -> None:
    found = blocks("```sql\nSELECT 1;\n```\n\nwords\n\n```text\n1\n```\n")
    assert [block.language for block in found] == ["sql", "text"]
