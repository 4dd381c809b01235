"""The gate: who a statement is for, what it may do, and what it may take."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from gates import World, world

import mwem_sql
from mwem_sql.errors import MwemError
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.platform import seats
from mwem_sql.server.limits import ServerLimits
from mwem_sql.server.statements import RESULTS

Make = Callable[..., World]
RELEASE = "CALL mwem_release('census', w, 0.5, rounds := 1, rows := 50)"
W = "CREATE TABLE w AS SELECT ['sex', 'city'] AS group_by"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Instances of their own: one that was served once is served for good."""
    with mwem_sql.connect() as private, mwem_sql.connect() as public:
        yield lambda **limits: world(private, public, tmp_path, ServerLimits(**limits))


def test_from_the_domain_to_a_published_table(make: Make) -> None:
    here = make()
    anna = here.client("anna")
    assert [row[0] for row in anna.run("CALL mwem_domain('census')")] == ["age", "sex", "city"]
    assert anna.run(W) == [(1,)]
    assert len(anna.run("FROM mwem_plan('census', w, 0.5)")) > 10
    made = anna.one(RELEASE)
    assert (made["rows"], made["epsilon"], made["reused"]) == (50, 0.5, False)
    assert anna.run("SELECT count(*) FROM census_synthetic") == [(50,)]
    assert anna.one(RELEASE)["reused"] is True
    # Both sides have what is theirs.
    assert here.private.execute("SELECT user_name, epsilon FROM mwem.ledger").fetchall() == [("anna", 0.5)]
    assert here.public.execute("SELECT count(*) FROM mwem.releases").fetchall() == [(1,)]
    tables = "SELECT table_name FROM duckdb_tables() WHERE table_name IN ('journal', 'census', 'secret', 'releases')"
    assert {row[0] for row in here.public.execute(tables).fetchall()} == {"releases"}
    assert {row[0] for row in here.private.execute(tables).fetchall()} == {"journal", "census", "secret"}


def test_ordinary_sql_answers_from_the_release(make: Make) -> None:
    here = make()
    anna = here.client("anna")
    anna.run(W)
    anna.run(RELEASE)
    assert anna.run("SELECT sum(n) FROM (SELECT city, count(*) AS n FROM census GROUP BY city)") == [(50,)]
    anna.run("CREATE VIEW mine AS SELECT city FROM census")
    assert here.client("bert").run("SELECT count(*) FROM mine") == [(50,)]


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("CALL mwem_release('secret', w, 0.5)", r"table \('secret'\) has no cap, and a server releases only"),
        ("CALL mwem_domain('secret')", r"table \('secret'\) has no cap"),
        ("FROM mwem_plan('secret', w, 1)", r"table \('secret'\) has no cap"),
        ("FROM mwem_marginals('secret', 1)", r"table \('secret'\) has no cap"),
        ("FROM mwem_marginals(['secret', 'census'], 1)", r"table \('secret'\) has no cap"),
        ("CALL mwem_domain('cencus')", r"\('cencus'\) is not a private table of this server.*did you mean 'census'"),
        ("CALL mwem_domain('/etc/passwd')", r"\('/etc/passwd'\) is not a private table of this server"),
        ("CALL mwem_release('/data/x.parquet', w, 1)", r"is not a private table of this server"),
        ("CALL mwem_release('census', w, 0.5, seed := 1)", r"seed \(1\) is the curator's alone"),
        ("CALL mwem_release('census', w, 9)", r"does not fit the cap on census"),
        ("CALL mwem_release('census', w, 0.5, domain := 'census_domain')", r"\('census_domain'\) does not exist"),
        ("CALL mwem_release('census', w, 0.5, start := 'secret')", r"start \('secret'\) is neither"),
        ("CALL mwem_quality('census_synthetic', summary := true, compare := 'census')", r"compare \('census'\) is the"),
        ("CALL mwem_report('census_synthetic', '/tmp/x.html')", r"path \('/tmp/x.html'\) is the curator's alone"),
        ("FROM secret", "Table with name secret does not exist"),
        ("SELECT count(*) FROM census", "Table with name census does not exist"),
    ],
)
def test_what_is_not_for_analysts_is_refused_with_a_sentence_and_charged_nothing(
    make: Make, call: str, refusal: str
) -> None:
    here = make()
    anna = here.client("anna")
    anna.run(W)
    with pytest.raises(duckdb.Error, match=refusal):
        anna.run(call)
    assert here.private.execute("SELECT count(*) FROM mwem.ledger").fetchall() == [(0,)]


