"""Markdown pages as programs.

The blocks of a page run in order, in one folder and one session, and what they print is compared with what the page
shows.

    python tests/pages.py docs/cookbook.md      # runs a page and writes what its blocks print into it

The rules of a page, all of them:

- ```sql runs in the shell, ```python in one session of Python, ```sh line by line. A line `mwem-sql some.duckdb` opens
  the database of the SQL that follows; before the first such line it is one in memory.
- ```text straight after a block is what it prints: word for word, but for blanks and the width of boxes. The folder is
  called /home/you.
- ```text noise is the same where noise or a clock made the numbers: words exactly, a number may be another one of its
  kind, whole or decimal.
- A line `...` in such a text stands for any lines.
- A block must run without an error, unless the text after it shows the error.
- A block that cannot run here says why in its own fence: ```sql not-run: needs a server
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import duckdb

import mwem_sql
from mwem_sql import cli
from mwem_sql.cli.console import Console
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.releases import run

ROOT = Path(__file__).resolve().parents[1]
RUN = ("sql", "python", "sh")
NOT_RUN, NOISE = "not-run:", "noise"
HOME = "/home/you"
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the rest of its fence, its text, and where that text is in the page."""

    language: str
    note: str
    text: str
    line: int
    start: int
    end: int
    shown: Block | None = None
    """The text that straight follows."""

    @property
    def reason(self) -> str | None:
        """Why it is not run, if it is not."""
        return self.note.removeprefix(NOT_RUN).strip() if self.note.startswith(NOT_RUN) else None


def blocks(page: str) -> list[Block]:
    """The blocks of a page in order; a text stands with the block whose output it is, or by itself if there is none."""
    found: list[Block] = []
    for match in _FENCE.finditer(page):
        language, _, note = match[1].strip().partition(" ")
        line = 1 + page.count("\n", 0, match.start())
        block = Block(language, note.strip(), match[2], line, match.start(2), match.end(2))
        last = found[-1] if found else None
        if language == "text" and last is not None and last.language in RUN and last.shown is None:
            after = page[last.end :].removeprefix("```")
            if not after[: block.start - last.end - len("```")].split("```")[0].strip():
                found[-1] = Block(**{**vars(last), "shown": block})
                continue
        found.append(block)
    return found


