"""Which option was meant, where DuckDB refuses a call before it reaches us."""

from __future__ import annotations

import pytest

from mwem_sql import cli
from mwem_sql.cli.console import with_hint

TABLE = "CREATE TABLE t (a BOOLEAN); CREATE TABLE w AS SELECT 'a' AS predicate; "


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        (
            "CALL mwem_release('t', w, 1, round := 3)",
            "Hint: mwem_release has no option round; did you mean rounds? it has delta, rounds,",
        ),
        (
            "CALL mwem_release('t', w, 1, delta := 0, maxcells => 3)",
            "Hint: mwem_release has no option maxcells; did you mean max_cells? it has",
        ),
        (
            "FROM mwem_domain('t', domian := 'd')",
            "Hint: mwem_domain has no option domian; did you mean domain? it has domain",
        ),
        (
            "CALL mwem_release('t', w, epsilon := 1, Delta := 0, \"round\" := 3)",
            "Hint: mwem_release has no option round; did you mean rounds? it has delta, rounds,",
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


REFUSED = """Binder Error: Macro mwem_domain() does not support the supplied arguments. \
You might need to add explicit type casts.
Candidate macros:
	mwem_domain(private_table, domain := NULL)"""
HINT = "Hint: mwem_domain has no option domian; did you mean domain? it has domain"


@pytest.mark.parametrize(
    ("quoted", "statement"),
    [
        ("", "FROM mwem_domain('t', domian := 'd')"),  # DuckDB 2.0
        # 1.4 and 1.5
        ("\n\nLINE 1: FROM mwem_domain('t', domian := 'd')\n             ^", "FROM mwem_domain('t', domian := 'd')"),
        ("\n\nLINE 1: FROM mwem_domain('t',\n             ^", "FROM mwem_domain('t',\n    domian => 'd')"),
        ("\n\nLINE 1: ...p(x := 1)), MWEM_DOMAIN('t', domian := 'd')\n               ^",
        "FROM f(p(x := 1)), MWEM_DOMAIN('t', domian := 'd')"),
    ],
)  # fmt: skip
def test_messages_of_every_version_are_read(quoted: str, statement: str) -> None:
    """Whichever version is installed: the words are those that each of them printed."""
    assert with_hint(REFUSED + quoted, statement) == f"{REFUSED.splitlines()[0]}\n{HINT}"


def test_a_required_argument_may_have_its_name() -> None:
    """What is wrong is not a name: nothing is said."""
    assert with_hint(REFUSED, "FROM mwem_domain(private_table := 't', 3)") == REFUSED
