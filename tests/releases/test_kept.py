"""What is kept for the next question is that of the content that is there now, whoever changed it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from conftest import PEOPLE, Connection, Open

import mwem_sql
from mwem_sql.compile import pipeline, read
from mwem_sql.errors import MwemError
from mwem_sql.platform.catalog import Name, Place
from mwem_sql.platform.session import Session
from mwem_sql.releases import kept, store
from mwem_sql.releases.answer import Answerer, answerer
from mwem_sql.releases.kept import Kept
from mwem_sql.workload import Query, Workload

HERE = Place("memory", "main")


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    kept.KEPT.clear()


def released(con: Connection) -> Connection:
    mwem_sql.release(con, "people", "workload", 1, rounds=2, seed=1)
    return con


def load(con: Connection) -> store.Stored:
    return store.load(con.cursor(), "people_synthetic", HERE, "mwem_count")


def count(con: Connection, predicate: str = "age < 40") -> float:
    return mwem_sql.count(con, "people_synthetic", predicate)


def test_a_release_is_read_once(con: Connection) -> None:
    released(con)
    first = load(con)
    assert load(con) is first
    assert first.state() is not first.state()  # whoever reads a state brings parts of it up to date


def test_of_the_same_content_the_same_thing_whatever_the_database(connect: Open) -> None:
    """And so of a copy; a third that was made by another run has others."""
    one, other = connect(), connect()
    for con in (one, other):
        con.execute(PEOPLE)
    released(one)
    mwem_sql.release(other, "people", "workload", 1, rounds=2, seed=2)
    assert load(one) is not load(other)
    before = count(one), count(other)
    assert before == (count(one), count(other))
    assert before[0] != before[1]


CHANGES: dict[str, Callable[[Connection], object]] = {
    "replaced": lambda con: mwem_sql.release(con, "people", "workload", 1, rounds=2, seed=7, version="next"),
    "weights": lambda con: con.execute(
        "UPDATE mwem.factors SET weights = list_transform(weights, lambda weight: 2 * weight)"
    ),
    "bounds of the domain": lambda con: con.execute(
        "UPDATE mwem.releases SET domain = replace(domain::VARCHAR, '\"high\": 99', '\"high\": 98')::JSON"
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("is_other", [False, True])
def test_what_changes_is_read_anew(con: Connection, kind: str, *, is_other: bool) -> None:
    """Also where another connection changed it."""
    released(con)
    before = load(con)
    count(con)
    CHANGES[kind](con.cursor() if is_other else con)
    after = load(con)
    assert after is not before
    assert (after.facts, after.factors) != (before.facts, before.factors)
    kept.KEPT.clear()
    fresh = load(con)
    assert (fresh.facts, fresh.domain) == (after.facts, after.domain)
    assert fresh.factors.equals(after.factors)


def test_a_replaced_release_answers_as_it_is_now(con: Connection) -> None:
    released(con)
    before = count(con)
    mwem_sql.release(con, "people", "workload", 1, rounds=2, seed=7, version="next")
    after = count(con)
    assert after != before
    kept.KEPT.clear()
    assert count(con) == after


@pytest.mark.parametrize("table", ["measurements", "workloads", "bounds", "certificates"])
def test_what_intervals_are_made_of_is_read_anew(con: Connection, table: str) -> None:
    """Rows that are gone are missed at once: nothing is answered from what was there."""
    released(con)
    before = mwem_sql.answer(con, "people_synthetic", "workload")
    assert mwem_sql.answer(con, "people_synthetic", "workload") == before
    con.cursor().execute(f"DELETE FROM mwem.{table}")

    def outcome() -> object:
        try:
            return mwem_sql.answer(con, "people_synthetic", "workload")
        except MwemError as error:
            return str(error)

    after = outcome()
    kept.KEPT.clear()
    assert after == outcome()


def test_withdrawn_and_dropped(con: Connection) -> None:
    released(con)
    count(con)
    con.execute("DROP TABLE people_synthetic")
    count(con)  # its measurements stand
    mwem_sql.withdraw(con.cursor(), "people_synthetic", "wrong")
    with pytest.raises(MwemError, match="was withdrawn"):
        count(con)
    con.execute("DELETE FROM mwem.withdrawals; DELETE FROM mwem.releases")
    with pytest.raises(MwemError, match="is not a release"):
        count(con)


def test_another_file_under_the_same_name(connect: Open, tmp_path: Path) -> None:
    """One is detached, and the other attached in its place."""
    figures = []
    for seed in (1, 2):
        con = mwem_sql.connect(tmp_path / f"{seed}.duckdb")
        con.execute(PEOPLE)
        mwem_sql.release(con, "people", "workload", 1, rounds=2, seed=seed)
        figures.append(count(con))
        con.close()
    con = connect()
    for seed, figure in zip((1, 2, 1), (*figures, figures[0]), strict=True):
        con.execute(f"ATTACH '{tmp_path / str(seed)}.duckdb' AS place (READ_ONLY)")
        assert mwem_sql.count(con, "place.main.people_synthetic", "age < 40") == figure
        con.execute("DETACH place")
    assert figures[0] != figures[1]


def test_a_rollback_takes_nothing_back_that_was_not_there(con: Connection) -> None:
    released(con)
    before, other = count(con), con.cursor()
    other.execute("BEGIN; UPDATE mwem.factors SET weights = list_transform(weights, lambda weight: 2 * weight)")
    assert count(con) == before
    other.execute("ROLLBACK")
    assert count(con) == before


SETTINGS = {
    "integer_division": ("true", "age / 7 = 3"),
    "default_collation": ("'NOCASE'", "sex < 'f'"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_part_of_what_a_question_means(con: Connection, name: str) -> None:
    """What was read and checked under one setting is not taken for another."""
    value, predicate = SETTINGS[name]
    released(con)

    def under_both() -> list[float]:
        out = []
        for statement in (f"SET {name} = {value}", f"RESET {name}"):
            con.execute(statement)
            out.append(con.execute("SELECT mwem_count('people_synthetic', ?)", [predicate]).fetchall()[0][0])
        return out

    warm = under_both()
    assert under_both() == warm
    kept.KEPT.clear()
    fresh = under_both()
    assert fresh == warm
    assert name != "integer_division" or fresh[0] != fresh[1]


def test_a_question_that_was_asked_is_not_worked_out_again(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same confidence and settings, of the same content."""
    released(con)
    made: list[object] = []
    queries = [Query("age < 40"), Query(group_by=("sex",))]
    assert mwem_sql.answer(con, "people_synthetic", Workload(queries)).num_rows == 3  # whatever holds the questions
    table = Answerer._table
    monkeypatch.setattr(Answerer, "_table", lambda *given: made.append(given) or table(*given))

    def ask(confidence: float = 0.95) -> list[dict[str, object]]:
        return mwem_sql.answer(con, "people_synthetic", "workload", confidence=confidence).to_pylist()

    first = ask()
    assert ask() == first and len(made) == 1
    assert ask(confidence=0.5) != first and len(made) == 2
    con.execute("SET integer_division = true")
    assert ask() == first and len(made) == 3
    con.execute("RESET integer_division")
    ready = answerer(Session.of(con), "people_synthetic", "mwem_answer")
    for row in ready.rows(ready.workload()):
        row["answer"] = None  # a caller's own
    assert ask() == first
    mwem_sql.release(con, "people", "workload", 1, rounds=2, seed=7, version="next")
    after, before = ask(), len(made)
    assert after != first
    kept.KEPT.clear()
    assert ask() == after and len(made) == before + 1