@dataclass
class Session:
    """The folder, the database and the variables of one page."""

    folder: Path
    database: str = ":memory:"
    variables: dict[str, object] = field(default_factory=lambda: {"__name__": "__page__"})
    _con: duckdb.DuckDBPyConnection | None = None

    def run(self, block: Block) -> tuple[bool, str]:
        """Whether a block went well, and all that it prints."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            well = getattr(self, f"_{block.language}")(block.text)
        return well, printed.getvalue().replace(str(self.folder), HOME)

    def _sql(self, text: str) -> bool:
        if self._con is None:
            self._con = mwem_sql.connect(self.database)
            self._con.execute("SET SESSION python_enable_replacements = false")
        return Console(self._con).run_script(text, "")

    def _python(self, text: str) -> bool:
        try:
            exec(compile(text, "page", "exec"), self.variables)
        except Exception:  # noqa: BLE001 (the page says what it is, or the test does)
            traceback.print_exc()
            return False
        return True

    def _sh(self, text: str) -> bool:
        if self.database != ":memory:":
            self.close()  # as one leaves the shell before the next command
        return all(self._line(line) for line in text.replace("\\\n", " ").splitlines() if line.strip())

    def _line(self, line: str) -> bool:
        words = shlex.split(line, comments=True)
        if words[:1] != ["mwem-sql"] or {"|", "&&", ";"} & set(words):
            ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
            print(ran.stdout + ran.stderr, end="")
            return ran.returncode == 0
        if len(words) == 2 and words[1].endswith(".duckdb"):
            self.close()
            self.database = words[1]
            return True
        arguments, _, target = (words[1:], "", None) if ">" not in words else _parted(words[1:])
        with contextlib.ExitStack() as stack:
            if target is not None:
                stack.enter_context(contextlib.redirect_stdout(stack.enter_context(Path(target).open("w"))))
            try:
                return cli.main(arguments) == 0
            except SystemExit as left:
                return left.code in {0, None}

    def close(self) -> None:
        if self._con is not None:
            self._con.close()
            self._con = None

    def end(self) -> None:
        self.close()
        for value in self.variables.values():
            if isinstance(value, duckdb.DuckDBPyConnection):
                value.close()


def _parted(words: list[str]) -> tuple[list[str], str, str]:
    at = words.index(">")
    return words[:at], ">", words[at + 1]


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """Releases draw their noise from a generator with a fixed seed.

    They say `private true`, as the page does: it is for tests only.
    """
    with mock.patch.object(run, "OpenDPNoise", functools.partial(SeededNoise, 0)):
        yield


@contextlib.contextmanager
def session() -> Iterator[Session]:
    """A new folder to work in, with the folders of the project that pages name in it, as in a clone."""
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory(prefix="p") as name:
        folder = Path(name).resolve()
        for each in ("docs", "examples", "sql"):
            (folder / each).symlink_to(ROOT / each)
        os.chdir(folder)
        os.environ["COLUMNS"] = "120"
        opened = Session(folder)
        try:
            yield opened
        finally:
            opened.end()
            os.chdir(before)
            os.environ.pop("COLUMNS")
            if columns is not None:
                os.environ["COLUMNS"] = columns


def is_as_shown(printed: str, shown: Block) -> bool:
    """Whether the text of a page is what was printed."""
    lines = _plain(printed, shown.note)
    parts: list[list[str]] = [[]]
    for line in _plain(shown.text, shown.note):
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return lines == parts[0]
    if lines[: len(parts[0])] != parts[0] or (parts[-1] and lines[-len(parts[-1]) :] != parts[-1]):
        return False
    at, end = len(parts[0]), len(lines) - len(parts[-1])
    for part in parts[1:-1]:
        at = next((k + len(part) for k in range(at, end - len(part) + 1) if lines[k : k + len(part)] == part), -1)
        if at < 0:
            return False
    return at <= end


def _plain(text: str, note: str) -> list[str]:
    """Lines without what may differ."""
    if note == NOISE:
        text = _NUMBER.sub(lambda number: "#.#" if number[1] or number[2] else "#", text)
    lines = [re.sub("─+", "─", re.sub(r"\s+", " ", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def check(path: Path) -> list[str]:
    """What is wrong with a page: blocks that fail, and texts that are not what was printed.

    Which of many questions are measured hangs on noise, and with it words of a page. So noise is the same in every run
    of the test.
    """
    wrong = []
    with repeatable(), session() as opened:
        for block in blocks(path.read_text(encoding="utf-8")):
            if block.language not in RUN or block.reason is not None:
                continue
            well, printed = opened.run(block)
            where = f"{path.name}:{block.line}"
            if block.shown is not None and not is_as_shown(printed, block.shown):
                wrong.append(f"{where}: prints\n{printed}\nand the page shows\n{block.shown.text}")
            elif block.shown is None and not well:
                wrong.append(f"{where}: fails\n{printed}")
    return wrong


def write(path: Path) -> None:
    """Run a page and put what its blocks print into it, so that all its numbers are of one run.

    A text with `...` is left to people.
    """
    page = path.read_text(encoding="utf-8")
    changes = []
    with session() as opened:
        for block in blocks(page):
            if block.language not in RUN or block.reason is not None:
                continue
            well, printed = opened.run(block)
            if block.shown is None and not well:
                print(f"{path}:{block.line}: fails\n{printed}", file=sys.stderr)
            if block.shown is None:
                continue
            if "\n...\n" in f"\n{block.shown.text}":
                if not is_as_shown(printed, block.shown):
                    print(f"{path}:{block.line}: prints\n{printed}", file=sys.stderr)
                continue
            lines = [line.rstrip() for line in printed.splitlines()]
            changes.append((block.shown.start, block.shown.end, "\n".join(lines).strip("\n") + "\n"))
    for start, end, text in reversed(changes):
        page = page[:start] + text + page[end:]
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name).resolve())
