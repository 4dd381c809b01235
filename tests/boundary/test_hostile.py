"""Every text of hostile.txt through the real surface: refused in clear words or answered as DuckDB answers, and nothing
else happens.

The tables are in a file. Two of them have the same public side; the second one also has rows that no domain foresees,
with values that no message may show. Whatever is refused must be refused in the same words on both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from chance import sampled
from conftest import Connection

import mwem_sql
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload

PUBLIC = """
    CREATE TABLE {0} (age INTEGER, city VARCHAR, member BOOLEAN NOT NULL, day DATE);
    INSERT INTO {0} VALUES
        (0, 'Bern', true, '2020-01-01'), (1, 'Bern', false, '2020-01-02'), (2, 'Basel', true, '2020-01-31'),
        (3, NULL, false, NULL),
        (4, 'Bern', true, '2020-02-01'), (5, 'Basel', false, '2020-02-29'), (6, NULL, true, '2020-03-01'),
        (9, NULL, false, '2020-03-31'),
        (NULL, NULL, false, NULL);
    CREATE TABLE {0}_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR);
    INSERT INTO {0}_domain VALUES ('age', NULL, 0, 9), ('city', ['Bern', 'Basel'], NULL, NULL), ('day', NULL,
    '2020-01-01', '2020-03-31');
"""
CANARY = "canary-7391"
ODD = f"""
    INSERT INTO people VALUES
        (2147483647, '{CANARY}', true, 'infinity'), (-2147483648, '{CANARY}'' OR true --', false, '-infinity'),
        (73915, '', true, '9999-12-31'),
        (NULL, chr(0), true, '0001-01-01'), (-1, 'BERN', false, NULL), (10, '2020-13-45', true, '2020-04-01')
"""


@dataclass(frozen=True)
class Case:
    """A text, what it serves as, and what becomes of it."""

    line: int
    role: str
    text: str
    outcome: str
    expected: str

    def rows(self) -> dict[str, str]:
        return {self.role: self.text}


def read_cases() -> Iterator[Case]:
    lines = (Path(__file__).parents[1] / "hostile.txt").read_text(encoding="utf-8").splitlines()
    numbered = [
        (number, line) for number, line in enumerate(lines, start=1) if line.strip() and not line.startswith("#")
    ]
    for (number, asked), (_, told) in zip(numbered[::2], numbered[1::2], strict=True):
        role, _, text = asked.partition(": ")
        outcome, _, expected = told.strip().partition(": ")
        assert (
            role in {"predicate", "measure", "group_by"} and outcome in {"refused", "answer"} and told.startswith("  ")
        ), number
        made = eval(text.removeprefix("python: ")) if text.startswith("python: ") else text
        yield Case(number, role, made, outcome, expected)


CASES = list(read_cases())
REFUSED = [case for case in CASES if case.outcome == "refused"]
ANSWERED = [case for case in CASES if case.outcome == "answer"]


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A database file with both tables: `plain.people`, and `odd.people` with the rows nobody foresees. The working
    directory is empty."""
    before, scratch = Path.cwd(), tmp_path_factory.mktemp("scratch")
    os.environ["MWEM_CANARY"] = CANARY
    os.chdir(scratch)
    con = mwem_sql.connect(tmp_path_factory.mktemp("database") / "hostile.duckdb")
    for schema in ("plain", "odd"):
        con.execute(f"CREATE SCHEMA {schema}; USE {schema}; {PUBLIC.format('people')}")
    con.execute(ODD)
    con.execute(
        "USE main; CREATE SEQUENCE serial; CREATE TABLE asked (predicate VARCHAR, measure VARCHAR, group_by VARCHAR)"
    )
    con.execute("CREATE MACRO people_macro(x) AS (SELECT count(*) FROM odd.people)")
    con.create_function("shout", str.upper, ["VARCHAR"], "VARCHAR")
    yield con
    con.close()
    os.chdir(before)
    del os.environ["MWEM_CANARY"]


def outside(con: Connection) -> dict[str, Any]:
    """Everything a text could have changed."""
    catalog = "SELECT database_name, schema_name, {0} FROM duckdb_{1}() WHERE NOT internal ORDER BY ALL"
    return {
        "files": sorted(map(str, Path.cwd().rglob("*"))),
        "settings": con.execute("SELECT name, value FROM duckdb_settings() ORDER BY ALL").fetchall(),
        "extensions": con.execute(
            "SELECT extension_name FROM duckdb_extensions() WHERE loaded ORDER BY ALL"
        ).fetchall(),
        "databases": con.execute("SELECT database_name FROM duckdb_databases() ORDER BY ALL").fetchall(),
        "sequence": con.execute("SELECT sequence_name, last_value FROM duckdb_sequences()").fetchall(),
        **{
            kind: con.execute(catalog.format(f"{kind[:-1]}_name", kind)).fetchall()
            for kind in ("tables", "views", "functions")
        },
        "rows": con.execute("SELECT (SELECT count(*) FROM plain.people), (SELECT count(*) FROM odd.people)").fetchall(),
        "ledger": con.execute("FROM mwem_ledger()").fetchall(),
    }


