"""Shapes: reading a text part by part gives what reading it as it stands gives, and odd texts are left alone."""

from __future__ import annotations

import duckdb
import pytest
from chance import examples
from compilers import DOMAIN, compiled_from
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import TokenType, exp
from sqlglot.parser import binary_range_parser

import mwem_sql
from mwem_sql.compile import read
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.compile.read import Reader, take_apart
from mwem_sql.errors import PredicateError
from mwem_sql.language import conditions, dialect, predicate
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload

COLUMNS = predicate.Columns(("age", "hours", "sex", "city", "we ird", "and", "größe", "straße", "c and d"))


numbers = st.one_of(
    st.integers(0, 10**12).map(str), st.sampled_from(["0.5", ".5", "5.", "1e3", "1E-3", "00", "77000000001"])
)


strings = st.text("aZ '%_-;and or\"", max_size=8).map(lambda text: "'" + text.replace("'", "''") + "'")


names = st.sampled_from(
    ["age", "hours", "sex", "city", '"we ird"', '"and"', "t.age", "lower(city)", "round(age, 2)", "age::DECIMAL(9,2)"]
)


operators = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])


casts = st.sampled_from(["CAST", "try_cast", "cast "])


types = st.sampled_from(
    ["INT", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "DECIMAL(9, 2)", "VARCHAR", "INT[]", "ENUM ('a', 'b')"]
)


atoms = st.one_of(
    st.builds("{} {} {}".format, names, operators, st.one_of(numbers, strings)),
    st.builds("{}{}{}".format, numbers, operators, st.sampled_from(["age", "hours"])),
    st.builds("{} > -{}".format, names, numbers),
    st.builds("{} BETWEEN {} AND {}".format, names, numbers, numbers),
    st.builds("{} NOT IN ({}, {})".format, names, strings, strings),
    st.builds("{} IN ({})".format, names, st.lists(numbers, min_size=1, max_size=3).map(", ".join)),
    st.builds("{} LIKE {}".format, names, strings),
    st.builds("{} IS NOT NULL".format, names),
    st.builds("{} > DATE {}".format, names, strings),
    st.builds("date_trunc('month', age) = {}".format, strings),
    st.builds("{} >= {}({} AS {})".format, names, casts, st.one_of(numbers, strings), types),
    st.builds("{} < CAST(({} + {}) AS DOUBLE)".format, names, numbers, numbers),
    st.builds("CASE WHEN {} > {} THEN {} = 1 ELSE true END".format, names, numbers, names),
)


predicates = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} or {}".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("({} and {})".format, inner, inner),
    ),
    max_leaves=5,
)


# What could mislead a reader that looks for AND: in quotes, comments, BETWEEN and CASE, beside OR, in other letters.
odd = st.sampled_from(
    [
        "city = 'x AND y'",
        "\"c and d\" = 'it''s and \"that'",
        "\"and\" IN ('--', '/*', ' and ')",
        "city = E'\\'and'",
        "city = $$ and $$",
        "x'00' = city",
        "age > 1 -- and more",
        "age > 1 -- and more\n",
        "age /* and */ > 1",
        "age BETWEEN 1 AND 2",
        "age NOT between -5 and 9 AND sex = 'f'",
        "age BETWEEN 1 AND 2 OR hours = 3",
        "CASE WHEN age > 1 AND hours > 2 THEN sex = 'and' ELSE city = 'b' END",
        "age = 1 or hours = 2",
        "(age = 1 or hours = 2)",
        "(age > 1)and(hours>2)",
        "(age > 1)or(hours>2)",
        "age>-5",
        "age>1AND hours>2",
        "age > 5-3",
        "age>2--1",
        "größe > 5",
        "straße = 'x'",
        "größe\u00a0> 5",
        "city li\u212ae 'a%'",
        "ca\u017fe when age > 1 then true end",
        "age > 1 \uff21\uff2e\uff24 hours > 2",
        "t.and = 1",
        't."and" = 1',
        "age > 1 and",
        "and age > 1",
        "nope = 1",
        "not age = 1",
        "NOT sex = 'f' AND age > 1",
        "'a' 'b' = city",
        "age = 77000000001",
        "city = 'mwem:0'",
        "lower('mwem:0') = city",
        '"77000000000" > 1',
        "round(age, 1) = 2",
        "end",
        "case",
        "age between 1",
        "(age > 1",
        "age > 1)",
        "true",
        "city = 'a{0}'",
        "city = '{' and age > 1",
        "age -> 3 = 1",
        "age //* 2 */ 3 = 1",
        "city = 'ü and ß'",
    ]
)


