"""What a schema or a domain table declares: bounds, lists, NULL; and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pytest
from chance import examples, sampled
from compilers import declare
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError


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


def test_bounds_of_checks(scratch: duckdb.DuckDBPyConnection) -> None:
    found = declared(scratch, BOUNDS)
    assert {item.source for item in found.values()} == {"CHECK"}
    assert {definition: (item.text(item.low), item.text(item.high)) for definition, item in found.items()} == BOUNDS


def test_what_declares_nothing(scratch: duckdb.DuckDBPyConnection) -> None:
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
    assert declared(scratch, definitions) == {}


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


def test_lists(scratch: duckdb.DuckDBPyConnection) -> None:
    found = declared(scratch, [definition for definition, _, _ in LISTS])
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
def test_enums_keep_odd_values(duck: duckdb.DuckDBPyConnection, values: list[str]) -> None:
    literals = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    duck.execute(f"CREATE OR REPLACE TABLE t (c ENUM({literals}))")
    assert Domain.from_schema(duck, "t")["c"].values == tuple(values)


def test_not_null(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute("CREATE TABLE t (a BOOLEAN NOT NULL, b BOOLEAN, k INTEGER PRIMARY KEY CHECK (k BETWEEN 1 AND 3))")
    assert [(item.name, item.nullable, item.cells) for item in Domain.from_schema(scratch, "t")] == [
        ("a", False, 2), ("b", True, 3), ("k", False, 3),
    ]  # fmt: skip


def test_checks_of_odd_columns(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute(
        """CREATE TABLE "my t" ("a b" INTEGER CHECK ("a b" BETWEEN 1 AND 2), "Order" INTEGER, "straße" INTEGER,
            "strasse" INTEGER,
           CHECK ("ORDER" BETWEEN 3 AND 4), CHECK ("straße" IN (5) AND "strasse" IN (6)), CHECK (["Order"][1] > 0))"""
    )
    domain = Domain.from_schema(scratch, '"my t"')
    assert [(item.name, item.low, item.values) for item in domain] == [
        ("a b", 1, None), ("Order", 3, None), ("straße", None, ("5",)), ("strasse", None, ("6",)),
    ]  # fmt: skip
    assert (domain.spelling["STRASSE".lower()], domain.spelling["straße"], domain.spelling["order"]) == (
        "strasse",
        "straße",
        "Order",
    )


def listed(by_columns: Mapping[str, Sequence[tuple[str, Any]]]) -> list[tuple[str, str, Any]]:
    """Rows of domain tables with their columns, and what is expected of them."""
    return [(rows, columns, expected) for columns, several in by_columns.items() for rows, expected in several]


ACCEPTED = {
    "attribute, low, high": [
        ("('c', 1, 9)", {"low": 1, "high": 9}),
        ("('c', 1.0::DOUBLE, 9.0::DOUBLE)", {"low": 1, "high": 9}),
        ("('d', DATE '2020-01-01', DATE '2020-01-31')", {"cells": 34}),
    ],
    "Attribute, LOW, high": [
        ("('C', '1', '9')", {"low": 1, "high": 9}),
    ],
    'attribute, "values"': [
        ("('c', ['1', '5'])", {"values": ("1", "5")}),
        ("('c', [1, 5, NULL])", {"values": ("1", "5")}),
        ("('c', ['01', '5.0'])", {"values": ("1", "5")}),
        ("('s', ['x', '', 'it''s'])", {"values": ("x", "", "it's")}),
    ],
    "attribute, low, high, bins": [
        ("('x', 0, 1, 4)", {"low": 0.0, "high": 1.0, "bins": 4, "cells": 7}),
        ("('x', 0, 1, '4.0')", {"bins": 4}),
        ("('c', 0, 9, 100)", {"bins": 100, "cells": 13}),
    ],
    "attribute, low, high, step": [
        ("('x', 0, 1, 0.25)", {"step": 0.25, "cells": 8}),
        ("('x', 0, 1, 0.1)", {"step": 0.1, "cells": 14}),
        ("('c', 0, 9, 5)", {"step": 5, "cells": 5}),
        ("('d', '2020-01-01', '2020-12-31', 7)", {"step": 7, "cells": 56}),
        ("('ts', '2020-01-01', '2020-01-02', 3600)", {"step": 3_600_000_000, "cells": 28}),
        ("('p', 0, 1, 0.05)", {"low": 0, "high": 100, "step": 5, "cells": 24}),
    ],
    "attribute, low, high, edges": [
        ("('c', 0, 99, ['10', '50'])", {"edges": (10, 50), "bins": None, "cells": 6}),
        ("('c', 0, 99, [10, NULL])", {"edges": (10,)}),
        ("('c', 0, 99, '[10, 20]')", {"edges": (10, 20)}),  # as CSV has a list
        ("('x', 0, 1, ['0.1', '1e-3'][1:1])", {"edges": (0.1,)}),
        ("('x', 0, 1, [0.001, 0.1])", {"edges": (0.001, 0.1), "cells": 6}),
        ("('d', '2020-01-01', '2020-12-31', ['2020-02-01'])", {"edges": (18_293,), "cells": 5}),
        ("('ts', '2020-01-01', '2020-01-02', ['2020-01-01 12:00'])", {"cells": 5}),
        ("('p', 0, 1, ['0.05', '0.5'])", {"edges": (5, 50), "cells": 6}),
    ],
    "attribute, low, high, EDGES": [
        ("('c', 0, 99, [0, 10, 99])", {"edges": (0, 10, 99), "cells": 6}),
    ],
    "attribute, low, high, nullable": [
        ("('c', 1, 9, false)", {"nullable": True, "cells": 12}),
        ("('n', 1, 9, true)", {"nullable": True, "cells": 12}),
        ("('n', 1, 9, NULL)", {"nullable": False}),
        ("('c', 1, 9, 'TRUE')", {"nullable": True}),
    ],
    'attribute, "values", open': [
        ("('s', ['x'], true)", {"open": True, "nullable": True, "cells": 3}),
        ("('n', [1, 2], NULL)", {"open": True, "nullable": False}),
    ],
    'attribute, "values", OPEN': [
        ("('n', [1, 2], true)", {"open": True, "nullable": False, "cells": 3}),
    ],
    'attribute, "values", open, nullable': [
        ("('n', [1, 2], true, false)", {"open": True, "nullable": False}),
    ],
    "attribute, low, high, open": [
        ("('n', 1, 2, false)", {"open": True, "low": 1, "least": 0, "most": 3, "cells": 4}),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rows", "columns", "expected"), sampled(listed(ACCEPTED), 10))
def test_domain_tables(
    scratch: duckdb.DuckDBPyConnection, rows: str, columns: str, expected: dict[str, object]
) -> None:
    (found,) = declare(scratch, rows, columns).values()
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.source == "table t_domain"


REFUSED = {
    "attribute, low, high, note": [
        ("('c', 1, 9, 'x')", "domain table ('t_domain') has the unknown column note. Hint: its columns are attribute"),
    ],
    "low, high": [
        ("(1, 9)", "domain table ('t_domain') has no column attribute"),
    ],
    "attribute, low, high": [
        ("('q', 1, 9)",
         "domain table ('t_domain') names the attribute 'q', which is not a column of t. Hint: one row per"),
        ("(NULL, 1, 9)", "domain table ('t_domain') names the attribute None, which is not a column of t"),
        ("('c', 1, 9), ('C', 1, 9)", "domain table ('t_domain') names the attribute 'C', which is listed twice"),
        ("('c', 9, 1)", "attribute c has low (9) above high (1). Hint: swap them"),
        ("('c', 1, NULL)", "attribute c has neither a list of values nor both bounds"),
        ("('c', 'one', 9)", "attribute c has the bound 'one', which is not a finite value of its type INTEGER"),
        ("('x', '-inf', 9)", "attribute x has the bound '-inf', which is not a finite value of its type DOUBLE"),
        ("('x', 'nan', 9)", "attribute x has the bound 'nan'"),
        ("('x', 0, 1e308)", "attribute x has a bound that is not from -8.98"),
        ("('d', '2020-01-01', 'infinity')", "attribute d has a bound that is not from 0001-01-01 to 9999-12-31"),
        ("('d', '2020-01-01', '10000-01-01')", "attribute d has a bound that is not from 0001-01-01 to 9999-12-31"),
        ("('s', 'a', 'f')", "attribute s has the type VARCHAR, which has no bounds. Hint: give it a list of values"),
    ],
    'attribute, "values"': [
        ("('c', []::VARCHAR[])", "attribute c has an empty list of values"),
        ("('c', ['1', '01'])", "attribute c lists the value '1' twice. Hint: list every value once"),
        ("('c', ['1', 'x'])", "attribute c lists a value that is not of its type INTEGER. Hint: Conversion Error"),
        ("('c', '1, 2')", "domain table ('t_domain') cannot be read: "),
    ],
    'attribute, "values", low': [
        ("('c', ['1'], 1)", "attribute c has a list of values and bounds too. Hint: give either"),
    ],
    "attribute, low, high, step": [
        ("('x', 0, 1, 0)", "attribute x has step (0.0), which must be positive"),
        ("('x', 0, 1, 'inf')", "attribute x has step (inf), which must be positive"),
        ("('x', 0, 1, 'wide')", "attribute x has step 'wide', which is not a number. Hint: days for dates"),
        ("('c', 0, 9, 0.5)",
         "attribute c has step '0.5', which is not a whole number of the smallest steps of INTEGER"),
        ("('c', 0, 9, -1)", "attribute c has step (-1), which must be positive"),
    ],
    "attribute, low, high, bins": [
        ("('x', 0, 1, 0)", "attribute x has bins (0), which must be at least 1"),
        ("('x', 0, 1, 2.5)", "attribute x has bins '2.5', which is not a whole number"),
        ("('x', 0, 1, 'many')", "attribute x has bins 'many', which is not a whole number"),
        ("('x', 0, 1, 'nan'::DOUBLE)", "attribute x has bins 'nan', which is not a whole number"),
    ],
    "attribute, low, high, bins, edges": [
        ("('x', 0, 1, 3, ['0.5'])", "attribute x has both bins and edges. Hint: give one of them"),
    ],
    'attribute, "values", edges': [
        ("('c', ['1'], ['1'])", "attribute c has a list of values and bounds too. Hint: give either"),
    ],
    "attribute, low, high, edges": [
        ("('c', 0, 9, ['3', 'x'])",
         "attribute c has the edge 'x', which is not a finite value of its type INTEGER. Hint: give edges of"),
        ("('x', 0, 9, ['nan'])", "attribute x has the edge 'nan', which is not a finite value of its type DOUBLE"),
        ("('c', 0, 9, ['5', '3'])", "attribute c has the edge 3 after 5, and edges must ascend"),
        ("('c', 0, 9, ['5', '10'])", "attribute c has the edge 10, which is not from 0 to 9"),
        ("('c', 0, 9, []::VARCHAR[])", "attribute c has an empty list of edges"),
        ("('c', NULL, NULL, ['3'])", "attribute c has neither a list of values nor both bounds"),
        ("('s', 'a', 'f', ['b'])", "attribute s has the type VARCHAR, which has no bounds"),
        ("('c', 0, 9, '5 and 7')", "domain table ('t_domain') cannot be read: "),
    ],
    "attribute, low, high, nullable": [
        ("('c', 1, 9, 'perhaps')", "domain table ('t_domain') cannot be read: "),
    ],
    "attribute, low, high, open": [
        ("('c', 1, 9, 'perhaps')", "domain table ('t_domain') cannot be read: "),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rows", "columns", "message"), sampled(listed(REFUSED), 12))
def test_wrong_domain_tables(scratch: duckdb.DuckDBPyConnection, rows: str, columns: str, message: str) -> None:
    with pytest.raises(DomainError) as caught:
        declare(scratch, rows, columns)
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
    scratch: duckdb.DuckDBPyConnection, column: str, row: str, is_open: bool
) -> None:
    scratch.execute(f"CREATE TABLE closed (c {column})")
    scratch.execute(f'CREATE TABLE closed_domain AS SELECT * FROM (VALUES {row}) v(attribute, "values", low, high)')
    assert Domain.from_schema(scratch, "closed")["c"].open == is_open


def test_an_empty_domain_table_declares_nothing(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute(
        "CREATE TABLE t (b BOOLEAN, c INTEGER); CREATE TABLE t_domain (attribute VARCHAR, low INTEGER, high INTEGER)"
    )
    assert [item.name for item in Domain.from_schema(scratch, "t")] == ["b"]


def test_long_lists_are_read_quickly(scratch: duckdb.DuckDBPyConnection) -> None:
    scratch.execute(
        "CREATE TABLE t (zip INTEGER); CREATE TABLE t_domain AS SELECT 'zip' AS attribute, list(i) AS "
        '"values" FROM range(42000) r(i)'
    )
    assert Domain.from_schema(scratch, "t")["zip"].cells == 42002
