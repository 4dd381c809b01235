"""Values of synthetic rows: of the declared domain, inside their class, every value of a class as likely as any
other.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from math import sqrt
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from chance import sampled
from hypothesis import given
from hypothesis import strategies as st

from mwem_sql.algebra.table import FACTOR_SCHEMA
from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, value_pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.model.state import State
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.releases.store import write_table
from mwem_sql.synthesis import deal, values
from mwem_sql.synthesis.values import draw_rows, uniform_choice
from mwem_sql.workload import Workload

ROWS = 300
COLUMNS = {
    "tinyint": ("TINYINT CHECK (x BETWEEN -5 AND 100)", ["x > 3", "x = 7", "x % 2 = 0"]),
    "integer": ("INTEGER NOT NULL CHECK (x BETWEEN -1000000000 AND 1000000000)",
        ["x > 3", "x = 7", "x BETWEEN 100 AND 200"]),
    "hugeint": ("HUGEINT CHECK (x BETWEEN 0 AND 1000000000000)", ["x > 5000000000"]),
    "decimal": ("DECIMAL(12, 3) NOT NULL CHECK (x BETWEEN -1.005 AND 99.995)", ["x > 0", "x = 1.5", "x < 1.4999"]),
    "double": ("DOUBLE CHECK (x BETWEEN -1e6 AND 1e6)", ["x > 0", "x = 0.1", "x BETWEEN 0.1 AND 0.2", "x IS NULL"]),
    "float": ("FLOAT NOT NULL CHECK (x BETWEEN 0 AND 1)", ["x > 0.5", "x = 0.25", "x < 0.1"]),
    "date": ("DATE CHECK (x BETWEEN '1990-01-01' AND '2030-12-31')",
        ["x >= '2000-02-29'", "year(x) = 1999", "x IS NULL"]),
    "timestamp": ("TIMESTAMP NOT NULL CHECK (x BETWEEN '1960-01-01' AND '2030-01-01')",
        ["x < '1970-01-01'", "x = '2000-01-01 12:00:00.000001'"]),
    "timestamptz": ("TIMESTAMPTZ CHECK (x BETWEEN '2000-01-01 00:00:00+00' AND '2001-01-01 00:00:00+00')",
        ["x > '2000-06-01 00:00:00+02'"]),
    "enum": ("ENUM ('b', 'a', 'it''s', '')", ["x > 'b'", "x = ''", "x IS NULL"]),
    "boolean": ("BOOLEAN", ["x", "x IS NULL"]),
    "varchar": ("VARCHAR NOT NULL CHECK (x IN ('Zürich', 'Genf', '日本'))", ["x LIKE 'Z%'", "len(x) = 2"]),
    "list of numbers": ("INTEGER CHECK (x IN (5, 1, 99))", ["x > 1", "x IS NULL"]),
}  # fmt: skip


def compiled(column: str, predicates: list[str]) -> Compiled:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t (x {column})")
    domain = Domain.from_schema(con, "t")
    con.close()
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        return compile_workload(domain, Workload.from_predicates(predicates), sandbox)


FACTS = {
    "epsilon": 1.0, "delta": 0.0, "private": True, "unit": None, "rows_per_unit": 1, "release": 1,
    "domain": json.dumps({"table": "t", "columns": [], "attributes": []}), "grid": "{}",
}  # fmt: skip
"""What the comments on a table are made of."""


def drawn(classes: Classes, code: int, rows: int = ROWS) -> duckdb.DuckDBPyConnection:
    """A table `o` of rows that are all of one class."""
    weights = np.full(classes.count, 1e-15)  # a weight is never 0
    weights[code] = 1.0
    table = pa.Table.from_pydict(
        {"factor": [0], "attributes": [["x"]], "shape": [[classes.count]], "weights": [weights]}, schema=FACTOR_SCHEMA
    )
    columns = draw_rows(State.from_table(table), {"x": classes}, rows, np.random.default_rng(code))
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.execute("CREATE SCHEMA s")
    write_table(con, Name("memory", "s", "o"), FACTS, columns)
    return con


@pytest.mark.parametrize(("column", "predicates"), sampled(COLUMNS.values(), 3), ids=COLUMNS)
def test_every_value_is_of_its_class(column: str, predicates: list[str]) -> None:
    """DuckDB evaluates the predicates on the rows of a class; all must say what the class says."""
    public = compiled(column, predicates)
    classes = public.classes["x"]
    assert classes.count > 1
    for code in range(classes.count):
        con = drawn(classes, code)
        for query, text in zip(public.queries, predicates, strict=True):
            (block,) = query.linear.blocks
            found = con.execute(f"SELECT DISTINCT coalesce({text}, false) FROM s.o").fetchall()
            assert found == [(bool(block.labels[code] >= 0),)], text
        # The CHECK of the column holds on every row: DuckDB says so.
        con.execute(f"CREATE TABLE checked (x {column}); INSERT INTO checked FROM s.o")
        assert con.execute("SELECT count(*) FROM checked").fetchall() == [(ROWS,)]
        con.close()


@pytest.mark.parametrize(
    ("column", "predicate", "values"),
    [
        ("INTEGER NOT NULL CHECK (x BETWEEN 1 AND 9)", "x > 3", 6),
        ("ENUM ('a', 'b', 'c', 'd') NOT NULL", "x != 'a'", 3),
        ("INTEGER CHECK (x BETWEEN 1 AND 9)", "x > 3", 6),
    ],
)
def test_values_of_a_class_are_equally_many(column: str, predicate: str, values: int) -> None:
    public = compiled(column, [predicate])
    (block,) = public.queries[0].linear.blocks
    con = drawn(public.classes["x"], int(np.flatnonzero(block.labels >= 0)[0]), 60)
    counts = [count for (count,) in con.execute("SELECT count(*) FROM s.o GROUP BY x").fetchall()]
    con.close()
    assert len(counts) == values
    assert all(abs(count - 60 / values) <= 1 for count in counts)


def test_an_interval_is_covered_evenly() -> None:
    """Kolmogorov's distance of 2,000 uniform draws exceeds 0.05 less than once in 10,000 times: 2 exp(-2 n d^2)."""
    public = compiled("DOUBLE NOT NULL CHECK (x BETWEEN 0 AND 8)", ["x > 4"])
    (block,) = public.queries[0].linear.blocks
    con = drawn(public.classes["x"], int(np.flatnonzero(block.labels >= 0)[0]), 2000)
    values = np.sort(con.execute("FROM s.o").fetchnumpy()["x"])
    con.close()
    assert np.abs((values - 4) / 4 - np.arange(1, 2001) / 2000).max() < 0.05


