"""Random releases of unrelated tables with noise that does not depend on them.

What is visible must be the same, and what enters the noise is compared.

A case is a schema, a public domain, a workload and options, and three tables: one, a neighbour of it (a row or a unit's
rows less), and an unrelated one. Each is released on an instance of its own, through the surface. Draws, ids and clock
are replaced by functions of public things, so that nothing is left that may differ but the rows, and `seconds`. What
enters a draw is kept aside, with the share that was debited for it.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import itertools
import logging
import os
import random
import sys
import tempfile
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from thresholds import lower

import mwem_sql
from mwem_sql.accounting import journal
from mwem_sql.algebra.arrays import Integers
from mwem_sql.errors import MwemError
from mwem_sql.kernel import scales
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.exponential import Scores
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import saturate
from mwem_sql.kernel.scales import Kind
from mwem_sql.platform.calls import Progress, listening
from mwem_sql.releases import reuse
from mwem_sql.releases.columns import SUMMARY_TYPES
from mwem_sql.surface import running

run = importlib.import_module("mwem_sql.releases.run")  # the package has a function of that name

Row = tuple[str, ...]
TIMINGS = {"seconds"}
"""The only columns that are not compared: how long a call takes depends on the data, and docs/privacy.md says so."""
UNIT_IDS = ["NULL", "1", "2", "3", "4", "5", "6"]


# What is asked.


@dataclass(frozen=True)
class Column:
    """A column with its public declaration, literals on and off the domain, and conditions on it.

    `number`: it can be summed.
    """

    name: str
    type: str
    inside: tuple[str, ...]
    outside: tuple[str, ...]
    declared: dict[str, str]
    conditions: tuple[str, ...]
    check: str = ""
    groups: tuple[str, ...] = ()
    number: bool = False
    generated: str = ""

    @property
    def ddl(self) -> str:
        made = f" AS ({self.generated})" if self.generated else ""
        return f"{self.name} {self.type}{made}{f' CHECK ({self.check})' if self.check else ''}"

    def literal(self, chance: random.Random) -> str:
        off = self.outside if self.outside and not self.check and chance.random() < 0.25 else ()
        return "NULL" if self.nullable and chance.random() < 0.15 else chance.choice(off or self.inside)

    @property
    def nullable(self) -> bool:
        return not self.type.endswith("NOT NULL")


@dataclass
class Case:
    """Statements that make a source called `asked` around a table `base`, three sets of rows, and what is asked of
    each.
    """

    seed: int
    columns: list[Column]
    before: list[str]
    after: list[str]
    tables: list[list[Row]]
    epsilon: str
    options: dict[str, str]
    later: list[str]
    rows_of_noise: int
    many: int | None

    def call(self, function: str = "mwem_release", **changed: str) -> str:
        options = "".join(f", {name} := {value}" for name, value in {**self.options, **changed}.items())
        return f"FROM {function}('asked', workload, {self.epsilon}{options})"

    def build(self, con: duckdb.DuckDBPyConnection, rows: Sequence[Row]) -> None:
        names = ", ".join(column.name for column in self.columns if not column.generated)
        for statement in self.before:
            con.execute(statement)
        if rows:
            con.execute(f"INSERT INTO base ({names}) VALUES " + ", ".join(f"({', '.join(row)})" for row in rows))
        for statement in self.after:
            con.execute(statement)


def _flag(chance: random.Random, name: str) -> Column:
    if chance.random() < 0.5:
        return Column(name, "BOOLEAN NOT NULL", ("true", "false"), (), {}, (name, f"NOT {name}"))
    return Column(
        name,
        "BOOLEAN",
        ("true", "false"),
        (),
        {},
        (name, f"NOT {name}", f"{name} IS NULL"),
        groups=(f"{name} IS NULL",),
    )


def _whole(chance: random.Random, name: str) -> Column:
    limits = {"TINYINT": 2**7, "INTEGER": 2**31, "BIGINT": 2**63, "HUGEINT": 2**127, "UBIGINT": 2**64}
    kind = chance.choice(list(limits))
    low = 0 if kind == "UBIGINT" else chance.choice([-3, 0, 2])
    high = low + chance.choice([1, 3, 9])
    off = (
        (f"{limits[kind] - 1}", "99")
        if kind == "UBIGINT"
        else (f"{limits[kind] - 1}", f"{-limits[kind] + 1}", "99", "-99")
    )
    listed = chance.random() < 0.2
    values = "[" + ", ".join(f"'{value}'" for value in range(low, high + 1)) + "]"
    declared = {"values": values} if listed else {"low": f"'{low}'", "high": f"'{high}'"}
    check = f"{name} BETWEEN {low} AND {high}" if chance.random() < 0.3 else ""
    middle = (low + high) // 2
    return Column(
        name,
        kind,
        tuple(map(str, range(low, high + 1))),
        off,
        {} if check else declared,
        (
            f"{name} > {middle}",
            f"{name} BETWEEN {low} AND {middle}",
            f"{name} % 2 = 0",
            f"{name} IS NULL",
            f"{name} IN ({low}, {high})",
            f"{name} <> {middle}",
        ),
        check,
        (f"{name} // 2", f"{name} > {middle}"),
        number=True,
    )


def _decimal(chance: random.Random, name: str) -> Column:
    cut = chance.choice([{"step": "'0.25'"}, {"bins": "4"}, {"bins": "3"}, {}])
    declared = {"low": "'0'", "high": "'9.75'"} | cut
    return Column(name, "DECIMAL(9,2)", ("0", "0.25", "5.5", "9.75"), ("-123.45", "9999999.99", "9.76"), declared,
                  (f"{name} >= 5", f"{name} < 0.3", f"{name} <> 5", f"{name} IS NULL"), number=bool(cut))  # fmt: skip


def _double(chance: random.Random, name: str) -> Column:
    cut = chance.choice([{"step": "'0.5'"}, {"bins": "5"}, {"bins": "2"}, {}])
    declared = {"low": "'-1'", "high": "'2.5'"} | cut
    off = ("'nan'", "'inf'", "'-inf'", "1e30", "-1e30", "2.5000001")
    return Column(
        name,
        chance.choice(["DOUBLE", "FLOAT"]),
        ("-1", "-0.0", "0", "1e-38", "0.3", "2.5"),
        off,
        declared,
        (f"{name} > 0.25", f"{name} <= 0", f"{name} BETWEEN -0.5 AND 1.5", f"{name} IS NULL"),
        number=bool(cut),
    )


def _date(_: random.Random, name: str) -> Column:
    declared = {"low": "'2020-02-20'", "high": "'2020-03-10'"}
    return Column(
        name,
        "DATE",
        ("'2020-02-20'", "'2020-02-29'", "'2020-03-10'"),
        ("'0001-01-01'", "'9999-12-31'", "'infinity'", "'1969-12-31'"),
        declared,
        (f"{name} < DATE '2020-03-01'", f"month({name}) = 2", f"{name} IS NOT NULL"),
        groups=(f"month({name})",),
    )


def _stamp(chance: random.Random, name: str) -> Column:
    kind = chance.choice(["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])
    declared = {"low": "'2020-03-28 00:00:00'", "high": "'2020-03-30 23:59:59'", "bins": "6"}
    off = ("'0001-01-02 00:00:00'", "'9999-12-30 00:00:00'", "'infinity'", "'1969-12-31 23:59:59.999999'")
    return Column(
        name,
        kind,
        ("'2020-03-28 00:00:00'", "'2020-03-29 01:30:00'", "'2020-03-30 12:00:00'"),
        off,
        declared,
        (f"{name} < '2020-03-29 12:00:00'::{kind}", f"{name} IS NULL"),
    )


def _text(chance: random.Random, name: str) -> Column:
    values = chance.sample(["x", "y", "Z", "é", "", "it's"], chance.randrange(1, 5))
    quoted = tuple("'" + value.replace("'", "''") + "'" for value in values)
    declared = {"values": f"[{', '.join(quoted)}]"} | chance.choice([{}, {"open": "true"}, {"open": "true"}])
    check = f"{name} IN ({', '.join(quoted)})" if chance.random() < 0.2 else ""
    return Column(
        name,
        "VARCHAR",
        quoted,
        ("'Xylophone'", "'X'", "repeat('long ', 2000)", "' '"),
        {} if check else declared,
        (
            f"{name} = {quoted[0]}",
            f"{name} IN ({', '.join(quoted)})",
            f"upper({name}) = upper({quoted[0]})",
            f"{name} IS NULL",
            f"length({name}) <= 1 OR {name} LIKE '%x%'",
        ),
        check,
        (f"upper({name})",),
    )


def _kind(_: random.Random, name: str) -> Column:
    return Column(
        name,
        "ENUM ('low', 'mid', 'high')",
        ("'low'", "'mid'", "'high'"),
        (),
        {},
        (f"{name} = 'mid'", f"{name} IN ('low', 'high')", f"{name} IS NULL"),
    )


MAKERS = (_flag, _flag, _whole, _whole, _decimal, _double, _date, _stamp, _text, _text, _kind)
UNDECLARED = Column("extra", "VARCHAR", ("'a'", "'Xylophone'"), ("repeat('very ', 2000)",), {}, ())
LISTS = Column("nested", "INTEGER[]", ("[1, 2]", "[]"), ("range(2000)",), {}, ())


def _generated(column: Column) -> Column:
    """Expressions that no value makes fail."""
    made = f"CASE WHEN {column.conditions[0]} THEN 1 WHEN {column.name} IS NULL THEN 2 ELSE 0 END"
    return Column(
        "g", "INTEGER", (), (), {"low": "'0'", "high": "'2'"}, ("g = 1", "g > 0"), number=True, generated=made
    )


def case(seed: int, makers: Sequence[Callable[[random.Random, str], Column]] = MAKERS) -> Case:
    """One of many; the same for a seed, whatever else is asked."""
    chance = random.Random(seed)
    columns = [maker(chance, name) for name, maker in zip("abcdef", chance.choices(makers, k=chance.randrange(2, 6)))]  # noqa: B905
    if chance.random() < 0.3:
        columns.append(_generated(chance.choice(columns)))
    asked = list(columns)
    if chance.random() < 0.3:
        columns.append(chance.choice([UNDECLARED, LISTS]))
    by_unit = chance.random() < 0.35
    person = Column("person", "INTEGER", tuple(UNIT_IDS[1:]), (), {}, ())
    columns = [person, *columns]
    before = [f"CREATE TABLE base ({', '.join(column.ddl for column in columns)})"]
    domain = "asked_domain" if chance.random() < 0.7 else "elsewhere"
    declared = f"""CREATE TABLE {domain} (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR,
        step VARCHAR, bins INTEGER, nullable BOOLEAN, open BOOLEAN);"""
    for column in asked:
        if column.declared:
            names = ", ".join(f'"{name}"' for name in column.declared)
            values = ", ".join(column.declared.values())
            declared += f"INSERT INTO {domain} (attribute, {names}) VALUES ('{column.name}', {values});"
    where = "" if domain == "asked_domain" else ", domain := 'elsewhere'"
    after = [declared, "ATTACH ':memory:' AS pub", _source(chance, columns), _workload(chance, asked, where)]
    options = _options(chance)
    if domain == "elsewhere":
        options["domain"] = "'elsewhere'"
    if chance.random() < 0.4 and len(asked) > 1:
        rules = chance.choice(["asked_rules", "other_rules"])
        after.insert(1, _rules(chance, asked, rules))
        if rules == "other_rules":
            options["rules"] = "'other_rules'"
    totals = random.Random(f"totals {seed}")  # of its own, so that all else is as it was for a seed
    if totals.random() < 0.3:
        after.insert(1, _totals(totals, asked))
    if by_unit:
        options |= {"unit": "'person'", "rows_per_unit": str(chance.randrange(1, 5))}
    rows = chance.choice([0, 5, 60, 60, 1000, 10**12])  # as the noise has it
    if rows > 10**4:
        options["rows"] = "50"
    return Case(
        seed,
        columns,
        before,
        after,
        _tables(chance, columns, by_unit=by_unit),
        chance.choice(["0.05", "1", "1", "1", "2.5", "12"]),
        options,
        chance.sample(list(LATER), 1),
        rows,
        chance.choice([None, None, 2, 5]),
    )


def _rules(chance: random.Random, columns: Sequence[Column], table: str) -> str:
    """A rules table that some rows of any table break."""
    made = f"CREATE TABLE {table} (rule VARCHAR);"
    for _ in range(chance.randrange(1, 3)):
        one, other = chance.sample(list(columns), 2)
        rule = f"({chance.choice(one.conditions)}) OR NOT ({chance.choice(other.conditions)})".replace("'", "''")
        made += f"INSERT INTO {table} VALUES ('{rule}');"
    return made


def _totals(chance: random.Random, columns: Sequence[Column]) -> str:
    """Public totals that no table need have; some contradict each other, and are refused whatever the table is."""
    made = "CREATE TABLE asked_known (predicate VARCHAR, rows BIGINT);"
    for column in chance.sample(list(columns), min(2, len(columns))):
        condition = chance.choice(column.conditions).replace("'", "''")
        made += f"INSERT INTO asked_known VALUES ('{condition}', {chance.choice([0, 3, 20])});"
    return made + ("INSERT INTO asked_known VALUES (NULL, 50);" if chance.random() < 0.5 else "")


def _source(chance: random.Random, columns: Sequence[Column]) -> str:
    if chance.random() < 0.6:
        return "ALTER TABLE base RENAME TO asked"
    where = chance.choice(["", "", f" WHERE {chance.choice(columns[1].conditions)}", " WHERE person > 2"])
    shown = [
        f"coalesce({column.name}, {column.inside[0]}) AS {column.name}"
        if column.name != "person" and column.number and column.inside and chance.random() < 0.3
        else column.name
        for column in columns
    ]
    return f"CREATE VIEW asked AS SELECT {', '.join(shown)} FROM base{where}"


def _workload(chance: random.Random, columns: Sequence[Column], domain: str) -> str:
    built = chance.random()
    ordered = [column.name for column in columns if "low" in column.declared]
    if built < 0.06:
        return f"CREATE TABLE workload AS FROM mwem_marginals('asked', 1{domain})"
    if built < 0.2 and sum(not column.nullable for column in columns) > 1:
        return f"CREATE TABLE workload AS FROM mwem_parities('asked', 2{domain})"
    if built < 0.12 and ordered:
        return f"CREATE TABLE workload AS FROM mwem_ranges('asked', '{ordered[0]}', 12, seed := 3{domain})"
    count = chance.choice([1, 2, 3, 4, 4, 6, 6, 20])
    often = chance.choice([0, 0, 0, 0.2, 1.0])
    rows = []
    for number in range(count):
        predicate, measure, groups = _query(chance, columns)
        weight = chance.choice(["1", "1", "NULL", "0.37", "250"])
        name = chance.choice(["NULL", f"'q{number}'"])
        rows.append(
            f"({_quoted(predicate)}, {_quoted(measure)}, {_quoted(groups)}, {name}, {weight}, "
            f"{chance.random() < often})"
        )
    return f"""CREATE TABLE workload (predicate VARCHAR, measure VARCHAR, group_by VARCHAR,
            name VARCHAR, weight DOUBLE, always BOOLEAN);
        INSERT INTO workload VALUES {", ".join(rows)}"""


def _query(chance: random.Random, columns: Sequence[Column]) -> tuple[str | None, str | None, str | None]:
    def condition() -> str:
        parts = [
            chance.choice(column.conditions)
            for column in chance.sample(columns, min(len(columns), chance.choice([1, 1, 2, 3])))
        ]
        return chance.choice([" AND ", " AND ", " OR ", " AND NOT "]).join(f"({part})" for part in parts)

    numbers = [column.name for column in columns if column.number]
    kind = chance.choice(["count", "count", "count", "sum", "group", "parity"])
    if kind == "group" or (kind == "sum" and numbers and chance.random() < 0.3):
        some = chance.sample(columns, min(len(columns), chance.choice([1, 2, 2, 3])))
        groups = ", ".join(chance.choice((column.name, column.name, *column.groups)) for column in some)
        return chance.choice([None, condition()]), chance.choice(_measures(numbers)) if kind == "sum" else None, groups
    if kind == "sum" and numbers:
        return chance.choice([None, condition()]), chance.choice(_measures(numbers)), None
    if kind == "parity":
        return None, f"CASE WHEN {condition()} THEN 1 ELSE -1 END", None
    return condition(), None, None


def _measures(numbers: Sequence[str]) -> list[str]:
    return [
        form.format(name)
        for name in numbers
        for form in ("{}", "{} * 2 - 3", "avg({})", "-7.25 * {}", "abs({})", "sum({})")
    ]


def _options(chance: random.Random) -> dict[str, str]:
    """Each option of a release but for `seed`, which is not private, and for what goes with the tables."""
    choices: dict[str, list[str | None]] = {
        "delta": [None, None, "1e-6", "1e-2"],
        "rounds": [None, None, "1", "3", "7"],
        "rows": [None, None, None, "1", "50"],
        "total": [None, None, None, None, "1", "1000", "100000"],
        "start": [None, None, None, "'histogram'"],
        "average": [None, None, None, "true"],
        "fit": [None, None, None, "'replay'"],
        "max_cells": [None, None, None, None, None, None, "60", "300"],
        "certify": [None, None, "0", "0.1", "0.5"],
        "version": [None, None, None, "'first'"],
        "output": [None, "'pub.main.published'", "'other name'"],
    }
    drawn = {name: chance.choice(values) for name, values in choices.items()}
    return {name: value for name, value in drawn.items() if value is not None}


def _tables(chance: random.Random, columns: Sequence[Column], *, by_unit: bool) -> list[list[Row]]:
    """Any rows, a neighbour of them, and others; each in an order of its own."""

    def rows(count: int) -> list[Row]:
        stored = [column for column in columns if not column.generated]
        return [
            tuple(chance.choice(UNIT_IDS) if column.name == "person" else column.literal(chance) for column in stored)
            for _ in range(count)
        ]

    one = rows(chance.choice([1, 2, 7, 20, 40]))
    gone = chance.randrange(len(one))
    fewer = [row for row in one if row[0] != one[gone][0]] if by_unit else one[:gone] + one[gone + 1 :]
    other = rows(chance.choice([0, 1, 15, 90]))
    for each in (one, fewer, other):
        chance.shuffle(each)
    return [one, fewer, other]


def _quoted(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


# What is seen.


@dataclass(frozen=True)
class Step:
    """One draw: what is public of it, the share that was debited, the scale, and what entered."""

    public: str
    draw: str
    kind: Kind
    scale: float
    share: Fraction
    entered: tuple[int, ...]
    release: int

    def loss(self, other: Step) -> Fraction:
        """The exact loss, in epsilon or rho, of this draw between what entered here and there.

        Of a selection the distribution depends on differences of scores alone, so that the range of the changes counts:
        at most twice the largest of them.
        """
        moved = [one - two for one, two in zip(self.entered, other.entered, strict=True)]
        scale = Fraction(self.scale)
        if self.draw == "noise":
            return sum(map(abs, moved)) / scale if self.kind == "pure" else sum(x * x for x in moved) / (2 * scale**2)
        epsilon = (max(moved) - min(moved)) / scale
        return epsilon if self.kind == "pure" else epsilon**2 / 8


@dataclass
class Seen:
    """Of one table: everything that is visible, in order, and every draw."""

    visible: list[tuple[str, str]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    accounts: list[Accountant] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    released: bool = False

    def add(self, what: str, content: object) -> None:
        self.visible.append((what, str(content)))


class PublicNoise:
    """Draws that are functions of the case, of their number and of public sizes.

    What would have been drawn from is kept.
    """

    private = True

    def __init__(self, made: Case, seen: Seen) -> None:
        self._made, self._seen = made, seen
        self.share, self.asked = Fraction(0), ""

    def select(self, scores: Integers, scale: float, kind: Kind) -> int:
        return int(self._generator(scores.size, "select", scale, kind, saturate(scores)).integers(scores.size))

    def select_many(self, scores: Scores, scale: float) -> int:
        places = np.flatnonzero(scores.is_open)
        generator = self._generator(
            places.size, "select many", scale, self._seen.accounts[-1].kind, saturate(scores.values[places])
        )
        return int(places[generator.integers(places.size)])

    def add_noise(self, values: Integers, scale: float, kind: Kind) -> Integers:
        generator = self._generator(values.size, "noise", scale, kind, saturate(values))
        counts = self._made.rows_of_noise * generator.dirichlet(np.full(values.size, 0.3))
        return np.rint(counts + generator.laplace(0, min(scale, 1e12), values.size)).astype(np.int64)

    def _generator(self, size: int, draw: str, scale: float, kind: Kind, entered: Integers) -> np.random.Generator:
        number = len(self._seen.steps)
        # A share pays for one draw.
        release = len(self._seen.accounts)
        self._seen.steps.append(Step(self.asked, draw, kind, scale, self.share, tuple(entered.tolist()), release))
        self.share = Fraction(0)
        return np.random.default_rng([self._made.seed, number, size])


LATER: dict[str, str] = {
    "plan": "PLAN",
    "again": "RELEASE",
    "another request": "CHANGED",
    "dropped": "DROPPED",
    "python": "PYTHON",
    "over the cap": "CAPPED",
    "domain": "FROM mwem_domain('asked')",
    "answer": "FROM mwem_answer(OUTPUT, workload)",
    "unknown question": "FROM mwem_answer(OUTPUT, others, confidence := 0.5)",
    "quality": "FROM mwem_quality(OUTPUT)",
    "report": "FROM mwem_report(OUTPUT, 'FOLDER/page.html')",
    "csv": "FROM mwem_export(OUTPUT, 'FOLDER/rows.csv')",
    "parquet": "FROM mwem_export(OUTPUT, 'FOLDER/rows.parquet')",
    "duckdb": "FROM mwem_export(OUTPUT, 'FOLDER/rows.duckdb')",
    "budget": "FROM mwem_budget('asked', 15, delta := DELTA)",
    "count": "SELECT mwem_count(OUTPUT, predicate), mwem_count_interval(OUTPUT, predicate) FROM others",
    "weights": "SELECT COLUMNS(*)::VARCHAR FROM mwem_weights(OUTPUT, ['COLUMN'])",
    "sources": "FROM mwem_sources()",
    "policy": "FROM mwem_policy()",
    "average": "FROM mwem_average(OUTPUT, '1', given := 'COLUMN IS NOT NULL')",
    "quantile": "SELECT COLUMNS(*)::VARCHAR FROM mwem_quantile(OUTPUT, 'COLUMN', [0.1, 0.5])",
    "sample": "SELECT COLUMNS(*)::VARCHAR FROM mwem_sample(OUTPUT, rows := 5, seed := 1)",
}
"""What is called after a release. `mwem_compare` and `mwem_suggest_domain` are not private, and say so."""


def look(made: Case, number: int, folder: Path, *, later: bool = True) -> Seen:
    """Release one of a case's tables on a new instance, and ask for what comes after."""
    seen = Seen()
    with recorded(made, seen), duckdb.connect(config={"threads": 1}) as con:
        try:
            mwem_sql.register(con)
            made.build(con, made.tables[number])
            con.execute(
                "CREATE TABLE others AS SELECT "
                f"unnest([{', '.join(map(_quoted, ('true', *made.columns[1].conditions)))}]) AS predicate"
            )
            seen.released = _call(con, seen, "release", made.call())
            if seen.released:
                for name in made.later if later else ():
                    _later(con, made, seen, name, folder)
        except duckdb.Error as refused:  # of the workload that a builder was to make
            seen.add("refused", refused)
        _call(con, seen, "ledger", "FROM mwem_ledger()")
        seen.add("stored", _stored(con))
        if "'failed'" in seen.visible[-1][1]:
            seen.faults.append("failed after the debit")
    return seen


