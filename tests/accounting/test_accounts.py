"""Accounts follow rows: whatever DDL does to tables, views and files, what was released about the same rows stays
within their cap.

`pytest -m campaign -n0 -s tests/accounting/test_accounts.py` runs many more sequences.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from shutil import copyfile

import duckdb
import pytest
from chance import sampled
from conftest import Connection, Open

import mwem_sql
from mwem_sql.accounting.caps import Cap, Charge
from mwem_sql.accounting.ledger import Ledger, ledger_of
from mwem_sql.boundary.relations import describe
from mwem_sql.errors import MwemError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import pure_rho
from mwem_sql.platform.catalog import Place
from mwem_sql.scan import execution
from mwem_sql.scan.engines.duckdb import InstanceSnapshot

CAP = Fraction(1)
SHARES = [Fraction(1, 10), Fraction(3, 10), Fraction(1, 2), Fraction(1), Fraction(5)]


class Curator:
    """A file with capped tables, what is done to it, and where the rows of each first table are by now.

    `held` has, for every relation, the first tables whose rows it may hold; `spent` what was released about the rows of
    each.
    """

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self.chance, self.folder = chance, folder
        self.con = duckdb.connect(str(folder / "home.duckdb"))
        self.alias = "home"
        self.tables: dict[str, set[str]] = {}
        self.views: dict[str, str] = {}
        self.spent: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.count = 0
        for _ in range(chance.randrange(1, 4)):
            name = self.fresh("first")
            self.con.execute(f"CREATE TABLE {name} (x BOOLEAN NOT NULL)")
            self.tables[name] = {name}
            if chance.random() < 0.3:
                self.release(name)  # what was released before the cap counts
        self.capped = [name for name in self.tables if self.spent[name] <= CAP]
        for name in self.capped:
            self.account(name).set_cap(self.con.cursor(), Cap(Budget(CAP)))

    def fresh(self, start: str) -> str:
        self.count += 1
        return f"{start}_{self.count}"

    def account(self, name: str):
        text = name if "." in name else f"{self.alias}.main.{name}"
        relation = describe(self.con.cursor(), text, Place(self.alias, "main"), "f")
        return ledger_of(self.con.cursor(), relation, Place(self.alias, "main"), "f")

    def release(self, name: str) -> None:
        """A debit as a release makes it; refused or not, it is the sum that counts."""
        epsilon = self.chance.choice(SHARES)
        try:
            self.account(name).debit(
                self.con.cursor(), Charge(budget=Budget(epsilon), rho=pure_rho(epsilon)), "o", action="mwem_release"
            )
        except MwemError:
            self.met["refused"] += 1
            return
        self.met["released"] += 1
        held = self.tables.get(name)
        for first in held if held is not None else self.tables[self.views[name]]:
            self.spent[first] += epsilon

    def act(self) -> None:
        act = self.chance.choice(
            [
                self.rename,
                self.alter,
                self.swap,
                self.rotate,
                self.copy,
                self.view,
                self.replace,
                self.attach,
                self.restart,
                self.comment,
                *[self.ask] * 8,
            ]
        )
        self.met[act.__name__] += 1
        act()

    def any_table(self) -> str:
        return self.chance.choice(sorted(self.tables))

    def ask(self) -> None:
        self.release(
            self.chance.choice(
                sorted([*self.tables, *(view for view, table in self.views.items() if table in self.tables)])
            )
        )

    def run(self, statement: str) -> None:
        self.con.execute(f"USE {self.alias}.main")
        self.con.execute(statement)

    def rename(self) -> None:
        old, new = self.any_table(), self.fresh("renamed")
        self.run(f"ALTER TABLE {old} RENAME TO {new}")
        self.tables[new] = self.tables.pop(old)
        for view in [view for view, table in self.views.items() if table == old]:
            self.run(f"DROP VIEW {view}")
            del self.views[view]

    def alter(self) -> None:
        self.run(f"ALTER TABLE {self.any_table()} ADD COLUMN {self.fresh('column')} INTEGER")

    def swap(self) -> None:
        one, other = self.any_table(), self.any_table()
        if one != other:
            self.run(
                f"ALTER TABLE {one} RENAME TO interim; ALTER TABLE {other} RENAME TO {one}; ALTER TABLE interim "
                f"RENAME TO {other}"
            )
            self.tables[one], self.tables[other] = self.tables[other], self.tables[one]
            self.views.clear()

    def rotate(self) -> None:
        """The old rows under a new name, and new ones under the old name."""
        name, old = self.any_table(), self.fresh("rotated")
        self.run(f"ALTER TABLE {name} RENAME TO {old}; CREATE TABLE {name} (x BOOLEAN NOT NULL)")
        self.tables[old], self.tables[name] = self.tables[name], set()
        self.views.clear()

    def copy(self) -> None:
        name, new = self.any_table(), self.fresh("copy")
        self.run(f"CREATE TABLE {new} AS SELECT x FROM {name}")
        self.tables[new] = set(self.tables[name])

    def replace(self) -> None:
        """By its own rows, as a nightly job does."""
        name = self.any_table()
        self.run(f"CREATE OR REPLACE TABLE {name} AS SELECT x FROM {name}")

    def view(self) -> None:
        name, view = self.any_table(), self.fresh("view")
        self.run(f"CREATE VIEW {view} AS SELECT x FROM {name} WHERE x")
        self.views[view] = name

    def attach(self) -> None:
        """The same file under another alias."""
        self.con.close()
        self.con = duckdb.connect()
        self.alias = self.fresh("alias")
        self.con.execute(f"ATTACH '{self.folder / 'home.duckdb'}' AS {self.alias}")

    def restart(self) -> None:
        self.con.close()
        self.con, self.alias = duckdb.connect(str(self.folder / "home.duckdb")), "home"

    def comment(self) -> None:
        """A comment of the owner's, beside the account's."""
        name = self.any_table()
        ((before,),) = self.con.execute(
            "SELECT comment FROM duckdb_tables() WHERE table_name = ? AND database_name = ?", [name, self.alias]
        ).fetchall()
        self.run(f"COMMENT ON TABLE {name} IS 'seen {self.count}. {before or ''}'")


class Files:
    """Parquet files, and a DuckDB file that is only read, under caps in the curator's database; what is done to them,
    and by which ways they are asked for.

    `held` has, for every path, the first sources whose rows it may hold: each Parquet file is one, and all tables of
    the DuckDB file are.
    """

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self.chance, self.folder, self.count = chance, folder, 0
        self.con = mwem_sql.connect(str(folder / "curator.duckdb"))
        self.held: dict[Path, set[str]] = {}
        self.spent: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        # Whether a DuckDB file was attached to be written: from then on its ledger is inside, and a copy of the file is
        # a copy of the ledger.
        self.has_ledger = False
        for _ in range(chance.randrange(1, 4)):
            path = self.fresh("first", ".parquet")
            self.con.execute(f"COPY (SELECT true AS x) TO '{path}'")
            self.held[path] = {path.name}
        self.database = self.fresh("first", ".duckdb")
        self.tables = ["t1", "t2"]
        with duckdb.connect(str(self.database)) as there:
            there.execute("CREATE TABLE t1 AS SELECT true AS x; CREATE TABLE t2 AS SELECT true AS x")
        self.held[self.database] = {self.database.name}
        self.capped = [path.name for path in self.held]
        for path in list(self.held):
            self.asked_for(path, lambda ledger: ledger.set_cap(self.con.cursor(), Cap(Budget(CAP))))

    def fresh(self, start: str, ending: str) -> Path:
        self.count += 1
        return self.folder / f"{start}_{self.count}{ending}"

    def asked_for(self, path: Path, act: Callable[[Ledger], object]) -> None:
        """Do something with the ledger of what is in a file, by one of the ways that it can be reached."""
        here = Place("curator", "main")
        if path.suffix == ".parquet":
            if self.chance.random() < 0.5:
                text = str(path)
            else:
                text = self.fresh("view", "").name
                self.con.execute(f"CREATE VIEW {text} AS SELECT NOT x AS x FROM read_parquet('{path}')")
            act(ledger_of(self.con.cursor(), describe(self.con.cursor(), text, here, "f"), here, "f"))
            return
        way = self.chance.choice(["source", "read only", "writable"])
        self.has_ledger |= way == "writable"
        if way == "source":
            self.con.execute("CALL mwem_attach('w', ?)", [str(path)]).fetchall()
        else:
            self.con.execute(f"ATTACH '{path}' AS w{' (READ_ONLY)' if way == 'read only' else ''}")
        try:
            text = f"w.main.{self.chance.choice(self.tables)}"
            act(ledger_of(self.con.cursor(), describe(self.con.cursor(), text, here, "f"), here, "f"))
        finally:
            self.con.execute("CALL mwem_detach('w')" if way == "source" else "DETACH w").fetchall()

    def ask(self) -> None:
        path, epsilon = self.some(), self.chance.choice(SHARES)
        charge = Charge(budget=Budget(epsilon), rho=pure_rho(epsilon))
        try:
            self.asked_for(path, lambda ledger: ledger.debit(self.con.cursor(), charge, "o", action="mwem_release"))
        except MwemError:
            self.met["refused"] += 1
            return
        self.met["released"] += 1
        for first in self.rows(path):
            self.spent[first] += epsilon

    def rows(self, path: Path) -> set[str]:
        """The first sources whose rows a path leads to: through a link, those of what is at its end by now."""
        return self.held[path.resolve()]

    def act(self) -> None:
        act = self.chance.choice(
            [self.move, self.exchange, self.link, self.rewrite, self.copy, self.inside, *[self.ask] * 8]
        )
        self.met[act.__name__] += 1
        act()

    def some(self, suffix: str = "") -> Path:
        """A path that is there: that of a link is not, once its file has moved."""
        return self.chance.choice(sorted(path for path in self.held if path.suffix.endswith(suffix) and path.exists()))

    def move(self) -> None:
        old = self.some()
        new = self.fresh("moved", old.suffix)
        old.rename(new)
        self.held[new] = self.held.pop(old)

    def exchange(self) -> None:
        one = self.some()
        other = self.some(one.suffix)
        if one != other:
            for old, new in ((one, self.folder / "interim"), (other, one), (self.folder / "interim", other)):
                old.rename(new)
            self.held[one], self.held[other] = self.held[other], self.held[one]

    def link(self) -> None:
        path = self.some()
        new = self.fresh("link", path.suffix)
        getattr(new, self.chance.choice(["symlink_to", "hardlink_to"]))(path.resolve())
        self.held[new] = self.rows(path)  # the same set: it is the same file

    def rewrite(self) -> None:
        """By its own rows, as a nightly job does: another file takes its name."""
        path = self.some("parquet")
        new = self.fresh("interim", ".parquet")
        copyfile(path, new)
        held = set(self.rows(path))
        new.rename(path)
        self.held[path] = held

    def copy(self) -> None:
        """Not of a DuckDB file with its ledger: docs/privacy.md says that two such files count apart unless both are
        attached."""
        path = self.some("parquet" if self.has_ledger else "")
        new = self.fresh("copy", path.suffix)
        copyfile(path, new)
        self.held[new] = set(self.rows(path))

    def inside(self) -> None:
        """Names of tables in the DuckDB file."""
        change = "ALTER TABLE t1 RENAME TO x; ALTER TABLE t2 RENAME TO t1; ALTER TABLE x RENAME TO t2"
        with duckdb.connect(str(self.some("duckdb"))) as there:
            there.execute(self.chance.choice([change, "CREATE OR REPLACE TABLE t2 AS FROM t1"]))


@pytest.mark.parametrize(
    ("kind", "sequences", "steps"),
    [
        (Curator, 3, 20),
        (Files, 2, 20),
        pytest.param(Curator, 8, 25, marks=pytest.mark.thorough),
        pytest.param(Files, 6, 25, marks=pytest.mark.thorough),
        pytest.param(Curator, 600, 60, marks=pytest.mark.campaign),
        pytest.param(Files, 400, 60, marks=pytest.mark.campaign),
    ],
)
def test_what_is_released_about_the_same_rows_stays_within_their_cap(
    kind: type[Curator | Files], sequences: int, steps: int, tmp_path: Path
) -> None:
    met: Counter[str] = Counter()
    for seed in range(sequences):
        folder = tmp_path / str(seed)
        folder.mkdir()
        curator = kind(random.Random(seed), folder)
        for _ in range(steps):
            curator.act()
            for first in curator.capped:
                assert curator.spent[first] <= CAP, (seed, first, curator.met)
        met += curator.met
        met["full"] += sum(curator.spent[first] == CAP for first in curator.capped)
        curator.con.close()
    print(f"\n{sequences} sequences of {steps} steps: {dict(met)}")
    assert met["released"] > sequences
    assert met["refused"] > sequences
    assert met["full"] > sequences / 4  # caps are reached, not only kept


def test_a_copied_file_has_no_budget_of_its_own_beside_the_first(connect: Open, tmp_path: Path) -> None:
    first = connect(tmp_path / "a.duckdb")
    first.execute("CREATE TABLE t AS SELECT true AS x; CREATE TABLE w AS SELECT 'x' AS predicate")
    first.execute("CALL mwem_budget('t', 1)").fetchall()
    first.execute("CHECKPOINT")
    first.close()
    copyfile(tmp_path / "a.duckdb", tmp_path / "b.duckdb")
    con = connect(tmp_path / "a.duckdb")
    con.execute(f"ATTACH '{tmp_path / 'b.duckdb'}' AS b")
    for table in ("t", "b.main.t"):
        with pytest.raises(
            duckdb.Error,
            match=r"has its account in database [ab], too: one file is a copy of the other\. Hint: DETACH the copy",
        ):
            con.execute(f"CALL mwem_release('{table}', w, 1, rows := 5, output := 'a.main.o')")
    con.execute("DETACH b; CALL mwem_release('t', w, 1, rows := 5)").fetchall()


def moved_file(con: Connection, folder: Path, statement: str) -> None:
    con.execute(statement.replace("FOLDER", str(folder)))


def test_a_replaced_table_is_known_by_its_name_while_there_is_one_cap(con: Connection) -> None:
    con.execute(
        "CREATE TABLE jan AS SELECT true AS x; CREATE TABLE feb AS SELECT true AS x; CREATE TABLE w AS SELECT 'x' AS "
        "predicate"
    )
    call = "CALL mwem_release('{}', w, {}, rows := 5, output := '{}')"
    con.execute("CALL mwem_budget('jan', 1)").fetchall()
    con.execute("CREATE OR REPLACE TABLE jan AS SELECT false AS x")
    con.execute(call.format("jan", 0.9, "a")).fetchall()
    con.execute("CALL mwem_budget('feb', 1)").fetchall()
    con.execute("ALTER TABLE feb RENAME TO march; CREATE TABLE feb AS FROM jan")  # January's rows under February's name
    wanted = (
        r"table \(memory\.main\.feb\) was replaced, and 2 tables have caps, so that its rows may be another's\. Hint: "
        r"have the curator confirm: CALL mwem_budget\('feb', 1\)"
    )
    with pytest.raises(duckdb.Error, match=wanted):
        con.execute(call.format("feb", 0.5, "b"))
    con.execute(call.format("march", 0.5, "b")).fetchall()
    con.execute("CALL mwem_budget('feb', 1)").fetchall()
    with pytest.raises(duckdb.Error, match=r"0\.5 of 1 is left"):
        con.execute(call.format("feb", 0.6, "c"))


@pytest.fixture
def shared(connect: Open, tmp_path: Path) -> Connection:
    """Parquet files under a cap, read by the view `people`."""
    con = connect(tmp_path / "a.duckdb")
    for name in ("one", "two", "three"):
        con.execute(f"COPY (SELECT i % 2 = 0 AS x FROM range(40) t(i)) TO '{tmp_path / name}.parquet'")
    con.execute(
        f"CREATE VIEW people AS SELECT x FROM read_parquet(['{tmp_path}/one.parquet', '{tmp_path}/two.parquet']); "
        f"CREATE TABLE w AS SELECT 'x' AS predicate"
    )
    con.execute("CALL mwem_budget('people', 1)").fetchall()
    con.execute("CALL mwem_release('people', w, 0.8, rows := 5)").fetchall()
    return con


@pytest.mark.parametrize(
    "change",
    sampled(
        [
            "CREATE VIEW v AS FROM 'FOLDER/one.parquet'",
            "CREATE VIEW v AS SELECT NOT x AS x FROM read_parquet('FOLDER/t*.parquet')",
            "CREATE VIEW inner_view AS FROM 'FOLDER/two.parquet'; CREATE VIEW v AS FROM inner_view",
            "ALTER VIEW people RENAME TO v",
            "ATTACH ':memory:' AS b; CREATE VIEW b.v AS FROM 'FOLDER/one.parquet'; USE b; USE a",
        ],
        2,
    ),
)
def test_files_have_one_account_whatever_reads_them(shared: Connection, tmp_path: Path, change: str) -> None:
    moved_file(shared, tmp_path, change)
    asked = "b.main.v" if "b.v" in change else "v"
    with pytest.raises(duckdb.Error, match=r"does not fit the cap on \w+: 0\.2 of 1 is left"):
        shared.execute(f"CALL mwem_release('{asked}', w, 0.5, rows := 5, output := 'a.main.o')")
    shared.execute(f"CALL mwem_release('{asked}', w, 0.2, rows := 5, output := 'a.main.o')").fetchall()


@pytest.mark.parametrize("link", sampled(["hardlink_to", "symlink_to", "rename"], 1))
def test_a_file_is_one_account_under_another_name(shared: Connection, tmp_path: Path, link: str) -> None:
    if link == "rename":
        (tmp_path / "one.parquet").rename(tmp_path / "again.parquet")
    else:
        getattr(tmp_path / "again.parquet", link)(tmp_path / "one.parquet")
    with pytest.raises(duckdb.Error, match=r"0\.2 of 1 is left"):
        shared.execute(f"CALL mwem_release('{tmp_path}/again.parquet', w, 0.5, rows := 5, output := 'o')")


def test_files_that_exchange_their_names_are_refused_until_the_curator_confirms(
    shared: Connection, tmp_path: Path
) -> None:
    """The path says one account, the inode another: which rows are in it, nobody can tell."""
    moved_file(shared, tmp_path, "CREATE VIEW third AS FROM 'FOLDER/three.parquet'")
    shared.execute("CALL mwem_budget('third', 1)").fetchall()
    for old, new in (("one", "x"), ("three", "one"), ("x", "three")):
        (tmp_path / f"{old}.parquet").rename(tmp_path / f"{new}.parquet")
    call = "CALL mwem_release('third', w, 0.5, rows := 5, output := 'o')"
    with pytest.raises(duckdb.Error, match=r"table \(a\.main\.third\) reads rows of 2 accounts"):
        shared.execute(call)
    shared.execute("CALL mwem_budget('third', 1)").fetchall()
    shared.execute(call).fetchall()
    assert shared.execute("SELECT DISTINCT intact FROM mwem_ledger()").fetchall() == [(True,)]


def test_a_view_under_the_same_name_keeps_its_account_over_new_files(shared: Connection, tmp_path: Path) -> None:
    moved_file(shared, tmp_path, "CREATE OR REPLACE VIEW people AS FROM 'FOLDER/three.parquet'")
    with pytest.raises(duckdb.Error, match=r"0\.2 of 1 is left"):
        shared.execute("CALL mwem_release('people', w, 0.5, rows := 5, output := 'o')")


def test_files_of_two_accounts_are_not_read_together(shared: Connection, tmp_path: Path) -> None:
    moved_file(
        shared,
        tmp_path,
        "CREATE VIEW third AS FROM 'FOLDER/three.parquet'; CREATE VIEW all_of_them AS FROM 'FOLDER/*.parquet'",
    )
    with pytest.raises(duckdb.Error, match=r"table \(a\.main\.third\) has no cap, and database a has tables with one"):
        shared.execute("CALL mwem_release('third', w, 0.5, rows := 5)")
    shared.execute("CALL mwem_budget('third', 1)").fetchall()
    shared.execute("CALL mwem_release('third', w, 0.5, rows := 5)").fetchall()
    with pytest.raises(duckdb.Error, match=r"table \(a\.main\.all_of_them\) reads rows of 2 accounts"):
        shared.execute("CALL mwem_release('all_of_them', w, 0.1, rows := 5)")


@pytest.mark.parametrize("write", sampled(["table", "file", "account"], 1))
def test_rows_that_change_while_they_are_read_are_not_released(
    connect: Open, tmp_path: Path, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the debit and the scans a table is swapped with another, or a file is written to."""
    con = connect(tmp_path / "a.duckdb")
    con.execute(
        "CREATE TABLE w AS SELECT 'x' AS predicate; CREATE TABLE people (x BOOLEAN NOT NULL); CREATE TABLE others (x "
        "BOOLEAN NOT NULL)"
    )
    con.execute(f"COPY (SELECT true AS x) TO '{tmp_path}/p.parquet'; CREATE VIEW files AS FROM '{tmp_path}/p.parquet'")
    con.execute("CALL mwem_release('others', w, 1, rows := 5)").fetchall()
    acts: dict[str, Callable[[], object]] = {
        "table": lambda: con.cursor().execute("ALTER TABLE people ADD COLUMN more INTEGER"),
        "account": lambda: con.cursor().execute(
            "ALTER TABLE people RENAME TO gone; ALTER TABLE others RENAME TO people"
        ),
        "file": lambda: con.cursor().execute(f"COPY (SELECT false AS x FROM range(9)) TO '{tmp_path}/p.parquet'"),
    }
    run, answers, done = InstanceSnapshot.run, execution.true_answers, []

    def first(*given, **options):
        acts[write]()
        return answers(*given, **options)

    def once(*given):
        if not done:
            done.append(acts[write]())
        return run(*given)

    if write == "file":
        monkeypatch.setattr(InstanceSnapshot, "run", once)
    else:
        monkeypatch.setattr(execution, "true_answers", first)
    table = "files" if write == "file" else "people"
    with pytest.raises(
        duckdb.Error,
        match=r"engine: the private table or its files were replaced or written to while they were read\. Hint: "
        r"call again when nobody writes",
    ):
        con.execute(f"CALL mwem_release('{table}', w, 1, rows := 5)")
    assert con.execute("SELECT status FROM mwem_ledger() WHERE table_name = ?", [table]).fetchall() == [("failed",)]


