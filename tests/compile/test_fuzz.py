"""Fuzzing: only our own errors come out, whatever stands in predicates, rows, domain tables, options and mwem tables.

Texts are cut, crossed and spoilt from ones that work. A case is a seed: `python tests/compile/test_fuzz.py TARGET FIRST
LAST` runs a range of them and prints what it found. What was found once is in FOUND, or has a test beside the code that
was wrong. `pytest -m campaign` runs for long.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import duckdb
import pytest

import mwem_sql
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import MwemError
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.releases.request import Request
from mwem_sql.workload import Workload

Chance = random.Random
SCHEMA = """
    CREATE TABLE t (a INTEGER CHECK (a BETWEEN 0 AND 9), b ENUM ('x', 'y'),
        c DOUBLE NOT NULL CHECK (c >= 0 AND c < 100), d BOOLEAN, e DATE, s VARCHAR CHECK (s IN ('p', 'q''s')));
    INSERT INTO t SELECT i % 10, 'x', i, i % 2 = 0, NULL, 'p' FROM range(30) r(i);
    CREATE TABLE w (predicate VARCHAR, group_by VARCHAR[]); INSERT INTO w VALUES ('a > 3', NULL), (NULL, ['b', 'd'])"""
TEXTS = [
    "a > 3",
    "a BETWEEN 2 AND 5 AND b = 'x'",
    "NOT (d OR c < 50.5)",
    "s LIKE 'p%' ESCAPE '!'",
    "b IN ('x', 'y', NULL)",
    "CASE WHEN a % 2 = 0 THEN d ELSE s = 'q''s' END",
    "c::INTEGER // 10 = 3",
    "coalesce(a, 7) + 1 <> 8",
    "upper(s) = 'P' AND length(s) >= 1",
    "e IS NULL",
    "abs(a - 5) <= 2 OR c ** 2 > 1e3",
    '"a" = 1 -- end',
    "t.a = 1",
    "WHERE a = 1;",
    "a = ANY ([1, 2, 3])",
    "regexp_matches(s, '^p')",
    "date_trunc('month', DATE '2020-02-29') < DATE '2021-01-01'",
    "a IS DISTINCT FROM 3",
    "try_cast(s AS INTEGER) = 1",
    "[a, 1][1] = 1",
    "{'x': a}.x = 2",
    "a = 1e400",
    "a > 9223372036854775808",
    "-a < +1",
    "a << 2 > 4",
    "greatest(a, c) = c",
    "s COLLATE NOCASE = 'P'",
    "a = $1",
    "EXISTS (SELECT 1)",
]
SPOILERS = [
    "(",
    ")",
    "'",
    '"',
    "--",
    "/*",
    "*/",
    ";",
    "NULL",
    "0",
    "-1",
    "1e999",
    "''",
    "$$",
    "E'\\",
    "\x00",
    "é",
    "💥",
    " AND ",
    " OR ",
    "NOT ",
    "%",
    "::",
    "[",
    "]",
    "{",
    "}",
    "?",
    "SELECT",
    "FROM t",
    "CASE",
    "END",
    "nan",
    "infinity",
    "t.",
    "rowid",
    "random()",
    "x" * 300,
    "(" * 60,
    "\\",
    "|",
    "~",
    "@",
    ":=",
    "=>",
    "->",
    "INTERVAL 1 DAY",
    "TIMESTAMP '9999-12-31'",
]


def spoilt(chance: Chance, texts: list[str] = TEXTS) -> str:
    """A text that nearly works."""
    text = chance.choice(texts)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        place = chance.randrange(len(text) + 1)
        text = chance.choice(
            [
                lambda text=text, place=place: text[:place] + chance.choice(SPOILERS) + text[place:],
                lambda text=text, place=place: text[:place] + text[place + chance.randrange(1, 6) :],
                lambda text=text, place=place: text[:place] + chance.choice(texts)[-place:],
                lambda text=text: (
                    f"({text}) {chance.choice(['AND', 'OR', '=', '<', '+', '||'])} ({chance.choice(texts)})"
                ),
                lambda text=text: text.replace(
                    chance.choice("abcds"), chance.choice(["a", "b", "c", "d", "s", "e", "nope", "1", "NULL"])
                ),
            ]
        )()
    return text


def value(chance: Chance, depth: int = 0) -> object:
    """Anything that JSON or Python can hold."""
    plain = [
        None,
        True,
        False,
        0,
        1,
        -1,
        3,
        10**30,
        0.5,
        -0.0,
        1e308,
        float("nan"),
        float("inf"),
        "",
        " ",
        "a",
        "1",
        "0.1",
        "é",
        "\x00",
        "1e400",
        "x" * 200,
    ]
    if depth < 2 and chance.random() < 0.3:
        return chance.choice(
            [[], [value(chance, depth + 1)], [value(chance, depth + 1)] * 3, {}, {"a": value(chance, depth + 1)}]
        )
    return chance.choice([*plain, spoilt(chance)])


@contextmanager
def only_ours() -> Iterator[None]:
    with suppress(MwemError):
        yield


class Fixtures:
    """What the targets need, made once."""

    def __init__(self) -> None:
        self.con = mwem_sql.connect()
        self.con.execute(SCHEMA)
        self.domain = Domain.from_schema(self.con, "t")
        self.workload = Workload.from_predicates(["a > 3"])

    def predicates(self, chance: Chance) -> None:
        with Sandbox() as sandbox, only_ours():
            compile_workload(
                self.domain,
                Workload.from_predicates([spoilt(chance) for _ in range(chance.choice([1, 1, 3]))]),
                sandbox,
            )

    def rows(self, chance: Chance) -> None:
        columns = ["predicate", "measure", "group_by", "name", "weight", "Predicate", "other"]
        rows = []
        for _ in range(chance.randrange(1, 4)):
            row = {chance.choice(columns): value(chance) for _ in range(chance.randrange(4))}
            row["predicate"] = spoilt(chance) if chance.random() < 0.6 else row.get("predicate")
            row["measure"] = (
                chance.choice(["a", "sum(c)", "avg(a * 2)", "count(*)", spoilt(chance)])
                if chance.random() < 0.4
                else row.get("measure")
            )
            row["group_by"] = (
                chance.choice([["b", "d"], "a // 2, b", ["nope"], spoilt(chance)])
                if chance.random() < 0.4
                else row.get("group_by")
            )
            rows.append(json.dumps(row))
        with Sandbox() as sandbox, only_ours():
            compile_workload(self.domain, Workload.from_json(rows), sandbox)

    def options(self, chance: Chance) -> None:
        names = [
            "delta",
            "rounds",
            "output",
            "rows",
            "total",
            "domain",
            "unit",
            "rows_per_unit",
            "start",
            "average",
            "fit",
            "max_cells",
            "version",
            "seed",
            "nope",
        ]
        with only_ours():
            Request.parse(
                chance.choice(["t", value(chance)]),
                self.workload,
                chance.choice([1, "0.5", value(chance)]),
                {chance.choice(names): value(chance) for _ in range(3)},
            )

    def domains(self, chance: Chance) -> None:
        con = self.con.cursor()
        kinds = {
            "attribute": "VARCHAR",
            "values": "VARCHAR[]",
            "low": "VARCHAR",
            "high": "VARCHAR",
            "step": "VARCHAR",
            "bins": "INTEGER",
            "nullable": "BOOLEAN",
            "open": "BOOLEAN",
            "odd": "BLOB",
        }
        chosen = ["attribute", *(name for name in kinds if chance.random() < 0.6)]
        chosen = list(dict.fromkeys(chosen if chance.random() < 0.95 else chosen[1:] or ["odd"]))
        types = {
            name: kinds[name] if chance.random() < 0.9 else chance.choice(["INTEGER", "VARCHAR", "DOUBLE[]", "DATE"])
            for name in chosen
        }
        columns = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
        con.execute(f"CREATE OR REPLACE TABLE dom ({columns})")
        texts = [
            "a",
            "b",
            "c",
            "d",
            "e",
            "s",
            "A",
            "nope",
            "0",
            "1",
            "9",
            "-3",
            "1e9",
            "99",
            "2020-01-01",
            "nan",
            "infinity",
            "x",
            "",
            None,
            "1e400",
            "0.1",
            "[x, y]",
            "true",
        ]
        for _ in range(chance.randrange(1, 4)):
            with suppress(duckdb.Error):
                con.execute(
                    f"INSERT INTO dom VALUES ({', '.join('?' for _ in chosen)})",
                    [
                        [chance.choice(texts) for _ in range(2)] if types[name].endswith("[]") else chance.choice(texts)
                        for name in chosen
                    ],
                )
        with only_ours():
            domain = Domain.from_schema(self.con, "t", "dom")
            with Sandbox() as sandbox:
                compile_workload(domain, Workload.from_predicates([chance.choice(TEXTS)]), sandbox)

    def damaged(self, chance: Chance) -> None:
        con = mwem_sql.connect()
        try:
            con.execute(SCHEMA)
            con.execute(
                "CALL mwem_release('t', w, 1, rounds := 1, rows := 5, seed := 1); CALL mwem_budget('t', 5); CALL "
                "mwem_release('t', w, 1, rounds := 1, rows := 5, output := 'o')"
            )
            for _ in range(chance.choice([1, 1, 2])):
                table, column, kind = chance.choice(
                    con.execute(
                        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = "
                        "'mwem' AND table_name <> 'schema_version'"
                    ).fetchall()
                )
                texts = ["1", "0", "-1", "1/3", "abc", "[1, 2]", "[]", "{}", "null", "1e300", "done"]
                text = spoilt(chance, texts).replace("'", "")
                spoil = [
                    f'UPDATE mwem.{table} SET "{column}" = NULL',
                    f"DELETE FROM mwem.{table}",
                    f'ALTER TABLE mwem.{table} DROP COLUMN "{column}"',
                    f"DROP TABLE mwem.{table}",
                    f"UPDATE mwem.{table} SET \"{column}\" = '{text}'::{kind}",
                    f"INSERT INTO mwem.{table} FROM mwem.{table}",
                    f'ALTER TABLE mwem.{table} ALTER COLUMN "{column}" TYPE VARCHAR',
                ]
                with suppress(duckdb.Error):
                    con.execute(chance.choice(spoil))
            for call in (
                "FROM mwem_ledger()",
                "FROM mwem_answer('o', w)",
                "SELECT mwem_count('o', 'a > 3')",
                "FROM mwem_weights('o', ['b'])",
                "CALL mwem_budget('t', 6)",
                "CALL mwem_release('t', w, 1, rounds := 1, rows := 5, output := 'o')",
                "CALL mwem_release('t', w, 1, rounds := 1, rows := 5, output := 'p')",
                "FROM mwem_compare('t', 'o', w)",
                "FROM mwem_quantile('o', 'a', 0.5)",
                "FROM mwem_average('o', 'a')",
                "FROM mwem_sample('o', rows := 5)",
                "FROM mwem_plan('o', w, 1)",
                "CALL mwem_withdraw('o', 'spoilt')",
            ):
                try:
                    con.execute(call).fetchall()
                except duckdb.Error as error:
                    said = str(error).removeprefix("Invalid Input Error: ")
                    if "unexpected" in said or not said.startswith(("mwem", "ledger: ", "domain: ")):
                        raise AssertionError(f"{call}: {error}") from None
        finally:
            con.close()


TARGETS: dict[str, Callable[[Fixtures, Chance], None]] = {
    "predicates": Fixtures.predicates,
    "rows": Fixtures.rows,
    "options": Fixtures.options,
    "domains": Fixtures.domains,
    "damaged": Fixtures.damaged,
}
SHORT = {"predicates": 6, "rows": 4, "options": 300, "domains": 4, "damaged": 1}
THOROUGH = {"predicates": 20, "rows": 12, "options": 1000, "domains": 12, "damaged": 2}
SECONDS = 90  # of a campaign, for each target
FOUND: dict[str, list[int]] = {"damaged": [10000030]}


@pytest.fixture(scope="module")
def fixtures() -> Iterator[Fixtures]:
    made = Fixtures()
    yield made
    made.con.close()


@pytest.mark.parametrize("most", [SHORT, pytest.param(THOROUGH, marks=pytest.mark.thorough)], ids=["short", "thorough"])
@pytest.mark.parametrize("target", TARGETS)
def test_only_our_own_errors_come_out(fixtures: Fixtures, target: str, most: dict[str, int]) -> None:
    for seed in [*FOUND.get(target, []), *range(most[target])]:
        TARGETS[target](fixtures, Chance(seed))


@pytest.mark.campaign
@pytest.mark.parametrize("target", TARGETS)
def test_campaign(fixtures: Fixtures, target: str) -> None:
    started, seed = time.process_time(), 10**6
    while time.process_time() - started < SECONDS:
        TARGETS[target](fixtures, Chance(seed))
        seed += 1
    print(f"\n{target}: {seed - 10**6} executions")


def main(target: str, first: str, last: str) -> None:
    made, finds = Fixtures(), {}
    for seed in range(int(first), int(last)):
        begun = time.process_time()
        try:
            TARGETS[target](made, Chance(seed))
        except Exception as error:  # noqa: BLE001
            finds.setdefault(f"{type(error).__name__}: {str(error)[:160]}", []).append(seed)
        if (seconds := time.process_time() - begun) > 5:
            finds.setdefault(f"slow: {math.floor(seconds)} s", []).append(seed)
    for text, seeds in finds.items():
        print(len(seeds), seeds[:3], text)
    print(f"{target}: {int(last) - int(first)} executions, {len(finds)} kinds of finds")
    made.con.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