def _later(con: duckdb.DuckDBPyConnection, made: Case, seen: Seen, name: str, folder: Path) -> None:
    output = made.options.get("output", "'asked_synthetic'").replace("'other name'", "'\"other name\"'")
    text = LATER[name].replace("OUTPUT", output).replace("FOLDER", str(folder)).replace("COLUMN", made.columns[1].name)
    text = text.replace("DELTA", made.options.get("delta", "0"))
    if text == "PLAN":
        text = made.call("mwem_plan")
    elif text == "RELEASE":
        text = made.call()
    elif text == "CHANGED":
        text = made.call(rounds="2", total="77")
    elif text == "DROPPED":
        con.execute(f"DROP TABLE {output[1:-1]}")
        text = made.call()
    elif text == "CAPPED":
        _call(con, seen, name, f"FROM mwem_budget('asked', 12, delta := {made.options.get('delta', '0')})")
        text = made.call(output="'one_more'", version="'more'")
    elif text == "PYTHON":
        options = {key: con.execute(f"SELECT {value}").fetchall()[0][0] for key, value in made.options.items()}
        release = mwem_sql.release(
            con,
            "asked",
            "workload",
            made.epsilon,
            progress=True,
            **{k: float(v) if k in {"delta", "certify"} else v for k, v in options.items()},
        )
        seen.add(name, [getattr(release, key) for key in SUMMARY_TYPES if key not in TIMINGS])
        seen.add(name, (release.factors.to_pylist(), release.measurements.to_pylist(), release.workload))
        return
    _call(con, seen, name, text)
    for file in sorted(folder.iterdir()):
        if file.suffix == ".duckdb":
            with duckdb.connect(str(file), read_only=True) as opened:
                seen.add(file.name, _stored(opened))
        else:
            seen.add(file.name, file.read_bytes())
        file.unlink()