@pytest.fixture
def tree(connect: Open, tmp_path: Path) -> Connection:
    """Tables that keys connect, and a public one."""
    con = connect(tmp_path / "a.duckdb")
    con.execute("""
        CREATE TABLE household (hid INTEGER PRIMARY KEY, x BOOLEAN NOT NULL);
        CREATE TABLE person (pid INTEGER PRIMARY KEY, hid INTEGER REFERENCES household, x BOOLEAN NOT NULL);
        CREATE TABLE visit (pid INTEGER REFERENCES person, code INTEGER, x BOOLEAN NOT NULL);
        CREATE TABLE rx (pid INTEGER REFERENCES person, x BOOLEAN NOT NULL);
        CREATE TABLE icd (code INTEGER PRIMARY KEY, y BOOLEAN NOT NULL);
        INSERT INTO household SELECT i, true FROM range(5) t(i);
        INSERT INTO person SELECT i, i % 5, i % 2 = 0 FROM range(20) t(i);
        INSERT INTO visit SELECT i % 20, i % 3, i % 2 = 0 FROM range(60) t(i);
        INSERT INTO rx SELECT i % 20, i % 2 = 0 FROM range(60) t(i);
        INSERT INTO icd SELECT i, i > 1 FROM range(3) t(i);
        CREATE VIEW stay AS SELECT v.x, p.x AS y FROM visit v JOIN person p USING (pid);
        CREATE VIEW coded AS SELECT v.x, y FROM visit v JOIN icd USING (code);
        CREATE TABLE w AS SELECT 'x' AS predicate
    """)
    return con