joins = st.sampled_from([" AND ", " and ", "\nAnd\t", ")AND(", "  aNd  ", " AND NOT ", " OR ", "and"])


@st.composite
def conjunctions(draw: st.DrawFn) -> str:
    """Texts that share conjuncts, written in many ways."""
    parts = draw(
        st.lists(
            st.one_of(predicates, odd, st.sampled_from(["age > 1", "sex = 'f'", "(hours<2)"])), min_size=1, max_size=4
        )
    )
    text = parts[0]
    for part in parts[1:]:
        text += draw(joins) + part
    return draw(st.sampled_from(["", "(", " "])) + text + draw(st.sampled_from(["", ")", " "]))


def as_it_stands(text: str) -> list[conditions.Condition] | str:
    try:
        tree = predicate.parse(text, COLUMNS, "predicate", "t")
    except PredicateError as error:
        return str(error)
    return list(map(conditions.condition, conditions.conjuncts(tree)))


def by_parts(reader: Reader, text: str) -> list[conditions.Condition] | str:
    try:
        return [part.what for part in reader.read(text)]
    except PredicateError as error:
        return str(error)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.one_of(predicates, conjunctions()), min_size=1, max_size=6))
def test_reading_by_parts_is_reading(texts: list[str]) -> None:
    reader = Reader(COLUMNS, "t")
    for text in texts + texts:
        assert by_parts(reader, text) == as_it_stands(text)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(predicates, conjunctions()).filter(lambda text: not isinstance(as_it_stands(text), str)),
        min_size=1,
        max_size=6,
    )
)
def test_every_way_of_reading_has_an_example(texts: list[str]) -> None:
    reader = Reader(COLUMNS, "t")
    for text in texts:
        reader.read(text)
    assert reader.examples[0] == texts[0]
    again = Reader(COLUMNS, "t")
    for text in [*reader.examples, *texts]:
        again.read(text)
    assert again.examples == reader.examples


def test_a_text_with_or_is_no_part_of_another() -> None:
    reader = Reader(COLUMNS, "t")
    for text in (
        "(age > 1)or(hours>2)",
        "(sex = 'f')",
        "(age > 1)or(hours>2)and(sex = 'f')",
        "(sex = 'f')and(age > 1)or(hours>2)",
    ):
        assert by_parts(reader, text) == as_it_stands(text)


def test_what_was_read_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many texts there are, each shape of a part is parsed once, at each place it stands in."""
    parsed: list[str] = []
    parse = predicate.parse
    monkeypatch.setattr(predicate, "parse", lambda text, *rest: parsed.append(text) or parse(text, *rest))
    reader = Reader(COLUMNS, "t")
    for k in range(500):
        reader.read(f"age > {k} AND hours BETWEEN {k} AND 99 AND city = 'x{k}'")
        reader.read(f"city = 'y{k}' AND age > {k}")
    assert sorted(parsed) == sorted(
        [
            "age > 77000000000",
            "hours BETWEEN 77000000000 AND 77000000001",
            "city = 'mwem:0'",
        ]
    )


def test_a_text_of_quoted_columns_is_not_parsed(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the list of these columns, under its own label; whatever else a text says is for the parser."""
    parsed: list[str] = []
    parse = predicate.parse_list
    monkeypatch.setattr(predicate, "parse_list", lambda text, *rest: parsed.append(text) or parse(text, *rest))
    texts = ['"s", "B"', '"s",  b', "s, b"]
    queries = [Query(group_by=(text,), verbatim=False) for text in texts]
    compiled = compile_workload(DOMAIN, Workload((*queries, Query(group_by=("s", "b")))), sandbox)
    assert parsed == texts[1:]
    assert [query.label for query in compiled.queries] == [*texts, "s, b"]
    assert len({query.linear for query in compiled.queries}) == 1
    with pytest.raises(PredicateError, match=r"reads the unknown column q\."):
        compile_workload(DOMAIN, Workload((Query(group_by=('"s", "q"',), verbatim=False),)), sandbox)


def test_one_shape_for_all_constants() -> None:
    found = [
        take_apart(f"age > {number} AND city = '{city}'") or [] for number, city in [(1, "a"), (22, "it''s"), (3.5, "")]
    ]
    assert {tuple(part.shape for part in parts) for (parts,) in found} == {("age > 77000000000 ", " city = 'mwem:0'")}
    assert [[part.constants for part in parts] for (parts,) in found] == [
        [("1",), ("'a'",)],
        [("22",), ("'it''s'",)],
        [("3.5",), ("''",)],
    ]
    reader = Reader(COLUMNS, "t")
    for number in range(50):
        reader.read(f"age > {number} AND city = 'x'")
    assert reader.examples == ["age > 0 AND city = 'x'"]


