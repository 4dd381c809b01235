"""Releases of several tables: keys join, numbers of rows are kept, answers and rows agree, one debit or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import mwem_sql
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.releases import store
from mwem_sql.scan.engines.duckdb import InstanceSnapshot

ROWS_PER_UNIT = {"visit": 6, "drug": 8}
SETUP = """
    CREATE TYPE sex AS ENUM ('F', 'M'); CREATE TYPE kind AS ENUM ('A', 'B', 'C');
    CREATE TABLE person (pid VARCHAR PRIMARY KEY, sex sex NOT NULL, age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99));
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid VARCHAR REFERENCES person (pid), kind kind NOT NULL);
    CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), days INTEGER CHECK (days BETWEEN 1 AND 9));
    INSERT INTO person SELECT 'p' || i, if(i % 3 = 0, 'F', 'M'), hash(i) % 100 FROM range(3000) t(i);
    INSERT INTO visit
    SELECT row_number() OVER (), pid, if(age >= 60, if(hash(pid, i) % 3 = 0, 'A', 'B'), 'C')
    FROM person, range(6) t(i) WHERE i < if(sex = 'F', 3, 1) + if(age >= 60, 2, 0);
    INSERT INTO drug SELECT vid, nullif(1 + vid % 10, 10) FROM visit, range(2) t(i) WHERE i < if(kind = 'A', 2, 0);
    CREATE TABLE workload AS SELECT * FROM (VALUES
        ('person', 'age >= 60', ['sex']), ('person', 'visit >= 3', ['sex']),
        ('visit', NULL, ['kind', 'sex']), ('visit', 'age >= 60', ['kind']), ('visit', 'drug > 0', ['kind']),
        ('drug', 'days > 5', ['kind']), ('drug', NULL, ['person.sex'])) t("of", predicate, group_by)