def test_nulls_are_a_value_where_they_are_allowed() -> None:
    public = compiled("DOUBLE CHECK (x BETWEEN 0 AND 8)", ["x IS NULL"])
    classes = public.classes["x"]
    (block,) = public.queries[0].linear.blocks
    for code in range(classes.count):
        con = drawn(classes, code)
        assert con.execute("SELECT count(x) FROM s.o").fetchall() == [(0 if block.labels[code] >= 0 else ROWS,)]
        con.close()


def test_uniform_choice() -> None:
    generator = np.random.default_rng(4)
    chosen = uniform_choice(np.array([1.0, 2.0, 5.0]), 80, generator)
    assert np.bincount(chosen).tolist() == [10, 20, 50]
    assert (np.diff(chosen) < 0).any()
    assert uniform_choice(np.ones(4), 0, generator).shape == (0,)
    assert uniform_choice(np.ones(1), 3, generator).tolist() == [0, 0, 0]
    first = [int(uniform_choice(np.array([1.0, 3.0]), 1, generator)[0]) for _ in range(4000)]
    assert np.mean(first) == pytest.approx(0.75, abs=5 * sqrt(0.75 * 0.25 / 4000))


MANY = """CREATE TABLE t (
    "a ""b" ENUM ('x', 'y', 'it''s') NOT NULL, "SELECT" INTEGER CHECK ("SELECT" BETWEEN 0 AND 9),
        c0 DOUBLE CHECK (c0 BETWEEN 0 AND 1),
    "日" VARCHAR CHECK ("日" IN ('p', 'q')))"""


