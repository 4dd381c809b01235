"""The whole of it: `mwem-sql serve`, and analysts with nothing but DuckDB's command line and a token.

`pytest -m server` makes an environment with a DuckDB that has Quack. What needs no Quack is in the other files here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from environments import run
from quack import RefusedError, Served, commands

pytestmark = pytest.mark.server

PRIVATE = """
    CREATE TABLE census (age INTEGER CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M') NOT NULL, city VARCHAR NOT NULL);
    INSERT INTO census SELECT i % 100, ['F', 'M'][1 + i % 2], ['Bonn', 'Kiel', 'Ulm'][1 + i % 3] FROM range(30000) t(i);
    CREATE TABLE census_domain AS SELECT 'city' AS attribute, ['Bonn', 'Kiel', 'Ulm'] AS "values";
    CREATE TABLE secret AS FROM census"""
RELEASE = "CALL mwem_release('census', w, 0.25, output := '{}')"


@pytest.fixture(scope="session")
def quack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commands(tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="session")
def made(quack: Path, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """All that a server needs, made once."""
    here = Served(quack, tmp_path_factory.mktemp("made"))
    here.sql("private.duckdb", PRIVATE)
    for name in ("anna", "bert"):
        here.user(name)
    setup = "CALL mwem_budget('census', 3.0); CALL mwem_budget(NULL, 2.0, user := 'bert')"
    (here.folder / "setup.sql").write_text(setup)
    return here


@pytest.fixture
def prepared(made: Served, tmp_path: Path) -> Iterator[Served]:
    """A copy of it, in a folder of its own; it is not started yet."""
    shutil.copytree(made.folder, tmp_path / "served")
    here = Served(made.bin, tmp_path / "served", tokens=dict(made.tokens))
    yield here
    if hasattr(here, "process"):
        here.stop()


@pytest.fixture
def served(prepared: Served) -> Served:
    prepared.start()
    return prepared


def test_an_analyst_goes_from_the_domain_to_a_published_table(served: Served) -> None:
    domain = served.query("anna", "CALL mwem_domain('census')")
    assert [row["attribute"] for row in domain] == ["age", "sex", "city"]
    served.ask("anna", "CREATE TABLE curator.w AS SELECT unnest([['sex', 'city'], ['age']]) AS group_by")
    assert served.query("anna", "SELECT count(*) AS n FROM w") == [{"n": 2}]
    plan = {row["item"]: row["value"] for row in served.query("anna", "FROM mwem_plan('census', w, 0.5)")}
    assert plan["epsilon"] == "0.5"
    (made,) = served.query("anna", "CALL mwem_release('census', w, 0.5)")
    assert (made["output"], made["epsilon"], made["reused"]) == ("published.main.census_synthetic", 0.5, False)
    (again,) = served.query("bert", "CALL mwem_release('census', w, 0.5)")
    assert again["reused"] is True
    # Ordinary SQL, here and there.
    cities = served.query("anna", "SELECT city, count(*) AS n FROM census GROUP BY city ORDER BY city")
    # By noise there may be a few rows whose city is none of the list: NULL.
    assert {row["city"] for row in cities} - {None} == {"Bonn", "Kiel", "Ulm"}
    assert sum(row["n"] for row in cities) == made["rows"]
    assert served.ask("bert", "SELECT count(*) AS n FROM curator.census_synthetic") == [{"n": made["rows"]}]
    assert served.ask("bert", "SELECT city, count(*) AS n FROM curator.census GROUP BY city ORDER BY city") == cities
    (answer,) = served.query("anna", "FROM mwem_answer('census_synthetic', w) WHERE query = 1 LIMIT 1")
    assert answer["low"] <= answer["answer"] <= answer["high"]
    (ledger,) = served.query("anna", "FROM mwem_ledger()")
    assert (ledger["user_name"], ledger["epsilon"], ledger["epsilon_left"]) == ("anna", 0.5, 2.5)
    with pytest.raises(
        RefusedError, match=r"epsilon \(2.6, delta 0\) does not fit the cap on census: 2.5 of 3 is left"
    ):
        served.query("anna", "CALL mwem_release('census', w, 2.6, output := 'more')")
    assert served.stop() == 0
    (entry,) = map(json.loads, served.sql("private.duckdb", "SELECT user_name, epsilon FROM mwem.ledger").splitlines())
    assert entry == {"user_name": "anna", "epsilon": 0.5}


def test_two_users_at_once_are_charged_for_what_each_asked(served: Served) -> None:
    served.ask("anna", "CREATE TABLE curator.w AS SELECT ['sex'] AS group_by")
    outputs = [(user, f"{user}_{k}") for k in range(4) for user in ("anna", "bert")]
    with ThreadPoolExecutor(4) as pool:
        calls = [(each, pool.submit(served.query, each[0], RELEASE.format(each[1]))) for each in outputs]
    # More at once than there are places for: who is refused calls again, and was charged nothing.
    refusals = {each: str(call.exception()) for each, call in calls if call.exception() is not None}
    assert all("releases are being made already" in refusal for refusal in refusals.values()), refusals
    for user, output in refusals:
        served.query(user, RELEASE.format(output))
    assert served.stop() == 0
    rows = served.sql("private.duckdb", "SELECT user_name, output FROM mwem.ledger").splitlines()
    entries = [json.loads(row) for row in rows]
    assert sorted(entry["user_name"] for entry in entries) == ["anna"] * 4 + ["bert"] * 4
    assert all(entry["output"].startswith(f"published.main.{entry['user_name']}_") for entry in entries)


def test_a_users_cap_holds_beside_the_tables(served: Served) -> None:
    served.ask("bert", "CREATE TABLE curator.w AS SELECT ['sex'] AS group_by")
    served.query("bert", "CALL mwem_release('census', w, 1.75)")
    with pytest.raises(RefusedError, match=r"epsilon \(0.5, delta 0\) does not fit the cap on all tables for bert"):
        served.query("bert", "CALL mwem_release('census', w, 0.5, output := 'more')")
    served.query("anna", "CALL mwem_release('census', w, 0.5, output := 'more')")


def test_a_release_beyond_the_allowance_is_asked_for_and_approved_while_it_runs(served: Served) -> None:
    served.ask("bert", "CREATE TABLE curator.w AS SELECT ['sex'] AS group_by")
    arguments = "('census', w, 2.5)"
    with pytest.raises(RefusedError, match=r"does not fit the cap on all tables for bert.*CALL mwem_request"):
        served.query("bert", f"CALL mwem_release{arguments}")
    assert served.curator() == []
    (asked,) = served.query("bert", f"CALL mwem_request{arguments}")
    (waiting,) = served.curator()
    assert (waiting["user_name"], waiting["epsilon"], waiting["state"]) == ("bert", "2.5", "open")
    approve = f"CALL mwem_approve('{asked['request']}')"
    for user in ("bert", "anna"):
        with pytest.raises(RefusedError, match="mwem_approve is the curator's alone"):
            served.query(user, approve)
    assert served.query("anna", "FROM mwem_requests()") == []
    assert served.curator("-c", approve)[0]["state"] == "approved"
    (made,) = served.query("bert", f"CALL mwem_release{arguments}")
    assert (made["epsilon"], made["reused"]) == (2.5, False)
    assert served.query("bert", "SELECT state FROM mwem_requests()") == [{"state": "used"}]
    # What is not good enough is published nowhere until the curator says so.
    poor = "CALL mwem_release('census', w, 0.001, output := 'poor', publish_if := 'mean_share < 0.01')"
    with pytest.raises(RefusedError, match=r"output \(published.main.poor\) is not published"):
        served.query("anna", poor)
    with pytest.raises(RefusedError, match="poor does not exist"):
        served.query("bert", "FROM poor")
    (withheld,) = served.curator()
    assert (withheld["kind"], withheld["user_name"]) == ("publish", "anna")
    served.curator("-c", f"CALL mwem_approve('{withheld['request']}')")
    (published,) = served.query("anna", poor)
    assert published["reused"] is False
    assert served.query("bert", "SELECT count(*) AS n FROM poor") == [{"n": published["rows"]}]
    # The door stands in the curator's folder, and is gone with the server.
    door = served.folder / "private.duckdb.curator"
    assert door.stat().st_mode & 0o777 == 0o600
    assert served.stop() == 0
    assert not door.exists()


REFUSED = {
    "FROM curator.query('CALL mwem_budget(''census'', 100)')": "mwem_budget is the curator's alone",
    "FROM curator.query('CALL mwem_release(''census'', w, 0.5, seed := 1)')": "seed (1) is the curator's alone",
    "FROM curator.query('CALL mwem_release(''secret'', w, 0.5)')": "table ('secret') has no cap",
    "FROM curator.query('FROM secret')": "Table with name secret does not exist",
    "FROM curator.query('FROM private.main.census')": 'Catalog "private" does not exist',
    "FROM curator.query('FROM read_text(''/etc/passwd'')')": "function ('read_text') is not one that is run here",
    "FROM curator.query('ATTACH ''private.duckdb''')": "ATTACH is not for analysts",
    "FROM curator.query('SET memory_limit = ''1TB''')": "SET is not for analysts",
    "FROM curator.query('FROM quack_active_connections()')": "('quack_active_connections') is not one that is run here",
    "FROM curator.query('SELECT 1; SELECT 2')": "2 statements came together",
    "FROM curator.query('SELECT _mwem_release(''{}'', [])')": "function ('_mwem_release') is not one that is run here",
    "INSERT INTO curator.w VALUES (['age'])": "Authorization failed",
    "DROP TABLE curator.w": "table ('w') is not one that you made here",
    "DROP TABLE curator.census_synthetic": "table ('census_synthetic') is not one that you made here",
    "INSERT INTO curator.mwem.releases (release) VALUES (9)": "Authorization failed",
}


def test_what_is_refused_is_refused_with_a_sentence(served: Served) -> None:
    served.ask("anna", "CREATE TABLE curator.w AS SELECT ['sex'] AS group_by")
    served.query("anna", "CALL mwem_release('census', w, 0.5)")
    for sql, sentence in REFUSED.items():
        with pytest.raises(RefusedError) as refused:
            served.ask("bert", sql)
        assert sentence in str(refused.value), sql
    tables = served.query("bert", "SELECT database_name, table_name FROM duckdb_tables()")
    assert {row["database_name"] for row in tables} == {"published"}
    assert not {row["table_name"] for row in tables} & {"secret", "journal", "census"}
    served.ask("anna", "INSERT INTO curator.w VALUES (['age'])")
    assert served.query("bert", "SELECT count(*) AS n FROM w") == [{"n": 2}]


def test_users_come_and_go_while_it_runs(served: Served) -> None:
    for token in ("anna", "anna.wrong", served.tokens["anna"][:-1], ""):
        with pytest.raises(RefusedError, match=r"Authentication failed|token"):
            served.ask("anna", "SELECT 1", token=token or "none")
    run(served.bin / "mwem-sql", "user", "remove", "bert", cwd=served.folder)
    served.user("carl")
    assert served.query("bert", "SELECT 1 AS x") == [{"x": 1}]  # nothing was read again yet
    # A connection that is open already is refused from the next statement on.
    hang_up = f".system kill -HUP {served.process.pid}\n"
    script = f"FROM curator.query('SELECT 1 AS x');\n{hang_up}.system sleep 2\nFROM curator.query('SELECT 2 AS x');\n"
    done = subprocess.run(
        served.client("bert")[:-1], input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert '"x":1' in done.stdout and '"x":2' not in done.stdout and "Authorization failed" in done.stderr
    served.wait_for("read again: 2 users")
    assert served.query("carl", "SELECT 1 AS x") == [{"x": 1}]
    with pytest.raises(RefusedError, match="Authentication failed"):
        served.query("bert", "SELECT 1")
    (served.folder / "setup.sql").write_text("CALL mwem_budget('census', 0.125)")
    served.reload()
    served.ask("carl", "CREATE TABLE curator.w AS SELECT ['sex'] AS group_by")
    with pytest.raises(RefusedError, match=r"0\.125 of 0\.125 is left"):
        served.query("carl", "CALL mwem_release('census', w, 0.25)")


def test_what_does_not_end_is_stopped_and_the_server_stays_up(prepared: Served) -> None:
    prepared.options = ["--statement-seconds", "1", "--memory", "200MB"]
    prepared.start()
    with pytest.raises(RefusedError, match="the statement took more than 1 seconds, and was stopped"):
        prepared.query("anna", "SELECT count(*) FROM range(10000000000) a, range(1000000) b")
    with pytest.raises(RefusedError, match=r"Out of Memory|took more than 1 seconds"):
        prepared.query("anna", "SELECT list(i) FROM range(1000000000) t(i)")
    assert prepared.query("bert", "SELECT count(*) AS n FROM range(300000)") == [{"n": 300_000}]
    sums = "SELECT count(*) AS n, sum(i)::BIGINT AS s FROM curator.query('SELECT i FROM range(300000) t(i)')"
    assert prepared.ask("bert", sums) == [{"n": 300_000, "s": 44_999_850_000}]


def test_a_release_comes_to_its_end_before_the_server_stops(served: Served) -> None:
    """The client may even be gone: what was charged is stored, and is returned by the same call later."""
    served.ask("anna", "CREATE TABLE curator.w AS SELECT 'age > ' || a || ' AND age < ' || b AS predicate "
                       "FROM range(40) x(a), range(40) y(b)")  # fmt: skip
    call = "CALL mwem_release('census', w, 1.0, rounds := 30)"
    text = call.replace("'", "''")
    client = subprocess.Popen([*served.client("anna"), f"FROM curator.query('{text}')"], stdout=subprocess.PIPE)
    served.wait_for("census: rounds")
    client.kill()
    client.communicate()
    assert served.stop() == 0, "\n".join(served.lines)
    (row,) = map(json.loads, served.sql("private.duckdb", "SELECT status, user_name FROM mwem.ledger").splitlines())
    assert row == {"status": "done", "user_name": "anna"}
    served.start()
    (again,) = served.query("anna", call)
    assert again["reused"] is True
    assert served.query("bert", "SELECT count(*) AS n FROM census") == [{"n": again["rows"]}]


def test_a_health_check_says_whether_it_answers(served: Served) -> None:
    listen = f"quack:localhost:{served.port}"
    command = [served.bin / "mwem-sql", "serve", "--health", "--listen", listen]
    assert run(*command) == f"{listen} answers\n"
    assert served.stop() == 0
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "does not answer" in done.stderr


IN_PYTHON = """
import sys, mwem_sql
files = 'private.duckdb', 'published.duckdb', 'users.toml'
with mwem_sql.serve(*files, listen=sys.argv[1], statement_seconds=9) as server:
    con = server.public.cursor()
    settings = "('enable_external_access', 'lock_configuration', 'python_enable_replacements', 'temp_directory')"
    print(dict(con.execute(f"SELECT name, value FROM duckdb_settings() WHERE name IN {settings}").fetchall()))
    print(server.users, server.private.execute("FROM duckdb_tables()").fetchall() != [])
    server.private.execute("CALL mwem_budget('census', 5)")
    server.reload("CALL mwem_budget('census', 4)")
    print([row["epsilon"] for row in mwem_sql.budget(server.private, 'census', 4).to_pylist()])
    try:
        con.execute("FROM mwem_ledger()")
    except Exception as error:
        print(error)
server.stop()
"""


def test_a_curator_serves_from_python(prepared: Served) -> None:
    listen = f"quack:localhost:{prepared.port}"
    lines = run(prepared.bin / "python", "-c", IN_PYTHON, listen, cwd=prepared.folder).splitlines()
    assert eval(lines[0]) == {
        "enable_external_access": "false", "lock_configuration": "true", "python_enable_replacements": "false",
        "temp_directory": "",
    }  # fmt: skip
    assert lines[1:3] == ["['anna', 'bert'] True", "[4.0]"]
    assert "the call has no seat" in lines[3]


def test_systemd_is_told_when_it_is_ready(prepared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket  # noqa: PLC0415

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as con:
        con.bind(os.fspath(prepared.folder / "notify"))
        con.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", os.fspath(prepared.folder / "notify"))
        prepared.start()
        assert con.recv(100) == b"READY=1"
        assert prepared.stop() == 0
        assert con.recv(100) == b"STOPPING=1"
