"""Excerpts of the American Community Survey as a user would declare them, and the rows that cannot be.

The domain comes from the excerpts' dictionary: a category has the values that are listed there, `N` (not applicable) is
NULL. Numbers have the dictionary's bounds and bins with round ends: ages by five years and where school, income and
work begin (3, 5, 15, 16); incomes, poverty ratios and weights finer where most people are; 0 and 501, which stand for
something else, alone. An excerpt is defined by its areas, so which areas it has, and the density of each, is public.
`INDP`, 271 codes that the score leaves out, is left out here.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import tables
from pyarrow import csv

import mwem_sql

AREA, DENSITY, LEFT_OUT, MISSING = "PUMA", "DENSITY", "INDP", "N"
HALVES = {"choose": "acs/tx2019.csv", "report": "acs/ma2019.csv"}
DICTIONARY = "acs/data_dictionary.json"
_WEIGHTS = (20, 30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 200, 300, 500)
EDGES: dict[str, tuple[int, ...]] = {
    "AGEP": (3, 5, 10, 15, 16, 18, *range(20, 90, 5)),
    "NOC": tuple(range(1, 8)),
    "NPF": tuple(range(3, 11)),
    "PINCP": (
        0, 1, 2_500, 5_000, 7_500, 10_000, 12_500, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000, 45_000, 50_000,
        60_000, 70_000, 80_000, 100_000, 125_000, 150_000, 200_000, 400_000,
    ),
    "POVPIP": (1, *range(50, 501, 50), 501),
    "WGTP": (1, *_WEIGHTS),
    "PWGTP": _WEIGHTS,
}  # fmt: skip
"""Where bins of numbers begin; the first begins at the least value."""
BOUNDS = {"NOC": (0, 19), "POVPIP": (0, 501), "WGTP": (0, 9999)}
"""Where the dictionary lists single numbers beside its bounds."""
SCHOOL = ("5", "6", "7", "8", "9", "10", "11", "12")
IMPOSSIBLE = {
    "an infant at school": "(AGEP < 3) <> (EDU IS NULL)",
    "a child with a diploma": f"AGEP < 14 AND EDU IN {SCHOOL}",
    "the income of a child": "(AGEP < 15) <> (PINCP IS NULL)",
    "the decile of a child": "(AGEP < 15) <> (PINCP_DECILE IS NULL)",
    "the marriage of a child": "(AGEP < 15) <> (MSP IS NULL)",
    "the work of a child": "AGEP < 16 AND INDP_CAT IS NOT NULL",
    "a child who is a veteran": "AGEP < 17 AND DVET IS NOT NULL",
    "a toddler's memory": "(AGEP < 5) <> (DREM IS NULL)",
    "a toddler's walking": "(AGEP < 5) <> (DPHY IS NULL)",
    "an owner of group quarters": "(HOUSING_TYPE <> '1') <> (OWN_RENT = '0')",
    "the weight of group quarters": "(HOUSING_TYPE <> '1') <> (WGTP = 0)",
    "children of group quarters": "(HOUSING_TYPE <> '1') <> (NOC IS NULL)",
    "a family in group quarters": "HOUSING_TYPE <> '1' AND NPF IS NOT NULL",
    "more children than family": "NOC >= NPF",
}
"""What no row of the survey is, as SQL."""


PEOPLE, AREAS = 27_253, 20
"""Of an enlarged excerpt: as many as in the largest that the board scores."""


def enlarged(path: Path, out: Path, *, people: int = PEOPLE, areas: int = AREAS) -> Path:
    """A larger excerpt, for seconds and scores at that size: rows of this one, drawn with replacement.

    Each new area has as many people as any other, and draws them from two areas of the excerpt, its own mixture of
    these. The draws are the same in every run.
    """
    draw = np.random.default_rng(people)
    rows = duckdb.sql(f"SELECT * FROM read_csv('{path}', all_varchar = true) ORDER BY ALL").to_arrow_table()
    area, density = (np.array(rows[name].to_pylist()) for name in (AREA, DENSITY))
    chosen, names, densities = [], [], []
    for number, count in enumerate(np.bincount(np.arange(people) % areas)):
        both, share = draw.choice(np.unique(area), 2, replace=False), draw.uniform(0.1, 0.9)
        members = [np.flatnonzero(area == one) for one in both]
        sizes = round(share * count), count - round(share * count)
        chosen += [draw.choice(own, size) for own, size in zip(members, sizes, strict=True)]
        ends = [np.log(float(density[own[0]])) for own in members]
        names += [f"00-{number:05}"] * count
        densities += [f"{np.exp(share * ends[0] + (1 - share) * ends[1]) + number / 10:.1f}"] * count
    columns = {AREA: pa.array(names), DENSITY: pa.array(densities)}
    taken = rows.take(pa.array(np.concatenate(chosen)))
    csv.write_csv(pa.table({name: columns.get(name, taken[name]) for name in rows.column_names}), out)
    return out


@dataclass(frozen=True, eq=False)
class Excerpt:
    """The rows of a file, in a database as the table `private`, and what the dictionary says of its columns."""

    path: Path
    dictionary: Path
    checks: bool = False
    """Whether the schema says what cannot be, and a rules table which columns follow from others."""

    @cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        con = mwem_sql.connect()
        con.execute("SET threads = 1")
        con.execute("CREATE TABLE private_domain (attribute VARCHAR, low VARCHAR, high VARCHAR, edges VARCHAR[])")
        self._read(con, "raw", self.path)
        areas = dict(con.execute(f"SELECT DISTINCT {AREA}, {DENSITY} FROM raw ORDER BY 1").fetchall())
        columns = []
        for name, words in self.columns.items():
            end = "" if self.nullable[name] else " NOT NULL"
            if name in EDGES:
                columns.append(f"{name} INTEGER{end}")
                low, high = self.bounds(name)
                con.execute("INSERT INTO private_domain VALUES (?, ?, ?, ?)", [name, low, high, list(EDGES[name])])
            else:
                values = {AREA: [*areas], DENSITY: [*areas.values()]}.get(name, [*words.keys() - {MISSING}])
                columns.append(f"{name} ENUM ({', '.join(map(repr, sorted(values, key=_order)))}){end}")
        if self.checks:
            columns += [f"CHECK (NOT ({text}))" for text in IMPOSSIBLE.values()]
        con.execute(f"CREATE TABLE private ({', '.join(columns)})")
        con.execute(f"CREATE TABLE areas AS SELECT DISTINCT {AREA}, {DENSITY} FROM raw")
        self._insert(con, "private")
        if self.checks:
            con.execute("CREATE TABLE private_rules (rule VARCHAR)")
            con.executemany("INSERT INTO private_rules VALUES (?)", [[text] for text in self._equations(con, areas)])
        return con

    def _equations(self, con: duckdb.DuckDBPyConnection, areas: dict[str, str]) -> list[str]:
        """Columns that follow from others: the density of an area, and a decile by the incomes at which it begins.

        Where deciles begin is a fact of the state, which the survey publishes; here it is read off the excerpt.
        """
        densities = " ".join(f"WHEN '{area}' THEN '{density}'" for area, density in areas.items())
        begins = con.execute(
            "SELECT PINCP_DECILE, min(PINCP) FROM private WHERE PINCP IS NOT NULL GROUP BY ALL ORDER BY 1 DESC"
        ).fetchall()
        deciles = " ".join(f"WHEN PINCP >= {low} THEN '{decile}'" for decile, low in begins[:-1])
        return [
            f"{DENSITY} = CASE {AREA} {densities} END",
            f"PINCP_DECILE = CASE {deciles} WHEN PINCP IS NOT NULL THEN '{begins[-1][0]}' END",
        ]

    @cached_property
    def columns(self) -> dict[str, dict[str, Any]]:
        """What the dictionary lists of each column: values with their meanings, or bounds."""
        found = json.loads(self.dictionary.read_text())
        return {name: own.get("values", {}) for name, own in found.items() if name != LEFT_OUT}

    def bounds(self, name: str) -> tuple[int, int]:
        return BOUNDS.get(name) or (self.columns[name]["min"], self.columns[name]["max"])

    def load(self, path: Path) -> str:
        """Rows that something else has made, from a file like the excerpt's; the name of their table."""
        self._read(self.con, "raw", path)
        self.con.execute("CREATE OR REPLACE TABLE loaded AS FROM private LIMIT 0")
        self._insert(self.con, "loaded")
        return "loaded"

    @cached_property
    def coded(self) -> tables.Table:
        """The private rows as codes of the declared values and bins, NULL the last: for methods that take codes."""
        sizes, codes = {}, []
        columns = self.con.sql("FROM private").to_arrow_table()
        for name in self.columns:
            column = columns[name].to_pylist()
            if name in EDGES:
                size = len(EDGES[name]) + 1
                code = np.searchsorted(EDGES[name], [0 if one is None else one for one in column], side="right")
                code = np.where([one is None for one in column], size, code)
            else:
                words = self.words[name]
                size, code = len(words), np.array([len(words) if one is None else words.index(one) for one in column])
            sizes[name] = size + self.nullable[name]
            codes.append(code)
        return tables.Table(self.path.stem, sizes, np.stack(codes, axis=1))

    @cached_property
    def words(self) -> dict[str, list[str]]:
        """The values of each category, in their order."""
        types = {name: kind for name, kind, *_ in self.con.execute("DESCRIBE private").fetchall() if name not in EDGES}
        listed = ", ".join(f"enum_range(NULL::{kind})" for kind in types.values())
        return dict(zip(types, self.con.execute(f"SELECT {listed}").fetchall()[0], strict=True))

    @cached_property
    def nullable(self) -> dict[str, bool]:
        return {name: MISSING in words for name, words in self.columns.items()}

    def decoded(self, codes: np.ndarray, generator: np.random.Generator) -> str:
        """Rows of codes as a table; numbers are even within their bins. The table's name."""
        columns = {}
        for place, name in enumerate(self.columns):
            own = codes[:, place]
            if name in EDGES:
                low, high = self.bounds(name)
                begins = np.array([low, *EDGES[name], high + 1])
                bins = np.minimum(own, len(begins) - 2)
                drawn = generator.integers(begins[bins], begins[bins + 1])
                columns[name] = pa.array(drawn, mask=own > bins)
            else:
                columns[name] = pa.array([*self.words[name], None]).take(pa.array(own))
        arrived = pa.table(columns)  # noqa: F841  DuckDB reads it by its name
        self.con.execute("CREATE OR REPLACE TABLE loaded AS FROM private LIMIT 0")
        self.con.execute("INSERT INTO loaded BY NAME FROM arrived")
        return "loaded"

    def _read(self, con: duckdb.DuckDBPyConnection, table: str, path: Path) -> None:
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS FROM read_csv(?, all_varchar = true, nullstr = '{MISSING}')",
            [str(path)],
        )

    def _insert(self, con: duckdb.DuckDBPyConnection, table: str) -> None:
        numbers = ", ".join(f"{name}::DOUBLE AS {name}" for name in EDGES)
        con.execute(f"INSERT INTO {table} BY NAME SELECT * EXCLUDE ({LEFT_OUT}) REPLACE ({numbers}) FROM raw")

    @cached_property
    def impossible(self) -> dict[str, str]:
        """The rules above, and two that follow from the true rows: an area's density, and a decile's incomes."""
        deciles = self.con.execute(
            """SELECT PINCP_DECILE, lag(high, 1, -1000000000) OVER deciles, lead(low, 1, 1000000000) OVER deciles
            FROM (SELECT PINCP_DECILE, min(PINCP) AS low, max(PINCP) AS high FROM private
                  WHERE PINCP_DECILE IS NOT NULL GROUP BY ALL)
            WINDOW deciles AS (ORDER BY PINCP_DECILE)"""
        ).fetchall()
        incomes = " OR ".join(
            f"(PINCP_DECILE = '{decile}' AND NOT (PINCP > {below} AND PINCP < {above}))"
            for decile, below, above in deciles
        )
        areas = f"({AREA}::VARCHAR, {DENSITY}::VARCHAR) NOT IN (SELECT ({AREA}, {DENSITY}) FROM areas)"
        return {**IMPOSSIBLE, "a density of another area": areas, "a decile of another income": incomes}

    def broken(self, table: str) -> dict[str, float]:
        """Of each rule, the share of rows that break it; last, of rows that break one at least."""
        rules = self.impossible
        flags = [f"coalesce({text}, false)" for text in rules.values()]
        shares = ", ".join(f"avg(({flag})::INT)" for flag in [*flags, " OR ".join(flags)])
        found = self.con.execute(f"SELECT {shares} FROM {table}").fetchall()[0]
        return dict(zip([*rules, "any"], found, strict=True))

    def workload(self, name: str) -> mwem_sql.Workload:
        """`pairs` of all columns, or `puma`: the area with pairs of the others."""
        others = [column for column in self.columns if name == "pairs" or column != AREA]
        first = [] if name == "pairs" else [AREA]
        return mwem_sql.Workload.from_rows({"group_by": [*first, *pair]} for pair in itertools.combinations(others, 2))


def _order(value: str) -> tuple[float, str]:
    """Numbers by their size, as the dictionary means them."""
    try:
        return float(value), value
    except ValueError:
        return 0.0, value
