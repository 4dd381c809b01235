"""Files that keys connect are one account, whatever a request names, and a cap on one is the cap of all."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import mwem_sql
from mwem_sql.accounting.caps import Charge
from mwem_sql.boundary.levels import read_levels
from mwem_sql.errors import BudgetError, MwemError, OptionError
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases.levels import ledger_of

TABLES = ["person", "visit"]


def written(con: duckdb.DuckDBPyConnection, folder: Path, more: int = 0) -> None:
    """Persons, visits and drugs as files."""
    con.execute(
        f"""COPY (SELECT i AS pid, i % 2 = 0 AS old FROM range({60 + more}) t(i)) TO '{folder}/person.parquet';
            COPY (SELECT i AS vid, i % 50 AS pid, i % 3 = 0 AS home FROM range(90) t(i)) TO '{folder}/visit.parquet';
            COPY (SELECT i % 50 AS pid, i % 90 AS vid, true AS strong FROM range(99) t(i)) TO '{folder}/drug.parquet'"""
    )


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with mwem_sql.connect(tmp_path / "home.duckdb") as con:
        written(con, tmp_path)
        for name in ("person", "visit", "drug"):
            con.execute(f"CREATE VIEW {name} AS FROM '{tmp_path}/{name}.parquet'")
        con.execute(
            """CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR,
                   refers_columns VARCHAR[]);
               INSERT INTO mwem_keys VALUES ('visit', ['pid'], 'person', ['pid']),
                   ('drug', ['pid', 'vid'], 'visit', ['pid', 'vid']);
               CREATE TABLE workload AS SELECT unnest(['old', 'home']) AS predicate"""
        )
        yield con


def release(con: duckdb.DuckDBPyConnection, epsilon: float = 1, tables: Any = TABLES, **options: Any) -> Any:
    release.number += 1  # type: ignore[attr-defined]
    options = {"rows_per_unit": 2, "version": str(release.number), **options}  # type: ignore[attr-defined]
    return mwem_sql.release(con, tables, "workload", epsilon, **options)


release.number = 0  # type: ignore[attr-defined]


def spent(con: duckdb.DuckDBPyConnection) -> list[float]:
    return [row["epsilon"] for row in mwem_sql.ledger(con).to_pylist() if row["action"] == "mwem_release"]


def test_a_cap_holds_for_all_that_leads_to_a_unit(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    (cap,) = mwem_sql.budget(con, "person", 3, unit="PERSON").to_pylist()
    assert (cap["unit"], cap["rows_per_unit"], cap["epsilon_left"]) == ("person", None, 3)
    release(con, 2)
    with pytest.raises(BudgetError, match=r"epsilon \(1.5, delta 0\) does not fit the cap on person: 1 of 3 is left"):
        release(con, 1.5)
    release(con, 0.25)
    # The same rows, by whatever view, path, schema or folder; in the call or not.
    con.execute(
        f"""CREATE SCHEMA other; CREATE VIEW other.drugs AS SELECT strong FROM '{tmp_path}/drug.parquet';
            CREATE VIEW women AS SELECT * FROM person WHERE NOT old; CREATE VIEW visits AS FROM visit"""
    )
    (tmp_path / "link.parquet").symlink_to(tmp_path / "visit.parquet")
    for table in ("person", "visit", "drug", "women", "other.drugs", f"{tmp_path}/link.parquet"):
        asked = mwem_sql.Workload.from_predicates(["true"])
        with pytest.raises(MwemError, match=r"cannot be counted under the cap|asks about no column|no public domain"):
            mwem_sql.release(con, table, asked, 0.1, output="o")
        stated = mwem_sql.budget(con, table, 9, unit="person") if table == "person" else None
        assert stated is None or stated.to_pylist()[0]["epsilon_spent"] == 2.25
    assert spent(con) == [2, 0.25]


def test_a_cap_for_rows_of_one_file_cannot_count_units(con: duckdb.DuckDBPyConnection) -> None:
    mwem_sql.budget(con, "drug", 3)
    with pytest.raises(BudgetError, match="the cap on person is for one row, and a release of several tables") as said:
        release(con)
    hint = str(said.value).rpartition("CALL ")[2].replace("epsilon", "3")
    assert hint == "mwem_budget('person', 3, unit := 'person')"
    con.execute(f"CALL {hint}").fetchall()
    release(con)
    assert spent(con) == [1]


def test_what_was_released_before_the_cap_counts(con: duckdb.DuckDBPyConnection) -> None:
    release(con, 2)
    with pytest.raises(BudgetError, match=r"a cap for one row cannot count releases of .* that protect one person"):
        mwem_sql.budget(con, "drug", 3)
    assert mwem_sql.budget(con, "person", 3, unit="person")["epsilon_spent"].to_pylist() == [2]
    with pytest.raises(BudgetError, match="1 of 3 is left"):
        release(con, 2)


def test_accounts_that_keys_come_to_connect_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE keys AS FROM mwem_keys; DELETE FROM mwem_keys")
    for name in ("person", "visit"):
        mwem_sql.budget(con, name, 3)
    con.execute("INSERT INTO mwem_keys FROM keys")
    with pytest.raises(BudgetError, match="is connected by keys with visit, drug, and together they have 2 accounts"):
        mwem_sql.budget(con, "person", 3, unit="person")


def test_the_unit_is_its_files(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Whatever the view is called; a file that is added is of the unit, too. Another root is another unit."""
    con.execute(
        f"""CREATE OR REPLACE VIEW person AS SELECT * FROM read_parquet('{tmp_path}/person*.parquet');
            CREATE TABLE one AS SELECT 'home' AS predicate"""
    )
    mwem_sql.budget(con, "person", 3, unit="person")
    con.execute(
        f"""COPY (SELECT 100 + i AS pid, true AS old FROM range(9) t(i)) TO '{tmp_path}/person2.parquet';
            CREATE VIEW human AS SELECT * FROM read_parquet('{tmp_path}/person*.parquet'); DROP VIEW person;
            UPDATE mwem_keys SET refers_to = 'human' WHERE refers_to = 'person'"""
    )
    human = release(con, 1, ["human", "visit"])[0]
    assert human.warning is None or "no cap" not in human.warning
    # The first file has gone: the second one knows.
    (tmp_path / "person.parquet").unlink()
    with pytest.raises(BudgetError, match="2 of 3 is left"):
        release(con, 2.5, ["human", "visit"])
    rows = [{"predicate": "home", "of": "visit"}, {"predicate": "strong", "of": "drug"}]
    workload = mwem_sql.Workload.from_rows(rows)
    with pytest.raises(BudgetError, match="is for one person and all rows that lead to it, and a release of several"):
        mwem_sql.release(con, ["visit", "drug"], workload, 0.1, rows_per_unit=2, version="root")


