"""What a schema or a domain table declares: bounds, lists, NULL; and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import duckdb
import pytest
from chance import examples, sampled
from compilers import declare
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError


@pytest.fixture(scope="module")
def shared() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


@pytest.fixture
def con(shared: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with nothing in it."""
    shared.execute(
        "DROP SCHEMA IF EXISTS scratch CASCADE; CREATE SCHEMA scratch; USE memory.scratch; SET TimeZone = 'Asia/Tokyo'"
    )
    yield shared
    shared.execute("USE memory.main")


def declared(con: duckdb.DuckDBPyConnection, definitions: Iterable[str]) -> dict[str, Attribute]:
    """What a schema declares of a column c, for each definition of it; all are columns of one table."""
    named = {f"c{k}": definition for k, definition in enumerate(definitions)}
    columns = [f"{name} " + re.sub(r"\bc\b(?!')", name, definition) for name, definition in named.items()]
    con.execute(f"CREATE OR REPLACE TABLE t ({', '.join(columns)}, other INTEGER)")
    return {named[attribute.name]: attribute for attribute in Domain.from_schema(con, "t")}


BOUNDS = {
    "INTEGER CHECK (c BETWEEN 17 AND 90)": ("17", "90"),
    "INTEGER CHECK (c >= 17 AND c <= 90)": ("17", "90"),
    "INTEGER CHECK (c > 17 AND c < 90)": ("18", "89"),
    "INTEGER CHECK (17 < c AND 90 >= c)": ("18", "90"),
    "INTEGER CHECK ((c) BETWEEN (17) AND (90))": ("17", "90"),
    "INTEGER CHECK (c >= 0) CHECK (c <= 9)": ("0", "9"),
    "INTEGER CHECK (c >= 0 AND c >= 3) CHECK (c <= 9 AND c < 100)": ("3", "9"),
    "INTEGER CHECK (c >= -5 AND c < 2 + 3)": ("-5", "4"),
    "INTEGER CHECK (c > 3.5 AND c < 7.5)": ("4", "7"),
    "INTEGER CHECK (c >= 3.5 AND c <= 7.5)": ("4", "7"),
    "INTEGER CHECK (c >= '3' AND c <= '7')": ("3", "7"),
    "INTEGER CHECK (c > 2.5::DOUBLE AND c < 3.5::DOUBLE)": ("3", "3"),
    "TINYINT CHECK (c BETWEEN 0 AND 1000)": ("0", "127"),
    "UTINYINT CHECK (c >= -1 AND c < 300)": ("0", "255"),
    "BIGINT CHECK (c BETWEEN -9223372036854775808 AND 9223372036854775807)": (
        "-4611686018427387903",
        "4611686018427387903",
    ),
    "HUGEINT CHECK (c BETWEEN 0 AND 1e30::HUGEINT)": ("0", "4611686018427387903"),
    "UBIGINT CHECK (c BETWEEN 0 AND 10)": ("0", "10"),
    "DECIMAL(5,2) CHECK (c BETWEEN 0.5 AND 9.99)": ("0.50", "9.99"),
    "DECIMAL(5,2) CHECK (c > -1 AND c < 1)": ("-0.99", "0.99"),
    "DECIMAL(5,2) CHECK (c > 0.005 AND c < 0.015)": ("0.01", "0.01"),
    "DECIMAL(5,2) CHECK (c BETWEEN -5000 AND 5000)": ("-999.99", "999.99"),
    "DOUBLE CHECK (c BETWEEN 0 AND 1e6)": ("0.0", "1000000.0"),
    "DOUBLE CHECK (c > 0 AND c < 1)": ("5e-324", "0.9999999999999999"),
    "DOUBLE CHECK (c >= 0.1 AND c <= 0.3)": ("0.1", "0.3"),
    "DOUBLE CHECK (c BETWEEN 1e18 AND 1e20)": ("1e+18", "1e+20"),
    "FLOAT CHECK (c BETWEEN 0 AND 0.1)": ("0.0", "0.10000000149011612"),
    "DATE CHECK (c BETWEEN DATE '2020-01-01' AND DATE '2020-12-31')": ("2020-01-01", "2020-12-31"),
    "DATE CHECK (c >= '2020-01-01' AND c < '2021-01-01')": ("2020-01-01", "2020-12-31"),
    "DATE CHECK (c > TIMESTAMP '2020-01-01 12:00:00' AND c < TIMESTAMP '2020-02-01 12:00:00')": (
        "2020-01-02",
        "2020-02-01",
    ),
    "DATE CHECK (c BETWEEN '0001-01-01' AND '9999-12-31')": ("0001-01-01", "9999-12-31"),
    "DATE CHECK (c BETWEEN '2020-01-01' AND 'infinity')": ("2020-01-01", "9999-12-31"),
    "TIMESTAMP CHECK (c >= '2020-01-01' AND c < '2020-01-02')": ("2020-01-01 00:00:00", "2020-01-01 23:59:59.999999"),
    "TIMESTAMP CHECK (c BETWEEN DATE '2020-01-01' AND DATE '2020-01-02')": (
        "2020-01-01 00:00:00",
        "2020-01-02 00:00:00",
    ),
    "TIMESTAMPTZ CHECK (c BETWEEN '2020-01-01 00:00:00+00' AND '2020-01-01 12:00:00+02')": (
        "2020-01-01 00:00:00+00",
        "2020-01-01 10:00:00+00",
    ),
    "TIMESTAMPTZ CHECK (c BETWEEN '2020-01-01 09:00:00' AND '2020-01-02 09:00:00')": (
        "2020-01-01 00:00:00+00",
        "2020-01-02 00:00:00+00",
    ),
    "INTEGER CHECK (c BETWEEN 1 AND 5 AND c <> 3)": ("1", "5"),
    "INTEGER CHECK (c BETWEEN 1 AND 9 AND NOT (c > 5 AND c < 3))": ("1", "9"),
}


