"""Connections that are closed, a small private table, and the slow tests that run only when asked for."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import chance
import cores  # noqa: F401  before numpy
import duckdb
import instances
import numpy as np
import pytest
from ledgers import TABLE
from numpy.typing import NDArray

import mwem_sql
from mwem_sql.accounting.ledger import Ledger
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.sandbox import Sandbox

Connection = duckdb.DuckDBPyConnection
Open = Callable[..., Connection]

PEOPLE = """
    CREATE TABLE people (
        age INTEGER CHECK (age BETWEEN 0 AND 99),
        sex ENUM ('F', 'M') NOT NULL,
        member BOOLEAN NOT NULL,
        city VARCHAR CHECK (city IN ('Bern', 'Basel', 'Genf'))
    );
    INSERT INTO people
    SELECT i % 100, CASE WHEN i % 3 = 0 THEN 'F' ELSE 'M' END, i % 2 = 0, ['Bern', 'Basel', 'Genf', NULL][1 + i % 4]
    FROM range(400) AS t(i);
    CREATE TABLE workload (predicate VARCHAR, group_by VARCHAR[]);
    INSERT INTO workload VALUES ('age > 40', NULL), ('sex = ''F'' AND member', NULL), (NULL, ['sex', 'city']);
"""


# Names of every kind: a schema, a view, a sequence, macros.
SCHEMA = """
    CREATE SCHEMA s;
    CREATE TABLE t (age INTEGER NOT NULL CHECK (age BETWEEN 17 AND 90), sex VARCHAR, d DATE, x DOUBLE);
    CREATE TABLE s.u (a INTEGER, b INTEGER);
    CREATE VIEW w AS SELECT age FROM t WHERE age > 3;
    CREATE SEQUENCE numbers;
    CREATE MACRO oldest() AS (SELECT max(age) FROM t);
    CREATE MACRO nested() AS oldest() + 1;
    CREATE MACRO twice(n) AS n + n;
    CREATE MACRO people() AS TABLE SELECT * FROM t"""


def steps(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls, Python's own and C's.

    The same on every machine, whatever else it does.
    """
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


SLOW = ("versions", "integrations", "campaign", "thorough", "engines", "browser", "server")
"""The markers of tests that run only if the marker is asked for."""


def pytest_configure(config: pytest.Config) -> None:
    """Tests and their processes keep what they compile: to compile it again takes a third of their time."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # In a module of its own: test files import a second copy of this one.
    chance.choose(config.getoption("markexpr"), config.getoption("--hypothesis-profile"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("markexpr")
    for item in items:
        if "thorough" in asked and item.get_closest_marker("hypothesis"):
            item.add_marker("thorough")  # properties: with all of their examples
    slow = [item for item in items if any(item.get_closest_marker(name) and name not in asked for name in SLOW)]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    # The longest test first: last, it would keep one process waiting for the other.
    items.sort(key=lambda item: not item.name.startswith("test_the_catalogue"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the collector of cycles, which would walk all that was imported again and again: a third of the time."""
    with uncollected():
        return (yield)


@pytest.fixture
def connect() -> Iterator[Open]:
    """`mwem_sql.connect`, and whatever it opened is closed.

    DuckDB 2.0 reports open connections with functions at exit.
    """
    with contextlib.ExitStack() as opened:

        def open_(database: str | Path = ":memory:", *, registered: bool = True, **options: Any) -> Connection:
            if database == ":memory:" and registered and not options:
                return opened.enter_context(instances.database())
            con = opened.enter_context(duckdb.connect(str(database), **options))
            return mwem_sql.register(con) if registered else con

        yield open_


@pytest.fixture
def plain(connect: Open) -> Connection:
    """A database in memory without our functions."""
    return connect(registered=False)


@pytest.fixture
def ledger() -> Ledger:
    """The ledger of a table that need not be there."""
    return Ledger.of_table("memory", TABLE)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB by itself, once for all tests of a module."""
    with duckdb.connect(config={"threads": 1}) as con:
        yield con


@pytest.fixture
def scratch(duck: Connection) -> Iterator[Connection]:
    """An empty schema of the module's database, in the time zone of Tokyo."""
    duck.execute(
        "DROP SCHEMA IF EXISTS scratch CASCADE; CREATE SCHEMA scratch; USE memory.scratch; SET TimeZone = 'Asia/Tokyo'"
    )
    yield duck
    duck.execute("USE memory.main")


@pytest.fixture
def con(connect: Open) -> Connection:
    """A database in memory with a private table `people` and a `workload`."""
    con = connect()
    con.execute(PEOPLE)
    return con


@pytest.fixture(scope="module")
def shared() -> Iterator[Connection]:
    """The database of `con`, once for all tests of a module that change nothing of what the others read."""
    with instances.database() as con:
        con.execute(PEOPLE)
        yield con


@pytest.fixture
def entries() -> Callable[[Connection], int]:
    """How many entries the ledger has: 0 where there is none."""

    def count(con: Connection) -> int:
        return len(con.cursor().execute("FROM mwem_ledger()").fetchall())

    return count


def flat(answers: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], list[int]]:
    """Answers as the kernel takes them: one vector of its own, and the cells of each query."""
    return np.concatenate(answers), [len(answer) for answer in answers]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[int]:
    """The port of a server with the collation "ci", under which case and accents do not matter, and the ENUM kind."""
    import servers  # noqa: PLC0415  of tests/engines, which alone asks for it

    if servers.postgresql_folder() is None:
        pytest.skip(servers.MISSING)
    with servers.postgresql() as port:
        with servers.superuser(port) as connection, connection.cursor() as cursor:
            for statement in servers.SETUP:
                cursor.execute(statement)
        yield port


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A classic Spark session."""
    import servers  # noqa: PLC0415

    if not servers.has_spark():
        pytest.skip(servers.MISSING)
    with servers.spark(tmp_path_factory.mktemp("spark")) as session:
        yield session
