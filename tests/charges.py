"""Random releases with every option, on tables that are odd: none may fail after its debit, and what is refused leaves
nothing behind.

Schemas, workloads and options are those of `noninterference.py`, with long columns in bins and functions of them
besides; the noise is real, or as a seed has it. A scenario is a first release and what may follow it: the same again,
another version, another output, a cap, rows that come and go.
"""

from __future__ import annotations

import functools
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import noninterference
import pytest
from noninterference import Case, Column, Row, case, run
from thresholds import few_sets, lower

import mwem_sql
from mwem_sql.errors import MwemError
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.loop import strategy
from mwem_sql.loop.strategy import Setting, Strategy
from mwem_sql.releases import plan
from mwem_sql.surface import running

EPSILONS = ["1e-12", "1e-4", "0.01", "0.3", "1", "1", "1", "3", "50", "1000", "1e6"]
SHRINKING = ("measure LIKE 'CASE%'", "rowid % 2 = 0", "rowid % 3 > 0")
"""What is taken out of a workload that is refused, one after the other: one question that cannot be asked hides all
others."""


def _price(chance: random.Random, name: str) -> Column:
    """Whole numbers in bins: functions of them change inside bins."""
    high = chance.choice(["999", "20000", "3000000"])
    declared = {"low": "'0'", "high": f"'{high}'", "bins": chance.choice(["1", "7", "12"])}
    return Column(
        name, "INTEGER", ("0", "3", "333", "999"), ("-5", "2147483647"), declared,
        (f"{name} > 333", f"{name} % 2 = 0", f"{name} - 100 > 0", f"sqrt({name}) > 20", f"{name} % 100 < 5",
        f"{name}::VARCHAR LIKE '9%'", f"{name} IS NULL", f"{name} // 100 IN (1, 3)",
         f"abs({name} - 500) < 100", f"1000 / {name} > 5"),
        groups=(f"{name} // 500", f"{name} > 500", f"length({name}::VARCHAR)"), number=True,
    )  # fmt: skip


def _amount(chance: random.Random, name: str) -> Column:
    kind = chance.choice(["DOUBLE", "FLOAT", "DECIMAL(12,2)"])
    off = ("-1", "12345678") if kind.startswith("DEC") else ("'nan'", "'inf'", "-1e30")
    declared = {"low": "'0'", "high": "'5000'", "bins": chance.choice(["1", "5", "20"])}
    return Column(
        name, kind, ("0", "0.5", "12.25", "4999.99"), off, declared,
        (f"{name} * 2 > 1.3", f"round({name}) = 12", f"floor({name} / 100) = 3", f"ln({name} + 1) < 2",
        f"{name} > 12.25", f"{name} IS NOT NULL", f"{name}::INTEGER % 2 = 0", f"1 / {name} > 2"),
        groups=(f"floor({name} / 1000)", f"{name} > 100"), number=True,
    )  # fmt: skip


