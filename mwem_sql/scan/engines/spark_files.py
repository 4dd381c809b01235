"""Files as Spark lists them: which ones a folder has, what they are known by, and what tells whether they changed. Reads no row.

A path is the same however it is written. One of this machine is resolved here (links, dots, doubled slashes), and Spark is given what it was
resolved to; one of a remote store is what Spark makes of it, in full. Names that begin with `_` or `.` are hidden, as everywhere in Spark,
and files without a byte have no rows.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mwem_sql.boundary import files
from mwem_sql.errors import TableError, refuse
from mwem_sql.platform.metadata import Key
from mwem_sql.scan.engines.protocol import ChangedError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?")
_PATTERN = re.compile(r"[{}\[\]*?\\]")
# Stores that have one name for a file. A scheme that is not listed may be another door to the same files (viewfs, webhdfs, dbfs).
_REMOTE = {"hdfs": "hdfs", "s3": "s3a", "s3a": "s3a", "s3n": "s3a", "gs": "gs", "abfs": "abfss", "abfss": "abfss"}
_DEFAULT_PORTS = {"hdfs": ":8020"}


@dataclass(frozen=True)
class Listed:
    """A file of a listing: its size and its time in milliseconds, as Spark sees them."""

    path: str
    size: int
    time: int


@dataclass(frozen=True)
class DataFiles:
    """The data files under a folder, or one file; `path` in one spelling. `is_local` where they are on this machine's disks."""

    path: str
    listed: tuple[Listed, ...]
    is_local: bool
    function: str = field(default="", compare=False)

    @classmethod
    def under(cls, session: Any, text: str, function: str) -> DataFiles:
        """Those of a path as a person wrote it, in all folders below. A relative path is one of this machine."""
        scheme, host, path = _split(text, function)
        real = os.path.realpath(path)
        if scheme == "file" or (not scheme and Path(real).exists()):
            listed = _some(
                _list(session, [f"{scheme}{':' if scheme else ''}{escaped(real)}"], text, function), text, function
            )
            if scheme or _is_local(listed):  # Spark's default may be another file system
                return cls(real, listed, True, function).checked(text)
        listed = _some(_list(session, [f"{scheme}://{host}{path}" if scheme else path], text, function), text, function)
        if _is_local(listed):
            return cls(real, listed, True, function).checked(text)
        found = _SCHEME.fullmatch(listed[0].path)
        root = f"{found[1]}://{found[2]}{path}" if found else text
        return cls(root, listed, False, function).checked(text)

    @classmethod
    def of_table(cls, session: Any, location: str, uris: Iterable[str], function: str) -> DataFiles:
        """Those that a table of the catalog reads, by the addresses that Spark gives them."""
        paths = [plain(unquote(uri)) for uri in uris]
        listed = _list(session, [escaped(path) for path in paths], location, function) if paths else ()
        path = plain(location).rstrip("/")
        return cls(path, listed, not _SCHEME.match(path), function).checked(location)

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.listed]

    @property
    def folders(self) -> list[tuple[str, ...]]:
        """The folders between the path and each file; `..` for a file that is not below it."""
        return [_between(self.path, path) for path in self.paths]

    def keys(self) -> tuple[tuple[Key, ...], ...]:
        """What the rows are known by. First what follows them through renames: files, and the inode of the folder. Then the folder's path."""
        if not self.is_local:
            return tuple((_address(path), "", "") for path in self.paths), ((_address(self.path), "", ""),)
        of_files = [key for path in self.paths for key in files.keys_of(path)]
        if self.paths == [self.path]:
            return (tuple(of_files),)
        by_path = (os.path.realpath(self.path), "", "")
        # Its path is weaker: two tables that are renamed into each other have each other's, and their own inodes.
        strong = [key for key in files.keys_of(self.path) if key != by_path] if Path(self.path).exists() else []
        return (*strong, *of_files), (by_path,)

    def state(self, session: Any) -> object:
        """What changes when somebody writes to a file or puts another in its place: asked before and after all scans."""
        try:
            if self.is_local:
                return [_facts(path) for path in self.paths]
            return _listing(session, [escaped(path) for path in self.paths]) if self.paths else []
        except OSError:
            raise ChangedError from None

    def checked(self, text: str) -> DataFiles:
        """As Spark and this process see them alike, and none twice."""
        if not self.is_local:
            _address(self.path, self.function)
            return self
        seen: dict[tuple[int, int], str] = {}
        for file in self.listed:
            try:
                facts = Path(file.path).stat()
            except OSError:
                facts = None
            if facts is None or (facts.st_size, facts.st_mtime_ns // 10**6) != (file.size, file.time):
                raise refuse(
                    TableError, self.function, f"files ({text!r}) are on a disk of the Spark server that cannot be seen from here, where links are resolved",
                    "mount the folder here under the same path, or put the files on hdfs, s3a, gs or abfss",
                )  # fmt: skip
            before = seen.setdefault((facts.st_dev, facts.st_ino), file.path)
            if before is not file.path:
                raise refuse(
                    TableError, self.function, f"files ({text!r}) have two names for one file, whose rows would count twice",
                    "let no link in the folder lead to another file of it",
                )  # fmt: skip
        return self


def plain(path: str) -> str:
    """A path of a local disk without its scheme: Spark writes file:/x, file:///x and /x for the same."""
    return re.sub(r"^file:/+", "/", path)


def escaped(path: str) -> str:
    """A path that Spark takes for no pattern, whatever is in the names of its folders."""
    return _PATTERN.sub(lambda found: "\\" + found[0], path)


def identity(path: str) -> str:
    """A folder in one spelling, whether it is there or not: what a warehouse is known by."""
    inner = plain(path)
    return inner if _SCHEME.match(inner) else os.path.realpath(inner)


def _split(text: str, function: str) -> tuple[str, str, str]:
    """Scheme, host and path of what a person wrote, without dots and doubled slashes; refused where it is a pattern."""
    if _PATTERN.search(text) or any(ord(letter) < ord(" ") for letter in text):
        raise refuse(
            TableError, function, f"files ({text!r}) may be several folders, or none: a path is no pattern",
            "name one folder or one file, without *, ?, [, ], {, } and \\",
        )  # fmt: skip
    found = _SCHEME.fullmatch(text)
    if found is None:
        return ("", "", _normal(text)) if text.startswith("/") else ("file", "", _normal(str(Path.cwd() / text)))
    scheme, host, path = found[1].lower(), found[2] or "", found[3] or "/"
    if scheme not in {"file", *_REMOTE} or (scheme == "file" and host):
        raise _other_names(text, function)
    return scheme, host, _normal(path)


def _normal(path: str) -> str:
    """Without dots and doubled slashes, by its letters alone, as Spark does it; links are resolved after that."""
    return posixpath.normpath("/" + path.lstrip("/"))


def _some(listed: tuple[Listed, ...], text: str, function: str) -> tuple[Listed, ...]:
    """What a path lists, which has no schema without a file."""
    if not listed:
        raise _absent(text, function)
    return listed


def _list(session: Any, paths: Sequence[str], text: str, function: str) -> tuple[Listed, ...]:
    try:
        return _listing(session, paths)
    except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's; their texts quote paths, and partitions with them
        raise _absent(text, function) from None


def _listing(session: Any, paths: Sequence[str]) -> tuple[Listed, ...]:
    """The data files below some paths, from a listing that opens none of them."""
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", "*")
    found = reader.load(list(paths)).selectExpr("path", "length", "unix_millis(modificationTime) AS time").toArrow()
    rows = (Listed(plain(row["path"]), row["length"], row["time"]) for row in found.to_pylist())
    return tuple(sorted((row for row in rows if row.size), key=lambda row: row.path))


def _absent(text: str, function: str) -> Exception:
    return refuse(
        TableError, function, f"files ({text!r}) are not there, or have no rows", "give a path that Spark can read"
    )


def _is_local(listed: Sequence[Listed]) -> bool:
    return not _SCHEME.match(listed[0].path)


def _other_names(text: str, function: str) -> Exception:
    return refuse(
        TableError, function, f"files ({text!r}) are of a kind of storage under which the same files may have another name",
        f"write a path of this machine, or one that begins with {', '.join(f'{scheme}://' for scheme in _REMOTE)}",
    )  # fmt: skip


def _between(folder: str, path: str) -> tuple[str, ...]:
    if path == folder:
        return ()
    if not path.startswith(f"{folder}/"):
        return ("..",)
    return tuple(path[len(folder) + 1 :].split("/")[:-1])


def _facts(path: str) -> tuple[object, ...]:
    facts = Path(path).stat()
    return os.path.realpath(path), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _address(path: str, function: str = "") -> str:
    """A file of a remote store by its full address: one spelling of its scheme, its host in small letters, no default port."""
    found = _SCHEME.fullmatch(path)
    if found is None or found[1].lower() not in _REMOTE or not found[2]:
        raise _other_names(path, function)
    scheme = _REMOTE[found[1].lower()]
    user, at, host = found[2].rpartition("@")  # abfss://container@account
    return f"{scheme}://{user}{at}{host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ' '))}{found[3] or '/'}"
