"""Expressions are cut where they change, on the values themselves: a bin is no value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import duckdb
import numpy as np
import pytest
from chance import examples, sampled
from compilers import TABLE, answers, compiled_from
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.compile import cut
from mwem_sql.compile.cut import _ranks, _round_numbers, _values
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import CellsError
from mwem_sql.language.ticks import scale_of
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload

YEAR = (1_704_067_200_000_000, 1_735_689_600_000_000)  # 2024, in microseconds
BINNED = Domain(
    "t",
    ("n", "p", "x", "f", "ts", "d", "age"),
    (
        Attribute("n", "INTEGER", nullable=True, low=-500, high=18_900, bins=13),
        Attribute("p", "DECIMAL(8,2)", nullable=False, low=0, high=99_999, edges=(1, 2_500, 40_000)),
        Attribute("x", "DOUBLE", nullable=True, low=0.0, high=5.1, bins=20),
        Attribute("f", "FLOAT", nullable=False, low=-3.0, high=1e6),
        Attribute("ts", "TIMESTAMP", nullable=False, low=YEAR[0], high=YEAR[1], bins=10),
        Attribute("d", "DATE", nullable=True, low=18_262, high=19_722, edges=(18_628, 19_722)),
        Attribute("age", "INTEGER", nullable=False, low=0, high=99, bins=5),
    ),
)
ROWS = """
    CREATE OR REPLACE TABLE t AS
    SELECT CASE WHEN i % 17 > 0 THEN (-500 + (i * 7919) % 19401)::INTEGER END AS n,
        ((i * 104729) % 99999 / 100)::DECIMAL(8, 2) AS p,
           CASE WHEN i % 19 > 0 THEN round(((i * 31337) % 510) / 100, 2) END::DOUBLE AS x,
               ((i * 7) % 1000003 - 3)::FLOAT AS f,
           TIMESTAMP '2024-01-01' + INTERVAL 1 SECOND * ((i * 15485863) % 31536000) AS ts,
           CASE WHEN i % 23 > 0 THEN DATE '2020-01-01' + ((i * 613) % 1460)::INTEGER END AS d, (i % 100)::INTEGER AS age
    FROM range(4000) r(i)"""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute(ROWS)
        yield con


def counts(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, *texts: str) -> list[int]:
    return [answer for (answer,) in answers(con, compiled_from(sandbox, *texts, domain=BINNED), TABLE)]


EXPRESSIONS = [
    "n - 3333 > 0",
    "n % 2 = 0",
    "n * n > 1000000",
    "sqrt(abs(n)) > 70",
    "n::VARCHAR LIKE '1%'",
    "n // 100 = 3",
    "coalesce(n, 0) < 7",
    "(n + 1) IN (5, 900)",
    "p * 2 > 1.3",
    "round(p) = 40",
    "p % 1 = 0.5",
    "p::INTEGER % 2 = 1",
    "floor(p / 10) = 3",
    "x * 2 > 1.3",
    "round(x, 1) = 0.5",
    "x::INTEGER = 1",
    "abs(x - 2) < 0.3",
    "x * 2 = 1",
    "1 - x > 0",
    "sin(x) > 0.5",
    "CASE WHEN x > 1 THEN x * 2 < 3 END",
    "f / 3 > 1000",
    "f + 1 > 16777216",
    "log10(f + 4) > 3",
    "month(ts) = 3",
    "hour(ts) = 9",
    "date_trunc('day', ts) = '2024-05-05'",
    "ts::DATE > '2024-07-01'",
    "dayofweek(ts) = 0",
    "extract('year' FROM ts) = 2024",
    "month(d) = 3",
    "year(d) = 2021",
    "d + 3 > '2021-05-06'",
    "dayofweek(d) IN (0, 6)",
    "strftime(d, '%m') = '12'",
    "n - 3333 > 0 AND x * 2 > 1.3",
    "NOT (month(ts) = 3 OR age % 2 = 0)",
    "age > n",
]


def test_conditions_are_those_of_the_values(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    """True answers over classes are what SQL counts, of every expression, whatever the bins."""
    expected = con.execute(
        f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in EXPRESSIONS if text != 'age > n')} FROM t"
    ).fetchall()[0]
    texts = [text for text in EXPRESSIONS if text != "age > n"]
    assert dict(zip(texts, counts(con, sandbox, *texts), strict=True)) == dict(zip(texts, expected, strict=True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n > 3333", "n - 3333 > 0"),
        ("x > 0.65", "x * 2 > 1.3"),
        ("d >= '2021-01-01' AND d < '2022-01-01'", "year(d) = 2021"),
        ("ts >= '2024-03-01' AND ts < '2024-04-01'", "month(ts) = 3"),
        ("p > 4900", "sqrt(p) > 70"),
        ("age >= 18", "age // 18 >= 1"),
    ],
)
def test_two_spellings_are_one_question(sandbox: Sandbox, one: str, other: str) -> None:
    """They are one query to whatever comes after the compiler: same classes, same blocks."""
    compiled = compiled_from(sandbox, one, other, domain=BINNED)
    assert len(compiled.distinct.queries) == 1


def test_groups_are_those_of_the_values(con: duckdb.DuckDBPyConnection, sandbox: Sandbox) -> None:
    for text in ("hour(ts)", "month(d)", "n // 1000", "floor(x)", "n % 3"):
        query = Query(group_by=(text,), verbatim=False)
        compiled = compile_workload(BINNED, Workload((query,)), sandbox)
        (found,) = answers(con, compiled, TABLE)
        cells = [cell[0] for cell in compiled.queries[0].cells() if cell is not None]
        told = {cell: count for cell, count in zip(cells, found, strict=True) if count}
        assert told == dict(con.execute(f"SELECT ({text})::VARCHAR, count(*) FROM t GROUP BY 1").fetchall())


def test_what_is_below_a_bound_may_say_another_thing_first(sandbox: Sandbox) -> None:
    """The last day before the year is in December, and has the hour 23."""
    open_year = Attribute("ts", "TIMESTAMP", nullable=False, low=YEAR[0], high=YEAR[1], bins=10, open=True)
    domain = Domain("t", ("ts",), (open_year,))
    compiled = compile_workload(
        domain, Workload((Query("month(ts) = 12"), Query(group_by=("hour(ts)",), verbatim=False))), sandbox
    )
    assert len(list(compiled.queries[1].cells())) == 24


def test_bins_keep_their_names_where_a_condition_cuts_every_value(sandbox: Sandbox) -> None:
    compiled = compile_workload(BINNED, Workload((Query("age % 2 = 0"), Query(group_by=("age",)))), sandbox)
    cells = [cell[0] for cell in compiled.queries[1].cells() if cell is not None]
    assert cells == ["[0, 19]", "[20, 39]", "[40, 59]", "[60, 79]", "[80, 99]"]
    assert compiled.classes["age"].count == 10  # of each bin the even ones and the odd ones


def test_a_long_column_needs_no_bins(sandbox: Sandbox) -> None:
    compiled = compiled_from(sandbox, "f * 2 > 7", "log2(f + 4) > 5", domain=BINNED)
    assert compiled.classes["f"].count == 3


@pytest.mark.parametrize("text", sampled(["second(ts) = 5", "x // 0.00001 % 2 = 0", "x > n", "f > age"], 2))
def test_what_changes_too_often_is_refused_with_a_view(sandbox: Sandbox, text: str) -> None:
    with pytest.raises(CellsError, match=r"make it a column: CREATE VIEW \S+ AS SELECT \*, ") as caught:
        compiled_from(sandbox, text, domain=BINNED)
    assert "CREATE VIEW" in str(caught.value)


@pytest.mark.parametrize(
    ("query", "searches"),
    [(Query("x * 2 > 1.3"), 1), (Query("x // 0.00001 % 2 = 0"), 0), (Query(group_by=("x // 10",), verbatim=False), 0)],
    ids=["few", "too many changes", "too many values"],
)
def test_a_change_is_searched_for_only_where_there_are_few(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, query: Query, searches: int
) -> None:
    """The place of each change takes many evaluations; of what changes at nearly every sample they would be in vain."""
    counted = []
    search = cut._Column._between
    monkeypatch.setattr(cut._Column, "_between", lambda *given: counted.append(given) or search(*given))
    with nullcontext() if searches else pytest.raises(CellsError, match="changes at too many values of x"):
        compile_workload(BINNED, Workload((query,)), sandbox)
    assert len(counted) == searches


numbers = st.integers(-60, 60).filter(bool)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Arithmetic, rounding, casts, modulo and parts of dates over one binned column."""
    column = draw(st.sampled_from(["n", "p", "x", "d", "ts"]))
    if column in {"d", "ts"}:
        part = draw(st.sampled_from(["month", "year", "quarter", "day", "dayofweek", "weekofyear"]))
        return f"{part}({column}) {draw(st.sampled_from(['=', '<', '>=', '<>']))} {draw(st.integers(0, 31))}"
    left = draw(
        st.sampled_from(
            [
                "{c} * {k}",
                "{c} + {k}",
                "{k} - {c}",
                "abs({c} - {k})",
                "round({c} / {k})",
                "({c})::INTEGER % {m}",
                "floor({c} / {m})",
                "{c} * {c} - {k} * {c}",
            ]
        )
    ).format(c=column, k=draw(numbers), m=abs(draw(numbers)))
    return f"{left} {draw(st.sampled_from(['=', '<', '>=', '<>', '<=', '>']))} {draw(numbers)}"


