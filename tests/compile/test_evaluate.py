"""Expressions on the public grid: comparisons near their constants only, what no cut explains value by value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pytest
from chance import sampled
from compilers import TABLE, answers, compiled_from, table
from wide import DOMAIN, wide
from wide import compiled_from as compiled_wide

from mwem_sql.compile import evaluate
from mwem_sql.compile.cut import cut, find_ticks
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import PredicateError
from mwem_sql.language import dialect
from mwem_sql.language.conditions import Leaf, leaf
from mwem_sql.language.predicate import parse
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload

WIDE = {
    "BIGINT": (-5, 5_000_000, [-5, -4, 0, 77, 4_999_999, 5_000_000, -6, 5_000_001, 77.5]),
    "HUGEINT": (0, 10**18, [0, 1, 10**17, 10**18, 10**18 + 1, -1, 10**30]),
    "UBIGINT": (0, 10**18, [0, 1, 10**17, 10**18, 2**64 - 1]),
    "DECIMAL(18,3)": (
        -(10**12),
        10**12,
        ["-1000000000", "0", "0.001", "0.0005", "1e9::DECIMAL(18,3)", "1000000000.001"],
    ),
    "DOUBLE": (-1e9, 1e9, ["-1e9", "0.0", "-0.0", "0.1", "1e9", "'inf'", "'nan'", "1e10", "5e-324"]),
    "FLOAT": (-1.0, 1.0, ["-1", "0.1", "0.1::FLOAT", "1", "2"]),
    # 'infinity' and a TIMESTAMP in one BETWEEN is an error of DuckDB 1.5's own.
    "DATE": (-700_000, 700_000, ["'infinity'", "'1970-01-01'", "DATE '2020-02-29'", "TIMESTAMP '2020-02-29 12:00:00'"]),
    "TIMESTAMP": (
        0,
        10**15,
        ["'1970-01-01'", "'1970-01-01 00:00:00.000001'", "DATE '1980-01-01'", "TIMESTAMP '2001-09-09 01:46:40'"],
    ),
    "TIMESTAMP WITH TIME ZONE": (
        0,
        10**15,
        ["'1970-01-01 00:00:00+00'", "'1980-01-01 02:00:00+02'", "'2001-09-09 01:46:40+00'"],
    ),
}


@pytest.mark.parametrize("kind", WIDE)
def test_wide_ranges_are_cut_at_constants_only(duck: duckdb.DuckDBPyConnection, sandbox: Sandbox, kind: str) -> None:
    """Every comparison with every constant, on rows at, beside and beyond all of them."""
    low, high, constants = WIDE[kind]
    attribute = Attribute("c", kind, nullable=True, low=low, high=high)
    domain = Domain("wide", ("c",), (attribute,))
    texts = [f"c {operator} {constant}" for operator in ("<", "<=", "=", "<>", ">=", ">") for constant in constants]
    texts += [f"NOT c BETWEEN {one} AND {other}" for one, other in itertools.pairwise(constants)] + ["c IS NULL"]
    compiled = compile_workload(domain, Workload.from_predicates(texts), sandbox)
    found = compiled.classes["c"]
    assert len(found.pieces) <= 4 * len(constants) + 2
    scale = attribute.ordered
    ticks = {low, high, scale.after(low), scale.before(high)}
    for constant in constants:
        for tick in sandbox.tried([scale.measure(dialect_try_cast(str(constant), kind))]):
            if isinstance(tick, (int, float)) and math.isfinite(tick):
                ticks |= {scale.before(tick), tick, scale.after(tick), scale.after(scale.after(tick))}
    in_range = [scale.text(tick) for tick in sorted(ticks) if low <= tick <= high]
    beyond = {
        "DOUBLE": ["nan", "inf", "-inf", "-0.0"],
        "FLOAT": ["nan", "-inf", "3e38"],
        "DATE": ["infinity", "-infinity"],
    }.get(kind, [])
    ends = {"nan": high, "inf": high, "infinity": high, "3e38": high, "-inf": low, "-infinity": low}
    table(duck, "wide", {"c": kind}, [{"c": value} for value in [*in_range, *beyond, None]])
    clamped = [scale.text(ends[value]) if value in ends else value for value in beyond]
    table(duck, "narrow", {"c": kind}, [{"c": value} for value in [*in_range, *clamped, None]])
    expected = duck.execute(
        f"SELECT {', '.join(f'count(*) FILTER ({text})' for text in texts)} FROM narrow"
    ).fetchall()[0]
    assert dict(
        zip(texts, (answer for (answer,) in answers(duck, compiled, TABLE.beside("wide"))), strict=True)
    ) == dict(zip(texts, expected, strict=True))


def dialect_try_cast(constant: str, kind: str) -> Any:
    (tree,) = dialect.parse(f"TRY_CAST({constant} AS {kind})")
    assert tree is not None
    return tree


@pytest.mark.parametrize("shape", sampled(["dates", "decimals"], 1))
def test_values_are_asked_near_the_constants(shape: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many values DuckDB evaluates conditions on grows with the conditions, not with their square."""
    asked: list[int] = []
    original = Sandbox.evaluate

    def counted(self: Sandbox, table: str, expressions: Sequence[str]) -> list[object]:
        if table == "grid":
            asked.append(self._rows[table] * len(expressions))
        return original(self, table, expressions)

    monkeypatch.setattr(Sandbox, "evaluate", counted)
    steps = []
    for count in (600, 1_200):
        asked.clear()
        compiled_wide(sandbox, wide(shape, count))
        steps.append(sum(asked))
    assert 0 < steps[1] < 2.6 * steps[0]