def test_bounds_of_checks(con: duckdb.DuckDBPyConnection) -> None:
    found = declared(con, BOUNDS)
    assert {item.source for item in found.values()} == {"CHECK"}
    assert {definition: (item.text(item.low), item.text(item.high)) for definition, item in found.items()} == BOUNDS


def test_what_declares_nothing(con: duckdb.DuckDBPyConnection) -> None:
    definitions = [
        "INTEGER",
        "VARCHAR",
        "DOUBLE CHECK (c > 0)",
        "INTEGER CHECK (c BETWEEN 0 AND other)",
        "INTEGER CHECK (c > 0 OR c < 5)",
        "INTEGER CHECK (c + 1 BETWEEN 0 AND 9)",
        "INTEGER CHECK (c BETWEEN 9 AND 0)",
        "VARCHAR CHECK (c BETWEEN 'a' AND 'f')",
        "VARCHAR CHECK (c NOT LIKE 'a%')",
        "VARCHAR CHECK (regexp_matches(c, '^a'))",
        "INTEGER CHECK (c NOT IN (1, 2))",
        "INTEGER CHECK (NOT (c BETWEEN 1 AND 2))",
        "DATE CHECK (c >= '2020-01-01' AND c <= today())",
        "INTEGER[] CHECK (len(c) = 1)",
        "INTEGER CHECK (c IN (1, 2) AND c > 5)",
        "INTEGER CHECK (c IN (1.5, 2.5))",
        "TIME CHECK (c BETWEEN '10:00' AND '11:00')",
        "INTEGER CHECK (c >= 0 AND c < random() * 10)",
        "INTEGER CHECK (c % 2 = 0)",
        "INTEGER CHECK (0 = c % 2)",
        "VARCHAR CHECK (lower(c) = 'x')",
        "INTEGER CHECK (c IN (c, 1))",
        "INTEGER CHECK (c = c)",
        "INTEGER CHECK (c % 3 IN (0, 1))",
    ]
    assert declared(con, definitions) == {}


