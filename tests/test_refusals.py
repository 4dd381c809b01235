"""The catalogue of refusals: each is called from SQL and from Python, and says the same: `<function>: <what> (<value>)
<rule>. Hint: <cure>`.

A place in the package that refuses and is not in the catalogue makes a test fail, unless `ELSEWHERE` says which test
calls it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Connection

import mwem_sql
from mwem_sql import Domain, MwemError, Workload, errors
from mwem_sql.errors import did_you_mean

PACKAGE = Path(mwem_sql.__file__).parent
FORM = re.compile(r"[\w\- ]+: .+[^.]\.(?: |\n.*\^\n)Hint: \S.*[^.]", re.DOTALL)
"""A syntax error shows its place between the two sentences."""

SETUP = """
    CREATE TABLE people (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 99), sex ENUM ('F', 'M') NOT NULL,
        city VARCHAR NOT NULL CHECK (city IN ('Bern', 'Zürich')),
        pay DOUBLE NOT NULL CHECK (pay BETWEEN 0 AND 1000), wide BIGINT NOT NULL CHECK (wide BETWEEN 0 AND 9999999),
        born DATE, cost DECIMAL(8, 2), name VARCHAR, parts INTEGER[]);
    INSERT INTO people SELECT i % 100, 'F', 'Bern', i, i, '2020-01-01', 1, 'n' || i, [i] FROM range(50) t(i);
    CREATE TABLE workload AS SELECT 'age > 40' AS predicate;
    CREATE TABLE empty (predicate VARCHAR); CREATE TABLE bare (x INTEGER, y VARCHAR);
    CREATE TABLE taken (i INTEGER); CREATE TABLE capped AS SELECT true AS yes FROM range(9);
    CREATE TABLE capped_domain AS SELECT 'yes' AS attribute, ['true', 'false'] AS "values";
    CREATE TABLE computed (age INTEGER, low INTEGER GENERATED ALWAYS AS (age - 1));
    CREATE TABLE odd (age INTEGER, n DOUBLE GENERATED ALWAYS AS (random()));
    CREATE VIEW odd_view AS SELECT n FROM odd;
    CREATE VIEW joined AS SELECT p.age FROM people p, taken; CREATE VIEW nowhere AS SELECT x FROM bare;
    CREATE VIEW from_csv AS FROM 'people.csv';
    CREATE VIEW units AS SELECT age, upper(name) AS who, * EXCLUDE (age) FROM people;
    CREATE VIEW stale AS SELECT * FROM bare;
    CREATE TABLE many (a INTEGER NOT NULL, b INTEGER NOT NULL, c INTEGER NOT NULL, d INTEGER NOT NULL,
        x DOUBLE NOT NULL);
    CREATE TABLE many_domain AS SELECT unnest(['a', 'b', 'c', 'd', 'x']) AS attribute, 0 AS low, 99 AS high,
        unnest([NULL, NULL, NULL, NULL, 9]) AS bins;
    CREATE VIEW counted AS SELECT count(*) AS n FROM people;
    CREATE VIEW viewed AS SELECT 'age > 40' AS predicate;
    CREATE VIEW v0 AS SELECT age FROM people;"""


@dataclass(frozen=True)
class Case:
    """A call in SQL, the same in Python where there is one, and the start of what it says; `{n}` in all of them is
    the case's number."""

    says: str
    sql: str
    python: Callable[[Connection, int], object] | None = None
    before: str = ""
    after: str = ""


def release(
    says: str,
    table: object = "people",
    epsilon: object = "1",
    before: str = "",
    rows: list[dict[str, Any]] | None = None,
    **options: object,
) -> Case:
    """A release, with a workload of its own or the usual one."""
    workload = "workload" if rows is None else "w{n}"
    given = "".join(f", {name} := {literal(value)}" for name, value in options.items())

    def numbered(value: object, n: int) -> Any:
        return value.replace("{n}", str(n)) if isinstance(value, str) else value

    if rows is not None:
        columns = list(rows[0])
        listed = ", ".join("(" + ", ".join(literal(row[column]) for column in columns) + ")" for row in rows)
        before += f"; CREATE TABLE w{{n}} AS FROM (VALUES {listed}) t({', '.join(columns)})"
    return Case(
        says, f"CALL mwem_release({literal(table)}, {workload}, {literal(epsilon)}{given})",
        lambda con, n: mwem_sql.release(
            con, numbered(table, n), numbered(workload, n), epsilon,
            **{name: numbered(value, n) for name, value in options.items()},
        ),
        before,
    )  # fmt: skip


def asks(says: str, predicate: str | None = None, **row: object) -> Case:
    """A release with a workload of one row, or two where one is to come after it."""
    return release(says, rows=[{"predicate": predicate, **row}])


def domain(says: str, columns: str, *rows: str) -> Case:
    return Case(
        f"domain: {says}", "FROM mwem_domain('people', domain := 'd{n}')",
        lambda con, n: Domain.from_schema(con, "people", f"d{n}"),
        f"CREATE TABLE d{{n}} AS FROM (VALUES {', '.join(rows)}) t({columns})",
    )  # fmt: skip


def built(says: str, call: str, python: Callable[[Domain], object] | None = None, table: str = "people") -> Case:
    """A builder of workloads."""
    return Case(says, f"FROM {call}", None if python is None else lambda con, _: python(Domain.from_schema(con, table)))


def literal(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value)