@settings(max_examples=examples(40))
@given(texts=st.lists(expressions(), min_size=1, max_size=3))
def test_random_conditions_are_those_of_the_values(
    con: duckdb.DuckDBPyConnection, sandbox: Sandbox, texts: list[str]
) -> None:
    expected = con.execute(f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in texts)} FROM t").fetchall()[0]
    assert counts(con, sandbox, *texts) == list(expected)


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_ranks_count_neighbours(kind: str) -> None:
    scale = scale_of(kind)
    assert scale is not None
    values = np.array([-1e30, -1.0, -1e-40, 0.0, 1e-40, 0.1, 3.0, 1e30])
    values = scale.nearest(values)
    assert (_values(scale, _ranks(scale, values)) == values).all()
    after = np.array([scale.after(value) for value in values.tolist()])
    assert (_ranks(scale, after) - _ranks(scale, values) == 1).all()


def test_round_numbers_are_what_their_texts_are_read_as() -> None:
    scale = scale_of("DOUBLE")
    assert scale is not None
    found = _round_numbers(scale, 0.0, 5.1, 2**16)
    assert {0.1, 0.3, 0.7, 1.15, 4.35, 5.1} <= set(found.tolist())
    assert len(found) <= 2**16


def test_sums_over_bins_are_of_their_means_and_say_how_far_values_are(sandbox: Sandbox) -> None:
    workload = Workload(
        (Query(measure="age"), Query(measure="avg(x)"), Query(measure="age * x"), Query(measure="n % 2"))
    )
    age, x, product, parity = compile_workload(BINNED, workload, sandbox).queries
    values = age.linear.blocks[0].values
    assert values is not None
    assert age.linear.unit * np.unique(values) == pytest.approx([9.5, 29.5, 49.5, 69.5, 89.5])
    assert age.reach is not None and age.reach.unit * age.reach.bound == pytest.approx(9.5)
    assert x.reach is not None and x.reach.unit * x.reach.bound == pytest.approx(5.1 / 40, rel=0.01)
    assert product.reach is not None and product.reach.bound * product.reach.unit >= 19 * 5.1 * 0.99
    assert parity.reach is not None
