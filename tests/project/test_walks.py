"""The walks of docs/dev are what happens: every function that they name is called, in their order."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType

import pytest

import mwem_sql

PAGES = Path(__file__).resolve().parents[2] / "docs" / "dev"
_STEP = re.compile(r"^\| `([\w.]+)` \|", re.MULTILINE)
_NOUN = re.compile(r"`([A-Z]\w+)`")


@pytest.fixture(scope="module")
def calls() -> dict[CodeType, int]:
    """When each function of the package was called first, in a release and an answer."""
    seen: dict[CodeType, int] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code not in seen:
            seen[frame.f_code] = len(seen)

    with mwem_sql.connect() as con:
        con.execute(
            """CREATE TYPE sex AS ENUM ('Female', 'Male');
               CREATE TABLE adult (age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90), sex sex NOT NULL);
               INSERT INTO adult SELECT 17 + range % 74, if(range % 2 = 0, 'Female', 'Male') FROM range(500);
               CREATE TABLE workload AS
               SELECT unnest(['age >= 65 AND sex = ''Female''', 'age < 30',
               'sex = ''Male'' AND age < 20']) AS predicate"""
        )
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            made = mwem_sql.release(con, "adult", "workload", 0.5, rounds=2, certify=0.02, seed=1)
            mwem_sql.answer(con, made.output, "workload")
        finally:
            sys.setprofile(before)
    return seen


@pytest.mark.parametrize("page", ["predicate.md", "measurement.md"])
def test_a_walk_is_what_happens(page: str, calls: dict[CodeType, int]) -> None:
    steps = _STEP.findall((PAGES / page).read_text(encoding="utf-8"))
    assert len(steps) >= 10
    times = {step: calls.get(_code(step)) for step in steps}
    assert [step for step, time in times.items() if time is None] == []
    assert steps == sorted(steps, key=lambda step: times[step] or 0)


@pytest.mark.parametrize("page", ["predicate.md", "measurement.md"])
def test_every_noun_of_a_walk_is_a_type(page: str) -> None:
    nouns = set(_NOUN.findall((PAGES / page).read_text(encoding="utf-8")))
    assert nouns - set(_types()) == set()


def _code(step: str) -> CodeType:
    """The code of `room.module.Class.method`."""
    parts = step.split(".")
    module = next(
        k
        for k in range(len(parts) - 1, 0, -1)
        if (PAGES.parents[1] / "mwem_sql" / Path(*parts[:k])).with_suffix(".py").is_file()
    )
    found: object = import_module(".".join(["mwem_sql", *parts[:module]]))
    for name in parts[module:]:
        found = getattr(found, name)
    found = getattr(found, "__func__", found)
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return found.__code__  # type: ignore[attr-defined]


def _types() -> Iterator[str]:
    for path in (PAGES.parents[1] / "mwem_sql").rglob("*.py"):
        yield from re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
