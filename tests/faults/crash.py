"""Releases that are killed, starved of disk or locked out, each in a process of its own; and what they leave in the
file.

    python tests/faults/crash.py steps [K]  kill -9 before and after every (Kth) statement and every private step
    python tests/faults/crash.py random N   kill -9 at N random times
    python tests/faults/crash.py full N     no room on the disk, at N sizes
    python tests/faults/crash.py locked     the folder of the database cannot be written

Each of all `RELEASES`: of a table, of one whose output is in another file, of several tables, of values that are found,
and a seeded one; `steps 1 tables` names one of them. At random times a release is killed up to four times in a row.
Prints one JSON object: how often each outcome was seen of each. `nothing`: no debit, no output. `debit`: an entry and
nothing else. `draws`: an entry, and what it has drawn. `complete`: everything. Anything else is a fault and ends in an
error. Then the same call is made once more: it must give what it gives where nothing goes wrong, for one debit in all.
Noise follows from what it is added to (`interruptions.Repeated`), so that this can be compared. This process imports
and forks, but never opens DuckDB itself.
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
from interruptions import repeated

PERSONS = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY, old BOOLEAN NOT NULL);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), home BOOLEAN NOT NULL);
    INSERT INTO person SELECT i, i % 3 = 0 FROM range(60) t(i);
    INSERT INTO visit SELECT i, i % 60, i % 2 = 0 FROM range(100) t(i);
    CREATE TABLE questions AS SELECT unnest(['person', 'visit']) AS "of", unnest(['old', 'home']) AS predicate"""
NOBODY = 65534
TOWNS = """
    CREATE TABLE towns AS SELECT 'town ' || (i % 3) AS name FROM range(900) t(i);
    CREATE TABLE towns_domain AS SELECT 'name' AS attribute, true AS discover;
    CREATE TABLE town AS SELECT ['name'] AS group_by"""
PUBLISHED = ("releases", "measurements", "factors", "bounds", "certificates", "workloads")


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
    caps: tuple[str, ...] = ()
    """What the curator calls before."""

    def run(self, con: duckdb.DuckDBPyConnection, **more: Any) -> bool:
        """Whether it was there already."""
        made = mwem_sql.release(con, self.table, self.workload, 1, **self.options, **more)
        return all(one.reused for one in (made if isinstance(made, tuple) else [made]))


RELEASES = {
    "table": Release(
        table="people", workload="workload", database="private", outputs=("people_synthetic",),
        options={"rounds": 2, "rows": 50}, caps=("CALL mwem_budget('people', 10)",),
    ),
    "elsewhere": Release(
        table="people", workload="workload", database="pub", outputs=("x",),
        options={"rounds": 2, "rows": 50, "output": "pub.main.x"}, caps=("CALL mwem_budget('people', 10)",),
    ),
    "tables": Release(
        table=["person", "visit"], workload="questions", database="private",
        outputs=("person_synthetic", "visit_synthetic"), options={"rows_per_unit": 3},
        caps=("CALL mwem_budget('person', 10, unit := 'person')",),
    ),
    "found": Release(
        table="towns", workload="town", database="private", outputs=("towns_synthetic",), options={"delta": 1e-6},
        caps=("CALL mwem_budget('towns', 10, delta := 1e-5)",),
    ),
    "seeded": Release(
        table="people", workload="workload", database="private", outputs=("people_synthetic",),
        options={"rounds": 2, "rows": 50, "seed": 7},
    ),
}  # fmt: skip


def make(folder: Path, release: Release) -> None:
    con = mwem_sql.connect(folder / "private.duckdb")
    con.execute(f"{PEOPLE}; {PERSONS}; {TOWNS}")
    con.execute(f"ATTACH '{folder / 'pub.duckdb'}' AS pub")
    for call in release.caps:
        con.execute(call).fetchall()
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
    Kernel.certify = steps.around(Kernel.certify)  # type: ignore[method-assign]
    execution.all_answers, store.write_table = steps.around(execution.all_answers), steps.around(store.write_table)
    fresh = Session.cursor
    # type: ignore[method-assign, assignment, return-value]
    Session.cursor = lambda session: Watched(fresh(session), steps)
    with repeated():
        release.run(con)
    con.close()
    return steps.count


def published(con: duckdb.DuckDBPyConnection, release: Release) -> str:
    """All that a release leaves beside its entry, as text."""
    tables = [f"{release.database}.main.{output}" for output in release.outputs]
    tables += [f"{release.database}.mwem.{name}" for name in PUBLISHED]
    rows = {name: con.sql(f"FROM {name}").to_arrow_table().to_pylist() for name in tables}
    for row in rows[f"{release.database}.mwem.releases"]:
        row["entry"] = ""
    return repr(rows)


