"""The SQL surface through plain SQL files, tests/sql/*.test, in the manner of sqllogictest. Each gets a database of its
own.

    statement ok                    the SQL below, up to an empty line, runs
    statement error <text>          it fails, and the message contains the text
    query                           it gives the rows below `----`, cells separated by ` | `
    connection <name>               what follows runs on that cursor; the first is called main
    restart                         close the database and open it again

`{dir}` in SQL is a temporary folder. A line that starts with # is a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import PEOPLE, Connection, Open

import mwem_sql
from mwem_sql.releases.request import OPTIONS

FILES = sorted((Path(__file__).parents[1] / "sql").glob("*.test"))
LONG = {"always", "attached", "budget", "names", "once", "options", "policy", "quantiles", "samples"}
"""Those whose subject has other tests in the default suite: accounts, requests that are made again, options and so
on."""


@dataclass(frozen=True)
class Record:
    """One directive of a file, with the line it is on."""

    line: int
    head: str
    sql: str
    rows: list[str]


def parse(text: str) -> Iterator[Record]:
    lines = [line.rstrip() for line in text.splitlines()]
    number = 0
    while number < len(lines):
        start = number
        while number < len(lines) and lines[number]:
            number += 1
        block = [line for line in lines[start:number] if not line.startswith("#")]
        number += 1
        if block:
            body, rows = block[1:], []
            if "----" in body:
                rows = body[body.index("----") + 1 :]
                body = body[: body.index("----")]
            yield Record(start + 1, block[0], "\n".join(body), rows)


def shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.thorough] * (path.stem in LONG)) for path in FILES],
)
def test_file(path: Path, connect: Open, tmp_path: Path) -> None:
    database = tmp_path / "census.duckdb"
    main = connect(database)
    cursors: dict[str, Connection] = {"main": main}
    current = "main"
    for record in parse(path.read_text(encoding="utf-8")):
        place = f"{path.name}:{record.line}"
        word, _, rest = record.head.partition(" ")
        sql = record.sql.replace("{dir}", str(tmp_path))
        if word == "connection":
            current = rest
            cursors.setdefault(current, main.cursor())
        elif word == "restart":
            main.close()
            main = connect(database)
            cursors, current = {"main": main}, "main"
        elif record.head == "statement ok":
            run(cursors[current], sql, place)
        elif record.head.startswith("statement error "):
            refused(cursors[current], sql, rest.removeprefix("error "), place)
        elif word == "query":
            found = [" | ".join(map(shown, row)) for row in run(cursors[current], sql, place)]
            assert found == record.rows, place
        else:
            pytest.fail(f"{place}: unknown directive {record.head}")


def run(con: Connection, sql: str, place: str) -> list[tuple[Any, ...]]:
    try:
        return con.execute(sql).fetchall()
    except duckdb.Error as error:
        pytest.fail(f"{place}: {error}")


def refused(con: Connection, sql: str, wanted: str, place: str) -> None:
    with pytest.raises(duckdb.Error) as caught:
        con.execute(sql).fetchall()
    message = str(caught.value)
    assert wanted in message, place
    for trace in ("Traceback", "Python exception", ".py", "unexpected"):
        assert trace not in message, place


VALUES = (
    "NULL", "5", "-1.5", "''", "[]", "['a', NULL]", "{'a': 1}", "true", "'nan'::DOUBLE", "'x'::BLOB", """'a''b"c'""",
    "chr(0)",
    "170141183460469231731687303715884105727",
)  # fmt: skip
CALLS = (
    "mwem_release({}, workload, -1)", "mwem_release('people', workload, {}, rounds := 0)",
    "mwem_plan('people', workload, 1, delta := {})",
    "mwem_plan('people', workload, 1, rounds := {})", "mwem_plan('people', workload, 1, output := {})",
    "mwem_plan('people', workload, 1, rows := {})",
    "mwem_plan('people', workload, 1, total := {})", "mwem_plan('people', workload, 1, domain := {})",
    "mwem_plan('people', workload, 1, unit := {})",
    "mwem_plan('people', workload, 1, unit := 'age', rows_per_unit := {})",
    "mwem_plan('people', workload, 1, start := {})",
    "mwem_plan('people', workload, 1, average := {})", "mwem_plan('people', workload, 1, version := {})",
    "mwem_plan('people', workload, 1, fit := {})", "mwem_plan('people', workload, 1, max_cells := {})",
    "mwem_plan('people', workload, 1, certify := {})", "mwem_plan('people', workload, 1, publish_if := {})",
    "mwem_answer('o', workload, confidence := {})", "mwem_quality({})", "mwem_quality('o', confidence := {})",
    "(SELECT mwem_count_interval('o', 'true', confidence := {}))",
    "mwem_plan('people', workload, 1, seed := {})",
    "mwem_domain({})", "mwem_domain('people', domain := {})", "mwem_marginals('people', {})",
    "mwem_plan('people', workload, 1, rules := {})", "mwem_rules({})", "mwem_rules('people', rules := {})",
    "mwem_plan('people', workload, 1, known := {})", "mwem_known({})", "mwem_known('people', known := {})",
    "mwem_ranges('people', {}, 2)", "mwem_ranges('people', 'age', {})",
    "mwem_ranges('people', 'age', 2, seed := {})", "mwem_parities('people', {})",
    "mwem_parities('people', 1, columns := {})", "mwem_suggest_domain({})",
    "mwem_average({}, 'age')", "mwem_average('o', {})", "mwem_average('o', 'age', given := {})",
    "mwem_average('o', 'age', confidence := {})",
    "mwem_quantile({}, 'age', 0.5)", "mwem_quantile('o', {}, 0.5)", "mwem_quantile('o', 'age', {})",
    "mwem_quantile('o', 'age', 0.5, given := {})", "mwem_quantile('o', 'age', 0.5, confidence := {})",
    "mwem_sample({})", "mwem_sample('o', rows := {})", "mwem_sample('o', given := {})", "mwem_sample('o', seed := {})",
    "mwem_withdraw({}, 'why')", "mwem_request({}, workload, 1)", "mwem_approve({})", "mwem_refuse({}, 'why')",
    "mwem_refuse('x', {})", "mwem_withdraw_request({})",
    "mwem_answer({}, workload)", "mwem_weights({}, 'sex')", "mwem_weights('o', {})",
    "mwem_compare('people', {}, workload)", "mwem_compare({}, 'o', workload)",
    "mwem_budget({}, 1)", "mwem_budget('people', {})", "mwem_budget('people', 1, delta := {})",
    "(SELECT mwem_count({}, 'true'))", "(SELECT mwem_count('o', {}))",
)  # fmt: skip


# By default each call has a few of the values, others than the call before.
@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("call", CALLS)
def test_whatever_an_argument_is_the_answer_is_ours(asked: Connection, call: str, step: int) -> None:
    """No argument leads to an exception that nobody foresaw, or to one of DuckDB's without a hint."""
    for value in VALUES[CALLS.index(call) % step :: step]:
        statement = f"FROM {call.format(value)}"
        try:
            asked.execute(statement).fetchall()
        except duckdb.Error as error:
            message = str(error)
            assert message.startswith("Invalid Input Error: "), statement
            assert "Hint: " in message, statement
            assert "please report" not in message, statement


def test_every_option_is_called_with_whatever() -> None:
    assert [option for option in OPTIONS if not any(f"{option} := {{}}" in call for call in CALLS)] == []


@pytest.fixture(scope="module")
def asked() -> Iterator[Connection]:
    con = mwem_sql.connect()
    con.execute(PEOPLE)
    con.execute("CALL mwem_release('people', workload, 1, rounds := 1, rows := 3, output := 'o')").fetchall()
    yield con
    con.close()


def test_the_files_are_found() -> None:
    assert len(FILES) >= 8


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("query\nSELECT 1\n----\n2\n", "broken.test:1"),
        ("\n\nstatement ok\nSELECT nope\n", "broken.test:3"),
        ("statement error nope\nSELECT error('yes')\n", "broken.test:1"),
        ("statement error\nSELECT 1\n", "unknown directive"),
        ("statement error yes\nSELECT 1\n", "DID NOT RAISE"),
    ],
)
def test_a_file_can_fail(text: str, reason: str, connect: Open, tmp_path: Path) -> None:
    path = tmp_path / "broken.test"
    path.write_text(text)
    with pytest.raises((AssertionError, pytest.fail.Exception), match=reason):
        test_file(path, connect, tmp_path)