"""
TABLES = ["person", "visit", "drug"]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect() as con:
        con.execute(SETUP)
        yield con


def released(con: duckdb.DuckDBPyConnection, epsilon: float, **options: Any) -> tuple[mwem_sql.Release, ...]:
    return mwem_sql.release(con, TABLES, "workload", epsilon, rows_per_unit=ROWS_PER_UNIT, **options)


def counts(con: duckdb.DuckDBPyConnection, suffix: str = "_synthetic") -> dict[tuple[Any, ...], int]:
    """How many joined rows are in each cell of what is asked about."""
    person, visit, drug = (f"{name}{suffix}" for name in TABLES)
    con.execute(
        f"""CREATE OR REPLACE TEMP VIEW persons AS
            SELECT *, (SELECT count(*) FROM {visit} v WHERE v.pid = p.pid) AS n FROM {person} p;
            CREATE OR REPLACE TEMP VIEW visits AS
            SELECT v.*, sex, (SELECT count(*) FROM {drug} d WHERE d.vid = v.vid) AS n
            FROM {visit} v JOIN {person} USING (pid);
            CREATE OR REPLACE TEMP VIEW drugs AS SELECT * FROM {drug} JOIN visits USING (vid)"""
    )
    questions = {"persons": ["sex, n"], "visits": ["sex, kind", "kind, n"], "drugs": ["kind, days > 5"]}
    return {
        (view, question, *row[:-1]): row[-1]
        for view, listed in questions.items()
        for question in listed
        for row in con.execute(f"SELECT {question}, count(*) FROM {view} GROUP BY ALL").fetchall()
    }


@pytest.mark.parametrize("seed", range(3))
def test_every_key_leads_to_a_row_and_numbers_are_the_keys(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    """At any epsilon: noise changes how many rows there are, and never whether they join."""
    released(con, [0.05, 1, 100][seed], seed=seed)
    for child, parent, column in (("visit", "person", "pid"), ("drug", "visit", "vid")):
        lost = con.execute(
            f"SELECT count(*) FROM {child}_synthetic c ANTI JOIN {parent}_synthetic p ON c.{column} = p.{column}"
        )
        assert lost.fetchall() == [(0,)]
        ((least, most, rows),) = con.execute(
            f"SELECT min({column}), max({column}), count(DISTINCT {column}) FROM {parent}_synthetic"
        ).fetchall()
        assert (least, most) == (1, rows)
    ((most_visits, most_drugs),) = con.execute(
        """SELECT (SELECT max(n) FROM (SELECT count(*) AS n FROM visit_synthetic GROUP BY pid)),
                  (SELECT max(n) FROM (SELECT count(*) AS n FROM drug_synthetic GROUP BY vid))"""
    ).fetchall()
    assert (most_visits or 0) <= ROWS_PER_UNIT["visit"] and (most_drugs or 0) <= ROWS_PER_UNIT["drug"]


def test_with_next_to_no_noise_joined_rows_are_the_private_ones(con: duckdb.DuckDBPyConnection) -> None:
    """What is asked about, row for row: the noise is far below half a row, and so each cell is due whole rows."""
    con.execute(
        """CREATE OR REPLACE TABLE workload AS SELECT * FROM (VALUES ('person', ['sex', 'visit']),
           ('visit', ['kind', 'sex', 'drug']), ('drug', ['kind', 'days'])) t("of", group_by)"""
    )
    released(con, 10**6, seed=0)
    assert counts(con) == counts(con, "")


def test_answers_and_joined_rows_agree_whatever_the_noise(con: duckdb.DuckDBPyConnection) -> None:
    """What a level's state says of the tables above is what their rows say: exactly, and others up to rounding."""
    person, visit, drug = released(con, 0.5, seed=5)
    asked = {
        visit.output: ["true", "sex = 'F'", "age >= 60", "sex = 'F' AND age >= 60"],
        drug.output: ["true", "person.sex = 'F'", "visit.kind = 'A'"],
    }
    joined = {
        visit.output: "visit_synthetic visit JOIN person_synthetic person USING (pid)",
        drug.output: "drug_synthetic JOIN visit_synthetic visit USING (vid) JOIN person_synthetic person USING (pid)",
    }
    for output, predicates in asked.items():
        for predicate in predicates:
            ((rows,),) = con.execute(f"SELECT count(*) FROM {joined[output]} WHERE {predicate}").fetchall()
            # A row is spread over all of the parents' cells, so that nothing is impossible.
            assert mwem_sql.count(con, output, predicate) == pytest.approx(rows, abs=1.5)
    # Rows of one of the parents' cells are dealt together: of each kind, less than a row more or fewer than are due.
    ((cells,),) = con.execute("SELECT count(DISTINCT (sex, age >= 60)) FROM person_synthetic").fetchall()
    for output, predicate in [(visit.output, "kind = 'A' AND age >= 60"), (visit.output, "kind = 'B' AND sex = 'M'")]:
        ((rows,),) = con.execute(f"SELECT count(*) FROM {joined[output]} WHERE {predicate}").fetchall()
        assert mwem_sql.count(con, output, predicate) == pytest.approx(rows, abs=cells)
    ((visits,),) = con.execute("SELECT count(*) FROM visit_synthetic").fetchall()
    assert (person.rows, visit.rows) == (con.execute("SELECT count(*) FROM person_synthetic").fetchall()[0][0], visits)


def test_intervals_of_levels_hold(con: duckdb.DuckDBPyConnection) -> None:
    """At 95%, over questions and runs: no fewer than chance allows."""
    truths = {
        "visit_synthetic": {"kind = 'A'": 0, "kind = 'C' AND sex = 'F'": 0, "age >= 60": 0, "true": 0},
        "person_synthetic": {"visit >= 3": 0, "sex = 'F' AND visit = 1": 0},
    }
    view = {
        "visit_synthetic": "visit JOIN person USING (pid)",
        "person_synthetic": "(SELECT *, (SELECT count(*) FROM visit v WHERE v.pid = p.pid) AS visit FROM person p)",
    }
    inside = tried = 0
    for run in range(8):
        released(con, 0.5, version=str(run), seed=run)
        for output, predicates in truths.items():
            for predicate in predicates:
                ((truth,),) = con.execute(f"SELECT count(*) FROM {view[output]} WHERE {predicate}").fetchall()
                found = mwem_sql.count_interval(con, output, predicate)
                inside += found["low"] <= truth <= found["high"]
                tried += 1
    # Four standard deviations below what is promised, were all independent.
    assert inside >= 0.95 * tried - 4 * sqrt(0.95 * 0.05 * tried)


def test_one_accountant_takes_all_and_no_more(con: duckdb.DuckDBPyConnection) -> None:
    released(con, 1)
    assert con.execute("SELECT epsilon, rho_exact FROM mwem.ledger").fetchall() == [(1, "1/2")]
    released(con, 1, delta=1e-6, version="2")
    rows = con.execute("SELECT noise FROM mwem.measurements JOIN mwem.releases USING (release) WHERE version = '2'")
    assert {noise for (noise,) in rows.fetchall()} == {"gaussian"}


