"""The suggested script runs as it is, from the file to the release, and says what it is."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from chance import sampled
from conftest import Connection, Open

import mwem_sql

TITANIC = """
    CREATE TABLE {table} AS SELECT i AS id, i % 2 = 0 AS survived, 1 + i % 3 AS class, 'Name ' || i AS name, ['male',
        'female'][1 + i % 2] AS sex,
        CASE WHEN i % 5 > 0 THEN (i * 37 % 800 + 17) / 100 * 10 END AS age, i * 7919 % 100003 / 200.0::DOUBLE AS fare,
        CASE WHEN i % 12 = 0 THEN 'B' || i % 24 WHEN i % 4 = 0 THEN 'C' || i END AS cabin,
            DATE '1912-01-01' + (i % 700)::INTEGER AS "day of birth"
    FROM range(1304) t(i)"""


def script_of(con: Connection, table: str) -> str:
    (first, *others) = con.execute("SELECT script FROM mwem_suggest_domain(?)", [table]).fetchall()
    assert set(others) <= {(None,)}  # it is there once
    return str(first[0])


@pytest.mark.parametrize("table", sampled(["titanic", '"the ""titanic"""', "elsewhere.sea.titanic"], 1))
def test_the_script_runs_as_it_is(connect: Open, table: str) -> None:
    con = connect()
    con.execute("ATTACH ':memory:' AS elsewhere; CREATE SCHEMA elsewhere.sea")
    con.execute(TITANIC.format(table=table))
    script = script_of(con, table)
    assert script.startswith("-- NOT PRIVATE. ")
    statements = duckdb.extract_statements(script)
    for statement in statements:
        rows = con.execute(statement).fetchall()
    ((release, *_),) = rows  # the last one is the release
    assert release == 1
    ((output,),) = con.execute("SELECT output FROM mwem_ledger() WHERE epsilon > 0").fetchall()
    assert output.endswith(("titanic_synthetic", 'the "titanic"_synthetic'))
    # Again: the script is what the tables come from, and the same request is the same release.
    assert [con.execute(statement).fetchall() for statement in statements][-1][0][11] is True


def test_every_line_that_a_person_must_check_says_so(connect: Open) -> None:
    con = connect()
    con.execute(TITANIC.format(table="titanic"))
    lines = script_of(con, "titanic").splitlines()
    assert [line for line in lines if line and not line.startswith("--") and "-- CHECK" not in line] == [
        (
            'CREATE OR REPLACE TABLE titanic_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, '
            "step VARCHAR, bins INTEGER, edges VARCHAR[], nullable BOOLEAN, open BOOLEAN);"
        )
    ]
    left_out = [line for line in lines if "is left out" in line]
    assert [line.split()[2] for line in left_out] == ["id", "name"]
    assert any("survived is declared in the schema: BOOLEAN" in line for line in lines)
    (fare,) = [line for line in lines if "'fare'" in line]
    assert fare.startswith(
        "INSERT INTO titanic_domain (attribute, low, high, bins, nullable) VALUES ('fare', '0', '500', 10, FALSE);"
    )
    (cabin,) = [line for line in lines if "'cabin'" in line]
    assert cabin.endswith("Take out what could name a person.") and " TRUE, TRUE);" in cabin  # an open list
    highest = con.execute("SELECT max(fare)::VARCHAR, max(age)::VARCHAR FROM titanic").fetchall()[0]
    assert not any(f"'{value.removesuffix('.0')}'" in line for value in highest for line in lines)


def test_a_row_by_itself_can_be_declared(con: Connection) -> None:
    """`ddl` names its columns, and fits a domain table that has only those."""
    con.execute(TITANIC.format(table="titanic"))
    con.execute(
        'CREATE TABLE titanic_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, nullable '
        "BOOLEAN)"
    )
    ((ddl,),) = con.execute("SELECT ddl FROM mwem_suggest_domain('titanic') WHERE attribute = 'class'").fetchall()
    con.execute(ddl)
    assert [item.name for item in mwem_sql.Domain.from_schema(con, "titanic")] == ["survived", "class"]


def test_nothing_in_a_comment_ends_it(connect: Open) -> None:
    con = connect()
    con.execute(
        'CREATE TABLE t AS SELECT i % 2 AS "a\n; DROP TABLE t; --", i % 3 AS "b\u2028\x85c", NULL AS "e\r\nSELECT 1" '
        "FROM range(99) r(i)"
    )
    script = script_of(con, "t")
    for statement in duckdb.extract_statements(script):
        con.execute(statement).fetchall()
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(99,)]
    rest_of_a_text_in_quotes = (
        "; DROP TABLE t; --', '0', '1', FALSE);  -- CHECK a ; DROP TABLE t; --: whole numbers; each is a value of its "
        "own."
        " Which values are possible? Those beyond are counted apart, and shown as the nearest bound."
    )
    assert re.findall("^(?!--|CREATE|INSERT|CALL).+", script, re.MULTILINE) == [rest_of_a_text_in_quotes]


