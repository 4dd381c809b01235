"""What each dialect writes, as golden SQL, and the rules that it keeps: no row over the wire, nothing that can raise.

`MWEM_GOLDEN=write pytest tests/scan/test_dialects.py` writes the files anew.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
import sqlglot
from chance import sampled
from sqlglot import exp

from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, OptionError
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.parts import Aggregates, GroupBy, Product
from mwem_sql.scan.pushdown import plan_pushdown
from mwem_sql.workload import Query, Workload

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "dialects"
FOREIGN = sorted(set(DIALECTS) - {"duckdb"})
TABLE = Name("census", "public", "people")
DOMAIN = Domain(
    "people",
    ("age", "sex", "city", "yes", "pay", "day", "moment"),
    (
        Attribute("age", "INTEGER", nullable=True, low=0, high=99),
        Attribute("sex", "ENUM('F', 'M')", nullable=False, values=("F", "M")),
        Attribute("city", "VARCHAR", nullable=True, values=("Bern", "Zürich", "it's"), open=True),
        Attribute("yes", "BOOLEAN", nullable=False, values=("false", "true")),
        Attribute("pay", "DECIMAL(10,2)", nullable=False, low=0, high=100_000_00),
        Attribute("day", "DATE", nullable=False, low=18_000, high=19_000),
        Attribute("moment", "TIMESTAMP WITH TIME ZONE", nullable=False, low=0, high=10**15),
    ),
)


@cache
def compiled(*queries: Query) -> Compiled:
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        return compile_workload(DOMAIN, Workload(queries), sandbox)


ASKED = (
    Query(group_by=("sex", "city")), Query("age BETWEEN 18 AND 64 AND yes"), Query("pay > 500.5"),
    Query("day >= '2020-06-01' AND city = 'Bern'"),
    Query("moment < '1990-01-01 00:00:00+00'"),
)  # fmt: skip
WIDE = tuple(Query(f"age < {k}") for k in range(1, 90))


def statements(name: str, queries: tuple[Query, ...], unit: Unit | None = None) -> list[str]:
    made = compiled(*queries)
    dialect = DIALECTS[name]
    found = plan_pushdown(TABLE, made.classes, [query.linear for query in made.queries], unit, dialect)
    return [dialect.sql(statement, pretty=True) for part in found.parts for statement in part.statements]


@pytest.mark.parametrize("name", FOREIGN)
def test_golden_sql(name: str) -> None:
    texts = {
        "a workload": statements(name, ASKED), "a column that is cut often": statements(name, WIDE),
        "at most three rows of a person": statements(name, ASKED[1:2], Unit("person", 3, "VARCHAR")),
    }  # fmt: skip
    written = _page("Run against DuckDB by tests/engines.", texts)
    path = GOLDEN / f"{name}.sql"
    if os.environ.get("MWEM_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(written, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == written
    for found in texts.values():
        for text in found:
            sqlglot.parse_one(text, dialect=name)


def _page(head: str, texts: dict[str, list[str]]) -> str:
    parts = [f"-- {head}"]
    for what, found in texts.items():
        parts.append(f"\n-- {what}")
        parts += [f"{text};" for text in found]
    return "\n".join([*parts, ""])


@pytest.mark.parametrize("name", FOREIGN)
def test_only_counts_of_public_cells_leave_an_engine(name: str) -> None:
    """Every statement groups or aggregates, and no column of a row is among its outputs."""
    made = compiled(*ASKED, *WIDE)
    found = plan_pushdown(TABLE, made.classes, [query.linear for query in made.queries], None, DIALECTS[name])
    for part in found.parts:
        assert isinstance(part, (GroupBy, Aggregates)) and not isinstance(part, Product)
        for statement in part.statements:
            if isinstance(part, GroupBy):
                shown = {item.unalias().sql() for item in statement.expressions[:-1]}
                assert shown == {group.sql() for group in statement.args["group"].expressions}
            else:
                assert all(item.find(exp.AggFunc) for item in statement.expressions)


@pytest.mark.parametrize("name", sampled(FOREIGN, 2))
def test_many_pairs_are_grouped_and_never_streamed(name: str) -> None:
    made = pairs()
    queries = [query.linear for query in made.queries]
    assert any(isinstance(part, Product) for part in plan_pushdown(TABLE, made.classes, queries).parts)
    dialect = DIALECTS[name]
    found = plan_pushdown(TABLE, made.classes, queries, None, dialect)
    assert dialect.most_groups is not None
    for part in found.parts:
        assert isinstance(part, GroupBy)
        assert sum(histogram.cells for histogram in part.histograms) <= dialect.most_groups


@cache
def pairs() -> Compiled:
    """All pairs of forty truth values."""
    attributes = tuple(Attribute(f"b{k}", "BOOLEAN", nullable=False, values=("false", "true")) for k in range(40))
    domain = Domain("wide", tuple(own.name for own in attributes), attributes)
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        return compile_workload(domain, Workload.marginals(domain, 2), sandbox)


@pytest.mark.parametrize("name", FOREIGN)
def test_what_engines_print_in_different_ways_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=r"unit \('x'\) is of type DOUBLE, of which engines print the same value"):
        statements(name, ASKED[:1], Unit("x", 1, "DOUBLE"))
    odd = Domain("t", ("v",), (Attribute("v", "INTERVAL", nullable=False, values=("1 month", "30 days")),))
    with Sandbox({"TimeZone": "UTC"}) as sandbox:
        made = compile_workload(odd, Workload((Query(group_by=("v",)),)), sandbox)
    with pytest.raises(DomainError, match="values of type INTERVAL are not compared in the same way by all engines"):
        plan_pushdown(TABLE, made.classes, [query.linear for query in made.queries], None, DIALECTS[name])


@pytest.mark.parametrize("column", ["s", "s_step", "a b", "Place", "person.age"])
def test_names_inside_a_lambda_hide_no_column(column: str) -> None:
    """And have no dot: Spark takes what is before one for a struct, even in quotes, and the scan fails."""
    scale = Attribute(column, "INTEGER", nullable=False, low=0, high=200).ordered
    tree = DIALECTS["spark"].steps(exp.column(column, quoted=True), scale, range(200), range(200))
    names = {name.name.lower() for name in tree.find(exp.Lambda).expressions}
    assert len(names) == 2 and column.lower() not in names and not any("." in name for name in names)