CONDITIONS = {
    "pay": [
        "pay > 0.1",
        "pay = 3",
        "pay <= 12.30",
        "pay <> 0.3",
        "pay IN (0.1, 0.7, 5)",
        "pay BETWEEN 0.3 AND 900000.1",
        "pay < -5",
        "pay >= 1e5",
        "pay = 123456.7",
        "pay > '0.1'",
        "NOT (pay > 3 OR pay < 1)",
        "pay IS NULL",
        "pay > NULL",
        "pay < 1e300",
        "CASE WHEN pay > 8 THEN pay < 9 ELSE pay = 2 END",
    ],
    "n": [
        "n < 2.5",
        "n >= -7",
        "n = 17",
        "n IN (-3000, 3000, 9)",
        "n > '12'",
        "n < 1e9",
        "n <= 2.4999",
        "n IS NOT DISTINCT FROM 4",
        "n BETWEEN 10 AND -10",
        "n < 9223372036854775807",
        "n > -9223372036854775808",
        "n <> 99999999999999999999999999",
        "n <= 999999999999999999",
    ],
    "far": [
        "far > 1152921504606848000",
        "far > 1.1529215046068482e18",
        "far = 1152921504606847000.0",
        "far <= CAST(1152921504606848000 AS FLOAT)",
    ],
    "d": [
        "d > DATE '2021-05-06'",
        "d >= '2022-01-01'",
        "d < TIMESTAMP '2021-05-06 13:00:00'",
        "d = DATE '2020-01-01' + 40",
        "d <> '2020-02-02'",
    ],
    "p": [
        "p > 3",
        "p = 12.34",
        "p < 12.345",
        "p >= 899999.999",
        "p IN (1, 2.5, 2.505)",
        "p <= 1e3",
        "p > CAST(0.1 AS FLOAT)",
    ],
    "r": ["r > 0.1", "r = 0.1", "r <= 0.3", "r >= 16.7", "r = 4", "r < CAST(0.1 AS DOUBLE)", "r IN (0.1, 0.7)"],
    "ts": [
        "ts > '2020-01-05 06:07:08.123456'",
        "ts < DATE '2020-02-02'",
        "ts = TIMESTAMP '2020-01-02'",
        "ts >= TIMESTAMP '2020-03-01 00:00:00.5'",
    ],
    "w": ["w = 'v7'", "w <> 'v0'", "w IN ('v2999', 'v3', 'v4')", "w = 'other'", "w IS NULL"],
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("few", [0, evaluate.EVALUATED_AT_ONCE])
def test_the_same_as_value_by_value(name: str, few: int, sandbox: Sandbox) -> None:
    leaves: list[Leaf] = [leaf(parse(text, DOMAIN.spelling, "predicate", "t")) for text in CONDITIONS[name]]
    terms = {("truth", own.sql): own for own in leaves}
    ticks = find_ticks(DOMAIN, [name], terms, sandbox)
    pieces = cut(DOMAIN, [name], terms, ticks, changes={}, finer_than={})
    found = evaluate.compare(terms, pieces, ticks, sandbox, at_once=few)
    assert few or len(found) == len(terms) or name in {"far", "w"}
    expected = evaluate.evaluate(DOMAIN, {key: terms[key] for key in found}, pieces, {}, sandbox)
    for key, own in found.items():
        np.testing.assert_array_equal(own.array, expected[key].array, err_msg=key[1])


def test_a_wrong_cut_is_noticed(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public rows are drawn from inside the pieces, so a constant that was missed shows."""
    monkeypatch.setattr("mwem_sql.compile.cut._ticks", lambda *_: {})
    with pytest.raises(PredicateError, match="is read in two ways"):
        compiled_from(sandbox, "w > 1000000")


def test_a_constant_some_way_off_where_it_changes_is_asked_value_by_value(sandbox: Sandbox) -> None:
    """Beyond the whole numbers of a double, a comparison changes tens of values off: all listed ones are evaluated."""
    text = "far > 1.1529215046068482e18"
    compiled = compiled_wide(sandbox, [text])
    with duckdb.connect() as duck:
        expected = duck.execute(
            f"SELECT count(*) FROM range({2**60}, {2**60 + 3_001}) AS t(far) WHERE {text}"
        ).fetchall()[0][0]
    counted = compiled.queries[0].linear.answer(compiled.classes["far"].sizes)
    assert 0 < expected < 3_001
    assert counted.tolist() == [expected]