@pytest.mark.parametrize(
    ("value", "bounds"),
    sampled([
        ("3.0::DOUBLE", (None, None, None, None, None)),
        ("'-0.0'::DOUBLE", (None, None, None, None, None)),
        ("5e-324::DOUBLE", ("0", "2e-323", None, None, ["5e-324"])),
        ("1.7e308::DOUBLE",
            ("8e+307", "8.988465674311579e+307", None, 20, None)),  # beyond every bound: it counts as the last
        ("0.1::FLOAT", ("0.1", "0.1", None, 1, None)),
        ("3.00::DECIMAL(8,2)", (None, None, None, None, None)),
        ("9223372036854775807::BIGINT", ("4500000000000000000", "4611686018427387903", None, 20, None)),
        ("DATE '290000-01-01'", ("9999-12-31", "9999-12-31", None, None, None)),
        ("TIMESTAMP '2000-01-01'", ("2000-01-01 00:00:00", "2000-01-01 00:00:00", None, 1, None)),
    ], 3),
)  # fmt: skip
def test_a_column_with_one_value_has_a_domain(connect: Open, value: str, bounds: tuple[object, ...]) -> None:
    con = connect()
    con.execute(f"CREATE TABLE t AS SELECT {value} AS x, i % 2 = 0 AS y FROM range(100) AS r(i)")
    for statement in duckdb.extract_statements(script_of(con, "t")):
        con.execute(statement)
    assert con.execute("SELECT low, high, step, bins, edges FROM t_domain").fetchall() == [bounds]
    assert con.execute("SELECT count(DISTINCT output) FROM mwem_ledger() WHERE epsilon > 0").fetchone() == (1,)


CLINIC = """
    CREATE TABLE {table} AS SELECT i // 4 AS patient, CASE WHEN i % 10 = 0 THEN 'N' ELSE (i % 300)::VARCHAR
        END AS score, (i % 500)::DOUBLE AS minutes,
        CASE WHEN i % 7 = 0 THEN -9 ELSE i % 40 END AS pain, i % 2 = 0 AS home FROM range(1200) t(i)"""


@pytest.mark.parametrize("table", sampled(["clinic", '"the ""clinic"""', "elsewhere.sea.clinic"], 1))
def test_numbers_are_read_by_a_view_and_an_id_is_the_unit(connect: Open, table: str) -> None:
    con = connect()
    con.execute("ATTACH ':memory:' AS elsewhere; CREATE SCHEMA elsewhere.sea")
    con.execute(CLINIC.format(table=table))
    for statement in duckdb.extract_statements(script_of(con, table)):
        rows = con.execute(statement).fetchall()
    ((release, output, *more),) = rows
    assert release == 1
    assert output.endswith(("clinic_synthetic", 'the "clinic"_synthetic'))
    assert "one patient, at most 4 rows" in more
    name = (
        "elsewhere.sea.clinic_synthetic"
        if table.startswith("else")
        else table.replace("clinic", "clinic_synthetic")
        if table == "clinic"
        else '"the ""clinic""_synthetic"'
    )
    columns = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE {name})").fetchall()
    assert columns == [("score", "BIGINT"), ("minutes", "BIGINT"), ("pain", "BIGINT"), ("home", "BOOLEAN")]
    ((least, missing),) = con.execute(f"SELECT min(pain), count(*) FILTER (score IS NULL) FROM {name}").fetchall()
    assert least >= 0 and 0 < missing < 400


def test_a_file_has_its_view_too(connect: Open, tmp_path: Path) -> None:
    con = connect()
    con.execute(CLINIC.format(table="clinic"))
    file = tmp_path / "clinic.parquet"
    con.execute(f"COPY clinic TO '{file}'")
    script = script_of(con, str(file))
    assert f'FROM "{file}";' in script
    for statement in duckdb.extract_statements(script):
        con.execute(statement).fetchall()
    assert con.execute("SELECT typeof(any_value(score)) FROM clinic_synthetic").fetchall() == [("BIGINT",)]


def test_a_line_can_be_declared_by_itself_with_edges(connect: Open) -> None:
    con = connect()
    con.execute("CREATE TABLE t AS SELECT exp(i % 1000 / 100)::DOUBLE AS pay, i % 2 = 0 AS b FROM range(3000) AS r(i)")
    con.execute(
        "CREATE TABLE t_domain (attribute VARCHAR, low VARCHAR, high VARCHAR, edges VARCHAR[], nullable BOOLEAN)"
    )
    ((ddl, edges),) = con.execute("SELECT ddl, edges FROM mwem_suggest_domain('t') WHERE attribute = 'pay'").fetchall()
    con.execute(ddl)
    # NULL, and what is below and above: three more.
    assert con.execute("SELECT len(edges), cells FROM mwem_domain('t') WHERE attribute = 'pay'").fetchall() == [
        (len(edges), len(edges) + 1 + 3)
    ]