def test_noise_of_a_level_is_that_of_its_rows_per_unit(con: duckdb.DuckDBPyConnection) -> None:
    """A measurement of visits has six times the noise that its share has for a person."""
    released(con, 1)
    rows = con.execute("SELECT release, max(scale), min(scale) FROM mwem.measurements GROUP BY ALL ORDER BY ALL")
    scales = {release: (most, least) for release, most, least in rows.fetchall()}
    assert all(least >= 1 for _, least in scales.values())
    plan = mwem_sql.plan(con, TABLES, "workload", 1, rows_per_unit=ROWS_PER_UNIT).to_pylist()
    shares = [float(row["value"].split("%")[0]) / 100 for row in plan if row["item"] == "share"]
    assert sum(shares) == pytest.approx(1, abs=0.02)
    for (_, least), share, sensitivity in zip(scales.values(), shares, (1, 6, 8), strict=True):
        assert least >= 0.9 * sensitivity / share  # all of the share for one measurement has that scale


@pytest.mark.parametrize("step", range(5))
def test_what_breaks_in_the_middle_leaves_no_output_and_is_charged_once(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Between the levels, and while outputs are written."""
    calls = 0

    def broken(real: Any) -> Any:
        def stepped(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1 + 2 * step:
                raise duckdb.IOException("broken")
            return real(*arguments, **options)

        return stepped

    monkeypatch.setattr(Kernel, "certify", broken(Kernel.certify))
    monkeypatch.setattr(store, "write_table", broken(store.write_table))
    with pytest.raises((mwem_sql.MwemError, duckdb.Error)):
        released(con, 1)
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE '%_synthetic'").fetchall() == [(0,)]
    assert con.execute("SELECT epsilon, status FROM mwem_ledger()").fetchall() == [(1, "failed")]
    monkeypatch.undo()
    assert [one.reused for one in released(con, 1)] == [False] * 3
    assert con.execute("SELECT epsilon, status FROM mwem_ledger()").fetchall() == [(1, "done")]
    assert [one.reused for one in released(con, 1)] == [True] * 3


def test_values_of_tables_above_that_are_on_no_list(con: duckdb.DuckDBPyConnection) -> None:
    """They are NULL in rows, and a cell of their own for the table below."""
    con.execute(
        """CREATE TABLE home (hid INTEGER PRIMARY KEY, city VARCHAR NOT NULL);
           CREATE TABLE pet (hid INTEGER REFERENCES home (hid), dog BOOLEAN NOT NULL);
           CREATE TABLE home_domain AS SELECT 'city' AS attribute, ['Bern', 'Basel'] AS "values";
           INSERT INTO home SELECT i, ['Bern', 'Basel', 'Genf'][1 + i % 3] FROM range(300) t(i);
           INSERT INTO pet SELECT hid, city = 'Genf' FROM home;
           CREATE TABLE pets AS SELECT ['dog', 'city'] AS group_by, 'pet' AS "of" """
    )
    mwem_sql.release(con, ["home", "pet"], "pets", 10**6, rows_per_unit=1)
    rows = con.execute(
        "SELECT city, dog, count(*) FROM pet_synthetic JOIN home_synthetic USING (hid) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert rows == [("Basel", False, 100), ("Bern", False, 100), (None, True, 100)]


def test_no_rows_below(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM drug; DELETE FROM visit")
    _, visit, _ = released(con, 10**6)
    assert con.execute("SELECT count(*) FROM visit_synthetic").fetchall() == [(visit.rows,)] == [(0,)]
    assert np.isfinite(mwem_sql.count(con, visit.output, "kind = 'A'"))


def test_keys_of_several_columns(con: duckdb.DuckDBPyConnection) -> None:
    """A line counts the rows of one parent; the columns that a table shares with those above it agree."""
    con.execute(
        """CREATE TABLE patient (site VARCHAR, nr INTEGER, sex sex NOT NULL, PRIMARY KEY (site, nr));
           CREATE TABLE stay (site VARCHAR, nr INTEGER, line INTEGER, kind kind NOT NULL, PRIMARY KEY (site, nr, line),
               FOREIGN KEY (site, nr) REFERENCES patient (site, nr));
           CREATE TABLE dose (site VARCHAR, nr INTEGER, line INTEGER, day INTEGER CHECK (day BETWEEN 1 AND 3),
               strong BOOLEAN NOT NULL, PRIMARY KEY (site, nr, line, day),
               FOREIGN KEY (site, nr, line) REFERENCES stay (site, nr, line));
           INSERT INTO patient SELECT ['x', 'y'][1 + i % 2], i // 2, if(i % 2 = 0, 'F', 'M') FROM range(600) t(i);
           INSERT INTO stay
           SELECT site, nr, n, if(sex = 'F', 'A', 'B') FROM patient, range(3) t(n) WHERE n <= nr % 3;
           INSERT INTO dose SELECT site, nr, line, n, kind = 'A' FROM stay, range(1, 3) t(n) WHERE n = 1 OR kind = 'A';
           CREATE TABLE doses AS SELECT * FROM (VALUES ('stay', ['kind', 'sex']), ('dose', ['strong', 'stay.kind']))
           t("of", group_by);
           CREATE TABLE by_day AS FROM doses UNION ALL SELECT 'dose', ['day']"""
    )
    for workload in ("doses", "by_day"):
        options = {"rows_per_unit": {"stay": 3, "dose": 6}, "version": workload}
        mwem_sql.release(con, ["dose", "patient", "stay"], workload, 10**6, **options)
        ((rows, right, most),) = con.execute(
            """SELECT count(*), count_if(strong = (kind = 'A')), max(line) FROM dose_synthetic
               JOIN stay_synthetic USING (site, nr, line) JOIN patient_synthetic USING (site, nr)"""
        ).fetchall()
        assert con.execute("SELECT count(*) FROM dose_synthetic").fetchall() == [(rows,)]
        assert (rows, most) == (right, 3) and abs(rows - 1800) <= 14
        keys = con.execute(
            "SELECT constraint_type, constraint_column_names FROM duckdb_constraints()"
            " WHERE table_name = 'dose_synthetic' AND constraint_type <> 'NOT NULL' ORDER BY ALL"
        ).fetchall()
        leading = ("FOREIGN KEY", ["site", "nr", "line"])
        assert keys == [leading, ("PRIMARY KEY", ["site", "nr", "line", "day"])][: 1 + (workload == "doses")]


def test_views_of_files_by_keys_that_are_declared(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """A row whose key another row has, too, is in no table, and neither is what leads to it."""
    con.execute(
        f"""COPY (SELECT pid, sex FROM person UNION ALL SELECT 'p7', 'F') TO '{tmp_path}/patient.parquet';
            COPY (SELECT pid, vid AS line, kind FROM visit) TO '{tmp_path}/stay.parquet';
            COPY (SELECT pid, vid AS line, days FROM drug JOIN visit USING (vid)) TO '{tmp_path}/dose.parquet';
            CREATE VIEW patient AS FROM '{tmp_path}/patient.parquet';
            CREATE VIEW stay AS FROM '{tmp_path}/stay.parquet';
            CREATE VIEW dose AS SELECT * FROM '{tmp_path}/dose.parquet' WHERE days < 9;
            CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR,
                refers_columns VARCHAR[]);
            INSERT INTO mwem_keys VALUES ('stay', ['pid'], 'patient', ['pid']),
                ('dose', ['pid', 'line'], 'stay', ['pid', 'line']);
            CREATE TABLE patient_domain AS SELECT 'sex' AS attribute, ['F', 'M'] AS "values";
            CREATE TABLE stay_domain AS SELECT 'kind' AS attribute, ['A', 'B', 'C'] AS "values";
            CREATE TABLE dose_domain AS SELECT 'days' AS attribute, 1 AS low, 9 AS high;
            CREATE TABLE stays AS SELECT * FROM (VALUES ('stay', ['kind', 'sex']), ('dose', ['stay.kind']),
                ('dose', ['days'])) t("of", group_by)"""
    )
    mwem_sql.release(con, ["dose", "stay", "patient"], "stays", 10**5, rows_per_unit={"stay": 6, "dose": 12})
    ((rows, lost),) = con.execute(
        """SELECT (SELECT count(*) FROM patient_synthetic),
           (SELECT count(*) FROM dose_synthetic ANTI JOIN stay_synthetic USING (pid, line))"""
    ).fetchall()
    assert (rows, lost) == (2999, 0)
    joined = "SELECT sex, kind, count(*) FROM {0} stay JOIN {1} patient USING (pid) GROUP BY ALL"
    truth = con.execute(joined.format("visit", "(FROM person WHERE pid <> 'p7')")).fetchall()
    found = {row[:2]: row[2] for row in con.execute(joined.format("stay_synthetic", "patient_synthetic")).fetchall()}
    assert all(abs(found.get(row[:2], 0) - row[2]) <= 14 for row in truth)
    for tables, why in (
        ([f"{tmp_path}/stay.parquet", "patient"], "is a file, and keys are declared between tables and views"),
        (["patient", "visit"], "are of files and of DuckDB, whose rows no account has in common"),
    ):
        with pytest.raises(mwem_sql.MwemError, match=why):
            mwem_sql.release(con, tables, "stays", 1, rows_per_unit=6, version="x")
    # The files are one account, by whatever view they are asked for.
    con.execute(f"CREATE VIEW again AS FROM '{tmp_path}/dose.parquet'")
    with pytest.raises(mwem_sql.MwemError, match="releases of again that protect one patient and all rows"):
        mwem_sql.budget(con, "again", 10**6)


def test_files_that_are_written_meanwhile(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    con.execute(
        f"""COPY (SELECT pid, sex FROM person) TO '{tmp_path}/patient.parquet';
            COPY (SELECT pid, kind FROM visit) TO '{tmp_path}/stay.parquet';
            CREATE VIEW patient AS FROM '{tmp_path}/patient.parquet';
            CREATE VIEW stay AS FROM '{tmp_path}/stay.parquet';
            CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR,
                refers_columns VARCHAR[]);
            INSERT INTO mwem_keys VALUES ('stay', ['pid'], 'patient', ['pid']);
            CREATE TABLE stay_domain AS SELECT 'kind' AS attribute, ['A', 'B', 'C'] AS "values";
            CREATE TABLE stays AS SELECT 'stay' AS "of", ['kind'] AS group_by"""
    )
    run = InstanceSnapshot.run

    def after_a_write(self: InstanceSnapshot, statement: str, rows: int) -> Any:
        (tmp_path / "stay.parquet").touch()
        return run(self, statement, rows)

    monkeypatch.setattr(InstanceSnapshot, "run", after_a_write)
    with pytest.raises(mwem_sql.MwemError, match="replaced or written to while they were read"):
        mwem_sql.release(con, ["stay", "patient"], "stays", 1, rows_per_unit=6)


def test_rows_per_unit_for_all_and_by_table_are_one_request(con: duckdb.DuckDBPyConnection) -> None:
    """Whatever says how many rows are used of each table, once stored and before it is; also when tables are gone."""

    def again(tables: list[str], most: object, **options: Any) -> list[bool]:
        made = mwem_sql.release(con, tables, "workload", 1, rows_per_unit=most, **options)
        return [one.reused for one in made]

    by_name = {"DRUG": 4, "visit": "4"}
    assert again(TABLES, 4) == [False] * 3
    assert again(TABLES, by_name) == again(["drug", "person", "main.visit"], 4.0) == [True] * 3
    with pytest.raises(mwem_sql.OutputError, match=r"another request.*rows_per_unit \(.*drug: 4.*now .*drug: 5"):
        again(TABLES, {"visit": 4, "drug": 5})
    with pytest.raises(mwem_sql.OutputError, match="another request"):
        again(TABLES, 5)
    assert again(TABLES, by_name, version="2") == [False] * 3 and again(TABLES, 4, version="2") == [True] * 3
    con.execute("DROP TABLE drug; DROP TABLE visit; DROP TABLE person")
    assert again(TABLES, by_name, version="2") == again(TABLES, 4) == again(TABLES, 4, version="2") == [True] * 3
    assert mwem_sql.ledger(con).num_rows == 2


def test_a_request_that_failed_is_the_same_by_both_spellings(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise duckdb.IOException("broken")

    monkeypatch.setattr(Kernel, "certify", broken)
    with pytest.raises(duckdb.Error):
        mwem_sql.release(con, TABLES, "workload", 1, rows_per_unit=4)
    monkeypatch.undo()
    mwem_sql.release(con, TABLES, "workload", 1, rows_per_unit={"visit": 4, "drug": 4})
    assert con.execute("SELECT status FROM mwem.ledger").fetchall() == [("done",)]
