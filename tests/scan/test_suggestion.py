"""What is suggested declares what is in the table, in round numbers and without rare values."""

from __future__ import annotations

import duckdb
import pytest
from chance import sampled

from mwem_sql.boundary import relations
from mwem_sql.platform.catalog import Place
from mwem_sql.scan import suggestion
from mwem_sql.scan.suggestion import Suggestion, suggest_domain


def suggested(con: duckdb.DuckDBPyConnection, *declared: str) -> dict[str, Suggestion]:
    relation = relations.describe(con.cursor(), "t", Place("memory", "main"), "f")
    return {each.attribute: each for each in suggest_domain(con.cursor(), relation, declared)}


def test_suggestions_are_round_and_common(plain: duckdb.DuckDBPyConnection) -> None:
    plain.execute(
        """CREATE TABLE t (id INTEGER, "my age" INTEGER, sex VARCHAR, name VARCHAR, d DATE, x DOUBLE, empty INTEGER,
            class INTEGER, rare VARCHAR, town VARCHAR, mail VARCHAR);
           INSERT INTO t SELECT i, 20 + i % 51, CASE WHEN i % 2 = 0 THEN 'it''s' ELSE 'M' END, 'name ' || i,
           DATE '2020-01-05' + (i % 9)::INTEGER,
               i / 4, NULL, 1 + i % 3, CASE WHEN i < 3 THEN 'prince' ELSE 'other' END, CASE
               WHEN i % 2 = 0 THEN 'n' || i WHEN i % 3 = 0 THEN 'Genf' ELSE 'Bern' END, 'm' || greatest(i, 6)
           FROM range(200) r(i);
           INSERT INTO t (sex, x, d) VALUES ('M', 'nan', 'infinity'), ('M', 'inf', NULL), ('M', NULL, NULL)"""
    )
    found = suggested(plain)
    shown = {
        name: (each.values, each.low, each.high, each.bins, each.nullable, each.open)
        for name, each in found.items()
        if not each.missing
    }
    assert shown == {
        "my age": (None, "10", "80", None, True, False),  # 20 and 70 are round, but less than five rows have them
        "sex": (["M", "it's"], None, None, None, False, True),  # a list is open
        "d": (None, "2020-01-05", "2020-01-13", None, True, False),
        "x": (None, "0", "50", 10, True, False),
        "class": (None, "1", "3", None, True, False),
        "rare": (["other"], None, None, None, True, True),
        "town": (["Bern", "Genf"], None, None, None, True, True),
    }
    assert {name: each.missing for name, each in found.items() if each.missing} == {
        "id": "every row has another value, so it is a key and no category",
        "name": "every row has another value, so it is a key and no category",
        "empty": "no row has a value in it",
        "mail": "194 different values, hardly any of them in 5 rows or more",
    }
    assert suggested(plain, "x", "sex").keys() == found.keys() - {"x", "sex"}


def one(con: duckdb.DuckDBPyConnection, value: str, rows: int = 1000, name: str = "x") -> Suggestion:
    """What is suggested of one column, whose rows are numbered by i."""
    con.execute(f'CREATE OR REPLACE TABLE t AS SELECT {value} AS "{name}" FROM range({rows}) AS r(i)')
    return suggested(con)[name]


def counts(con: duckdb.DuckDBPyConnection, found: Suggestion) -> list[int]:
    """Rows in each of the bins that begin at edges."""
    assert found.edges is not None
    value = found.read_as or f'"{found.attribute}"'
    ends = [found.low, *found.edges]
    asked = ", ".join(f"count(*) FILTER ({value} >= '{end}')" for end in ends)
    (above,) = con.execute(f"SELECT {asked} FROM t").fetchall()
    return [here - there for here, there in zip(above, [*above[1:], 0], strict=True)]


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "DECIMAL(9,2)"])
def test_whole_numbers_are_whole_in_any_type(plain: duckdb.DuckDBPyConnection, kind: str) -> None:
    found = one(plain, f"(1 + i % 10)::{kind}")
    assert (found.low, found.high, found.bins, found.edges, found.open) == (None,) * 4 + (True,)
    assert found.values is not None and list(map(float, found.values)) == list(range(1, 11))
    assert found.reason == f"whole numbers in a column of the type {kind}; an open list of them"
    many = one(plain, f"(i % 800)::{kind}")
    assert (many.low, many.high, many.bins) == ("0", "800", 16)
    assert many.read_as == 'TRY_CAST("x" AS BIGINT)'
    half = one(plain, f"(i % 800 / 2)::{kind}")
    assert (half.read_as, half.bins) == (None, 20)


