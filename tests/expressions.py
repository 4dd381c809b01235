"""Random SQL expressions over a table of odd values: extreme numbers, NaN, endless dates, patterns, formats."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress

import duckdb

from mwem_sql.language.functions import ALLOWED_FUNCTIONS

ODD: dict[str, tuple[str, list[str]]] = {
    "i1": ("TINYINT", ["(-128)", "127", "0", "NULL"]),
    "i4": ("INTEGER", ["(-2147483648)", "2147483647", "0", "-1", "NULL", "7"]),
    "i8": ("BIGINT", ["(-9223372036854775808)", "9223372036854775807", "0", "-1", "1", "NULL"]),
    "u8": ("UBIGINT", ["18446744073709551615", "0", "NULL"]),
    "i16": (
        "HUGEINT",
        ["(-170141183460469231731687303715884105728)", "170141183460469231731687303715884105727", "0", "NULL"],
    ),
    "f4": ("FLOAT", ["'nan'", "'inf'", "'-inf'", "3.4e38", "'-0.0'", "NULL", "1e-45"]),
    "f8": ("DOUBLE", ["'nan'", "'inf'", "'-inf'", "1.7e308", "'-0.0'", "5e-324", "NULL", "0.5", "-1"]),
    "n4": ("DECIMAL(4,1)", ["999.9", "-999.9", "0", "NULL"]),
    "n38": (
        "DECIMAL(38,10)",
        ["'9999999999999999999999999999.9999999999'", "'-9999999999999999999999999999.9999999999'", "0", "NULL"],
    ),
    "t": (
        "VARCHAR",
        [
            "''",
            "'x'",
            "'12'",
            "'-1'",
            "'nan'",
            "'2020-02-30'",
            "'(['",
            "'\\'",
            "'%'",
            "'{'",
            "'{:>99}'",
            "'%99d'",
            "'é'",
            "chr(128512)",
            "'a' || chr(0) || 'b'",
            "repeat('é(', 300)",
            "'\\x00zz'",
            "'%Y-%m-%d %n %'",
            "'Asia/Tokyo'",
            "'Nowhere'",
            "'infinity'",
            "'year'",
            "'  '",
            "'x%_\\'",
            "NULL",
            "'0x1F'",
            "'1e400'",
            "repeat('9', 400)",
            "'ß' || chr(769)",
            "'[1, NULL]'",
            "'1 KiB'",
            "'18446744073709551616 TB'",
            "'g'",
            "'2020-01-01 00:00:00 Nowhere'",
            "'2020 Nowhere'",
        ],
    ),
    "b": ("BLOB", ["''", "'\\x00'", "'\\xFF\\xFE'", "'abc'", "NULL"]),
    "o": ("BOOLEAN", ["true", "false", "NULL"]),
    "da": (
        "DATE",
        [
            "'infinity'",
            "'-infinity'",
            "'5877642-06-25 (BC)'",
            "'5881580-07-10'",
            "'0001-01-01'",
            "'2020-02-29'",
            "NULL",
        ],
    ),
    "ts": (
        "TIMESTAMP",
        [
            "'infinity'",
            "'-infinity'",
            "'290309-12-22 (BC) 00:00:00'",
            "'294247-01-10 04:00:54.775806'",
            "'1970-01-01'",
            "NULL",
        ],
    ),
    "tz": (
        "TIMESTAMPTZ",
        [
            "'infinity'",
            "'-infinity'",
            "'290309-12-22 (BC) 00:00:00+00'",
            "'294247-01-10 04:00:54.775806+00'",
            "'1970-01-01 00:00:00+00'",
            "NULL",
        ],
    ),
    "tn": ("TIMESTAMP_NS", ["'2262-04-11 23:47:16.854775806'", "'1677-09-22 00:00:00'", "'infinity'", "NULL"]),
    "tsec": ("TIMESTAMP_S", ["'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54'", "'infinity'"]),
    "ti": ("TIME", ["'00:00:00'", "'24:00:00'", "'23:59:59.999999'", "NULL"]),
    "iv": (
        "INTERVAL",
        [
            "INTERVAL 2147483647 MONTHS",
            "INTERVAL 2147483647 DAYS",
            "to_microseconds(9223372036854775807)",
            "INTERVAL 0 DAYS",
            "INTERVAL (-1) MONTHS",
            "NULL",
        ],
    ),
    "uu": ("UUID", ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "NULL"]),
    "en": ("ENUM('a', 'B', '12', '')", ["'a'", "'12'", "''", "NULL"]),
}
"""The columns of the table, by name: their types and what is in them."""
_OF_TYPE = {
    "VARCHAR": ["t", "t", "en"],
    "BIGINT": ["i8", "i4", "u8"],
    "INTEGER": ["i4", "i1"],
    "DOUBLE": ["f8", "f4", "n38"],
    "FLOAT": ["f4"],
    "BLOB": ["b"],
    "BOOLEAN": ["o"],
    "DATE": ["da"],
    "TIMESTAMP": ["ts"],
    "TIMESTAMP WITH TIME ZONE": ["tz"],
    "TIME": ["ti"],
    "INTERVAL": ["iv"],
    "HUGEINT": ["i16"],
    "UBIGINT": ["u8"],
    "UUID": ["uu"],
    "TIMESTAMP_NS": ["tn"],
    "TIMESTAMP_S": ["tsec"],
    "DECIMAL": ["n4", "n38"],
}
_CASTS = [
    "TINYINT",
    "UTINYINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "DOUBLE",
    "DECIMAL(3,2)",
    "DECIMAL(38,37)",
    "VARCHAR",
    "BLOB",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TIMESTAMP_NS",
    "TIME",
    "INTERVAL",
    "UUID",
    "ENUM('a', 'b')",
]
_OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "||",
    "&",
    "<<",
    ">>",
    "=",
    "<",
    ">=",
    "LIKE",
    "ILIKE",
    "SIMILAR TO",
    "~",
    "IS DISTINCT FROM",
]
_UNITS = [
    "'year'",
    "'month'",
    "'epoch'",
    "'julian'",
    "'isoyear'",
    "'timezone'",
    "'nanosecond'",
    "'era'",
    "'day'",
    "'yearweek'",
    "t",
]
_CONSTANTS = {
    "VARCHAR": ["'%Y'", "'g'", "'('", "'{}'", "'%d'", "'x'", "'\\1'", "'UTC'", "'%Y %Z'"],
    "BIGINT": ["-1", "0", "64", "1000000", "9223372036854775807"], "INTEGER": ["-1", "0", "64"],
}  # fmt: skip
# Their time is the product of two texts, or more: regular expressions of the row's own.
_SLOW = {"regexp_matches", "regexp_full_match", "regexp_replace", "regexp_extract"}

Functions = Mapping[str, Sequence[tuple[list[str], str | None]]]


def odd_table(con: duckdb.DuckDBPyConnection, name: str = "odd") -> None:
    columns = ", ".join(f"{column} {kind}" for column, (kind, _) in ODD.items())
    con.execute(f"CREATE OR REPLACE TABLE {name} ({columns})")
    for place in range(max(len(values) for _, values in ODD.values())):
        values = (f"TRY_CAST({own[(place * 7 + 3) % len(own)]} AS {kind})" for kind, own in ODD.values())
        con.execute(f"INSERT INTO {name} SELECT {', '.join(values)}")


def functions(con: duckdb.DuckDBPyConnection) -> Functions:
    """Those that a view may call, with the types of their arguments."""
    rows = con.execute(
        "SELECT function_name, parameter_types, varargs FROM duckdb_functions() WHERE function_type = "
        "'scalar' AND schema_name = 'main' ORDER BY ALL"
    ).fetchall()
    known: dict[str, list[tuple[list[str], str | None]]] = {}
    for name, types, more in rows:
        if name in ALLOWED_FUNCTIONS - _SLOW:
            known.setdefault(name, []).append((types, more))
    return known


def expression(chance: random.Random, known: Functions, depth: int, kind: str | None = None) -> str:
    """One of many; much of it is none that DuckDB would take."""
    kinds = ["call"] * 9 + ["cast"] * 4 + ["operator"] * 4 + ["case", "column", "column"]
    what = chance.choice(kinds) if depth else "column"
    if what == "column":
        column = chance.choice(_OF_TYPE[kind] if kind in _OF_TYPE and chance.random() < 0.9 else list(ODD))
        own, values = ODD[column]
        return f"CAST({chance.choice(values)} AS {own})" if chance.random() < 0.15 else column

    def below(wanted: str | None = None) -> str:
        return expression(chance, known, depth - 1, wanted)

    if what == "cast":
        return f"CAST({below()} AS {chance.choice(_CASTS)})"
    if what == "operator":
        wanted = chance.choice(list(_OF_TYPE))
        return f"({below(wanted)} {chance.choice(_OPERATORS)} {below(wanted)})"
    if what == "case":
        return f"CASE WHEN {below('BOOLEAN')} THEN {below(kind)} ELSE {below(kind)} END"
    name = chance.choice(sorted(known))
    types, more = chance.choice(known[name])
    arguments = []
    for place, wanted in enumerate(types + [more or ""] * (chance.randrange(3) if more else 0)):
        if place == 0 and name.startswith("date") and len(types) > 1:
            arguments.append(chance.choice(_UNITS))
        elif wanted in _CONSTANTS and chance.random() < 0.3:
            arguments.append(chance.choice(_CONSTANTS[wanted]))
        else:
            arguments.append(below(wanted))
    return f"{name}({', '.join(arguments)})"


def bound(con: duckdb.DuckDBPyConnection, chance: random.Random, known: Functions, depth: int) -> str:
    """An expression that DuckDB takes, of the table `odd`."""
    while True:
        made = expression(chance, known, depth)
        with suppress(duckdb.Error, UnicodeDecodeError):  # DuckDB 2.0 cuts a text in its message anywhere
            con.execute(f"DESCRIBE SELECT {made} FROM odd")
            return made