LISTS = [
    ("BOOLEAN", ("false", "true"), "BOOLEAN"),
    ("ENUM('b', 'a')", ("b", "a"), "ENUM"),
    ("VARCHAR CHECK (c IN ('F', 'M'))", ("F", "M"), "CHECK"),
    ("VARCHAR CHECK (c = 'NL')", ("NL",), "CHECK"),
    ("VARCHAR CHECK ('NL' = c)", ("NL",), "CHECK"),
    ("VARCHAR CHECK (c IN ('x', 'y', 'x', NULL))", ("x", "y"), "CHECK"),
    ("VARCHAR CHECK (c IN ('x', 'y') AND c IN ('y', 'z'))", ("y",), "CHECK"),
    ("VARCHAR CHECK (c IN ('apple', 'pear')) CHECK (c NOT LIKE 'a%')", ("pear",), "CHECK"),
    ("VARCHAR CHECK (c IN ('', 'it''s', 'a,b', '\"'))", ("", "it's", "a,b", '"'), "CHECK"),
    ("INTEGER CHECK (c IN (3, 1, 2))", ("3", "1", "2"), "CHECK"),
    ("INTEGER CHECK (c = 3)", ("3",), "CHECK"),
    ("INTEGER CHECK (c IN (1, 2, 3) AND c < 3)", ("1", "2"), "CHECK"),
    ("INTEGER CHECK (c IN (1, 2.0, 2.5, 99999999999))", ("1", "2"), "CHECK"),
    ("DECIMAL(4,2) CHECK (c IN (0.5, 1))", ("0.50", "1.00"), "CHECK"),
    ("DOUBLE CHECK (c IN (0.5, 1, -0.0))", ("0.5", "1.0", "0.0"), "CHECK"),
    ("DATE CHECK (c IN ('2020-01-01', DATE '2020-02-01'))", ("2020-01-01", "2020-02-01"), "CHECK"),
    ("TIMESTAMP CHECK (c IN ('2020-01-01'))", ("2020-01-01 00:00:00",), "CHECK"),
    ("TIMESTAMPTZ CHECK (c IN ('2020-01-01 09:00:00', '2020-01-01 00:00:00.5+00'))",
     ("2020-01-01 00:00:00+00", "2020-01-01 00:00:00.5+00"), "CHECK"),
    ("TIME CHECK (c IN ('10:00', '11:00'))", ("10:00:00", "11:00:00"), "CHECK"),
    ("UUID CHECK (c IN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'))", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",), "CHECK"),
    ("BOOLEAN CHECK (c)", ("true",), "CHECK"),
    ("ENUM('a', 'b', 'c') CHECK (c <> 'b')", ("a", "c"), "CHECK"),
    ("ENUM('a', 'b') CHECK (c IN ('b', 'a'))", ("a", "b"), "ENUM"),
]  # fmt: skip


def test_lists(con: duckdb.DuckDBPyConnection) -> None:
    found = declared(con, [definition for definition, _, _ in LISTS])
    assert [(definition, item.values, item.source) for definition, item in found.items()] == LISTS
    assert all(item.cells == len(item.values) + 1 for item in found.values())


@settings(deadline=None, max_examples=examples(25))
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
def test_enums_keep_odd_values(shared: duckdb.DuckDBPyConnection, values: list[str]) -> None:
    literals = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    shared.execute(f"CREATE OR REPLACE TABLE t (c ENUM({literals}))")
    assert Domain.from_schema(shared, "t")["c"].values == tuple(values)


def test_not_null(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t (a BOOLEAN NOT NULL, b BOOLEAN, k INTEGER PRIMARY KEY CHECK (k BETWEEN 1 AND 3))")
    assert [(item.name, item.nullable, item.cells) for item in Domain.from_schema(con, "t")] == [
        ("a", False, 2), ("b", True, 3), ("k", False, 3),
    ]  # fmt: skip


def test_checks_of_odd_columns(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        """CREATE TABLE "my t" ("a b" INTEGER CHECK ("a b" BETWEEN 1 AND 2), "Order" INTEGER, "straße" INTEGER,
            "strasse" INTEGER,
           CHECK ("ORDER" BETWEEN 3 AND 4), CHECK ("straße" IN (5) AND "strasse" IN (6)), CHECK (["Order"][1] > 0))"""
    )
    domain = Domain.from_schema(con, '"my t"')
    assert [(item.name, item.low, item.values) for item in domain] == [
        ("a b", 1, None), ("Order", 3, None), ("straße", None, ("5",)), ("strasse", None, ("6",)),
    ]  # fmt: skip
    assert (domain.spelling["STRASSE".lower()], domain.spelling["straße"], domain.spelling["order"]) == (
        "strasse",
        "straße",
        "Order",
    )


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    sampled(
        [
            ("('c', 1, 9)", "attribute, low, high", {"low": 1, "high": 9}),
            ("('C', '1', '9')", "Attribute, LOW, high", {"low": 1, "high": 9}),
            ("('c', 1.0::DOUBLE, 9.0::DOUBLE)", "attribute, low, high", {"low": 1, "high": 9}),
            ("('c', ['1', '5'])", 'attribute, "values"', {"values": ("1", "5")}),
            ("('c', [1, 5, NULL])", 'attribute, "values"', {"values": ("1", "5")}),
            ("('c', ['01', '5.0'])", 'attribute, "values"', {"values": ("1", "5")}),
            ("('s', ['x', '', 'it''s'])", 'attribute, "values"', {"values": ("x", "", "it's")}),
            ("('x', 0, 1, 4)", "attribute, low, high, bins", {"low": 0.0, "high": 1.0, "bins": 4, "cells": 7}),
            ("('x', 0, 1, '4.0')", "attribute, low, high, bins", {"bins": 4}),
            ("('x', 0, 1, 0.25)", "attribute, low, high, step", {"step": 0.25, "cells": 8}),
            ("('x', 0, 1, 0.1)", "attribute, low, high, step", {"step": 0.1, "cells": 14}),
            ("('c', 0, 9, 5)", "attribute, low, high, step", {"step": 5, "cells": 5}),
            ("('c', 0, 9, 100)", "attribute, low, high, bins", {"bins": 100, "cells": 13}),
            ("('d', '2020-01-01', '2020-12-31', 7)", "attribute, low, high, step", {"step": 7, "cells": 56}),
            ("('d', DATE '2020-01-01', DATE '2020-01-31')", "attribute, low, high", {"cells": 34}),
            (
                "('ts', '2020-01-01', '2020-01-02', 3600)",
                "attribute, low, high, step",
                {"step": 3_600_000_000, "cells": 28},
            ),
            ("('p', 0, 1, 0.05)", "attribute, low, high, step", {"low": 0, "high": 100, "step": 5, "cells": 24}),
            (
                "('c', 0, 99, ['10', '50'])",
                "attribute, low, high, edges",
                {"edges": (10, 50), "bins": None, "cells": 6},
            ),
            ("('c', 0, 99, [0, 10, 99])", "attribute, low, high, EDGES", {"edges": (0, 10, 99), "cells": 6}),
            ("('c', 0, 99, [10, NULL])", "attribute, low, high, edges", {"edges": (10,)}),
            ("('c', 0, 99, '[10, 20]')", "attribute, low, high, edges", {"edges": (10, 20)}),  # as CSV has a list
            ("('x', 0, 1, ['0.1', '1e-3'][1:1])", "attribute, low, high, edges", {"edges": (0.1,)}),
            ("('x', 0, 1, [0.001, 0.1])", "attribute, low, high, edges", {"edges": (0.001, 0.1), "cells": 6}),
            (
                "('d', '2020-01-01', '2020-12-31', ['2020-02-01'])",
                "attribute, low, high, edges",
                {"edges": (18_293,), "cells": 5},
            ),
            ("('ts', '2020-01-01', '2020-01-02', ['2020-01-01 12:00'])", "attribute, low, high, edges", {"cells": 5}),
            ("('p', 0, 1, ['0.05', '0.5'])", "attribute, low, high, edges", {"edges": (5, 50), "cells": 6}),
            ("('c', 1, 9, false)", "attribute, low, high, nullable", {"nullable": True, "cells": 12}),
            ("('n', 1, 9, true)", "attribute, low, high, nullable", {"nullable": True, "cells": 12}),
            ("('n', 1, 9, NULL)", "attribute, low, high, nullable", {"nullable": False}),
            ("('c', 1, 9, 'TRUE')", "attribute, low, high, nullable", {"nullable": True}),
            ("('s', ['x'], true)", 'attribute, "values", open', {"open": True, "nullable": True, "cells": 3}),
            ("('n', [1, 2], true)", 'attribute, "values", OPEN', {"open": True, "nullable": False, "cells": 3}),
            ("('n', [1, 2], true, false)", 'attribute, "values", open, nullable', {"open": True, "nullable": False}),
            ("('n', [1, 2], NULL)", 'attribute, "values", open', {"open": True, "nullable": False}),
            (
                "('n', 1, 2, false)",
                "attribute, low, high, open",
                {"open": True, "low": 1, "least": 0, "most": 3, "cells": 4},
            ),
        ],
        10,
    ),
)
def test_domain_tables(con: duckdb.DuckDBPyConnection, rows: str, columns: str, expected: dict[str, object]) -> None:
    (found,) = declare(con, rows, columns).values()
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.source == "table t_domain"


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    sampled(
        [
            (
                "('c', 1, 9, 'x')",
                "attribute, low, high, note",
                "domain table ('t_domain') has the unknown column note. Hint: its columns are attribute",
            ),
            ("(1, 9)", "low, high", "domain table ('t_domain') has no column attribute"),
            (
                "('q', 1, 9)",
                "attribute, low, high",
                "domain table ('t_domain') names the attribute 'q', which is not a column of t. Hint: one row per",
            ),
            (
                "(NULL, 1, 9)",
                "attribute, low, high",
                "domain table ('t_domain') names the attribute None, which is not a column of t",
            ),
            (
                "('c', 1, 9), ('C', 1, 9)",
                "attribute, low, high",
                "domain table ('t_domain') names the attribute 'C', which is listed twice",
            ),
            ("('c', 9, 1)", "attribute, low, high", "attribute c has low (9) above high (1). Hint: swap them"),
            ("('c', 1, NULL)", "attribute, low, high", "attribute c has neither a list of values nor both bounds"),
            (
                "('c', 'one', 9)",
                "attribute, low, high",
                "attribute c has the bound 'one', which is not a finite value of its type INTEGER",
            ),
            (
                "('x', '-inf', 9)",
                "attribute, low, high",
                "attribute x has the bound '-inf', which is not a finite value of its type DOUBLE",
            ),
            ("('x', 'nan', 9)", "attribute, low, high", "attribute x has the bound 'nan'"),
            ("('x', 0, 1e308)", "attribute, low, high", "attribute x has a bound that is not from -8.98"),
            (
                "('d', '2020-01-01', 'infinity')",
                "attribute, low, high",
                "attribute d has a bound that is not from 0001-01-01 to 9999-12-31",
            ),
            (
                "('d', '2020-01-01', '10000-01-01')",
                "attribute, low, high",
                "attribute d has a bound that is not from 0001-01-01 to 9999-12-31",
            ),
            (
                "('s', 'a', 'f')",
                "attribute, low, high",
                "attribute s has the type VARCHAR, which has no bounds. Hint: give it a list of values",
            ),
            ("('c', []::VARCHAR[])", 'attribute, "values"', "attribute c has an empty list of values"),
            (
                "('c', ['1', '01'])",
                'attribute, "values"',
                "attribute c lists the value '1' twice. Hint: list every value once",
            ),
            (
                "('c', ['1', 'x'])",
                'attribute, "values"',
                "attribute c lists a value that is not of its type INTEGER. Hint: Conversion Error",
            ),
            ("('c', '1, 2')", 'attribute, "values"', "domain table ('t_domain') cannot be read: "),
            (
                "('c', ['1'], 1)",
                'attribute, "values", low',
                "attribute c has a list of values and bounds too. Hint: give either",
            ),
            ("('x', 0, 1, 0)", "attribute, low, high, step", "attribute x has step (0.0), which must be positive"),
            ("('x', 0, 1, 'inf')", "attribute, low, high, step", "attribute x has step (inf), which must be positive"),
            (
                "('x', 0, 1, 'wide')",
                "attribute, low, high, step",
                "attribute x has step 'wide', which is not a number. Hint: days for dates",
            ),
            (
                "('c', 0, 9, 0.5)",
                "attribute, low, high, step",
                "attribute c has step '0.5', which is not a whole number of the smallest steps of INTEGER",
            ),
            ("('c', 0, 9, -1)", "attribute, low, high, step", "attribute c has step (-1), which must be positive"),
            ("('x', 0, 1, 0)", "attribute, low, high, bins", "attribute x has bins (0), which must be at least 1"),
            (
                "('x', 0, 1, 2.5)",
                "attribute, low, high, bins",
                "attribute x has bins '2.5', which is not a whole number",
            ),
            (
                "('x', 0, 1, 'many')",
                "attribute, low, high, bins",
                "attribute x has bins 'many', which is not a whole number",
            ),
            (
                "('x', 0, 1, 'nan'::DOUBLE)",
                "attribute, low, high, bins",
                "attribute x has bins 'nan', which is not a whole number",
            ),
            (
                "('x', 0, 1, 3, ['0.5'])",
                "attribute, low, high, bins, edges",
                "attribute x has both bins and edges. Hint: give one of them",
            ),
            (
                "('c', ['1'], ['1'])",
                'attribute, "values", edges',
                "attribute c has a list of values and bounds too. Hint: give either",
            ),
            (
                "('c', 0, 9, ['3', 'x'])",
                "attribute, low, high, edges",
                "attribute c has the edge 'x', which is not a finite value of its type INTEGER. Hint: give edges of",
            ),
            (
                "('x', 0, 9, ['nan'])",
                "attribute, low, high, edges",
                "attribute x has the edge 'nan', which is not a finite value of its type DOUBLE",
            ),
            (
                "('c', 0, 9, ['5', '3'])",
                "attribute, low, high, edges",
                "attribute c has the edge 3 after 5, and edges must ascend",
            ),
            (
                "('c', 0, 9, ['5', '10'])",
                "attribute, low, high, edges",
                "attribute c has the edge 10, which is not from 0 to 9",
            ),
            ("('c', 0, 9, []::VARCHAR[])", "attribute, low, high, edges", "attribute c has an empty list of edges"),
            (
                "('c', NULL, NULL, ['3'])",
                "attribute, low, high, edges",
                "attribute c has neither a list of values nor both bounds",
            ),
            (
                "('s', 'a', 'f', ['b'])",
                "attribute, low, high, edges",
                "attribute s has the type VARCHAR, which has no bounds",
            ),
            ("('c', 0, 9, '5 and 7')", "attribute, low, high, edges", "domain table ('t_domain') cannot be read: "),
            ("('c', 1, 9, 'perhaps')", "attribute, low, high, nullable", "domain table ('t_domain') cannot be read: "),
            ("('c', 1, 9, 'perhaps')", "attribute, low, high, open", "domain table ('t_domain') cannot be read: "),
        ],
        12,
    ),
)
def test_wrong_domain_tables(con: duckdb.DuckDBPyConnection, rows: str, columns: str, message: str) -> None:
    with pytest.raises(DomainError) as caught:
        declare(con, rows, columns)
    assert str(caught.value).startswith(f"domain: {message}")
    assert " Hint: " in str(caught.value)


