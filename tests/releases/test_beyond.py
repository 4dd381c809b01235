"""Values off the domain are counted by themselves, shown, and said where they are many."""

from __future__ import annotations

import pytest
from conftest import Connection, Open

DRIFT = """
    CREATE TABLE d AS
    SELECT (i * 7919) % 130 AS price, ['Fair', 'Good', 'Ideal', 'New'][1 + (i * 31) % 10 // 3] AS cut,
           CASE WHEN i % 50 = 0 THEN 'nan'::DOUBLE ELSE i % 100 END AS x, CASE WHEN i % 20 > 0 THEN i % 3 END AS n
    FROM range(20000) t(i);
    ALTER TABLE d ALTER cut SET NOT NULL;
    CREATE TABLE d_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, bins INTEGER);
    INSERT INTO d_domain VALUES ('price', NULL, '0', '99', 10), ('cut', ['Fair', 'Good', 'Ideal'], NULL, NULL, NULL),
        ('x', NULL, '0', '90', 9), ('n', ['0', '1', '2'], NULL, NULL, NULL);
    CREATE TABLE w (predicate VARCHAR, group_by VARCHAR);
    INSERT INTO w VALUES (NULL, 'price'), (NULL, 'cut'), (NULL, 'x'), (NULL, 'n')"""


@pytest.fixture
def con(connect: Open) -> Connection:
    con = connect()
    con.execute(DRIFT)
    return con


QUESTIONS = [
    "cut = 'Fair'", "cut <> 'Fair'", "cut IS NULL", "cut IN ('Good', 'Ideal')", "NOT cut IN ('Good', 'Ideal')",
    "price > 99", "price >= 100",
    "price < 0", "price < 100", "price BETWEEN 0 AND 99", "x > 90", "n IS NULL", "n = 2", "n <> 2",
]  # fmt: skip


def test_nothing_is_counted_as_something_else(con: Connection) -> None:
    """With next to no noise, answers are those of the table, whatever its domain says."""
    con.execute("CALL mwem_release('d', w, 1000, seed := 1)")
    con.execute("CREATE TABLE asked (predicate VARCHAR)")
    con.executemany("INSERT INTO asked VALUES (?)", [[text] for text in QUESTIONS])
    answers = con.execute("SELECT name, round(answer), measured FROM mwem_answer('d_synthetic', asked)").fetchall()
    counts = [con.execute(f"SELECT count(*) FROM d WHERE {text}").fetchall()[0][0] for text in QUESTIONS]
    expected = list(zip(QUESTIONS, counts, strict=True))
    for (name, answer, measured), (text, true) in zip(answers, expected, strict=True):
        assert (name, measured) == (text, "directly")
        assert abs(answer - true) <= 2


def test_the_summary_says_where_they_are_many(con: Connection) -> None:
    (said,) = con.execute("SELECT warning FROM mwem_release('d', w, 1000, seed := 1)").fetchall()[0]
    assert "about 10% of the rows have a cut that is not on its list" in said
    assert "about 23% of the rows have a price above 99" in said
    assert "about 11% of the rows have a x above 90" in said
    assert "rows have a n" not in said  # 5% are NULL, which is no value off its list
    assert "below" not in said


def test_synthetic_rows_show_them_as_null_or_as_the_bound(con: Connection) -> None:
    con.execute("CALL mwem_release('d', w, 1000, seed := 1)")
    query = (
        "SELECT count(*) FILTER (cut IS NULL), count(*) FILTER (price = 99), min(price), max(price) FROM d_synthetic"
    )
    others, bounds, least, most = con.execute(query).fetchall()[0]
    assert abs(others - 2000) < 10
    assert 4600 < bounds < 5000
    assert (least, most) == (0, 99)


def test_cells_are_named(con: Connection) -> None:
    con.execute("CALL mwem_release('d', w, 1000, seed := 1)")
    con.execute("CREATE TABLE asked AS SELECT 'cut' AS group_by UNION ALL SELECT 'price'")
    cells = [cell for (cell,) in con.execute("SELECT cell[1] FROM mwem_answer('d_synthetic', asked)").fetchall()]
    assert cells[:4] == ["Fair", "Good", "Ideal", "(other)"]
    assert cells[4] == "below 0" and "above 99" in cells


DOUBTS = {
    "cut LIKE 'N%'": "in part", "NOT cut LIKE 'N%'": "in part", "cut > 'Good'": "in part",
    "upper(cut) = 'FAIR'": "in part",
    "cut = 'Fair' OR cut = 'Good'": "directly", "cut IS NOT NULL": "directly", "price > 110": "in part",
    "price * 2 > 210": "in part", "price % 2 = 0": "in part",
    "price::BIGINT % 10 = 5": "in part", "n * 2 > 3": "in part", "n = 2.0": "directly",
}  # fmt: skip


def test_a_condition_in_doubt_lies_between_two_answers(con: Connection) -> None:
    """One value stands for all that are off the domain; where a condition may say another thing of others, the
    interval has both.
    """
    con.execute("CALL mwem_release('d', w, 1000, seed := 1)")
    con.execute("CREATE TABLE asked (predicate VARCHAR)")
    con.executemany("INSERT INTO asked VALUES (?)", [[text] for text in DOUBTS])
    answers = con.execute("SELECT name, low, high, measured FROM mwem_answer('d_synthetic', asked)").fetchall()
    assert {name: measured for name, _, _, measured in answers} == DOUBTS
    for name, low, high, _ in answers:
        ((true,),) = con.execute(f"SELECT count(*) FROM d WHERE {name}").fetchall()
        assert low - 1 <= true <= high + 1, name


def test_sums_have_no_ends_where_many_values_are_beyond_a_bound(con: Connection) -> None:
    """Nobody knows how far beyond they are. Each is summed up as the bound, and the note says so, be they many or
    none.
    """
    con.execute("CREATE TABLE sums AS SELECT unnest(['sum(price)', 'avg(x)', 'sum(age)']) AS measure")
    con.execute(
        "ALTER TABLE d ADD COLUMN age INTEGER DEFAULT 7; INSERT INTO d_domain VALUES ('age', NULL, '0', '99', NULL)"
    )
    con.execute("CALL mwem_release('d', sums, 1000, seed := 1)")
    rows = con.execute("SELECT name, low, high, measured, note FROM mwem_answer('d_synthetic', sums)").fetchall()
    for (name, low, high, measured, note), column, most in zip(rows, "px", (99, 90.0), strict=False):
        assert (low, high, measured) == (None, None, "in part"), name
        assert note is not None and note.endswith(f"beyond {most * 0} to {most} counts as the bound"), column
    _, low, high, _, note = rows[2]
    assert low <= 140_000 <= high and note == "a age beyond 0 to 99 counts as the bound"
