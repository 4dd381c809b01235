"""What a workload's texts may say, what they may not, and how a refusal reads."""

from __future__ import annotations

from contextlib import suppress

import duckdb
import pytest
from chance import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from mwem_sql.errors import PredicateError
from mwem_sql.language import dialect, predicate

COLUMNS = predicate.Columns(("Age", "hours", "sex", "d", "ts", "x", "b", "my col", "select", "Größe"))


def parse(text: str) -> exp.Expr:
    return predicate.parse(text, COLUMNS, "predicate", "adult")


def refused(text: str) -> str:
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert caught.value.__cause__ is None
    return str(caught.value)


def message(text: str, reason: str, hint: str) -> str:
    return f"workload: predicate ({text!r}) {reason}. Hint: {hint}"


ONE_ROW = "use a deterministic scalar expression over the table's own columns"


LISTED = "which is not on the list of deterministic scalar functions"


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("age > (SELECT avg(age) FROM adult)", "has a subquery; only the row's own columns may be read", ONE_ROW),
        ("age IN (SELECT 1)", "has a subquery; only the row's own columns may be read", ONE_ROW),
        ("EXISTS (SELECT 1)", "has a subquery; only the row's own columns may be read", ONE_ROW),
        ("age = ANY(SELECT 1)", "has a subquery; only the row's own columns may be read", ONE_ROW),
        ("age > ALL (SELECT 1)", "has a subquery; only the row's own columns may be read", ONE_ROW),
        ("SELECT 1", "has a subquery; only the row's own columns may be read", ONE_ROW),
        ("FROM adult", "has a subquery; only the row's own columns may be read", ONE_ROW),
        ("sum(age) > 3", "has the aggregate sum; a query is asked of one row at a time", ONE_ROW),
        ("count(*) > 3", "has the aggregate count; a query is asked of one row at a time", ONE_ROW),
        ("max(DISTINCT age) > 3", "has the aggregate max; a query is asked of one row at a time", ONE_ROW),
        ("row_number() OVER () > 3", "has a window function; a query is asked of one row at a time", ONE_ROW),
        ("sum(age) OVER (ORDER BY d) > 3", "has a window function; a query is asked of one row at a time", ONE_ROW),
        ("random() < 0.5", f"calls random, {LISTED}", ONE_ROW),
        ("now() > ts", f"calls now, {LISTED}", ONE_ROW),
        ("current_date > d", f"calls current_date, {LISTED}", ONE_ROW),
        ("current_timestamp > ts", f"calls current_timestamp, {LISTED}", ONE_ROW),
        ("localtimestamp > ts", f"calls localtimestamp, {LISTED}", ONE_ROW),
        ("today() > d", f"calls today, {LISTED}", ONE_ROW),
        ("age(d) > INTERVAL 3 YEAR", f"calls age, {LISTED}", ONE_ROW),
        ("uuid() > 'a'", f"calls uuid, {LISTED}", ONE_ROW),
        ("getenv('HOME') = 'x'", f"calls getenv, {LISTED}", ONE_ROW),
        ("current_setting('threads') = 1", f"calls current_setting, {LISTED}", ONE_ROW),
        ("nextval('s') > 1", f"calls nextval, {LISTED}", ONE_ROW),
        ("read_csv('/etc/passwd') = 'x'", f"calls read_csv, {LISTED}", ONE_ROW),
        ("my_udf(age) = 1", f"calls my_udf, {LISTED}", ONE_ROW),
        ("error('x')", f"calls error, {LISTED}", ONE_ROW),
        ("unnest([1]) = 1", f"calls unnest, {LISTED}", ONE_ROW),
        ("COLUMNS('a.*') > 1", f"calls columns, {LISTED}", ONE_ROW),
        ("COLUMNS(*) > 1", f"calls columns, {LISTED}", ONE_ROW),
        ("list_filter([1], lambda v: v > 1) = 1", f"calls list_filter, {LISTED}", ONE_ROW),
        ("age > ?", "has a parameter", "write the value into the text"),
        ("age > $1", "has a parameter", "write the value into the text"),
        ("age > $low", "has a parameter", "write the value into the text"),
        ("*", "has a star", "name the columns"),
        ("adult.*", "has a star", "name the columns"),
        (
            "age > 1; DROP TABLE adult",
            "is not one SQL expression",
            "write what would follow WHERE, one expression without a semicolon",
        ),
        ("", "is not one SQL expression", "write what would follow WHERE, one expression without a semicolon"),
        (
            "  -- nothing",
            "is not one SQL expression",
            "write what would follow WHERE, one expression without a semicolon",
        ),
        (
            "age > 1 AS old",
            "has an alias (old)",
            "leave it out: an expression has no name of its own; a name with a space in it takes double quotes",
        ),
        (
            "old: age > 1",
            "has an alias (old)",
            "leave it out: an expression has no name of its own; a name with a space in it takes double quotes",
        ),
        ("age IN hours", "tests IN something other than a list", "write the list out: x IN (1, 2, 3)"),
        ("v -> v + 1", f"calls json_extract, {LISTED}", ONE_ROW),
        ("MAP {1: age} = 3", f"calls to_map, {LISTED}", ONE_ROW),
        ("lower(sex, b => 3) = 'x'", "has a part (b => 3) that is not a scalar expression", ONE_ROW),
        (
            "\u0430ge > 1",
            "reads the unknown column \u0430ge ('\\u0430ge')",
            (
                'adult has the columns Age, hours, sex, d, ts, x, b, "my col", "select", Größe; if it is text, write '
                "'\u0430ge'"
            ),
        ),
        ("age > 1;", "is not one SQL expression", "write what would follow WHERE, one expression without a semicolon"),
        ("#1 > 3", "has a part (#1) that is not a scalar expression", ONE_ROW),
        ("[age][1] > 3", f"calls array, {LISTED}", ONE_ROW),
        ("{'a': age}.a > 3", "has a part ({'a': age}.a) that is not a scalar expression", ONE_ROW),
        ("sex.lower() = 'f'", "has a part (sex.lower()) that is not a scalar expression", ONE_ROW),
        ("other.age > 3", "reads other.age, which is not a column of adult", "name the table's own columns"),
        (
            "other.adult.age > 3",
            "reads other.adult.age, which is not a column of adult",
            "name the table's own columns",
        ),
        (
            "a.main.adult.age > 3",
            "reads a.main.adult.age, which is not a column of adult",
            "name the table's own columns",
        ),
    ],
)
def test_refusals(text: str, reason: str, hint: str) -> None:
    assert refused(text) == message(" ".join(text.split()), reason, hint)


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE adult",
        "ATTACH 'x'",
        "COPY adult TO 'x'",
        "PRAGMA version",
        "SET threads = 1",
        "VALUES (1)",
        "CALL f()",
    ],
)
def test_statements_are_refused(text: str) -> None:
    assert refused(text).startswith("workload: predicate (")


