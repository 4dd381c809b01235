"""Differentially private synthetic tables inside DuckDB: `CALL mwem_release('adult', workload, 0.5)`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        WithheldError,
        WorkloadError,
    )
    from mwem_sql.platform.calls import cancel
    from mwem_sql.server.serve import serve
    from mwem_sql.surface.api import (
        Release,
        answer,
        approve,
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
        refuse,
        release,
        report,
        request,
        requests,
        rules,
        sample,
        sources,
        suggest_domain,
        weights,
        withdraw,
        withdraw_request,
    )
    from mwem_sql.surface.frames import load
    from mwem_sql.surface.register import connect, register, unregister
    from mwem_sql.workload import Query, Workload

__all__ = [
    "Attribute", "BudgetError", "CancelledError", "CellsError", "Domain", "DomainError", "EngineError", "MwemError",
    "OptionError", "OutputError", "PredicateError", "Query", "Release", "TableError", "WithheldError", "Workload",
    "WorkloadError", "answer", "approve", "attach", "average", "budget", "cancel", "compare", "connect", "count",
    "count_interval", "detach", "domain", "export", "known", "ledger", "load", "marginals", "parities", "partition",
    "plan", "policy", "public", "quality", "quantile", "ranges", "refuse", "register", "release", "report", "request",
    "requests", "rules", "sample", "serve", "sources", "suggest_domain", "unregister", "weights", "withdraw",
    "withdraw_request",
]  # fmt: skip

_HOMES = {
    "Attribute": "domains.attribute", "Domain": "domains.domain", "Query": "workload", "Workload": "workload",
    "cancel": "platform.calls", "connect": "surface.register", "load": "surface.frames",
    "register": "surface.register", "serve": "server.serve", "unregister": "surface.register",
}  # fmt: skip
"""Where a name is: errors in `errors`, and what is not listed here in `surface.api`."""

if not TYPE_CHECKING:  # a type checker knows all names

    def __getattr__(name: str) -> object:
        """What is used is imported when it is first used: who connects and asks nothing waits for nothing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = _HOMES.get(name, "errors" if name.endswith("Error") else "surface.api")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