@pytest.mark.parametrize(
    ("value", "values"),
    sampled(
        [
            ("[0.5, 1.5, 9.75][1 + i % 3]::DOUBLE", ["0.5", "1.5", "9.75"]),
            ("[10, 1000, 20, 50][1 + i % 4]", ["10", "20", "50", "1000"]),
            ("[5.0, 100.0][1 + i % 2]::DOUBLE", ["5", "100"]),
            ("[0.10, 0.25][1 + i % 2]::DECIMAL(4,2)", ["0.10", "0.25"]),
            ("DATE '2020-01-01' + 90 * (i % 3)::INTEGER", ["2020-01-01", "2020-03-31", "2020-06-29"]),
            (
                "CASE WHEN i < 3 THEN 7.25 ELSE [0.5, 1.5][1 + i % 2] END::DOUBLE",
                None,
            ),  # three rows are too few to be listed
            ("1 + i % 4", None),  # without gaps a range says the same
            ("(i % 21) * 1.5::DOUBLE", None),
        ],
        3,
    ),
)
def test_few_numbers_are_an_open_list(plain: duckdb.DuckDBPyConnection, value: str, values: list[str] | None) -> None:
    found = one(plain, value)
    assert found.values == values
    assert found.open == (values is not None)


@pytest.mark.parametrize("code", sampled(["N", "NA", "n/a", "?", "", " ", "NaN", ".", "not asked"], 3))
def test_numbers_with_a_code_are_numbers_with_null(plain: duckdb.DuckDBPyConnection, code: str) -> None:
    found = one(plain, f"CASE WHEN i % 10 = 0 THEN '{code}' ELSE (i % 90)::VARCHAR END")
    assert (found.low, found.high, found.nullable, found.open) == ("0", "90", True, False)
    assert f"'{code}' for a missing one" in found.reason
    assert plain.execute(
        f"SELECT count(*) FILTER ({found.read_as} IS NULL), max({found.read_as}) FROM t"
    ).fetchall() == [(100, 89)]
    parts = one(plain, f"CASE WHEN i % 10 = 0 THEN '{code}' ELSE (i % 90 / 4)::VARCHAR END")
    assert parts.read_as is not None and "DOUBLE" in parts.read_as
    assert plain.execute(
        f"SELECT count(*) FILTER ({parts.read_as} IS NULL), max({parts.read_as}) FROM t"
    ).fetchall() == [(100, 22.25)]


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "VARCHAR"])
def test_minus_nine_among_numbers_from_0_on_is_a_code(plain: duckdb.DuckDBPyConnection, kind: str) -> None:
    found = one(plain, f"CASE WHEN i % 10 = 0 THEN -9 WHEN i % 10 = 1 THEN -99 ELSE i % 90 END::{kind}")
    assert (found.low, found.high, found.nullable) == ("0", "90", True)
    assert plain.execute(f"SELECT count(*) FILTER (({found.read_as}) IS NULL) FROM t").fetchall() == [(200,)]
    assert "'-9' or '-99' for a missing one" in found.reason
    cold = one(plain, f"(i % 30 - 9)::{kind}")  # -8, too: a temperature
    assert (cold.low, cold.read_as or "") != ("0", "") and "NULLIF" not in (cold.read_as or "")


@pytest.mark.parametrize(
    "value",
    [
        "['N', 'Y', '1'][1 + i % 3]",  # two texts that are no codes
        "'0' || (1000 + i % 50)",  # a zip code has its zeros
        "['1', '2'][1 + i % 2]",  # few, and all there: a list of codes
        "CASE WHEN i % 50 = 0 THEN (i % 7)::VARCHAR ELSE 'ward' END",  # hardly any number
    ],
)
def test_what_is_no_number_stays_text(plain: duckdb.DuckDBPyConnection, value: str) -> None:
    found = one(plain, value)
    assert found.read_as is None
    assert found.open and found.values


@pytest.mark.parametrize(
    ("value", "name", "most"),
    sampled(
        [
            ("i // 8", "x", 8),
            ("md5((i // 8)::VARCHAR)::UUID", "x", 8),
            ("hash(i) % 150", "x", None),  # each about as often as chance makes it
            ("'p' || i // 8", "x", 8),
            ("(sqrt(i) * 4)::INTEGER", "patient", 16),  # not each as often, but the name says what it is
            ("(sqrt(i) * 4)::INTEGER", "patientId", 16),
            ("(sqrt(i) * 4)::INTEGER", "duration", None),
            ("(i // 8)::DOUBLE", "user_id", 8),
            ("i // 25", "household", 25),
            ("i // 25", "x", None),  # forty values may be anything
            ("i // 100", "person", None),  # ten people
        ],
        5,
    ),
)
def test_an_id_is_proposed_as_the_unit(
    plain: duckdb.DuckDBPyConnection, value: str, name: str, most: int | None
) -> None:
    found = one(plain, value, name=name)
    assert found.rows_per_unit == most
    assert bool(found.missing) == (most is not None)
    if most is not None:
        assert plain.execute(f'SELECT max(n) FROM (SELECT count(*) AS n FROM t GROUP BY "{name}")').fetchall() == [
            (most,)
        ]
        assert f"values, each in about as many rows, {most} at most" in found.missing


