"""Files as Spark lists them: which ones a folder has, their identities, whether they changed. Reads no row.

A path is the same however it is written. One of this machine is resolved here (links, dots, doubled slashes), and Spark
is given what it was resolved to; one of a remote store is what Spark makes of it, in full. Names that begin with `_` or
`.` are hidden, as everywhere in Spark, and files without a byte have no rows.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from mwem_sql.boundary import files
from mwem_sql.errors import MwemError
from mwem_sql.platform.metadata import Key
from mwem_sql.scan.engines.protocol import ChangedError, refuse_relation

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?")
_PATTERN = re.compile(r"[{}\[\]*?\\]")
_REMOTE = {"hdfs": "hdfs", "s3": "s3a", "s3a": "s3a", "s3n": "s3a", "gs": "gs", "abfs": "abfss", "abfss": "abfss"}
"""Stores that have one name for a file. Another scheme may be another name of the same (viewfs, webhdfs, dbfs)."""


class ListedFile(NamedTuple):
    """A file of a listing: its size and its time in milliseconds, as Spark sees them."""

    path: str
    size: int
    time: int


@dataclass(frozen=True)
class DataFiles:
    """The data files under a folder, or one file; `path` in one spelling. `is_local`: on this machine's disks."""

    path: str
    listed: tuple[ListedFile, ...]
    is_local: bool

    @classmethod
    def under(cls, session: Any, text: str) -> DataFiles:
        """Those of a path as a person wrote it, in all folders below. A relative path is one of this machine."""
        scheme, host, path = _split(text)
        real = os.path.realpath(path)
        if scheme == "file" or (not scheme and Path(real).exists()):
            listed = _list(session, [f"{scheme}:{escaped(real)}" if scheme else escaped(real)], text)
            if scheme or _is_local(listed[0].path):  # Spark's default may be another file system
                return cls(real, listed, True).checked(text)
        listed = _list(session, [f"{scheme}://{host}{path}" if scheme else path], text)
        if _is_local(listed[0].path):
            return cls(real, listed, True).checked(text)
        address = _SCHEME.fullmatch(listed[0].path)
        return cls(f"{address[1]}://{address[2]}{path}" if address else text, listed, False).checked(text)

    @classmethod
    def of_table(cls, session: Any, location: str, uris: Iterable[str]) -> DataFiles:
        """Those that a table of the catalog reads, by the addresses that Spark gives them; it may have none."""
        paths = [escaped(plain(unquote(uri))) for uri in uris]
        path = plain(location).rstrip("/")
        listed = _list(session, paths, location, may_be_empty=True) if paths else ()
        return cls(path, listed, _is_local(path)).checked(location)

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.listed]

    @property
    def folders(self) -> list[tuple[str, ...]]:
        """The folders between the path and each file; `..` for a file that is not below it."""
        return [_between(self.path, path) for path in self.paths]

    def keys(self) -> tuple[tuple[Key, ...], ...]:
        """The identities of the rows. First what follows renames: files, and the inode of the folder. Then its path."""
        if not self.is_local:
            return tuple((_address(path), "", "") for path in self.paths), ((_address(self.path), "", ""),)
        of_files = [key for path in self.paths for key in files.keys_of(path)]
        if self.paths == [self.path]:
            return (tuple(of_files),)
        by_path = (os.path.realpath(self.path), "", "")
        # Its path is weaker: two tables that are renamed into each other swap paths, and keep their inodes.
        strong = [key for key in files.keys_of(self.path) if key != by_path] if Path(self.path).exists() else []
        return (*strong, *of_files), (by_path,)

    def state(self, session: Any) -> object:
        """What changes when somebody writes to a file or replaces it: compared before and after all scans."""
        try:
            if self.is_local:
                return [_file_state(path) for path in self.paths]
            return _listing(session, [escaped(path) for path in self.paths]) if self.paths else []
        except OSError:
            raise ChangedError from None

    def checked(self, text: str) -> DataFiles:
        """The same files, if Spark and this process see the same, and none twice."""
        if not self.is_local:
            _address(self.path)
            return self
        seen: dict[tuple[int, int], str] = {}
        for file in self.listed:
            try:
                facts = Path(file.path).stat()
            except OSError:
                facts = None
            if facts is None or (facts.st_size, facts.st_mtime_ns // 10**6) != (file.size, file.time):
                where = "are on a disk of the Spark server that cannot be seen from here, where links are resolved"
                cure = "mount the folder here under the same path, or put the files on hdfs, s3a, gs or abfss"
                raise refuse_relation(f"files ({text!r}) {where}", cure)
            if seen.setdefault((facts.st_dev, facts.st_ino), file.path) is not file.path:
                raise refuse_relation(
                    f"files ({text!r}) have two names for one file, whose rows would count twice",
                    "let no link in the folder lead to another file of it",
                )
        return self


def plain(path: str) -> str:
    """A path of a local disk without its scheme: Spark writes file:/x, file:///x and /x for the same."""
    return re.sub(r"^file:/+", "/", path)


def escaped(path: str) -> str:
    """A path that Spark takes for no pattern, whatever is in the names of its folders."""
    return _PATTERN.sub(lambda match: "\\" + match[0], path)


def identity(path: str) -> str:
    """A folder in one spelling, whether it is there or not: the identity of a warehouse."""
    inner = plain(path)
    return os.path.realpath(inner) if _is_local(inner) else inner


def _split(text: str) -> tuple[str, str, str]:
    """Scheme, host and path of what a person wrote, without dots and doubled slashes; refused where it is a pattern."""
    if _PATTERN.search(text) or any(ord(letter) < ord(" ") for letter in text):
        raise refuse_relation(
            f"files ({text!r}) may be several folders, or none: a path is no pattern",
            "name one folder or one file, without *, ?, [, ], {, } and \\",
        )
    match = _SCHEME.fullmatch(text)
    if match is None:
        return ("", "", _normal(text)) if text.startswith("/") else ("file", "", _normal(str(Path.cwd() / text)))
    scheme, host, path = match[1].lower(), match[2] or "", match[3] or "/"
    if scheme not in {"file", *_REMOTE} or (scheme == "file" and host):
        raise _other_names(text)
    return scheme, host, _normal(path)


def _normal(path: str) -> str:
    """Without dots and doubled slashes, by its letters alone, as Spark does it; links are resolved after that."""
    return posixpath.normpath("/" + path.lstrip("/"))


def _list(session: Any, paths: Sequence[str], text: str, *, may_be_empty: bool = False) -> tuple[ListedFile, ...]:
    """What paths list; refused where that fails, or where no file would say what the columns are."""
    try:
        listed = _listing(session, paths)
    except Exception:  # noqa: BLE001  of Spark's, py4j's or gRPC's; their texts quote paths, and partitions with them
        listed, may_be_empty = (), False
    if not listed and not may_be_empty:
        raise refuse_relation(f"files ({text!r}) are not there, or have no rows", "give a path that Spark can read")
    return listed


def _listing(session: Any, paths: Sequence[str]) -> tuple[ListedFile, ...]:
    """The data files below some paths, from a listing that opens none of them."""
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", "*")
    rows = reader.load(list(paths)).selectExpr("path", "length", "unix_millis(modificationTime) AS time").toArrow()
    listed = (ListedFile(plain(row["path"]), row["length"], row["time"]) for row in rows.to_pylist())
    return tuple(sorted(file for file in listed if file.size))


def _is_local(path: str) -> bool:
    return not _SCHEME.match(path)


def _other_names(text: str) -> MwemError:
    return refuse_relation(
        f"files ({text!r}) are of a kind of storage under which the same files may have another name",
        f"write a path of this machine, or one that begins with {', '.join(f'{scheme}://' for scheme in _REMOTE)}",
    )


def _between(folder: str, path: str) -> tuple[str, ...]:
    if path == folder:
        return ()
    if not path.startswith(f"{folder}/"):
        return ("..",)
    return tuple(path[len(folder) + 1 :].split("/")[:-1])


def _file_state(path: str) -> tuple[object, ...]:
    facts = Path(path).stat()
    return os.path.realpath(path), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _address(path: str) -> str:
    """A file of a remote store by its full address: one spelling of its scheme and host, no default port."""
    match = _SCHEME.fullmatch(path)
    if match is None or match[1].lower() not in _REMOTE or not match[2]:
        raise _other_names(path)
    scheme = _REMOTE[match[1].lower()]
    user, at, host = match[2].rpartition("@")  # abfss://container@account
    host = host.lower().removesuffix(":8020") if scheme == "hdfs" else host.lower()
    return f"{scheme}://{user}{at}{host}{match[3] or '/'}"
