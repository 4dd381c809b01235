"""The picture of docs/concepts.md: one release of docs/people.sql, from private rows over noisy counts to answers.

All numbers in it are real.

# writes docs/concepts.svg; tests/project/test_concepts.py fails where it says something else
python docs/concepts.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import mwem_sql

HERE = Path(__file__).resolve().parent
SEED = 4
"""So that the picture stays as it is. A release with a seed protects nobody; nobody in this table exists."""
EPSILON = 0.1
WIDTH, HEIGHT, TOP, LINE = 940, 290, 76, 22
STYLE = """
text { font: 13px ui-monospace, monospace; fill: #1c2430; } .title { font: bold 15px sans-serif; }
.note { font: 12.5px sans-serif; fill: #566; }
.head { fill: #566; } .box { fill: #f6f8fa; stroke: #9aa; } .secret { fill: #fdeeee; stroke: #c55; }
.open { fill: #eef7f0; stroke: #4a8; } .wall { stroke: #c55; stroke-dasharray: 6 5; stroke-width: 2; }
.arrow { stroke: #678; stroke-width: 2; fill: none; } .tip { fill: #678; } .noise { fill: #b03030; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .note, .head { fill: #9fb0bf; } .box { fill: #161b22; stroke: #566; }
.secret { fill: #2d1a1c; stroke: #e27474; } .open { fill: #14261c; stroke: #56b98a; }
.wall { stroke: #e27474; } .arrow { stroke: #8fa3b5; } .tip { fill: #8fa3b5; } .noise { fill: #ff8f8f; }
}
"""


def facts() -> dict[str, Any]:
    """What the picture shows."""
    con = mwem_sql.connect()
    con.execute((HERE / "people.sql").read_text(encoding="utf-8"))
    con.execute("CREATE TABLE workload AS SELECT ['sex', 'city'] AS group_by")
    mwem_sql.release(con, "people", "workload", EPSILON, seed=SEED, progress=False)
    answers = mwem_sql.compare(con, "people", "people_synthetic", "workload").to_pylist()
    rows = con.execute("SELECT age, sex, city, pay FROM people LIMIT 6").fetchall()
    synthetic = con.execute("SELECT sex, city FROM people_synthetic LIMIT 6").fetchall()
    (measured,) = con.execute("SELECT \"values\" FROM mwem.measurements WHERE name = 'sex, city'").fetchall()
    con.close()
    return {"rows": rows, "answers": answers, "synthetic": synthetic, "measured": measured[0]}


def picture(found: dict[str, Any]) -> str:
    """An SVG in four columns: rows, counts with noise, answers with intervals, synthetic rows."""
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="From'
            ' private rows to a release">'
        ),
        f"<style>{STYLE}</style>",
        *_box(10, 200, "secret", "1  private rows", "people: 10,000 rows"),
        *_box(240, 270, "secret", "2  your questions, counted", f"sex, city; noise for epsilon {EPSILON}"),
        *_box(560, 210, "open", "3  answers, and how sure", "95 of 100 have the truth in them"),
        *_box(790, 140, "open", "4  a table", "people_synthetic"),
        f'<line class="wall" x1="520" y1="14" x2="520" y2="{HEIGHT - 14}"/>',
        _text(513, HEIGHT - 18, "secret", "note", end=True)
        + _text(528, HEIGHT - 18, "public, once noise is in it", "note"),
    ]
    lines += _row(20, -1, "age sex city   pay", "head") + _row(250, -1, "cell      true noise", "head")
    lines += _row(570, -1, "answer   low     high", "head") + _row(800, -1, "sex city", "head")
    for k, row in enumerate(found["rows"]):
        lines += _row(20, k, f"{row[0]:>3} {row[1]:<3} {row[2]:<6} {row[3]:,}")
    for k, (row, noisy) in enumerate(zip(found["answers"], found["measured"], strict=True)):
        cell = " ".join(row["cell"])
        lines += _row(250, k, f"{cell:<8} {row['true_answer']:>5,.0f}")
        lines += _row(368, k, f"{noisy - row['true_answer']:>+4.0f}", "noise") + _row(416, k, f"= {noisy:,}")
        lines += _row(570, k, f"{row['answer']:>5,.0f}   {row['low']:>5,.0f} to {row['high']:>5,.0f}")
    for k, row in enumerate(found["synthetic"]):
        lines += _row(800, k, f"{row[0]:<3} {row[1]}")
    for x in (210, 526, 768):
        lines.append(f'<path class="arrow" d="M{x + 2},150 h16"/><path class="tip" d="M{x + 16},144 l9,6 l-9,6 z"/>')
    return "\n".join([*lines, "</svg>", ""])


def _box(x: int, width: int, kind: str, title: str, note: str) -> list[str]:
    return [
        f'<rect class="{kind}" x="{x}" y="50" width="{width}" height="{HEIGHT - 90}" rx="8"/>',
        _text(x, 24, title, "title"),
        _text(x, 42, note, "note"),
    ]


def _row(x: int, k: int, text: str, kind: str = "") -> list[str]:
    return [_text(x, TOP + LINE * (k + 1) - (4 if k < 0 else 0), text, kind)]


def _text(x: int, y: int, text: str, kind: str, *, end: bool = False) -> str:
    place = ' text-anchor="end"' if end else ""
    return f'<text xml:space="preserve" class="{kind}" x="{x}" y="{y}"{place}>{escape(text)}</text>'


if __name__ == "__main__":
    (HERE / "concepts.svg").write_text(picture(facts()), encoding="utf-8")