TABLES = [
    release("mwem_release: table ('poeple') does not exist for this call. Hint: did you mean 'people'? name a table",
    "poeple"),
    release("mwem_release: table ('') must be the name of a table. Hint: write 'adult'", ""),
    release("mwem_release: view ('joined') has a CROSS JOIN", "joined"),
    release("mwem_release: view ('counted') calls count_star, which is not on the list of functions of one row; a "
            "private view", "counted"),
    release("mwem_release: view ('deep2') is over more than 50 other views; a private view", "deep52",
    before="; ".join(f"CREATE VIEW deep{k} AS SELECT age FROM {f'deep{k - 1}' if k else 'people'}" for k in range(53))),
    release("mwem_release: table ('odd') has the generated column n, which", "odd"),
    release("mwem_release: view ('odd_view') reads the generated column n", "odd_view"),
    release("mwem_release: view ('from_csv') reads a text file by read_csv", "from_csv"),
    release("mwem_release: view ('v{n}') reads nothing_{n}, which is not a table", "v{n}",
    before="CREATE TABLE nothing_{n} (i INTEGER); CREATE VIEW v{n} AS FROM nothing_{n}; DROP TABLE nothing_{n}"),
    release("mwem_release: view ('v{n}') no longer has the columns that it had when it was made", "v{n}",
    before="CREATE TABLE t{n} (i INTEGER); CREATE VIEW v{n} AS FROM t{n}; ALTER TABLE t{n} ADD COLUMN j INTEGER"),
    replace(release("mwem_release: macro ('lower') has the name of a function of DuckDB's",
    before="CREATE MACRO main.lower(x, y) AS 1"), after="DROP MACRO memory.main.lower"),
    Case("mwem_domain: table ('bear') does not exist for this call. Hint: did you mean 'bare'?",
    "FROM mwem_domain('bear')"),
    Case("mwem_domain: private_table (None) must be the name of a table. Hint: write it as a string",
    "FROM mwem_domain(NULL)"),
    Case("mwem_suggest_domain: table ('bare') has no column that a domain can be suggested for (x: no row",
    "FROM mwem_suggest_domain('bare')"),
    Case("domain: domain table ('capped_domian') does not exist for this call. Hint: did you mean 'capped_domain'? "
         "create it", "FROM mwem_domain('people', domain := 'capped_domian')", lambda con,
         _: Domain.from_schema(con, "people", "capped_domian")),
    Case("domain: domain table ('viewed') is a view, and what a view reads may be private. Hint: write its rows out",
    "FROM mwem_domain('people', domain := 'viewed')", lambda con, _: Domain.from_schema(con, "people", "viewed")),
    Case("domain: domain table ('people') is the private table itself. Hint: a domain must be public",
    "FROM mwem_domain('people', domain := 'people')", lambda con, _: Domain.from_schema(con, "people", "people")),
    Case("domain: domain table ('computed') has the generated column low, so that its rows are computed. Hint: write "
         "them out", "FROM mwem_domain('people', domain := 'computed')", lambda con,
         _: Domain.from_schema(con, "people", "computed")),
]  # fmt: skip

OPTIONS = [
    release("mwem_release: epsilon ('-1') must be a positive finite number. Hint: write a decimal", epsilon="-1"),
    release("mwem_release: epsilon ('1e9') must be between 1e-12 and 1e6. Hint: write a decimal", epsilon="1e9"),
    release("mwem_release: epsilon (1e-10) is so small that the number of rows would be noise. Hint: give rows := 1000",
    epsilon="1e-10"),
    release("mwem_release: delta ('2') must be a finite number from 0 to below 1. Hint: leave delta out", delta="2"),
    release("mwem_release: delta (0) must be above 0 to discover the values of name: one that a single row has may be "
            "shown, with a chance that delta bounds. Hint: give delta := 1e-9", domain="d{n}",
            before="CREATE TABLE d{n} AS SELECT 'name' AS attribute, true AS discover",
            rows=[{"predicate": "name = 'n1'"}]),
    domain("attribute city of type VARCHAR cannot be discovered: that is for text whose values neither a type nor a "
           "CHECK lists. Hint: leave discover out", "attribute, discover", "('city', true)"),
    domain("attribute born of type DATE cannot be discovered", "attribute, discover", "('born', true)"),
    release("mwem_release: delta ('1e-301') must be 0 or at least 1e-300. Hint: leave delta out", delta="1e-301"),
    release("mwem_release: rounds (0) must be a whole number from 1 to 1,000,000. Hint: leave rounds out", rounds=0),
    release("mwem_release: total (0) must be a number from 1. Hint: leave total out", total=0),
    release("mwem_release: total (1e+12) is more than 1,000,000,000 rows. Hint: give rows := 1000000", total=10**12),
    release("mwem_release: average (1) must be true or false. Hint: leave average out for false", average=1),
    release("mwem_release: start ('uniforn') is neither 'uniform' nor 'histogram' nor a release or table of this call. "
            "Hint: did you mean 'uniform'? name the output", start="uniforn"),
    release("mwem_release: version ('') must be text, and not empty. Hint: leave version out", version=""),
    release("mwem_release: rows_per_unit (2) needs a unit. Hint: name the column", rows_per_unit=2),
    release("mwem_release: unit ('nam') is not a column of people. Hint: did you mean 'name'? its columns are 'age'",
    unit="nam", rows_per_unit=1),
    release("mwem_release: unit ('parts') is of type INTEGER[], of which equal values need not be the same. Hint: "
            "identify units", unit="parts", rows_per_unit=1),
    release("mwem_release: start (3) must be 'uniform' or 'histogram', or the name of a release", start=3),
    release("mwem_release: fit ('mirrored') must be 'mirror' or 'replay'", fit="mirrored"),
    release("mwem_release: start ('hist') is neither 'uniform' nor 'histogram' nor a release", start="hist"),
    Case("mwem_budget: rows_per_unit (3) needs a unit. Hint: name the column",
    "CALL mwem_budget('people', 1, rows_per_unit := 3)"),
    Case("mwem_budget: unit ('who') is computed by a view, so that a cap could not count by it. Hint: name a column "
         "of people itself", "CALL mwem_budget('units', 1, unit := 'who')"),
    Case("mwem_partition: column ('ages') is not a column of people. Hint: did you mean 'age'?",
    "CALL mwem_partition('people', 'ages')", lambda con, _: mwem_sql.partition(con, "people", "ages")),
    Case("mwem_partition: by (3) must be the name of a column. Hint: write it as a string, 'month'",
    "CALL mwem_partition('people', 3)", lambda con, _: mwem_sql.partition(con, "people", 3)),
    Case("mwem_policy: require_caps ('on') must be true or false. Hint: leave it out",
    "CALL mwem_policy(require_caps := 'on')"),
    Case("mwem_release: option round is unknown. Hint: did you mean rounds? the options are average", "", lambda con,
    _: mwem_sql.release(con, "people", "workload", 1, round=3)),
    # type: ignore[arg-type]
    Case("mwem_release: workload (int) must be a table name, a Workload or a frame (pandas, Polars, Arrow). Hint: "
         "Workload.from_predicates", "", lambda con, _: mwem_sql.release(con, "people", 5, 1)),
    Case("mwem_release: workload ('wrokload') does not exist for this call. Hint: did you mean 'workload'? create it",
    "", lambda con, _: mwem_sql.release(con, "people", "wrokload", 1)),
]  # fmt: skip