def test_an_analyst_plants_no_domain(make: Make) -> None:
    """What the curator declares is looked up beside the rows; an analyst's own table counts where they name it."""
    here = make()
    anna = here.client("anna")
    for name in ("census_domain", "census_rules", "census_synthetic", "CENSUS", "secret"):
        with pytest.raises(duckdb.Error, match=r"has the name of a private table, or of what goes with one"):
            anna.run(f"CREATE TABLE {name} AS SELECT 1 AS x")
    anna.run("CREATE TABLE mine AS SELECT 'city' AS attribute, ['Bonn', 'Kiel', 'Ulm', 'Wien'] AS \"values\"")
    assert anna.run("SELECT len(\"values\") FROM mwem_domain('census', domain := 'mine') WHERE attribute = 'city'") == [
        (4,)
    ]
    assert anna.run("SELECT len(\"values\") FROM mwem_domain('census') WHERE attribute = 'city'") == [(3,)]


def test_the_report_is_a_result(make: Make) -> None:
    anna = make().client("anna")
    anna.run(W)
    anna.run(RELEASE)
    row = anna.one("CALL mwem_report('census_synthetic', NULL)")
    assert row["file"] is None and row["private"] and row["page"].startswith("<!DOCTYPE html>")
    assert row["bytes"] == len(row["page"].encode())


def test_tables_are_written_by_who_made_them(make: Make) -> None:
    here = make()
    anna, bert = here.client("anna"), here.client("bert")
    anna.run(W)
    anna.run(RELEASE)
    for text in (
        "DROP TABLE w", "DELETE FROM w", "INSERT INTO w SELECT ['sex']", "CREATE OR REPLACE TABLE w AS SELECT 1 AS a",
        "CREATE TABLE w AS SELECT 1 AS a", "CREATE TABLE w(a INTEGER)", "CREATE OR REPLACE VIEW w AS SELECT 1 AS a",
    ):  # fmt: skip
        with pytest.raises(duckdb.Error, match=r"table \('w'\) is (a name of another user's|not one that you made)"):
            bert.run(text)
    with pytest.raises(MwemError):  # of rows that would come after it, nothing may be given back at all
        here.gate.authorize(bert.name, "INSERT INTO main.w VALUES (NULL)")
    for text in ("DROP TABLE census_synthetic", "DELETE FROM census_synthetic", "DROP VIEW census"):
        for each in (anna, bert):
            with pytest.raises(duckdb.Error, match="is not one that you made here"):
                each.run(text)
    assert anna.run("SELECT count(*) FROM w") == [(1,)]
    assert here.gate.authorize(anna.name, "INSERT INTO main.w VALUES (NULL)") == "SELECT TRUE AS Success"
    anna.run("INSERT INTO w SELECT ['age']")
    assert anna.run("DELETE FROM w WHERE group_by = ['age']") == [(1,)]
    anna.run("DROP TABLE w")
    assert bert.run(W) == [(1,)]  # the name is free again


def test_another_version_is_for_who_made_the_first(make: Make) -> None:
    here = make()
    anna, bert = here.client("anna"), here.client("bert")
    anna.run(W)
    anna.run(RELEASE)
    again = RELEASE.replace("rows", "version := '2', rows")
    with pytest.raises(duckdb.Error, match=r"output \(memory.main.census_synthetic\) is a release of another user's"):
        bert.run(again)
    assert anna.one(again)["reused"] is False
    assert bert.one(again)["reused"] is True
    assert here.private.execute("SELECT user_name FROM mwem.ledger").fetchall() == [("anna",), ("anna",)]