def reference(folder: Path, release: Release) -> str:
    """What it leaves where nothing goes wrong."""
    con = connect(folder)
    with repeated():
        release.run(con)
    text = published(con, release)
    con.close()
    return text


def outcome(folder: Path, release: Release, wanted: str) -> str:
    """What a dead process left behind, and that the same call again does what it must."""
    con = connect(folder)
    database, is_seeded = release.database, "seed" in release.options
    known = {row[0] for row in con.execute("SELECT database_name || '.' || table_name FROM duckdb_tables()").fetchall()}
    entries = con.execute("SELECT output, status, intact, epsilon FROM mwem_ledger()").fetchall()
    assert len(entries) <= 1 or is_seeded, entries
    assert all(entry[2] for entry in entries), "the journal does not agree"

    def count(table: str) -> int:
        return int(con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])

    metadata = [f"{database}.mwem.{name}" for name in ("releases", "measurements", "factors")]
    counts = [count(name) if f"{database}.releases" in known else 0 for name in metadata]
    rows = [count(f"{database}.main.{output}") for output in release.outputs if f"{database}.{output}" in known]
    draws = count("private.mwem.draws") if "private.draws" in known else 0

    is_complete = len(rows) == counts[0] == len(release.outputs) and all(counts) and entries[-1][1] == "done"
    if is_complete:
        found = "complete"
        assert rows[0] == release.options.get("rows", rows[0])
    else:
        assert not rows and not any(counts), f"half-written: {entries} {counts} {rows}"
        assert all(entry[1] in {"open", "failed"} for entry in entries), entries
        found = "nothing" if not entries else "draws" if draws else "debit"
    with repeated():
        assert release.run(con) is is_complete
        assert published(con, release) == wanted, "another release than without the fault"
        assert release.run(con)
    ((many, spent),) = con.execute("SELECT count(*), sum(epsilon) FILTER (private) FROM mwem.ledger").fetchall()
    assert (many, spent) == (1, 1.0) or (is_seeded and spent is None), (many, spent)
    assert is_complete or count("private.mwem.draws") == 0, "draws of a release that is stored"
    con.close()
    return found


def killed_at(step: int, folder: Path, release: Release) -> None:
    in_child(lambda: attempt(folder, release, Steps(step)))


def killed_after(several: list[float], folder: Path, release: Release) -> None:
    for seconds in several:
        in_child(lambda: attempt(folder, release, Steps()), seconds)


def starved(limit: int, folder: Path, release: Release) -> None:
    """A release on a disk where no file may grow beyond a limit."""

    def act() -> None:
        con = connect(folder)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        with suppress(mwem_sql.MwemError, duckdb.Error), repeated():
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
        several = [[chance.uniform(0, 1.2 * seconds) for _ in range(chance.randint(1, 4))] for _ in range(number)]
        return [partial(killed_after, each) for each in several]
    if what == "full":
        most = 1.2 * size()
        return [partial(starved, int(most * k / number)) for k in range(1, number + 1)]
    return [locked_out]


def tried(folder: Path, release: Release, what: str, number: int) -> dict[str, int]:
    """How often each outcome was seen of a release, and the number of its steps."""
    seen: Counter[str] = Counter()
    trial, template = folder / "trial", folder / "template"
    template.mkdir()
    status, told = in_child(lambda: make(template, release))
    assert status == 0, told

    def fresh() -> Path:
        shutil.rmtree(trial, ignore_errors=True)
        return Path(shutil.copytree(template, trial))

    status, wanted = in_child(lambda: reference(fresh(), release))
    assert status == 0, wanted
    started = time.monotonic()
    status, steps = in_child(lambda: attempt(fresh(), release, Steps()))
    assert status == 0, steps
    seconds = time.monotonic() - started
    for fault in faults(what, number, steps, seconds, lambda: written(fresh(), release, steps)):
        fault(fresh(), release)
        status, found = in_child(partial(outcome, trial, release, wanted))
        if status:
            raise SystemExit(f"{fault} {release}: {found} ({status})")
        seen[found] += 1
    return {**seen, "steps": steps}


def main(what: str, number: str = "0", only: str = "") -> dict[str, dict[str, int]]:
    names = [only] if only else list(RELEASES)
    found = {}
    for label in names:
        with tempfile.TemporaryDirectory() as name:
            # Of all that are killed at random, each has its part.
            share = -(-int(number) // len(names)) if what == "random" else int(number)
            found[label] = tried(Path(name), RELEASES[label], what, share)
        print(label, found[label], file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