OUTPUTS = [
    release("mwem_release: output (memory.main.taken) exists and is not a release. Hint: choose another name",
    output="taken"),
    release("mwem_release: output ('a.b.c.d') has too many parts. Hint: write database.schema.table", output="a.b.c.d"),
    release("mwem_release: output ('no.x') names a database or schema that does not exist or does not last. Hint: "
            "ATTACH", output="no.x"),
    release("mwem_release: output ('mwem.x') is in the schema mwem, which is for what mwem_sql keeps. Hint: choose "
            "another schema", output="mwem.x"),
    release("mwem_release: output (memory.main.people_made) holds a release of another request. Hint: choose another "
            "output, or give a new version := '...' to make and charge a new release under this name. What changed: "
            "epsilon (1, now 2)", epsilon="2", output="people_made"),
    Case("mwem_answer: output ('people_mad') is not a release of mwem_release. Hint: did you mean 'people_made'? name",
    "FROM mwem_answer('people_mad', workload)"),
    release("mwem_release: output ('') must be the name of a table, as text. Hint: leave output out for "
            "<table>_synthetic", output=""),
    release("mwem_release: output (5) must be the name of a table, as text. Hint: leave output out for "
            "<table>_synthetic", output=5),
    release("mwem_release: domain ('') must be the name of a table, as text. Hint: leave domain out for <table>_domain",
    domain=""),
    release("mwem_release: unit (' ') must be the name of a column, as text. Hint: leave unit out to protect one row",
    unit=" "),
    release("mwem_release: output ('./here/') is the path of a file or folder, and an output is a table. Hint: leave "
            "output out, and write the file then: CALL mwem_export('people_synthetic', "
            "'./here/people_synthetic.parquet')", output="./here/"),
    release("mwem_release: output ('x.csv') is the path of a file or folder, and an output is a table. Hint: leave "
            "output out, and write the file then: CALL mwem_export('people_synthetic', 'x.csv')", output="x.csv"),
    Case("mwem_plan: output ('./here/') is the path of a file or folder",
    "FROM mwem_plan('people', workload, 1, output := './here/')", lambda con,
    _: mwem_sql.plan(con, "people", "workload", 1, output="./here/")),
    Case("mwem_plan: epsilon ('0') must be a positive finite number. Hint: write",
    "FROM mwem_plan('people', workload, '0')", lambda con, _: mwem_sql.plan(con, "people", "workload", "0")),
    Case("mwem_plan: table ('poeple') does not exist for this call. Hint: did you mean 'people'? name a table",
    "FROM mwem_plan('poeple', workload, 1)", lambda con, _: mwem_sql.plan(con, "poeple", "workload", 1)),
    Case("mwem_plan: option round is unknown. Hint: did you mean rounds? the options are average", "", lambda con,
    _: mwem_sql.plan(con, "people", "workload", 1, round=3)),
    Case("mwem_report: table ('poeple') does not exist for this call. Hint: did you mean 'people'? name a table",
    "FROM mwem_report('people_made', 'r.html', compare := 'poeple')", lambda con,
    _: mwem_sql.report(con, "people_made", "r.html", compare="poeple")),
    # type: ignore[arg-type]
    Case("mwem_report: path ('') must be the name of a file. Hint: write 'report.html'",
    "FROM mwem_report('people_made', '')", lambda con, _: mwem_sql.report(con, "people_made", "")),
    Case("mwem_export: path ('.') is a folder, and not a file. Hint: write 'release.parquet'",
    "FROM mwem_export('people_made', '.')", lambda con, _: mwem_sql.export(con, "people_made", Path())),
    Case("mwem_answer: confidence ('0') must be between 0 and 1, without these. Hint: leave it out",
    "FROM mwem_answer('people_made', workload, confidence := 0)", lambda con,
    _: mwem_sql.release(con, "people", "workload", 1, output="people_made").answer("workload", "0")),
    Case("mwem_weights: people_made was made without agee. Hint: did you mean 'age'? it has 'age'; to have agee, "
         "release", "FROM mwem_weights('people_made', ['agee'])", lambda con,
         _: mwem_sql.weights(con, "people_made", ["agee"])),
    Case("workload: predicate ('pay > 3') reads pay, and people_made was made without pay. Hint: it has age; to have "
         "pay, release under another output", "SELECT mwem_count('people_made', 'pay > 3')", lambda con,
         _: mwem_sql.count_interval(con, "people_made", "pay > 3")),
    Case("workload: group_by reads sex, and people_made was made without sex. Hint: it has 'age'; to have sex",
    "FROM mwem_answer('people_made', w{n})", lambda con, n: mwem_sql.answer(con, "people_made", f"w{n}"),
    "CREATE TABLE w{n} AS SELECT ['sex'] AS group_by"),
    Case("workload: predicate ('age = 200') is false or NULL for every value of the public domain, so its answer is "
         "known already. Hint: age has no value 200, but whole numbers from 0 to 99",
         "SELECT mwem_count('people_made', 'age = 200')", lambda con,
         _: mwem_sql.answer(con, "people_made", Workload.from_predicates(["age = 200"]))),
    Case("mwem_weights: attributes ([]) must be one or more, each once. Hint: write",
    "FROM mwem_weights('people_made', [])"),
    Case("mwem_count: predicate (NULL) must be an SQL expression. Hint: write 'true'",
    "SELECT mwem_count('people_made', NULL)"),
]  # fmt: skip

