"""Which option was meant, where DuckDB refuses a call before it reaches us."""

from __future__ import annotations

import pytest

from mwem_sql import cli

TABLE = "CREATE TABLE t (a BOOLEAN); CREATE TABLE w AS SELECT 'a' AS predicate; "


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        (
            "CALL mwem_release('t', w, 1, round := 3)",
            "Hint: mwem_release has no option round; did you mean 'rounds'? it has delta, rounds,",
        ),
        (
            "CALL mwem_release('t', w, 1, delta := 0, maxcells => 3)",
            "Hint: mwem_release has no option maxcells; did you mean 'max_cells'? it has",
        ),
        (
            "FROM mwem_domain('t', domian := 'd')",
            "Hint: mwem_domain has no option domian; did you mean 'domain'? it has domain",
        ),
        ("CALL mwem_release('t', w, 1, rounds = 3)", "Hint: an option takes := and not =, rounds := ..."),
        ("CALL mwem_release(t, w, 1)", "Hint: the first table is named as text, 't'; a workload as it stands"),
        ("CALL mwem_relase('t', w, 1)", 'Did you mean "mwem_release"?'),
        ("SELECT b = 3 FROM t", 'Referenced column "b" not found'),
    ],
)
def test_the_shell_says_what_was_meant(capsys: pytest.CaptureFixture[str], statement: str, hint: str) -> None:
    assert cli.main(["-c", TABLE + statement]) == 1
    said = capsys.readouterr().err
    assert hint in said
    assert ("Hint" in said) == hint.startswith("Hint")