@pytest.mark.parametrize(
    "text",
    [
        "age > 1 -- x",
        "age /* 1 */ > 1",
        "city = E'a'",
        "age > 1_000",
        "city = $$a$$",
        "age > ?",
        "city ~ 'a'",
        '"f"(3) > 1',
        "x'00' = city",
    ],
)
def test_odd_texts_are_not_taken_apart(text: str) -> None:
    assert take_apart(text) is None


def test_constants_that_belong_to_something_stay() -> None:
    found = take_apart("round(age, 2) > 3 AND age::DECIMAL(9,2) = 1 AND hours > INTERVAL 5 day")
    assert found is not None
    assert [part.constants for (parts,) in [found] for part in parts] == [("3",), ("1",), ()]


def test_one_shape_for_every_part_that_or_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    parse = predicate.parse
    monkeypatch.setattr(predicate, "parse", lambda text, *rest: parsed.append(text) or parse(text, *rest))
    reader = Reader(COLUMNS, "t")
    for k in range(50):
        reader.read(f"age > {k} OR city = 'x{k}' AND hours < {k}")
        reader.read(f"city = 'y{k}' OR age > {k}")
    assert sorted(parsed) == ["age > 77000000000", "city = 'mwem:0'", "hours < 77000000000"]
    # One text for each new shape as it is written, and for each nesting of AND in OR.
    assert reader.examples == ["age > 0 OR city = 'x0' AND hours < 0", "city = 'y0' OR age > 0"]


def test_a_refusal_quotes_the_text_and_not_its_shape() -> None:
    with pytest.raises(PredicateError, match="nope > 41"):
        Reader(COLUMNS, "t").read("nope > 41 AND age = 3")


@pytest.mark.parametrize(
    "query",
    [
        Query("s ~ 'z'"),
        Query("s ~ 'z' AND a > 3"),
        Query("s ~ 'z'", group_by=("e",)),
        Query(group_by=("s ~ 'z', e",), verbatim=False),
        Query(measure="CASE WHEN s ~ 'z' THEN 1 ELSE -1 END"),
        Query("a > 2", measure="CASE WHEN s ~ 'z' THEN 1 ELSE 0 END"),
    ],
)
def test_a_text_that_is_read_in_two_ways_is_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, query: Query
) -> None:
    """`~` means another thing in DuckDB 2 than in 1: with the other version's reading the net must hold."""
    compile_workload(DOMAIN, Workload((query,)), sandbox)
    other = exp.RegexpFullMatch if int(duckdb.__version__.split(".")[0]) >= 2 else exp.RegexpLike
    monkeypatch.setitem(dialect.Verbatim.Parser.RANGE_PARSERS, TokenType.TILDE, binary_range_parser(other))
    with pytest.raises(
        PredicateError,
        match=r"^workload: query \(.*~.*\) is read in two ways by the parser and by DuckDB. Hint: write it with plain",
    ):
        compile_workload(DOMAIN, Workload((Query("b"), query)), sandbox)


