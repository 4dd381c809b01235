"""Differentially private synthetic tables inside DuckDB: `CALL mwem_release('adult', workload, 0.5)`."""

from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import (
    BudgetError,
    CancelledError,
    CellsError,
    DomainError,
    EngineError,
    MwemError,
    OptionError,
    OutputError,
    PredicateError,
    TableError,
    WorkloadError,
)
from mwem_sql.platform.calls import cancel
from mwem_sql.server.serve import serve
from mwem_sql.surface.api import (
    Release,
    answer,
    attach,
    average,
    budget,
    compare,
    count,
    count_interval,
    detach,
    domain,
    export,
    known,
    ledger,
    marginals,
    parities,
    partition,
    plan,
    policy,
    public,
    quality,
    quantile,
    ranges,
    release,
    report,
    rules,
    sample,
    sources,
    suggest_domain,
    weights,
    withdraw,
)
from mwem_sql.surface.frames import load
from mwem_sql.surface.register import connect, register, unregister
from mwem_sql.workload import Query, Workload

__all__ = [
    "Attribute", "BudgetError", "CancelledError", "CellsError", "Domain", "DomainError", "EngineError", "MwemError",
    "OptionError", "OutputError", "PredicateError", "Query", "Release", "TableError", "Workload", "WorkloadError",
    "answer", "attach", "average", "budget", "cancel", "compare", "connect", "count", "count_interval", "detach",
    "domain", "export", "known", "ledger", "load", "marginals", "parities", "partition", "plan", "policy", "public",
    "quality", "quantile",
    "ranges", "register", "release", "report", "rules", "sample", "serve",
    "sources", "suggest_domain", "unregister", "weights",
    "withdraw",
]  # fmt: skip
