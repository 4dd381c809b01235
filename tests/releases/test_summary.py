"""The summary: its columns, the warning it carries, and how a column is cut, in words and as data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.columns import SUMMARY_TYPES
from mwem_sql.releases.summary import Cut, comment
from mwem_sql.workload import Query, Workload


def test_summary_and_plan_say_when_a_guarantee_is_nominal(con: Connection) -> None:
    call = "mwem_release('people', workload, {}, delta := {}, rounds := 2, output := '{}')"
    for number, (epsilon, delta, words) in enumerate(
        [(1, 0, None), (1e6, 0, "epsilon (1e+06)"), (1, 0.99, "delta (0.99)"), (1, 0.00009, None)]
    ):
        ((private, warning),) = con.execute(
            f"SELECT private, warning FROM {call.format(epsilon, delta, f'o{number}')}"
        ).fetchall()
        assert private
        # It may also say what was spent without a cap, and how little was measured.
        parts = [part for part in (warning or "").split("; ") if "epsilon (" in part or "delta (" in part]
        warning = "; ".join(parts) or None
        assert (warning is None) == (words is None)
        planned = con.execute(
            f"SELECT value FROM {call.format(epsilon, delta, 'p').replace('release', 'plan')} WHERE item = 'warning'"
        ).fetchall()
        assert [value[:40] for (value,) in planned] == ([] if words is None else [warning[:40]])
        if words is not None:
            assert words in warning


def test_a_release_has_the_columns_of_the_summary(con: Connection) -> None:
    made = mwem_sql.release(con, "people", "workload", epsilon=0.5, rounds=2, rows=30)
    assert (made.release, made.output, made.rows, made.epsilon, made.delta) == (
        1,
        "memory.main.people_synthetic",
        30,
        0.5,
        0.0,
    )
    assert (made.rounds, made.queries, made.attributes, made.private, made.reused) == (2, 3, 4, True, False)
    assert made.cells > 0
    assert made.seconds > 0
    assert repr(made).startswith("Release(release=1, output='memory.main.people_synthetic', rows=30,")
    assert all(name in repr(made) for name in SUMMARY_TYPES)


ASKED = Workload(
    (
        Query("age > 40", name="old", weight=2.5),
        Query(group_by=("sex", "city"), always=True),
        Query("member", "avg(age)", ("sex, age // 50",), verbatim=False),
        Query("sex = 'F' -- not 'M'\n"),
        Query(group_by=("city", "age // 25")),
    )
)


def comments(con: Connection, table: str = "people_synthetic") -> tuple[str, dict[str, str]]:
    ((own,),) = con.execute("SELECT comment FROM duckdb_tables() WHERE table_name = ?", [table]).fetchall()
    columns = con.execute("SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ?", [table]).fetchall()
    return own, dict(columns)


def test_the_output_says_what_it_is(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5, delta := 1e-6)")
    table, columns = comments(con)
    assert table.startswith("Synthetic rows by mwem_release (epsilon 0.5, delta 1e-06; protects one row).")
    assert "release 1 in mwem.releases" in table
    assert re.fullmatch(
        r"Synthetic \(epsilon 0.5, delta 1e-06\); from 0 to 99 or NULL; in \d+ cells that begin at 0(, \d+)+( and \d+ "
        r"more)?; "
        "values inside a cell are drawn; release 1 in mwem.releases",
        columns.pop("age"),
    )
    assert columns == {
        "sex": "Synthetic (epsilon 0.5, delta 1e-06); one of 'F', 'M'; release 1 in mwem.releases",
        "member": "Synthetic (epsilon 0.5, delta 1e-06); one of 'false', 'true'; release 1 in mwem.releases",
        "city": "Synthetic (epsilon 0.5, delta 1e-06); one of 'Bern', 'Basel', 'Genf' or NULL; release 1 in "
        "mwem.releases",
    }


def test_comments_are_there_again_when_the_table_is_drawn_again(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5)")
    before = comments(con)
    con.execute("DROP TABLE people_synthetic; CALL mwem_release('people', workload, 0.5)")
    assert comments(con) == before
    con.execute("CALL mwem_release('people', workload, 0.5, version := '2')")
    assert "release 2 in" in comments(con)[0]


def test_a_seed_is_told(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5, seed := 1)")
    table, columns = comments(con)
    assert all("with a seed: NOT PRIVATE" in text for text in (table, *columns.values()))


def test_an_output_that_becomes_private_keeps_its_comment_beside_the_mark(con: Connection) -> None:
    """And the mark of a private table is not on its output."""
    con.execute("CALL mwem_release('people', workload, 0.5)")
    before = comments(con)[0]
    assert "[mwem account" not in before
    con.execute(
        """CREATE TABLE d AS SELECT 'age' AS attribute, 0 AS low, 99 AS high;
            CREATE TABLE w AS SELECT 'age > 3' AS predicate;
           CALL mwem_release('people_synthetic', w, 0.5, domain := 'd', output := 'again')"""
    )
    assert comments(con)[0].startswith(before + " [mwem account ")


def test_wide_tables_have_a_comment_on_the_table_alone(con: Connection) -> None:
    con.execute("CALL mwem_release('people', workload, 0.5)")
    stored = store.load(con.cursor(), "people_synthetic", Session.of(con).place, "test")
    for most in (4, 3):
        con.execute("CREATE OR REPLACE TABLE people_synthetic AS FROM people_synthetic")
        assert comments(con) == (None, dict.fromkeys(stored.classes))
        comment(con, stored.name, stored.facts, stored.classes, [], most_columns=most)
        table, columns = comments(con)
        assert table
        assert [text is None for text in columns.values()] == [most == 3] * 4


def test_values_are_cut_and_open_ones_said(con: Connection) -> None:
    con.execute(
        """CREATE TABLE people_domain AS SELECT 'city' AS attribute, [i::VARCHAR || '''s' FOR i IN range(10)]
            AS "values", true AS open;
           CREATE TABLE w AS SELECT ['city'] AS group_by; CALL mwem_release('people', w, 1)"""
    )
    (text,) = comments(con)[1].values()
    assert (
        "one of '0''s', '1''s', '2''s', '3''s', '4''s', '5''s', '6''s', '7''s' and 2 more or NULL; values off the list "
        "count as '(other)', and are NULL in the rows;" in text
    )


def test_the_workload_is_stored_and_can_be_asked_again(con: Connection) -> None:
    made = mwem_sql.release(con, "people", ASKED, 5)
    again = made.workload
    assert again is not None
    assert [(q.predicate, q.measure, q.label, q.weight, q.always) for q in again] == [
        (q.predicate, q.measure, q.label, q.weight, q.always) for q in ASKED
    ]
    assert made.answer(again) == made.answer(ASKED)
    con.execute(
        "CREATE TABLE asked AS SELECT predicate, measure, group_by, name, weight, always FROM mwem.workloads WHERE "
        "release = 1 ORDER BY query"
    )
    assert con.execute("FROM mwem_answer('people_synthetic', asked)").fetchall() == [
        tuple(row.values()) for row in made.answer(ASKED).to_pylist()
    ]


def test_what_is_known_of_a_query_is_known_when_it_is_asked_again(con: Connection) -> None:
    """The certificate is about the workload's own queries; the stored text of a list of columns is one of them."""
    listed = Workload(
        tuple(Query(group_by=names) for names in (("sex", "city"), ("sex", "member"), ("city", "member")))
    )
    made = mwem_sql.release(con, "people", listed, 100, rounds=1, certify=0.5)
    assert made.workload is not None
    found, again = made.answer(listed), made.answer(made.workload)
    assert "never" in found.column("measured").to_pylist()
    assert again == found


def test_each_version_has_its_own(con: Connection) -> None:
    mwem_sql.release(con, "people", ASKED, 1)
    later = mwem_sql.release(con, "people", Workload.from_predicates(["member"]), 1, version="2")
    assert later.workload == Workload.from_predicates(["member"])
    assert con.execute("SELECT release, count(*) FROM mwem.workloads GROUP BY 1 ORDER BY 1").fetchall() == [
        (1, 5),
        (2, 1),
    ]


@pytest.mark.parametrize(
    "spoil", ["ALTER TABLE mwem.workloads DROP COLUMN query", "DROP TABLE mwem.workloads", "DELETE FROM mwem.workloads"]
)
def test_one_that_was_changed_by_hand_is_refused(con: Connection, spoil: str) -> None:
    made = mwem_sql.release(con, "people", ASKED, 1)
    con.execute(spoil)
    with pytest.raises(mwem_sql.MwemError, match="cannot be read"):
        _ = made.workload


def test_a_wide_workload_takes_little_room(tmp_path: Path) -> None:
    """About 66 bytes a row in memory, names of their own aside; DuckDB writes 13."""
    wide = Workload.from_predicates([f"age > {k % 100} AND city = 'Bern'" for k in range(20_000)])
    assert store.workload_rows(wide).nbytes < 80 * len(wide)
    with duckdb.connect(f"{tmp_path}/w.duckdb") as own:
        rows = store.workload_rows(wide)  # noqa: F841  DuckDB finds it by its name
        own.execute("CREATE TABLE w AS FROM rows; CHECKPOINT")
        ((blocks, size),) = own.execute("SELECT used_blocks, block_size FROM pragma_database_size()").fetchall()
    assert blocks * size < 80 * len(wide)


TABLE = """
CREATE TABLE sales (price DOUBLE, items INTEGER NOT NULL, day DATE, kind VARCHAR, paid BOOLEAN NOT NULL,
    grade INTEGER NOT NULL CHECK (grade BETWEEN 1 AND 5), person INTEGER);
INSERT INTO sales SELECT i % 1200, i % 30, DATE '2024-01-01' + (i % 300)::INTEGER, ['book', 'it''s', 'pen',
    'new'][1 + i % 4], i % 2 = 0, 1 + i % 5, i // 3 FROM range(3000) t(i);
CREATE TABLE sales_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, bins INTEGER,
    open BOOLEAN);
INSERT INTO sales_domain VALUES ('price', NULL, '0', '1000', 4, NULL), ('items', NULL, '0', '29', NULL, NULL), ('day',
    NULL, '2024-01-01', '2024-12-31', 12, NULL),
    ('kind', ['book', 'it''s', 'pen'], NULL, NULL, NULL, true);
CREATE TABLE w AS SELECT unnest([['price'], ['items'], ['day'], ['kind', 'paid'], ['grade']]) AS group_by;
"""


@pytest.fixture(scope="module")
def sales() -> Connection:
    con = mwem_sql.connect()
    con.execute(TABLE)
    con.execute("CALL mwem_release('sales', w, 1000, unit := 'person', rows_per_unit := 2)")
    return con


def cuts(con: Connection, output: str) -> dict[str, Cut]:
    stored = store.load(con.cursor(), output, Session.of(con).place, "test")
    return {name: Cut.of(own) for name, own in stored.classes.items()}


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("price",
            ("from 0 to 1000 or NULL; in 4 cells that begin at 0, 250, 500, 750; values inside a cell are drawn; "
             "values "
            "beyond count as 'below 0' or 'above 1000', and are shown as the bound in the rows")),
        ("items",
            "from 0 to 29; values beyond count as 'below 0' or 'above 29', and are shown as the bound in the rows"),
        ("kind",
            "one of 'book', 'it''s', 'pen' or NULL; values off the list count as '(other)', and are NULL in the rows"),
        ("paid", "one of 'false', 'true'"),
        ("grade", "from 1 to 5"),
    ],
)  # fmt: skip
def test_in_words(sales: Connection, column: str, words: str) -> None:
    found = cuts(sales, "sales_synthetic")[column].words(12).replace(".0", "")
    assert found == words


def test_long_lists_are_cut_short(sales: Connection) -> None:
    own = cuts(sales, "sales_synthetic")
    assert "one of 'book' and 2 more or NULL" in own["kind"].words(1)
    assert "in 12 cells that begin at 2024-01-01, 2024-01-31 and 10 more; values inside a cell are drawn" in own[
        "day"
    ].words(2)


def test_cells_are_what_the_release_tells_apart(con: Connection) -> None:
    """Nobody asked for single years, cities or sexes: years are drawn between the constants, and no city is told
    from the others.
    """
    con.execute("CREATE TABLE w AS SELECT 'age >= 65' AS predicate UNION ALL SELECT 'age < 18 AND city = ''Bern'''")
    con.execute("CALL mwem_release('people', w, 1000, output := 'o')")
    own = cuts(con, "o")
    assert {"0", "18", "65"} <= set(own["age"].begins) and len(own["age"].begins) < 30
    assert own["age"].words(1).startswith(f"from 0 to 99 or NULL; in {own['age'].groups} cells that begin at 0 and ")
    assert (
        own["city"].words(12)
        == "one of 'Bern', 'Basel', 'Genf' or NULL; its values are told apart in 2 groups, and those inside a group "
        "are drawn"
    )


def test_card_and_comments_say_it(sales: Connection, tmp_path: Path) -> None:
    mwem_sql.export(sales, "sales_synthetic", tmp_path / "r.duckdb")
    card = json.loads((tmp_path / "r.json").read_text("utf-8"))["mwem_card"]
    price, kind = (next(own for own in card["attributes"] if own["name"] == name) for name in ("price", "kind"))
    assert [float(text) for text in price["cells_begin_at"]] == [0, 250, 500, 750]
    assert (price["cells"], price["values_inside_a_cell"], price["off_the_domain"]) == (
        4,
        "drawn",
        "shown as the bound",
    )
    assert (kind["values"], kind["off_the_domain"], kind["nullable"]) == (["book", "it's", "pen"], "NULL", True)
    off = {(own["attribute"], own["where"]): own["share"] for own in card["off_the_domain"]}
    assert off["kind", "that is not on its list"] == pytest.approx(0.25, abs=0.05)
    assert off["items", "below 0"] < 0.01
    text = (tmp_path / "r.md").read_text("utf-8")
    assert "'it''s'" in text and "- `kind` that is not on its list: about 25%" in text
    assert "At most 2 rows of each person were used" in text
    assert f"**{card['quality']}** for its questions: 5 of 5 questions were measured" in text
    for database in ("memory", "r"):
        if database == "r":
            sales.execute(f"ATTACH '{tmp_path}/r.duckdb' AS r (READ_ONLY)")
        ((noted,),) = sales.execute(
            "SELECT comment FROM duckdb_tables() WHERE table_name = 'sales_synthetic' AND database_name = ?", [database]
        ).fetchall()
        assert "At most 2 rows of each person were used, and all counts are of these rows: " in noted  # fmt: skip
        assert "About 25% of the rows have a kind that is not on its list." in noted
    ((column,),) = sales.execute(
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'sales_synthetic' AND column_name = 'price' AND "
        "database_name = 'memory'"
    ).fetchall()
    assert "in 4 cells that begin at" in column
