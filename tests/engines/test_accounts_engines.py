"""Accounts follow rows on servers: whatever DDL does there, releases of the same rows stay within their cap.

`pytest -m "engines and campaign" -n0 -s tests/engines/test_accounts_engines.py` runs many more sequences.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from servers import superuser

import mwem_sql
from mwem_sql.accounting.caps import Cap, Charge
from mwem_sql.accounting.ledger import Ledger, ledger_of
from mwem_sql.boundary.relations import describe
from mwem_sql.errors import MwemError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.scales import pure_rho
from mwem_sql.platform.catalog import Place

pytestmark = pytest.mark.engines

CAP = Fraction(1)
SHARES = [Fraction(1, 10), Fraction(3, 10), Fraction(1, 2), Fraction(1), Fraction(5)]


class Sequence:
    """Tables of a server under caps, and what was spent about the rows of each first one.

    `reads` says which first tables' rows a name shows by now.
    """

    def __init__(self, chance: random.Random, source: object) -> None:
        self.chance, self.count = chance, 0
        self.con = mwem_sql.connect()
        mwem_sql.attach(self.con, "w", source)
        self.spent: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.firsts = [self.first() for _ in range(2)]
        for name in self.firsts:
            self.ledger(name).set_cap(self.con.cursor(), Cap(Budget(CAP)))

    def first(self) -> str:
        raise NotImplementedError

    def acts(self) -> list[Callable[[], object]]:
        raise NotImplementedError

    def names(self) -> list[str]:
        raise NotImplementedError

    def reads(self, name: str) -> set[str]:
        raise NotImplementedError

    def fresh(self, start: str) -> str:
        self.count += 1
        return f"{start}_{self.count}"

    def ledger(self, name: str) -> Ledger:
        here = Place("memory", "main")
        return ledger_of(self.con.cursor(), describe(self.con.cursor(), f"w.{name}", here, "f"), here, "f")

    def ask(self) -> None:
        name, epsilon = self.chance.choice(self.names()), self.chance.choice(SHARES)
        try:
            charge = Charge(budget=Budget(epsilon), rho=pure_rho(epsilon))
            self.ledger(name).debit(self.con.cursor(), charge, "o", action="mwem_release")
        except MwemError:
            self.met["refused"] += 1
            return
        self.met["released"] += 1
        for first in self.reads(name):
            self.spent[first] += epsilon

    def run(self, steps: int) -> Counter[str]:
        for _ in range(steps):
            act = self.chance.choice([*self.acts(), *[self.ask] * 2 * len(self.acts())])
            self.met[act.__name__] += 1
            act()
            for first in self.firsts:
                assert self.spent[first] <= CAP, (first, self.met)
        self.met["full"] = sum(self.spent[first] == CAP for first in self.firsts)
        self.con.close()
        return self.met


class PostgreSQLSequence(Sequence):
    """Renames, exchanges, copies, views, inheritance by one and two parents, partitions, other schemas."""

    def __init__(self, chance: random.Random, port: int, cursor: Any) -> None:
        self.cursor = cursor
        self.held: dict[str, set[str]] = {}
        self.below: dict[str, set[str]] = {}
        self.views: dict[str, str] = {}
        cursor.execute("DROP SCHEMA IF EXISTS a CASCADE")
        cursor.execute("CREATE SCHEMA a")
        super().__init__(chance, f"postgresql://postgres@127.0.0.1:{port}/postgres")

    def first(self) -> str:
        name = self.made("first")
        self.held[name] = {name}
        return name

    def made(self, start: str, body: str = "(x boolean NOT NULL)") -> str:
        name = f"a.{self.fresh(start)}"
        self.cursor.execute(f"CREATE TABLE {name} {body}")
        self.held[name], self.below[name] = set(), set()
        return name

    def names(self) -> list[str]:
        return sorted([*self.held, *self.views])

    def reads(self, name: str) -> set[str]:
        table = self.views.get(name, name)
        return self.held[table].union(*(self.reads(child) for child in self.below[table]))

    def acts(self) -> list[Callable[[], object]]:
        return [self.rename, self.exchange, self.copy, self.view, self.inherit, self.leave, self.parent, self.replace]

    def table(self) -> str:
        return self.chance.choice(sorted(self.held))

    def rename(self) -> None:
        old = self.table()
        self.moved({old: f"a.{self.fresh('renamed')}"})

    def exchange(self) -> None:
        one, other = self.table(), self.table()
        if one != other:
            self.moved({one: "a.interim"})
            self.moved({other: one})
            self.moved({"a.interim": other})

    def moved(self, names: dict[str, str]) -> None:
        for old, new in names.items():
            self.cursor.execute(f"ALTER TABLE {old} RENAME TO {new.removeprefix('a.')}")
        self.held = {names.get(name, name): firsts for name, firsts in self.held.items()}
        self.below = {names.get(name, name): {names.get(c, c) for c in own} for name, own in self.below.items()}
        self.views = {view: names.get(table, table) for view, table in self.views.items()}

    def copy(self) -> None:
        name = self.table()
        new = self.made("copy", f"AS SELECT x FROM {name}")
        self.cursor.execute(f"ALTER TABLE {new} ALTER x SET NOT NULL")
        self.held[new] = self.reads(name)

    def view(self) -> None:
        name, view = self.table(), f"a.{self.fresh('view')}"
        self.cursor.execute(f"CREATE VIEW {view} AS SELECT NOT x AS x FROM {name} WHERE x")
        self.views[view] = name

    def parent(self) -> None:
        self.made("parent")

    def inherit(self) -> None:
        parents = sorted(name for name in self.held if not self.held[name]) or [self.table()]
        child, parent = (
            self.table(),
            self.chance.choice(parents),
        )  # of two with caps, neither could be released any more
        with suppress(Exception):  # a circle, or the child is one already
            self.cursor.execute(f"ALTER TABLE {child} INHERIT {parent}")
            self.below[parent].add(child)

    def leave(self) -> None:
        pairs = sorted((parent, child) for parent, own in self.below.items() for child in own)
        if pairs:
            parent, child = self.chance.choice(pairs)
            self.cursor.execute(f"ALTER TABLE {child} NO INHERIT {parent}")
            self.below[parent].discard(child)

    def replace(self) -> None:
        """By its own rows, as a nightly job does: another table takes its name."""
        name = self.table()
        if self.below[name] or name in self.views.values() or any(name in own for own in self.below.values()):
            return
        self.cursor.execute("CREATE TABLE a.interim (x boolean NOT NULL)")
        self.cursor.execute(f"DROP TABLE {name}")
        self.cursor.execute(f"ALTER TABLE a.interim RENAME TO {name.removeprefix('a.')}")


class SparkSequence(Sequence):
    """Managed and external tables, their folders by several spellings, renames, exchanges, copies, links."""

    def __init__(self, chance: random.Random, session: Any, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.held: dict[str, set[str]] = {}
        self.folders: dict[str, str] = {}  # of external tables, links and spellings: the table or folder they show
        session.sql("CREATE DATABASE IF NOT EXISTS a")
        for (table,) in session.sql("SHOW TABLES IN a").select("tableName").collect():
            session.sql(f"DROP TABLE a.{table}")
        super().__init__(chance, session)

    def first(self) -> str:
        """One is managed, one is a folder."""
        if self.held:
            path = self.folder / self.fresh("first")
            self.session.range(1).selectExpr("true AS x").write.parquet(str(path))
            name = f'parquet."{path}"'
        else:
            name = f"a.{self.fresh('first')}"
            self.session.sql(f"CREATE TABLE {name} USING parquet AS SELECT true AS x")
        self.held[name] = {name}
        return name

    def names(self) -> list[str]:
        return sorted(self.held)

    def reads(self, name: str) -> set[str]:
        return self.held[name]

    def acts(self) -> list[Callable[[], object]]:
        return [self.rename, self.exchange, self.copy, self.external, self.spell, self.link]

    def table(self) -> str | None:
        tables = sorted(name for name in self.held if name.startswith("a."))
        return self.chance.choice(tables) if tables else None

    def path(self) -> Path:
        """A folder with rows, of a table or by itself."""
        name = self.chance.choice(sorted(name for name in self.held if not name.startswith("a.")))
        return Path(name.removeprefix('parquet."').removesuffix('"'))

    def rename(self) -> None:
        old, new = self.table(), f"a.{self.fresh('renamed')}"
        if old is not None:
            self.session.sql(f"ALTER TABLE {old} RENAME TO {new}")
            self.held[new] = self.held.pop(old)

    def exchange(self) -> None:
        one, other = self.table(), self.table()
        if one is not None and other is not None and one != other:
            for old, new in ((one, "a.interim"), (other, one), ("a.interim", other)):
                self.session.sql(f"ALTER TABLE {old} RENAME TO {new}")
            self.held[one], self.held[other] = self.held[other], self.held[one]

    def copy(self) -> None:
        name = self.table()
        if name is not None:
            new = f"a.{self.fresh('copy')}"
            self.session.sql(f"CREATE TABLE {new} USING parquet AS SELECT x FROM {name}")
            self.held[new] = set(self.held[name])

    def external(self) -> None:
        path = self.path()
        new = f"a.{self.fresh('external')}"
        self.session.sql(f"CREATE TABLE {new} (x BOOLEAN) USING parquet LOCATION '{path}'")
        self.held[new] = self.held[f'parquet."{path}"']

    def spell(self) -> None:
        path = self.path()
        spelled = self.chance.choice(
            [
                f"{path}/",
                f"{path.parent}/./{path.name}",
                f"{path.parent}/../{path.parent.name}/{path.name}",
                f"file://{path}",
            ]
        )
        self.held[f'parquet."{spelled}"'] = self.held[f'parquet."{path}"']

    def link(self) -> None:
        path = self.path()
        if "file:" not in str(path):
            new = self.folder / self.fresh("link")
            new.symlink_to(path)
            self.held[f'parquet."{new}"'] = self.held[f'parquet."{path}"']


@contextmanager
def sequences(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Callable[[int], Sequence]]:
    if kind == "postgresql":
        port = request.getfixturevalue("postgresql")
        with superuser(port) as connection, connection.cursor() as cursor:
            yield lambda seed: PostgreSQLSequence(random.Random(seed), port, cursor)
    else:
        session = request.getfixturevalue("spark")

        def made(seed: int) -> Sequence:
            own = folder / str(seed)
            own.mkdir()
            return SparkSequence(random.Random(seed), session, own)

        yield made


@pytest.mark.parametrize(
    ("kind", "many", "steps"),
    [
        ("postgresql", 4, 30),
        pytest.param("spark", 2, 14, marks=pytest.mark.thorough),
        pytest.param("postgresql", 200, 60, marks=pytest.mark.campaign),
        pytest.param("spark", 40, 40, marks=pytest.mark.campaign),
    ],
)
def test_what_is_released_about_the_same_rows_stays_within_their_cap(
    kind: str, many: int, steps: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    met: Counter[str] = Counter()
    with sequences(kind, request, tmp_path) as made:
        for seed in range(many):
            met += made(seed).run(steps)
    print(f"\n{kind}: {many} sequences of {steps} steps: {dict(met)}")
    assert met["released"] > many / 2
    assert met["refused"] > many
    assert met["full"] > 0  # caps are reached, not only kept
