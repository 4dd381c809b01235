"""The line editor of the shell: a whole statement is edited, remembered and completed as one.

What is completed comes from the catalog and from the declarations of our functions. Must not run anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import duckdb
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from mwem_sql.surface.spec import FUNCTIONS


class Names(Completer):
    """Completes dot commands, options of the function that the cursor is inside of, and all other names."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con

    def get_completions(
        self, document: Document, complete_event: CompleteEvent  # noqa: ARG002
    ) -> Iterable[Completion]:  # fmt: skip
        before = document.text_before_cursor
        match = re.search(r"[\w.$]*$", before)
        word = match[0] if match else ""
        if not word:
            return
        seen: set[str] = set()
        for kind, candidates in self._candidates(before, word):
            for text in candidates:
                if text.lower().startswith(word.lower()) and text.lower() not in seen:
                    seen.add(text.lower())
                    yield Completion(f"{text} := " if kind == "option" else text, -len(word), display_meta=kind)

    def _candidates(self, before: str, word: str) -> Iterable[tuple[str, Iterable[str]]]:
        if before.lstrip().startswith("."):
            yield "command", (".help", ".mode", ".quit", ".schema", ".tables")
            return
        function = called(before[: len(before) - len(word)])
        if function:
            yield "option", FUNCTIONS[function].optional
        tables = "SELECT DISTINCT table_name FROM information_schema.tables WHERE table_schema <> 'mwem' ORDER BY 1"
        yield "table", _column(self._con, tables)
        columns = "SELECT DISTINCT column_name FROM information_schema.columns WHERE table_schema <> 'mwem' ORDER BY 1"
        yield "column", _column(self._con, columns)
        yield "function", FUNCTIONS
        yield "keyword", _keywords()


class Editor:
    """Reads statements, or a line that begins with a dot. History is by statement, in a file if one can be written."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, is_whole: Callable[[str], bool], prompts: tuple[str, str], history: Path,
        *, input: Input | None = None, output: Output | None = None,  # noqa: A002
    ) -> None:  # fmt: skip
        self._session: PromptSession[str] = PromptSession(
            prompts[0], multiline=True, prompt_continuation=prompts[1], history=_history(history), completer=Names(con),
            complete_while_typing=False, key_bindings=_keys(is_whole), input=input, output=output,
        )  # fmt: skip

    def read(self) -> str:
        """What was typed. EOFError: Ctrl-D; KeyboardInterrupt: Ctrl-C."""
        return self._session.prompt()


def _history(file: Path) -> History:
    try:
        with file.open("a", encoding="utf-8"):
            return FileHistory(str(file))
    except OSError:
        return InMemoryHistory()


def _keys(is_whole: Callable[[str], bool]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        """Run what is whole; go on in the next line otherwise."""
        buffer = event.current_buffer
        if buffer.complete_state:
            buffer.complete_state = None
        elif is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def is_usable() -> bool:
    """Whether the terminal can do more than print lines."""
    return os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}


def called(text: str) -> str | None:
    """Which of our functions the end of a text is inside of, if any."""
    plain = re.sub(r"'(?:[^']|'')*'|--[^\n]*", "''", text)  # without texts and comments
    for match in reversed(list(re.finditer(r"\b(mwem_\w+)\s*\(", plain))):
        inside = plain[match.end() :]
        if inside.count("(") >= inside.count(")"):
            return match[1] if match[1] in FUNCTIONS else None
    return None


@cache
def _keywords() -> list[str]:
    with duckdb.connect(":memory:") as con:
        return [word.upper() for word in _column(con, "SELECT keyword_name FROM duckdb_keywords() ORDER BY 1")]


def _column(con: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    return [str(row[0]) for row in con.cursor().execute(query).fetchall()]
