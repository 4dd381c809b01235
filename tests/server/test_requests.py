"""Requests beyond a user's caps, and the curator's word about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from gates import Client, World, world
from ledgers import at_once, cap, charge, marked

import mwem_sql
from mwem_sql.accounting import requests
from mwem_sql.errors import BudgetError
from mwem_sql.server.limits import ServerLimits

Make = Callable[..., World]
ARGUMENTS = "('census', w, 0.5, rounds := 1, rows := 50)"
RELEASE, REQUEST = f"CALL mwem_release{ARGUMENTS}", f"CALL mwem_request{ARGUMENTS}"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with mwem_sql.connect() as private, mwem_sql.connect() as public:
        yield lambda **limits: world(private, public, tmp_path, ServerLimits(**limits))


@pytest.fixture
def here(make: Make) -> World:
    """Anna and Bert may ask 0.25 each, of a table with 3."""
    made = make()
    for user in ("anna", "bert"):
        made.private.execute(f"CALL mwem_budget('census', 0.25, user := '{user}')")
    made.client("anna", "first").run("CREATE TABLE w AS SELECT ['sex', 'city'] AS group_by")
    return made


def spent(world: World) -> list[Any]:
    return world.private.execute("SELECT user_name, epsilon, status FROM mwem.ledger").fetchall()


def states(client: Client) -> list[Any]:
    return [row[0] for row in client.run("SELECT state FROM mwem_requests()")]


def approve(world: World, request: str) -> None:
    world.private.execute(f"CALL mwem_approve('{request}')").fetchall()


def test_ask_approve_release(here: World) -> None:
    anna = here.client("anna")
    with pytest.raises(duckdb.Error, match=r"census for anna: 0.25 of 0.25 is left.*CALL mwem_request with the same"):
        anna.run(RELEASE)
    asked = anna.one(REQUEST)
    assert (asked["kind"], asked["state"], asked["epsilon"], asked["user_name"]) == ("release", "open", 0.5, "anna")
    assert asked["table_name"] == "census" and asked["output"] == "memory.main.census_synthetic"
    plan = [f"{item}: {value}" for item, value in anna.run(f"FROM mwem_plan{ARGUMENTS}")]
    assert asked["plan"] == plan
    assert anna.one(REQUEST) == asked  # a relation that is shown twice asks once
    with pytest.raises(duckdb.Error, match="census for anna"):  # to ask is not to be allowed
        anna.run(RELEASE)
    assert spent(here) == []
    # The curator reads all of it.
    (row,) = here.private.execute("SELECT request, user_name, state FROM mwem_requests()").fetchall()
    assert row == (asked["request"], "anna", "open")
    (stored,) = here.private.execute("SELECT workload FROM mwem.requests").fetchall()[0]
    assert len(stored) == 1 and '"sex"' in stored[0]
    approve(here, asked["request"])
    assert states(anna) == ["approved"]
    assert anna.one(REQUEST)["request"] == asked["request"]
    made = anna.one(RELEASE)
    assert (made["epsilon"], made["reused"]) == (0.5, False)
    assert states(anna) == ["used"]
    (entry,) = here.private.execute("SELECT entry FROM mwem.ledger").fetchall()[0]
    assert anna.run("SELECT used_by FROM mwem_requests()") == [(entry,)]
    # It is beside the cap: what anna may ask by herself is what it was.
    assert anna.run("SELECT epsilon_spent, epsilon_left FROM mwem_ledger() WHERE output IS NOT NULL") == [(0.5, 0.25)]
    anna.run(RELEASE.replace("0.5", "0.25").replace("rounds", "output := 'small', rounds"))
    assert spent(here) == [("anna", 0.5, "done"), ("anna", 0.25, "done")]


CHANGES = {
    "0.5": "0.51", "rounds := 1": "rounds := 2", "rounds": "version := 'b', rounds",
    "rows": "publish_if := 'mean_share < 0.5', certify := 0.02, rows",
}  # fmt: skip


def test_another_request_is_not_approved(here: World) -> None:
    anna = here.client("anna")
    approve(here, anna.one(REQUEST)["request"])
    for before, after in CHANGES.items():
        with pytest.raises(duckdb.Error, match="does not fit the cap on census for anna"):
            anna.run(RELEASE.replace(before, after))
    assert spent(here) == []


def test_another_workload_user_or_time_is_not_approved(here: World) -> None:
    anna, bert = here.client("anna"), here.client("bert")
    approve(here, anna.one(REQUEST)["request"])
    with pytest.raises(duckdb.Error, match="does not fit the cap on census for bert"):
        bert.run(RELEASE)
    anna.run("INSERT INTO w SELECT ['age']")
    with pytest.raises(duckdb.Error, match="does not fit the cap on census for anna"):
        anna.run(RELEASE)
    anna.run("DELETE FROM w WHERE group_by = ['age']")
    anna.run(RELEASE)
    # Used is used: under another name it would be charged again.
    with pytest.raises(duckdb.Error, match="does not fit the cap on census for anna"):
        anna.run(RELEASE.replace("rounds", "output := 'again', rounds"))
    assert spent(here) == [("anna", 0.5, "done")]


def test_the_tables_cap_holds_all_the_same(here: World) -> None:
    anna, bert = here.client("anna"), here.client("bert")
    with pytest.raises(duckdb.Error, match=r"mwem_request: epsilon \(3.5, delta 0\) does not fit the cap on census: 3"):
        anna.run(REQUEST.replace("0.5", "3.5"))
    first = anna.one(REQUEST.replace("0.5", "2"))["request"]
    second = bert.one(REQUEST.replace("0.5", "2").replace("rounds", "output := 'his', rounds"))["request"]
    approve(here, first)
    approve(here, second)
    anna.run(RELEASE.replace("0.5", "2"))
    his = RELEASE.replace("0.5", "2").replace("rounds", "output := 'his', rounds")
    with pytest.raises(duckdb.Error, match=r"does not fit the cap on census: 1 of 3 is left"):
        bert.run(his)
    third = bert.one(REQUEST.replace("0.5", "0.9").replace("rounds", "output := 'more', rounds"))["request"]
    here.private.execute("CALL mwem_budget('census', 2.5)")
    with pytest.raises(
        duckdb.Error, match=r"cannot be released: epsilon \(0.9, delta 0\).*mwem_budget\('census', epsi"
    ):
        approve(here, third)
    here.private.execute("CALL mwem_budget('census', 4)")
    approve(here, third)
    bert.run(his)
    assert spent(here) == [("anna", 2.0, "done"), ("bert", 2.0, "done")]


def test_refused_and_withdrawn(here: World) -> None:
    anna, bert = here.client("anna"), here.client("bert")
    first = anna.one(REQUEST)["request"]
    with pytest.raises(duckdb.Error, match=r"reason \(''\) must say why"):
        here.private.execute(f"CALL mwem_refuse('{first}', '')")
    here.private.execute(f"CALL mwem_refuse('{first}', 'ask for less.')").fetchall()
    assert anna.run("SELECT state, reason, plan FROM mwem_requests()") == [("refused", "ask for less", None)]
    for decision in ("approve('{}')", "refuse('{}', 'x')", "withdraw_request('{}')"):
        with pytest.raises(duckdb.Error, match=rf"request \({first}\) is refused, and only what is open"):
            here.private.execute(f"CALL mwem_{decision.format(first)}")
    second = anna.one(REQUEST)["request"]
    assert second != first
    with pytest.raises(duckdb.Error, match="does not exist"):  # of another user's nothing is said
        bert.run(f"CALL mwem_withdraw_request('{second}')")
    assert states(bert) == []
    approve(here, second)
    assert anna.one(f"CALL mwem_withdraw_request('{second}')")["state"] == "withdrawn"
    third = anna.one(REQUEST)["request"]
    approve(here, third)
    here.private.execute(f"CALL mwem_refuse('{third}', 'a mistake')").fetchall()  # taken back before it was used
    with pytest.raises(duckdb.Error, match="does not fit the cap on census for anna"):
        anna.run(RELEASE)
    assert states(anna) == ["refused", "withdrawn", "refused"]
    assert here.private.execute("SELECT count(*) FROM mwem.requests").fetchall() == [(0,)]
    assert spent(here) == []


REFUSED = (
    ("CALL mwem_approve('x')", "mwem_approve is the curator's alone"),
    ("CALL mwem_refuse('x', 'y')", "mwem_refuse is the curator's alone"),
    ("CALL mwem_withdraw_request('x')", r"request \('x'\) does not exist"),
    (REQUEST.replace("0.5", "0.2"), r"epsilon \(0.2\) is within what anna may ask of census"),
    (REQUEST.replace("'census'", "'secret'"), r"table \('secret'\) has no cap"),
    (REQUEST.replace("rounds := 1", "rounds := 0"), r"rounds \(0\) must be a whole number"),
    (REQUEST.replace("rounds := 1", "seed := 1"), r"seed \(1\) is the curator's alone"),
    (REQUEST.replace("rounds := 1", "output := 'no.such.place'"), "names a database or schema"),
    (REQUEST.replace("w,", "v,"), "height"),
)


def test_what_would_be_refused_later_is_refused_now(here: World) -> None:
    anna = here.client("anna")
    anna.run("CREATE TABLE v AS SELECT ['height'] AS group_by")
    for call, refusal in REFUSED:
        with pytest.raises(duckdb.Error, match=refusal):
            anna.run(call)
    assert states(anna) == []


def test_what_is_charged_already_is_not_asked_for(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    anna = here.client("anna")
    approve(here, anna.one(REQUEST)["request"])
    with monkeypatch.context() as patch:
        patch.setattr("mwem_sql.releases.run.made_of", lambda *_: 1 // 0)
        with pytest.raises(duckdb.Error, match="ZeroDivisionError"):
            anna.run(RELEASE)
    with pytest.raises(duckdb.Error, match="was charged for this very request already"):
        anna.run(REQUEST)
    anna.run(RELEASE)
    with pytest.raises(duckdb.Error, match="has a release of this very request already"):
        anna.run(REQUEST)
    assert spent(here) == [("anna", 0.5, "done")]


def test_as_many_requests_as_a_user_may_make() -> None:
    with mwem_sql.connect() as con:
        ledger = marked(con)
        ledger.set_cap(con.cursor(), cap("3"))
        for user in ("anna", "bert"):
            ledger.set_cap(con.cursor(), replace(cap("1/10"), user=user))

        def ask(request: str, user: str = "anna") -> str:
            row = requests.ask(
                con.cursor(), ledger, charge("1/2"), "memory.main.o", user=user, request=request, version=None,
                workload="x", plan=["a: b"], questions=["{}"], most=2,
            )  # fmt: skip
            return str(row["request"])

        first, second = ask("h1"), ask("h2")
        assert ask("h2") == second  # the same is not one more
        requests.decide(con.cursor(), first, "withdrawn", "mwem_withdraw_request", user="anna")
        refusal = r"anna has 2 requests that are open or of the last 24 hours, and 2 is the most"
        with pytest.raises(BudgetError, match=refusal):  # what was taken back today counts, too
            ask("h3")
        ask("h3", "bert")
        with pytest.raises(BudgetError, match=refusal):
            ask("h1")


def test_several_tables_are_asked_for_together(make: Make) -> None:
    here = make()
    here.private.execute("""
        CREATE TABLE person (id INTEGER PRIMARY KEY, sex BOOLEAN NOT NULL);
        CREATE TABLE visit (person INTEGER REFERENCES person (id), long BOOLEAN NOT NULL);
        INSERT INTO person SELECT i, i % 2 = 0 FROM range(200) t(i);
        INSERT INTO visit SELECT i // 2, i % 3 = 0 FROM range(400) t(i);
        CALL mwem_budget('person', 3.0, unit := 'person');
        CALL mwem_budget('person', 0.25, user := 'anna')""")
    anna = here.client("anna")
    anna.run("CREATE TABLE w AS SELECT 'visit' AS of, ['long'] AS group_by")
    arguments = "(['person', 'visit'], w, 1.0, rows_per_unit := 2)"
    with pytest.raises(duckdb.Error, match="for anna"):
        anna.run(f"CALL mwem_release{arguments}")
    asked = anna.one(f"CALL mwem_request{arguments}")
    assert asked["unit"] == "person" and "visit_synthetic" in asked["output"]
    approve(here, asked["request"])
    anna.run(f"CALL mwem_release{arguments}")
    assert states(anna) == ["used"]


def test_what_a_view_costs_more_now_is_not_what_was_approved(here: World) -> None:
    """The hash is of the request; the price is of what it reads, and is compared, too."""
    here.private.execute("CREATE VIEW berlin AS FROM census WHERE city = 'Bonn'; CALL mwem_partition('census', 'city')")
    anna = here.client("anna")
    arguments = ARGUMENTS.replace("'census'", "'berlin'").replace("rows", "output := 'o', domain := 'd', rows")
    anna.run("CREATE TABLE d AS SELECT 'city' AS attribute, ['Bonn', 'Kiel', 'Ulm'] AS \"values\"")
    approve(here, anna.one(f"CALL mwem_request{arguments}")["request"])
    here.private.execute("CREATE OR REPLACE VIEW berlin AS FROM census")
    with pytest.raises(duckdb.Error, match="for anna"):
        anna.run(f"CALL mwem_release{arguments}")
    here.private.execute("CREATE OR REPLACE VIEW berlin AS FROM census WHERE city = 'Bonn'")
    anna.run(f"CALL mwem_release{arguments}")


def test_where_the_journal_cannot_be_written_nothing_is_decided(here: World, tmp_path: Path) -> None:
    request = here.client("anna").one(REQUEST)["request"]
    here.private.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copy; COPY FROM DATABASE memory TO copy; DETACH copy")
    with mwem_sql.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copy (READ_ONLY)")
        assert con.execute("SELECT request, state FROM mwem_requests()").fetchall() == [(request, "open")]
        with pytest.raises(duckdb.Error, match=r"database \('copy'\), which has the request, cannot be written"):
            con.execute(f"CALL mwem_approve('{request}')")


def test_a_journal_that_was_changed_decides_nothing(here: World) -> None:
    anna = here.client("anna")
    first = anna.one(REQUEST)["request"]
    here.private.execute("UPDATE mwem.journal SET epsilon = 0.1, epsilon_exact = '1/10' WHERE event = 'request'")
    with pytest.raises(duckdb.Error, match="was changed by hand at line"):
        approve(here, first)
    assert here.private.execute("SELECT intact FROM mwem_requests()").fetchall() == [(False,)]


def test_an_approval_is_used_once_however_many_call(here: World) -> None:
    """The same request under several outputs at once: one is made, the others are refused by the user's cap."""
    approve(here, here.client("anna").one(REQUEST)["request"])
    clients = [here.client("anna", f"connection {k}") for k in range(3)]
    calls = [RELEASE.replace("rounds", f"output := 'o{k}', rounds") for k in range(3)]
    errors = at_once(3, lambda k: clients[k].run(calls[k]))
    assert len(errors) == 2
    assert all("does not fit the cap on census for anna" in str(each) or "being made" in str(each) for each in errors)
    assert spent(here) == [("anna", 0.5, "done")]
