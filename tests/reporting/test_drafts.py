"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from mwem_sql.errors import OutputError
from mwem_sql.reporting import drafts


def test_a_draft_becomes_the_file_when_it_is_whole(tmp_path: Path) -> None:
    with drafts.whole(tmp_path / "a.txt", "f") as draft:
        draft.write_text("new")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")

    def fail() -> None:
        with drafts.whole(tmp_path / "a.txt", "f") as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_of_the_disk_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(
            OutputError, match=r"f: path \(.*\) could not be written \(No space left on device\). Hint: check"
        ),
        drafts.whole(tmp_path / "a.txt", "f"),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(OutputError, match="could not be written"), drafts.whole(tmp_path / "no" / "a.txt", "f"):
        pass