def test_a_user_sees_their_part_of_the_ledger(make: Make) -> None:
    here = make()
    here.private.execute("CALL mwem_budget('census', 1.0, user := 'anna')")
    anna, bert = here.client("anna"), here.client("bert")
    anna.run(W)
    anna.run(RELEASE)
    bert.run(RELEASE.replace("0.5", "1.5").replace("rounds", "output := 'his', rounds"))
    ask = "SELECT epsilon, epsilon_spent, epsilon_left, user_name FROM mwem_ledger() WHERE action = 'mwem_release'"
    assert anna.run(ask) == [(0.5, 0.5, 0.5, "anna")]
    assert bert.run(ask) == [(1.5, 1.5, 1.0, "bert")]
    assert {row[0] for row in anna.run("SELECT user_name FROM mwem_ledger()")} == {"anna"}
    assert len(here.private.execute(ask).fetchall()) == 2


def test_a_release_that_was_stopped_goes_on_for_who_paid_for_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user who asks the same pays for a release of their own."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    here = make()
    anna, bert = here.client("anna"), here.client("bert")
    anna.run(W)
    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "measure", broken)
        with pytest.raises(duckdb.Error):
            anna.run(RELEASE)
    assert bert.one(RELEASE)["reused"] is False
    entries = "SELECT user_name, status FROM mwem.ledger ORDER BY started"
    assert here.private.execute(entries).fetchall() == [("anna", "failed"), ("bert", "done")]
    assert anna.one(RELEASE)["reused"] is True


def test_a_token_that_was_taken_back_is_good_for_nothing(make: Make) -> None:
    here = make()
    anna, bert = here.client("anna"), here.client("bert")
    here.users.remove("anna")
    with pytest.raises(PermissionError):
        anna.run("SELECT 1")
    assert not here.gate.authenticate("again", here.tokens["anna"])
    here.users.add("bert")  # a new token
    with pytest.raises(PermissionError):
        bert.run("SELECT 1")


def test_a_connection_that_nobody_made_is_refused(make: Make) -> None:
    here = make()
    here.client("anna")
    for name in ("another", "", "connection of bert"):
        with pytest.raises(PermissionError):
            here.gate.authorize(name, "SELECT 1")


def test_results_are_their_clients_and_are_dropped(make: Make) -> None:
    here = make()
    anna, bert = here.client("anna"), here.client("bert")
    first = here.gate.authorize(anna.name, "SELECT 42 AS x, 43 AS x")
    with pytest.raises(duckdb.Error, match="results of others are not read"):
        bert.run(first)
    assert here.public.cursor().execute(first).fetchall() == [(42, 43)]
    anna.run("SELECT 1")
    with pytest.raises(duckdb.CatalogException):
        here.public.cursor().execute(first)
    assert bert.run(f"SELECT count(*) FROM duckdb_tables() WHERE database_name = '{RESULTS}'") == [(0,)]
    assert bert.run("SELECT count(*) FROM duckdb_databases() WHERE NOT internal") == [(1,)]
    forgotten = here.gate.authorize(anna.name, "SELECT 2")
    here.gate._keep_seconds = -1.0
    bert.run("SELECT 3")
    with pytest.raises(duckdb.CatalogException):
        here.public.cursor().execute(forgotten)


def test_a_result_that_is_being_fetched_stays(make: Make) -> None:
    here = make()
    anna = here.client("anna")
    rows = anna.con.execute(here.gate.authorize(anna.name, "SELECT i FROM range(500000) t(i)")).fetchmany(10)
    reader = anna.con.cursor().execute(here.gate.authorize(anna.name, "SELECT i FROM range(500000) t(i)"))
    first = reader.fetchmany(10)
    here.gate.authorize(anna.name, "SELECT 1")
    assert rows == first and len(reader.fetchall()) == 499_990


