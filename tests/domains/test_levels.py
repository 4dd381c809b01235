"""The domain of a level: its own columns, those above it, and numbers of rows below; keys have none."""

from __future__ import annotations

import pytest

import mwem_sql
from mwem_sql.boundary.levels import read_levels
from mwem_sql.domains.levels import domains_alone, level_domains
from mwem_sql.errors import RELEASE, DomainError
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session

TABLES = """
    CREATE TABLE person (pid INTEGER PRIMARY KEY CHECK (pid BETWEEN 0 AND 9), sex ENUM ('F', 'M') NOT NULL);
    CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), away BOOLEAN NOT NULL)
"""


@pytest.mark.parametrize("numbers", [{}, {"visit": 3}])
def test_a_level_sees_what_is_above_and_counts_what_is_below(numbers: dict[str, int]) -> None:
    with mwem_sql.connect() as con, Sandbox() as sandbox:
        con.execute(TABLES)
        place = Session.of(con).place
        levels = read_levels(con, ["visit", "person"], place)
        person, visit = level_domains(levels, domains_alone(Session.of(con), levels, sandbox, {}), numbers)
    assert person.columns == ("pid", "sex", "visit") and visit.columns == (
        "vid",
        "pid",
        "away",
        "person.pid",
        "person.sex",
    )
    assert [each.name for each in visit] == ["away", "person.sex"]
    # Without a number, what a number of rows may be is not known.
    assert {each.name: each.high for each in person if each.name != "sex"} == numbers
    assert person.link is not None and (person.link.below, person.own) == (("visit",), ("pid", "sex"))


def test_values_to_discover_are_for_one_table() -> None:
    with mwem_sql.connect() as con, Sandbox() as sandbox:
        con.execute(
            f"""{TABLES}; ALTER TABLE visit ADD COLUMN town VARCHAR;
            CREATE TABLE visit_domain AS SELECT 'town' AS attribute, true AS discover"""
        )
        place = Session.of(con).place
        levels = read_levels(con, ["visit", "person"], place)
        with pytest.raises(DomainError, match=f"{RELEASE}: column town of visit has values to discover"):
            domains_alone(Session.of(con), levels, sandbox, {})