WORKLOADS = [
    Case("workload: the workload has no rows. Hint: add at least one query", "CALL mwem_release('people', empty, 1)",
    lambda con, _: mwem_sql.release(con, "people", "empty", 1)),
    Case("workload: the workload has 2,000,001 rows, more than 2,000,000. Hint: use group_by rows", "", lambda _,
    __: Workload((mwem_sql.Query("true"),) * 2_000_001)),
    asks("workload: predicate (5) of row 1 is not text. Hint: predicate is a VARCHAR", 5),  # type: ignore[arg-type]
    Case("workload: predicate ('a\\x00') of row 1 has a NUL or half of a surrogate pair in it. Hint: write characters "
         "only", "CALL mwem_release('people', w{n}, 1)", lambda con, n: mwem_sql.release(con, "people", f"w{n}", 1),
         "CREATE TABLE w{n} AS SELECT 'a' || chr(0) AS predicate"),
    Case("workload: row 1 has a group_by (['a\\x00']) with a NUL or half of a surrogate pair in it. Hint: write "
         "characters only", "CALL mwem_release('people', w{n}, 1)", lambda con,
         n: mwem_sql.release(con, "people", f"w{n}", 1), "CREATE TABLE w{n} AS SELECT ['a' || chr(0)] AS group_by"),
    asks("workload: row 1 has a NULL predicate and no group_by, so it asks nothing. Hint: write a predicate"),
    asks("workload: row 1 has the weight -1, which must be a positive finite number. Hint: leave it NULL", "age > 4",
    weight=-1),
    asks("workload: row 1 has an empty group_by list. Hint: name columns", group_by=[]),
    asks("workload: row 1 has a group_by list (['sex', None]) with something other than names in it. Hint: list "
         "column names", group_by=["sex", None]),
    asks("workload: row 1 has a group_by (5) that is neither text nor a list of names. Hint: write ['sex', 'race']",
    group_by=5),
    asks("workload: column predicat is not a column of a workload. Hint: did you mean predicate? a workload has any of",
    "age > 4", predicat="x"),
    asks("mwem_release: the workload (1 rows) asks about no column, so there is nothing to synthesize. Hint: add a "
         "predicate", "true"),
    release("mwem_release: the workload asks for nothing that is possible: predicates 'age > 200' and 1 more are "
            "never true on the declared domain. Hint: ask for values that are possible: FROM mwem_domain('people') "
            "lists them", rows=[{"predicate": "age > 200"}, {"predicate": "age < 0"}]),
    asks("workload: measure ('count(*)') has the aggregate count; a query is asked of one row at a time. Hint: write "
         "a number of each row, or sum(...)", measure="count(*)"),
    asks("domain: column name of people has no public domain, so it cannot be queried. Hint: declare it in the schema",
    "name = 'x'"),
    asks("workload: predicate ('agee > 3') reads the unknown column agee. Hint: did you mean age? people has the "
         "columns age", "agee > 3"),
    asks("workload: predicate ('t.age > 3') reads t.age, which is not a column of people. Hint: name the table's own "
         "columns", "t.age > 3"),
    asks("workload: predicate ('age > max(age)') has the aggregate max; a query is asked of one row at a time. Hint: "
         "use", "age > max(age)"),
    asks("workload: predicate ('flor(age) > 3') calls flor, which is not on the list of deterministic scalar "
         "functions. Hint: did you mean floor? use", "flor(age) > 3"),
    asks("workload: predicate ('age > 4; age > 5') is not one SQL expression. Hint: write what would follow WHERE",
    "age > 4; age > 5"),
    asks("workload: predicate ('age > 4 AND (') is not valid SQL: ", "age > 4 AND ("),
    asks("workload: group_by ('age FROM people') is not a list of SQL expressions. Hint: write what would follow "
         "GROUP BY", group_by="age FROM people"),
    asks("workload: predicate ('age > 1 + 1 + 1", "age > 1" + " + 1" * 300),
    Case("workload: predicate ('age > 1 ", "CALL mwem_release('people', w{n}, 1)", lambda con,
    n: mwem_sql.release(con, "people", f"w{n}", 1),
    "CREATE TABLE w{n} AS SELECT 'age > 1' || repeat(' ', 100001) || '+ 1' AS predicate"),
    asks("workload: group_by names the unknown column 'agee'. Hint: did you mean 'age'? people has the columns",
    group_by=["agee"]),
    asks("workload: predicate (\"city = 'Zurich'\") is false or NULL for every value of the public domain, so its "
         "answer is known already. Hint: did you mean 'Zürich'? city has no value 'Zurich', but 'Bern', 'Zürich'",
         "city = 'Zurich'"),
    asks("workload: expression (", "CAST(city AS INTEGER) > 3"),
    asks("domain: attribute wide has 10,000,000 values, and a query needs them one by one (at most 100,000). Hint: "
         "declare step", group_by=["wide"]),
    asks("domain: attribute pay has endlessly many values, and a query needs them one by one (at most 100,000). Hint: "
         "declare step, bins or values", group_by=["pay"]),
    release("mwem_release: query 'age, city' makes a model of", rows=[{"group_by": ["age", "city"]}], max_cells=3),
    release("workload: query 'a, b, c, d' needs 108,243,216 cells over a, b, c, d, more than 10,000,000. Hint: group "
            "by fewer", "many", rows=[{"group_by": ["a", "b", "c", "d"]}]),
    release("workload: '\"a\" + \"b\" + \"c\" + \"d\" > 7' joins a, b, c, d value by value, 108,243,216 combinations, "
            "more than 1,000,000. Hint: make it a column: CREATE VIEW many_asked AS SELECT", "many",
            rows=[{"predicate": "a + b + c + d > 7"}]),
    release("mwem_release: start ('histogram') needs 108,243,216 cells over a, b, c, d, more than 10,000,000. Hint: "
            "leave start out", "many", rows=[{"group_by": [name]} for name in "abcd"], start="histogram"),
    release("workload: '\"x\" // 10' changes at too many values of x to cut its range there. Hint: write FLOOR(\"x\" "
            "/ 10) if", "many", rows=[{"group_by": "x // 10"}]),
    asks("workload: measure ('1e300') is not a number, or beyond", measure="1e300 * age"),
]  # fmt: skip

