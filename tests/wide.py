"""Attributes with a wide domain, and workloads on them."""

from __future__ import annotations

from collections.abc import Sequence

from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload

DAY = 18_262


DOMAIN = Domain(
    "t",
    ("age", "pay", "n", "far", "d", "p", "r", "ts", "w"),
    (
        Attribute("age", "INTEGER", nullable=False, low=0, high=99),
        Attribute("pay", "DOUBLE", nullable=True, low=0.0, high=1e6),
        Attribute("n", "INTEGER", nullable=True, low=-3_000, high=3_000),
        Attribute("far", "BIGINT", nullable=False, low=2**60, high=2**60 + 3_000),
        Attribute("d", "DATE", nullable=False, low=DAY, high=DAY + 3_000),
        Attribute("p", "DECIMAL(9,2)", nullable=True, low=0, high=90_000_000),
        Attribute("r", "FLOAT", nullable=True, low=0.0, high=2.0**20),
        Attribute("ts", "TIMESTAMP", nullable=False, low=DAY * 86_400 * 10**6, high=(DAY + 90) * 86_400 * 10**6),
        Attribute("w", "VARCHAR", nullable=True, values=tuple(f"v{k}" for k in range(3_000))),
    ),
)


def compiled_from(sandbox: Sandbox, texts: Sequence[str]) -> Compiled:
    return compile_workload(DOMAIN, Workload.from_predicates(texts), sandbox)


SHAPES = {
    "two columns": "age >= {small} AND pay > {k}.5",
    "integers": "n <= {near}",
    "dates": "d >= DATE '2020-01-01' + {k}",
    "decimals": "p < {k}.255",
    "between": "pay BETWEEN {k} AND {k}.5",
    "lists": "pay IN ({k}, {k}.5, 7)",
    "texts": "w <> 'v{k}'",
}


def wide(shape: str, count: int) -> list[str]:
    return [SHAPES[shape].format(k=k, small=k % 90, near=k - 1_000) for k in range(count)]