def _call(con: duckdb.DuckDBPyConnection, seen: Seen, what: str, text: str) -> bool:
    """Whether a statement has a result, which is visible, as its refusal is."""
    try:
        result = con.cursor().execute(text)
        shown = [str(name) for name, *_ in result.description]
        rows = [
            [value for name, value in zip(shown, row, strict=True) if name not in TIMINGS] for row in result.fetchall()
        ]
        seen.add(what, (result.description, rows))
    except (duckdb.Error, MwemError) as refused:
        seen.add(what, f"{type(refused).__name__}: {refused}")
        return False
    return True


def _stored(con: duckdb.DuckDBPyConnection) -> str:
    """Every row of every table but the private one, and what the catalog has of all of them but for sizes."""
    tables = con.execute(
        "SELECT database_name, schema_name, table_name, sql, comment, column_count, index_count FROM duckdb_tables() "
        "WHERE NOT temporary ORDER BY ALL"
    ).fetchall()
    private = {"base", "asked"}
    rows = [
        con.execute(f'SELECT COLUMNS(*)::VARCHAR FROM "{database}"."{schema}"."{table}"').fetchall()
        for database, schema, table, *_ in tables
        if table not in private
    ]
    columns = con.execute(
        "SELECT database_name, schema_name, table_name, column_name, comment, data_type FROM duckdb_columns() WHERE "
        "NOT internal ORDER BY ALL"
    ).fetchall()
    views = con.execute(
        "SELECT database_name, view_name, sql, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
    ).fetchall()
    return repr((tables, rows, columns, views))