DOMAINS = [
    domain("attribute city has an empty list of values. Hint: list at least one", 'attribute, "values"',
    "('city', []::VARCHAR[])"),
    domain("attribute city lists the value 'Bern' twice. Hint: list every value once", 'attribute, "values"',
    "('city', ['Bern', 'Bern'])"),
    domain("attribute name has the type VARCHAR, which has no bounds. Hint: give it a list of values",
    "attribute, low, high", "('name', 0, 1)"),
    domain("attribute pay has neither a list of values nor both bounds. Hint: declare it", "attribute, low",
    "('pay', 0)"),
    domain("attribute wide has a bound that is not from", "attribute, low, high", "('wide', 0, 9223372036854775807)"),
    domain("attribute pay has low (9.0) above high (1.0). Hint: swap them", "attribute, low, high", "('pay', 9, 1)"),
    domain("attribute pay has step (-1.0), which must be positive. Hint: leave it out", "attribute, low, high, step",
    "('pay', 0, 9, -1)"),
    domain("attribute pay has bins (0), which must be at least 1. Hint: leave it out", "attribute, low, high, bins",
    "('pay', 0, 9, 0)"),
    domain("domain table ('d{n}') names the attribute 'agee', which is not a column of people. Hint: did you mean "
           "'age'? one row per column", "attribute, low, high", "('agee', 0, 1)"),
    domain("domain table ('d{n}') names the attribute 'age', which is listed twice. Hint: one row per column",
    "attribute, low, high", "('age', 0, 1)", "('age', 0, 1)"),
    domain("attribute city has a list of values and bounds too. Hint: give either", 'attribute, "values", low',
    "('city', ['a'], 1)"),
    domain("domain table ('d{n}') has the unknown column hihg. Hint: did you mean high? its columns are attribute",
    "attribute, low, hihg", "('age', 0, 1)"),
    domain("domain table ('d{n}') has no column attribute. Hint: its columns are attribute", "low", "(0)"),
    domain("domain table ('d{n}') cannot be read: ", 'attribute, "values"', "('age', 5)"),
    domain("attribute age lists a value that is not of its type INTEGER. Hint: Conversion Error", 'attribute, "values"',
    "('age', ['x'])"),
    domain("attribute age has the bound 'x', which is not a finite value of its type INTEGER. Hint: give bounds",
    "attribute, low, high", "('age', 'x', '9')"),
    domain("attribute pay has both bins and edges. Hint: give one of them", "attribute, low, high, bins, edges",
    "('pay', 0, 9, 2, ['5'])"),
    domain("attribute pay has an empty list of edges. Hint: list where its bins begin, or leave it out",
    "attribute, low, high, edges", "('pay', 0, 9, []::VARCHAR[])"),
    domain("attribute pay has the edge 10.0, which is not from 0.0 to 9.0. Hint: give edges between low and high",
    "attribute, low, high, edges", "('pay', 0, 9, ['5', '10'])"),
    domain("attribute pay has the edge 3.0 after 5.0, and edges must ascend. Hint: list each beginning of a bin once",
    "attribute, low, high, edges", "('pay', 0, 9, ['5', '3'])"),
    domain("attribute pay has the edge 'x', which is not a finite value of its type DOUBLE. Hint: give edges of the "
           "column's type", "attribute, low, high, edges", "('pay', '0', '9', ['x'])"),
    domain("attribute pay has step 'x', which is not a number. Hint: days for dates", "attribute, low, high, step",
    "('pay', '0', '9', 'x')"),
    domain("attribute cost has step '0.001', which is not a whole number of the smallest steps of DECIMAL(8,2). Hint: "
           "days", "attribute, low, high, step", "('cost', '0', '9', '0.001')"),
    domain("attribute pay has bins '1.5', which is not a whole number. Hint: leave it out",
    "attribute, low, high, bins", "('pay', '0', '9', '1.5')"),
]  # fmt: skip

