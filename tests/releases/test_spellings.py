"""One question, one answer: two texts that are equal on all values of the table get the same answer and interval,
and are one query of a workload.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from chance import examples
from conftest import Connection
from hypothesis import given, settings
from hypothesis import strategies as st

import mwem_sql
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload

TABLE = """
CREATE TABLE t (n INTEGER CHECK (n BETWEEN 0 AND 9999), p DECIMAL(7, 2) NOT NULL CHECK (p BETWEEN 0 AND 500),
    x DOUBLE NOT NULL CHECK (x BETWEEN 0 AND 5),
    d DATE NOT NULL CHECK (d BETWEEN '2023-01-01' AND '2024-12-31'), s VARCHAR NOT NULL CHECK (s IN ('Bern', 'Genf',
        'basel', 'Zug')));
INSERT INTO t SELECT CASE WHEN i % 11 > 0 THEN i * 7919 % 10000 END, (i * 31 % 50001) / 100, i * 17 % 501 / 100,
    DATE '2023-01-01' + (i * 13 % 731)::INTEGER,
    ['Bern', 'basel', 'Genf', 'Zug'][1 + i % 4] FROM range(5000) r(i);
CREATE TABLE t_domain (attribute VARCHAR, low VARCHAR, high VARCHAR, bins INTEGER, edges VARCHAR[], "values" VARCHAR[],
    nullable BOOLEAN);
INSERT INTO t_domain VALUES ('n', '0', '9999', 13, NULL, NULL, true), ('p', '0', '500', NULL, ['1', '20', '100'], NULL,
    false), ('x', '0', '5', 7, NULL, NULL, false),
    ('d', '2023-01-01', '2024-12-31', 9, NULL, NULL, false);
CREATE TABLE asked AS SELECT unnest([['n'], ['p'], ['x'], ['d'], ['s'], ['n', 's']]) AS group_by;
CALL mwem_release('t', asked, 1, output := 'o');
"""

ABOVE = [
    "{c} > {k}", "{k} < {c}", "NOT {c} <= {k}", "{c} - {k} > 0", "{k} - {c} < 0", "-{c} < -({k})", "{c} + 1 > {k} + 1",
    "({c} > {k}) IS TRUE", "coalesce({c} > {k}, false)",
    "CASE WHEN {c} > {k} THEN true ELSE false END", "greatest({c}, {k}) <> {k}", "({c} > {k} AND {c} > {k}) OR false",
    "sign({c} - {k}) = 1", "{c} NOT BETWEEN -1 AND {k}",
]  # fmt: skip
DATES = [
    "d >= '{a}' AND d < '{b}'", "d BETWEEN '{a}' AND DATE '{b}' - 1", "date_trunc('month', d) = '{a}'",
    "year(d) = {y} AND month(d) = {m}", "strftime(d, '%Y-%m') = '{y}-{m:02}'",
    "last_day(d) = DATE '{b}' - 1", "date_part('month', d) + 100 * date_part('year', d) = {m} + 100 * {y}",
]  # fmt: skip
TEXTS = [
    "s = '{v}'", "'{v}' = s", "s IN ('{v}')", "NOT s <> '{v}'", "s LIKE '{v}'", "s || '' = '{v}'",
    "md5(s) = md5('{v}')", "CASE s WHEN '{v}' THEN true END", "s = '{v}' OR (s = '{v}' AND n > 5)",
]  # fmt: skip


@st.composite
def equal_texts(draw: st.DrawFn) -> tuple[str, str]:
    """Two spellings of one question about a column in bins or a list."""
    kind = draw(st.sampled_from(["above", "above", "date", "text"]))
    if kind == "date":
        year, month = draw(st.sampled_from([2023, 2024])), draw(st.integers(1, 12))
        begin, end = dt.date(year, month, 1), dt.date(year + month // 12, month % 12 + 1, 1)
        one, other = draw(st.lists(st.sampled_from(DATES), min_size=2, max_size=2, unique=True))
        filled = {"a": begin, "b": end, "y": year, "m": month}
        return one.format(**filled), other.format(**filled)
    one, other = draw(
        st.lists(st.sampled_from(TEXTS if kind == "text" else ABOVE), min_size=2, max_size=2, unique=True)
    )
    if kind == "text":
        value = draw(st.sampled_from(["Bern", "Genf", "basel"]))
        return one.format(v=value), other.format(v=value)
    column = draw(st.sampled_from(["n", "p"]))
    constant = draw(st.integers(0, 9998)) if column == "n" else draw(st.decimals(0, 499, places=2))
    return one.format(c=column, k=constant), other.format(c=column, k=constant)


@pytest.fixture(scope="module")
def released() -> Iterator[Connection]:
    with mwem_sql.connect() as con:
        con.execute(TABLE)
        yield con


@settings(max_examples=examples(120))
@given(equal_texts())
def test_two_spellings_have_one_answer(released: Connection, texts: tuple[str, str]) -> None:
    (true, differing) = released.execute(
        f"SELECT count_if({texts[0]}), count_if(coalesce({texts[0]}, false) <> coalesce({texts[1]}, false)) FROM t"
    ).fetchall()[0]
    assert differing == 0, "the test is wrong: the texts differ"
    one, other = (mwem_sql.count_interval(released, "o", text, confidence=0.9999) for text in texts)
    assert one["measured"] == other["measured"]
    assert [one[name] for name in ("answer", "low", "high")] == pytest.approx(
        [other[name] for name in ("answer", "low", "high")], rel=1e-9, abs=1e-6
    )
    assert one["low"] <= true <= one["high"]


@settings(max_examples=examples(120))
@given(equal_texts())
def test_two_spellings_are_one_query(released: Connection, texts: tuple[str, str]) -> None:
    domain = Domain.from_schema(released, "t")
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        assert len(compile_workload(domain, Workload.from_predicates(texts), sandbox).distinct.queries) == 1
