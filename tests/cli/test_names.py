"""Names that a person may type, and what was probably meant by one that is not there."""

from __future__ import annotations

import pytest

from mwem_sql.cli import names


def test_options_are_those_of_the_macros() -> None:
    assert "rounds" in names.options()["mwem_release"]
    assert names.options()["mwem_ledger"] == ()


@pytest.mark.parametrize(
    ("statement", "advised"),
    [
        ("CALL mwem_release('t', w, 1, round := 3)", "mwem_release has no option round. Did you mean rounds?"),
        ("CALL mwem_release('t', w, 1, Epsilom := 3)", "mwem_release has no option Epsilom. Its options are delta, "),
        ("FROM mwem_ledger(x := 1)", "mwem_ledger has no option x. It has none."),
    ],
)
def test_an_option_that_is_not_there(statement: str, advised: str) -> None:
    assert (names.advice(statement) or "").startswith(advised)


@pytest.mark.parametrize(
    "statement",
    [
        "CALL mwem_release('t', w, 1, ROUNDS := 3)",
        "SELECT ':= ', mwem_count('x', 'round := 3')",
        "SELECT 1 -- mwem_release(round := 3)",
        "FROM read_csv('x', headr := true)",
    ],
)
def test_no_advice_where_nothing_of_ours_is_wrong(statement: str) -> None:
    assert names.advice(statement) is None
