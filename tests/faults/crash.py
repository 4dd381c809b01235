"""Releases that are killed, starved of disk or locked out, each in a process of its own; and what they leave in the
file.

    python tests/faults/crash.py steps [K]  kill -9 before and after every (Kth) statement and every private step
    python tests/faults/crash.py random N   kill -9 at N random times
    python tests/faults/crash.py full N     no room on the disk, at N sizes
    python tests/faults/crash.py locked     the folder of the database cannot be written

Each of all `RELEASES`: of a table, of one whose output is in another file, and of several tables; `steps 1 tables`
names one of them. Prints one JSON object: how often each outcome was seen of each. `nothing`: no debit, no output.
`debit`: an entry and nothing else. `complete`: everything. Anything else is a fault and ends in an error. This process
imports and forks, but never opens DuckDB itself.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

import mwem_sql
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.scan import execution

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from conftest import PEOPLE

PERSONS = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, old BOOLEAN NOT NULL);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), home BOOLEAN NOT NULL);
    INSERT INTO person SELECT i, i % 3 = 0 FROM range(60) t(i);
    INSERT INTO visit SELECT i, i % 60, i % 2 = 0 FROM range(100) t(i);
    CREATE TABLE questions AS SELECT unnest(['person', 'visit']) AS "of", unnest(['old', 'home']) AS predicate"""
NOBODY = 65534
UNFINISHED = "did not come to its end"


class Steps:
    """Counts what a release does, and kills the process at one of them."""

    def __init__(self, deadly: int = -1) -> None:
        self.count, self.deadly = 0, deadly

    def __call__(self) -> None:
        if self.count == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **options: Any) -> Any:
            self()
            result = function(*arguments, **options)
            self()
            return result

        return stepped


class Watched:
    """A connection whose statements are steps."""

    def __init__(self, con: duckdb.DuckDBPyConnection, steps: Steps) -> None:
        self._con, self._steps = con, steps
        self.execute, self.sql = steps.around(con.execute), steps.around(con.sql)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def cursor(self) -> Watched:
        return Watched(self._con.cursor(), self._steps)