BUILDERS = [
    built("mwem_marginals: k ('x') must be a whole number", "mwem_marginals('people', 'x')"),
    built("mwem_marginals: order (9) must be from 1 to 4, the number of attributes with a list of values",
    "mwem_marginals('people', 9)", lambda own: Workload.marginals(own, 9)),
    built("mwem_marginals: table ('bare') has no column that can be grouped by: x, y lack values, or low and high, to "
          "be queried at all. Hint: declare it", "mwem_marginals('bare', 2)", lambda own: Workload.marginals(own, 2),
          "bare"),
    built("mwem_ranges: count (0) must be from 1 to 2,000,000. Hint: give a whole number",
    "mwem_ranges('people', 'age', 0)", lambda own: Workload.ranges(own, ["age"], 0)),
    built("mwem_ranges: no column is named. Hint: name one column", "mwem_ranges('people', NULL, 5)",
    lambda own: Workload.ranges(own, [], 5)),
    built("mwem_ranges: seed (-1) must be a whole number", "mwem_ranges('people', 'age', 5, seed := -1)",
    lambda own: Workload.ranges(own, ["age"], 5, -1)),
    built("mwem_ranges: attribute city has a list of values, not bounds. Hint: ranges need numbers",
    "mwem_ranges('people', 'city', 5)", lambda own: Workload.ranges(own, ["city"], 5)),
    built("mwem_ranges: column ('agee') is not a column of people. Hint: did you mean 'age'? the columns are",
    "mwem_ranges('people', 'agee', 5)", lambda own: Workload.ranges(own, ["agee"], 5)),
    built("mwem_ranges: column ('age') is named twice. Hint: the columns are", "mwem_ranges('people', 'age, age', 5)",
    lambda own: Workload.ranges(own, ["age", "age"], 5)),
    built("mwem_parities: attribute age has 100 values or bins. Hint: a parity takes attributes of two values",
    "mwem_parities('people', 1, columns := ['age'])", lambda own: Workload.parities(own, 1, ["age"])),
]  # fmt: skip

CAPS = [
    Case("mwem_release: epsilon (2, delta 0) does not fit the cap on capped: 1 of 1 is left (delta 0). Hint: ask for "
         "less", "CALL mwem_release('capped', asked, 2)", lambda con, _: mwem_sql.release(con, "capped", "asked", 2),
         "CREATE TABLE IF NOT EXISTS asked AS SELECT 'yes' AS predicate; CALL mwem_budget('capped', 1)"),
    Case("mwem_release: delta (1e-06) does not fit the cap on capped, which has none (delta 0). Hint: leave delta out",
    "CALL mwem_release('capped', asked, 0.1, delta := 1e-6)", lambda con,
    _: mwem_sql.release(con, "capped", "asked", 0.1, delta=1e-6)),
    Case("mwem_release: a release that protects one yes, at most 1 rows cannot be counted under the cap on capped, "
         "which is for one row. Hint: leave unit out",
         "CALL mwem_release('capped', asked, 0.1, unit := 'yes', rows_per_unit := 1)", lambda con,
         _: mwem_sql.release(con, "capped", "asked", 0.1, unit="yes", rows_per_unit=1)),
    Case("mwem_release: a seeded release of capped is refused, because the table has a cap. Hint: leave seed out",
    "CALL mwem_release('capped', asked, 0.1, seed := 1)", lambda con,
    _: mwem_sql.release(con, "capped", "asked", 0.1, seed=1)),
    Case("mwem_release: table (memory.main.people) has no cap, and database memory has tables with one, whose rows it "
         "may hold. Hint: have the curator decide", "CALL mwem_release('people', workload, 0.1, output := 'x')",
         lambda con, _: mwem_sql.release(con, "people", "workload", 0.1, output="x")),
    Case("mwem_budget: delta (1e-06) cannot be changed to or from 0: 1 releases of capped were counted without it. "
         "Hint: keep delta := 0", "CALL mwem_budget('capped', 1, delta := 1e-6)", None,
         "CALL mwem_release('capped', asked, 0.1)"),
    Case("mwem_budget: a cap for one yes, at most 1 rows cannot count releases of capped that protect one row. Hint: "
         "set it with their unit", "CALL mwem_budget('capped', 1, unit := 'yes')"),
]  # fmt: skip