def _day(chance: random.Random, name: str) -> Column:
    kind = chance.choice(["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])
    declared = {"low": "'2019-01-01'", "high": "'2021-12-31'", "bins": chance.choice(["3", "12", "36"])}
    hours = () if kind == "DATE" else (f"hour({name}) = 9", f"minute({name}) < 30")
    return Column(
        name, kind, ("'2019-01-01'", "'2020-02-29'", "'2020-03-15'", "'2021-12-31'"),
        ("'0001-01-01'", "'infinity'", "'9999-01-01'"), declared,
        (f"month({name}) = 3", f"year({name}) = 2020", f"dayofweek({name}) IN (0, 6)", f"{name} < '2020-06-01'::DATE",
        f"{name} IS NULL", f"date_trunc('month', {name}) = '2020-03-01'::DATE", *hours),
        groups=(f"year({name})", f"month({name})", f"dayofweek({name})"),
    )  # fmt: skip


MAKERS = (*noninterference.MAKERS, _price, _price, _price, _amount, _amount, _amount, _day, _day, _day)

FOLLOWING: dict[str, str] = {
    "again": "RELEASE", "version": "VERSION", "other output": "OUTPUT", "another request": "CHANGED",
    "dropped": "DROP TABLE", "more rows": "INSERT", "no rows": "DELETE FROM base",
    "cap": "BUDGET", "over the cap": "OVER", "seed": "SEED", "answer": "ANSWER", "quality": "FROM mwem_quality(OUTPUT)",
    "later questions": "LATER", "always": "UPDATE workload SET always = NOT coalesce(always, false)",
    "python": "PYTHON",
}  # fmt: skip
"""What may follow a release."""


@dataclass
class Figures:
    """Of all scenarios: what was called, how often it was refused and why, and what must not be."""

    releases: int = 0
    reused: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    options: set[str] = field(default_factory=set)
    strategies: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        refused = ", ".join(f"{count} {why}" for why, count in self.refused.most_common(8))
        return (
            f"{self.releases} released, {self.reused} reused, {self.refused.total()} refused ({refused}), "
            f"{len(self.defects)} defects"
        )


class Scenario:
    """A case on a connection of its own, and all that happens to it."""

    def __init__(self, seed: int, figures: Figures) -> None:
        self.seed, self.figures = seed, figures
        self.chance = random.Random(f"charges {seed}")
        self.made = made = case(seed, MAKERS)
        made.epsilon = self.chance.choice(EPSILONS)
        if self.chance.random() < 0.1:
            made.options["seed"] = str(seed)
        if self.chance.random() < 0.5:  # a plain call, in which what is measured is ours to choose
            made.options = {
                name: value for name, value in made.options.items() if name not in {"rounds", "average", "start", "fit"}
            }
        self.crowded = self.chance.random() < 0.3
        self.most_sets = self.chance.choice([strategy.MOST_SETS, 0, 0])
        self.rows = self._rows(made)
        self.told: list[str] = []

    def _rows(self, made: Case) -> list[Row]:
        kind = self.chance.choice(["some", "some", "others", "none", "one", "off"])
        if kind in {"some", "others"}:
            return made.tables[0 if kind == "some" else 2]
        if kind == "off":
            stored = [column for column in made.columns if not column.generated]
            return [
                tuple(
                    (column.outside if column.outside and not column.check else column.inside or ("NULL",))[0]
                    for column in stored
                )
            ] * 30
        return made.tables[0][:1] if kind == "one" else []

    def play(self) -> None:
        with self._watched(), duckdb.connect(config={"threads": 1}) as con:
            mwem_sql.register(con)
            try:
                self.made.build(con, self.rows)
            except duckdb.Error as refused:  # of the workload that a builder was to make
                self._count(str(refused))
                return
            if self.crowded:
                self._crowd(con)
            for part in (*SHRINKING, ""):
                if self._call(con, self.made.call()) or not part:
                    break
                con.execute(f"DELETE FROM workload WHERE {part} AND (SELECT count(*) FROM workload) > 1")
            for name in self.chance.choices(list(FOLLOWING), k=self.chance.choice([0, 1, 2, 3])):
                self._follow(con, name, FOLLOWING[name])

    def _crowd(self, con: duckdb.DuckDBPyConnection) -> None:
        """Let the distributions of single columns be measured in any case: rounds refine them first, and then measure
        them as they are."""
        listed = [
            column.name
            for column in self.made.columns
            if column.conditions and column.type.startswith(("BOOLEAN", "VARCHAR", "ENUM"))
        ]
        if con.execute(
            "SELECT 1 FROM duckdb_columns() WHERE table_name = 'workload' AND column_name = 'always'"
        ).fetchall():
            for name in listed:
                con.execute("INSERT INTO workload (group_by, always) VALUES (?, true)", [name])
            self.made.epsilon = self.chance.choice(["0.1", "0.3", "1"])

    def _follow(self, con: duckdb.DuckDBPyConnection, name: str, text: str) -> None:
        self.figures.done[name] += 1
        made, output = self.made, self.made.options.get("output", "'asked_synthetic'")
        spelled = output.replace("'other name'", "'\"other name\"'")
        delta = made.options.get("delta", "0")
        columns = [column for column in made.columns if column.conditions]
        if text in {"DROP TABLE", "INSERT"}:
            rows = self.chance.choice(made.tables)
            statement = f"DROP TABLE IF EXISTS {spelled[1:-1]}"
            if text == "INSERT" and rows:
                names = ", ".join(column.name for column in made.columns if not column.generated)
                statement = f"INSERT INTO {_private(con)} ({names}) VALUES " + ", ".join(
                    f"({', '.join(row)})" for row in rows
                )
            con.execute(statement)
            text = "RELEASE"
        elif text.startswith(("DELETE", "UPDATE")):
            try:
                con.execute(text.replace("base", _private(con)))
            except duckdb.Error:  # a builder's workload has no such column
                return
            text = "VERSION"
        if text in {"OVER", "BUDGET"}:
            cap = "1e-9" if text == "OVER" else made.epsilon
            unit = "".join(
                f", {key} := {made.options[key]}" for key in ("unit", "rows_per_unit") if key in made.options
            )
            self._ask(con, f"FROM mwem_budget('asked', {cap}, delta := {delta}{unit})")
            text = "VERSION"
        if text == "PYTHON":
            self._python(con)
        elif text in {"RELEASE", "VERSION", "OUTPUT", "CHANGED", "SEED"}:
            fresh = f"'v{self.chance.random()}'"
            asked: dict[str, dict[str, str]] = {
                "RELEASE": {}, "VERSION": {"version": fresh},
                "OUTPUT": {"output": f"'o{self.chance.randrange(10**9)}'"},
                "CHANGED": {"rounds": "2", "total": "77"},
                "SEED": {"seed": "5", "output": f"'o{self.chance.randrange(10**9)}'"},
            }  # fmt: skip
            self._call(con, made.call(**asked[text]))
        elif text == "ANSWER":
            self._answered(con, spelled)
        elif text == "LATER":
            later = [condition for column in columns for condition in column.conditions]
            for condition in self.chance.sample(later, min(4, len(later))):
                self._ask(con, f"SELECT mwem_count_interval({spelled}, {noninterference._quoted(condition)})")
        else:
            self._ask(con, text.replace("OUTPUT", spelled))

    def _python(self, con: duckdb.DuckDBPyConnection) -> None:
        options = {key: con.execute(f"SELECT {value}").fetchall()[0][0] for key, value in self.made.options.items()}
        options = {key: float(value) if key in {"delta", "certify"} else value for key, value in options.items()}
        self._checked(con, lambda: mwem_sql.release(con, "asked", "workload", self.made.epsilon, **options).reused)

    def _call(self, con: duckdb.DuckDBPyConnection, text: str) -> bool:
        def release() -> bool:
            cursor = con.cursor().execute(text)
            names = [str(name) for name, *_ in cursor.description]
            summary = dict(zip(names, cursor.fetchall()[0], strict=True))
            database, schema, table = (part.replace('"', '""') for part in summary["output"].split(".", 2))
            ((rows,),) = con.cursor().execute(f'SELECT count(*) FROM "{database}"."{schema}"."{table}"').fetchall()
            if rows != summary["rows"] and not summary["reused"]:
                self._defect(text, f"the output has {rows} rows, the summary says {summary['rows']}")
            return bool(summary["reused"])

        return self._checked(con, release)

    def _checked(self, con: duckdb.DuckDBPyConnection, release: Callable[[], bool]) -> bool:
        """A release that ends, and is charged once; or a refusal that changes nothing."""
        before = _stored(con)
        try:
            reused = release()
        except (duckdb.Error, MwemError) as refused:
            self._count(str(refused))
            after = _stored(con)
            if after != before:
                self._defect(str(refused), f"was charged, or left something behind: {before} became {after}")
            return False
        self.figures.releases += not reused
        self.figures.reused += reused
        self.figures.options |= set(self.made.options)
        entries, closed, kept, _ = _stored(con)
        if (entries, closed, kept) != (before[0] + (not reused), before[1] + (not reused), before[2] + (not reused)):
            self._defect("a release", f"ledger and releases were {before}, and are {_stored(con)}")
        return True

    def _answered(self, con: duckdb.DuckDBPyConnection, output: str) -> None:
        """Every question of the workload has answers, each inside its interval."""
        rows = self._ask(con, f"SELECT name, answer, low, high FROM mwem_answer({output}, workload)")
        for name, answer, low, high in rows:
            if answer is not None and not (low is None or low <= answer) & (high is None or answer <= high):
                self._defect(name, f"{answer} is not within {low} and {high}")

    def _ask(self, con: duckdb.DuckDBPyConnection, text: str) -> list[Any]:
        try:
            return con.cursor().execute(text).fetchall()
        except duckdb.Error as refused:
            self._count(str(refused))
            return []

    def _count(self, message: str) -> None:
        words = message.split(": ", 2)
        kind = (
            " ".join(words[2 if words[0].endswith("Error") and len(words) > 2 else 1].split()[:4])
            if len(words) > 1
            else message[:30]
        )
        self.figures.refused[kind] += 1
        if "unexpected" in message or "Hint: " not in message:
            self._defect(message.splitlines()[0], "\n".join(self.told) or "nobody foresaw this")
            self.told.clear()

    def _defect(self, where: str, what: str) -> None:
        self.figures.defects.append(f"seed {self.seed} ({self.made.call()}): {where}: {what}")

    def _chosen(self, setting: Setting) -> Strategy:
        """What a workload gets, counted."""
        found = strategy.choose(setting)
        refined = [line for line in found.lines if line.purpose == "round"]
        kinds = {
            "parities": [line for line in refined if not line.is_refined],
            "sets": found.rounds is None,
            "averaged": setting.average,
            "histogram": found.histogram,
            "plain": found.alternatives is not None,
        }
        self.figures.strategies[next((kind for kind, is_so in kinds.items() if is_so), "rounds")] += 1
        return found

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Noise as the scenario's seed has it, so that a defect is there again; and where errors come from that nobody
        foresaw."""
        sentence = running.sentence

        def explained(function: str, error: Exception) -> str:
            if not isinstance(error, MwemError):
                self.told.append("".join(traceback.format_exception(error)))
            return sentence(function, error)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "sentence", explained)
            patch.setattr(run, "OpenDPNoise", functools.partial(SeededNoise, self.seed))
            lower(patch, PASSES=3, SAMPLES=(2**10, 2**12))
            few_sets(patch, self.most_sets)
            patch.setattr(plan, "choose", self._chosen)
            yield


def _private(con: duckdb.DuckDBPyConnection) -> str:
    """The table that holds the rows: a source may have taken its name."""
    return con.execute("SELECT max(table_name) FROM duckdb_tables() WHERE table_name IN ('base', 'asked')").fetchall()[
        0
    ][0]


def _stored(con: duckdb.DuckDBPyConnection) -> tuple[int, int, int, tuple[str, ...]]:
    """Entries of the ledger, those that are done, releases that are kept, and tables that there are."""
    cursor = con.cursor()
    ledger = cursor.execute(
        "SELECT count(*), count(*) FILTER (status = 'done') FROM mwem_ledger() WHERE action = 'mwem_release'"
    ).fetchall()[0]
    tables = cursor.execute(
        "SELECT database_name, schema_name, table_name FROM duckdb_tables() ORDER BY ALL"
    ).fetchall()
    kept = 0
    for database in {name for name, schema, table in tables if (schema, table) == ("mwem", "releases")}:
        kept += cursor.execute(f"SELECT count(*) FROM {database}.mwem.releases").fetchall()[0][0]
    return (*ledger, kept, tuple(".".join(name) for name in tables if name[1] != "mwem"))


def campaign(seeds: Iterable[int], report: Callable[[str], object] | None = None) -> Figures:
    """Play all scenarios; `report` is given the figures now and then."""
    figures = Figures()
    for done, seed in enumerate(seeds, start=1):
        Scenario(seed, figures).play()
        if report is not None and done % 50 == 0:
            report(f"{done}: {figures}")
    return figures


if __name__ == "__main__":
    total = campaign(range(*map(int, sys.argv[1:])), lambda text: print(text, flush=True))
    print(total, total.done, total.strategies, sorted(total.options), *total.defects, sep="\n")