def test_an_unknown_column_is_named_with_the_known_ones() -> None:
    assert refused("agee > 3") == message(
        "agee > 3",
        "reads the unknown column agee",
        'did you mean Age? adult has the columns Age, hours, sex, d, ts, x, b, "my col", "select", Größe; if '
        "it is text, write 'agee'",
    )
    assert "reads the unknown column Male;" in refused('sex = "Male"').replace(". Hint", ";")
    # DuckDB ignores the case of ASCII letters only.
    assert "reads the unknown column GRÖSSE" in refused('"GRÖSSE" > 3')


SYNTAX = [
    ("age >", "  age >\n      ^"),
    ("lambda v: v + 1", "  lambda v: v + 1\n          ^"),
    ("age 5", "  age 5\n      ^"),
    ("age > 3 AND AND sex = 'F'", "  age > 3 AND AND sex = 'F'\n              ^"),
    ("age >\n 3 AND\n  (hours = ", "    (hours = \n           ^"),
    ("age > 3\n  AND sex = = 'F'\n  AND hours > 2", "    AND sex = = 'F'\n              ^"),
    ("age > 1)", "  age > 1)\n         ^"),
    ("age = 'abc", "  age = 'abc\n        ^"),
    (
        "age = 1 -- it's\n AND sex = 'it''s' OR sex = 'x",
        "   AND sex = 'it''s' OR sex = 'x\n                              ^",
    ),
    ('age = "x', '  age = "x\n        ^'),
    ("age = 1 /* no end", "  age = 1 /* no end\n          ^"),
    ("\tage >\t> 3 AND (", "  \tage >\t> 3 AND (\n  \t     \t        ^"),
    ("x" * 300 + " y z", "^"),
]


@pytest.mark.parametrize(("text", "shown"), SYNTAX)
def test_a_syntax_error_shows_the_place(text: str, shown: str) -> None:
    found = refused(text)
    assert found.startswith("workload: predicate (")
    assert ") is not valid SQL: " in found
    assert found.endswith(f"{shown}\nHint: write what would follow WHERE")
    assert "<class" not in found


