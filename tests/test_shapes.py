"""Shapes: reading a text by its shape gives what reading the text itself gives, and odd texts are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.compiler import predicate
from mwem_sql.compiler.shapes import Reader, take_apart
from mwem_sql.errors import PredicateError

COLUMNS = {name: name for name in ("age", "hours", "sex", "city", "we ird", "and")}

numbers = st.one_of(st.integers(0, 10**12).map(str), st.sampled_from(["0.5", ".5", "5.", "1e3", "1E-3", "00", "77000000001"]))
strings = st.text("aZ '%_-;and or\"", max_size=8).map(lambda text: "'" + text.replace("'", "''") + "'")
names = st.sampled_from(["age", "hours", "sex", "city", '"we ird"', '"and"', "t.age", "lower(city)", "round(age, 2)", "age::DECIMAL(9,2)"])
operators = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
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


@settings(max_examples=300, deadline=None)
@given(st.lists(predicates, min_size=1, max_size=6))
def test_reading_by_shape_is_reading(texts: list[str]) -> None:
    reader = Reader(COLUMNS, "t")
    for text in texts + texts:
        tree = predicate.parse(text, COLUMNS, "predicate", "t")
        assert [part.what for part in reader.read(text)] == list(map(predicate.condition, predicate.conjuncts(tree)))


@settings(max_examples=200, deadline=None)
@given(predicates)
def test_every_way_of_reading_has_an_example(text: str) -> None:
    reader = Reader(COLUMNS, "t")
    reader.read(text)
    assert reader.examples == [text]
    reader.read(text)
    assert reader.examples == [text]


def test_one_shape_for_all_constants() -> None:
    found = [take_apart(f"age > {number} AND city = '{city}'") or [] for number, city in [(1, "a"), (22, "it''s"), (3.5, "")]]
    assert {tuple(part.shape for part in parts) for parts in found} == {("age > 77000000000 ", " city = 'mwem:0'")}
    assert [[part.constants for part in parts] for parts in found] == [[("1",), ("'a'",)], [("22",), ("'it''s'",)], [("3.5",), ("''",)]]
    reader = Reader(COLUMNS, "t")
    for number in range(50):
        reader.read(f"age > {number} AND city = 'x'")
    assert reader.examples == ["age > 0 AND city = 'x'"]


@pytest.mark.parametrize(
    "text",
    ["age > 1 -- x", "age /* 1 */ > 1", "city = E'a'", "age > 1_000", "city = $$a$$", "age > ?", "city ~ 'a'", '"f"(3) > 1', "x'00' = city"],
)
def test_odd_texts_are_not_taken_apart(text: str) -> None:
    assert take_apart(text) is None


def test_constants_that_belong_to_something_stay() -> None:
    found = take_apart("round(age, 2) > 3 AND age::DECIMAL(9,2) = 1 AND hours > INTERVAL 5 day")
    assert found is not None
    assert [part.constants for part in found] == [("3",), ("1",), ()]


def test_a_refusal_quotes_the_text_and_not_its_shape() -> None:
    with pytest.raises(PredicateError, match="nope > 41"):
        Reader(COLUMNS, "t").read("nope > 41 AND age = 3")