def test_a_statement_without_an_end_is_stopped(make: Make) -> None:
    here = make(statement_seconds=0.2)
    anna = here.client("anna")
    endless = "SELECT count(*) FROM range(10000000000) a, range(1000000) b"
    for text in (endless, f"CREATE TABLE x AS {endless}", f"EXPLAIN ANALYZE {endless}"):
        with pytest.raises(duckdb.Error, match=r"server: the statement took more than 0\.2 seconds"):
            anna.run(text)
    assert anna.run("SELECT 1") == [(1,)]


def test_a_workload_of_too_many_rows_is_refused(make: Make) -> None:
    anna = make(workload_rows=3).client("anna")
    anna.run("CREATE TABLE w AS SELECT 'age > ' || i AS predicate FROM range(4) t(i)")
    with pytest.raises(duckdb.Error, match="the workload has 4 rows, more than the 3 that this server takes"):
        anna.run("CALL mwem_release('census', w, 0.5)")
    anna.run("DELETE FROM w WHERE predicate = 'age > 0'")
    anna.run("FROM mwem_plan('census', w, 0.5)")


def test_tables_and_connections_of_a_user_are_counted(make: Make) -> None:
    here = make(tables_per_user=2, connections_per_user=2)
    anna = here.client("anna")
    anna.run("CREATE TABLE a AS SELECT 1 AS x")
    anna.run("CREATE TABLE b(x INTEGER)")
    with pytest.raises(duckdb.Error, match="would be one more than the 2 that a user may have"):
        anna.run("CREATE TABLE c AS SELECT 1 AS x")
    here.client("bert").run("CREATE TABLE c AS SELECT 1 AS x")
    here.client("anna", "second")
    assert not here.gate.authenticate("third", here.tokens["anna"])


def test_releases_at_once_are_counted_and_one_more_is_charged_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make(releases_at_once=1)
    anna, bert = here.client("anna"), here.client("bert")
    anna.run(W)
    inside, go_on = threading.Event(), threading.Event()
    select = Kernel.measure

    def held(*arguments: object, **options: object) -> object:
        inside.set()
        assert go_on.wait(60)
        return select(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "measure", held)
    thread = threading.Thread(target=anna.run, args=(RELEASE,))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(duckdb.Error, match="1 releases are being made already, so nothing was charged or read"):
        bert.run(RELEASE.replace("0.5", "0.25").replace("rounds", "output := 'his', rounds"))
    go_on.set()
    thread.join()
    assert here.private.execute("SELECT user_name FROM mwem.ledger").fetchall() == [("anna",)]


def test_a_gate_that_closes_waits_for_what_runs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = make()
    anna = here.client("anna")
    anna.run(W)
    inside, go_on, results = threading.Event(), threading.Event(), list[object]()
    measure = Kernel.measure

    def held(*arguments: object, **options: object) -> object:
        inside.set()
        assert go_on.wait(60)
        return measure(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "measure", held)
    thread = threading.Thread(target=lambda: results.append(anna.one(RELEASE)["reused"]))
    thread.start()
    assert inside.wait(60)
    assert here.gate.close(0.01) is False
    with pytest.raises(duckdb.Error, match="the server is being stopped"):
        anna.run("SELECT 1")
    assert not here.gate.authenticate("late", here.tokens["bert"])
    go_on.set()
    thread.join()
    assert results == [False] and here.gate.close(60) is True


def test_no_ticket_is_left(make: Make) -> None:
    here = make()
    anna = here.client("anna")
    anna.run(W)
    for text in (RELEASE, "SELECT nonsense", "CALL mwem_release('census', w, 99)"):
        with contextlib.suppress(duckdb.Error):
            anna.run(text)
    assert not seats._SEATS
