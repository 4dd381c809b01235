"""The tables of a release in its report: in the order of keys, with how many rows lead to a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.tables import joined_tables
from mwem_sql.reporting import charts, joined


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with mwem_sql.connect() as con:
        con.execute("""
            CREATE TABLE person (pid INTEGER PRIMARY KEY, sex ENUM ('F', 'M') NOT NULL);
            CREATE TABLE visit (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES person (pid), away BOOLEAN NOT NULL);
            CREATE TABLE "a&b" (pid INTEGER REFERENCES person (pid), paid BOOLEAN NOT NULL);
            CREATE TABLE drug (vid INTEGER REFERENCES visit (vid), new BOOLEAN NOT NULL);
            INSERT INTO person SELECT i, if(i % 3 = 0, 'F', 'M') FROM range(60) t(i);
            INSERT INTO visit SELECT row_number() OVER (), pid, i = 0 FROM person, range(4) t(i);
            INSERT INTO "a&b" SELECT pid, pid % 2 = 0 FROM person;
            INSERT INTO drug SELECT vid, vid % 2 = 0 FROM visit;
            CREATE TABLE w AS FROM mwem_marginals(['person', 'visit', 'drug', 'a&b'], 1);
            CALL mwem_release(['person', 'visit', '"a&b"', 'drug'], w, 10000,
                              rows_per_unit := {visit: 3, drug: 40, 'a&b': 1})""")
        yield con


def tables(con: Connection) -> list[store.Stored]:
    cursor = con.cursor()
    return joined_tables(cursor, store.load(cursor, "visit_synthetic", Session.of(con).place, "test"), "test")


def test_what_is_below_a_table_stands_right_after_it(con: Connection) -> None:
    several = tables(con)
    nodes = joined.nodes(next(one for one in several if one.domain.table == "visit"), several)
    assert [(node.name, node.parent, node.depth, node.rows, node.words, node.is_this) for node in nodes] == [
        ("person_synthetic", None, 0, "60 rows", "", False),
        ("visit_synthetic", 0, 1, "180 rows", "3 per person", True),
        ("drug_synthetic", 1, 2, "180 rows", "1 per visit", False),
        ("a&b_synthetic", 0, 1, "60 rows", "1 per person", False),
    ]
    picture = charts.tree(nodes, "all")
    assert picture.count('class="link"') == 3 and picture.count("box this") == 1 and "a&amp;b_synthetic" in picture


def test_the_last_number_of_rows_stands_for_more(con: Connection) -> None:
    """But of a table that has one row per parent by its own key, or of which one is used."""
    person, visit = tables(con)[:2]
    labels = {
        name: bars.labels
        for one in (person, visit)
        for name, (bars, _) in charts.one_way(one).items()
        if "." not in name
    }
    assert labels["visit"] == ["0", "1", "2", "3 or more"] and labels["a&b"] == ["0", "1"]
    assert labels["drug"][-1] == "40 or more" and labels["away"] == ["false", "true"]
    assert charts.one_way(person, ["visit"]).keys() == {"visit"}


def test_the_page_has_the_tables_of_its_release(con: Connection, tmp_path: Path) -> None:
    mwem_sql.report(con, "visit_synthetic", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert '<a href="#tables">tables</a>' in text and text.count("<bdi>a&amp;b</bdi>") == 1
    for pair in ("Rows of visit per person", "Rows of a&amp;b per person", "Rows of drug per visit"):
        assert f'aria-label="{pair}"' in text
    assert "Each row leads to a row of person_synthetic by pid" in text
    con.execute("CREATE OR REPLACE TABLE one AS SELECT 'away' AS predicate")
    mwem_sql.release(con, "visit", "one", 1, output="alone", unit="pid", rows_per_unit=1)
    mwem_sql.report(con, "alone", tmp_path / "alone.html")
    assert "#tables" not in (tmp_path / "alone.html").read_text("utf-8")


def test_a_page_does_without_tables_that_are_gone(con: Connection, tmp_path: Path) -> None:
    con.execute("CALL mwem_withdraw('\"a&b_synthetic\"', 'wrong')")
    mwem_sql.report(con, "visit_synthetic", tmp_path / "r.html")
    assert "#tables" not in (tmp_path / "r.html").read_text("utf-8")
