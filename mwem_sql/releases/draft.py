"""A workload against a public domain, before it is planned: compiled, with the rules and totals of its columns.

Every refusal of what a workload asks for happens here. Public all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mwem_sql.compile.check import check_constants, flat
from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.compile.read import columns_read
from mwem_sql.compile.rules import Breach, breaches, cuts
from mwem_sql.compile.totals import Counted, conditions, total_of_all
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import RELEASE, WorkloadError, literal, refuse
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.releases.request import Request


class Draft(NamedTuple):
    """A workload against a public domain, predicates that are never true there, and rules and totals of its columns.

    `total` is the number of rows if totals of other columns say it.
    """

    compiled: Compiled
    idle: Sequence[str]
    rules: Sequence[Breach]
    counted: Counted
    total: float | None


def never_true(idle: Sequence[str]) -> str:
    first = flat(idle[0])
    if len(idle) == 1:
        return f"predicate {first!r} is never true on the declared domain"
    return f"predicates {first!r} and {len(idle) - 1:,} more are never true on the declared domain"


def draft_of(request: Request, domain: Domain, sandbox: Sandbox) -> Draft:
    """A workload compiled against a domain."""
    used = columns_read(domain, request.workload) if domain.rules or domain.totals else set()
    rules = breaches(domain, used, sandbox)
    totals = domain.totals_about(used)
    cutting = (*cuts(rules), *conditions(totals))
    compiled = compile_workload(domain, request.workload, sandbox, cuts=cutting)
    of_totals = Counted.of(totals, compiled.cuts[len(cutting) - len(conditions(totals)) :])
    idle = check_constants(compiled, sandbox)
    if not compiled.classes:
        what = f"the workload ({len(request.workload)} rows) asks about no column, so there is nothing to synthesize"
        raise refuse(WorkloadError, RELEASE, what, "add a predicate or a group_by over a column")
    # Totals of columns that nobody asks about may say how many rows there are.
    total = total_of_all(domain, sandbox, request.total) if len(totals) < len(domain.totals) else None
    return Draft(compiled, idle, rules, of_totals, total)


def check_possible(request: Request, idle: Sequence[str]) -> None:
    if idle and {query.predicate for query in request.workload} <= set(idle):
        what = f"the workload asks for nothing that is possible: {never_true(idle)}"
        hint = f"ask for values that are possible: FROM mwem_domain({literal(request.table)}) lists them"
        raise refuse(WorkloadError, RELEASE, what, hint)
