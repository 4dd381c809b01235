"""Values that a release finds: which, at what cost, and what happens where something goes wrong on the way."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Connection, Open
from hypothesis import given, settings
from hypothesis import strategies as st

import mwem_sql
from mwem_sql.errors import BudgetError, EngineError, OptionError
from mwem_sql.kernel.scales import pure_rho, zcdp_epsilon, zcdp_rho
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session
from mwem_sql.releases import discovery, run, store
from mwem_sql.releases.plan import make_plan
from mwem_sql.releases.request import Request
from mwem_sql.scan import execution
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import LONGEST_TEXT, Unit
from mwem_sql.workload import Workload

CITIES = Workload.from_predicates(["city = 'Bonn'", "city LIKE 'B%'", "mood = 'low' AND city <> 'Bern'"])
ODD = ["Ba'sel; DROP TABLE visits --", "", " Bern", "bern", "BERN", "a\\b", "naïve", "nai\u0308ve", "日本", "🦀",
       "(other)", "NULL", "%", "x" * LONGEST_TEXT]  # fmt: skip


@pytest.fixture
def visits(con: Connection) -> Connection:
    con.execute(
        """
        CREATE TABLE visits (city VARCHAR, mood ENUM ('low', 'high') NOT NULL, person INTEGER NOT NULL);
        INSERT INTO visits SELECT CASE i % 10 WHEN 8 THEN NULL WHEN 9 THEN 'village ' || i ELSE
            ['Bern', 'Bern', 'Bern', 'Bern', 'Basel', 'Basel', 'Basel', 'Chur'][i % 10 + 1] END,
            ['low', 'high'][i % 2 + 1], i // 2 FROM range(20000) t(i);
        CREATE TABLE visits_domain AS SELECT 'city' AS attribute, true AS discover;
        """
    )
    return con


def stored(con: Connection, output: str = "visits_synthetic") -> Any:
    return store.load(con, output, Session.of(con).place, "test").domain["city"]


def release(con: Connection, workload: object = CITIES, epsilon: float = 1, **options: Any) -> Any:
    return mwem_sql.release(con, "visits", workload, epsilon, **{"delta": 1e-6, **options})


def test_the_values_that_many_rows_have_are_found_once(visits: Connection) -> None:
    made = release(visits)
    attribute = stored(visits)
    assert attribute.values == ("Bonn", "Bern", "Basel", "Chur")
    assert attribute.open and attribute.nullable and not attribute.discover
    assert "village" not in visits.execute("SELECT CAST(domain AS VARCHAR) FROM mwem.releases").fetchone()[0]
    assert {city for (city,) in visits.execute("SELECT DISTINCT city FROM visits_synthetic").fetchall()} >= {
        None, "Bern", "Basel", "Chur"
    }  # fmt: skip
    assert release(visits).reused and not made.reused
    ((entries, epsilon, delta),) = visits.execute(
        "SELECT count(*), any_value(epsilon_exact), any_value(delta_exact) FROM mwem.ledger"
    ).fetchall()
    assert (entries, epsilon, delta) == (1, "1", "1/1000000")
    visits.execute("DROP TABLE visits; DROP TABLE visits_domain")
    answers = mwem_sql.answer(visits, "visits_synthetic", CITIES).to_pylist()
    assert answers[0]["answer"] < 100
    assert 10_000 < answers[1]["answer"] < 18_000


def test_it_is_charged_as_a_whole_and_the_rest_is_what_is_left(visits: Connection) -> None:
    plan = make_plan(Session.of(visits), Request.parse("visits", CITIES, 1, {"delta": 1e-6}))
    found = plan.discovery
    assert found is not None
    rest = plan.schedule.composition.budget
    assert found.threshold.budget.epsilon + rest.epsilon == 1
    assert found.threshold.budget.delta + rest.delta == Fraction(1, 10**6)
    assert rest == found.rest
    release(visits)
    ((rho, failure),) = visits.execute("SELECT rho_exact, failure_exact FROM mwem.ledger").fetchall()
    assert Fraction(failure) == found.threshold.failure > 0
    most = {"pure": pure_rho(rest.epsilon), "zcdp": zcdp_rho(rest.epsilon, rest.delta)}[plan.schedule.kind]
    assert Fraction(rho) == most + found.threshold.rho


def test_what_it_needs_is_refused_before_the_charge(visits: Connection) -> None:
    with pytest.raises(OptionError, match=r"delta \(0\) must be above 0 to discover the values of city"):
        release(visits, delta=0)
    release(visits, Workload.from_predicates(["mood = 'low'"]), delta=0)  # it does not ask about the city
    assert visits.execute("SELECT count(*) FROM mwem.ledger").fetchone() == (1,)


def test_values_that_are_listed_stay_and_others_come_behind(visits: Connection) -> None:
    visits.execute("DROP TABLE visits_domain")
    visits.execute(
        "CREATE TABLE visits_domain AS SELECT 'city' AS attribute, ['Sion', 'Bern'] AS \"values\", true AS discover"
    )
    release(visits)
    assert stored(visits).values == ("Sion", "Bern", "Bonn", "Basel", "Chur")


def test_nothing_is_found_in_a_small_table(visits: Connection) -> None:
    visits.execute("DELETE FROM visits WHERE person > 20")
    release(visits, Workload.from_predicates(["city LIKE 'B%'"]))
    assert stored(visits).values == ()
    assert visits.execute("SELECT count(*) FROM visits_synthetic WHERE city IS NOT NULL").fetchone() == (0,)
    visits.execute("CREATE TABLE asked AS SELECT ['city', 'mood'] AS group_by")
    ((warning,),) = visits.execute(
        "SELECT warning FROM mwem_release('visits', asked, 1, delta := 1e-6, output := 'o')"
    ).fetchall()
    assert "no value of city was found: raise epsilon or delta, or list the values in the domain table" in warning


def test_a_condition_that_only_values_to_be_found_can_meet(visits: Connection) -> None:
    release(visits, Workload.from_predicates(["city LIKE 'B%'"]))
    assert 13_500 < mwem_sql.count(visits, "visits_synthetic", "city LIKE 'B%'") < 14_500


def test_a_rule_names_values_too(con: Connection) -> None:
    """The rule holds in every row, whether its value is found or not; and says nothing of other values."""
    con.execute(
        """CREATE TABLE visits (city VARCHAR NOT NULL, mood ENUM ('low', 'high') NOT NULL,
            CHECK (city <> 'Bern' OR mood = 'low'), CHECK (city <> 'Nowhere' OR mood = 'high'));
        INSERT INTO visits SELECT ['Bern', 'Chur', 'Basel'][i % 3 + 1], ['low', 'high', 'low'][i % 3 + 1]
        FROM range(9000) t(i);
        CREATE TABLE visits_domain AS SELECT 'city' AS attribute, true AS discover"""
    )
    release(con, Workload.marginals(_domain(con), 2))
    assert stored(con).values == ("Bern", "Nowhere", "Basel", "Chur")
    assert con.execute("SELECT count(*) FROM visits_synthetic WHERE city = 'Bern' AND mood = 'high'").fetchone() == (0,)
    assert mwem_sql.count(con, "visits_synthetic", "city = 'Bern' AND mood = 'high'") == 0
    assert mwem_sql.count(con, "visits_synthetic", "city = 'Chur' AND mood = 'high'") > 2900


def test_odd_texts(con: Connection) -> None:
    """Whatever a text looks like, it is a value as any other; what SQL cannot write, or is too long, is not."""
    left_out = ["nul\0", "y" * (LONGEST_TEXT + 1)]
    con.execute("CREATE TABLE visits (city VARCHAR COLLATE NOCASE)")
    con.executemany("INSERT INTO visits SELECT ? FROM range(400)", [[text] for text in ODD])
    con.execute("INSERT INTO visits SELECT concat('nul', chr(0)) FROM range(400)")
    con.execute("INSERT INTO visits SELECT ? FROM range(400)", [left_out[1]])
    con.execute("CREATE TABLE visits_domain AS SELECT 'city' AS attribute, true AS discover")
    release(con, Workload.marginals(_domain(con), 1), 5)
    assert stored(con).values == tuple(sorted(ODD, key=str.encode))
    rows = dict(
        con.execute(
            "SELECT city, count(*) FROM (SELECT encode(city) AS city FROM visits_synthetic) GROUP BY ALL"
        ).fetchall()
    )
    for text in ODD:
        assert abs(rows.get(text.encode(), 0) - 400) < 60, text


def _domain(con: Connection) -> mwem_sql.Domain:
    return mwem_sql.Domain.from_schema(con, "visits")


def test_values_without_room_are_left_out(visits: Connection) -> None:
    visits.execute("INSERT INTO visits SELECT 'town ' || (i % 40), 'low', i FROM range(40000) t(i)")
    workload = Workload.marginals(_domain(visits), 2)
    release(visits, workload, 5, max_cells=60)
    assert 10 <= len(stored(visits).values) < 43


def test_a_predicate_that_fails_on_a_value_does_not_lose_the_charge(visits: Connection) -> None:
    """It was not refused before, because no value that is listed fails it: the charge would be lost."""
    release(
        visits,
        Workload.from_predicates(
            ["CAST(CASE WHEN city LIKE 'C%' THEN city ELSE '1' END AS INTEGER) = 1 AND mood = 'low'"]
        ),
    )
    assert "Chur" not in stored(visits).values
    assert visits.execute("SELECT status FROM mwem.ledger").fetchall() == [("done",)]


@pytest.mark.parametrize("reading", ["value_counts", "true_answers"])
def test_a_failure_on_the_way_is_charged_once_and_goes_on(
    visits: Connection, monkeypatch: pytest.MonkeyPatch, reading: str
) -> None:
    def fail(*_: object) -> None:
        raise EngineError("engine: stopped")

    with monkeypatch.context() as patch:
        patch.setattr(execution, reading, fail)
        with pytest.raises(EngineError):
            release(visits)
    assert visits.execute("SELECT epsilon, delta, status FROM mwem.ledger").fetchall() == [(1.0, 1e-6, "failed")]
    release(visits)
    assert visits.execute("SELECT epsilon, delta, status FROM mwem.ledger").fetchall() == [(1.0, 1e-6, "done")]


DIES = """
import os, signal, sys
import mwem_sql
from mwem_sql.releases import run
run.with_values = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
con = mwem_sql.connect(sys.argv[1])
con.execute("CREATE TABLE visits AS SELECT 'Bern' AS city FROM range(999)")
con.execute("CREATE TABLE visits_domain AS SELECT 'city' AS attribute, true AS discover; CHECKPOINT")
mwem_sql.release(con, "visits", mwem_sql.Workload.from_predicates(["city LIKE 'B%'"]), 1, delta=1e-6)
"""
"""Killed when the values are found, and before anything else is read."""


def test_a_process_that_dies_when_values_are_found_was_charged_once(tmp_path: Path, connect: Open) -> None:
    path = str(tmp_path / "visits.duckdb")
    died = subprocess.run([sys.executable, "-c", DIES, path], check=False, capture_output=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr
    con = connect(path)
    charged = con.execute("SELECT epsilon, delta, status FROM mwem.ledger").fetchall()
    assert charged == [(1.0, 1e-6, "open")]
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'visits_synthetic'").fetchone() == (0,)
    workload = Workload.from_predicates(["city LIKE 'B%'"])
    ((drawn,),) = con.execute('SELECT decode("values") FROM mwem.draws').fetchall()
    assert list(json.loads(drawn)) == ["Bern"]
    release(con, workload)
    assert con.execute("SELECT epsilon, delta, status FROM mwem.ledger").fetchall() == [(1.0, 1e-6, "done")]
    assert con.execute("FROM mwem.draws").fetchall() == []
    assert stored(con).values == ("Bern",)


def test_nothing_is_read_before_the_charge(visits: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for name in ("value_counts", "true_answers"):
        whole = getattr(execution, name)
        monkeypatch.setattr(
            execution,
            name,
            lambda *args, name=name, whole=whole: (
                seen.extend([name, *_statuses(visits)]),
                whole(*args),
            )[1],
        )
    release(visits)
    assert seen == ["value_counts", "open", "true_answers", "open"]


def _statuses(con: Connection) -> list[str]:
    return [status for (status,) in con.cursor().execute("SELECT status FROM mwem.ledger").fetchall()]


def test_a_cap_counts_the_part_of_delta_that_no_rho_covers(visits: Connection) -> None:
    visits.execute("CALL mwem_budget('visits', 2, delta := 1e-6)")
    release(visits, epsilon=0.5, delta=4e-7)
    ((spent, rho, failure),) = visits.execute(
        "SELECT s.epsilon_spent, l.rho_exact, l.failure_exact FROM mwem_ledger() s, mwem.ledger l"
    ).fetchall()
    assert spent == zcdp_epsilon(Fraction(rho), Fraction(1, 10**6) - Fraction(failure))
    assert Fraction(failure) == Fraction(2, 10**7)
    for version in itertools.count():
        try:
            release(visits, epsilon=0.1, delta=4e-7, version=str(version), output=f"o{version}")
        except BudgetError:
            break
    assert version == 3  # 2e-7 each: five would be the cap's whole delta, and four leave none for rho
    with pytest.raises(BudgetError, match=r"does not fit the cap"):
        release(visits, epsilon=0.01, delta=9e-7, output="last")


def test_a_cap_without_delta_refuses(visits: Connection) -> None:
    visits.execute("CALL mwem_budget('visits', 2)")
    with pytest.raises(BudgetError, match=r"delta \(1e-06\) does not fit the cap on visits"):
        release(visits)


def test_the_plan_says_what_is_found_and_what_it_takes(visits: Connection) -> None:
    visits.execute("CREATE TABLE asked AS SELECT ['city', 'mood'] AS group_by")
    rows = dict(visits.execute("FROM mwem_plan('visits', asked, 1, delta := 1e-6)").fetchall())
    assert rows["discovers"].startswith(
        "city: values that fewer than about 140 rows have stay '(other)'; takes epsilon 0.1"
    )
    assert "GROUP BY" in rows["discovery"]
    rows = dict(
        visits.execute(
            "FROM mwem_plan('visits', asked, 1, delta := 1e-6, unit := 'person', rows_per_unit := 2)"
        ).fetchall()
    )
    assert "different person have stay" in rows["discovers"]
    assert visits.execute("SELECT attribute, discover FROM mwem_domain('visits') WHERE discover").fetchall() == [
        ("city", True)
    ]


pairs = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "a", "A", "b", "ä", ""])), max_size=20)


@settings(max_examples=30)
@given(pairs, st.lists(st.sampled_from([None, "a", "A", "b", "ä", "c"]), max_size=12), st.integers(1, 4))
def test_a_unit_changes_as_many_counts_as_it_has_rows_each_by_one(
    rows: list[tuple[int, str | None]], added: list[str | None], used: int
) -> None:
    """Neighbours: all rows of one unit more."""
    both = [counts(rows, used), counts([*rows, *((9, text) for text in added)], used)]
    changes = {text: both[1][text] - both[0][text] for text in both[1] if both[1][text] != both[0][text]}
    assert set(both[0]) <= set(both[1])
    assert set(changes.values()) <= {1}
    assert len(changes) == min(used, len({text for text in added if text is not None}))


def counts(rows: list[tuple[int, str | None]], used: int) -> Counter[str]:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (u INTEGER, v VARCHAR COLLATE NOCASE)")
        if rows:
            con.executemany("INSERT INTO t VALUES (?, ?)", rows)
        dialect = DIALECTS["duckdb"]
        statement = dialect.sql(dialect.value_counts(Name("memory", "main", "t"), "v", Unit("u", used, "INTEGER")))
        return Counter(dict(con.execute(statement).fetchall()))


def test_units_are_counted_and_not_rows(visits: Connection) -> None:
    """One person with very many rows does not make a value public."""
    visits.execute("INSERT INTO visits SELECT 'hermitage', 'low', 77777 FROM range(100000)")
    release(visits, unit="person", rows_per_unit=2)
    assert stored(visits).values == ("Bonn", "Bern", "Basel", "Chur")
    release(visits, output="by_row")
    assert "hermitage" in stored(visits, "by_row").values


def test_the_least_frequent_are_left_out_first() -> None:
    found = {"c": {"b": 5, "a": 9, "ä": 7}, "d": {}}
    assert discovery.most_frequent(found, 2) == {"c": ["a", "ä"], "d": []}
    words = discovery.warning_of(found, {"c": ["a"], "d": []})
    assert words is not None and words.startswith("2 of 3 values of c that were found are left out")
    assert discovery.warning_of({"c": found["c"]}, {"c": ["a", "b", "ä"]}) is None
    assert run.MOST_VALUES == discovery.MOST_VALUES
