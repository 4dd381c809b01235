"""How a column is cut, in words and as data: what a stranger must know before reading its values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Connection

import mwem_sql
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.cut import Cut

TABLE = """
CREATE TABLE sales (price DOUBLE, items INTEGER NOT NULL, day DATE, kind VARCHAR, paid BOOLEAN NOT NULL, grade INTEGER NOT NULL CHECK (grade BETWEEN 1 AND 5), person INTEGER);
INSERT INTO sales SELECT i % 1200, i % 30, DATE '2024-01-01' + (i % 300)::INTEGER, ['book', 'it''s', 'pen', 'new'][1 + i % 4], i % 2 = 0, 1 + i % 5, i // 3 FROM range(3000) t(i);
CREATE TABLE sales_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, bins INTEGER, open BOOLEAN);
INSERT INTO sales_domain VALUES ('price', NULL, '0', '1000', 4, NULL), ('items', NULL, '0', '29', NULL, NULL), ('day', NULL, '2024-01-01', '2024-12-31', 12, NULL),
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
        ("price", "from 0 to 1000 or NULL; in 4 cells that begin at 0, 250, 500, 750; values inside a cell are drawn; values beyond count as 'below 0' or 'above 1000', and are shown as the bound in the rows"),
        ("items", "from 0 to 29; values beyond count as 'below 0' or 'above 29', and are shown as the bound in the rows"),
        ("kind", "one of 'book', 'it''s', 'pen' or NULL; values off the list count as '(other)', and are NULL in the rows"),
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
    assert "in 12 cells that begin at 2024-01-01, 2024-01-31 and 10 more; values inside a cell are drawn" in own["day"].words(2)  # fmt: skip


def test_cells_are_what_the_release_tells_apart(con: Connection) -> None:
    """Nobody asked for single years, cities or sexes: years are drawn between the constants, and no city is told from the others."""
    con.execute("CREATE TABLE w AS SELECT 'age >= 65' AS predicate UNION ALL SELECT 'age < 18 AND city = ''Bern'''")
    con.execute("CALL mwem_release('people', w, 1000, output := 'o')")
    own = cuts(con, "o")
    assert {"0", "18", "65"} <= set(own["age"].begins) and len(own["age"].begins) < 30
    assert own["age"].words(1).startswith(f"from 0 to 99 or NULL; in {own['age'].groups} cells that begin at 0 and ")
    assert own["city"].words(12) == "one of 'Bern', 'Basel', 'Genf' or NULL; its values are told apart in 2 groups, and those inside a group are drawn"  # fmt: skip


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
        ((noted,),) = sales.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'sales_synthetic' AND database_name = ?", [database]).fetchall()  # fmt: skip
        assert "At most 2 rows of each person were used, and all counts are of these rows: " in noted  # fmt: skip
        assert "About 25% of the rows have a kind that is not on its list." in noted
    ((column,),) = sales.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 'sales_synthetic' AND column_name = 'price' AND database_name = 'memory'").fetchall()  # fmt: skip
    assert "in 4 cells that begin at" in column
