"""Engine: where private rows are, and the four things that it must be able to do.

1. It names the dialect that the compiler writes for it, and describes a relation from its catalog
   (`boundary.sources.Facts`).
2. It opens one snapshot: everything that is read within it is of one state of the rows, or the snapshot says that it
   was not.
3. The snapshot runs one tree at a time and gives Arrow batches.
4. What runs can be stopped from another thread.

An engine runs what the compiler wrote. It builds no predicate, and it does not read again what it could not read: a
second reading would be a second release.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import duckdb
import pyarrow as pa

from mwem_sql.boundary.sources import Describes, Engine
from mwem_sql.errors import RELEASE, MwemError, TableError, refuse


class ChangedError(Exception):
    """What is to be read is no longer what was planned and charged."""


class Snapshot(Describes, Protocol):
    """One state of the rows. `home` is a connection of the caller's instance that reads it, where there is one."""

    @property
    def home(self) -> duckdb.DuckDBPyConnection | None: ...

    def run(self, statement: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The result of one statement, in batches of about `rows` rows where the engine lets one choose."""
        ...

    def state(self) -> object:
        """What tells whether rows that no transaction of the engine covers changed: compared before and after scans."""
        ...

    def interrupt(self) -> None:
        """Stop what runs, from another thread. What was not running is left alone."""
        ...


class RowEngine(Engine, Protocol):
    """An engine whose rows can be read. `timeout` is in seconds, for all scans of one call together; None: no limit."""

    @property
    def timeout(self) -> float | None: ...

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """One state of the rows. Left in any way, nothing of it is kept on the engine's side."""
        ...


def refuse_relation(what: str, hint: str) -> MwemError:
    """A refusal of what cannot be a private relation; `errors.spoken_by` names another function than a release."""
    return refuse(TableError, RELEASE, what, hint)


def refuse_several(shown: str) -> MwemError:
    """A refusal of several relations of an engine that keeps no keys."""
    what = f"source ({shown}) has no keys that could join tables which are released together"
    return refuse_relation(what, "release each table alone; or copy them to DuckDB, with PRIMARY KEY and FOREIGN KEY")
