"""Random predicates over random tables of every type: compiled answers are DuckDB's on a copy inside the domain.

The copy is made in SQL, by the rules of the README, with nothing of the compiler in it. Values are odd on purpose: NaN,
infinities, -0.0, beyond the bounds, off the lists, beside the constants. `pytest -m campaign` asks many more.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pytest
from chance import sampled
from compilers import comparisons
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import PLANS, force

from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import CellsError, DomainError, MwemError
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan import execution
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Query, Workload

TABLE = Name("memory", "main", "t")


@dataclass(frozen=True)
class Kind:
    """A type: its declarations, odd values, constants of a comparison, and other atoms over a column `{0}` of it."""

    type: str
    declared: tuple[str, ...]  # domain table rows: "values" or low, high, step
    values: tuple[str, ...]
    constants: tuple[str, ...]
    atoms: tuple[str, ...] = ()


INTEGERS = ("0", "1", "2", "3", "4", "-1", "5", "7", "120", "-120")
NUMBERS = ("0", "3", "4", "-1", "5", "2.5", "'2'", "NULL", "1 + 1", "1e2", "99999999999999999999")
TEXTS = ("''", "'a'", "'b'", "'B'", "'cc'", "'unknown'", "'é'", "' a'")
DAYS = (
    "'2020-02-28'",
    "'2020-02-29'",
    "'2020-03-01'",
    "'2019-12-31'",
    "'2021-06-01'",
    "'infinity'",
    "'-infinity'",
    "'0001-01-01'",
)
MOMENTS = (
    "'2020-02-29'",
    "'2020-02-29 12:00:00'",
    "'2020-02-29 12:00:00.000001'",
    "'2020-03-01'",
    "'1999-01-01'",
    "'infinity'",
    "'-infinity'",
)
REALS = ("0", "-0.0", "0.5", "0.1", "-1", "2.5", "'nan'", "'inf'", "'-inf'", "1e30", "5e-324", "2.4999999999999996")
NUMERIC_ATOMS = (
    "{0} % 2 = 1",
    "abs({0} - 2) <= 1",
    "{0} * 2 > 5",
    "{0}::VARCHAR LIKE '%1'",
    "-{0} < -2",
    "coalesce({0}, 9) > 4",
)
TEXT_ATOMS = (
    "{0} LIKE '%a%'",
    "{0} ILIKE 'B'",
    "length({0}) > 1",
    "{0} || 'x' = 'ax'",
    "upper({0}) = 'CC'",
    "{0} ~ '^[ab]'",
    "{0} SIMILAR TO 'a|b'",
    "{0}[1:1] = 'c'",
    "coalesce({0}, 'none') = 'none'",
    "{0} COLLATE NOCASE = 'B'",
    "substr({0}, 1, 1) IN ('a', 'b')",
    "hash({0}) % 2 = 0",
)
LIST = "['a', 'b', 'cc', '']"
KINDS = (
    *(
        Kind(name, ("NULL, 0, 4, NULL", "[0, 3], NULL, NULL, NULL", "NULL, 0, 4, 2"), INTEGERS, NUMBERS, NUMERIC_ATOMS)
        for name in ("TINYINT", "INTEGER", "HUGEINT")
    ),
    *(
        Kind(
            name,
            ("NULL, 0, 4, NULL", "NULL, 1, 100, 7"),
            tuple(v for v in INTEGERS if v[0] != "-"),
            NUMBERS[:3],
            NUMERIC_ATOMS[:1],
        )
        for name in ("UTINYINT", "UBIGINT")
    ),
    Kind(
        "BIGINT",
        ("NULL, -5, 4000000000, NULL",),
        (*INTEGERS, "4000000000", "4000000001", "9223372036854775807", "-9223372036854775808", "1000"),
        (*NUMBERS, "1000", "3999999999.5"),
    ),
    Kind(
        "DECIMAL(5,2)",
        ("NULL, 0, 1, NULL", "[0.5, 0.25], NULL, NULL, NULL", "NULL, 0, 1, 0.25"),
        ("0", "0.5", "0.51", "1", "1.01", "-0.01", "999.99"),
        ("0.5", "0.505", "1", "0", "0.5::DOUBLE", "'0.25'"),
        ("{0} * 100 % 7 = 0", "round({0}, 1) = 0.5", "{0}::VARCHAR LIKE '%5'"),
    ),
    Kind(
        "DECIMAL(18,3)",
        ("NULL, -1000000000, 1000000000, NULL",),
        ("0", "0.001", "-0.001", "1000000000", "1000000000.001", "-999999999999"),
        ("0", "0.0005", "0.001", "-1e9", "NULL"),
    ),
    Kind(
        "DOUBLE",
        ("NULL, -1, 2.5, NULL", "[0, 0.5], NULL, NULL, NULL", "NULL, -1, 2.5, 0.5"),
        REALS,
        (*REALS, "0.1::FLOAT", "NULL"),
    ),
    Kind(
        "FLOAT",
        ("NULL, -1, 2.5, NULL",),
        tuple(v for v in REALS if v != "5e-324"),
        ("0", "0.1", "0.1::FLOAT", "2.5", "'inf'", "-0.0"),
    ),
    Kind(
        "DATE",
        (
            "NULL, '2020-02-27', '2020-03-02', NULL",
            "['2020-02-29'], NULL, NULL, NULL",
            "NULL, '0001-01-01', '9999-12-31', NULL",
        ),
        DAYS,
        (*DAYS, "DATE '2020-02-29'", "TIMESTAMP '2020-02-29 12:00:00'"),
        (),
    ),
    Kind(
        "TIMESTAMP",
        (
            "NULL, '2020-02-29', '2020-03-01', NULL",
            "NULL, '2020-02-29', '2020-03-01', 43200",
            "['2020-02-29 12:00:00'], NULL, NULL, NULL",
        ),
        MOMENTS,
        (*MOMENTS, "DATE '2020-03-01'"),
    ),
    Kind(
        "TIMESTAMP WITH TIME ZONE",
        ("NULL, '2020-02-29 00:00:00+00', '2020-03-01 00:00:00+00', NULL",),
        MOMENTS,
        (*MOMENTS, "'2020-02-29 12:00:00+02'"),
    ),
    Kind(
        "BOOLEAN",
        ("['false', 'true'], NULL, NULL, NULL", "['true'], NULL, NULL, NULL"),
        ("true", "false"),
        ("true", "false", "NULL"),
        ("{0}", "{0} IS TRUE", "{0} IS NOT FALSE", "NOT {0}"),
    ),
    Kind(
        "ENUM('b', 'a', 'cc', '')",
        ("['b', 'cc'], NULL, NULL, NULL", "['b', 'a', 'cc', ''], NULL, NULL, NULL"),
        ("'a'", "'b'", "'cc'", "''"),
        ("'a'", "'b'"),
        (*TEXT_ATOMS[:3], "{0} > 'b'::ENUM('b', 'a', 'cc', '')", "{0}::VARCHAR < 'b'"),
    ),
    Kind("VARCHAR", (f"{LIST}, NULL, NULL, NULL", "['a'], NULL, NULL, NULL"), TEXTS, (*TEXTS, "NULL"), TEXT_ATOMS),
    Kind(
        "TIME",
        ("['12:00:00', '00:00:00'], NULL, NULL, NULL",),
        ("'12:00:00'", "'12:00:01'", "'00:00:00'"),
        ("'12:00:00'", "TIME '11:00'"),
        ("hour({0}) = 12",),
    ),
    Kind(
        "UUID",
        ("['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'], NULL, NULL, NULL",),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'00000000-0000-0000-0000-000000000000'"),
        ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",),
        ("{0}::VARCHAR LIKE 'a%'",),
    ),
)
JOINTS = (
    "{0} IS NOT DISTINCT FROM {1}",
    "({0} IS NULL) = ({1} IS NULL)",
    "concat({0}, {1}) > '1'",
    "CASE WHEN {0} IS NULL THEN {1} IS NULL END",
    "hash({0}, {1}) % 2 = 0",
)


@dataclass(frozen=True)
class Table:
    """Columns by name with their kinds, declarations, and whether they have NULLs and are open; rows as SQL values."""

    columns: dict[str, tuple[Kind, str, bool, bool]]
    rows: list[tuple[str, ...]]

    def create(self, con: duckdb.DuckDBPyConnection) -> Domain:
        listed = ", ".join(f'"{name}" {kind.type}' for name, (kind, _, _, _) in self.columns.items())
        con.execute(f"CREATE OR REPLACE TABLE t ({listed})")
        con.execute(
            """CREATE OR REPLACE TABLE t_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR,
                step DOUBLE, nullable BOOLEAN, open BOOLEAN)"""
        )
        for name, (_, declared, nullable, is_open) in self.columns.items():
            con.execute(f"INSERT INTO t_domain VALUES ('{name}', {declared}, {nullable}, {is_open})")
        if self.rows:
            con.execute("INSERT INTO t VALUES " + ", ".join(f"({', '.join(row)})" for row in self.rows))
        domain = Domain.from_schema(con, "t")
        con.execute(
            f"CREATE OR REPLACE TABLE copy AS SELECT {', '.join(inside(attribute) for attribute in domain)} FROM t"
        )
        return domain


def inside(attribute: Attribute) -> str:
    """A column as the README maps it: one value for all off a list or beyond a bound; NaN is the greatest; by steps."""
    name = f'"{attribute.name}"'
    if attribute.values is not None:
        known = ", ".join(f"'{value}'::{attribute.type}" for value in attribute.values)
        other = "NULL" if attribute.other is None or not attribute.open else f"'{attribute.other}'::{attribute.type}"
        return f"CASE WHEN {name} IN ({known}) OR {name} IS NULL THEN {name} ELSE {other} END AS {name}"
    low, high, least, most = (
        f"'{attribute.text(end)}'::{attribute.type}"
        for end in (attribute.low, attribute.high, attribute.least, attribute.most)
    )
    held = f"CASE WHEN {name} < {low} THEN {least} WHEN {name} > {high} THEN {most} ELSE {name} END"
    if attribute.step is not None:
        steps = {
            "integer": f"({low} + ({held} - {low}) // {attribute.step} * {attribute.step})",
            "decimal": f"({low} + floor(({held} - {low}) * 100 / {attribute.step}) * {attribute.step} / 100)",
            "real": f"({low} + floor(({held} - {low}) / {attribute.step}) * {attribute.step})",
            "timestamp": f"({low} + to_microseconds((epoch_us({held}) - epoch_us({low}))"
            f" // {attribute.step} * {attribute.step}))",
        }
        held = f"{steps[attribute.ordered.family]}::{attribute.type}"
    return f"CASE WHEN {name} IS NULL THEN {'NULL' if attribute.nullable else low} ELSE {held} END AS {name}"


@st.composite
def tables(draw: st.DrawFn, most_columns: int = 3) -> Table:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=most_columns))
    columns = {}
    for name, kind in zip("xyz", kinds, strict=False):
        declared = draw(st.sampled_from(kind.declared))
        columns[name] = (kind, declared, draw(st.booleans()), declared.startswith("[") and draw(st.booleans()))
    values = st.tuples(*(st.sampled_from((*kind.values, "NULL")) for kind in kinds))
    return Table(columns, draw(st.lists(values, max_size=15)))


@st.composite
def atoms(draw: st.DrawFn, table: Table) -> str:
    name = draw(st.sampled_from(sorted(table.columns)))
    kind, declared, _, _ = table.columns[name]
    wide = kind.atoms == () and not declared.startswith("[")
    small = [other for other, (own, text, _, _) in table.columns.items() if own.atoms or text.startswith("[")]
    choice = draw(st.integers(0, 9))
    if choice == 0 and len(small) > 1:
        return draw(st.sampled_from(JOINTS)).format(*draw(st.permutations(small)))
    if choice in {1, 2, 3} and kind.atoms and not wide:
        return draw(st.sampled_from(kind.atoms)).format(name)
    return draw(comparisons(name, st.sampled_from(kind.constants)))


def predicates(table: Table) -> st.SearchStrategy[str]:
    return st.recursive(
        atoms(table),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR", "=", "IS DISTINCT FROM"]), inner).map(
                lambda made: f"(({made[0]}) {made[1]} ({made[2]}))"
            ),
            inner.map(lambda made: f"NOT ({made})"),
            inner.map(lambda made: f"(({made}) IS NOT TRUE)"),
            st.tuples(inner, inner).map(lambda made: f"coalesce({made[0]}, {made[1]})"),
            st.tuples(inner, inner).map(lambda made: f"CASE WHEN {made[0]} THEN {made[1]} ELSE NULL END"),
            st.tuples(inner, inner).map(
                lambda made: (
                    f"(CASE WHEN {made[0]} THEN 'one' WHEN {made[1]} THEN 'two' ELSE 'three' END IN ('two', 'three'))"
                )
            ),
        ),
        max_leaves=4,
    )


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute("SET TimeZone = 'America/New_York'")
        yield con


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox({"TimeZone": "America/New_York"}) as sandbox:
        yield sandbox


def answers(con: duckdb.DuckDBPyConnection, compiled: Compiled) -> list[list[int]]:
    pushdown = plan_pushdown(TABLE, compiled.classes, [query.linear for query in compiled.queries])
    return [answer.tolist() for answer in np.split(execution.true_answers(con.cursor(), pushdown), pushdown.starts[1:])]


def understood(con: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> list[str]:
    """The texts that mean anything to DuckDB: types must agree, and no value of the domain may raise."""
    kept = []
    for text in texts:
        try:
            con.execute(f"SELECT {text} FROM copy WHERE false").fetchall()
        except duckdb.Error:
            continue
        kept.append(text)
    return kept


def counts(con: duckdb.DuckDBPyConnection, texts: Sequence[str]) -> list[int]:
    """DuckDB's own; its count_if of nothing but NULL is NULL."""
    return list(
        con.execute(f"SELECT {', '.join(f'coalesce(count_if({text}), 0)' for text in texts)} FROM copy").fetchall()[0]
    )


