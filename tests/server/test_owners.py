"""Owners: a table is its maker's, across restarts, and names of private tables are nobody's."""

from __future__ import annotations

import pytest
from conftest import Open

from mwem_sql.errors import TableError
from mwem_sql.server.owners import OWNERS_SCHEMA, Owners


def owners(con: object, most: int = 10) -> Owners:
    return Owners(con.cursor, lambda: ["census"], most)  # type: ignore[attr-defined]


def test_a_name_is_its_makers_however_it_is_spelled_and_after_a_restart(connect: Open) -> None:
    con = connect()
    here = owners(con)
    here.claim("Mine", "anna")
    con.execute("CREATE TABLE Mine AS SELECT 1 AS x")
    for each in (here, owners(con)):
        each.claim("MINE", "anna")
        each.check("mine", "anna")
        with pytest.raises(TableError, match="is a name of another user's"):
            each.claim("mine", "bert")
        with pytest.raises(TableError, match="is not one that you made here"):
            each.check("mine", "bert")
    assert owners(con).tables_of("anna") == ["mine"] and owners(con).tables_of("bert") == []


def test_what_is_there_already_is_nobodys(connect: Open) -> None:
    con = connect()
    con.execute("CREATE TABLE release AS SELECT 1 AS x; CREATE VIEW shown AS FROM release")
    here = owners(con)
    for name in ("release", "RELEASE", "shown"):
        for refused in (here.claim, here.check):
            with pytest.raises(TableError, match="is not one that you made here"):
                refused(name, "anna")


def test_a_name_is_free_once_its_table_is_gone(connect: Open) -> None:
    con = connect()
    here = owners(con)
    here.claim("t", "anna")
    con.execute("CREATE TABLE t AS SELECT 1 AS x")
    here.release("t", "anna")
    assert here.tables_of("anna") == ["t"]  # it is still there
    con.execute("DROP TABLE t")
    here.release("t", "bert")
    assert here.tables_of("anna") == ["t"]  # it was not his
    here.release("t", "anna")
    here.claim("t", "bert")
    assert owners(con).tables_of("bert") == []  # never made, so a restart forgets it


@pytest.mark.parametrize("name", ["CENSUS", "census_synthetic", "Census_Domain", "census_rules", "census_known"])
def test_names_that_go_with_a_private_table_are_not_taken(connect: Open, name: str) -> None:
    with pytest.raises(TableError, match="has the name of a private table, or of what goes with one"):
        owners(connect()).claim(name, "anna")


def test_the_table_of_owners_is_out_of_main(connect: Open) -> None:
    con = connect()
    here = owners(con, most=1)
    here.claim("a", "anna")
    assert con.execute(f"FROM {OWNERS_SCHEMA}.owners").fetchall() == [("a", "anna")]
    with pytest.raises(TableError, match="one more than the 1 that a user may have"):
        here.claim("b", "anna")
    here.claim("b", "bert")