def test_a_syntax_error_in_a_list_shows_the_place() -> None:
    with pytest.raises(
        PredicateError, match=r"is not valid SQL: .*\n  sex,\n      \^|is not valid SQL: .*\n  lower\(sex\n"
    ) as caught:
        predicate.parse_list("sex,\nlower(sex", COLUMNS, "group_by", "adult")
    assert "SELECT" not in str(caught.value)


def test_long_and_deep_texts_are_refused() -> None:
    assert "has 100,016 characters, more than 100,000" in refused("age > 1 AND sex IN ('" + "x" * 99_993 + "')")
    for deep in (
        "(" * 300 + "age > 1" + ")" * 300,
        "NOT " * 300 + "b",
        " + ".join(["age"] * 300) + " > 3",
        "(" * 20_000 + "b" + ")" * 20_000,
    ):
        assert (
            "is nested too deeply (at most 200 levels, and fewer of parentheses and calls). Hint: use IN lists, "
            "or more rows" in refused(deep)
        )
    assert len(refused("sum(age) > " + "1" * 500)) < 400


def evaluated(text: str) -> bool | None:
    """What DuckDB makes of the checked tree of a text, and that it makes the same of the text."""
    row = """SELECT 40 AS "Age", 50 AS hours, 'abc' AS sex, DATE '2020-02-29' AS d,
        TIMESTAMP '2020-02-29 10:30:00' AS ts, 1.5::DOUBLE AS x,
           true AS b, 1 AS "my col", 2 AS "select", 3 AS "Größe" """
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE adult AS {row}")
        written, checked = con.execute(
            f"SELECT CAST(({text}\n) AS BOOLEAN), CAST(({dialect.sql(parse(text))}\n) AS BOOLEAN) FROM adult"
        ).fetchall()[0]
    assert written is checked
    return checked


