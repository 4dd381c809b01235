"""The suggested script runs as it is, from the file to the release, and says what it is."""

from __future__ import annotations

import re

import duckdb
import pytest
from chance import sampled
from conftest import Connection, Open

import mwem_sql

TITANIC = """
    CREATE TABLE {table} AS SELECT i AS id, i % 2 = 0 AS survived, 1 + i % 3 AS class, 'Name ' || i AS name, ['male', 'female'][1 + i % 2] AS sex,
        CASE WHEN i % 5 > 0 THEN (i * 37 % 800 + 17) / 100 * 10 END AS age, i * 7919 % 100003 / 200.0::DOUBLE AS fare,
        CASE WHEN i % 12 = 0 THEN 'B' || i % 24 WHEN i % 4 = 0 THEN 'C' || i END AS cabin, DATE '1912-01-01' + (i % 700)::INTEGER AS "day of birth"
    FROM range(1304) t(i)"""


def script_of(con: Connection, table: str) -> str:
    ((script,),) = con.execute("SELECT DISTINCT script FROM mwem_suggest_domain(?)", [table]).fetchall()
    return str(script)


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
        'CREATE OR REPLACE TABLE titanic_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, bins INTEGER, nullable BOOLEAN, open BOOLEAN);'
    ]
    left_out = [line for line in lines if "is left out" in line]
    assert [line.split()[2] for line in left_out] == ["id", "name"]
    assert any("survived is declared in the schema: BOOLEAN" in line for line in lines)
    (fare,) = [line for line in lines if "'fare'" in line]
    assert fare.startswith("INSERT INTO titanic_domain VALUES ('fare', NULL, '0', '500', 10, FALSE, FALSE);")
    (cabin,) = [line for line in lines if "'cabin'" in line]
    assert cabin.endswith("Take out what could name a person.") and " TRUE, TRUE);" in cabin  # an open list
    highest = con.execute("SELECT max(fare)::VARCHAR, max(age)::VARCHAR FROM titanic").fetchall()[0]
    assert not any(f"'{value.removesuffix('.0')}'" in line for value in highest for line in lines)


def test_a_row_by_itself_can_be_declared(con: Connection) -> None:
    """`ddl` names its columns, and fits a domain table that has only those."""
    con.execute(TITANIC.format(table="titanic"))
    con.execute(
        'CREATE TABLE titanic_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, nullable BOOLEAN)'
    )
    ((ddl,),) = con.execute("SELECT ddl FROM mwem_suggest_domain('titanic') WHERE attribute = 'class'").fetchall()
    con.execute(ddl)
    assert [item.name for item in mwem_sql.Domain.from_schema(con, "titanic")] == ["survived", "class"]


def test_nothing_in_a_comment_ends_it(connect: Open) -> None:
    con = connect()
    con.execute(
        'CREATE TABLE t AS SELECT i % 2 AS "a\n; DROP TABLE t; --", i % 3 AS "b\u2028\x85c", NULL AS "e\r\nSELECT 1" FROM range(99) r(i)'
    )
    script = script_of(con, "t")
    for statement in duckdb.extract_statements(script):
        con.execute(statement).fetchall()
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(99,)]
    assert re.findall("^(?!--|CREATE|INSERT|CALL).+", script, re.MULTILINE) == ["; DROP TABLE t; --', NULL, '0', '1', NULL, FALSE, FALSE);  -- CHECK a ; DROP TABLE t; --: which values are possible? Those outside count as the nearest bound."]  # fmt: skip  # the rest of a text in quotes


@pytest.mark.parametrize(
    ("value", "bounds"),
    sampled([
        ("3.0::DOUBLE", ("3", "3", 1)),
        ("'-0.0'::DOUBLE", ("0", "0", 1)),
        ("5e-324::DOUBLE", ("0", "2e-323", 20)),
        ("1.7e308::DOUBLE", ("8e+307", "8.988465674311579e+307", 20)),  # beyond every bound: it counts as the last
        ("0.1::FLOAT", ("0.1", "0.1", 1)),
        ("3.00::DECIMAL(8,2)", ("3.00", "3.00", 1)),
        ("9223372036854775807::BIGINT", ("4500000000000000000", "4611686018427387903", 20)),
        ("DATE '290000-01-01'", ("9999-12-31", "9999-12-31", None)),
        ("TIMESTAMP '2000-01-01'", ("2000-01-01 00:00:00", "2000-01-01 00:00:00", 1)),
    ], 3),
)  # fmt: skip
def test_a_column_with_one_value_has_a_domain(connect: Open, value: str, bounds: tuple[str, str, int | None]) -> None:
    con = connect()
    con.execute(f"CREATE TABLE t AS SELECT {value} AS x, i % 2 = 0 AS y FROM range(100) AS r(i)")
    for statement in duckdb.extract_statements(script_of(con, "t")):
        con.execute(statement)
    assert con.execute("SELECT low, high, bins FROM t_domain").fetchall() == [bounds]
    assert con.execute("SELECT count(DISTINCT output) FROM mwem_ledger() WHERE epsilon > 0").fetchone() == (1,)