@pytest.mark.parametrize(
    ("column", "row", "is_open"),
    [
        ("INTEGER CHECK (c BETWEEN 1 AND 9)", "('c', NULL, 1, 9)", False),
        ("INTEGER CHECK (c BETWEEN 1 AND 9)", "('c', NULL, 0, 20)", False),
        ("INTEGER CHECK (c BETWEEN 1 AND 9)", "('c', NULL, 1, 8)", True),
        ("INTEGER", "('c', NULL, 1, 9)", True),
        ("BOOLEAN NOT NULL", "('c', ['true', 'false'], NULL, NULL)", False),
        ("BOOLEAN", "('c', ['true'], NULL, NULL)", True),
        ("ENUM ('a', 'b')", "('c', ['b', 'a'], NULL, NULL)", False),
        ("ENUM ('a', 'b')", "('c', ['a'], NULL, NULL)", True),
        ("VARCHAR CHECK (c IN ('a', 'b'))", "('c', ['a', 'b', 'd'], NULL, NULL)", False),
        ("VARCHAR", "('c', ['a'], NULL, NULL)", True),
    ],
)
def test_a_domain_is_closed_only_where_a_type_or_a_check_closes_it(
    con: duckdb.DuckDBPyConnection, column: str, row: str, is_open: bool
) -> None:
    con.execute(f"CREATE TABLE closed (c {column})")
    con.execute(f'CREATE TABLE closed_domain AS SELECT * FROM (VALUES {row}) v(attribute, "values", low, high)')
    assert Domain.from_schema(con, "closed")["c"].open == is_open


def test_an_empty_domain_table_declares_nothing(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t (b BOOLEAN, c INTEGER); CREATE TABLE t_domain (attribute VARCHAR, low INTEGER, high INTEGER)"
    )
    assert [item.name for item in Domain.from_schema(con, "t")] == ["b"]


def test_long_lists_are_read_quickly(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t (zip INTEGER); CREATE TABLE t_domain AS SELECT 'zip' AS attribute, list(i) AS "
        '"values" FROM range(42000) r(i)'
    )
    assert Domain.from_schema(con, "t")["zip"].cells == 42002
