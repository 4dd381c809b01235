"""Every function, parameter and column has a meaning, none is left over, and the database says it."""

from __future__ import annotations

import pytest

import mwem_sql
from mwem_sql.domains import declarations
from mwem_sql.releases.request import OPTIONS
from mwem_sql.surface import meanings, words
from mwem_sql.surface.functions import FUNCTIONS
from mwem_sql.workload import COLUMNS

ENTRIES = {entry.name: entry for entry in words.entries()}


@pytest.mark.parametrize("name", ENTRIES)
def test_all_of_a_function_has_a_meaning(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.purpose and entry.example and entry.cost
    assert all(map(entry.means, entry.parameters))
    assert set(meanings.COLUMNS[name]) == set(entry.columns)


def test_no_meaning_is_left_over() -> None:
    assert set(ENTRIES) == {function.name for function in FUNCTIONS} | {
        "mwem_count",
        "mwem_count_interval",
        "mwem_sample",
    }
    assert set(meanings.COLUMNS) == set(ENTRIES)
    assert list(meanings.OPTIONS) == list(OPTIONS)
    given = {f"{entry.name}.{parameter}" for entry in ENTRIES.values() for parameter in entry.parameters}
    assert {key for key in meanings.PARAMETERS if "." in key} <= given
    assert {key for key in meanings.PARAMETERS if "." not in key} <= {key.split(".")[1] for key in given}


def test_tables_that_a_user_writes_have_these_columns() -> None:
    assert tuple(meanings.WORKLOAD) == COLUMNS
    assert tuple(meanings.DOMAIN) == declarations._DOMAIN_COLUMNS


def test_what_has_no_words_yet_is_no_error() -> None:
    """Who adds a column and forgets its words breaks the tests above, and nothing else."""
    new = words.Entry("mwem_new", {"size": "1"}, "Is new.", "FROM mwem_new()", "nothing", {"colour": "VARCHAR"})
    assert new.comment.splitlines()[-3:] == ["size := 1  ", "", "-> colour VARCHAR  "]


def test_the_database_says_it(tmp_path) -> None:
    said = "SELECT function_name, comment FROM duckdb_functions() WHERE function_name LIKE 'mwem_%'"
    expected = {entry.name: entry.comment for entry in ENTRIES.values()}
    with mwem_sql.connect(tmp_path / "t.duckdb") as con:
        assert dict(con.execute(said).fetchall()) == expected
        assert "rounds := NULL  How many queries" in expected["mwem_release"]
        mwem_sql.register(con)  # macros are replaced, and with them their comments
        assert dict(con.cursor().execute(said).fetchall()) == expected
    with mwem_sql.connect(tmp_path / "t.duckdb", read_only=True) as con:
        assert set(con.execute(f"{said} AND comment IS NOT NULL").fetchall()) == set(expected.items())
