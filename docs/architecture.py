"""The picture of docs/architecture.md, drawn from the real imports.

Also the rule that they follow, which tests/project/test_architecture.py checks.

python docs/architecture.py        # writes docs/architecture.svg
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mwem_sql"

# From the ground up: a room may import from the rooms that it names, and from its own. What is not named is not
# allowed.
RULE: dict[str, tuple[str, ...]] = {
    "errors": (),
    "algebra": ("errors",),
    "language": ("errors",),
    "platform": ("language", "errors"),
    "boundary": ("platform", "language", "errors"),
    "domains": ("boundary", "platform", "language", "algebra", "errors"),
    "workload": ("domains", "platform", "language", "errors"),
    "kernel": ("algebra", "errors"),
    "accounting": ("kernel", "boundary", "platform", "language", "errors"),
    "compile": ("workload", "domains", "algebra", "platform", "language", "errors"),
    "model": ("algebra", "errors"),
    "scan": ("compile", "domains", "algebra", "boundary", "platform", "language", "errors"),
    "loop": ("kernel", "model", "domains", "algebra", "errors"),
    "synthesis": ("model", "domains", "algebra", "errors"),
    "judge": ("loop", "kernel", "compile", "workload", "domains", "algebra", "errors"),
    "releases": (
        "judge", "loop", "synthesis", "model", "scan", "kernel", "compile", "accounting", "boundary", "domains",
        "algebra", "workload", "platform", "language", "errors",
    ),
    "explain": (
        "releases", "judge", "loop", "scan", "kernel", "compile", "accounting", "boundary", "domains", "workload",
        "platform", "language", "errors",
    ),
    "reporting": (
        "explain", "releases", "judge", "model", "domains", "algebra", "workload", "platform", "language", "errors",
    ),
    "surface": (
        "reporting", "explain", "releases", "judge", "scan", "kernel", "accounting", "boundary", "domains", "workload",
        "platform", "language", "errors",
    ),
    "server": ("surface", "releases", "platform", "language", "errors"),
    "cli": ("server", "surface", "explain", "releases", "platform", "language", "errors"),
    "dbt": ("surface",),
}  # fmt: skip
# How the rooms lie in the picture, top floor first, and what is written on their doors.
FLOORS = (
    ("dbt", "cli"), ("server",), ("surface",), ("reporting",), ("explain",), ("releases",), ("judge", "synthesis"),
    ("loop", "scan"), ("model", "compile", "accounting"), ("workload", "kernel"), ("domains",), ("boundary",),
    ("algebra", "platform"), ("errors", "language"),
)  # fmt: skip
DOORS = {
    "surface": "SQL functions and Python API", "server": "analysts' statements, users",
    "cli": "the shell", "dbt": "a plugin of dbt-duckdb",
    "reporting": "a page and files for people", "explain": "the plan in words, compare",
    "releases": "plan, run, store, answer",
    "judge": "how far answers may be off", "loop": "the loop, what it measures", "synthesis": "rows from the state",
    "scan": "SQL for engines, true answers", "kernel": "noise, scales, budgets", "model": "the factored state",
    "compile": "predicates to queries", "accounting": "accounts, caps, ledger", "workload": "what is asked",
    "domains": "public values, classes", "algebra": "queries and tables as arrays", "boundary": "what may be private",
    "platform": "DuckDB as we talk to it", "language": "the SQL of a workload", "errors": "one tree of errors",
}  # fmt: skip
WIDTH, HEIGHT, WIDE, HIGH = 800, 1000, 200, 46


class Edge(NamedTuple):
    """An import: the module, what it imports, and the rooms of both."""

    module: str
    imported: str
    room: str
    other: str


def room_of(module: str) -> str:
    """`mwem_sql.model.tree` is in model; a module beside the folders is a room of its own."""
    return module.split(".")[1]


@cache
def edges() -> tuple[Edge, ...]:
    """All imports from one room to another, by module; those of the package's own front door are left out."""
    return tuple(_edges())


def _edges() -> Iterator[Edge]:
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if module == "mwem_sql":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for imported in _names(node):
                if imported.startswith("mwem_sql.") and room_of(imported) != room_of(module):
                    yield Edge(module, imported, room_of(module), room_of(imported))


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        # `from mwem_sql import errors` names a room, `from mwem_sql.model import tree` is in one already.
        return [f"mwem_sql.{alias.name}" for alias in node.names] if node.module == "mwem_sql" else [node.module]
    return []


def picture() -> str:
    """An SVG: rooms with their modules, and an arrow for every pair of rooms of which one imports from the other."""
    places = {
        room: ((number + 1) * WIDTH / (len(floor) + 1), 50 + level * (HEIGHT - 90) / (len(FLOORS) - 1))
        for level, floor in enumerate(FLOORS)
        for number, room in enumerate(floor)
    }
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
            ' font-size="12">'
        ),
        (
            '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto"><path d="M0,0 L6,3'
            ' L0,6 z" fill="#888"/></marker></defs>'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    pairs = sorted({(edge.room, edge.other) for edge in edges() if edge.other != "errors"})
    for room, other in pairs:
        (x, y), (u, v) = places[room], places[other]
        lines.append(
            f'<line x1="{x:.0f}" y1="{y + HIGH / 2:.0f}" x2="{u:.0f}" y2="{v - HIGH / 2:.0f}" stroke="#bbb"'
            ' marker-end="url(#tip)"/>'
        )
    for room, (x, y) in places.items():
        modules = len(list((PACKAGE / room).glob("[!_]*.py"))) or 1
        colour = "#ffe3e3" if room in {"scan", "kernel"} else "#eef3fa"
        lines += [
            (
                f'<rect x="{x - WIDE / 2:.0f}" y="{y - HIGH / 2:.0f}" width="{WIDE}" height="{HIGH}" rx="6"'
                f' fill="{colour}" stroke="#456"/>'
            ),
            (
                f'<text x="{x:.0f}" y="{y - 4:.0f}" text-anchor="middle" font-weight="bold" fill="#123">{room}'
                f" ({modules})</text>"
            ),
            f'<text x="{x:.0f}" y="{y + 14:.0f}" text-anchor="middle" fill="#345">{escape(DOORS[room])}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    (ROOT / "docs" / "architecture.svg").write_text(picture(), encoding="utf-8")
