"""Rows that were left out because their unit has more of them: counted with sensitivity 1 for each unit, and said
wherever a count is.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from chance import examples
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st

import mwem_sql
from mwem_sql.algebra.measurement import NoisyValues
from mwem_sql.loop.plan import SHARES
from mwem_sql.platform.session import Session
from mwem_sql.releases import summary
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan.execution import true_answers
from mwem_sql.workload import Workload

VISITS = """
CREATE TABLE visit (person VARCHAR, seen BOOLEAN NOT NULL);
INSERT INTO visit SELECT 'p' || i % 200, i % 2 = 0 FROM range(1600) r(i);
INSERT INTO visit SELECT 'single' || i, true FROM range(50) r(i);
INSERT INTO visit SELECT NULL, true FROM range(1000);
CREATE TABLE asked AS SELECT 'seen' AS predicate;
"""
OPTIONS = "unit := 'person', rows_per_unit := {}"


def measurement(whole: int, cut: int, scale: float) -> NoisyValues:
    return NoisyValues(values=np.array([whole, cut]), kind="pure", scale=scale, variance=2 * scale**2)


@pytest.mark.parametrize(
    ("rows", "more"), [(3, "about 80 in 100 have more (within 1)"), (8, "fewer than 1 in 100 have more")]
)
def test_where_it_is_said(con: Connection, rows: int, more: str) -> None:
    """At this epsilon the noise is below one unit: 200 of 250 persons have eight rows. Rows without a person are of
    none.
    """
    con.execute(VISITS)
    (made,) = con.execute(f"SELECT warning FROM mwem_release('visit', asked, 2000, {OPTIONS.format(rows)})").fetchall()
    says = f"at most {rows} rows of each person were used, and all counts are of these rows: {more}"
    assert (says in made[0]) == (rows == 3)
    (note,) = con.execute("SELECT note FROM mwem_answer('visit_synthetic', asked)").fetchall()
    assert note == (says,)
    (comment,) = con.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'visit_synthetic'").fetchall()
    assert says[1:] in comment[0]
    assert con.execute("SELECT round(units_cut, 2) FROM mwem.releases").fetchall() == [(0.8 if rows == 3 else 0.0,)]
    con.execute("CALL mwem_release('visit', asked, 2000, output := 'by_row')")
    assert con.execute("SELECT note FROM mwem_answer('by_row', asked)").fetchall() == [(None,)]


def test_in_report_and_card(con: Connection, tmp_path: Path) -> None:
    con.execute(VISITS)
    con.execute(f"CALL mwem_release('visit', asked, 2000, {OPTIONS.format(3)})")
    con.execute(f"CALL mwem_report('visit_synthetic', '{tmp_path}/page.html')")
    con.execute(f"CALL mwem_export('visit_synthetic', '{tmp_path}/visit.parquet')")
    says = (
        "At most 3 rows of each person were used, and all counts are of these rows: about 80 in 100 have more "
        "(within 1)."
    )
    assert says in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert any(says in path.read_text(encoding="utf-8") for path in tmp_path.glob("*.md"))


def counts_of_units(con: Connection, rows: int) -> list[int]:
    session = Session.of(con)
    plan = make_plan(
        session,
        Request.parse("visit", Workload.from_predicates(["seen"]), 1, {"unit": "person", "rows_per_unit": rows}),
    )
    return true_answers(session.cursor(), plan.pushdown)[-2:].tolist()


@settings(max_examples=examples(32))
@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 9))
def test_a_person_moves_the_counts_by_one(sizes: list[int], rows: int, more: int) -> None:
    """Neighbours differ by all rows of one person: what enters the noise moves by 1 at most, however many rows that
    are.
    """
    with mwem_sql.connect() as con:
        con.execute("CREATE TABLE visit (person VARCHAR, seen BOOLEAN NOT NULL)")
        for person, size in enumerate(sizes):
            con.execute(f"INSERT INTO visit SELECT 'p{person}', true FROM range({size})")
        before = counts_of_units(con, rows)
        assert before == [sum(0 < size <= rows for size in sizes), sum(size > rows for size in sizes)]
        con.execute(f"INSERT INTO visit SELECT 'new', false FROM range({more})")
        after = counts_of_units(con, rows)
        assert sum(abs(one - other) for one, other in zip(before, after, strict=True)) == min(more, 1)


def test_its_share_is_part_of_the_budget(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise is that of sensitivity 1, and not of the three rows of a person."""
    seen: list[NoisyValues | None] = []

    def facts(units: NoisyValues | None) -> dict[str, float | None]:
        seen.append(units)
        return {"units_cut": None, "units_cut_within": None}

    monkeypatch.setattr(summary, "unit_facts", facts)
    con.execute(VISITS)
    con.execute(f"CALL mwem_release('visit', asked, 2, {OPTIONS.format(3)})")
    assert seen[0] is not None
    assert seen[0].share == 2 * SHARES["units"]
    assert seen[0].scale == pytest.approx(1 / float(seen[0].share))


@pytest.mark.parametrize(
    ("whole", "cut", "scale", "says"),
    [
        (4000, 96_000, 5.0, "about 96 in 100 have more (within 1)"),
        (1000, 1000, 50.0, "about 50 in 100 have more (within 9)"),
        (99_990, 10, 5.0, "fewer than 1 in 100 have more"),
        (40, 20, 50.0, "the budget was too small to tell how many have more"),
        (-5, -3, 1.0, "the budget was too small to tell how many have more"),
    ],
)
def test_the_share_and_how_far_it_is_off(whole: int, cut: int, scale: float, says: str) -> None:
    facts = {"unit": "person", "rows_per_unit": 3, **summary.unit_facts(measurement(whole, cut, scale))}
    assert str(summary.rows_used(facts)).endswith(says)


def test_the_share_is_covered() -> None:
    """95 of 100 times at least the true share is within what is said; it is not said to be far wider than it is.

    It is the share with both counts off as far as either may be 39 of 40 times, each in the worse direction: by log(40)
    scales of 1,000 units. The noise of one count alone, of which 0.7 counts, is off by log(20) scales 5 of 100 times.
    """
    noise = np.random.default_rng(3)
    scale, truth = 50.0, np.array([300, 700])
    draws = truth + np.round(noise.laplace(0, scale, (2000, 2))).astype(np.int64)
    found = [summary.unit_facts(measurement(*draw, scale)) for draw in draws.tolist()]
    off = [abs(own["units_cut"] - 0.7) for own in found]
    inside = [own["units_cut_within"] >= error for own, error in zip(found, off, strict=True)]
    assert 0.95 <= np.mean(inside) < 1
    wider = np.median([own["units_cut_within"] for own in found]) / np.quantile(off, 0.95)
    assert 1 < wider < math.log(40) / (0.7 * math.log(20))