def test_a_text_that_is_split_wrongly_is_refused(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that overlooks OR takes `a = 1 OR b AND s = 'x'` apart at AND, also with parts that it read before."""
    texts = ["a = 1 OR b AND s = 'x'", "e = 'lo' AND s = 'x'", "(a = 1)OR(b)AND(s = 'x')"]
    compiled_from(sandbox, *texts)
    monkeypatch.setattr(read, "_JOINS", ("and",))
    for text in (texts[0], texts[2]):
        with pytest.raises(PredicateError, match="is read in two ways"):
            compiled_from(sandbox, text, texts[1])
        with pytest.raises(PredicateError, match="is read in two ways"):
            compiled_from(sandbox, "a = 2 OR b", texts[1], text)


# Names and expressions in one list, so that marginals and a person's own groups go into one table.


def test_marginals_and_expressions_in_one_table(con: Connection) -> None:
    con.execute("CREATE TABLE w AS FROM mwem_marginals('people', 2)")
    con.execute("INSERT INTO w (group_by) VALUES (['sex', 'age // 10']), (['City'])")
    con.execute("INSERT INTO w (predicate) VALUES ('age > 40')")
    con.execute("CALL mwem_release('people', w, 1, rounds := 1)")
    named = con.execute(
        "SELECT DISTINCT query, name FROM mwem_answer('people_synthetic', w) WHERE query > 6 ORDER BY ALL"
    )
    assert named.fetchall() == [(7, "sex, age // 10"), (8, "City"), (9, "age > 40")]
    asked = mwem_sql.Workload.from_rows([{"group_by": ["sex", "age // 10"]}, {"group_by": "sex, age // 10"}])
    answers = mwem_sql.release(con, "people", "w", 1, rounds=1).answer(asked).to_pylist()
    half = len(answers) // 2
    assert [row["answer"] for row in answers[:half]] == [row["answer"] for row in answers[half:]]


def test_a_list_in_a_column_of_text(con: Connection) -> None:
    """What DuckDB makes of a VARCHAR[] that goes into a VARCHAR."""
    con.execute('ALTER TABLE people ADD COLUMN "it\'s, so" BOOLEAN')
    con.execute("CREATE TABLE w (group_by VARCHAR)")
    con.execute("INSERT INTO w SELECT group_by FROM mwem_marginals('people', 2)")
    con.execute("INSERT INTO w VALUES ('sex, age // 10')")
    read = mwem_sql.Workload.from_arrow(con.sql("FROM w").to_arrow_table())
    wanted = mwem_sql.Workload.marginals(mwem_sql.Domain.from_schema(con, "people"), 2)
    assert [query.group_by for query in read][:-1] == [query.group_by for query in wanted]
    assert {query.verbatim for query in read.queries[:-1]} == {True}
    assert not read.queries[-1].verbatim


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            "agee",
            (
                "workload: group_by names the unknown column 'agee'. Hint: did you mean 'age'? people has the "
                "columns 'age', 'sex'"
            ),
        ),
        ("my age", "group_by names the unknown column 'my age'. Hint: people has"),
        ("agee // 10", "group_by ('agee // 10') reads the unknown column agee. Hint: did you mean age?"),
        (
            "flor(age)",
            "calls flor, which is not on the list of deterministic scalar functions. Hint: did you mean floor? use a",
        ),
        ("age, sex", "group_by ('age, sex') is not valid SQL"),
    ],
)
def test_neither_name_nor_expression(shared: Connection, item: str, message: str) -> None:
    shared.execute("CREATE OR REPLACE TABLE w AS SELECT [?] AS group_by", [item])
    with pytest.raises(duckdb.Error) as caught:
        shared.execute("FROM mwem_plan('people', w, 1)").fetchall()
    assert message in str(caught.value)


def test_a_list_of_words_is_read_word_by_word(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is as a whole; and each word is in one list that DuckDB evaluates as it stands."""
    con.execute("CREATE TABLE wide (a INT CHECK (a IN (1, 2)), b INT CHECK (b IN (1, 2)), C INT CHECK (C IN (1, 2)))")
    domain = mwem_sql.Domain.from_schema(con, "wide")
    lists = ["a, b", "b, C", "a, c", "A, b", "c, a, b", '"a", b', "a,b", "a, b + 1", "b, a", "true, a", "a, true"]
    parsed: list[str] = []
    parse = predicate.parse_list
    monkeypatch.setattr(predicate, "parse_list", lambda text, *more: parsed.append(text) or parse(text, *more))
    with Sandbox() as sandbox:
        compiled = [
            compile_workload(
                domain, Workload(tuple(Query(group_by=(text,), verbatim=False) for text in texts)), sandbox
            )
            for texts in (lists, *([text] for text in lists))
        ]
    whole, alone = parsed[: -len(lists)], parsed[-len(lists) :]
    assert alone == lists and whole == [text for text in lists if text not in {"c, a, b", "b, a", "a, true"}]
    for row, one in enumerate(compiled[1:]):
        together, single = compiled[0].queries[row], one.queries[0]
        assert list(together.cells()) == list(single.cells()) and together.source == single.source
        assert together.linear.attributes == single.linear.attributes


def test_a_word_that_duckdb_reads_otherwise_is_refused(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whichever list it is: the first that has it is evaluated."""
    con.execute("CREATE TABLE wide (a INT CHECK (a IN (1, 2)), b INT CHECK (b IN (1, 2)), c INT CHECK (c IN (1, 2)))")
    domain = mwem_sql.Domain.from_schema(con, "wide")
    parse = predicate.parse_list
    monkeypatch.setattr(predicate, "parse_list", lambda text, *more: parse("a, b" if text == "b, a" else text, *more))
    queries = tuple(Query(group_by=(text,), verbatim=False) for text in ("a, c", "b, a", "c, b"))
    with Sandbox() as sandbox, pytest.raises(PredicateError, match="is read in two ways"):
        compile_workload(domain, Workload(queries), sandbox)