# What a text that DuckDB understands may be refused for: too much to list, or a value of the domain on which it raises.
REFUSALS = re.compile(
    "Hint: declare step, bins or values|make it a column: CREATE VIEW|cannot be evaluated on the public domain: "
)


def check_answers(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, table: Table, texts: Sequence[str]) -> int:
    """How many of the texts were compared."""
    domain = table.create(con)
    compared = 0
    for text in understood(con, texts):
        try:
            compiled = compile_workload(
                domain,
                Workload(
                    (Query(text), Query(text, group_by=(f"CASE WHEN {text} THEN 'yes' ELSE 'no' END",), verbatim=False))
                ),
                sandbox,
            )
        except MwemError as error:
            if not REFUSALS.search(str(error)):
                raise
            continue
        found, grouped = answers(con, compiled)
        assert found == counts(con, [text]), (text, table)
        assert sum(grouped) == found[0], (text, table)
        compared += 1
    return compared


def asked(max_examples: int) -> Any:
    return settings(deadline=None, max_examples=max_examples, suppress_health_check=list(HealthCheck))


@asked(15)
@given(st.data())
def test_answers_are_duckdbs(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, data: st.DataObject) -> None:
    table = data.draw(tables())
    check_answers(con, sandbox, table, data.draw(st.lists(predicates(table), min_size=1, max_size=2)))