def test_of_several_ids_the_one_with_the_most_rows_is_the_unit(plain: duckdb.DuckDBPyConnection) -> None:
    plain.execute(
        "CREATE TABLE t AS SELECT i // 2 AS visit_id, i // 6 AS person_id, i AS row_id FROM range(3000) AS r(i)"
    )
    found = suggested(plain)
    assert {name: each.rows_per_unit for name, each in found.items()} == {
        "visit_id": None,
        "person_id": 6,
        "row_id": None,
    }
    assert all(each.missing for each in found.values())


@pytest.mark.parametrize(
    "value",
    sampled([
        "CASE WHEN i = 7 THEN 58 ELSE i % 997 / 997 END::DOUBLE",  # of 12 equal bins one would have everything
        "exp(i % 1000 / 100)::DOUBLE",
        "exp(i % 1000 / 100)::INTEGER",
        "exp(i % 1000 / 100)::DECIMAL(10,2)",
        "CASE WHEN i = 7 THEN 1e12 ELSE i % 997 END::DOUBLE + 0.5",
        "DATE '2020-01-01' + (i % 900)::INTEGER",
        "CASE WHEN i = 7 THEN DATE '1900-01-01' ELSE DATE '2020-01-01' + (i % 150)::INTEGER END",
        "TIMESTAMP '2020-01-01' + INTERVAL 1 MINUTE * (i % 4000)",
    ], 3),
)  # fmt: skip
def test_no_bin_has_many_times_its_part(plain: duckdb.DuckDBPyConnection, value: str) -> None:
    found = one(plain, value, rows=4000)
    rows = counts(plain, found)
    assert sum(rows) == 4000
    assert 8 <= len(rows) <= 25
    assert max(rows) <= 3 * 4000 / 20
    assert max(map(len, (each.rstrip("0") for each in (found.edges or [])))) <= len("2020-01-01 00:00:00")


@pytest.mark.parametrize(
    ("value", "edges"),
    [
        ("CASE WHEN i % 10 > 0 THEN 0 ELSE 1 + i * 37 % 20000 END", ["1", "2000"]),
        ("CASE WHEN i % 10 > 0 THEN 0 ELSE (1 + i * 37 % 20000) / 100 END::DECIMAL(10,2)", ["0.01", "20.00"]),
        ("CASE WHEN i % 10 > 0 THEN 0.5 ELSE (i * 37 % 20000) / 100 + 20.25 END::DOUBLE", ["0.5", "0.6"]),
        ("CASE WHEN i % 10 > 0 THEN DATE '1970-01-01' ELSE DATE '2020-01-01' + (i % 900)::INTEGER END", ["1970-01-02"]),
    ],
)  # fmt: skip
def test_a_value_with_very_many_rows_is_a_bin_of_its_own(
    plain: duckdb.DuckDBPyConnection, value: str, edges: list[str]
) -> None:
    found = one(plain, value, rows=4000)
    assert found.edges is not None
    assert set(edges) <= set(found.edges)
    assert "in 90% of the rows" in found.reason
    rows = sorted(counts(plain, found))
    assert rows[-1] == 3600  # and no other row
    assert rows[-2] <= 3 * 400 / 20 + 5


def test_an_end_that_very_many_rows_have_is_the_end(plain: duckdb.DuckDBPyConnection) -> None:
    """501 for all that is more."""
    found = one(plain, "least(501, i % 2000)", rows=4000)
    assert (found.low, found.high, (found.edges or [])[-1]) == ("0", "501", "501")
    around = one(plain, "CASE WHEN i % 50 = 0 THEN -i ELSE i * i END::DOUBLE + 0.5", rows=1000)
    assert (around.low, around.high) == ("-1000", "1000000")  # of their own size, each


def test_few_rows_make_equal_bins(plain: duckdb.DuckDBPyConnection) -> None:
    found = one(plain, "exp(i / 9)::DOUBLE", rows=99)
    assert (found.bins, found.edges) == (12, None)
    assert one(plain, "0.5::DOUBLE", rows=1).bins is not None
    assert one(plain, "i", rows=0).missing == "no row has a value in it"
    assert one(plain, "'inf'::DOUBLE", rows=10).missing == "no row has a finite value in it"


@pytest.mark.parametrize(
    ("name", "is_unit", "is_id"),
    [
        ("person", True, True), ("person_id", True, True), ("PersonID", True, True), ("userid", True, True),
        ("UserId", True, True),
        ("id", False, True), ("store_id", False, True), ("SERIALNO", False, True), ("paid", False, False),
        ("humid", False, False),
        ("customer_age", False, False), ("household_size", False, False), ("", False, False), ("123", False, False),
    ],
)  # fmt: skip
def test_names_of_ids(name: str, is_unit: bool, is_id: bool) -> None:
    assert (suggestion._names_unit(name), suggestion.names_id(name)) == (is_unit, is_id)
