"""Files that a person asked for: written beside their place and moved there when they are whole; never over what somebody else made.

Must not look into what it writes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from mwem_sql.errors import MwemError, OptionError, OutputError, literal, refuse


def target(con: duckdb.DuckDBPyConnection, text: object, function: str, example: str, endings: Collection[str]) -> Path:
    """The file that a call names, in a folder that exists; refused where the database may not write files."""
    if not isinstance(text, str) or not text.strip():
        raise refuse(OptionError, function, f"path ({text!r}) must be the name of a file", f"write {example!r}")
    ((allowed,),) = con.execute("SELECT current_setting('enable_external_access')").fetchall()
    if not allowed:
        raise refuse(
            OptionError,
            function,
            f"path ({text!r}) cannot be written: enable_external_access is off",
            "ask whoever runs the database",
        )
    path = Path(text).expanduser()
    if path.is_dir():
        inside = literal(str(path / example))
        raise refuse(OptionError, function, f"path ({text!r}) is a folder, and not a file", f"write {inside}")
    if path.suffix.lower() not in endings:
        what = f"path ({text!r}) must end with one of {', '.join(endings)}"
        raise refuse(OptionError, function, what, f"write {example!r}")
    if not path.parent.is_dir():
        raise refuse(
            OutputError, function, f"path ({text!r}) is in a folder that does not exist", "make the folder first"
        )
    return path


def check_free(path: Path, is_ours: Callable[[Path], bool], function: str) -> None:
    """A file that is there already is replaced only if the same function made it."""
    if path.is_dir() or (path.exists() and not is_ours(path)):
        raise refuse(
            OutputError,
            function,
            f"path ({str(path)!r}) exists and was not made by {function}",
            "choose another name, or remove it first",
        )


@contextmanager
def whole(path: Path, function: str) -> Iterator[Path]:
    """A new name beside `path` to write to; it becomes `path` if nothing fails, and is gone otherwise."""
    try:
        folder = tempfile.mkdtemp(prefix=".mwem-", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error, function) from None
    draft = Path(folder) / path.name
    try:
        yield draft
        draft.replace(path)
    except (OSError, duckdb.IOException) as error:
        raise _unwritable(path, error, function) from None
    finally:
        with suppress(OSError):
            for left in Path(folder).iterdir():
                left.unlink()
            Path(folder).rmdir()


def _unwritable(path: Path, error: Exception, function: str) -> MwemError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
    return refuse(
        OutputError,
        function,
        f"path ({str(path)!r}) could not be written ({reason})",
        "check the folder and the room on the disk",
    )