@pytest.mark.campaign
@pytest.mark.parametrize("plan", PLANS)
@asked(200)
@given(st.data())
def test_answers_are_duckdbs_by_every_plan(
    con: duckdb.DuckDBPyConnection, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, plan: str, data: st.DataObject
) -> None:
    table = data.draw(tables())
    with monkeypatch.context() as patch:
        force(patch, plan)
        check_answers(con, sandbox, table, data.draw(st.lists(predicates(table), min_size=1, max_size=4)))


@pytest.mark.campaign
@asked(300)
@given(st.data())
def test_answers_are_duckdbs_at_length(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, data: st.DataObject) -> None:
    table = data.draw(tables())
    check_answers(con, sandbox, table, data.draw(st.lists(predicates(table), min_size=1, max_size=4)))


@pytest.mark.parametrize("kind", sampled(KINDS, 6), ids=lambda kind: kind.type)
def test_every_constant_of_every_type(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, kind: Kind) -> None:
    """All odd values against all constants, both ends open and closed, for the first declaration."""
    declared = kind.declared[0]
    texts = [f"x {operator} {constant}" for constant in kind.constants[:6] for operator in ("<", "<=", "=")]
    texts += [
        f"CASE WHEN x > {kind.constants[0]} THEN true ELSE x IS NULL END",
        *(text.format("x") for text in kind.atoms[:2]),
    ]
    compared = 0
    for nullable, is_open in ((False, False), (True, declared.startswith("["))):
        table = Table({"x": (kind, declared, nullable, is_open)}, [(value,) for value in (*kind.values, "NULL")])
        domain = table.create(con)
        kept = understood(con, texts)
        try:
            compiled = compile_workload(domain, Workload.from_predicates(kept), sandbox)
        except MwemError:
            compared += check_answers(con, sandbox, table, kept)
            continue
        found = [one for (one,) in answers(con, compiled)]
        assert dict(zip(kept, found, strict=True)) == dict(zip(kept, counts(con, kept), strict=True))
        compared += len(kept)
    assert compared >= len(kind.constants[:6])