@pytest.mark.parametrize(
    "text",
    sampled(
        [
            "sex LIKE 'a%'",
            "sex NOT LIKE 'b!%' ESCAPE '!'",
            "sex ILIKE 'A_C'",
            "sex SIMILAR TO 'a.c|x'",
            "sex GLOB 'a*'",
            "sex ^@ 'a'",
            "regexp_matches(sex, 'B', 'i')",
            "regexp_full_match(sex, 'a.c')",
            "NOT sex ~ 'z'",
            "sex !~ 'z'",
            "sex ~ 'a.c'",
            "CASE WHEN age > 30 THEN b ELSE NULL END",
            "CASE sex WHEN 'abc' THEN true END",
            "if(age > 30, true, false)",
            "coalesce(NULL, age, 3) = 40",
            "nullif(age, 3) = 40",
            "ifnull(age, 3) = 40",
            "age IN (1, 40, NULL)",
            "age NOT IN (1, 2)",
            "(age, sex) IN ((40, 'abc'), (1, 'x'))",
            "age BETWEEN 40 AND 50",
            "age NOT BETWEEN 1 AND 3",
            "age IS NOT NULL",
            "NOT age ISNULL",
            "age IS DISTINCT FROM 3",
            "age IS NOT DISTINCT FROM 40",
            "b IS TRUE",
            "b IS NOT FALSE",
            "age::VARCHAR = '40'",
            "CAST(age AS DECIMAL(5, 2)) = 40",
            "TRY_CAST(sex AS INTEGER) IS NULL",
            "CAST(sex AS ENUM('x', 'abc')) = 'abc'",
            "year(d) = 2020",
            "extract(month FROM d) = 2",
            "date_part('day', d) = 29",
            "date_trunc('month', d) = DATE '2020-02-01'",
            "d + INTERVAL 1 YEAR = '2021-02-28'",
            "d + 1 = DATE '2020-03-01'",
            "d - DATE '2020-01-01' = 59",
            "ts > TIMESTAMP '2020-01-01'",
            "ts + INTERVAL '90 minutes' = '2020-02-29 12:00:00'",
            "ts AT TIME ZONE 'UTC' > '2020-01-01 00:00:00+00'",
            "dayname(d) = 'Saturday'",
            "date_diff('month', DATE '2020-01-01', d) = 1",
            "strftime(d, '%Y-%m') = '2020-02'",
            "last_day(d) = d",
            "hour(ts) = 10",
            "age + hours * 2 - 1 = 139",
            "age / 3 > 13.3",
            "age // 3 = 13",
            "age % 7 = 5",
            "-age = -40",
            "+age = 40",
            "age ** 2 = 1600",
            "age ^ 2 = 1600",
            "-2 ^ 2 = 4",
            "@(-3) = 3",
            "age & 8 = 8",
            "age | 7 = 47",
            "~age = -41",
            "age << 1 = 80",
            "xor(age, 1) = 41",
            "round(x) = 2",
            "log(100) = 2",
            "ln(x) > 0.4",
            "greatest(age, hours) = 50",
            "least(age, NULL, 3) = 3",
            "hours > age",
            "length(sex) = 3",
            "sex || 'd' = 'abcd'",
            "concat(sex, NULL, 'd') = 'abcd'",
            "upper(sex) = 'ABC'",
            "substring(sex FROM 2 FOR 1) = 'b'",
            "substr(sex, 2) = 'bc'",
            "position('b' IN sex) = 2",
            "trim(both 'a' FROM sex) = 'bc'",
            "left(sex, 1) = 'a'",
            "split_part(sex, 'b', 2) = 'c'",
            "md5(sex) > ''",
            "sex COLLATE NOCASE = 'ABC'",
            "age = 40 /* forty */ -- the end",
            "/* a */ age = 40",
            '"Age" = 40',
            "AGE = 40",
            "adult.age = 40",
            'ADULT."age" = 40',
            '"my col" = 1',
            '"select" = 2',
            '"Größe" = 3',
            "Größe = 3",
            "age = 4e1",
            "age > .5",
            "age < 1_000",
            "age <> 3",
            "age != 3",
            "age == 40",
            "sex = $$abc$$",
            "sex = E'a\\x62c'",
            "sex <> 'it''s'",
            "true",
            "1 = 1",
            "age",
            "NOT b IS NULL",
            "NOT (age = 3 OR NOT b)",
            "(b) AND ((age)) = (40)",
            "typeof(age) = 'INTEGER'",
            "sex[1:2] = 'ab'",
            "sex[2] = 'b'",
            "sex[-1] = 'c'",
            "sex[:2] = 'ab'",
            "sex COLLATE NOCASE.NOACCENT = 'ABC'",
            "main.adult.age = 40",
            '"main"."adult"."age" = 40',
            "TRY(CAST(sex AS INTEGER)) IS NULL",
            "try(1 // (age - 40)) IS NULL OR true",
            "sex NOT ILIKE 'B%'",
            "sex NOT SIMILAR TO 'z.*'",
            "sex ~~ 'a%'",
            "sex !~~ 'b%'",
            "sex ~~* 'A%'",
            "sex ~~~ 'a*'",
            "age BETWEEN ASYMMETRIC 3 AND 50",
            "age NOTNULL",
            "to_base(age, 16) = '28'",
            "unhex('41') = 'A'::BLOB",
            "encode(sex) = 'abc'::BLOB",
            "decode(encode(sex)) = 'abc'",
            "array_slice(sex, 1, 2) = 'ab'",
            "parse_filename('a/' || sex) = 'abc'",
            "format_bytes(age) = '40 bytes'",
            "md5_number_lower(sex) >= 0",
            "nanosecond(ts) = 0",
            "make_timestamp_ms(age) > TIMESTAMP '1970-01-01'",
            "lpad(age::VARCHAR, 5, '0') = '00040'",
            "printf('%05d', age) = '00040'",
            "format('{:>5}', sex) = '  abc'",
        ],
        45,
    ),
)
def test_what_works_means_what_duckdb_says(text: str) -> None:
    assert evaluated(text) is True


def test_lists() -> None:
    def listed(text: str) -> list[str]:
        return [dialect.sql(tree) for tree in predicate.parse_list(text, COLUMNS, "group_by", "adult")]

    assert listed("sex, age") == ['"sex"', '"Age"']
    assert listed("date_trunc('month', d), (sex) -- both") == ["DATE_TRUNC('month', \"d\")", '("sex")']
    for text in (
        "sex FROM adult",
        "DISTINCT sex",
        "sex LIMIT 3",
        "sex UNION SELECT 1",
        "sex; SELECT 1",
        "",
        " ",
        "sex WHERE b",
    ):
        with pytest.raises(PredicateError, match=r"^workload: group_by \("):
            listed(text)
    for text in ("sex AS s", "*", "count(*)", "(SELECT 1)", "sex, random()", "nothing"):
        with pytest.raises(PredicateError, match=r"^workload: group_by \(.*\) (has|calls|reads)"):
            listed(text)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(PredicateError):
        parse(text)