CASES = [*TABLES, *OPTIONS, *OUTPUTS, *WORKLOADS, *DOMAINS, *BUILDERS, *CAPS]
UNCALLED = "no test"
# Refusals that need another process, a damaged file, two databases or millions of rows; and those that no surface leads
# to. By function, module or folder, the test that calls them.
ELSEWHERE = {
    "mwem_sql.workload.ranges": "test_workload.py",
    "mwem_sql.compile.totals": "compile/test_totals.py", "mwem_sql.domains.totals": "domains/test_totals.py",
    "mwem_sql.compile.rules.breaches": "compile/test_rules.py", "mwem_sql.domains.rules": "domains/test_rules.py",
    "mwem_sql.releases.constraints._support": "sql/rules.test",
    "mwem_sql.releases.constraints._totals": "releases/test_constraints.py",
    "mwem_sql.releases.start": "releases/test_start.py",
    "mwem_sql.boundary.levels": "sql/tables.test", "mwem_sql.boundary.members": "releases/test_tables.py",
    "mwem_sql.releases.levels": "sql/tables.test",
    "mwem_sql.releases.questions": "sql/tables.test",
    "mwem_sql.releases.tables": "releases/test_tables.py", "mwem_sql.workload.check_of": "sql/tables.test",
    "mwem_sql.releases.reuse.check_replaceable": "sql/tables.test",
    "mwem_sql.scan.scores": "scan/test_scores.py", "mwem_sql.explain.compare._target": "scan/test_scores.py",
    "mwem_sql.explain.compare._compare_scores": "scan/test_scores.py",
    "mwem_sql.explain.compare.quality": "scan/test_scores.py",
    "mwem_sql.domains.attribute._check_edges": "domains/test_attribute.py",
    "mwem_sql.releases.answer.average": "sql/quantiles.test",
    "mwem_sql.releases.answer.read_given": "sql/quantiles.test", "mwem_sql.releases.quantile": "sql/quantiles.test",
    "mwem_sql.releases.request.parse": "releases/test_request.py", "mwem_sql.releases.sample": "sql/samples.test",
    "mwem_sql.releases.store.check_standing": "sql/withdraw.test", "mwem_sql.releases.withdrawal": "sql/withdraw.test",
    "mwem_sql.kernel.accountant.debit": "kernel/test_budget.py",
    "mwem_sql.kernel.accountant.fault": "kernel/test_budget.py",
    "mwem_sql.accounting.ledger.read_ledger": "sql/attached.test",
    "mwem_sql.accounting.partitions.partition_column": "accounting/test_partitions.py",
    "mwem_sql.accounting.ledger.enter_cap": "surface/test_attachments.py",
    "mwem_sql.accounting.accounts.home": UNCALLED, "mwem_sql.accounting.ledger.check_writable": "sql/attached.test",
    "mwem_sql.kernel.budget.__post_init__": "kernel/test_budget.py",
    "mwem_sql.accounting.caps.check_replaces": "accounting/test_caps.py",
    "mwem_sql.accounting.ledger._refused": "accounting/test_accounts.py",
    "mwem_sql.accounting.ledger.check_whole": "accounting/test_journal.py",
    "mwem_sql.accounting.accounts.account": "accounting/test_names.py",
    "mwem_sql.platform.metadata._check_format": "platform/test_metadata.py",
    "mwem_sql.kernel.scales._calibrate": "kernel/test_scales.py",
    "mwem_sql.kernel.scales._check": "kernel/test_scales.py",
    "mwem_sql.kernel.scales.least_threshold": "kernel/test_thresholds.py",
    "mwem_sql.boundary.relations._check_database": "boundary/test_relations.py",
    "mwem_sql.boundary.keys": "boundary/test_keys.py", "mwem_sql.boundary.joins.with_unit": "boundary/test_keys.py",
    "mwem_sql.boundary.relation.check_unit": "boundary/test_relation.py",
    "mwem_sql.boundary.relations.above": "boundary/test_keys.py",
    "mwem_sql.accounting.policy": "sql/keys.test", "mwem_sql.surface.counting.public": "sql/keys.test",
    "mwem_sql.surface.counting.budget": "sql/keys.test",
    "mwem_sql.surface.counting._cap_of_user": "accounting/test_windows.py",
    "mwem_sql.accounting.caps.read_every": "accounting/test_windows.py",
    "mwem_sql.accounting.subjects": "server/test_gate.py",
    "mwem_sql.releases.reuse.check_theirs": "server/test_gate.py",
    "mwem_sql.platform.seats": "platform/test_seats.py", "mwem_sql.server.gate": "server/test_gate.py",
    "mwem_sql.server.limits": "server/test_limits.py", "mwem_sql.server.owners": "server/test_owners.py",
    "mwem_sql.server.serve": "cli/test_serve.py", "mwem_sql.server.statements": "server/test_statements.py",
    "mwem_sql.server.users": "server/test_users.py",
    "mwem_sql.cli.suggest._sniffed": "cli/test_suggest.py",
    "mwem_sql.cli.suggest._files": "cli/test_suggest.py", "mwem_sql.cli.suggest._of_several": "cli/test_suggest.py",
    "mwem_sql.domains.levels": "sql/tables.test", "mwem_sql.releases.builders": "releases/test_builders.py",
    "mwem_sql.explain.compare._rows_as_released": "explain/test_compare.py",
    "mwem_sql.explain.explain.plan_rows": "sql/tables.test", "mwem_sql.releases.answer.without": "sql/tables.test",
    "mwem_sql.explain.suggest_tables": "explain/test_suggest_tables.py",
    "mwem_sql.accounting.accounts.unit": "accounting/test_trees_of_files.py",
    "mwem_sql.cli.suggest._rows_of": "cli/test_suggest.py", "mwem_sql.compile.build._check_cells": "scan/test_wide.py",
    "mwem_sql.compile.evaluate.check_evaluations": "scan/test_wide.py",
    "mwem_sql.compile.pipeline._check_as_written": "compile/test_pipeline.py",
    "mwem_sql.compile.pipeline.compile_workload": UNCALLED, "mwem_sql.platform.calls.run": "faults/test_faults.py",
    "mwem_sql.platform.catalog._parsed": UNCALLED, "mwem_sql.domains.attribute.__post_init__": "domains/test_domain.py",
    "mwem_sql.kernel.kernel._refuse": "kernel/test_kernel.py",
    "mwem_sql.kernel.draws.shielded": "kernel/test_kernel.py",
    "mwem_sql.kernel.draws._misfit": "kernel/test_draws.py",
    "mwem_sql.accounting.draws": "accounting/test_draws.py",
    "mwem_sql.releases.entries": "releases/test_entries.py",
    "mwem_sql.releases.answer.weights": "releases/test_answer.py",
    "mwem_sql.releases.run.store_all": "releases/test_run.py",
    "mwem_sql.releases.run.planned": "sql/attached.test", "mwem_sql.releases.entries.withhold": "sql/publish.test",
    "mwem_sql.releases.plan._check_publication": "sql/publish.test",
    "mwem_sql.releases.request._condition": "sql/publish.test",
    "mwem_sql.releases.publication": "releases/test_publication.py",
    "mwem_sql.releases.asking": "server/test_requests.py",
    "mwem_sql.accounting.requests": "server/test_requests.py",
    "mwem_sql.server.door": "server/test_door.py",
    "mwem_sql.accounting.ledger.debit": "sql/policy.test",
    "mwem_sql.boundary.relations._file": "boundary/test_files.py",
    "mwem_sql.boundary.sources": "surface/test_attachments.py",
    "mwem_sql.scan.dialects": "scan/test_dialects.py",
    "mwem_sql.platform.session.connection_of": "platform/test_session.py",
    "mwem_sql.scan.engines": "engines/test_contract.py",
    "mwem_sql.releases.answer.read_confidence": "sql/intervals.test",
    "mwem_sql.releases.plan._check_always": "releases/test_plan.py",
    "mwem_sql.reporting": "reporting/test_export.py",
    "mwem_sql.surface.frames.load": "surface/test_frames.py",
    "mwem_sql.surface.attachments": "surface/test_attachments.py",
    "mwem_sql.surface.api.table_name": "surface/test_tables.py",
    "mwem_sql.workload.__post_init__": "sql/always.test", "mwem_sql.workload._always": "sql/always.test",
    "mwem_sql.surface.counting.policy": "sql/policy.test",
    "mwem_sql.surface.register.cursor": "surface/test_register.py",
}  # fmt: skip


