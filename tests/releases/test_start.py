"""A start by name: what it may be, what it changes, and what it does not."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.errors import MwemError, OptionError, OutputError, TableError
from mwem_sql.platform.catalog import Place
from mwem_sql.releases import store
from mwem_sql.workload import Workload

NAMES = ("a", "b", "c", "d", "e", "f")
PAIRS = list(itertools.combinations(NAMES, 2))
WORKLOAD = Workload.from_rows({"group_by": list(pair)} for pair in PAIRS)
COLUMNS = ", ".join(f"{name} UTINYINT NOT NULL CHECK ({name} BETWEEN 0 AND 9)" for name in NAMES)


def chain(seed: int, rows: int, turn: int = 0) -> np.ndarray:
    """Columns of which each mostly follows the one before it, `turn` values on."""
    draw = np.random.default_rng(seed)
    columns = [(draw.random(rows) ** 2 * 10).astype(int)]
    for _ in NAMES[1:]:
        columns.append(np.where(draw.random(rows) < 0.8, (columns[-1] + turn) % 10, draw.integers(0, 10, rows)))
    return np.stack(columns, axis=1)


def load(con: Connection, table: str, codes: np.ndarray) -> None:
    con.execute(f"CREATE TABLE {table} ({COLUMNS})")
    con.from_arrow(pa.table(dict(zip(NAMES, codes.T, strict=True)))).insert_into(table)


def error(con: Connection, output: str, truth: np.ndarray, pairs: list[tuple[str, str]] = PAIRS) -> float:
    """The mean L1 error of pairs, of all rows."""
    stored, off = store.load(con.cursor(), output, Place.of(con), "test"), []
    for pair in pairs:
        counts = np.zeros((10, 10))
        np.add.at(counts, tuple(truth[:, [NAMES.index(name) for name in pair]].T), 1)
        weights = stored.state().marginal(pair)
        for axis, name in enumerate(pair):
            weights = stored.classes[name].spread(weights, axis)
        off.append(np.abs(counts - weights).sum() / len(truth))
    return float(np.mean(off))


@pytest.fixture(name="months")
def two_months() -> Connection:
    con = mwem_sql.connect()
    load(con, "may", chain(1, 1500))
    load(con, "june", chain(2, 1500))
    return con


def errors(con: Connection, epsilon: float = 0.5, seeds: int = 2, **options: object) -> float:
    """Of a release of June, the mean over some seeds."""
    truth, out = chain(2, 1500), []
    for seed in range(seeds):
        output = f"out_{con.execute('SELECT count(*) FROM duckdb_tables()').fetchall()[0][0]}_{seed}"
        mwem_sql.release(con, "june", WORKLOAD, epsilon, output=output, seed=seed, rows=1, **options)
        out.append(error(con, output, truth))
    return float(np.mean(out))


def test_a_right_start_helps_and_a_wrong_one_does_little_harm(months: Connection) -> None:
    load(months, "wrong", chain(3, 1500, turn=5)[:, ::-1])
    without = errors(months)
    assert errors(months, start="may") < 0.75 * without
    assert errors(months, start="wrong") < 1.1 * without


def test_an_earlier_release_is_a_start(months: Connection) -> None:
    mwem_sql.release(months, "may", WORKLOAD, 5, seed=1)
    without = errors(months)
    assert errors(months, start="may_synthetic") < 0.85 * without


@pytest.mark.parametrize(("asked", "most"), [(PAIRS, 0.9), (PAIRS[:3], 1.0)])
def test_last_months_release_starts_the_next_months(
    months: Connection, asked: list[tuple[str, str]], most: float
) -> None:
    """Of views of one table, whose columns the next workload has all or some of."""
    con, june = months, chain(2, 1500)
    con.execute(f"CREATE TABLE visit (month INTEGER NOT NULL, {COLUMNS})")
    con.execute("INSERT INTO visit SELECT 5, * FROM may UNION ALL SELECT 6, * FROM june")
    for name, month in (("v5", 5), ("v6", 6)):
        con.execute(f"CREATE VIEW {name} AS SELECT * EXCLUDE (month) FROM visit WHERE month = {month}")
    con.execute("CALL mwem_partition('visit', 'month')")
    last = mwem_sql.release(con, "v5", WORKLOAD, 5, seed=1).output
    workload = Workload.from_rows({"group_by": list(pair)} for pair in asked)
    off: dict[str, list[float]] = {"uniform": [], last: []}
    for seed in range(3):
        for start, each in off.items():
            output = f"o{seed}{len(start)}"
            mwem_sql.release(con, "v6", workload, 0.5, seed=seed, output=output, start=start)
            each.append(error(con, output, june, asked))
    assert np.mean(off[last]) < most * np.mean(off["uniform"])


@pytest.mark.parametrize("options", [{"rounds": 3}, {"rounds": 3, "average": True}])
def test_a_start_goes_with_other_options(months: Connection, options: dict[str, object]) -> None:
    assert errors(months, 1, 1, start="may", **options) < 0.9 * errors(months, 1, 1, **options)


def test_few_sets_and_one_column_start_too(months: Connection) -> None:
    for number, rows in enumerate(([{"group_by": ["a", "b"]}], [{"predicate": "a > 4"}, {"predicate": "a > 7"}])):
        made = mwem_sql.release(months, "june", Workload.from_rows(rows), 1, start="may", output=f"few_{number}")
        assert made.rows > 1000


def test_the_plan_says_what_a_start_is(months: Connection) -> None:
    months.execute("CREATE TABLE asked AS FROM mwem_marginals('june', 2)")
    plan = dict(months.execute("FROM mwem_plan('june', asked, 1, start := 'may')").fetchall())
    assert plan["start"].startswith("may: a, b, c, d, e, f; ")
    assert plan["start"].endswith("2% of the budget tells whether it is kept")


def test_the_rows_of_a_start_are_part_of_the_request(months: Connection) -> None:
    first = mwem_sql.release(months, "june", WORKLOAD, 1, start="may")
    again = mwem_sql.release(months, "june", WORKLOAD, 1, start="may")
    assert (first.reused, again.reused) == (False, True)
    months.execute("DELETE FROM may WHERE a = 0")
    with pytest.raises(OutputError, match=r"What changed: what it starts from"):
        mwem_sql.release(months, "june", WORKLOAD, 1, start="may")
    assert len(months.execute("FROM mwem_ledger()").fetchall()) == 1


def test_a_column_of_another_type_and_order_is_the_same_attribute(months: Connection) -> None:
    months.execute("CREATE TABLE texts AS SELECT f::VARCHAR AS F, a::DOUBLE AS A, 'x' AS b FROM may")
    months.execute("CREATE TABLE asked AS FROM mwem_marginals('june', 2)")
    plan = dict(months.execute("FROM mwem_plan('june', asked, 1, start := 'texts')").fetchall())
    assert plan["start"].startswith("texts: a, b, f; a with f; ")


PRIVATE = [
    ("june", TableError, r"start \('june'\) is the private table itself. Hint: a start must be public"),
    ("seen", TableError, r"start \('seen'\) is a view, and what a view reads may be private"),
    ("charged", TableError, r"start \('charged'\) has releases or a cap in its ledger, so its rows are private"),
    ("charged_synthetic", OptionError, r"start \('charged_synthetic'\) is a release with a seed, which is not private"),
    ("other", OptionError, r"start \('other'\) has none of the workload's columns"),
    ("ma", TableError, r"start \('ma'\) is neither 'uniform' nor 'histogram' nor a release or table"),
]


@pytest.mark.parametrize(("start", "kind", "said"), PRIVATE, ids=[each[0] for each in PRIVATE])
def test_what_may_be_private_is_no_start(months: Connection, start: str, kind: type[MwemError], said: str) -> None:
    months.execute("CREATE VIEW seen AS FROM june; CREATE TABLE other AS SELECT 1 AS x")
    load(months, "charged", chain(1, 50))
    mwem_sql.release(months, "charged", WORKLOAD, 1, seed=1)
    before = months.execute("SELECT count(*) FROM mwem_ledger()").fetchall()
    with pytest.raises(kind, match=said):
        mwem_sql.release(months, "june", WORKLOAD, 1, start=start)
    assert months.execute("SELECT count(*) FROM mwem_ledger()").fetchall() == before


def test_the_table_under_a_private_view_is_no_start(months: Connection) -> None:
    months.execute("CREATE VIEW young AS FROM june WHERE a < 5")
    with pytest.raises(TableError, match=r"start \('june'\) is the private table itself"):
        mwem_sql.release(months, "young", WORKLOAD, 1, start="june")


def test_a_capped_table_is_no_start(months: Connection) -> None:
    months.execute("CALL mwem_budget('may', 3.0)")
    with pytest.raises(TableError, match=r"start \('may'\) has releases or a cap"):
        mwem_sql.release(months, "june", WORKLOAD, 1, start="may")


def test_a_withdrawn_release_is_no_start(months: Connection) -> None:
    mwem_sql.release(months, "may", WORKLOAD, 1)
    months.execute("CALL mwem_withdraw('may_synthetic', 'a mistake')")
    with pytest.raises(OutputError, match="was withdrawn"):
        mwem_sql.release(months, "june", WORKLOAD, 1, start="may_synthetic")