def in_child(act: Callable[[], Any], seconds: float | None = None) -> tuple[int, Any]:
    """Run something in a fork; its status and what it returned. After so many seconds it is killed."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(source)
            result = act()
            os.write(sink, json.dumps(result).encode())
            os._exit(0)
        except BaseException as error:  # noqa: BLE001
            os.write(sink, json.dumps(f"{type(error).__name__}: {error}").encode())
            os._exit(1)
    os.close(sink)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(source) as stream:
        text = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(text) if text else None


@dataclass(frozen=True, kw_only=True)
class Release:
    """A call, and the tables that it makes in a database."""

    table: str | list[str]
    workload: str
    database: str
    outputs: tuple[str, ...]
    options: dict[str, Any]

    def run(self, con: duckdb.DuckDBPyConnection, **more: Any) -> bool:
        """Whether it was there already."""
        made = mwem_sql.release(con, self.table, self.workload, 1, **self.options, **more)
        return all(one.reused for one in (made if isinstance(made, tuple) else [made]))


RELEASES = {
    "table": Release(
        table="people", workload="workload", database="private", outputs=("people_synthetic",),
        options={"rounds": 2, "rows": 50},
    ),
    "elsewhere": Release(
        table="people", workload="workload", database="pub", outputs=("x",),
        options={"rounds": 2, "rows": 50, "output": "pub.main.x"},
    ),
    "tables": Release(
        table=["person", "visit"], workload="questions", database="private",
        outputs=("person_synthetic", "visit_synthetic"), options={"rows_per_unit": 3},
    ),
}  # fmt: skip


def make(folder: Path) -> None:
    con = mwem_sql.connect(folder / "private.duckdb")
    con.execute(PEOPLE)
    con.execute(PERSONS)
    con.execute(f"ATTACH '{folder / 'pub.duckdb'}' AS pub")
    con.execute("CALL mwem_budget('people', 10)").fetchall()
    con.execute("CALL mwem_budget('person', 10, unit := 'person')").fetchall()
    con.close()


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    con = mwem_sql.connect(folder / "private.duckdb")
    con.execute(f"ATTACH '{folder / 'pub.duckdb'}' AS pub")
    return con


def attempt(folder: Path, release: Release, steps: Steps) -> int:
    """One release; the number of its steps."""
    con = connect(folder)
    # type: ignore[method-assign]
    Kernel.select, Kernel.measure = steps.around(Kernel.select), steps.around(Kernel.measure)
    execution.all_answers, store.write_table = steps.around(execution.all_answers), steps.around(store.write_table)
    fresh = Session.cursor
    # type: ignore[method-assign, assignment, return-value]
    Session.cursor = lambda session: Watched(fresh(session), steps)
    release.run(con)
    con.close()
    return steps.count


def outcome(folder: Path, release: Release) -> str:
    """What a dead process left behind, and that the same call again does what it must."""
    con = connect(folder)
    database = release.database
    known = {row[0] for row in con.execute("SELECT database_name || '.' || table_name FROM duckdb_tables()").fetchall()}
    entries = con.execute("SELECT output, status, intact, epsilon FROM mwem_ledger()").fetchall()
    assert len(entries) <= 1, entries
    assert all(entry[2] for entry in entries), "the journal does not agree"

    def count(table: str) -> int:
        return int(con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])

    metadata = [f"{database}.mwem.{name}" for name in ("releases", "measurements", "factors")]
    counts = [count(name) if f"{database}.releases" in known else 0 for name in metadata]
    rows = [count(f"{database}.main.{output}") for output in release.outputs if f"{database}.{output}" in known]

    if len(rows) == counts[0] == len(release.outputs) and all(counts) and entries[0][1] == "done":
        found = "complete"
        assert rows[0] == release.options.get("rows", rows[0])
        assert release.run(con)
    elif not rows and not any(counts) and not entries:
        found = "nothing"
        assert not release.run(con)
    elif not rows and not any(counts) and entries[0][1] in {"open", "failed"}:
        found = "debit"
        try:
            release.run(con)
        except mwem_sql.MwemError as error:
            assert UNFINISHED in str(error), error  # noqa: PT017
        else:
            raise AssertionError("charged again without a word")
        assert not release.run(con, version="again")
    else:
        raise AssertionError(f"half-written: {entries} {counts} {rows}")
    spent = con.execute("SELECT count(*), sum(epsilon) FROM mwem.ledger").fetchall()
    assert spent == [(2, 2.0) if found == "debit" else (1, 1.0)], spent
    con.close()
    return found


def killed_at(step: int, folder: Path, release: Release) -> None:
    in_child(lambda: attempt(folder, release, Steps(step)))


def killed_after(seconds: float, folder: Path, release: Release) -> None:
    in_child(lambda: attempt(folder, release, Steps()), seconds)


def starved(limit: int, folder: Path, release: Release) -> None:
    """A release on a disk where no file may grow beyond a limit."""

    def act() -> None:
        con = connect(folder)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        with suppress(mwem_sql.MwemError, duckdb.Error):
            release.run(con)

    status, told = in_child(act)  # which ends it without tidying up, as if the disk stayed full
    assert status == 0, told


def locked_out(folder: Path, release: Release) -> None:
    """A release in a folder that takes no new file."""

    def act() -> str:
        if os.getuid() == 0:
            os.setuid(NOBODY)
        try:
            release.run(connect(folder))
        except (mwem_sql.MwemError, duckdb.Error) as error:
            return str(error)
        raise AssertionError("the folder could be written")

    for path in folder.iterdir():
        path.chmod(0o666)
    folder.parent.chmod(0o755)
    folder.chmod(0o555)
    status, told = in_child(act)
    folder.chmod(0o755)
    assert status == 0, told


def written(folder: Path, release: Release, steps: int) -> int:
    """How large a file a release writes before DuckDB takes stock: what is left if it is killed at its last step."""
    killed_at(steps - 1, folder, release)
    return max(path.stat().st_size for path in folder.glob("*.wal"))


Fault = Callable[[Path, Release], None]


def faults(what: str, number: int, steps: int, seconds: float, size: Callable[[], int]) -> list[Fault]:
    if what == "steps":
        return [partial(killed_at, step) for step in range(steps - 1, -1, -(number or 1))]
    if what == "random":
        chance = random.SystemRandom()
        return [partial(killed_after, chance.uniform(0, 1.2 * seconds)) for _ in range(number // len(RELEASES))]
    if what == "full":
        most = 1.2 * size()
        return [partial(starved, int(most * k / number)) for k in range(1, number + 1)]
    return [locked_out]


def tried(folder: Path, release: Release, what: str, number: int) -> dict[str, int]:
    """How often each outcome was seen of a release, and the number of its steps."""
    seen: Counter[str] = Counter()
    started = time.monotonic()
    trial = folder / "trial"

    def fresh() -> Path:
        shutil.rmtree(trial, ignore_errors=True)
        return Path(shutil.copytree(folder / "template", trial))

    status, steps = in_child(lambda: attempt(fresh(), release, Steps()))
    assert status == 0, steps
    seconds = time.monotonic() - started
    for fault in faults(what, number, steps, seconds, lambda: written(fresh(), release, steps)):
        fault(fresh(), release)
        status, found = in_child(partial(outcome, trial, release))
        if status:
            raise SystemExit(f"{fault} {release}: {found} ({status})")
        seen[found] += 1
    return {**seen, "steps": steps}


def main(what: str, number: str = "0", only: str = "") -> dict[str, dict[str, int]]:
    with tempfile.TemporaryDirectory() as name:
        template = Path(name) / "template"
        template.mkdir()
        status, told = in_child(lambda: make(template))
        assert status == 0, told
        names = [only] if only else list(RELEASES)
        return {label: tried(Path(name), RELEASES[label], what, int(number)) for label in names}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