BY_PERSON = "unit := 'person', rows_per_unit := 3, rows := 5"


@pytest.mark.parametrize("name", ["visit", "stay", "rx", "person"])
def test_a_cap_on_a_table_is_that_of_all_that_lead_to_it(tree: Connection, name: str) -> None:
    """Whatever is named, before the cap and after it."""
    tree.execute(f"CALL mwem_release('visit', w, 0.3, {BY_PERSON}, output := 'before')").fetchall()
    cap = tree.execute("SELECT epsilon_spent FROM mwem_budget('person', 1, unit := 'person')").fetchall()
    assert cap == [(0.3,)]
    tree.execute(f"CALL mwem_release('{name}', w, 0.5, {BY_PERSON}, output := 'after')").fetchall()
    for other in ("visit", "stay", "rx", "person"):
        with pytest.raises(duckdb.Error, match=r"does not fit the cap on \w+: 0\.2 of 1 is left"):
            tree.execute(f"CALL mwem_release('{other}', w, 0.3, {BY_PERSON}, output := 'o')")
    for other, options in (("rx", "rows := 5"), ("household", "rows := 5"), ("rx", BY_PERSON.replace("person", "pid"))):
        with pytest.raises(duckdb.Error, match="cannot be counted under the cap"):
            tree.execute(f"CALL mwem_release('{other}', w, 0.1, {options}, output := 'o')")
    with pytest.raises(duckdb.Error, match="a cap for one row cannot count releases of rx"):
        tree.execute("CALL mwem_budget('rx', 1)")


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE visit RENAME TO v2; CREATE VIEW visit AS FROM v2",
        "CREATE OR REPLACE TABLE visit (pid INTEGER REFERENCES person, code INTEGER, x BOOLEAN NOT NULL)",
        "CREATE TABLE new (pid INTEGER REFERENCES person, x BOOLEAN NOT NULL); CREATE VIEW visit2 AS FROM new",
    ],
)
def test_tables_that_come_to_lead_to_a_capped_one_are_of_its_account(tree: Connection, change: str) -> None:
    tree.execute("CALL mwem_budget('person', 1, unit := 'person')").fetchall()
    tree.execute(f"CALL mwem_release('visit', w, 0.8, {BY_PERSON}, output := 'before')").fetchall()
    tree.execute("DROP VIEW stay; DROP VIEW coded")
    tree.execute(change)
    name = "visit2" if "visit2" in change else "visit"
    with pytest.raises(duckdb.Error, match=r"0\.2 of 1 is left"):
        tree.execute(f"CALL mwem_release('{name}', w, 0.3, {BY_PERSON}, output := 'o')")