SMALL = {
    "x": (
        Kind("INTEGER", (), (), NUMBERS[:6], NUMERIC_ATOMS),
        "NULL, 0, 4, NULL",
        ["-1", "0", "1", "2", "3", "4", "5"],
    ),
    "y": (
        Kind("VARCHAR", (), (), TEXTS, TEXT_ATOMS),
        "['a', 'b', 'cc'], NULL, NULL, NULL",
        ["'a'", "'b'", "'cc'", "'(other)'"],
    ),
    "z": (
        Kind("BOOLEAN", (), (), ("true", "NULL"), ("{0}", "NOT {0}", "{0} IS TRUE")),
        "['false', 'true'], NULL, NULL, NULL",
        ["false", "true"],
    ),
}


@asked(8)
@given(st.data())
def test_classes_are_the_coarsest(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, data: st.DataObject) -> None:
    """By brute force: two values are in one class if and only if no query distinguishes them."""
    values = {name: [*listed, "NULL"] for name, (_, _, listed) in SMALL.items()}
    columns = {name: (kind, declared, True, False) for name, (kind, declared, _) in SMALL.items()}
    table = Table(columns, list(itertools.product(*values.values())))
    domain = table.create(con)
    texts = understood(con, data.draw(st.lists(predicates(table), min_size=1, max_size=3)))
    try:
        compiled = compile_workload(domain, Workload.from_predicates(texts), sandbox)
    except MwemError:
        return  # too little, or something that raises on a value
    order = ", ".join(f"list_position([{', '.join(listed)}], {name})" for name, listed in values.items())
    said = [con.execute(f"SELECT coalesce({text}, false) FROM copy ORDER BY {order}").fetchnumpy() for text in texts]
    cube = np.array([next(iter(column.values())) for column in said]).reshape(
        len(texts), *(len(listed) for listed in values.values())
    )
    for axis, (name, listed) in enumerate(values.items(), start=1):
        profiles = [cube.take(k, axis=axis).tobytes() for k in range(len(listed))]
        if name in compiled.classes:
            # What is off the domain is told apart from all else where a condition is in doubt of it.
            outer = set(np.flatnonzero(compiled.classes[name].pieces.is_outer).tolist())
            inner = [k for k in range(len(listed)) if k not in outer]
            codes = compiled.classes[name].codes
            assert [[profiles[one] == profiles[other] for other in inner] for one in inner] == [
                [codes[one] == codes[other] for other in inner] for one in inner
            ], texts
        else:
            assert len(set(profiles)) == 1, texts


