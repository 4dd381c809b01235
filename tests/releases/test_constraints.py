"""Releases with public totals: answers equal them, contradictions cost nothing, and what follows is not measured."""

from __future__ import annotations

import itertools

import duckdb
import numpy as np
import pytest
from chance import examples
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st

import mwem_sql
from mwem_sql.errors import CellsError, DomainError, MwemError
from mwem_sql.platform.session import Session
from mwem_sql.releases.plan import Plan, make_plan
from mwem_sql.releases.request import Request
from mwem_sql.workload import Workload

SIZES = {"a": 4, "b": 3, "c": 9, "d": 2}
COLUMNS = ", ".join(f"{name} UTINYINT NOT NULL CHECK ({name} < {size} AND {name} >= 0)" for name, size in SIZES.items())
PAIRS = Workload.from_rows({"group_by": list(pair)} for pair in itertools.combinations(SIZES, 2))


@pytest.fixture
def votes(con: Connection) -> Connection:
    load(con, np.random.default_rng(0), 900)
    return con


def load(con: duckdb.DuckDBPyConnection, generator: np.random.Generator, rows: int) -> None:
    con.execute(f"CREATE TABLE t ({COLUMNS})")
    codes = {name: (generator.random(rows) ** 2 * size).astype(int).tolist() for name, size in SIZES.items()}
    con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [list(row) for row in zip(*codes.values(), strict=True)])


def known(con: duckdb.DuckDBPyConnection, *selects: str) -> None:
    con.execute(f"CREATE OR REPLACE TABLE t_known AS {' UNION ALL BY NAME '.join(selects)}")


def plan_of(con: duckdb.DuckDBPyConnection, workload: Workload = PAIRS, epsilon: float = 1, **options: object) -> Plan:
    return make_plan(Session.of(con), Request.parse("t", workload, epsilon, options))


PREDICATES = ("c < 4", "a = 1 OR b = 2", "d = 1", "c BETWEEN 2 AND 6 AND a <> 0", "b = 0", "c % 2 = 0", "a + b < 3")
SETS = ("a", "b", "a, d", "c, d", "a, b", "d")
MODES = (
    {}, {"delta": 1e-6}, {"rounds": 3}, {"average": True, "rounds": 3}, {"fit": "replay", "rounds": 3},
    {"start": "histogram"}, {"total": 400}, {"certify": 0}, {"rows": 55},
)  # fmt: skip


@settings(max_examples=examples(25))
@given(
    st.integers(0, 2**32), st.sets(st.sampled_from(PREDICATES), max_size=3), st.sets(st.sampled_from(SETS), max_size=2),
    st.booleans(), st.sampled_from(MODES),
)  # fmt: skip
def test_answers_are_the_totals_whatever_else_is_measured(
    seed: int, predicates: set[str], sets: set[str], has_all: bool, mode: dict[str, object]
) -> None:
    """To the last digit, without an interval; in rows within rounding."""
    with mwem_sql.connect() as con:
        load(con, np.random.default_rng(seed), 400)
        selects = [f"SELECT '{text}' AS predicate, count(*) AS rows FROM t WHERE {text}" for text in sorted(predicates)]
        selects += [f"SELECT {names}, count(*) AS rows FROM t GROUP BY ALL" for names in sorted(sets)]
        selects += ["SELECT count(*) AS rows FROM t"] * has_all
        if not selects:
            return
        known(con, *selects)
        made = mwem_sql.release(con, "t", PAIRS, 0.3, seed=seed % 2**50, **mode)
        listed = con.execute("SELECT predicate, rows FROM mwem_known('t') WHERE rows IS NOT NULL").fetchall()
        asked = Workload.from_predicates([text for text, _ in listed if text is not None] or ["a = 0"])
        wanted = [rows for text, rows in listed if text is not None]
        if wanted:
            found = mwem_sql.answer(con, made.output, asked).to_pylist()
            assert [(row["answer"], row["low"], row["high"]) for row in found] == [(rows,) * 3 for rows in wanted]
            assert {row["measured"] for row in found} == {"directly"}
        if "rows" in mode:
            return
        states = 4 if "average" in mode else 1
        for text, rows in listed:
            where = "" if text is None else f" WHERE {text}"
            (drawn,) = con.execute(f"SELECT count(*) FROM {made.output}{where}").fetchone()
            columns = sum(f"{name} " in f"{text} ".replace('"', "") for name in SIZES)
            # A marginal of one column ends up within 1, a joint one within 1 for each class of the first column.
            assert abs(drawn - rows) <= states * (1 if columns < 2 else 9)


@pytest.mark.parametrize(
    "wrong",
    [
        "SELECT 'a = 0' AS predicate, 5000 AS rows",
        "SELECT 'a = 0 AND b = 1' AS predicate, 4000 AS rows",
        "SELECT 'a = 4' AS predicate, 1 AS rows",
        "SELECT 'a = 0 AND d = 0' AS predicate, 600 AS rows UNION ALL SELECT 'b = 0 AND d = 1', 600",
        "SELECT 'a = 1 AND b = 1' AS predicate, 3 AS rows",  # the rule
        "SELECT -1 AS rows",
    ],
)
def test_a_contradiction_is_refused_and_not_charged(votes: Connection, wrong: str) -> None:
    votes.execute("CREATE TABLE t_rules AS SELECT 'a <> 1 OR b = 0' AS rule")
    known(votes, "SELECT 900 AS rows", wrong)
    for call in (mwem_sql.plan, mwem_sql.release):
        with pytest.raises(DomainError, match=r"^known: "):
            call(votes, "t", PAIRS, 1.0)
    assert votes.execute("SELECT count(*) FROM mwem_ledger()").fetchone() == (0,)
    known(votes, "SELECT 900 AS rows")
    mwem_sql.release(votes, "t", PAIRS, 1.0, known="t_known")