@cache
def sites() -> dict[str, set[tuple[str, int]]]:
    """Where the package refuses: by module and function, the lines of each call."""
    sites: dict[str, set[tuple[str, int]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for function, call in _calls(ast.parse(path.read_text(encoding="utf-8")), ()):
            lines = {(str(path), line) for line in range(call.lineno, (call.end_lineno or call.lineno) + 1)}
            sites[f"{module}.{function.name}:{call.lineno - function.lineno}"] = lines
    return sites


def _calls(tree: ast.AST, functions: tuple[ast.FunctionDef, ...]) -> Iterator[tuple[ast.FunctionDef, ast.Call]]:
    """The refusals inside a tree with each of the functions around them, without those of helpers defined in these."""
    for node in ast.iter_child_nodes(tree):
        around = functions
        if isinstance(node, ast.Call) and _called(node) in {"refuse", *HELPERS}:
            yield from ((function, node) for function in functions)
        elif getattr(node, "name", "") in HELPERS:
            around = ()
        elif isinstance(node, ast.FunctionDef):
            around = (*functions, node)
        yield from _calls(node, around)


HELPERS = {"no", "_no", "refused", "refuse_query", "refuse_domain", "refuse_relation"}
"""Functions that refuse in the name of whoever calls them."""


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """Lines from which something was refused."""
    lines: set[tuple[str, int]] = set()
    real = errors.refuse

    def refuse(*arguments: Any) -> MwemError:
        frame = sys._getframe(1)
        while frame.f_code.co_name in HELPERS and frame.f_back is not None:
            frame = frame.f_back
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return real(*arguments)

    for name, module in list(sys.modules.items()):
        if name.startswith("mwem_sql") and getattr(module, "refuse", None) is real:
            monkeypatch.setattr(module, "refuse", refuse)
    return lines


@pytest.fixture
def con(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("age\n1\n2\n")
    con = mwem_sql.connect()
    con.execute(SETUP)
    con.execute("CALL mwem_release('people', workload, 1, output := 'people_made')")
    yield con
    con.close()


@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_the_catalogue(con: Connection, seen: set[tuple[str, int]], *, both: bool) -> None:
    """From SQL and from Python; by default every fourth from both, and the others from SQL."""
    wrong = []
    for number, case in enumerate(CASES):
        wanted = case.says.replace("{n}", str(number))
        asked = case
        if not both and number % 4 and case.sql:
            asked = replace(case, python=None)
        wrong += [
            f"{wanted!r} but {found[:300]!r}"
            for found in said(con, asked, number)
            if not found.startswith(wanted) or not FORM.fullmatch(found)
        ]
    assert not wrong, "\n".join(wrong)
    missed = {place for place, lines in sites().items() if lines.isdisjoint(seen)}
    unknown = sorted(place for place in missed if not _elsewhere(place))
    assert not unknown, "\n".join(unknown)


def _elsewhere(place: str) -> str | None:
    """The test that calls a refusal by its function, or by its module or folder."""
    parts = place.rsplit(":", 1)[0].split(".")
    return next((ELSEWHERE[name] for k in range(len(parts), 1, -1) if (name := ".".join(parts[:k])) in ELSEWHERE), None)


def test_what_is_called_elsewhere_is_there() -> None:
    places = [place.rsplit(":", 1)[0] for place in sites()]
    assert [own for own in ELSEWHERE if not any(f"{place}.".startswith(f"{own}.") for place in places)] == []
    assert [
        file for file in ELSEWHERE.values() if file != UNCALLED and not (Path(__file__).parent / file).is_file()
    ] == []


def said(con: Connection, case: Case, number: int) -> Iterator[str]:
    """What a call says in SQL, and in Python; `nothing` if it runs."""
    if case.before:
        con.execute(case.before.replace("{n}", str(number)).strip("; "))
    if case.sql:
        yield sentence(lambda: con.execute(case.sql.replace("{n}", str(number))).fetchall())
    python = case.python
    if python is not None:
        yield sentence(lambda: python(con, number))
    if case.after:
        con.execute(case.after)


def sentence(call: Callable[[], object]) -> str:
    try:
        call()
    except (MwemError, duckdb.Error) as error:
        return str(error).removeprefix("Invalid Input Error: ")
    return "nothing"


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("round", ["rounds", "rows"], "did you mean 'rounds'? "), ("AGE ", ["Age"], "did you mean 'Age'? "),
        ("Bern", ["member", "age"], ""), ("x", [], ""),
        (None, ["x"], ""), ("a" * 10_000, ["a" * 10_000], ""), ("x1", [f"x{i}" for i in range(20_000)], ""),
    ],
)  # fmt: skip
def test_the_nearest_name(name: object, known: list[str], near: str) -> None:
    assert did_you_mean(name, known) == near