WIDE = {
    "BIGINT": ("-4000000000000000000", "4000000000000000000", ("0", "-1", "4000000000000000000", "12345.5")),
    "DECIMAL(18,3)": ("-1000000000", "1000000000", ("0", "0.001", "0.0005", "999999999.999")),
    "DOUBLE": ("-1e300", "1e300", ("0", "-0.0", "5e-324", "'inf'", "'nan'", "0.1")),
    "FLOAT": ("-1e30", "1e30", ("0", "0.1", "1e30", "0.1::FLOAT")),
    "DATE": ("'0001-01-01'", "'9999-12-31'", ("'2020-02-29'", "'infinity'", "'0001-01-01'")),
    "TIMESTAMP": ("'0001-01-01'", "'9999-12-31'", ("'2020-02-29 12:00:00'", "'infinity'", "'9999-12-31'")),
}


@pytest.mark.parametrize("type_text", WIDE)
def test_wide_domains_are_never_listed(con: duckdb.DuckDBPyConnection, sandbox: Sandbox, type_text: str) -> None:
    """Pieces are at most each constant, its two neighbours, and what lies between; their ends are DuckDB's."""
    low, high, constants = WIDE[type_text]
    table = Table({"x": (Kind(type_text, (), (), ()), f"NULL, {low}, {high}, NULL", True, False)}, [])
    domain = table.create(con)
    texts = [f"x {operator} {constant}" for constant in constants for operator in ("<", "<=", ">", ">=", "=", "<>")]
    texts += [f"CASE WHEN x > {constant} THEN x IS NOT NULL ELSE x < {constants[0]} END" for constant in constants]
    grouped = f"CASE WHEN x < {constants[0]} THEN 'below' WHEN x IS NULL THEN 'none' ELSE 'above' END"
    compiled = compile_workload(
        domain, Workload((*(Query(text) for text in texts), Query(group_by=(grouped,), verbatim=False))), sandbox
    )
    pieces = compiled.classes["x"].pieces
    assert len(pieces) <= 4 * len(constants) + 2
    assert (pieces.lows <= pieces.highs).all()
    attribute = domain["x"]
    # Every piece lies on one side of every constant: DuckDB says the same of both its ends.
    ends = [
        f"('{attribute.text(low)}'::{type_text}, '{attribute.text(high)}'::{type_text})"
        for low, high in zip(pieces.lows.tolist(), pieces.highs.tolist(), strict=True)
    ]
    con.execute(f"CREATE OR REPLACE TABLE ends AS SELECT * FROM (VALUES {', '.join(ends)}) AS v(l, h)")
    for text in texts:
        at_low, at_high = (re.sub(r"\bx\b", end, text) for end in "lh")
        assert con.execute(f"SELECT count(*) FROM ends WHERE ({at_low}) IS DISTINCT FROM ({at_high})").fetchall() == [
            (0,)
        ], text


def test_too_much_to_list_says_what_to_declare(sandbox: Sandbox) -> None:
    wide = Attribute("x", "BIGINT", nullable=True, low=0, high=10**9)
    other = Attribute("y", "INTEGER", nullable=False, low=0, high=99_000)
    domain = Domain("t", ("x", "y", "z"), (wide, other, replace(other, name="z")))
    for query in (Query(group_by=("x",)), Query(measure="x")):
        with pytest.raises(
            DomainError,
            match=r"attribute x has 1,000,000,002 values, .* Hint: declare step, bins or values in a domain table",
        ):
            compile_workload(domain, Workload((query,)), sandbox)
    for query, why in (
        (Query("x % 2 = 0"), "changes at too many values of x"),
        (Query(measure="CASE WHEN x % 2 = 0 THEN 1 END"), "changes at too many values of x"),
        (Query("x > y"), "joins x with another column value by value, and it has 1,000,000,001"),
        (Query("y > z"), "joins y, z value by value"),
    ):
        with pytest.raises(CellsError, match=rf"{why}.* Hint: make it a column: CREATE VIEW \S+ AS SELECT"):
            compile_workload(domain, Workload((query,)), sandbox)