def many(rows: int, seed: int) -> tuple[values.Rows, list[str]]:
    con = duckdb.connect()
    con.execute(MANY)
    domain = Domain.from_schema(con, "t")
    con.close()
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        asked = Workload.from_predicates(['"a ""b" = \'x\'', '"SELECT" > 4', "c0 > 0.5", "\"日\" = 'p'"])
        classes = compile_workload(domain, asked, sandbox).classes
    state = State.uniform({name: own.sizes for name, own in classes.items()}, 10.0)
    return draw_rows(state, classes, rows, np.random.default_rng(seed)), list(classes)


def test_rows_come_in_blocks_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three blocks of one seed: only the first is drawn at once, names and types are the table's, and all comes
    again.
    """
    drawn = []

    def watched(*arguments: object) -> object:
        for codes in partial(deal.draw_codes, block=4 * 1000)(*arguments):  # type: ignore[arg-type]
            drawn.append(len(codes["c0"]))
            yield codes

    monkeypatch.setattr(values, "draw_codes", watched)
    tables = []
    for seed in (1, 1, 2):
        rows, names = many(2500, seed)
        assert drawn == [833]
        with duckdb.connect() as con:
            write_table(con, Name("memory", "main", "o"), FACTS, rows)
            assert drawn == [833, 833, 834]
            con.execute(MANY)
            kind = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
            assert con.execute(kind, ["o"]).fetchall() == con.execute(kind, ["t"]).fetchall()
            assert [name for name, _ in con.execute(kind, ["o"]).fetchall()] == names
            tables.append(con.execute("FROM o").fetchall())
        drawn.clear()
    assert len(tables[0]) == 2500
    assert tables[0] == tables[1] != tables[2]


@pytest.mark.campaign
def test_ten_million_rows_in_bounded_memory(tmp_path: Path) -> None:
    """14 attributes in a tree of ten cliques: memory grows by the blocks and DuckDB's own limit, not by the rows."""
    script = Path(__file__).parents[1] / "ten_million.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True, text=True)
    # All rows at once would have 140 million codes of 2 bytes and values of 4; DuckDB alone may take its 210 MB.
    assert float(done.stdout) < 140 * (2 + 4) / 2


def test_the_density_inside_a_bin_follows_its_neighbours() -> None:
    """Rows of a falling curve in bins: quantiles of what is drawn are nearer to those of the curve than evenly drawn
    ones are, and no bin gains or loses a row.
    """
    attribute = Attribute("x", "INTEGER", nullable=False, low=0, high=9999, bins=8)
    classes = Classes(value_pieces(attribute), np.arange(8, dtype=np.int32))
    true = np.sort((10_000 * np.random.default_rng(1).beta(1, 4, 20_000)).astype(np.int64))
    counts = np.histogram(true, np.append(classes.pieces.lows, 10_000))[0]
    pieces, shares = np.arange(8).repeat(counts), np.linspace(0.01, 0.99, 99)
    off = {}
    for name, slopes in (("even", np.zeros(8)), ("sloped", classes.slopes(counts.astype(np.float64)))):
        drawn = classes.pieces.draw(pieces, slopes, np.random.default_rng(2)).to_numpy()
        assert (np.histogram(drawn, np.append(classes.pieces.lows, 10_000))[0] == counts).all()
        off[name] = np.abs(np.quantile(drawn, shares) - np.quantile(true, shares)).mean()
    assert off["sloped"] < 0.5 * off["even"]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.booleans())
def test_slopes_keep_within_the_bin(rows: list[float], is_real: bool) -> None:
    """A slope is from -2 to 2: no part of a bin has fewer than no rows. Where all are as full as each other, there
    is none.
    """
    attribute = Attribute("x", "DOUBLE" if is_real else "INTEGER", nullable=False, low=0, high=90, bins=len(rows))
    classes = Classes(value_pieces(attribute), np.arange(len(rows), dtype=np.int32))
    slopes = classes.slopes(np.array(rows))
    assert (np.abs(slopes) <= 2).all()
    assert not classes.slopes(classes.pieces.lengths).any()
    pieces = np.arange(len(rows)).repeat(50)
    drawn = classes.pieces.draw(pieces, slopes, np.random.default_rng(1)).to_numpy()
    assert (classes.pieces.lows[pieces] <= drawn).all() and (drawn <= classes.pieces.highs[pieces]).all()
