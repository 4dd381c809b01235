"""Names that a person may type."""

from __future__ import annotations

from mwem_sql.cli.editor import called


def test_the_function_that_the_end_of_a_text_is_inside_of() -> None:
    assert called("CALL mwem_release('a(', w, ") == "mwem_release"
    assert called("CALL mwem_release('a', w); SELECT ") is None
    assert called("SELECT mwem_nothing(") is None