def test_a_root_that_was_replaced(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """By a new file: the path tells. By another root's file: the curator confirms."""
    mwem_sql.budget(con, "person", 3, unit="person")
    release(con)
    (tmp_path / "person.parquet").unlink()
    written(con, tmp_path, 5)
    release(con)
    assert mwem_sql.ledger(con)["epsilon_left"].to_pylist()[-1] == 1
    with pytest.raises(BudgetError, match="1 of 3 is left"):
        release(con, 2)


def test_files_that_are_units_of_two_tables_are_refused(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """The curator decides for one file that was replaced: its path tells then."""
    mwem_sql.budget(con, "person", 3, unit="person")
    mwem_sql.budget(con, "visit", 3, unit="visit")
    listed = ", ".join(f"'{tmp_path}/{name}.parquet'" for name in TABLES)
    con.execute(f"CREATE OR REPLACE VIEW person AS SELECT pid FROM read_parquet([{listed}], union_by_name := true)")
    with pytest.raises(BudgetError, match=r"has files whose rows are units of 2 tables.*the curator confirms"):
        mwem_sql.budget(con, "person", 3, unit="person")


def test_the_unit_is_named_where_it_can_be(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """A cap is set on the unit itself; a column of that name comes first, and has no cap of files."""
    cure = r"a cap per row of a table is set on that table: CALL mwem_budget\('person', epsilon, unit := 'person'\)"
    with pytest.raises(OptionError, match=f"unit .'person'. is not a column of visit.*{cure}"):
        mwem_sql.budget(con, "visit", 3, unit="person")
    with pytest.raises(OptionError, match=r"rows_per_unit \(2\) is not for a cap per row of person"):
        mwem_sql.budget(con, "person", 3, unit="person", rows_per_unit=2)
    con.execute(
        "CREATE OR REPLACE VIEW person AS SELECT *, pid AS person FROM 'person.parquet'".replace("'p", f"'{tmp_path}/p")
    )
    with pytest.raises(OptionError, match=r"unit \('person'\) is computed by a view"):
        mwem_sql.budget(con, "person", 3, unit="person")
    assert spent(con) == []


class Curator:
    """Views of three files under a cap, what is done to them, and what was released of them."""

    def __init__(self, chance: random.Random, con: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.chance, self.con, self.folder, self.number = chance, con, folder, 0
        self.views = {name: name for name in ("person", "visit", "drug")}
        self.paths = {name: [folder / f"{name}.parquet"] for name in self.views}
        self.met = Counter[str]()
        self.spent = Fraction(0)

    def fresh(self, start: str) -> str:
        self.number += 1
        return f"{start}_{self.number}"

    def made(self, kind: str) -> None:
        """The view of a table, anew."""
        listed = ", ".join(f"'{path}'" for path in self.paths[kind])
        self.con.execute(f"CREATE OR REPLACE VIEW {self.views[kind]} AS SELECT * FROM read_parquet([{listed}])")

    def rename(self) -> None:
        kind = self.chance.choice(sorted(self.views))
        old, new = self.views[kind], self.fresh(kind)
        self.con.execute(f"DROP VIEW {old}")
        self.views[kind] = new
        self.made(kind)
        for column in ("table_name", "refers_to"):
            self.con.execute(f"UPDATE mwem_keys SET {column} = '{new}' WHERE {column} = '{old}'")

    def move(self) -> None:
        kind = self.chance.choice(sorted(self.views))
        path = self.folder / f"{self.fresh(kind)}.parquet"
        if self.chance.random() < 0.5:
            self.paths[kind][0].rename(path)
        else:
            path.hardlink_to(self.paths[kind][0])
        self.paths[kind][0] = path
        self.made(kind)

    def add(self) -> None:
        kind = self.chance.choice(sorted(self.views))
        path = self.folder / f"{self.fresh(kind)}.parquet"
        self.con.execute(f"COPY (SELECT * FROM {self.views[kind]} LIMIT 1) TO '{path}'")
        self.paths[kind].append(path)
        self.made(kind)

    def forget(self) -> None:
        """A file that is one of several goes, or a key."""
        kind = self.chance.choice(sorted(self.views))
        if len(self.paths[kind]) > 1:
            self.paths[kind].pop(self.chance.randrange(len(self.paths[kind])))
            self.made(kind)

    def ask(self) -> None:
        tables = [self.views[kind] for kind in ("person", "visit", "drug")[: self.chance.choice([2, 3])]]
        self.chance.shuffle(tables)
        epsilon = self.chance.choice([Fraction(1, 4), Fraction(1, 2), Fraction(2)])
        con, place = self.con.cursor(), Place("home", "main")
        try:
            levels = read_levels(con, tables, place)
            ledger = ledger_of(con, Session.of(self.con), levels)
            charge = Charge(budget=Budget(epsilon), rho=epsilon, unit=levels[0].base.table, rows_per_unit=None)
            ledger.debit(con, charge, "o", action="mwem_release")
        except BudgetError:
            self.met["refused"] += 1
            return
        self.met["released"] += 1
        self.spent += epsilon


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(3, 20))])
def test_whatever_is_done_to_views_and_files_the_cap_holds(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, seed: int
) -> None:
    mwem_sql.budget(con, "person", 2, unit="person")
    curator = Curator(random.Random(seed), con, tmp_path)
    for _ in range(30):
        act = curator.chance.choice([curator.rename, curator.move, curator.add, curator.forget, *[curator.ask] * 3])
        act()
        assert curator.spent <= 2
    assert curator.spent >= Fraction(3, 2) and curator.met["refused"]
