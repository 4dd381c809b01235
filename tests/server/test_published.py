"""Views under private tables' names: which release answers, and what they never take."""

from __future__ import annotations

from conftest import Connection

from mwem_sql.server.published import MARK, refresh

MAKE = "CALL mwem_release('people', workload, 1, rounds := 1, rows := {rows}, output := '{output}')"


def moved(con: Connection, *outputs: tuple[str, int]) -> None:
    """Releases of people, whose rows are then elsewhere, as they are on a server."""
    for output, rows in outputs:
        con.execute(MAKE.format(output=output, rows=rows)).fetchall()
    con.execute("ALTER TABLE people RENAME TO elsewhere")


def rows(con: Connection) -> int:
    ((count,),) = con.execute("SELECT count(*) FROM people").fetchall()
    return int(count)


def views(con: Connection) -> dict[str, str]:
    query = "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal AND schema_name = 'main'"
    return dict(con.execute(query).fetchall())


def test_the_output_that_nobody_had_to_name_answers(con: Connection) -> None:
    moved(con, ("first", 11), ("people_synthetic", 22), ("third", 33))
    refresh(con.cursor(), "memory")
    assert rows(con) == 22 and views(con) == {"people": f"{MARK}memory.main.people_synthetic"}
    refresh(con.cursor(), "memory")
    assert rows(con) == 22


def test_else_the_oldest_that_stands(con: Connection) -> None:
    moved(con, ("first", 11), ("second", 22))
    refresh(con.cursor(), "memory")
    assert rows(con) == 11
    con.execute("CALL mwem_withdraw('first', 'wrong')")
    refresh(con.cursor(), "memory")
    assert rows(con) == 22
    con.execute("DROP TABLE second")
    refresh(con.cursor(), "memory")
    assert views(con) == {}


def test_no_name_is_taken_from_anything(con: Connection) -> None:
    con.execute(MAKE.format(output="people_synthetic", rows=7)).fetchall()
    before = rows(con)
    refresh(con.cursor(), "memory")  # the table itself is there
    assert rows(con) == before and views(con) == {}
    con.execute("ALTER TABLE people RENAME TO elsewhere; CREATE VIEW people AS SELECT 1 AS x")
    refresh(con.cursor(), "memory")
    assert rows(con) == 1 and views(con) == {"people": None}


def test_nothing_is_made_of_nothing(con: Connection) -> None:
    refresh(con.cursor(), "memory")
    assert views(con) == {}