def test_accounts_that_keys_connect_later_are_refused(tree: Connection) -> None:
    """Neither could count what the other has spent."""
    tree.execute("CREATE TABLE notes (pid INTEGER, x BOOLEAN NOT NULL)")
    tree.execute("CALL mwem_release('notes', w, 0.5, rows := 5)").fetchall()
    tree.execute(f"CALL mwem_release('visit', w, 0.5, {BY_PERSON})").fetchall()
    tree.execute(
        "CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, refers_columns VARCHAR[]);"
        "INSERT INTO mwem_keys VALUES ('notes', ['pid'], 'person', ['pid'])"
    )
    for call in (f"mwem_release('rx', w, 0.5, {BY_PERSON})", "mwem_budget('person', 3, unit := 'person')"):
        with pytest.raises(
            duckdb.Error, match=r"is connected by keys with .*notes.*, and together they have 2 accounts"
        ):
            tree.execute(f"CALL {call}")


def test_public_is_what_the_ledger_says(tree: Connection) -> None:
    """A comment alone is nobody's word; and what is charged is public no more."""
    with pytest.raises(duckdb.Error, match="no FOREIGN KEY leads along"):
        tree.execute("CALL mwem_release('coded', w, 0.5, rows := 5)")
    tree.execute("COMMENT ON TABLE icd IS '[mwem public 0123456789abcdef]'")
    with pytest.raises(duckdb.Error, match="whose comment says that it is public, and no ledger does"):
        tree.execute("CALL mwem_release('coded', w, 0.5, rows := 5)")
    tree.execute("CALL mwem_public('icd'); COMMENT ON COLUMN icd.code IS 'ICD-10'")
    tree.execute("CALL mwem_release('coded', w, 0.5, rows := 5)").fetchall()
    tree.execute("CREATE TABLE wy AS SELECT 'y' AS predicate; CALL mwem_release('icd', wy, 0.5, rows := 5)")
    with pytest.raises(duckdb.Error, match="no FOREIGN KEY leads along"):
        tree.execute("CALL mwem_release('coded', w, 0.5, rows := 5, output := 'o')")


@pytest.mark.parametrize("change", ["public", "key"])
def test_keys_that_change_while_rows_are_read_are_noticed(
    tree: Connection, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the debit and the scans."""
    acts = {
        "public": "COMMENT ON TABLE icd IS NULL",
        "key": "CREATE TABLE mwem_keys (table_name VARCHAR, columns VARCHAR[], refers_to VARCHAR, refers_columns "
        "VARCHAR[]); INSERT INTO mwem_keys VALUES ('visit', ['code'], 'household', ['hid'])",
    }
    tree.execute("CALL mwem_public('icd')").fetchall()
    answers = execution.true_answers

    def first(*given, **options):
        tree.cursor().execute(acts[change])
        return answers(*given, **options)

    monkeypatch.setattr(execution, "true_answers", first)
    asked = "'coded', w, 1, rows := 5" if change == "public" else f"'stay', w, 1, {BY_PERSON}"
    with pytest.raises(duckdb.Error, match="engine: the private table"):
        tree.execute(f"CALL mwem_release({asked})")
    assert tree.execute("SELECT status FROM mwem_ledger() WHERE epsilon > 0").fetchall() == [("failed",)]