@contextmanager
def recorded(made: Case, seen: Seen) -> Iterator[None]:
    """Replace draws, ids and the clock, and keep what is logged, printed, warned and reported."""
    noise = PublicNoise(made, seen)
    numbers, ticks = itertools.count(1), itertools.count(1)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "OpenDPNoise", lambda: noise)
        for module in (run, reuse):
            patch.setattr(module, "draw_rows", _repeatable(module.draw_rows))
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers) * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128))
        patch.setattr(journal, "now", lambda: datetime(2026, 1, 1) + timedelta(seconds=next(ticks)))  # noqa: DTZ001
        lower(patch, PASSES=3)
        if made.many is not None:
            lower(patch, MANY_CANDIDATES=made.many)
        _watch(patch, seen, noise)
        stack.enter_context(listening(lambda news: seen.add("news", _news(news))))
        stack.enter_context(_logged(seen))
        stack.enter_context(_printed(seen))
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        yield
        seen.add("warnings", [(warned.category.__name__, str(warned.message)) for warned in caught])


def _repeatable(draw: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, classes, rows, _generator, rules: draw(
        state, classes, rows, np.random.default_rng(rows), rules
    )


def _news(news: Progress) -> tuple[Any, ...]:
    return news.table, news.phase, news.done, news.of, news.query


def _watch(patch: pytest.MonkeyPatch, seen: Seen, noise: PublicNoise) -> None:
    """Keep each debit, what the kernel is asked, and where an error comes from that nobody foresaw."""
    debit, sentence = Accountant.debit, running.sentence

    def debited(self: Accountant, share: Fraction) -> None:
        before = self.spent
        debit(self, share)
        noise.share = self.spent - before
        if self not in seen.accounts:
            seen.accounts.append(self)
        seen.add("debit", (share, self.kind, self.limit, self.budget))

    def explained(function: str, error: Exception) -> str:
        if not isinstance(error, MwemError):
            seen.faults.append("".join(traceback.format_exception(error)))
        return sentence(function, error)

    patch.setattr(Accountant, "debit", debited)
    patch.setattr(running, "sentence", explained)
    for name in ("select", "measure", "certify"):
        asked = getattr(Kernel, name)

        def ask(
            self: Kernel, *given: Any, _name: str = name, _asked: Callable[..., Any] = asked, **options: Any
        ) -> Any:
            noise.asked = f"{_name} {[_public(value) for value in (*given, *options.values())]}"
            return _asked(self, *given, **options)

        patch.setattr(Kernel, name, ask)


def _public(value: Any) -> str:
    """An argument of the kernel, whole if it is short."""
    if isinstance(value, (list, tuple, range)) and value and isinstance(value[0], np.ndarray):
        value = np.concatenate(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    return repr(value)


class _Handler(logging.Handler):
    def __init__(self, seen: Seen) -> None:
        super().__init__(0)
        self._seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        raised = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info else ""
        self._seen.add("log", (record.name, record.levelno, record.getMessage(), record.__dict__.get("mwem"), raised))


@contextmanager
def _logged(seen: Seen) -> Iterator[None]:
    handler, loggers = _Handler(seen), (logging.getLogger(), logging.getLogger("mwem_sql"))
    levels = [logger.level for logger in loggers]
    loggers[0].addHandler(handler)
    for logger in loggers:
        logger.setLevel(1)
    try:
        yield
    finally:
        loggers[0].removeHandler(handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _printed(seen: Seen) -> Iterator[None]:
    """What Python prints, and what libraries write to the process's own streams."""
    text = io.StringIO()
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as file:
        try:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            with redirect_stdout(text), redirect_stderr(text):
                yield
        finally:
            for stream, former in zip((1, 2), kept, strict=True):
                os.dup2(former, stream)
                os.close(former)
            file.seek(0)
            seen.add("printed", (text.getvalue(), file.read()))


# What must hold.


class DifferenceError(AssertionError):
    """Something visible depends on the rows, or a draw costs more than was debited for it."""


@dataclass
class Figures:
    """Over all cases: what was compared, and how near losses came to what was debited, by the way of drawing."""

    triples: int = 0
    released: int = 0
    steps: int = 0
    reached: dict[str, Fraction] = field(default_factory=dict)
    spent: Fraction = Fraction(0)
    faults: list[tuple[int, str]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    options: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        near = ", ".join(f"{draw} {float(most):.6f}" for draw, most in sorted(self.reached.items()))
        return (
            f"{self.triples} triples, {self.released} released, {self.steps} steps compared; largest loss over share: "
            f"{near};"
            f" of a whole release {float(self.spent):.6f} of its limit; {len(self.differences)} differences, "
            f"{len(self.faults)} faults"
        )


def compare(made: Case, figures: Figures, folder: Path) -> None:
    """Raise a DifferenceError if one of the three tables can be told from another by what is visible, or the neighbour
    by more than was debited.
    """
    one, neighbour, other = (look(made, number, folder) for number in range(3))
    for seen in (neighbour, other):
        same_view(made, one, seen)
        same_steps(made, one, seen)
    within_shares(made, one, neighbour, figures)
    figures.triples += 1
    figures.released += one.released
    figures.options |= set(made.options) if one.released else set()
    figures.faults += [(made.seed, fault) for seen in (one, neighbour, other) for fault in seen.faults]


def same_view(made: Case, one: Seen, other: Seen) -> None:
    for (what, content), (where, different) in zip(one.visible, other.visible, strict=False):
        if (what, content) != (where, different):
            place = next((k for k, (x, y) in enumerate(zip(content, different, strict=False)) if x != y), 0)
            seen = [text[max(0, place - 200) : place + 200] for text in (content, different)]
            raise DifferenceError(f"{made.seed}: {what} {seen[0]!r} but {where} {seen[1]!r}")
    if len(one.visible) != len(other.visible):
        raise DifferenceError(f"{made.seed}: {len(one.visible)} things to see but {len(other.visible)}")


def same_steps(made: Case, one: Seen, other: Seen) -> None:
    """The same draws in the same order, with the same arguments, scales and shares."""
    for number, (step, same) in enumerate(zip(one.steps, other.steps, strict=False)):
        if replace(step, entered=()) != replace(same, entered=()) or len(step.entered) != len(same.entered):
            raise DifferenceError(
                f"{made.seed}: step {number} is {replace(step, entered=())} but {replace(same, entered=())}"
            )
    if len(one.steps) != len(other.steps):
        raise DifferenceError(f"{made.seed}: {len(one.steps)} steps but {len(other.steps)}")


def within_shares(made: Case, one: Seen, neighbour: Seen, figures: Figures) -> None:
    """Each draw has a share of its own that covers its exact loss between neighbours.

    And all of them are within the limit.
    """
    totals = [Fraction(0) for _ in one.accounts]
    for step, same in zip(one.steps, neighbour.steps, strict=True):
        loss = step.loss(same)
        if not step.share or loss > step.share:
            raise DifferenceError(
                f"{made.seed}: a {step.draw} ({step.public[:80]}) loses {float(loss):.6g} where "
                f"{float(step.share):.6g} is debited"
            )
        totals[step.release - 1] += loss
        key = f"{step.draw} {step.kind}"
        figures.reached[key] = max(figures.reached.get(key, Fraction(0)), loss / step.share)
    figures.steps += len(one.steps)
    for total, account in zip(totals, one.accounts, strict=True):
        delta = Fraction(made.options.get("delta", "0"))
        epsilon = account.limit if account.kind == "pure" else Fraction(scales.zcdp_epsilon(account.limit, delta))
        if total > account.limit or epsilon > Fraction(made.epsilon):
            raise DifferenceError(
                f"{made.seed}: steps lose {float(total):.6g} together, beyond {float(account.limit):.6g} of epsilon "
                f"{made.epsilon}"
            )
        figures.spent = max(figures.spent, total / account.limit)


def campaign(seeds: Sequence[int], folder: Path, report: Callable[[str], object] | None = None) -> Figures:
    """Compare all cases; `report` is given the figures now and then."""
    figures = Figures()
    for done, seed in enumerate(seeds, start=1):
        try:
            compare(case(seed), figures, folder)
        except DifferenceError as difference:
            figures.differences.append(str(difference))
        if report is not None and done % 25 == 0:
            report(str(figures))
    return figures


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as made_here:
        total = campaign(range(first, last), Path(made_here), lambda text: print(text, flush=True))
        print(total, *total.differences, *total.faults, sorted(total.options), sep="\n")
