"""Every SQL file of the repository is found and says what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mwem_sql.platform.resources import read_sql

FILES = sorted(path.name for path in (Path(__file__).resolve().parents[2] / "sql").glob("*.sql"))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_whole_and_has_a_header(name: str) -> None:
    text = read_sql(name)
    assert text.startswith("--")
    assert text.endswith("\n")


def test_a_file_that_is_not_there_is_no_empty_text() -> None:
    assert "macros.sql" in FILES
    with pytest.raises(FileNotFoundError):
        read_sql("nothing.sql")
