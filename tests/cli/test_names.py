"""Names that a person may type."""

from __future__ import annotations

from mwem_sql.cli import names


def test_options_are_those_of_the_macros() -> None:
    assert "rounds" in names.options()["mwem_release"]
    assert names.options()["mwem_ledger"] == ()


def test_the_function_that_the_end_of_a_text_is_inside_of() -> None:
    assert names.called("CALL mwem_release('a(', w, ") == "mwem_release"
    assert names.called("CALL mwem_release('a', w); SELECT ") is None
    assert names.called("SELECT mwem_nothing(") is None