def test_totals_around_a_circle_contradict_each_other_only_together(votes: Connection) -> None:
    """Each two of them are true of some table."""
    same = "SELECT '{0} < 1 AND {1} < 1 OR {0} >= 1 AND {1} >= 1' AS predicate, {2} AS rows"
    known(votes, "SELECT 900 AS rows", same.format("a", "b", 900), same.format("b", "d", 900), same.format("a", "d", 0))
    with pytest.raises(DomainError, match="no table has them all"):
        plan_of(votes)
    known(votes, "SELECT 900 AS rows", same.format("a", "b", 900), same.format("b", "d", 900))
    plan_of(votes)


def test_what_follows_from_totals_is_not_measured(votes: Connection) -> None:
    """One-ways, joint sets, and candidates of rounds; n, too."""
    few = Workload.from_rows([{"group_by": ["a", "b"]}, {"group_by": ["c", "d"]}])
    plain = plan_of(votes, few)
    known(votes, "SELECT a, b, count(*) AS rows FROM t GROUP BY ALL")
    plan = plan_of(votes, few)
    assert [line.purpose for line in plain.schedule.lines] == ["round", "round", "certify"]
    assert [line.purpose for line in plan.schedule.lines] == ["round", "certify"]
    assert plan.problem.total == 900
    rounds = plan_of(votes, Workload.marginals(plan.compiled.domain, 3) + few + PAIRS, rounds=5)
    determined = [rounds.problem.queries[number].attributes for number in rounds.problem.determined]
    assert sorted(set(map(tuple, map(sorted, determined)))) == [("a",), ("a", "b"), ("b",)]
    made = mwem_sql.release(votes, "t", PAIRS, 1.0, rounds=6, seed=1)
    names = [row["name"] for row in made.measurements.to_pylist() if row["purpose"] != "known"]
    assert len(names) == 6
    assert {"a", "b", "a, b", "total"}.isdisjoint(names)


def test_all_may_follow_from_totals(votes: Connection) -> None:
    known(votes, "SELECT a, b, count(*) AS rows FROM t GROUP BY ALL")
    workload = Workload.from_rows([{"group_by": ["a", "b"], "always": True}, {"group_by": ["a"]}])
    for options in ({}, {"rounds": 2}, {"average": True}):
        made = mwem_sql.release(
            votes, "t", workload, 1.0, output=f"out_{len(options)}_{'average' in options}", **options
        )
        truth = votes.execute("SELECT a::VARCHAR, b::VARCHAR, count(*) FROM t GROUP BY ALL").fetchall()
        found = mwem_sql.answer(votes, made.output, workload).to_pylist()[: len(truth)]
        assert sorted((*row["cell"], row["answer"]) for row in found if row["answer"]) == sorted(truth)


def test_totals_of_columns_that_nobody_asks_about_say_how_many_rows_there_are(votes: Connection) -> None:
    known(votes, "SELECT d, count(*) AS rows FROM t GROUP BY ALL")
    plan = plan_of(votes, Workload.from_predicates(["a < 2"]))
    assert (plan.problem.total, plan.problem.public_counts, plan.compiled.published.totals) == (900, (), ())
    known(votes, "SELECT d, count(*) AS rows FROM t WHERE d = 1 GROUP BY ALL")
    assert plan_of(votes, Workload.from_predicates(["a < 2"])).problem.total is None


def test_totals_are_part_of_the_request(votes: Connection) -> None:
    known(votes, "SELECT 'a = 0' AS predicate, 300 AS rows")
    made = mwem_sql.release(votes, "t", PAIRS, 1.0)
    assert mwem_sql.release(votes, "t", PAIRS, 1.0).reused
    known(votes, "SELECT 'a = 0' AS predicate, 301 AS rows")
    with pytest.raises(MwemError, match="What changed: the table of public totals"):
        mwem_sql.release(votes, "t", PAIRS, 1.0)
    votes.execute("DROP TABLE t_known; DROP TABLE t")
    asked = Workload.from_predicates(["a = 0"])
    assert mwem_sql.answer(votes, made.output, asked).to_pylist()[0]["answer"] == 300
    assert mwem_sql.known(votes, made.output).to_pylist()[0]["rows"] == 300


def test_a_model_has_room_for_totals(votes: Connection) -> None:
    known(votes, "SELECT a, b, count(*) AS rows FROM t GROUP BY ALL")
    with pytest.raises(CellsError, match=r"known: total .* joins 12 values, more than 11"):
        plan_of(votes, max_cells=119)
    known(
        votes, "SELECT a, b, count(*) AS rows FROM t GROUP BY ALL", "SELECT b, c, count(*) AS rows FROM t GROUP BY ALL"
    )
    with pytest.raises(CellsError, match=r"totals make a model of \d+ cells, more than a tenth of max_cells \(30\)"):
        plan_of(votes, max_cells=300)


def test_rows_of_a_unit_that_are_left_out_make_measurements_smaller_and_totals_not(votes: Connection) -> None:
    votes.execute("ALTER TABLE t ADD COLUMN person INTEGER; UPDATE t SET person = rowid // 3")
    known(votes, "SELECT a, count(*) AS rows FROM t GROUP BY ALL")
    made = mwem_sql.release(votes, "t", PAIRS, 100.0, unit="person", rows_per_unit=2, seed=1)
    (row,) = mwem_sql.answer(votes, made.output, Workload.from_predicates(["a >= 0"])).to_pylist()
    assert (row["answer"], made.rows) == (900, 900)
    assert "at most 2 rows of each person were used" in str(made.warning)
