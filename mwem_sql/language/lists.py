"""A list of texts as DuckDB prints it: `[sex, 'my age']`. What a VARCHAR[] becomes in a column that is VARCHAR."""

from __future__ import annotations

import re

_ITEM = r"'(?:[^'\\]|\\.)*'|[^\s'\[\],][^'\[\],]*"
_LIST = re.compile(rf"\[(?:{_ITEM})(?:, (?:{_ITEM}))*\]", re.DOTALL)


def read_list(text: str) -> list[str] | None:
    """The items; None if the text is not such a list."""
    if not _LIST.fullmatch(text.strip()):
        return None
    return [_item(found) for found in re.findall(_ITEM, text.strip()[1:-1], re.DOTALL)]


def _item(printed: str) -> str:
    return re.sub(r"\\(.)", r"\1", printed[1:-1], flags=re.DOTALL) if printed[0] == "'" else printed.rstrip()