def refusal(con: Connection, case: Case, table: str) -> str:
    """What a release says to a text."""
    if not case.text.isascii() and any("\ud800" <= character <= "\udfff" for character in case.text):
        with pytest.raises(mwem_sql.MwemError) as refused:  # no SQL can carry it
            mwem_sql.release(con, table, Workload.from_rows([case.rows()]), 1)
        return str(refused.value)
    con.execute("DELETE FROM asked")
    con.execute(f"INSERT INTO asked ({case.role}) VALUES (?)", [case.text])
    with pytest.raises(duckdb.Error) as caught:
        con.execute("FROM mwem_release(?, asked, 1, output := ?)", [table, f"{table}_{case.line}"]).fetchall()
    return str(caught.value)


def check_refused(case: Case, message: str) -> None:
    assert case.expected in message, case
    assert " Hint: " in message or "\nHint: " in message, case
    for leak in (CANARY, "73915", "2147483648", "Traceback", "Python exception", ".py", "unexpected", str(Path.cwd())):
        assert leak not in message or leak in case.text or leak in case.expected, (case, leak)


@pytest.fixture(scope="module")
def before(con: Connection) -> dict[str, Any]:
    return outside(con)


def test_refusals_of_the_compiler(con: Connection) -> None:
    """Every refusal, in one sandbox: what a release does before it charges."""
    domain = mwem_sql.Domain.from_schema(con, "odd.people")
    with Sandbox() as sandbox:
        for case in REFUSED:
            with pytest.raises(mwem_sql.MwemError) as caught:
                compile_workload(domain, Workload.from_rows([case.rows()]), sandbox)
            check_refused(case, str(caught.value))


def check_on_both(con: Connection, case: Case) -> None:
    plain = refusal(con, case, "plain.people")
    check_refused(case, plain)
    assert refusal(con, case, "odd.people") == plain


# Each costs two calls, so the default is a sample of every section, and the thorough suite a larger one; the campaign
# is all of them.
@pytest.mark.parametrize("case", sampled(REFUSED[::6], 12), ids=lambda case: f"line{case.line}")
def test_a_refusal_does_not_depend_on_a_row(con: Connection, before: dict[str, Any], case: Case) -> None:
    assert before["ledger"] == []
    check_on_both(con, case)


@pytest.mark.campaign
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"line{case.line}")
def test_no_refusal_depends_on_a_row(con: Connection, before: dict[str, Any], case: Case) -> None:
    assert before["ledger"] == []
    check_on_both(con, case)


def test_refusals_have_no_effect(con: Connection, before: dict[str, Any]) -> None:
    """After all of the above: no file, no setting, no table, no entry in the ledger."""
    assert outside(con) == before
    assert before["ledger"] == []


def test_answers(con: Connection) -> None:
    """What is answered is answered exactly, on the rows that the domain foresees; on the others nothing raises."""
    con.execute("DELETE FROM asked")
    con.executemany(
        "INSERT INTO asked VALUES (?, ?, ?)",
        [[case.rows().get(role) for role in ("predicate", "measure", "group_by")] for case in ANSWERED],
    )
    for schema in ("plain", "odd"):
        (summary,) = con.execute(
            f"FROM mwem_release('{schema}.people', asked, 1, rounds := 3, output := '{schema}.people_synthetic')"
        ).fetchall()
        assert summary[6] == len(ANSWERED)
    found: dict[int, list[int]] = {}
    for query, count in con.execute(
        "SELECT query, true_answer FROM mwem_compare('plain.people', 'plain.people_synthetic', asked)"
    ).fetchall():
        found.setdefault(query, []).append(int(count))
    counted = {
        case.line: " ".join(map(str, sorted(filter(None, found[k])))) or "0" for k, case in enumerate(ANSWERED, start=1)
    }
    assert counted == {case.line: case.expected for case in ANSWERED}


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("text", "count"),
    [("age IN ({})", 4), ("age NOT IN ({})", 4), ("city IN ('Bern', '{}')", 3), ("age + 0 IN ({})", 4)],
)
def test_ten_thousand_values(con: Connection, text: str, count: int) -> None:
    con.execute("DELETE FROM asked")
    con.execute(
        "INSERT INTO asked (predicate) VALUES (?)",
        [text.format((",", "','")["'" in text].join(map(str, range(4, 10_004))))],
    )
    (summary,) = con.execute(
        "FROM mwem_release('plain.people', asked, 1, rounds := 1, output := ?)", [f"many {text}"]
    ).fetchall()
    assert con.execute(
        "SELECT true_answer FROM mwem_compare('plain.people', ?, asked)", [f'plain."many {text}"']
    ).fetchall() == [(count,)]
    assert summary[6] == 1


def test_effects_would_be_seen(con: Connection) -> None:
    """The net has no hole where the campaign relies on it."""
    known = outside(con)
    for effect in (
        "CREATE TABLE made (i INTEGER)",
        "CREATE MACRO made_macro() AS 1",
        "COPY (SELECT 1) TO 'stolen.csv'",
        "SET TimeZone = 'Asia/Tokyo'",
        "SELECT nextval('serial')",
        "ATTACH ':memory:' AS elsewhere",
        "CALL mwem_suggest_domain('plain.people')",
    ):
        con.execute(effect).fetchall()
        seen = outside(con)
        assert seen != known, effect
        known = seen
