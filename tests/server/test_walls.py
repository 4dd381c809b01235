"""The walls from outside: attacks.txt against a real server, Quack's bytes, TLS through nginx.

Scripts run in the environment that has Quack. What is cheap is tried here without one, on the gate itself.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from environments import ROOT, run
from gates import World, world
from quack import commands

import mwem_sql
from mwem_sql.errors import MwemError
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.server.limits import ServerLimits
from mwem_sql.server.statements import StatementReader

Make = Callable[..., World]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with mwem_sql.connect() as private, mwem_sql.connect() as public:
        yield lambda **limits: world(private, public, tmp_path, ServerLimits(**limits))


@pytest.fixture(scope="module")
def quack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commands(tmp_path_factory.mktemp("environment"))


@pytest.mark.parametrize("table", [".w", "main.w", ".census_synthetic", "main.nobodys"])
def test_rows_for_a_table_that_is_not_theirs_are_refused_by_an_error(make: Make, table: str) -> None:
    """Whatever SQL is given back, Quack writes the rows: only an exception stops it. It asks `.w` without a schema."""
    here = make()
    here.client("bert").run("CREATE TABLE w AS SELECT 1 AS a")
    anna = here.client("anna")
    with pytest.raises((MwemError, duckdb.Error)):
        here.gate.authorize(anna.name, f"INSERT INTO {table} VALUES (NULL)")


@pytest.mark.parametrize(
    ("output", "refusal"),
    [
        ("secret", "has the name of a private table"),
        ("census_domain", "has the name of a private table"),
        ("secret_synthetic", "has the name of a private table"),
        ("mwem_server.x", "is not in the schema main"),
        ("his", "is the name of a table of another user's"),
        ("hers", "is the name of a table of yours"),
    ],
)
def test_an_output_is_a_name_of_nobodys(make: Make, output: str, refusal: str) -> None:
    here = make()
    here.client("bert").run("CREATE TABLE his AS SELECT 1 AS a")
    anna = here.client("anna")
    anna.run("CREATE TABLE hers AS SELECT ['sex'] AS group_by")
    with pytest.raises(duckdb.Error, match=refusal):
        anna.run(f"CALL mwem_release('census', hers, 0.5, output := '{output}')")
    assert here.private.execute("SELECT count(*) FROM mwem.ledger").fetchall() == [(0,)]


def test_a_name_that_was_not_made_is_free_and_the_cure_works(make: Make) -> None:
    here = make()
    anna = here.client("anna")
    anna.run("CREATE TABLE w AS SELECT ['sex'] AS group_by")
    with pytest.raises(duckdb.Error, match="nothing"):
        anna.run("CREATE TABLE out AS SELECT error('nothing')")
    anna.run("BEGIN")
    anna.run("CREATE TABLE out(a INTEGER)")  # nobody else sees it, and the release would fail when it is charged
    bert, call = here.client("bert"), "CALL mwem_release('census', w, 0.5, rounds := 1, rows := 9, output := 'out')"
    with pytest.raises(duckdb.Error, match="is the name of a table of another user's"):
        bert.run(call)
    anna.run("ROLLBACK")
    with pytest.raises(duckdb.Error, match='DROP TABLE IF EXISTS "out"'):
        anna.run(call)
    anna.run('DROP TABLE IF EXISTS "out"')
    assert anna.one(call)["reused"] is False


def test_nobody_takes_the_name_of_a_release_that_is_being_made(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = make()
    anna, bert = here.client("anna"), here.client("bert")
    anna.run("CREATE TABLE w AS SELECT ['sex'] AS group_by")
    refusals, measure = list[str](), Kernel.measure

    def taken(*arguments: object, **options: object) -> object:
        if not refusals:
            with pytest.raises(duckdb.Error, match="has the name of a release that is being made") as refusal:
                bert.run("CREATE TABLE out(a INTEGER)")
            refusals.append(str(refusal.value))
        return measure(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "measure", taken)
    anna.run("CALL mwem_release('census', w, 0.5, rounds := 1, rows := 9, output := 'out')")
    assert refusals and bert.run("SELECT count(*) FROM out") == [(9,)]


def test_who_the_users_are_is_not_read(make: Make) -> None:
    anna = make().client("anna")
    for text in ("FROM mwem_server.owners", 'TABLE "MWEM_SERVER".owners', "SUMMARIZE mwem_server.owners"):
        with pytest.raises(duckdb.Error, match="is the server's, and says who its users are"):
            anna.run(text)


DEEP = [
    "SELECT '{}'" + "->'a'" * 9,
    "SELECT apply([1], lambda a: apply([1], lambda b: apply([1], lambda c: c)))",
    "SELECT apply([1], lambda a: range(100))",
    "WITH a0 AS (SELECT 1), " + ", ".join(f"a{k + 1} AS (FROM a{k} x, a{k} y)" for k in range(14)) + " FROM a14",
    "SELECT json_structure('[]')",
    "SELECT levenshtein('a', 'b')",
    "SELECT '1'::JSON::VARIANT",
    "SELECT " + "[" * 300 + "1" + "]" * 300,
    "SELECT 1\0; SELECT 2",
]


@pytest.mark.parametrize("text", DEEP)
def test_what_no_interrupt_reaches_is_refused(text: str) -> None:
    reader = StatementReader("published")
    try:
        with pytest.raises(MwemError, match="Hint: "):
            reader.read(text)
        for nearly in (
            "SELECT '{}'" + "->'a'" * 8,
            "SELECT apply([1], lambda a: apply([1], lambda b: b))",
            "SELECT range(3)",
        ):
            assert reader.read(nearly).kind == "query"
    finally:
        reader.close()


def test_statements_of_a_user_at_once_are_counted(make: Make) -> None:
    here = make(statements_per_user=1, statement_seconds=20.0)
    first, second = here.client("anna", "first"), here.client("anna", "second")
    errors = list[str]()

    def endless() -> None:
        with pytest.raises(duckdb.Error) as error:
            first.run("SELECT count(*) FROM range(10000000000) a, range(1000000) b")
        errors.append(str(error.value))

    thread = threading.Thread(target=endless)
    thread.start()
    while not here.gate._running:
        pass
    with pytest.raises(duckdb.Error, match="1 statements of yours run already"):
        second.run("SELECT 1")
    assert here.client("bert").run("SELECT 1") == [(1,)]
    here.gate.interrupt()
    thread.join()
    assert errors and second.run("SELECT 1") == [(1,)]


@pytest.mark.server
def test_no_attack_of_a_sample_brings_anything_out(quack: Path) -> None:
    printed = run(quack / "python", ROOT / "tests" / "server" / "attacks.py", "10")
    assert " 0 went wrong" in printed


@pytest.mark.campaign
def test_no_attack_brings_anything_out(quack: Path) -> None:
    printed = run(quack / "python", ROOT / "tests" / "server" / "attacks.py")
    print(printed)
    assert " 0 went wrong" in printed


@pytest.mark.server
def test_no_bytes_bring_anything_out(quack: Path) -> None:
    assert " 0 went wrong" in run(quack / "python", ROOT / "tests" / "server" / "bytes.py")


@pytest.mark.server
@pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="no nginx is installed")
def test_tls_comes_from_a_proxy(quack: Path) -> None:
    assert "TLS: from the domain to a release" in run(quack / "python", ROOT / "tests" / "server" / "tls.py")
