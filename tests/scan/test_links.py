"""Keys that are seen in rows: unique columns, and columns whose values are all among them."""

from __future__ import annotations

import duckdb
import pytest

from mwem_sql.boundary import relations
from mwem_sql.platform.session import Session
from mwem_sql.scan.links import Links, suggest_links

TABLES = """
    CREATE TABLE persons AS SELECT 'p' || i AS pid, i % 9 AS age FROM range(90) t(i);
    CREATE TABLE visits AS SELECT i AS id, 'p' || i % 80 AS pid, i % 7 AS day FROM range(200) t(i);
    CREATE TABLE drugs AS SELECT i % 50 AS visit_id, 'p' || i % 50 AS pid, i % 3 AS kind FROM range(70) t(i);
"""


def links(setup: str, *names: str) -> Links:
    with duckdb.connect() as con:
        con.execute(setup)
        place = Session.of(con).place
        return suggest_links(con, [relations.describe(con, name, place, "test") for name in names])


def led(found: Links) -> dict[int, tuple[str, int, str]]:
    return {table: (each.column, each.parent, each.key) for table, each in found.references.items()}


def test_tables_make_a_tree_by_the_nearest_that_they_lead_to() -> None:
    found = links(TABLES, "drugs", "visits", "persons")
    assert found.rows == [70, 200, 90] and found.keys == {1: "id", 2: "pid"}
    assert led(found) == {0: ("visit_id", 1, "id"), 1: ("pid", 2, "pid")}
    assert [(each.table, each.column, each.parent) for each in found.others] == [(0, "pid", 2)]
    assert found.trees() == [[2, 1, 0]]
    # 40 persons have three visits, 40 two; their visits 0 to 49 have the drugs, 20 of them two.
    assert (found.units[1].most, found.units[1].common, found.units[0].most) == (3, 3, 2)


def test_few_units_have_more_rows_than_are_suggested() -> None:
    found = links(
        """CREATE TABLE a AS SELECT uuid() AS id FROM range(200);
        CREATE TABLE b AS SELECT id AS who FROM (SELECT id, row_number() OVER () AS n FROM a), range(50) t(i)
        WHERE i < if(n = 1, 50, 2)""",
        "a",
        "b",
    )
    assert led(found) == {1: ("who", 0, "id")} and (found.units[1].common, found.units[1].most) == (2, 50)


@pytest.mark.parametrize(
    ("setup", "reason"),
    [
        ("CREATE TABLE a AS SELECT i AS aid FROM range(9) t(i); CREATE TABLE b AS SELECT 3 AS age FROM range(9)",
         "numbers of another name"),
        ("CREATE TABLE a AS SELECT i AS id FROM range(9) t(i); CREATE TABLE b AS SELECT i AS id FROM range(5) t(i)",
         "any table has an id"),
        ("CREATE TABLE a AS SELECT i AS x FROM range(9) t(i); CREATE TABLE b AS SELECT i AS x FROM range(5, 20) t(i)",
         "some values are not there"),
        ("CREATE TABLE a AS SELECT i % 8 AS x FROM range(9) t(i); CREATE TABLE b AS SELECT 3 AS x FROM range(9)",
         "values are there twice"),
        ("CREATE TABLE a AS SELECT nullif(i, 3) AS x FROM range(9) t(i); CREATE TABLE b AS SELECT 2 AS x FROM range(9)",
         "a key has no NULL"),
        ("CREATE TABLE a AS SELECT 'v' || i AS x FROM range(99) t(i); CREATE TABLE b AS SELECT 'v2' AS y FROM range(9)",
         "text that has hardly any of a key's values"),
        ("CREATE TABLE a AS SELECT i::DOUBLE AS x FROM range(9) t(i); CREATE TABLE b AS SELECT 1::DOUBLE AS x",
         "no type of keys"),
        ("CREATE TABLE a AS SELECT i AS x FROM range(9) t(i); CREATE TABLE b AS SELECT '1' AS x FROM range(9)",
         "of two types"),
        ("CREATE TABLE a AS SELECT i AS x FROM range(9) t(i); CREATE TABLE b AS SELECT NULL::BIGINT AS x FROM range(9)",
         "no values"),
    ],
)  # fmt: skip
def test_what_is_no_reference(setup: str, reason: str) -> None:
    found = links(setup, "a", "b")
    assert not found.references and found.trees() == [[0], [1]], reason


def test_tables_that_lead_to_one_another_are_no_circle() -> None:
    found = links(
        "CREATE TABLE a AS SELECT i AS x FROM range(9) t(i); CREATE TABLE b AS SELECT i AS x FROM range(9) t(i)",
        "a",
        "b",
    )
    assert len(found.references) == 1 and len(found.others) == 1


def test_a_null_leads_nowhere_and_names_may_be_odd() -> None:
    found = links(
        """CREATE TABLE "the person" AS SELECT i AS "a ""key" FROM range(9) t(i);
        CREATE TABLE "order" AS SELECT nullif(i % 5, 3) AS "A ""key" FROM range(9) t(i)""",
        '"the person"',
        '"order"',
    )
    assert led(found) == {1: ('A "key', 0, 'a "key')}