def test_shapes_are_checked_once_under_each_setting(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text whose shape DuckDB and the parser were seen to read alike is not evaluated as it stands again."""
    released(con)
    seen: list[int] = []
    texts = pipeline._texts
    monkeypatch.setattr(pipeline, "_texts", lambda reading: seen.append(len(texts(reading))) or texts(reading))
    predicates = ["age < 40", "age < 41", "age < 41 OR sex = 'F'", "age < 4 OR sex = 'M'", "age > 3"]
    for predicate in predicates:
        count(con, predicate)
    assert seen == [1, 0, 1, 0, 1]
    con.execute("SET integer_division = true")
    count(con, "age < 40")
    assert seen[-1] == 1


def test_a_shape_that_is_read_in_two_ways_stays_refused(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    released(con)
    monkeypatch.setattr(pipeline, "_slack", lambda _: -1.0)  # nothing is near enough
    for _ in range(2):
        with pytest.raises(MwemError, match="read in two ways"):
            count(con, "age < 40")


def test_many_shapes_are_forgotten(con: Connection) -> None:
    stored, shapes = load(released(con)), read.Shapes(most=20)
    for number in range(30):
        text = " AND ".join(f"age <> {each}" for each in range(number)) or "true"
        read.read_workload(stored.domain, Workload.from_predicates([f"{text} OR sex = 'F'"]), shapes)
        shapes.checked.add(text)
    assert 0 < len(shapes.forms) + len(shapes.checked) <= 20 + 3
    for number in range(2 * store.MOST_SETTINGS):
        load(con).shapes((("TimeZone", str(number)),))
    assert len(stored._shapes) <= store.MOST_SETTINGS


def test_memory_is_bounded() -> None:
    things = Kept(most=100)
    made: list[int] = []

    def get(key: int, size: int = 40) -> int:
        return things.get(key, lambda: (made.append(key) or key, size))

    assert [get(1), get(2), get(1), get(3), get(1), get(2)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2]  # that which was asked for longest ago went
    assert things.size == 80
    get(4, size=101)
    get(4, size=101)
    assert made[-2:] == [4, 4]  # too large to keep
    assert things.size == 80
    things.clear()
    assert things.size == 0


def test_a_refusal_is_not_kept() -> None:
    things = Kept(most=100)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            things.get(1, lambda: (_ for _ in ()).throw(ValueError("no")))
    assert things.get(1, lambda: (5, 1)) == 5


def test_a_digest_is_of_rows_and_not_of_their_order() -> None:
    with duckdb.connect() as con:
        con.execute(
            """CREATE SCHEMA mwem; CREATE TABLE mwem.one AS SELECT 1 AS release, unnest([1, 2, 2]) AS a;
               CREATE TABLE mwem.other AS SELECT 1 AS release, unnest([2, 1, 2]) AS a;
               CREATE TABLE mwem.twice AS SELECT 1 AS release, unnest([1, 1, 2]) AS a;
               CREATE MACRO hash(x) AS 1; CREATE MACRO sum(x) AS 1"""
        )
        one, other, twice = (kept.digest(con, Name("memory", "mwem", name), 1) for name in ("one", "other", "twice"))
        assert one == other != twice
        assert kept.digest(con, Name("memory", "mwem", "one"), 2) == (0, 0)


def test_many_threads_have_one_answer(con: Connection) -> None:
    released(con)
    expected = {number: count(con, f"age < {number}") for number in range(1, 9)}
    kept.KEPT.clear()
    wrong: list[object] = []

    def ask(number: int) -> None:
        cursor = con.cursor()
        for _ in range(5):
            ((answer,),) = cursor.execute(f"SELECT mwem_count('people_synthetic', 'age < {number}')").fetchall()
            if answer != pytest.approx(expected[number], rel=1e-12):
                wrong.append((number, answer))

    threads = [threading.Thread(target=ask, args=(number,)) for number in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
